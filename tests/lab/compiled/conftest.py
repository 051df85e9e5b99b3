"""What the tests of the kernels share: beliefs in both engines' forms, and the kernels called bare.

The kernels keep (count, total) for every arm; the reference keeps each family's own coordinates.
Student beliefs have a shape besides, which here grows with the count: from nearly 1/2 to thousands.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import posse
from posse import families
from posse.lab.compiled import engine
from posse.lab.compiled import registry as plan
from posse.lab.compiled.jit import KERNELS
from posse.lab.compiled.philox import U64, key_of
from posse.lab.compiled.posteriors import POSTERIORS

# A family for each kind of belief, from the tables: a new kind is tested by what is here.
FAMILIES = {kind: family() for family, kind in reversed(plan.POSTERIOR_KERNELS.items())}


def shape_of(count: Any) -> Any:
    """The shape of a Student belief of this count."""
    return 0.55 + 0.6 * np.asarray(count, float) ** 0.9


class Kind:
    """A kind of belief, its family, which is the oracle, and beliefs of any sharpness."""

    def __init__(self, name: str, family: Any) -> None:
        self.name, self.family, self.belief = name, family, POSTERIORS[name]

    def kernel(self, policy: str) -> Any:
        """Such as the kernel choose_thompson of this kind."""
        return KERNELS[f"{policy}_{self.name}"]

    def numbers(self, count: Any, total: Any) -> tuple[Any, ...]:
        """What the functions of the belief take first: (count, total), or the shape too."""
        is_student = self.belief.n_planes == 3
        return (count, total, float(shape_of(count))) if is_student else (count, total)

    def coordinates(self, count: Any, total: Any) -> np.ndarray:
        """The family's own coordinates (D, ...) of a pair (count, total)."""
        if self.belief.n_planes == 3:
            count, total = (np.asarray(x, float) for x in np.broadcast_arrays(count, total))
            shape, mean = shape_of(count), total / count
            # a Normal-Gamma whose mean has the precision shape * pulls / rate = count
            pulls = 2 * (shape - self.family.shape_offset)
            rate = shape * pulls / count
            return np.stack([pulls * mean, pulls, shape, rate + pulls * mean**2 / 2])
        return families.from_count_and_total(
            self.family, np.stack(np.broadcast_arrays(count, total))
        )

    def tail(self, count: Any, total: Any, x: Any) -> Any:
        """P(mean > x), by the family."""
        return 1 - self.family.mean_cdf(self.coordinates(count, total), x)

    def learnt(self, sizes: Any, rewards: Any) -> Any:
        """(count, total) after so many observations of such rewards each: (2, ...)."""
        if self.belief.n_planes == 3:
            return np.stack(np.broadcast_arrays(sizes, sizes * np.asarray(rewards)))
        prior = self.family.prior().reshape(-1, *[1] * np.ndim(sizes))
        statistic = self.family.statistic(np.broadcast_to(rewards, np.shape(sizes)))
        weight = families.get_optional(self.family, "observation_weight")
        return families.to_count_and_total(self.family, prior + sizes / weight * statistic)

    def rows(self, generator: Any, sizes: Any, off: Any) -> Any:
        """(count, total): arms of some sharpness that are so many deviations from a common mean.

        sizes, off: (..., K); the common mean (..., 1) is a draw of the prior.
        """
        middle = self.family.mean_quantile(
            self.family.prior().reshape(-1, *[1] * np.ndim(sizes)),
            generator.uniform(0.05, 0.95, (*np.shape(sizes)[:-1], 1)),
        )
        if self.belief.n_planes == 3:  # quantiles of its heavy tails would be too far apart
            return self.learnt(sizes, middle + np.clip(off, -7, 7) / np.sqrt(sizes))
        levels = stats.norm.cdf(np.clip(off, -7, 7))
        around = self.coordinates(*self.learnt(sizes, middle))
        return self.learnt(sizes, self.family.mean_quantile(around, levels))


@pytest.fixture(scope="session", params=FAMILIES)
def kind(request: pytest.FixtureRequest) -> Kind:
    """Each kind of belief that a family has."""
    return Kind(request.param, FAMILIES[request.param])


@pytest.fixture(scope="session")
def kind_of() -> Any:
    """A kind by its name, for what is peculiar to it."""
    return lambda name: Kind(name, FAMILIES[name])


@pytest.fixture(scope="session")
def choose() -> Any:
    """Call a choose kernel for many agents; returns their arms and next pivots.

    rows: (K,) counts and totals held by all agents alike, or (N, K) of each.
    """

    def call(
        kernel, counts, totals, n_agents, *, level, pivots=0, t=5, run=0, seed=0, drawing=0,
        thresholds=None,
    ):  # fmt: skip
        counts, totals = np.asarray(counts, float), np.asarray(totals, float)
        shared, n_arms = counts.ndim == 1, counts.shape[-1]
        called_first = kernel[0] if isinstance(kernel, list) else kernel
        planes = [counts, totals]
        planes += [shape_of(counts)] if called_first.name.endswith("STUDENT") else []
        state = np.stack(planes, axis=-2).reshape(-1)
        arms = np.zeros(n_agents, np.uint32)
        led = np.array(np.broadcast_to(pivots, n_agents), np.uint32)
        # several kernels are called one after the other, as the driver does
        for called in kernel if isinstance(kernel, list) else [kernel]:
            called(
                state, np.zeros(0), shared, float(level),
                np.zeros(0) if thresholds is None else thresholds,
                arms, led, np.full(1, drawing, np.uint8), np.zeros(1, np.int32),
                *engine.allocate_scratch(n_agents, n_arms), np.zeros(8, np.uint64),
                U64(0), U64(n_agents), U64(n_agents), U64(n_arms), U64(run), U64(t), *key_of(seed),
            )  # fmt: skip
        return arms, led

    return call


@pytest.fixture
def play(monkeypatch):
    """Simulate three runs with seed 5, and keep the rows that the engine worked on."""
    kept = []

    class Kept(engine.BlockState):
        def __post_init__(self):
            super().__post_init__()
            kept.append(self)

    monkeypatch.setattr(engine, "BlockState", Kept)

    def run(bandit, network, algorithm, horizon, activity=None):
        kept.clear()
        result = posse.simulate(
            bandit, network, algorithm,
            horizon=horizon, runs=3, seed=5, engine="compiled", threads=1, activity=activity,
        )  # fmt: skip
        (rows,) = kept
        return result, rows

    return run
