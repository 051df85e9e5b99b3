"""The row of partial pooling: kernels against the reference engine, on instances from a seed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from measuring import Row, build_simulation, compare_with_plain

import posse

AGENTS = 50
ARMS = 17
HORIZON = 300


def pooling_rows(rounds: int) -> Iterator[Row]:
    """Three instances: other arms, and sites that differ more or less."""
    generator = np.random.default_rng(27)
    network = posse.networks.cycle(AGENTS)
    algorithm = posse.PartialPooling(posse.ThompsonSampling())
    for instance in range(3):
        site_sd = generator.uniform(0, 0.5)
        bandit = posse.Bandit.bernoulli(generator.uniform(0.05, 0.8, ARMS), site_sd=site_sd)
        yield compare_with_plain(
            f"PartialPooling, N=50 K=17 T=300, instance {instance + 1}, against the reference",
            12, None, rounds,
            (
                build_simulation(bandit, network, algorithm, HORIZON, 2, engine="reference"),
                2 * AGENTS * HORIZON,
            ),
            (build_simulation(bandit, network, algorithm, HORIZON, 16), 16 * AGENTS * HORIZON),
        )  # fmt: skip
