"""Standings over all instances: geometric means of ratios, ranks with ties, the overall front."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from posse.lab.arena import data
from posse.lab.arena import statistics as st
from posse.lab.arena.data import Entrant, Score, Standing
from posse.lab.arena.line_up import REFERENCE
from posse.lab.statistics import FEWEST_RUNS, on_front
from posse.randomness import FloatArray


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
    front = {row.algorithm for row, on in zip(known, on_front(costs), strict=True) if on}
    rows = [replace(row, on_front=row.algorithm in front) for row in rows]
    return sorted(rows, key=lambda row: (row.rank is None, row.ratio or math.inf))


def _ranks(names: Sequence[str], played: Sequence[Played]) -> dict[str, int]:
    """Ranks by the mean log-ratio of each pair on the instances that both play."""
    pairs: dict[tuple[str, str], tuple[float, float | None]] = {}
    for a, b in combinations(names, 2):
        ratios = _log_ratios(a, b, played)
        if ratios:
            estimate, p = st.mean_log_ratio(ratios)
            enough = min(len(each.regrets[a]) for each in played if a in each.regrets)
            pairs[a, b] = estimate.mean, p if enough >= FEWEST_RUNS else None
    return dict(st.order(names, pairs).rank)


def _log_ratios(a: str, b: str, played: Sequence[Played]) -> list[st.LogRatio]:
    both = [each.regrets for each in played if a in each.regrets and b in each.regrets]
    found = [st.log_ratio(regrets[a], regrets[b]) for regrets in both]
    return [ratio for ratio in found if ratio is not None]


def _standing(rival: str, entrant: Entrant, rank: int | None, played: Sequence[Played]) -> Standing:
    scores = {each.number: each.scores[rival] for each in played if rival in each.scores}
    verdicts = [score.verdict for score in scores.values()]
    shared = [each.shared_ranks[rival] for each in played if rival in each.shared_ranks]
    sent = [score.numbers_sent for score in scores.values()]
    ratios = {number: score.ratio for number, score in scores.items() if score.ratio is not None}
    worst = max(ratios, key=lambda number: ratios[number], default=None)
    logs = _log_ratios(rival, REFERENCE, played)
    estimate = st.mean_log_ratio(logs)[0] if logs else None
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
