"""Rows beyond the paper: rivals and our own against plain NumPy, and a sweep on two processes."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator

import numpy as np
from measuring import Row, build_simulation, compare_with_plain, time_interleaved
from plain_numpy import cycle_weights
from plain_rivals import dist_ucb, gosine, rand_ucb, tree_thompson, ucb_network

import posse
from posse.lab.jobs.executors import processes
from posse.lab.simulator import plan_jobs
from posse.networks.spanning import spanning_tree

MEANS = np.array([0.5] + [0.1] * 16)
AGENTS = 100
HORIZON = 1000


def beyond_rows(rounds: int) -> Iterator[Row]:
    """Each algorithm on one thread, on its engine, against a plain loop of the same."""
    bandit = posse.Bandit.gaussian(MEANS)
    cycle = posse.networks.cycle(AGENTS)
    weights = cycle_weights(AGENTS)
    tree = spanning_tree(cycle)
    thompson = posse.ThompsonSampling()
    contenders = {
        "Dist-UCB": (posse.DistUCB(), lambda: dist_ucb(MEANS, AGENTS, cycle.edges, HORIZON, 4, 1)),
        "UCB-Network": (
            posse.UCBNetwork(),
            lambda: ucb_network(MEANS, AGENTS, cycle.edges, HORIZON, 4, 1),
        ),
        "GosInE": (posse.GosInE(), lambda: gosine(MEANS, AGENTS, cycle.edges, HORIZON, 4, 1)),
        "Tree, Thompson Sampling": (
            posse.Tree(thompson),
            lambda: tree_thompson(MEANS, AGENTS, tree, HORIZON, 4, 1),
        ),
        "Algorithm 1, RandUCB": (
            posse.Decentralized(posse.RandUCB()),
            lambda: rand_ucb(MEANS, weights, HORIZON, 4, 1),
        ),
    }
    for name, (algorithm, plain) in contenders.items():
        (job,) = plan_jobs(bandit, cycle, {name: algorithm}, horizon=HORIZON, runs=1).values()
        compiled = job.engine == "compiled"
        runs = 16 if compiled else 4
        yield compare_with_plain(
            f"{name}, N=100 K=17 T=1000, one thread, {job.engine} engine, against plain NumPy",
            3 if compiled else 0.5, 8 if compiled else None, rounds,
            (plain, 4 * AGENTS * HORIZON),
            (build_simulation(bandit, cycle, algorithm, HORIZON, runs), runs * AGENTS * HORIZON),
        )  # fmt: skip


# A dozen seconds of one core in 8 jobs: parts of a second or more.
SWEEP_RUNS = 300
GRID = {
    "network.graph": ["cycle", "complete"],
    "algorithms.dec.policy": ["thompson-sampling", "bayes-ucb"],
    "algorithms.dec.learning_rate": [10, 100],
}


def sweep_row(rounds: int) -> Row:
    """A sweep of eight cells on two processes, which are there already, against one."""
    experiment = posse.Experiment(
        posse.Bandit.gaussian(MEANS),
        posse.networks.cycle(AGENTS),
        {"dec": posse.Decentralized(posse.ThompsonSampling())},
        horizon=HORIZON,
        runs=SWEEP_RUNS,
        record=50,
    )

    def sweeping(executor):
        def run():
            with tempfile.TemporaryDirectory() as folder:  # so that nothing is there yet
                posse.sweep(experiment, GRID, folder=folder, executor=executor)

        return run

    with processes(1) as one_process, processes(2) as two_processes:
        best = time_interleaved(
            {"one": sweeping(one_process), "two": sweeping(two_processes)}, rounds
        )
    steps = 8 * SWEEP_RUNS * AGENTS * HORIZON
    return {
        "what": "a sweep of 8 cells on two processes against one",
        "ratio": best["one"] / best["two"],
        "must": 1.6,
        "stretch": 1.9,
        "seconds": best,
        "ns_per_agent_step": {name: 1e9 * seconds / steps for name, seconds in best.items()},
    }
