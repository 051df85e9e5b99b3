"""The hypotheses about regret and the cost of a network as measures of rows, and their verdicts.

Their words are in network_price_hypotheses.md, network_price_hypotheses_later.md and
network_price_hypotheses_scale.md, each of which was committed before the runs of its tables.
`measure` returns the numbers on which a hypothesis depends.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from network_price_cells import Cell
from scipy.stats import spearmanr

RESAMPLES = 400


@dataclass(frozen=True)
class Row:
    """A cell with what was measured."""

    cell: Cell
    cost: float
    term: float
    penalty: np.ndarray  # (R,)

    @cached_property
    def mean(self):
        """The mean penalty."""
        return float(self.penalty.mean())

    @cached_property
    def error(self):
        """Its standard error."""
        return float(self.penalty.std(ddof=1) / len(self.penalty) ** 0.5)

    @property
    def regret(self):
        """The mean penalty in regret."""
        return self.mean * self.cell.gap

    @property
    def scale(self):
        """What the formula of network_price_hypotheses_scale.md says of the penalty in regret."""
        bandit = self.cell.bandit
        sigma = float(np.sqrt(bandit.family.variance(np.array(bandit.means)).max()))
        return 0.1 * sigma * math.sqrt(bandit.n_arms - 1) * self.cost

    @property
    def bandit(self):
        """The bandit in a few words."""
        bandit = self.cell.bandit
        return f"{bandit.family.name}, gap {self.cell.gap:.1f}, {bandit.n_arms} arms"


# Statistics ----------------------------------------------------------------------------------


def fit_slope(rows):
    """Slope of penalty on S2 through the origin, and its standard error from residuals."""
    cost = np.array([row.cost for row in rows])
    penalty = np.array([row.mean for row in rows])
    slope = float(cost @ penalty / (cost @ cost))
    residuals = penalty - slope * cost
    error = math.sqrt(float(residuals @ residuals) / max(len(rows) - 1, 1) / float(cost @ cost))
    return slope, error


def correlate_cost(rows):
    """Spearman's correlation of the penalty with S2."""
    return float(spearmanr([row.cost for row in rows], [row.mean for row in rows]).statistic)


def correlate_term(rows):
    """Spearman's correlation of the penalty with ln N / (1 - lambda_2)."""
    return float(spearmanr([row.term for row in rows], [row.mean for row in rows]).statistic)


def count_ordered_pairs(rows):
    """Pairs whose penalties differ significantly, and how many of them S2 orders rightly."""
    significant = 0
    right = 0
    for first, second in itertools.combinations(rows, 2):
        apart = second.mean - first.mean
        # different networks share only the seed, so the errors add up
        if abs(apart) > 1.96 * math.hypot(first.error, second.error):
            significant += 1
            right += (second.cost - first.cost) * apart > 0
    return right, significant


def group_rows(rows, key):
    """Rows by a key, in order of first appearance."""
    groups = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def resample_runs(rows, generator):
    """Rows with runs drawn again; all cells share the draw, as they share the seeds of runs."""
    n_runs = len(rows[0].penalty)
    drawn = generator.integers(n_runs, size=n_runs)
    return [replace(row, penalty=row.penalty[drawn]) for row in rows]


def resample_graphs(rows, generator):
    """Rows with graphs drawn again, each with all of its cells."""
    graphs = list(group_rows(rows, lambda row: row.cell.graph).values())
    return [row for i in generator.integers(len(graphs), size=len(graphs)) for row in graphs[i]]


# Hypotheses ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Hypothesis:
    """A claim about the rows of one table."""

    name: str
    table: str
    claim: str
    measure: Callable  # rows -> {name: number}
    holds: Callable  # the numbers, in order -> whether the claim holds


def measure_graphs(rows):
    """H1."""
    return {"with S2": correlate_cost(rows), "with ln N / gap": correlate_term(rows)}


def measure_slope(rows):
    """H2 and, for push-sum alone, H4."""
    return {"slope": fit_slope(rows)[0]}


def measure_push_sum(rows):
    """H4."""
    return measure_slope([row for row in rows if row.cell.merge == "push-sum"])


def measure_merges(rows):
    """H3."""
    graphs = group_rows(rows, lambda row: row.cell.graph).values()
    right, significant = np.sum([count_ordered_pairs(group) for group in graphs], axis=0)
    return {"share of significant pairs in order": right / max(significant, 1)}


def measure_varying(rows):
    """H5; static graphs are those with which it compares."""
    static = [row for row in rows if row.cell.graph.endswith(", static")]
    varying = [row for row in rows if not row.cell.graph.endswith(", static")]
    ratio = fit_slope(varying)[0] / fit_slope(static)[0]
    return {"with S2": correlate_cost(varying), "slope over that of static graphs": ratio}


def measure_sizes(rows):
    """H6."""
    graphs = group_rows(rows, lambda row: row.cell.graph.split()[0])
    steps = [
        second.mean - first.mean
        for name in ("cycle", "star")
        for first, second in itertools.pairwise(graphs[name])
    ]
    return {"with S2": correlate_cost(rows), "least growth of cycles and stars": min(steps)}


def measure_bandits(rows):
    """H7."""
    groups = group_rows(rows, lambda row: repr(row.cell.bandit)).values()
    counts = [count_ordered_pairs(group) for group in groups]
    ordered = sum(right == significant for right, significant in counts)
    return {"share of bandits in order": ordered / len(counts)}


def measure_slopes(rows):
    """H8 and H13."""
    groups = list(group_rows(rows, lambda row: repr(row.cell.bandit)).values())
    slopes = [fit_slope(group)[0] for group in groups]
    gaps = [group[0].cell.gap for group in groups]
    rise = float(spearmanr(gaps, slopes).statistic)
    return {
        "smallest slope": min(slopes),
        "largest": max(slopes),
        "correlation with the gap": rise,
    }


def measure_horizons(rows):
    """H9: on how many graphs it holds."""
    count = 0
    for group in group_rows(rows, lambda row: row.cell.graph).values():
        ratios = {row.cell.horizon: row.mean / row.cost for row in group}
        early = max(ratio for horizon, ratio in ratios.items() if horizon <= 300)
        count += early == max(ratios.values()) and ratios[3000] < early
    return {"graphs of 4": count}


def measure_policies(rows):
    """H10."""
    return {"with S2": correlate_cost(rows)}


def compare_weights(metropolis, least):
    """Difference of regret, least-squares minus Metropolis, and half of its 95% interval."""
    apart = (least.penalty - metropolis.penalty) * least.cell.gap
    return float(apart.mean()), float(1.96 * apart.std(ddof=1) / len(apart) ** 0.5)


def measure_weights(rows):
    """H11."""
    graphs = group_rows(rows, lambda row: row.cell.graph).values()
    pairs = [compare_weights(*group) for group in graphs]
    return {
        "graphs significantly lower": sum(mean < -half for mean, half in pairs),
        "higher": sum(mean > half for mean, half in pairs),
    }


def measure_late(rows):
    """H14: on how many graphs it holds."""
    count = 0
    for group in group_rows(rows, lambda row: row.cell.graph).values():
        ratios = {row.cell.horizon: row.mean / row.cost for row in group}
        count += ratios[10_000] < ratios[1000]
    return {"graphs of 4": count}


def measure_late_gain(rows):
    """H15."""
    late = [row for row in rows if row.cell.horizon == 10_000]
    return {"graphs significantly below 0": sum(row.mean < -1.96 * row.error for row in late)}


def fit_scale(rows):
    """Slope of the penalty in regret on the formula, through the origin."""
    formula = np.array([row.scale for row in rows])
    regret = np.array([row.regret for row in rows])
    return float(formula @ regret / (formula @ formula))


def measure_scale_slope(rows):
    """H16."""
    return {"slope": fit_scale(rows)}


def correlate_scale(rows):
    """H17."""
    regret = [row.regret for row in rows]
    formula = float(spearmanr([row.scale for row in rows], regret).statistic)
    cost = float(spearmanr([row.cost for row in rows], regret).statistic)
    return {"with the formula": formula, "with S2": cost}


def measure_near(rows):
    """H18."""
    near = [row.scale / 1.5 <= row.regret <= 1.5 * row.scale for row in rows]
    return {"share of cells within 1.5": float(np.mean(near))}


HYPOTHESES = (
    Hypothesis("H1", "graphs", "rank correlation of penalty and S2 at least 0.90, and 0.15 or "
               "more above that with ln N / gap", measure_graphs,
               lambda cost, term: cost >= 0.9 and cost >= term + 0.15),
    Hypothesis("H2", "graphs", "slope between 0.6 and 1.3", measure_slope,
               lambda slope: 0.6 <= slope <= 1.3),
    Hypothesis("H3", "merges", "merges of one graph are in the order of S2 in at least 80% of the "
               "pairs that differ significantly", measure_merges, lambda share: share >= 0.8),
    Hypothesis("H4", "merges", "slope of push-sum between 0.4 and 1.6", measure_push_sum,
               lambda slope: 0.4 <= slope <= 1.6),
    Hypothesis("H5", "varying", "rank correlation at least 0.90; slope within a factor of 1.4 of "
               "static graphs", measure_varying,
               lambda cost, ratio: cost >= 0.9 and 1 / 1.4 <= ratio <= 1.4),
    Hypothesis("H6", "sizes", "rank correlation at least 0.90; penalties of cycles and stars grow "
               "with N", measure_sizes, lambda cost, growth: cost >= 0.9 and growth > 0),
    Hypothesis("H7", "bandits", "four graphs are in the order of S2, up to insignificant "
               "differences, under at least 80% of the bandits", measure_bandits,
               lambda share: share >= 0.8),
    Hypothesis("H8", "bandits", "slopes from 0 to 1.7, growing with the gap", measure_slopes,
               lambda least, most, rise: least >= 0 and most <= 1.7 and rise > 0),
    Hypothesis("H9", "horizons", "penalty over S2 is largest at T <= 300 and smaller at 3000, on "
               "every graph", measure_horizons, lambda count: count == 4),
    Hypothesis("H10", "policies", "rank correlation at least 0.80 under Bayes-UCB",
               measure_policies, lambda cost: cost >= 0.8),
    Hypothesis("H11", "weights", "least-squares weights are significantly worse than Metropolis on "
               "no graph, and better on at least a third of 14", measure_weights,
               lambda lower, higher: higher == 0 and lower >= 14 / 3),
    Hypothesis("H12", "unequal", "four graphs are in the order of S2, up to insignificant "
               "differences, under at least four of five bandits", measure_bandits,
               lambda share: share >= 0.8),
    Hypothesis("H13", "unequal", "slopes differ by more than a factor of 2", measure_slopes,
               lambda least, most, rise: least <= 0 or most > 2 * least),
    Hypothesis("H14", "late", "penalty over S2 is smaller at T = 10,000 than at 1000, on every "
               "graph", measure_late, lambda count: count == 4),
    Hypothesis("H15", "late", "the penalty is significantly below 0 at T = 10,000 on no graph",
               measure_late_gain, lambda count: count == 0),
    Hypothesis("H16", "scale", "slope of the penalty in regret on 0.1 sigma sqrt(K - 1) S2 between "
               "0.7 and 1.3", measure_scale_slope, lambda slope: 0.7 <= slope <= 1.3),
    Hypothesis("H17", "scale", "rank correlation with this formula at least 0.90, and 0.10 or more "
               "above that with S2", correlate_scale,
               lambda formula, cost: formula >= 0.9 and formula >= cost + 0.1),
    Hypothesis("H18", "scale", "at least 75% of the cells within a factor of 1.5 of the formula",
               measure_near, lambda share: share >= 0.75),
)  # fmt: skip


@dataclass(frozen=True)
class Verdict:
    """What some runs say of a hypothesis."""

    numbers: dict[str, float]
    intervals: dict[str, tuple[float, float]]  # 95%, over runs
    holds: bool
    agreement: float  # the share of resamples with the same verdict

    @property
    def is_close(self):
        """Whether other runs could well have decided otherwise."""
        return self.agreement < 0.975

    def __str__(self):
        numbers = ", ".join(
            f"{name} {value:.3g} ({self.intervals[name][0]:.3g} to {self.intervals[name][1]:.3g})"
            for name, value in self.numbers.items()
        )
        close = f", close ({self.agreement:.0%} of resamples agree)" if self.is_close else ""
        return f"{numbers}: **{'confirmed' if self.holds else 'not confirmed'}**{close}"


def judge(hypothesis, rows):
    """Decide a hypothesis, and draw runs again to see how firmly."""
    numbers = hypothesis.measure(rows)
    holds = bool(hypothesis.holds(*numbers.values()))
    generator = np.random.default_rng(1)
    drawn = [hypothesis.measure(resample_runs(rows, generator)) for _ in range(RESAMPLES)]
    intervals = {
        name: tuple(np.quantile([values[name] for values in drawn], (0.025, 0.975)))
        for name in numbers
    }
    agree = [bool(hypothesis.holds(*values.values())) == holds for values in drawn]
    return Verdict(numbers, intervals, holds, float(np.mean(agree)))
