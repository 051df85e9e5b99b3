"""Scoreboard: mean regret with its interval, ranks, paired differences and tails.

One model for all reports: `comparison.table()` and the pages of a comparison, a sweep, the arena
and the paper read the same rows. Regret is pseudo-regret per agent at the horizon, the lower the
better. None stands for a number that is unknown, or that so few runs cannot tell.

Two invariants: a difference is always that of the first algorithm minus the second, run by run;
and a claim (a verdict or a rank) rests on a p-value after Holm's correction, never on a raw one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from posse.lab.results import Result
from posse.lab.statistics import (
    FEWEST_RUNS,
    SIGNIFICANT,
    Estimate,
    agent_regrets,
    compare_paired,
    correct_p_values,
    find_pareto_front,
    mean_interval,
    p_value,
    tail_percentile,
    wrong_leader_share,
)
from posse.randomness import FloatArray

# Verdicts on an algorithm, by its difference to the reference after Holm's correction.
BETTER = "better"
WORSE = "worse"
UNDECIDED = "undecided"
REFERENCE = "reference"
VERDICTS = (BETTER, WORSE, UNDECIDED, REFERENCE)


@dataclass(frozen=True)
class PairedDifference:
    """Final regret of the first algorithm minus that of the second, paired run by run.

    p:          of Student's t test that both are alike; None of too few runs for a claim
    adjusted_p: the same after Holm's correction over all pairs of its family
    """

    first: str
    second: str
    difference: Estimate[float]
    p: float | None
    adjusted_p: float | None = None

    @property
    def is_significant(self) -> bool:
        """Whether the two differ at the 5% level after Holm's correction."""
        return self.adjusted_p is not None and self.adjusted_p < SIGNIFICANT

    @property
    def verdict(self) -> str:
        """Whether the first is significantly better or worse than the second."""
        if not self.is_significant or not self.difference.mean:
            return UNDECIDED
        return BETTER if self.difference.mean < 0 else WORSE

    def reverse(self) -> PairedDifference:
        """Give the difference of the second algorithm minus the first."""
        mean, error, low, high = self.difference
        # Negation swaps the ends of the interval; the p-values are two-sided and stay.
        negated = Estimate(-mean, error, -high, -low)
        return replace(self, first=self.second, second=self.first, difference=negated)


@dataclass(frozen=True)
class Tail:
    """Final regret of single runs: what a mean hides.

    percentile_95, percentile_99: None where there are too few runs beyond them
    worst_run_number:             the number of the run with the highest regret
    wrong_leader:                 the share of runs in which the arm played most is not a best one;
                                  None where the true means are unknown or differ between agents
    """

    lowest_run: float
    median_run: float
    percentile_95: float | None
    percentile_99: float | None
    worst_run: float
    worst_run_number: int
    wrong_leader: float | None


@dataclass(frozen=True)
class ScoreRow:
    """How one algorithm did on one problem.

    regret:         the mean over runs, its standard error and 95% interval (nan for one run)
    difference:     to the reference of the scoreboard; None for the reference itself
    verdict:        one of VERDICTS: the significance of the difference
    ratio:          mean regret over that of the reference
    rank:           1 + the algorithms that are significantly better, so ties share a rank; None
                    for those that are not ranked
    shared_rank:    the same, with half of the undecided pairs added
    on_front:       whether no ranked algorithm has both less regret and fewer numbers sent
    best_arm_share: the share of pulls of a best arm, where the settings tell the true means
    worst_agent:    the mean over runs of the largest regret of an agent
    numbers_sent:   numbers that an agent sent until the horizon; None where they were not recorded
    sent_per_round: the mean of numbers_sent over the horizon
    """

    algorithm: str
    engine: str
    runs: int
    regret: Estimate[float]
    difference: PairedDifference | None
    verdict: str
    ratio: float | None
    rank: int | None
    shared_rank: float | None
    on_front: bool
    best_arm_share: float | None
    tail: Tail
    worst_agent: float | None
    numbers_sent: Estimate[float] | None
    sent_per_round: float | None

    def compare_with(self, difference: PairedDifference) -> ScoreRow:
        """Set the difference to the reference, and the verdict that follows from it."""
        return replace(self, difference=difference, verdict=difference.verdict)


@dataclass(frozen=True)
class Scoreboard:
    """The rows of some algorithms on one problem, and the differences of chosen pairs.

    reference: the algorithm that the rows are compared with, if any
    """

    reference: str | None
    rows: Sequence[ScoreRow]
    pairs: Sequence[PairedDifference] = ()

    def row_of(self, algorithm: str) -> ScoreRow:
        """Give the row of an algorithm by its name."""
        return next(row for row in self.rows if row.algorithm == algorithm)

    @property
    def reference_row(self) -> ScoreRow | None:
        """The row that the others are compared with, if it is among them."""
        return next((row for row in self.rows if row.algorithm == self.reference), None)


class Ranking(NamedTuple):
    """Ranks by name: 1 + those that are significantly better, without and with shared ties."""

    ranks: Mapping[str, int]
    shared_ranks: Mapping[str, float]


NO_RANKING = Ranking({}, {})


def compare_pairs(
    regrets: Mapping[str, FloatArray],
    pairs: Iterable[tuple[str, str]],
    fewest_runs: int = FEWEST_RUNS,
) -> list[PairedDifference]:
    """Compare pairs of algorithms by their final regrets (R,), before any correction.

    fewest_runs: with fewer runs a pair has no p-value
    """
    differences = []
    for first, second in pairs:
        # Runs of one number met the same problem, so the luck that both had cancels.
        estimate, _ = compare_paired(regrets[first], regrets[second])
        runs = len(regrets[first])
        # With very few runs the t test would rest on the assumption that regrets are normal.
        p = p_value(estimate, runs) if runs >= fewest_runs else None
        differences.append(PairedDifference(first, second, estimate, p))
    return differences


def adjust_pairs(pairs: Sequence[PairedDifference]) -> list[PairedDifference]:
    """Apply Holm's correction to pairs that are one family of claims."""
    adjusted_p_values = correct_p_values([pair.p for pair in pairs])
    return [
        replace(pair, adjusted_p=adjusted_p)
        for pair, adjusted_p in zip(pairs, adjusted_p_values, strict=True)
    ]


def adjust_scoreboards(scoreboards: Sequence[Scoreboard]) -> list[Scoreboard]:
    """Apply Holm's correction over several scoreboards, such as those of one report.

    All differences to the references are one family of claims, all pairs are another.
    """
    # Claims of one report are read together, so they are corrected together.
    rows = [row for board in scoreboards for row in board.rows]
    differences = iter(adjust_pairs([row.difference for row in rows if row.difference]))
    pairs = iter(adjust_pairs([pair for board in scoreboards for pair in board.pairs]))
    # Both iterators give the pairs back in the order in which they were collected.
    return [
        replace(
            board,
            rows=[
                row if row.difference is None else row.compare_with(next(differences))
                for row in board.rows
            ],
            pairs=[next(pairs) for _ in board.pairs],
        )
        for board in scoreboards
    ]


def rank_algorithms(names: Sequence[str], pairs: Sequence[PairedDifference]) -> Ranking:
    """Rank algorithms by their pairs after Holm's correction.

    A shared rank adds half of the pairs of which it is not known who is better.
    """
    # Significance is no order: a may beat b, while neither differs from c. Counting those that are
    # better gives every algorithm a rank nevertheless, and ties stay ties.
    better_count = dict.fromkeys(names, 0)
    undecided_count = dict.fromkeys(names, 0)
    for pair in pairs:
        if pair.is_significant:
            better_count[pair.first if pair.difference.mean > 0 else pair.second] += 1
        else:
            undecided_count[pair.first] += 1
            undecided_count[pair.second] += 1
    ranks = {name: 1 + better_count[name] for name in names}
    return Ranking(ranks, {name: ranks[name] + undecided_count[name] / 2 for name in names})


def build_scoreboard(
    results: Mapping[str, Result],
    *,
    reference: str | None = None,
    differences: Sequence[PairedDifference] = (),
    pairs: Sequence[PairedDifference] = (),
    ranking: Ranking = NO_RANKING,
    gaps: Mapping[str, FloatArray] = MappingProxyType({}),
) -> Scoreboard:
    """Score the results of some algorithms on one problem, in their order.

    differences: to the reference, which is the second of each
    ranking:     of those that are ranked
    gaps:        (R, K) by name: how much worse each arm is in each run, where the results
                 themselves do not tell
    """
    by_name = {pair.first: pair for pair in differences}
    # A reference without regret has no ratios: everybody would be infinitely worse.
    base = float(results[reference].regret[:, -1].mean()) if reference is not None else 0.0
    rows = []
    for name, result in results.items():
        row = _score_result(name, result, gaps.get(name))
        row = replace(
            row,
            verdict=REFERENCE if name == reference else UNDECIDED,
            ratio=row.regret.mean / base if base > 0 else None,
            rank=ranking.ranks.get(name),
            shared_rank=ranking.shared_ranks.get(name),
        )
        rows.append(row.compare_with(by_name[name]) if name in by_name else row)
    return Scoreboard(reference, _mark_front(rows), pairs)


def score_comparison(results: Mapping[str, Result]) -> Scoreboard:
    """Score a comparison: every pair, and as reference the algorithm with the lowest mean."""
    regrets = {name: result.regret[:, -1] for name, result in results.items()}
    names = sorted(regrets, key=lambda name: float(regrets[name].mean()))
    # In this order the first of a pair has the lower mean.
    pairs = adjust_pairs(compare_pairs(regrets, combinations(names, 2)))
    lowest = names[0]
    return build_scoreboard(
        results,
        reference=lowest,
        # The lowest mean is the first of all its pairs, and a row needs the difference to it.
        differences=[pair.reverse() for pair in pairs if pair.first == lowest],
        pairs=pairs,
        ranking=rank_algorithms(names, pairs),
    )


def estimate_mean(values: FloatArray) -> Estimate[float]:
    """Estimate the mean of runs (R,) with its standard error and 95% interval."""
    return Estimate(*map(float, mean_interval(values)))


def _score_result(name: str, result: Result, gaps: FloatArray | None) -> ScoreRow:
    """Score one result by itself, before it is compared with others."""
    regret = result.curves[:, -1]
    gaps = _gaps_of(result) if gaps is None else gaps
    # Regrets of single agents were recorded, or follow from pulls where every round has the same
    # means; with drift or contexts pulls alone do not tell them.
    worst_agent = None
    if "agents" in result.kept:
        worst_agent = float(result.agent_regret[:, :, -1].max(axis=1).mean())
    elif gaps is not None:
        worst_agent = float(agent_regrets(result.pulls, gaps).max(axis=1).mean())
    sent = None
    if "messages" in result.kept:
        sent = estimate_mean(result.numbers_sent[:, -1])
    worst = int(regret.argmax())
    return ScoreRow(
        algorithm=name,
        engine=result.engine,
        runs=result.runs,
        regret=estimate_mean(regret),
        difference=None,
        verdict=UNDECIDED,
        ratio=None,
        rank=None,
        shared_rank=None,
        on_front=False,
        best_arm_share=result.best_arm_share(),
        tail=Tail(
            lowest_run=float(regret.min()),
            median_run=float(np.median(regret)),
            percentile_95=tail_percentile(regret, 95),
            percentile_99=tail_percentile(regret, 99),
            worst_run=float(regret[worst]),
            worst_run_number=result.run_numbers[worst],
            wrong_leader=None if gaps is None else wrong_leader_share(result.pulls, gaps),
        ),
        worst_agent=worst_agent,
        numbers_sent=sent,
        sent_per_round=None if sent is None else sent.mean / result.horizon,
    )


def _mark_front(rows: Sequence[ScoreRow]) -> list[ScoreRow]:
    """Mark the Pareto front of regret and numbers sent among the ranked algorithms."""
    # Bounds are not ranked: they receive everything at once, which no network can do.
    candidates = [row for row in rows if row.rank is not None and row.sent_per_round is not None]
    costs = np.array([(row.sent_per_round, row.regret.mean) for row in candidates])
    # Without candidates the array would have the shape (0,).
    is_best = find_pareto_front(costs.reshape(-1, 2))
    front = {row.algorithm for row, best in zip(candidates, is_best, strict=True) if best}
    return [replace(row, on_front=row.algorithm in front) for row in rows]


def _gaps_of(result: Result) -> FloatArray | None:
    """How much worse each arm is in each run, (R, K), if the same for all agents and rounds."""
    means = result.kept.get("means")
    if means is None:
        fixed_means = result.fixed_means()
        if fixed_means is not None:
            means = np.broadcast_to(fixed_means, (result.runs, result.n_arms))
    # Means with a further axis differ between agents or rounds: there is no single gap per arm.
    if means is None or means.ndim != 2:
        return None
    return np.asarray(means.max(axis=1, keepdims=True) - means)
