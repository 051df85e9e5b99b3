"""Significance over a whole sweep: the best of each problem, and those not told from it.

The values of one dimension (`over`) compete on every problem, which all other dimensions define.
All pairs of competitors on all problems are one family of paired t tests under Holm's correction.
All pairs, and not only those with the best: which one is best is read from the same data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

from posse.lab.report import PairedDifference, adjust_pairs, compare_pairs
from posse.lab.statistics import Estimate
from posse.lab.sweeps.figures import ALGORITHM, list_dimensions, resolve_name
from posse.lab.sweeps.grid import Label
from posse.randomness import FloatArray

if TYPE_CHECKING:
    from posse.lab.sweeps.sweep import Sweep

BEST = "best"
NOT_TOLD = "not told from the best"
WORSE = "worse"
UNKNOWN = "too few runs"


@dataclass(frozen=True)
class Competitor:
    """One value of the compared dimension on one problem.

    difference: its regret minus that of the best, paired run by run; None of the best itself
    """

    label: Label
    runs: int
    regret: Estimate[float]
    verdict: str
    difference: PairedDifference | None

    @property
    def is_leading(self) -> bool:
        """Whether it is the best, or not told from it."""
        return self.verdict in (BEST, NOT_TOLD)


@dataclass(frozen=True)
class Contest:
    """All competitors on one problem, in the order of the sweep; `problem` by short names."""

    problem: Mapping[str, Label]
    competitors: tuple[Competitor, ...]


@dataclass(frozen=True)
class Significance:
    """The contests of a sweep: `over` is the name of the compared dimension."""

    over: str
    labels: tuple[Label, ...]
    contests: tuple[Contest, ...]
    pairs: int


def choose_dimension(sweep: Sweep) -> str:
    """Choose what to compare: algorithms, else what changes them, else the last axis."""
    if len(sweep.algorithms) > 1:
        return ALGORITHM
    several = [
        (axis, dimension)
        for axis, dimension in zip(sweep.grid.axes, list_dimensions(sweep), strict=False)
        if len(axis) > 1
    ]
    if not several:
        raise ValueError("significance needs two cells or two algorithms to compare")
    changing = [
        dimension
        for axis, dimension in several
        if any(key.startswith("algorithms") for key in axis.keys)
    ]
    # Of several keys that change the algorithms, the one with the most values competes.
    return max(changing or [several[-1][1]], key=lambda dimension: len(dimension.points)).name


def compute_significance(sweep: Sweep, over: str | None) -> Significance:
    """Compare the values of a dimension on every problem of a sweep."""
    from posse.lab.report import estimate_mean

    dimensions = list_dimensions(sweep)
    name = choose_dimension(sweep) if over is None else resolve_name(sweep, over)
    number = next(i for i, dimension in enumerate(dimensions) if name in dimension.labels)
    compared = dimensions[number]
    # Regret at the horizon by problem (all other indices), then by the index compared.
    regrets: dict[tuple[int, ...], dict[int, FloatArray]] = {}
    runs: dict[tuple[int, ...], set[range]] = {}
    for cell in sweep.plan:
        for algorithm, job in cell.jobs.items():
            point = (*cell.point, sweep.algorithms.index(algorithm))
            problem = point[:number] + point[number + 1 :]
            regret = sweep.store.load_result(job).regret[:, -1]
            regrets.setdefault(problem, {})[point[number]] = regret
            runs.setdefault(problem, set()).add(job.runs)
    if any(len(ranges) > 1 for ranges in runs.values()):
        raise ValueError(f"significance over {name} needs the same runs for all its values")
    # The labels of pairs are places, which distinguish competitors of all problems.
    places = {
        f"{i} {j}": values
        for i, by_index in enumerate(regrets.values())
        for j, values in by_index.items()
    }
    candidates = [
        (f"{i} {a}", f"{i} {b}")
        for i, by_index in enumerate(regrets.values())
        for a, b in combinations(
            sorted(by_index, key=lambda index: float(by_index[index].mean())), 2
        )
    ]
    pairs = adjust_pairs(compare_pairs(places, candidates))
    by_names = {(pair.first, pair.second): pair for pair in pairs}
    others = dimensions[:number] + dimensions[number + 1 :]
    contests = []
    for i, (problem, by_index) in enumerate(regrets.items()):
        best = min(by_index, key=lambda index: float(by_index[index].mean()))
        competitors = []
        for index in sorted(by_index):
            # The lower mean is the first of a pair, so that the best is the first of all of its.
            pair = None if index == best else by_names[f"{i} {best}", f"{i} {index}"].reverse()
            competitors.append(
                Competitor(
                    compared.labels[compared.name][index],
                    len(by_index[index]),
                    estimate_mean(by_index[index]),
                    _judge(pair),
                    pair,
                )
            )
        labels = {
            dimension.name: dimension.labels[dimension.name][place]
            for dimension, place in zip(others, problem, strict=True)
            if len(dimension.points) > 1
        }
        contests.append(Contest(labels, tuple(competitors)))
    shown = compared.labels[compared.name]
    return Significance(compared.name, shown, tuple(contests), len(pairs))


def _judge(pair: PairedDifference | None) -> str:
    if pair is None:
        return BEST
    if pair.adjusted_p is None:
        return UNKNOWN
    return WORSE if pair.is_significant else NOT_TOLD


def build_rows(significance: Significance) -> list[dict[str, Any]]:
    """Build a row for every competitor on every problem."""
    rows = []
    for contest in significance.contests:
        for competitor in contest.competitors:
            pair = competitor.difference
            estimate = Estimate(0.0, 0.0, 0.0, 0.0) if pair is None else pair.difference
            rows.append(
                {
                    **contest.problem,
                    significance.over: competitor.label,
                    "runs": competitor.runs,
                    "regret": competitor.regret.mean,
                    "standard_error": competitor.regret.standard_error,
                    "verdict": competitor.verdict,
                    "difference": estimate.mean,
                    "difference_low": estimate.low,
                    "difference_high": estimate.high,
                    "p_holm": None if pair is None else pair.adjusted_p,
                }
            )
    return rows


def format_latex(significance: Significance, caption: str | None, label: str | None) -> str:
    """Format a table with a row for each problem and a column for each competitor."""
    from posse.lab.latex import escape_latex, format_estimate, format_table

    names = list(significance.contests[0].problem)
    headers = [*names, *map(str, significance.labels)]
    rows = []
    for contest in significance.contests:
        cells = {
            competitor.label: format_estimate(
                competitor.regret.mean, competitor.regret.standard_error, competitor.is_leading
            )
            for competitor in contest.competitors
        }
        problem = [escape_latex(str(value)) for value in contest.problem.values()]
        rows.append([*problem, *(cells.get(value, "--") for value in significance.labels)])
    # Rows of one value of the first name stand together.
    order = {value: i for i, value in reversed(list(enumerate(row[0] for row in rows)))}
    if names:
        rows.sort(key=lambda row: order[row[0]])
    return format_table(
        list(map(escape_latex, headers)), rows, names=len(names), caption=caption, label=label
    )
