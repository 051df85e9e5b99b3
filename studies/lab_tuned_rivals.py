"""Rivals at their best: constants tuned on instances that the arena does not rank.

The first table tunes: each rival plays every entry of its grid on the instances of
tuning_instances.py, and the entry with the lowest geometric mean of regret over that of dec-TS is
the tuned one, by the measure of the arena's leaderboard. The tuned rivals of the arena
(`posse.lab.arena.players`) must be these. The others let them play in the arena, in the rounds of
its quick form but with more runs. Results are kept in results/tuned, so that a study that was
interrupted goes on.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
from tuning_instances import draw_instances

import posse
from posse.lab.arena.players import REFERENCE, TUNED_RIVALS, choose_players
from posse.lab.arena.standings import build_report, log_ratio, mean_log_ratio
from posse.lab.arena.suite import load_suite
from posse.lab.arena.tournament import QUICK_HORIZON, QUICK_STEPS, Arena, Form
from posse.lab.jobs.results_cache import PartStore
from posse.lab.jobs.scheduler import complete_jobs
from posse.lab.simulator import plan_jobs

RESULTS = Path(__file__).parent.parent / "results" / "tuned"
SEED = 3
TUNING_RUNS = 40
DEC_TS = posse.Decentralized(posse.ThompsonSampling())
# The grids began at 0.05 and 0.02. Smaller values were added, because some rivals were best there.
FINE = (0.003, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0)
# Published indices have squared widths that are 2 to 8 times as large as those of KL indices.
COARSE = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2)


def build_index_grid(kind, **settings):
    """Both indices of a rival with several levels, the published constants last."""
    grid = {f"KL, level {level:g}": kind(index="kl", level=level, **settings) for level in FINE}
    for level in (*COARSE, 1.0):
        grid[f"published index, level {level:g}"] = kind(index="published", level=level, **settings)
    return grid


def build_level_grid(kind, name, values):
    """Several values of the one constant of a rival, the published one last."""
    return {f"{name} {value:g}": kind(**{name: value}) for value in values}


GRIDS = {
    "coop-UCB": build_level_grid(
        posse.CoopUCB, "exploration", (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.01)
    ),
    "coop-UCB2": build_level_grid(
        posse.CoopUCB2, "exploration", (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 1.01)
    ),
    "coop-UCL": build_level_grid(posse.CoopUCL, "level", (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0)),
    "DDUCB": {
        f"{variant}, exploration {value:g}": posse.DDUCB(exploration=value, variant=variant)
        for variant in ("unaccelerated", "practical", "accelerated")
        for value in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
    },
    "UCB-Network": build_index_grid(posse.UCBNetwork),
    "CO-UCB": build_index_grid(posse.UCBNetwork, hops="diameter"),
    "Follow Your Leader": build_index_grid(posse.FollowYourLeader),
    "ComEx": build_index_grid(posse.ComEx),
    "Coop-SE": {
        **{
            f"c = {value:g}": posse.CoopSE(index="gaussian", exploration=value)
            for value in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
        },
        "published width": posse.CoopSE(),
    },
    "Dist-UCB": build_index_grid(posse.DistUCB),
    "GosInE": build_index_grid(posse.GosInE),
    "DPE2": build_level_grid(posse.DPE2, "level", FINE),
}


def play(instance, algorithms, runs):
    """Final regrets of some algorithms on an instance, (R,) each, stored where they are there."""
    jobs = plan_jobs(
        instance.bandit, instance.network, algorithms,
        horizon=instance.horizon, runs=runs, seed=SEED, record=2, keep=(),
    )  # fmt: skip
    store = PartStore(RESULTS / "tuning")
    complete_jobs(list(jobs.values()), store, threads=1)
    return {name: store.load_result(job).regret[:, -1] for name, job in jobs.items()}


def measure_grid(grid, runs):
    """The mean log-ratio to dec-TS of each entry of a grid, over all instances, with its error."""
    ratios = {name: [] for name in grid}
    for instance in draw_instances():
        regrets = play(instance, {REFERENCE: DEC_TS} | grid, runs)
        for name in grid:
            ratios[name].append(log_ratio(regrets[name], regrets[REFERENCE]))
    return {name: mean_log_ratio(values)[0] for name, values in ratios.items()}


def format_ratio(estimate):
    """A ratio and its 95% interval."""
    mean, low, high = np.exp([estimate.mean, estimate.low, estimate.high])
    return f"{mean:.2f} ({low:.2f} to {high:.2f})"


def format_grid(estimates):
    """All ratios of a grid, by the constant that varies."""
    groups = {}
    for name, estimate in estimates.items():
        constant, _, value = name.rpartition(" ")
        groups.setdefault(constant, []).append(f"{value}: {np.exp(estimate.mean):.2f}")
    return "; ".join(f"{constant} {', '.join(values)}" for constant, values in groups.items())


def tune(runs=TUNING_RUNS):
    """The table of the tuning, and the rivals whose constants in the arena are others."""
    lines = [
        f"| regret over that of dec-TS, {runs} runs | published constants | tuned | constants "
        "| all of the grid |",
        "|---|---|---|---|---|",
    ]
    wrong = []
    for rival, grid in GRIDS.items():
        start = time.process_time()
        estimates = measure_grid(grid, runs)
        best = min(estimates, key=lambda name: estimates[name].mean)
        published = list(grid)[-1]
        lines.append(
            f"| {rival} | {format_ratio(estimates[published])} | {format_ratio(estimates[best])} "
            f"| {best} | {format_grid(estimates)} |"
        )
        print(f"{lines[-1]} {time.process_time() - start:.0f} s", file=sys.stderr, flush=True)
        if TUNED_RIVALS.get(rival) != grid[best]:
            wrong.append(f"{rival}: the arena has {TUNED_RIVALS.get(rival)}, not {grid[best]}")
    return "\n".join(lines), wrong


# The arena: all instances, in the rounds of the quick form

ARENA_RUNS = 100
RANKED = (
    REFERENCE, "dec-Bayes-UCB", "dec-RandUCB", "Tree TS", "Tree RandUCB", "PushSum TS",
    "coop-UCB2", "coop-UCL", "CO-UCB", "CO-UCB (KL)", *(f"{name} (tuned)" for name in GRIDS),
)  # fmt: skip
# Columns of the table by instance: the tuned rivals that come nearest, and algorithms of Posse
BY_INSTANCE = (
    "coop-UCB2 (tuned)", "coop-UCL (tuned)", "CO-UCB (tuned)", "dec-Bayes-UCB", "dec-RandUCB",
    "PushSum TS",
)  # fmt: skip


def play_arena(runs):
    """Play the arena's instances."""
    form = Form("custom", runs, QUICK_HORIZON, load_suite().seed, QUICK_STEPS)
    arena = Arena(load_suite().instances, choose_players(RANKED), form, RESULTS / "arena")
    arena.play_missing(threads=1)
    return arena


def tabulate_standings(arena):
    """The leaderboard of these algorithms, without ranks, which depend on who takes part."""
    lines = [
        f"| {arena.form.runs} runs | instances | regret over that of dec-TS, 95% | better | "
        "undecided | worse | worst instance | numbers sent |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in build_report(arena, 0.0, "").standings:
        if row.algorithm == REFERENCE or row.rank is None:
            continue
        lines.append(
            f"| {row.algorithm} | {row.instances} "
            f"| {row.ratio:.2f} ({row.ratio_low:.2f} to {row.ratio_high:.2f}) "
            f"| {row.better} | {row.undecided} | {row.worse} "
            f"| {row.worst_ratio:.1f} ({row.worst_instance}) | {row.numbers_sent:.3g} |"
        )
    return "\n".join(lines)


def tabulate_instances(arena):
    """Ratios to dec-TS by instance, with 95% intervals that are not corrected."""
    lines = [
        f"| regret over that of dec-TS | dec-TS | {' | '.join(BY_INSTANCE)} |",
        "|---|---|" + "---|" * len(BY_INSTANCE),
    ]
    for instance in arena.instances:
        results = arena.load_results(instance)
        regrets = {name: result.regret[:, -1] for name, result in results.items()}
        cells = [f"{instance.number} {instance.name}", f"{regrets[REFERENCE].mean():.2f}"]
        for name in BY_INSTANCE:
            if name not in regrets:
                cells.append("")
                continue
            ratio = log_ratio(regrets[name], regrets[REFERENCE])
            margin = 1.96 * ratio.variance**0.5
            low, high = np.exp([ratio.value - margin, ratio.value + margin])
            cells.append(f"{np.exp(ratio.value):.2f} ({low:.2f} to {high:.2f})")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def study(runs=ARENA_RUNS):
    """The tables of docs/rivals.md; a tuned rival of the arena that is not the best is wrong."""
    tuning, wrong = tune()
    start = time.process_time()
    arena = play_arena(runs)
    print(f"arena: {time.process_time() - start:.0f} s of CPU", file=sys.stderr)
    tables = [
        "**Tuning**, on other instances than those of the arena", tuning,
        "**The arena**, all instances, in the rounds of the quick form", tabulate_standings(arena),
        "**By instance**", tabulate_instances(arena),
    ]  # fmt: skip
    return "\n\n".join(tables), wrong
