"""Instances on which the constants of rivals are tuned, drawn from a seed.

    .venv/bin/python studies/tuning_instances.py     # list them

None of them is an instance of the arena, and no algorithm of Posse was developed on them. The seed
and the ranges were chosen once, before anything was simulated on these instances or any tuned rival
had played in the arena. `studies/lab_tuned_rivals.py` tunes on all of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import posse
from posse import networks

SEED = 20261119
COUNT = 16


@dataclass(frozen=True)
class Instance:
    """A bandit on a static network, played for some rounds."""

    bandit: posse.Bandit
    network: networks.Network
    horizon: int


def draw_log_uniform(generator, low, high):
    """A number between two bounds whose logarithm is uniform."""
    return float(np.exp(generator.uniform(np.log(low), np.log(high))))


def draw_bandit(generator):
    """3 to 30 Gaussian (sigma 1) or Bernoulli arms: one good arm, evenly spread, or random."""
    is_gaussian = generator.random() < 2 / 3
    n_arms = int(np.round(draw_log_uniform(generator, 3, 30)))
    gap = draw_log_uniform(generator, 0.03, 0.6) if is_gaussian else generator.uniform(0.02, 0.25)
    best = 0.5 if is_gaussian else generator.uniform(2.2 * gap, 0.9)
    pattern = generator.choice(["one good arm", "evenly spread", "random"])
    if pattern == "one good arm":
        means = np.array([best] + [best - gap] * (n_arms - 1))
    elif pattern == "evenly spread":
        means = np.linspace(best, best - 2 * gap, n_arms)
    else:
        means = best - 2 * gap * generator.random(n_arms)
    means = np.round(means, 3).tolist()
    return posse.Bandit.gaussian(means) if is_gaussian else posse.Bandit.bernoulli(means)


def draw_network(generator):
    """A static network of 6 to 80 agents with the default weights."""
    agents = int(np.round(draw_log_uniform(generator, 6, 80)))
    side = max(3, int(np.round(np.sqrt(agents))))
    seed = int(generator.integers(1000))
    graph = {
        "complete": lambda: networks.complete(agents),
        "cycle": lambda: networks.cycle(agents),
        "path": lambda: networks.path(agents),
        "star": lambda: networks.star(agents),
        "grid": lambda: networks.grid(side, side),
        "attachment 1": lambda: networks.barabasi_albert(agents, 1, seed=seed),
        "attachment 2": lambda: networks.barabasi_albert(agents, 2, seed=seed),
        "small world": lambda: networks.watts_strogatz(agents, 4, 0.2, seed=seed),
        "geometric": lambda: networks.random_geometric(agents, 2 / np.sqrt(agents), seed=seed),
    }
    return graph[str(generator.choice(list(graph)))]()


def draw_instances(seed=SEED, count=COUNT):
    """Draw the instances; one whose random graph is not connected is drawn again."""
    generator = np.random.default_rng(seed)
    instances = []
    while len(instances) < count:
        bandit = draw_bandit(generator)
        horizon = int(generator.choice([500, 1000, 2000]))
        try:
            network = draw_network(generator)
        except ValueError:  # not connected
            continue
        instances.append(Instance(bandit, network, horizon))
    return instances


if __name__ == "__main__":
    for number, instance in enumerate(draw_instances(), 1):
        print(number, instance)
