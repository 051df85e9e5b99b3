"""Rows of agents that sleep: each at most so many times the cost of the same agents all playing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from measuring import Row, build_simulation, time_interleaved

import posse
from posse.activity import Asleep

ARMS = 17
AT_MOST = 1.3
MEANS = np.array([0.5] + [0.4] * (ARMS - 1))
TS = posse.ThompsonSampling()
NETWORKS = {
    "cycle": posse.networks.cycle(100),
    "4-regular": posse.networks.random_regular(100, degree=4, seed=1),
    "star": posse.networks.star(100),
}
BANDITS = {"Gaussian": posse.Bandit.gaussian(MEANS), "Bernoulli": posse.Bandit.bernoulli(MEANS)}
POLICIES = {"TS": TS, "greedy": posse.Greedy()}


def list_cases() -> Iterator[tuple[str, tuple[Any, ...], bool]]:
    """A name, the arguments of a simulation, and whether its kernels can cut sleepers off."""
    for graph, network in NETWORKS.items():
        for family, bandit in BANDITS.items():
            for label, policy in POLICIES.items():
                case = (bandit, network, posse.Decentralized(policy), 500, 20)
                yield f"dec-{label}, {family}, {graph}, N=100 K=17", case, True
    few = posse.Bandit.gaussian([0.5, 0.1])
    yield (
        "dec-TS, Gaussian, cycle, N=10 K=2",
        (few, posse.networks.cycle(10), posse.Decentralized(TS), 1000, 300),
        True,
    )
    gaussian, cycle = BANDITS["Gaussian"], NETWORKS["cycle"]
    yield "Tree, Gaussian, cycle, N=100 K=17", (gaussian, cycle, posse.Tree(TS), 1000, 20), True
    yield (
        "flooding, Gaussian, cycle, N=100 K=17",
        (gaussian, cycle, posse.Flooding(TS), 300, 10),
        False,
    )


def sleeper_rows(rounds: int) -> Iterator[Row]:
    """Agents that sleep with probability 0.1, 0.5 or 0.9, relaying or down, against all playing."""
    for what, case, cuts_off in list_cases():
        sleeps = {
            f"p={p}, {'relays' if relays else 'down'}": Asleep(p, relays=relays)
            for p in (0.1, 0.5, 0.9)
            for relays in ((True, False) if cuts_off else (True,))
        }
        contenders = {
            name: build_simulation(*case, activity=activity)
            for name, activity in {"all play": None, **sleeps}.items()
        }
        best = time_interleaved(contenders, rounds, time.process_time)
        steps = case[1].n_agents * case[3] * case[4]
        for name, activity in sleeps.items():
            yield {
                "what": f"sleep, {name}: {what}, against all play",
                "ratio": best[name] / best["all play"],
                "at_most": AT_MOST,
                "ns_per_agent_step": {
                    "all play": 1e9 * best["all play"] / steps,
                    "sleep": 1e9 * best[name] / steps,
                    "a play": 1e9 * best[name] / (steps * (1 - activity.p)),
                },
            }
