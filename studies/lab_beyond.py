"""Beyond the paper: RandUCB, its mixture with Thompson Sampling, and Tree, mean and tail.

Each table is an experiment file of experiments/beyond, an instance of the arena's suite. Instances
4, 7, 8 and 16 were among those on which Tree and RandUCB were developed. Parts are kept in
results/beyond as `posse run --output results/beyond` keeps them, so that a study that was
interrupted goes on.
"""

from __future__ import annotations

import dataclasses
import sys
import time
from pathlib import Path

import numpy as np

import posse
from posse.lab import Comparison
from posse.lab.jobs.results_cache import PartStore
from posse.lab.jobs.scheduler import complete_jobs

HERE = Path(__file__).parent.parent
FILES = sorted((HERE / "experiments" / "beyond").glob("*.toml"))
RESULTS = HERE / "results" / "beyond"
OF = "dec-TS"  # what all are compared with


def load_or_play(path, runs, algorithms=None):
    """The comparison of a file with so many runs, from its parts where they are there.

    algorithms: play these instead of those of the file.
    """
    experiment = dataclasses.replace(posse.read_experiment(path), runs=runs)
    if algorithms is not None:
        experiment = dataclasses.replace(experiment, algorithms=algorithms)
    store = PartStore(RESULTS / f"{path.stem}.parts")
    jobs = experiment.jobs()
    complete_jobs(list(jobs.values()), store)
    return Comparison({name: store.load_result(job) for name, job in jobs.items()})


def wrong_share(result, means):
    """The share of runs whose most played arm is not a best one."""
    leader = result.pulls.sum(axis=1).argmax(axis=1)
    return float((np.asarray(means)[leader] < max(means)).mean())


def rows(experiment, comparison):
    """One row an algorithm, as cells; the first is what the others are compared with."""
    for name, result in comparison.items():
        final = result.regret[:, -1]
        error = final.std(ddof=1) / len(final) ** 0.5
        difference = "-"
        if name != OF:
            apart = posse.paired_difference(result, comparison[OF])
            difference = f"{apart.mean:+.2f} ({apart.low:+.2f} to {apart.high:+.2f})"
        tail = [f"{np.quantile(final, level):.1f}" for level in (0.95, 0.99)]
        wrong = wrong_share(result, experiment.bandit.means)
        yield [name, f"{final.mean():.2f} ± {error:.2f}", difference, *tail, f"{final.max():.0f}",
               f"{wrong:.1%}"]  # fmt: skip


def table(path, comparison):
    """The table of one file."""
    experiment = posse.read_experiment(path)
    runs = next(iter(comparison.values())).runs
    lines = [
        f"**{experiment.title}**, T = {experiment.horizon}, {runs} runs "
        f"(`experiments/beyond/{path.name}`)",
        "",
        f"| | mean | against {OF}, paired, 95% | p95 | p99 | max | wrong arm |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += ["| " + " | ".join(cells) + " |" for cells in rows(experiment, comparison)]
    return "\n".join(lines)


def study(runs=2000):
    """The tables of docs/beyond-the-paper.md; nothing in them is a promise that could break."""
    tables = []
    for path in FILES:
        start = time.process_time()
        tables.append(table(path, load_or_play(path, runs)))
        print(f"{path.stem}: {time.process_time() - start:.0f} s of CPU", file=sys.stderr)
    return "\n\n".join(tables), []
