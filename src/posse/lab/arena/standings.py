"""What results of the arena show: ranks that admit doubt, and ratios over instances."""

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
from posse.lab.arena import report_data as data
from posse.lab.arena.players import REFERENCE
from posse.lab.arena.report_data import (
    ArenaReport,
    Curve,
    Entrant,
    InstanceReport,
    Made,
    Score,
    Standing,
)
from posse.lab.arena.suite import CONTEXTS, PLAIN, Instance, lower_bound
from posse.lab.arena.tournament import Arena
from posse.lab.report import text as words
from posse.lab.results import Result
from posse.lab.statistics import (
    FEWEST_RUNS,
    SIGNIFICANT,
    Estimate,
    correct_p_values,
    find_pareto_front,
)
from posse.randomness import FloatArray
from posse.serialization.encode import collect_versions


class Order(NamedTuple):
    """Who is better than whom beyond doubt, by name."""

    rank: Mapping[str, int]  # 1 + those that are better
    shared: Mapping[str, float]  # the same, ranks of undecided ties shared


def order(
    names: Sequence[str], p_better: Mapping[tuple[str, str], tuple[float, float | None]]
) -> Order:
    """Ranks from (difference a - b, its p-value) of every pair (a, b), after Holm's correction.

    Shared ranks count half of those of whom it is not known who is better.
    """
    above = dict.fromkeys(names, 0)
    doubtful = dict.fromkeys(names, 0)
    corrected = correct_p_values([p for _, p in p_better.values()])
    for ((a, b), (difference, _)), p in zip(p_better.items(), corrected, strict=True):
        if p is not None and p < SIGNIFICANT:
            above[a if difference > 0 else b] += 1
        else:
            doubtful[a] += 1
            doubtful[b] += 1
    rank = {name: 1 + above[name] for name in names}
    return Order(rank, {name: rank[name] + doubtful[name] / 2 for name in names})


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
    if not error > 0:  # nan where there is but one run
        return Estimate(value, error, value - error, value + error), float(value == 0)
    freedom = variance**2 / sum(ratio.variance**2 / (ratio.runs - 1) for ratio in ratios)
    margin = float(stdtrit(freedom, 0.975)) * error
    p = float(2 * stdtr(freedom, -abs(value) / error))
    return Estimate(value, error, value - margin, value + margin), p


# Standings over all instances: geometric means of ratios, ranks with ties, the overall front.


@dataclass(frozen=True)
class Played:
    """What an instance adds to the standings, by rival: the better version of each."""

    number: int
    scores: Mapping[str, Score]
    regrets: Mapping[str, FloatArray]  # (R,) at the horizon
    shared_ranks: Mapping[str, float]


def standings(entrants: Sequence[Entrant], played: Sequence[Played]) -> list[Standing]:
    """One row a rival, best first; those that are not ranked come last."""
    rivals = {entrant.rival: entrant for entrant in entrants}
    ranked = [rival for rival, entrant in rivals.items() if entrant.ranked]
    rank = _ranks(ranked, played)
    rows = [_standing(rival, rivals[rival], rank.get(rival), played) for rival in rivals]
    known = [row for row in rows if row.rank and row.numbers_sent is not None and row.ratio]
    costs = np.array([(row.numbers_sent, row.ratio) for row in known]).reshape(-1, 2)
    front = {row.algorithm for row, on in zip(known, find_pareto_front(costs), strict=True) if on}
    rows = [replace(row, on_front=row.algorithm in front) for row in rows]
    return sorted(rows, key=lambda row: (row.rank is None, row.ratio or math.inf))


def _ranks(names: Sequence[str], played: Sequence[Played]) -> dict[str, int]:
    """Ranks by the mean log-ratio of each pair on the instances that both play."""
    pairs: dict[tuple[str, str], tuple[float, float | None]] = {}
    for a, b in combinations(names, 2):
        ratios = _log_ratios(a, b, played)
        if ratios:
            estimate, p = mean_log_ratio(ratios)
            enough = min(len(each.regrets[a]) for each in played if a in each.regrets)
            pairs[a, b] = estimate.mean, p if enough >= FEWEST_RUNS else None
    return dict(order(names, pairs).rank)


def _log_ratios(a: str, b: str, played: Sequence[Played]) -> list[LogRatio]:
    both = [each.regrets for each in played if a in each.regrets and b in each.regrets]
    found = [log_ratio(regrets[a], regrets[b]) for regrets in both]
    return [ratio for ratio in found if ratio is not None]


def _standing(rival: str, entrant: Entrant, rank: int | None, played: Sequence[Played]) -> Standing:
    scores = {each.number: each.scores[rival] for each in played if rival in each.scores}
    verdicts = [score.verdict for score in scores.values()]
    shared = [each.shared_ranks[rival] for each in played if rival in each.shared_ranks]
    sent = [score.numbers_sent for score in scores.values()]
    ratios = {number: score.ratio for number, score in scores.items() if score.ratio is not None}
    worst = max(ratios, key=lambda number: ratios[number], default=None)
    logs = _log_ratios(rival, REFERENCE, played)
    estimate = mean_log_ratio(logs)[0] if logs else None
    known = [number for number in sent if number is not None]
    return Standing(
        algorithm=rival,
        source=entrant.source,
        rank=rank,
        instances=len(scores),
        ratio=_exp(estimate.mean) if estimate else None,
        ratio_low=_exp(estimate.low) if estimate else None,
        ratio_high=_exp(estimate.high) if estimate else None,
        mean_rank=float(np.mean(shared)) if shared else None,
        firsts=sum(score.rank == 1 for score in scores.values()),
        better=verdicts.count(data.BETTER),
        worse=verdicts.count(data.WORSE),
        undecided=verdicts.count(data.UNDECIDED),
        numbers_sent=float(np.mean(known)) if known and len(known) == len(sent) else None,
        on_front=False,
        worst_ratio=ratios[worst] if worst is not None else None,
        worst_instance=worst,
    )


def _exp(value: float) -> float | None:
    return math.exp(value) if math.isfinite(value) else None


# From results to the report: scores, ranks and standings.

TITLES = {
    PLAIN: "The arena: algorithms for decentralized bandits, ranked",
    CONTEXTS: "The arena: algorithms for decentralized bandits with contexts, ranked",
}


@dataclass(frozen=True)
class _Outcome:
    """What is left of the results of an instance."""

    instance: Instance
    scores: dict[str, Score]
    regrets: dict[str, FloatArray]  # (R,) at the horizon
    bound: float | None


def report_of(arena: Arena, seconds: float, machine: str) -> ArenaReport:
    """The whole report of an arena that was played."""
    outcomes = [_outcome(arena, instance) for instance in arena.instances]
    _correct(outcomes)
    played = [_ranked(arena, outcome) for outcome in outcomes]
    contextual = any(isinstance(each.bandit, ContextualBandit) for each in arena.instances)
    kind = CONTEXTS if contextual else PLAIN
    return ArenaReport(
        title=TITLES[kind],
        made=Made(
            mode=arena.form.mode,
            runs=arena.form.runs,
            seed=arena.form.seed,
            seconds=seconds,
            versions=collect_versions(),
            machine=f"{platform.machine()}, {machine}",
            suite=kind,
        ),
        reference=REFERENCE,
        entrants=[player.entrant for player in arena.players.values()],
        standings=standings([player.entrant for player in arena.players.values()], played),
        instances=[_instance(arena, outcome) for outcome in outcomes],
        notes=notes(arena, outcomes),
    )


def _outcome(arena: Arena, instance: Instance) -> _Outcome:
    results = arena.results(instance)
    regrets = {name: result.regret[:, -1] for name, result in results.items()}
    reference = regrets[REFERENCE]
    scores = {name: _score(name, result, reference) for name, result in results.items()}
    bound = None
    if not isinstance(instance.bandit, ContextualBandit):
        means = results[REFERENCE].means
        bound = lower_bound(instance, means, arena.form.horizon(instance))
    return _Outcome(instance, scores, regrets, bound)


def _score(name: str, result: Result, reference: FloatArray) -> Score:
    """A score before any comparison with others but the reference."""
    regret = result.regret[:, -1]
    mean, error, low, high = (_known(float(each)) for each in stats.mean_interval(regret))
    if "agents" in result.kept:  # with contexts
        of_agents = result.agent_regret[:, :, -1]
        wrong = None
    else:
        gaps = result.means.max(axis=1, keepdims=True) - result.means  # (R, K)
        of_agents = stats.agent_regrets(result.pulls, gaps)
        wrong = stats.wrong_leader_share(result.pulls, gaps)
    sent = result.numbers_sent[:, -1].mean() / result.horizon if "messages" in result.kept else None
    is_reference = name == REFERENCE
    difference, p = stats.compare_paired(regret, reference)
    base = float(reference.mean())
    return Score(
        algorithm=name,
        engine=result.engine,
        runs=result.runs,
        mean=mean or 0.0,
        standard_error=error,
        low=low,
        high=high,
        difference=None if is_reference else difference.mean,
        difference_low=None if is_reference else _known(difference.low),
        difference_high=None if is_reference else _known(difference.high),
        p=None if is_reference else p,
        adjusted_p=None,
        verdict=data.REFERENCE if is_reference else data.UNDECIDED,
        ratio=float(regret.mean()) / base if base > 0 else None,
        percentile_95=stats.tail_percentile(regret, 95),
        percentile_99=stats.tail_percentile(regret, 99),
        worst_agent=float(of_agents.max(axis=1).mean()),
        wrong_share=wrong,
        numbers_sent=None if sent is None else float(sent),
        rank=None,
        on_front=False,
        curve=_curve(result),
    )


def _curve(result: Result) -> Curve:
    mean, _, low, high = stats.mean_interval(result.regret)
    lows, highs = ([_known(float(x)) for x in band] for band in (low, high))
    return Curve(result.times.tolist(), [float(x) for x in mean], lows, highs)


def _correct(outcomes: Sequence[_Outcome]) -> None:
    """Holm's correction over all differences to the reference of all instances."""
    every = [(outcome, name) for outcome in outcomes for name in outcome.scores]
    corrected = stats.correct_p_values([outcome.scores[name].p for outcome, name in every])
    for (outcome, name), p in zip(every, corrected, strict=True):
        score = outcome.scores[name]
        verdict = score.verdict
        if p is not None and p < stats.SIGNIFICANT and score.difference:
            verdict = data.BETTER if score.difference < 0 else data.WORSE
        outcome.scores[name] = replace(score, adjusted_p=p, verdict=verdict)


def _ranked(arena: Arena, outcome: _Outcome) -> Played:
    """Give ranks and the front to the better version of each, and say who that is."""
    scores = outcome.scores
    regrets = outcome.regrets
    best: dict[str, str] = {}  # the name of each rival's better version
    for name, score in scores.items():
        rival = arena.players[name].entrant.rival
        if rival not in best or score.mean < scores[best[rival]].mean:
            best[rival] = name
    ranked = [name for name in best.values() if arena.players[name].entrant.ranked]
    pairs: dict[tuple[str, str], tuple[float, float | None]] = {}
    for a, b in combinations(ranked, 2):
        interval, p = stats.compare_paired(regrets[a], regrets[b])
        pairs[a, b] = interval.mean, p
    found = order(ranked, pairs)
    known = [name for name in ranked if scores[name].numbers_sent is not None]
    costs = np.array([(scores[name].numbers_sent, scores[name].mean) for name in known])
    front = dict(zip(known, stats.find_pareto_front(costs.reshape(-1, 2)), strict=True))
    for name in ranked:
        scores[name] = replace(
            scores[name], rank=found.rank[name], on_front=bool(front.get(name, False))
        )
    shared = {arena.players[name].entrant.rival: rank for name, rank in found.shared.items()}
    return Played(
        outcome.instance.number,
        {rival: scores[name] for rival, name in best.items()},
        {rival: regrets[name] for rival, name in best.items()},
        shared,
    )


def _instance(arena: Arena, outcome: _Outcome) -> InstanceReport:
    instance = outcome.instance
    scores = sorted(outcome.scores.values(), key=lambda score: score.mean)
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
        lower_bound=outcome.bound,
        mixed=len({score.engine for score in scores}) > 1,
        scores=scores,
        refusals=arena.refused(instance),
    )


def notes(arena: Arena, outcomes: Sequence[_Outcome]) -> list[str]:
    """How ranks are made, and what these runs cannot show."""
    runs = arena.form.runs
    found = [
        "Regret is pseudo-regret per agent at the horizon; forced pulls are charged.",
        f"Differences are to {REFERENCE}, paired run by run; verdicts are Student's t at 5% after "
        "Holm's correction over all differences to it in this report. Between equals that keeps "
        "its 5%; where one of two fails rarely but badly, claims come more often than that.",
        "The rank on an instance is 1 + the algorithms that are better beyond doubt (paired, "
        "Holm's correction over all pairs of the instance): equal ranks are undecided, and who "
        "varies much may rank before somebody with less regret. Read ranks beside intervals.",
        f"The overall rank goes by the geometric mean of regret over {REFERENCE}'s, on the "
        "instances that both of a pair can play, with the same correction over all pairs.",
        *_of_class(outcomes),
    ]
    if runs < 1000:
        found.append(
            "What goes wrong once in hundreds of runs is in no interval unless a run met it: who "
            "fails rarely but badly looks better here than it is, beyond what 5% allows for."
        )
    if any(len({s.engine for s in outcome.scores.values()}) > 1 for outcome in outcomes):
        found.append(
            "Some algorithms have no compiled kernel: between engines runs share means and graphs "
            "but not rewards, so such differences are as true but less sharp."
        )
    short = [o.instance for o in outcomes if arena.form.horizon(o.instance) < o.instance.horizon]
    if short:
        found.append(
            f"{len(short)} of {len(outcomes)} instances stop early: who explores first and gains "
            "later is judged too soon; posse arena --full plays all rounds."
        )
    found += filter(None, [words.undecided(runs), words.unseen_tails(runs)])
    return found


def _of_class(outcomes: Sequence[_Outcome]) -> list[str]:
    """What holds of one class of instances."""
    if any(outcome.bound is None for outcome in outcomes):
        return [
            "Regret is against the best arm for the context of the visit; no lower bound is shown.",
            "centralized TS and LinUCB hear everything at once and are no decentralized "
            "algorithms: not ranked. Federated LinUCB talks to a server, whatever the network.",
        ]
    return [
        "Where an algorithm has two indices, published and KL, the better one of the instance is "
        "ranked; choosing it by the same runs flatters it a little.",
        "Lai-Robbins over N is a limit for long horizons: at a finite one regret may lie below.",
        "centralized TS hears everything at once and is no decentralized algorithm: not ranked.",
    ]


def _known(value: float) -> float | None:
    return None if np.isnan(value) else value
