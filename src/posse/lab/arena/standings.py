"""Standings of the arena: the scoreboard of each instance, and the leaderboard over all of them.

The leaderboard averages log-ratios of mean regret over the instances that two rivals both play;
ranks count only those that are significantly better, so ties stay ties.
"""

from __future__ import annotations

import math
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import NamedTuple

import numpy as np

from posse.bandits import ContextualBandit
from posse.lab import statistics as stats
from posse.lab.arena.players import EVEN_SPLIT, REFERENCE
from posse.lab.arena.report_data import (
    TUNED,
    ArenaProvenance,
    ArenaReport,
    Entrant,
    InstanceReport,
    LeaderboardRow,
)
from posse.lab.arena.suite import CONTEXTS, PLAIN, Instance, lai_robbins_bound
from posse.lab.arena.tournament import Arena
from posse.lab.report import (
    BETTER,
    UNDECIDED,
    WORSE,
    Curve,
    PairedDifference,
    Scoreboard,
    ScoreRow,
    adjust_pairs,
    adjust_scoreboards,
    build_scoreboard,
    compare_pairs,
    rank_algorithms,
    warn_few_runs,
    warn_unseen_tails,
)
from posse.lab.results import Result
from posse.lab.statistics import FEWEST_RUNS, Estimate, find_pareto_front
from posse.randomness import FloatArray
from posse.serialization.encode import collect_versions


class LogRatio(NamedTuple):
    """The logarithm of a ratio of mean regrets and its variance, by the delta method."""

    value: float
    variance: float
    runs: int  # that it was estimated from


def log_ratio(a: FloatArray, b: FloatArray) -> LogRatio | None:
    """ln(mean a / mean b) of paired runs; None where one of the means is not above 0."""
    mean_a = float(a.mean())
    mean_b = float(b.mean())
    if not (mean_a > 0 and mean_b > 0):
        return None
    # Delta method: ln(mean a / mean b) moves with each pair of runs by a/mean_a - b/mean_b, so runs
    # stay paired and the luck that both had cancels.
    moves = a / mean_a - b / mean_b
    variance = float(moves.var(ddof=1) / len(moves)) if len(moves) > 1 else np.nan
    return LogRatio(float(np.log(mean_a / mean_b)), variance, len(moves))


def mean_log_ratio(ratios: Sequence[LogRatio]) -> tuple[Estimate[float], float]:
    """Average log-ratios of independent instances: its interval and p-value of no difference.

    By Student's t with Satterthwaite's degrees of freedom: a few instances of few runs know their
    variances badly, and a normal law would claim far too much.
    """
    from scipy.special import stdtr, stdtrit

    value = float(np.mean([ratio.value for ratio in ratios]))
    variance = sum(ratio.variance for ratio in ratios)
    error = float(np.sqrt(variance)) / len(ratios)
    # Without an error there is no t: equal runs differ by nothing, or for sure.
    if not error > 0:  # nan where there is but one run
        return Estimate(value, error, value - error, value + error), float(value == 0)
    # Satterthwaite: the degrees of freedom of a sum of variances that are estimated separately.
    freedom = variance**2 / sum(ratio.variance**2 / (ratio.runs - 1) for ratio in ratios)
    margin = float(stdtrit(freedom, 0.975)) * error
    p = float(2 * stdtr(freedom, -abs(value) / error))
    return Estimate(value, error, value - margin, value + margin), p


# The leaderboard over all instances: geometric means of ratios, ranks with ties, the front.


@dataclass(frozen=True)
class RivalScores:
    """The scores of an instance by rival: those of the better version of each."""

    number: int
    rows: Mapping[str, ScoreRow]
    regrets: Mapping[str, FloatArray]  # (R,) at the horizon


def rank_standings(
    entrants: Sequence[Entrant], played: Sequence[RivalScores]
) -> list[LeaderboardRow]:
    """Build the leaderboard: one row a rival, best first; those that are not ranked come last."""
    rivals = {entrant.rival: entrant for entrant in entrants}
    ranked = [rival for rival, entrant in rivals.items() if entrant.ranked]
    ranks = _rank_overall(ranked, played)
    rows = [_build_standing(rival, rivals[rival], ranks.get(rival), played) for rival in rivals]
    candidates = [row for row in rows if row.rank and row.numbers_sent is not None and row.ratio]
    costs = np.array([(row.numbers_sent, row.ratio) for row in candidates]).reshape(-1, 2)
    is_best = find_pareto_front(costs)
    front = {row.algorithm for row, best in zip(candidates, is_best, strict=True) if best}
    rows = [replace(row, on_front=row.algorithm in front) for row in rows]
    return sorted(rows, key=lambda row: (row.rank is None, row.ratio or math.inf))


def _rank_overall(names: Sequence[str], played: Sequence[RivalScores]) -> Mapping[str, int]:
    """Rank rivals by the mean log-ratio of each pair on the instances that both play."""
    pairs = []
    for a, b in combinations(names, 2):
        ratios = _log_ratios(a, b, played)
        if ratios:
            # Log-ratios of the instances that both play: nobody gains by refusing the hard ones.
            estimate, p = mean_log_ratio(ratios)
            runs = min(len(scores.regrets[a]) for scores in played if a in scores.regrets)
            pairs.append(PairedDifference(a, b, estimate, p if runs >= FEWEST_RUNS else None))
    return rank_algorithms(names, adjust_pairs(pairs)).ranks


def _log_ratios(a: str, b: str, played: Sequence[RivalScores]) -> list[LogRatio]:
    """Give the log-ratios of two rivals on the instances that both play, where they exist."""
    shared = [scores.regrets for scores in played if {a, b} <= set(scores.regrets)]
    ratios = [log_ratio(regrets[a], regrets[b]) for regrets in shared]
    return [ratio for ratio in ratios if ratio is not None]


def _build_standing(
    rival: str, entrant: Entrant, rank: int | None, played: Sequence[RivalScores]
) -> LeaderboardRow:
    rows = {scores.number: scores.rows[rival] for scores in played if rival in scores.rows}
    verdicts = [row.verdict for row in rows.values()]
    shared_ranks = [row.shared_rank for row in rows.values() if row.shared_rank is not None]
    sent = [row.sent_per_round for row in rows.values() if row.sent_per_round is not None]
    ratios = {number: row.ratio for number, row in rows.items() if row.ratio is not None}
    worst = max(ratios, key=lambda number: ratios[number], default=None)
    log_ratios = _log_ratios(rival, REFERENCE, played)
    estimate = mean_log_ratio(log_ratios)[0] if log_ratios else None
    return LeaderboardRow(
        algorithm=rival,
        source=entrant.source,
        rank=rank,
        instances=len(rows),
        ratio=_exp(estimate.mean) if estimate else None,
        ratio_low=_exp(estimate.low) if estimate else None,
        ratio_high=_exp(estimate.high) if estimate else None,
        mean_rank=float(np.mean(shared_ranks)) if shared_ranks else None,
        firsts=sum(row.rank == 1 for row in rows.values()),
        better=verdicts.count(BETTER),
        worse=verdicts.count(WORSE),
        undecided=verdicts.count(UNDECIDED),
        # Unknown on one instance, unknown on average.
        numbers_sent=float(np.mean(sent)) if sent and len(sent) == len(rows) else None,
        on_front=False,
        worst_ratio=ratios[worst] if worst is not None else None,
        worst_instance=worst,
    )


def _exp(value: float) -> float | None:
    return math.exp(value) if math.isfinite(value) else None


# From results to the report.

TITLES = {
    PLAIN: "The arena: algorithms for decentralized bandits, ranked",
    CONTEXTS: "The arena: algorithms for decentralized bandits with contexts, ranked",
}


@dataclass(frozen=True)
class _InstanceOutcome:
    """The numbers of an instance that outlive its results.

    Results of all instances together would fill the memory, so they are read one by one.
    """

    instance: Instance
    scoreboard: Scoreboard
    versions: Mapping[str, str]  # the name of each rival's better version
    regrets: Mapping[str, FloatArray]  # (R,) at the horizon
    curves: Sequence[Curve]
    lower_bound: float | None


def build_report(arena: Arena, seconds: float, machine: str) -> ArenaReport:
    """Build the whole report of an arena that was played."""
    outcomes = [_score_instance(arena, instance) for instance in arena.instances]
    scoreboards = adjust_scoreboards([outcome.scoreboard for outcome in outcomes])
    scoreboards = _compare_even_split(scoreboards, outcomes)
    outcomes = [
        replace(outcome, scoreboard=adjusted)
        for outcome, adjusted in zip(outcomes, scoreboards, strict=True)
    ]
    contextual = any(isinstance(i.bandit, ContextualBandit) for i in arena.instances)
    kind = CONTEXTS if contextual else PLAIN
    entrants = [player.entrant for player in arena.players.values()]
    return ArenaReport(
        title=TITLES[kind],
        made=ArenaProvenance(
            mode=arena.form.mode,
            runs=arena.form.runs,
            seed=arena.form.seed,
            seconds=seconds,
            versions=collect_versions(),
            machine=f"{platform.machine()}, {machine}",
            suite=kind,
        ),
        reference=REFERENCE,
        entrants=entrants,
        standings=rank_standings(entrants, [_scores_of_rivals(outcome) for outcome in outcomes]),
        instances=[_report_instance(arena, outcome) for outcome in outcomes],
        notes=write_notes(arena, outcomes),
    )


def _score_instance(arena: Arena, instance: Instance) -> _InstanceOutcome:
    """Score an instance; differences to the reference are corrected with those of all others."""
    results = arena.load_results(instance)
    regrets = {name: result.regret[:, -1] for name, result in results.items()}
    # Only the better version of each rival is ranked: two versions of one would count twice.
    versions = _choose_versions(arena, regrets)
    ranked = [name for name in versions.values() if arena.players[name].entrant.ranked]
    pairs = adjust_pairs(compare_pairs(regrets, combinations(ranked, 2)))
    others = [name for name in results if name not in (REFERENCE, EVEN_SPLIT)]
    board = build_scoreboard(
        results,
        reference=REFERENCE,
        differences=compare_pairs(regrets, [(name, REFERENCE) for name in others]),
        ranking=rank_algorithms(ranked, pairs),
    )
    bound = None
    if not isinstance(instance.bandit, ContextualBandit):
        means = results[REFERENCE].means
        bound = lai_robbins_bound(instance, means, arena.form.horizon(instance))
    curves = [_measure_curve(name, result) for name, result in results.items()]
    return _InstanceOutcome(instance, board, versions, regrets, curves, bound)


def _compare_even_split(
    scoreboards: Sequence[Scoreboard], outcomes: Sequence[_InstanceOutcome]
) -> list[Scoreboard]:
    """Compare the even split with the reference, in a family of claims of its own.

    Nobody doubts that it is worse, and its p-values must not change those of the algorithms.
    """
    pairs = [
        pair
        for outcome in outcomes
        if EVEN_SPLIT in outcome.regrets
        for pair in compare_pairs(outcome.regrets, [(EVEN_SPLIT, REFERENCE)])
    ]
    adjusted = iter(adjust_pairs(pairs))
    return [
        replace(
            board,
            rows=[
                row.compare_with(next(adjusted)) if row.algorithm == EVEN_SPLIT else row
                for row in board.rows
            ],
        )
        for board in scoreboards
    ]


def _choose_versions(arena: Arena, regrets: Mapping[str, FloatArray]) -> dict[str, str]:
    """Choose the version of each rival with the lower mean regret, by rival."""
    versions: dict[str, str] = {}
    for name, regret in regrets.items():
        rival = arena.players[name].entrant.rival
        if rival not in versions or regret.mean() < regrets[versions[rival]].mean():
            versions[rival] = name
    return versions


def _measure_curve(name: str, result: Result) -> Curve:
    mean, _, low, high = (values.tolist() for values in stats.mean_interval(result.regret))
    return Curve(name, result.times.tolist(), mean, low, high)


def _scores_of_rivals(outcome: _InstanceOutcome) -> RivalScores:
    return RivalScores(
        outcome.instance.number,
        {rival: outcome.scoreboard.row_of(name) for rival, name in outcome.versions.items()},
        {rival: outcome.regrets[name] for rival, name in outcome.versions.items()},
    )


def _report_instance(arena: Arena, outcome: _InstanceOutcome) -> InstanceReport:
    instance = outcome.instance
    rows = sorted(outcome.scoreboard.rows, key=lambda row: row.regret.mean)
    curves = {curve.name: curve for curve in outcome.curves}
    return InstanceReport(
        number=instance.number,
        name=instance.name,
        why=instance.why,
        arms=instance.arms,
        network=instance.graph,
        n_agents=instance.network.n_agents,
        n_arms=instance.bandit.n_arms,
        horizon=arena.form.horizon(instance),
        full_horizon=instance.horizon,
        runs=arena.form.runs,
        lower_bound=outcome.lower_bound,
        mixed=len({row.engine for row in rows}) > 1,
        scoreboard=replace(outcome.scoreboard, rows=rows),
        curves=[curves[row.algorithm] for row in rows],
        refusals=arena.refusals_of(instance),
    )


def write_notes(arena: Arena, outcomes: Sequence[_InstanceOutcome]) -> list[str]:
    """Explain how ranks are computed, and the limits of these runs."""
    runs = arena.form.runs
    sentences = [
        "Regret is pseudo-regret per agent at the horizon; forced pulls are charged.",
        f"Differences are to {REFERENCE}, paired run by run; verdicts are Student's t at 5% after "
        "Holm's correction over all differences to it in this report. Between equals that keeps "
        "its 5%; where one of two fails rarely but badly, claims come more often than that.",
        "The rank on an instance is 1 + the algorithms that are better beyond doubt (paired, "
        "Holm's correction over all pairs of the instance): equal ranks are undecided, and who "
        "varies much may rank before somebody with less regret. Read ranks beside intervals.",
        f"The overall rank goes by the geometric mean of regret over {REFERENCE}'s, on the "
        "instances that both of a pair can play, with the same correction over all pairs.",
        *_notes_of_suite(outcomes),
    ]
    if any(player.entrant.source == TUNED for player in arena.players.values()):
        sentences.append(
            "The constants of tuned rivals had the lowest mean regret on other instances; tails "
            "played no part in the choice. Other algorithms were not tuned."
        )
    if runs < 1000:
        sentences.append(
            "What goes wrong once in hundreds of runs is in no interval unless a run met it: who "
            "fails rarely but badly looks better here than it is, beyond what 5% allows for."
        )
    if any(len({row.engine for row in outcome.scoreboard.rows}) > 1 for outcome in outcomes):
        sentences.append(
            "Some algorithms have no compiled kernel: between engines runs share means and graphs "
            "but not rewards, so such differences are as true but less sharp."
        )
    short = [o.instance for o in outcomes if arena.form.horizon(o.instance) < o.instance.horizon]
    if short:
        sentences.append(
            f"{len(short)} of {len(outcomes)} instances stop early: who explores first and gains "
            "later is judged too soon; posse arena --full plays all rounds."
        )
    sentences += filter(None, [warn_few_runs(runs), warn_unseen_tails(runs)])
    return sentences


def _notes_of_suite(outcomes: Sequence[_InstanceOutcome]) -> list[str]:
    """Notes on the instances of one suite."""
    if any(outcome.lower_bound is None for outcome in outcomes):
        return [
            "Regret is against the best arm for the context of the visit; no lower bound is shown.",
            "centralized TS and LinUCB hear everything at once and are no decentralized "
            "algorithms: not ranked. Federated LinUCB talks to a server, whatever the network.",
            "uniform is an even split, which learns nothing: not ranked, for scale.",
        ]
    return [
        "Where an algorithm has two indices, published and KL, the better one of the instance is "
        "ranked; choosing it by the same runs flatters it a little.",
        "Lai-Robbins over N is a limit for long horizons: at a finite one regret may lie below.",
        "centralized TS hears everything at once and is no decentralized algorithm: not ranked.",
        "uniform is an even split, which learns nothing: not ranked, for scale.",
    ]
