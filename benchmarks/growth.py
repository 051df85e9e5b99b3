"""How the cost of an agent-step grows with N, K, T, the degree and the number of threads."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

import posse

DEC_TS = posse.Decentralized(posse.ThompsonSampling())
Points = list[tuple[int, float]]


def cost(network, n_arms=17, horizon=300, runs=1, threads=1) -> float:
    """Nanoseconds per agent-step of dec-TS on Gaussian arms, the best of three."""
    means = np.full(n_arms, 0.1)
    means[0] = 0.5
    bandit = posse.Bandit.gaussian(means)
    steps = network.n_agents * horizon * runs
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        posse.simulate(
            bandit, network, DEC_TS, horizon=horizon, runs=runs, threads=threads, record=10
        )
        best = min(best, time.perf_counter() - start)
    return 1e9 * best / steps


def measure_growth() -> dict[str, Points]:
    """Each curve as (value, nanoseconds per agent-step)."""
    cycle = posse.networks.cycle
    return {
        "agents (K=10)": [
            (n, cost(cycle(n), n_arms=10, horizon=100, runs=max(1, 30_000 // n)))
            for n in (1_000, 10_000, 100_000, 1_000_000)
        ],
        "arms (N=100)": [(k, cost(cycle(100), n_arms=k, runs=8)) for k in (2, 5, 10, 20, 50, 100)],
        "horizon (N=100, K=17)": [
            (t, cost(cycle(100), horizon=t, runs=max(2, 4000 // t))) for t in (50, 200, 1000, 5000)
        ],
        "degree (N=200, K=17)": [
            (2 * k, cost(posse.networks.regular_ring(200, k), runs=4)) for k in (1, 2, 4, 8, 16, 32)
        ],
        "threads (N=100, K=17)": [
            (n, cost(cycle(100), horizon=1000, runs=32, threads=n)) for n in (1, 2)
        ],
    }


def plot_growth(growth: dict[str, Points], path: Path) -> None:
    """One small plot a curve."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 2.8), layout="constrained")
    for axes, (name, points) in zip(figure.subplots(1, len(growth)), growth.items(), strict=True):
        values, costs = zip(*points, strict=True)
        axes.plot(values, costs, marker="o")
        axes.set_xscale("log")
        axes.set_ylim(bottom=0)
        axes.set_xlabel(name)
        axes.grid(alpha=0.3)
    figure.axes[0].set_ylabel("ns per agent-step")
    figure.savefig(path, dpi=150)
