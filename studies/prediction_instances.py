"""Held-out instances of `theory.predicted_regret`, drawn from a seed before any was simulated.

    .venv/bin/python studies/prediction_instances.py     # list them

No number of the predictor was fitted on these instances. The seed was chosen once (the date of the
draw) and not changed afterwards; `studies/lab_prediction.py` simulates all of them and writes the
table of docs/predicted-regret.md, the bad ones too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

import posse
from posse import networks

SEED = 20261118
COUNT = 20


@dataclass(frozen=True)
class Instance:
    """A bandit on a network, played for some rounds."""

    bandit: posse.Bandit
    network: networks.Network
    horizon: int


def draw_means(generator, family):
    """Means of 2 to 20 arms in one of three patterns: one good arm, evenly spread, or random."""
    n_arms = int(generator.integers(2, 21))
    best = generator.uniform(0.3, 0.9)
    gap = generator.uniform(0.05, 0.25) if family == "bernoulli" else generator.uniform(0.1, 0.6)
    pattern = generator.choice(["one good arm", "evenly spread", "random"])
    if pattern == "one good arm":
        means = np.array([best] + [best - gap] * (n_arms - 1))
    elif pattern == "evenly spread":
        means = np.linspace(best, best - 2 * gap, n_arms)
    else:
        means = best - 2 * gap * generator.random(n_arms)
    if family == "bernoulli":
        means = np.clip(means, 0.02, 0.98)
    return np.round(means, 3).tolist()


def draw_network(generator):
    """A network of 9 to 150 agents: static, with failing links, or gossiping."""
    agents = int(np.round(np.exp(generator.uniform(np.log(9), np.log(150)))))
    side = max(3, int(np.round(np.sqrt(agents))))
    seed = int(generator.integers(1000))
    graph = {
        "complete": lambda: networks.complete(agents),
        "cycle": lambda: networks.cycle(agents),
        "path": lambda: networks.path(agents),
        "star": lambda: networks.star(agents),
        "grid": lambda: networks.grid(side, side),
        "ring": lambda: networks.regular_ring(agents, 2),
        "attachment 1": lambda: networks.barabasi_albert(agents, 1, seed=seed),
        "attachment 2": lambda: networks.barabasi_albert(agents, 2, seed=seed),
        "small world": lambda: networks.watts_strogatz(agents, 4, 0.2, seed=seed),
        "geometric": lambda: networks.random_geometric(agents, 2 / np.sqrt(agents), seed=seed),
    }
    network = graph[str(generator.choice(list(graph)))]()
    dynamics = generator.choice(["static", "failing", "gossip"], p=[0.6, 0.2, 0.2])
    if dynamics == "gossip":
        return network.gossip()
    network = network.weighted(str(generator.choice(["max-degree", "metropolis"])))
    if dynamics == "failing":
        return network.failing(float(generator.choice([0.3, 0.5, 0.8])))
    return network


def draw_instances(seed=SEED, count=COUNT):
    """Draw the instances; one whose random graph is not connected is drawn again."""
    generator = np.random.default_rng(seed)
    instances = []
    while len(instances) < count:
        family = "gaussian" if generator.random() < 0.6 else "bernoulli"
        means = draw_means(generator, family)
        sigma = float(generator.choice([0.5, 1.0, 2.0]))
        horizon = int(generator.choice([300, 500, 1000, 2000, 5000]))
        bandit = (
            posse.Bandit.gaussian(means, sigma=sigma)
            if family == "gaussian"
            else posse.Bandit.bernoulli(means)
        )
        try:
            network = draw_network(generator)
        except ValueError:  # not connected
            continue
        instances.append(Instance(bandit, network, horizon))
    return instances


def draw_rare_instances(count=10):
    """Draw instances of kinds that the 20 lack by chance: failing links, and static hubs.

    They come from the next seed, and were drawn after the 20 had been simulated and before any of
    these was; the predictor did not change in between.
    """
    hubs = ("star", "barabasi_albert")
    return [
        instance
        for instance in draw_instances(SEED + 1, 100)
        if isinstance(instance.network.dynamics, networks.LinkFailure)
        or (instance.network.graph in hubs and instance.network.dynamics == networks.Static())
    ][:count]


def draw_push_sum_instances(count=10):
    """Draw instances for push-sum: static graphs with unequal degrees, and directed graphs.

    They come from a seed of their own, drawn before any of them was simulated. The closure was not
    fitted to push-sum. Every third graph is replaced by a directed one of as many agents.
    """
    generator = np.random.default_rng(SEED + 2)
    instances = []
    for instance in draw_instances(SEED + 2, 100):
        network = instance.network
        degrees = np.bincount(network.edges.ravel())
        if network.dynamics != networks.Static() or degrees.min() == degrees.max():
            continue
        if len(instances) % 3 == 2:
            links = int(generator.integers(2, 4))
            seed = int(generator.integers(1000))
            directed = networks.random_directed(network.n_agents, links, seed=seed)
            instance = replace(instance, network=directed)
        instances.append(instance)
    return instances[:count]


if __name__ == "__main__":
    drawn = [*draw_instances(), *draw_rare_instances(), *draw_push_sum_instances()]
    for number, instance in enumerate(drawn, 1):
        print(number, instance)
