"""What the tests of the kernels share: beliefs in both engines' forms, and the kernels called bare.

The kernels keep (count, total) for every arm; the reference keeps each family's own coordinates.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import posse
from posse import families
from posse.lab.compiled import beliefs, engine
from posse.lab.compiled.random import U64, key_of

FAMILY_OF_BELIEF = {
    "GAUSSIAN": families.Gaussian(),
    "BETA": families.Bernoulli(),
    "GAMMA": families.Poisson(),
    "INVERSE_GAMMA": families.Exponential(),
}


def _coordinates(name: str, count: Any, total: Any) -> np.ndarray:
    """The family's own coordinates (2, ...) of a pair (count, total)."""
    if name == "BETA":
        return np.stack([total, count - total])
    return np.stack([count, total]) if name == "INVERSE_GAMMA" else np.stack([total, count])


@pytest.fixture(scope="session", params=FAMILY_OF_BELIEF)
def belief(request: pytest.FixtureRequest) -> Any:
    """Each kind of belief: its name, code, family, and its coordinates from (count, total)."""
    name = request.param
    return SimpleNamespace(
        name=name,
        code=getattr(beliefs, name),
        family=FAMILY_OF_BELIEF[name],
        coordinates=lambda count, total: _coordinates(name, count, total),
    )


@pytest.fixture(scope="session")
def choose() -> Any:
    """Call a choose kernel for many agents; returns their arms and next pivots.

    rows: (K,) counts and totals held by all agents alike, or (N, K) of each.
    """

    def call(
        kernel, code, counts, totals, n_agents, *, level, pivots=0, t=5, run=0, seed=0, drawing=0,
        thresholds=None,
    ):  # fmt: skip
        counts, totals = np.asarray(counts, float), np.asarray(totals, float)
        shared, n_arms = counts.ndim == 1, counts.shape[-1]
        state = np.stack([counts, totals], axis=-2).reshape(-1)
        arms = np.zeros(n_agents, np.uint32)
        led = np.array(np.broadcast_to(pivots, n_agents), np.uint32)
        kernel(
            state, np.zeros(0), shared, code, float(level),
            np.zeros(0) if thresholds is None else thresholds,
            arms, led, np.full(1, drawing, np.uint8), np.zeros(1, np.int32),
            np.empty((n_agents + 64) * max(8, 3 * (n_arms + 1)) + 256),
            np.empty((n_agents + 64) * (n_arms + 1), np.uint32), np.zeros(8, np.uint64),
            U64(0), U64(n_agents), U64(n_agents), U64(n_arms), U64(run), U64(t), *key_of(seed),
        )  # fmt: skip
        return arms, led

    return call


@pytest.fixture
def play(monkeypatch):
    """Simulate three runs with seed 5, and keep the rows that the engine worked on."""
    kept = []

    class Kept(engine.Rows):
        def __post_init__(self):
            super().__post_init__()
            kept.append(self)

    monkeypatch.setattr(engine, "Rows", Kept)

    def run(bandit, network, algorithm, horizon):
        kept.clear()
        result = posse.simulate(
            bandit, network, algorithm,
            horizon=horizon, runs=3, seed=5, engine="compiled", threads=1,
        )  # fmt: skip
        (rows,) = kept
        return result, rows

    return run
