"""Regret of live agents that lose a fifth of their messages, beside the lab's algorithms.

python tests/live/statistics/regret.py --runs 200
"""

from __future__ import annotations

import argparse
import runpy
from multiprocessing import Pool
from pathlib import Path
from types import SimpleNamespace

import numpy as np

import posse
from posse import families, networks

live = SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("network.py"))))
MEANS = (0.7, 0.6, 0.5, 0.4, 0.3)
HORIZON = 400
NETWORKS = {"cycle": networks.cycle(16), "grid": networks.grid(4, 4)}


def of_live_agents(network, exchange, seed, loss=0.2):
    """The regret per agent of one run."""
    agents = live.LiveNetwork(
        NETWORKS[network], MEANS, families.Bernoulli(), exchange, seed=seed, loss=loss
    )
    for _ in range(HORIZON):
        agents.round()
    return agents.regret


def of_the_lab(network, algorithm, runs):
    """The regret per agent of each run."""
    bandit = posse.Bandit.bernoulli(list(MEANS))
    result = posse.simulate(
        bandit, NETWORKS[network], algorithm, horizon=HORIZON, runs=runs, record=[HORIZON]
    )
    return np.asarray(result.regret)[:, -1]


def describe(regrets):
    """Mean and 95% interval over runs."""
    return f"{np.mean(regrets):.2f} ± {1.96 * standard_error(regrets):.2f}"


def standard_error(regrets):
    """Of the mean over runs."""
    return np.std(regrets, ddof=1) / len(regrets) ** 0.5


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--networks", nargs="+", default=["cycle"], choices=NETWORKS)
    asked = parser.parse_args()
    play = posse.ThompsonSampling()
    for network in asked.networks:
        for name, algorithm in {
            "isolated": posse.Isolated(play),
            "synchronous": posse.Decentralized(play),
        }.items():
            print(f"| {network} | {name} | {describe(of_the_lab(network, algorithm, 2000))} |")
        for exchange in ("flows", "origins"):
            with Pool(2) as pool:
                jobs = [(network, exchange, seed) for seed in range(asked.runs)]
                regrets = pool.starmap(of_live_agents, jobs, chunksize=1)
            print(f"| {network} | {exchange}, 20% loss | {describe(regrets)} |", flush=True)


if __name__ == "__main__":
    main()
