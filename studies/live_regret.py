"""Regret of live agents that lose a fifth of their messages, beside the lab's algorithms."""

from __future__ import annotations

import runpy
from multiprocessing import Pool
from pathlib import Path
from types import SimpleNamespace

import numpy as np

import posse
from posse import families, networks

live = SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("live_network.py"))))
MEANS = (0.7, 0.6, 0.5, 0.4, 0.3)
HORIZON = 400
NETWORKS = {"cycle": networks.cycle(16)}


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


def row(name, regrets):
    """A line of the table."""
    return f"| {name} | {len(regrets)} | {describe(regrets)} |"


def study(runs=200):
    """The table of docs/calibration.md, and what it must not show."""
    play = posse.ThompsonSampling()
    lab = {
        "isolated agents": of_the_lab("cycle", posse.Isolated(play), 2000),
        "synchronous Algorithm 1, nothing lost": of_the_lab(
            "cycle", posse.Decentralized(play), 2000
        ),
    }
    with Pool() as pool:
        live = {
            f"{exchange}, 20% lost": pool.starmap(
                of_live_agents, [("cycle", exchange, seed) for seed in range(runs)], chunksize=1
            )
            for exchange in ("flows", "origins")
        }
    lines = ["| | runs | regret |", "|---|---|---|"]
    lines += [row(name, regrets) for name, regrets in (lab | live).items()]
    synchronous = np.mean(lab["synchronous Algorithm 1, nothing lost"])
    wrong = []
    if np.mean(live["flows, 20% lost"]) > 1.3 * synchronous:
        wrong.append("flows are more than 30% worse than synchronous merges")
    difference = np.mean(live["origins, 20% lost"]) - synchronous
    if difference > 2.33 * standard_error(live["origins, 20% lost"]):
        wrong.append("origins are worse than synchronous merges")
    return "\n".join(lines), wrong
