"""From results to the report: scores, ranks and standings."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from posse.bandits import ContextualBandit
from posse.lab import statistics as stats
from posse.lab.arena import data
from posse.lab.arena.data import ArenaReport, Curve, InstanceReport, Made, Score
from posse.lab.arena.line_up import REFERENCE
from posse.lab.arena.running import Arena
from posse.lab.arena.standings import Played, standings
from posse.lab.arena.statistics import order
from posse.lab.arena.suite import CONTEXTS, PLAIN, Instance, lower_bound
from posse.lab.pages import words
from posse.lab.results import Result
from posse.lab.settings import versions
from posse.randomness import FloatArray

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
            versions=versions(),
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
        of_agents, wrong = result.agent_regret[:, :, -1], None
    else:
        gaps = result.means.max(axis=1, keepdims=True) - result.means  # (R, K)
        of_agents = stats.of_agents(result.pulls, gaps)
        wrong = stats.wrong_leader(result.pulls, gaps)
    sent = result.numbers_sent[:, -1].mean() / result.horizon if "messages" in result.kept else None
    is_reference = name == REFERENCE
    difference, p = stats.paired(regret, reference)
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
        percentile_95=stats.percentile(regret, 95),
        percentile_99=stats.percentile(regret, 99),
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
    corrected = stats.adjusted([outcome.scores[name].p for outcome, name in every])
    for (outcome, name), p in zip(every, corrected, strict=True):
        score = outcome.scores[name]
        verdict = score.verdict
        if p is not None and p < stats.SIGNIFICANT and score.difference:
            verdict = data.BETTER if score.difference < 0 else data.WORSE
        outcome.scores[name] = replace(score, adjusted_p=p, verdict=verdict)


def _ranked(arena: Arena, outcome: _Outcome) -> Played:
    """Give ranks and the front to the better version of each, and say who that is."""
    scores, regrets = outcome.scores, outcome.regrets
    best: dict[str, str] = {}  # the name of each rival's better version
    for name, score in scores.items():
        rival = arena.players[name].entrant.rival
        if rival not in best or score.mean < scores[best[rival]].mean:
            best[rival] = name
    ranked = [name for name in best.values() if arena.players[name].entrant.ranked]
    pairs: dict[tuple[str, str], tuple[float, float | None]] = {}
    for a, b in combinations(ranked, 2):
        interval, p = stats.paired(regrets[a], regrets[b])
        pairs[a, b] = interval.mean, p
    found = order(ranked, pairs)
    known = [name for name in ranked if scores[name].numbers_sent is not None]
    costs = np.array([(scores[name].numbers_sent, scores[name].mean) for name in known])
    front = dict(zip(known, stats.on_front(costs.reshape(-1, 2)), strict=True))
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
