"""`make bench`: how fast the engines are, as ratios measured interleaved in one run.

Absolute times depend on the machine and its mood; ratios of runs taken in turns do not. Each row
says what it compares; README.md in this folder explains them.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from beyond import beyond_rows, sweep_row
from contexts import context_rows, evaluation_rows
from growth import measure_growth, plot_growth
from measuring import Row, build_simulation, compare_with_plain, time_interleaved
from plain_numpy import (
    bernoulli,
    coop_ucb,
    cycle_weights,
    dducb,
    failing_complete,
    gaussian_thompson,
)
from pooling import pooling_rows
from sleepers import sleeper_rows
from worlds import world_rows

import posse
from posse.algorithms.rivals.coop_ucb import mixing_errors
from posse.lab.compiled.engine import Engine
from posse.lab.compiled.kernels import thompson
from posse.lab.simulation import Simulation

MEANS = np.array([0.5] + [0.1] * 16)
DEC_TS = posse.Decentralized(posse.ThompsonSampling())
DEC_UCB = posse.Decentralized(posse.BayesUCB())


def build_drawing(horizon, runs, how):
    """The compiled engine held to one way of drawing."""
    times = np.array([horizon])
    bandit = posse.Bandit.gaussian(MEANS)
    network = posse.networks.cycle(100)
    simulation = Simulation(bandit, network, DEC_TS, horizon, 1, times)
    return lambda: Engine(simulation, int(how)).run(range(runs), 1, lambda steps: None)


def rows(rounds: int) -> list[Row]:
    """The table, but for what needs a process of its own."""
    gaussian = posse.Bandit.gaussian(MEANS)
    bern = posse.Bandit.bernoulli(MEANS)
    cycle = posse.networks.cycle(100)
    weights = cycle_weights(100)
    failing = posse.networks.complete(64).failing(0.3)
    stage = posse.DDUCB().stage_length(cycle)
    return [
        compare_with_plain(
            "reference engine: Gaussian TS, N=100 K=17 T=300, against plain NumPy",
            0.7, None, rounds,
            (lambda: gaussian_thompson(MEANS, weights, 300, 32, 1), 32 * 30_000),
            (build_simulation(gaussian, cycle, DEC_TS, 300, 32, engine="reference"), 32 * 30_000),
        ),
        compare_with_plain(
            "Gaussian TS, N=100 K=17 T=1000, one thread, against plain NumPy",
            8, 12, rounds,
            (lambda: gaussian_thompson(MEANS, weights, 1000, 16, 1), 16 * 100_000),
            (build_simulation(gaussian, cycle, DEC_TS, 1000, 32), 32 * 100_000),
        ),
        compare_with_plain(
            "Bernoulli TS, the same",
            16, 28, rounds,
            (lambda: bernoulli(MEANS, weights, 1000, 4, 1), 4 * 100_000),
            (build_simulation(bern, cycle, DEC_TS, 1000, 32), 32 * 100_000),
        ),
        compare_with_plain(
            "two threads against one, Gaussian TS",
            1.75, 1.95, rounds,
            (build_simulation(gaussian, cycle, DEC_TS, 1000, 64), 64 * 100_000),
            (build_simulation(gaussian, cycle, DEC_TS, 1000, 64, threads=2), 64 * 100_000),
        ),
        compare_with_plain(
            "T=50, Gaussian TS, against drawing all K variates in the same code",
            0.97, 1.2, 2 * rounds,  # short, and close to its bound
            (build_drawing(50, 128, thompson.ALWAYS_EAGER), 128 * 5000),
            (build_drawing(50, 128, thompson.EAGER), 128 * 5000),
        ),
        compare_with_plain(
            "Bernoulli Bayes-UCB, T=1000, against betaincinv on all arms",
            100, 500, 1,
            (lambda: bernoulli(MEANS, weights, 1000, 1, 1, "bayes-ucb"), 100_000),
            (build_simulation(bern, cycle, DEC_UCB, 1000, 16), 16 * 100_000),
        ),
        compare_with_plain(
            "link failure p=0.3 on complete N=64, Gaussian TS, against plain NumPy",
            3, 8, rounds,
            (lambda: failing_complete(MEANS, 64, 0.3, 1000, 4, 1), 4 * 64_000),
            (build_simulation(gaussian, failing, DEC_TS, 1000, 16), 16 * 64_000),
        ),
        compare_with_plain(
            "coop-UCB, N=100 K=17 T=1000, one thread, against plain NumPy",
            3, 8, rounds,
            (lambda: coop_ucb(MEANS, weights, mixing_errors(cycle), 1000, 8, 1), 8 * 100_000),
            (build_simulation(gaussian, cycle, posse.CoopUCB(), 1000, 32), 32 * 100_000),
        ),
        compare_with_plain(
            "DDUCB, the same",
            3, 8, rounds,
            (lambda: dducb(MEANS, weights, cycle.second_eigenvalue, stage, 1000, 8, 1), 800_000),
            (build_simulation(gaussian, cycle, posse.DDUCB(), 1000, 32), 32 * 100_000),
        ),
    ]  # fmt: skip


# Ten arms that an agent at learning rate 1 cannot tell apart for long.
CONTESTED = np.linspace(0.3, 0.6, 10)


def contested_rows(rounds: int) -> list[Row]:
    """Bayes-UCB beside Thompson Sampling where arms stay close: at most so many times its cost."""
    bandit = posse.Bandit.bernoulli(CONTESTED)
    cycle = posse.networks.cycle(100)
    table = []
    for name, rate in (("1", 1.0), ("N", None)):
        policies = {"thompson": posse.ThompsonSampling(), "bayes-ucb": posse.BayesUCB()}
        best = time_interleaved(
            {
                policy: build_simulation(
                    bandit, cycle, posse.Decentralized(rule, None, rate), 1000, 4
                )
                for policy, rule in policies.items()
            },
            rounds,
        )
        table.append(
            {
                "what": f"Bernoulli Bayes-UCB, K=10 contested, learning rate {name}, against TS",
                "ratio": best["bayes-ucb"] / best["thompson"],
                "at_most": 3.0,
                "ns_per_agent_step": {policy: t / 4e5 * 1e9 for policy, t in best.items()},
            }
        )
    return table


def draw_problems(seed: int, n_problems: int):
    """Draw Bernoulli bandits, networks, learning rates (None: N) and horizons from a seed."""
    generator = np.random.default_rng(seed)
    for i in range(n_problems):
        n_arms = int(generator.integers(5, 21))
        n_agents = int(generator.integers(20, 101))
        means = (
            generator.uniform(0, 1, n_arms),
            np.linspace(0.1, 0.9, n_arms),  # spread
            generator.uniform(0.45, 0.55, n_arms),  # close
            generator.uniform(0.001, 0.02, n_arms),  # rare
        )[i % 4]
        network = (
            posse.networks.cycle(n_agents),
            posse.networks.erdos_renyi(n_agents, 0.2, seed=i),
            posse.networks.star(n_agents),
        )[i // 8 % 3]
        horizon = round(10 ** generator.uniform(2.7, 3.7))
        yield posse.Bandit.bernoulli(means), network, (1.0, None)[i // 4 % 2], horizon


def bayes_ucb_rows(rounds: int) -> list[Row]:
    """Bayes-UCB beside Thompson Sampling on 24 drawn problems: the median and the worst ratio."""
    ratios = []
    costs = []
    for bandit, network, rate, horizon in draw_problems(2026, 24):
        policies = {"thompson": posse.ThompsonSampling(), "bayes-ucb": posse.BayesUCB()}
        best = time_interleaved(
            {
                name: build_simulation(
                    bandit, network, posse.Decentralized(policy, None, rate), horizon, 1
                )
                for name, policy in policies.items()
            },
            rounds,
        )
        steps = network.n_agents * horizon
        costs.append({name: seconds / steps * 1e9 for name, seconds in best.items()})
        ratios.append(best["bayes-ucb"] / best["thompson"])
    ranked = np.argsort(ratios)
    return [
        {
            "what": f"Bernoulli Bayes-UCB, 24 drawn problems, against TS: the {place}",
            "ratio": ratios[ranked[position]],
            "at_most": 4.0,
            "ns_per_agent_step": costs[ranked[position]],
        }
        for place, position in (("median", 12), ("worst", 23))
    ]


def push_sum_rows(rounds: int) -> list[Row]:
    """PushSum beside Algorithm 1 where masses differ: at most so many times its cost."""
    thompson = posse.ThompsonSampling()
    networks = {
        "the star of 36": posse.networks.star(36),
        "preferential attachment, N=48": posse.networks.barabasi_albert(48, 1, seed=1),
    }
    bandits = {"Gaussian": posse.Bandit.gaussian(MEANS), "Bernoulli": posse.Bandit.bernoulli(MEANS)}
    table = []
    for (place, network), (family, bandit) in itertools.product(networks.items(), bandits.items()):
        rivals = {"dec-TS": posse.Decentralized(thompson), "PushSum": posse.PushSum(thompson)}
        best = time_interleaved(
            {
                name: build_simulation(bandit, network, algorithm, 500, 32)
                for name, algorithm in rivals.items()
            },
            rounds,
        )
        steps = 32 * 500 * network.n_agents
        table.append(
            {
                "what": f"PushSum, {family} TS, K=17 T=500, {place}, against dec-TS",
                "ratio": best["PushSum"] / best["dec-TS"],
                "at_most": 1.3,
                "ns_per_agent_step": {name: t / steps * 1e9 for name, t in best.items()},
            }
        )
    return table


def growth_row(points) -> Row:
    """How the cost of an agent-step grows from a thousand to a million agents on a cycle."""
    small = points[0][1]
    large = points[-1][1]
    return {
        "what": "cost of an agent-step, cycle, N = 1e3 -> 1e6 (K=10, one thread)",
        "ratio": large / small,
        "at_most": 1.5,
        "stretch": 1.1,
        "ns_per_agent_step": {f"N={n}": cost for n, cost in points},
    }


def in_a_process(code: str, **environment: str) -> dict[str, float]:
    """Run code in a fresh interpreter; what it prints last is JSON."""
    start = time.perf_counter()
    output = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **environment},
    ).stdout
    elapsed = time.perf_counter() - start
    return {"seconds": elapsed, **(json.loads(output) if output.strip() else {})}


MILLION = """
import json, resource, posse, numpy as np
posse.simulate(posse.Bandit.gaussian(np.linspace(0, 1, 10)), posse.networks.cycle(1_000_000),
               posse.Decentralized(posse.ThompsonSampling()), horizon=1000, runs=1, record=50)
print(json.dumps({"gigabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6}))
"""
FIRST = """
import json, time, posse
posse.simulate(posse.Bandit.{bandit}([0.5, 0.1]), posse.networks.cycle(10),
               posse.Decentralized(posse.{policy}()), horizon=10, runs=1)
print(json.dumps({{"cpu": time.process_time()}}))
"""
# The kernels that take longest to compile.
FIRSTS = {
    "Gaussian TS": FIRST.format(bandit="gaussian", policy="ThompsonSampling"),
    "Bernoulli TS": FIRST.format(bandit="bernoulli", policy="ThompsonSampling"),
    "Bernoulli Bayes-UCB": FIRST.format(bandit="bernoulli", policy="BayesUCB"),
}


def first_use() -> tuple[dict[str, float], float]:
    """CPU seconds of compiling for a first simulation of each kind, and of one with kernels."""
    compiling = {}
    warm = math.inf
    for name, code in FIRSTS.items():
        with tempfile.TemporaryDirectory() as folder:
            cold = in_a_process(code, NUMBA_CACHE_DIR=folder)["cpu"]
            cached = min(in_a_process(code, NUMBA_CACHE_DIR=folder)["cpu"] for _ in range(3))
        compiling[name] = cold - cached
        warm = min(warm, cached)
    return compiling, warm


def machine() -> Row:
    """What the figures were measured on."""
    model = platform.processor() or platform.machine()
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((x.split(":")[1].strip() for x in lines if x.startswith("model name")), model)
    return {
        "processor": model,
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "posse": posse.__version__,
    }


def show(row: Row) -> str:
    """One line for people."""
    if "ratio" not in row:
        return f"       {row['what']}: {row['measured']} (must: {row['must']})"
    bound = row.get("must", row.get("at_most"))
    holds = row["ratio"] >= bound if "must" in row else row["ratio"] <= bound
    costs = ", ".join(f"{name} {ns:.0f} ns" for name, ns in row["ns_per_agent_step"].items())
    word = "must" if "must" in row else "at most"
    verdict = "ok    " if holds else "BELOW "
    return f"{verdict} {row['ratio']:7.2f}x ({word} {bound}x)  {row['what']}  [{costs}]"


def main() -> None:
    """Measure, print, and write the JSON and the plots."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="times each contender runs")
    parser.add_argument("--output", type=Path, default=Path("results"))
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)

    table = []
    for row in itertools.chain(
        rows(options.rounds),
        contested_rows(options.rounds),
        bayes_ucb_rows(options.rounds),
        push_sum_rows(options.rounds),
        beyond_rows(options.rounds),
        context_rows(options.rounds),
        evaluation_rows(options.rounds),
        pooling_rows(options.rounds),
        world_rows(options.rounds),
        sleeper_rows(options.rounds),
    ):
        table.append(row)
        print(show(row), flush=True)
    table.append(sweep_row(min(options.rounds, 2)))
    print(show(table[-1]), flush=True)
    growth = measure_growth()
    table.append(growth_row(growth["agents (K=10)"]))
    print(show(table[-1]), flush=True)
    gaussian = FIRSTS["Gaussian TS"]
    in_a_process(gaussian)
    first = min(in_a_process(gaussian)["seconds"] for _ in range(3))
    compiling, warm = first_use()
    million = in_a_process(MILLION)
    table += [
        {
            "what": "CPU of compiling for a first simulation: " + ", ".join(compiling),
            "measured": ", ".join(f"{seconds:.1f} s" for seconds in compiling.values()),
            "must": "at most 12 s each",
        },
        {
            "what": "CPU of a simulation, kernels cached",
            "measured": f"{warm:.2f} s",
            "must": "1.4 s",
        },
        {
            "what": "start to first result, kernels cached",
            "measured": f"{first:.2f} s",
            "must": "1.5 s",
        },
        {
            "what": "1e6 agents x 10 arms x 1000 rounds",
            "measured": f"{million['seconds']:.0f} s, {million['gigabytes']:.2f} GB",
            "must": "under 1 GB",
        },
    ]
    for row in table[-4:]:
        print(show(row), flush=True)
    result = {"machine": machine(), "rows": table, "growth": growth}
    (options.output / "bench.json").write_text(json.dumps(result, indent=2) + "\n")
    plot_growth(growth, options.output / "bench-growth.png")
    print(f"written to {options.output}/bench.json and {options.output}/bench-growth.png")


if __name__ == "__main__":
    main()
