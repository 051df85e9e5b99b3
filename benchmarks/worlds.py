"""Rows of worlds beyond the paper's: each at most so many times the cost of dec-TS on its arms."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
from measuring import Row, build_simulation

import posse
from posse.bandits import RandomWalk
from posse.families import GaussianUnknownVariance

AGENTS, ARMS, HORIZON, RUNS = 50, 17, 1000, 16
TS = posse.ThompsonSampling()


def draw_instances(n_instances: int, seed: int = 1) -> Iterator[tuple[str, np.ndarray]]:
    """Means of arms: close, spread and drawn anew for each further instance."""
    generator = np.random.default_rng(seed)
    yield "close", np.array([0.5] + [0.4] * (ARMS - 1))
    yield "spread", np.linspace(0.1, 0.9, ARMS)
    for number in range(n_instances - 2):
        yield f"drawn {number + 1}", generator.uniform(0.0, 1.0, ARMS)


def time_by_processor(run) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start


def world_rows(rounds: int) -> Iterator[Row]:
    """Half-lives, drift, delays, top-two sampling, unknown variances against dec-TS, in turns."""
    network = posse.networks.cycle(AGENTS)
    for instance, means in draw_instances(3):
        gaussian, bernoulli = posse.Bandit.gaussian(means), posse.Bandit.bernoulli(means)
        unknown = {"family": GaussianUnknownVariance()}
        worlds = {
            "half-life 300": (gaussian, gaussian, {"half_life": 300}, 2.0),
            "drift, a walk": (gaussian, gaussian.drifting(RandomWalk(0.1, 300)), {}, 2.0),
            "drift, rotation, half-life 300": (
                gaussian, gaussian.drifting(every=250), {"half_life": 300}, 2.0,
            ),
            "delays of 20, wait": (gaussian, gaussian.delayed(mean=20), {}, 3.0),
            "delays of 20, count": (
                bernoulli, bernoulli.delayed(mean=20), {"open": "count"}, 3.0,
            ),
            "top-two": (gaussian, gaussian, {"policy": posse.TopTwo()}, 3.0),
            "top-two, Bernoulli": (bernoulli, bernoulli, {"policy": posse.TopTwo()}, 3.0),
            "unknown variance": (gaussian, gaussian, unknown, 2.0),
            "Tree, delays of 20, wait": (
                gaussian, gaussian.delayed(mean=20), {"algorithm": posse.Tree}, 3.0,
            ),
            "Tree, delays of 20, count": (
                bernoulli, bernoulli.delayed(mean=20),
                {"algorithm": posse.Tree, "open": "count"}, 3.0,
            ),
            "Flooding, delays of 20, wait": (
                gaussian, gaussian.delayed(mean=20), {"algorithm": posse.Flooding}, 3.0,
            ),
            "Flooding, delays of 20, count": (
                bernoulli, bernoulli.delayed(mean=20),
                {"algorithm": posse.Flooding, "open": "count"}, 3.0,
            ),
        }  # fmt: skip
        for name, (plain, world, options, at_most) in worlds.items():
            fields = {"policy": TS, "algorithm": posse.Decentralized, **options}
            algorithm = fields.pop("algorithm")
            contenders = {
                "dec-TS": build_simulation(plain, network, posse.Decentralized(TS), HORIZON, RUNS),
                "world": build_simulation(world, network, algorithm(**fields), HORIZON, RUNS),
            }
            times = {contender: [] for contender in contenders}
            for round_ in range(rounds + 1):
                for contender, run in contenders.items():
                    seconds = time_by_processor(run)
                    if round_ > 0:  # the first round compiles and warms caches up
                        times[contender].append(seconds)
            ratios = np.divide(times["world"], times["dec-TS"])
            steps = RUNS * AGENTS * HORIZON
            yield {
                "what": f"{name}, {instance} means, N=50 K=17 T=1000, against dec-TS",
                "ratio": float(np.median(ratios)),
                "at_most": at_most,
                "ns_per_agent_step": {
                    contender: 1e9 * min(seconds) / steps for contender, seconds in times.items()
                },
            }
