"""What a report says of a comparison, in numbers: finals, pairs, tails, agents and messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from posse.lab.comparisons import Comparison
from posse.lab.results import Result, Summary
from posse.lab.statistics import (
    SIGNIFICANT,
    Estimate,
    compare_paired,
    correct_p_values,
    mean_interval,
    tail_percentile,
    wrong_leader_share,
)
from posse.randomness import FloatArray

LOWEST = "lowest"
MORE = "more"
UNDECIDED = "undecided"


@dataclass(frozen=True)
class Pair:
    """Final regret of the first, whose mean is the lower one, minus the second's, run by run.

    p, adjusted_p: of Student's t test that they are alike, before and after Holm's correction over
    all pairs; None of so few runs that nothing is claimed
    """

    first: str
    second: str
    difference: Estimate[float]
    p: float | None
    adjusted_p: float | None

    @property
    def decided(self) -> bool:
        """Whether the first is better beyond doubt."""
        return self.adjusted_p is not None and self.adjusted_p < SIGNIFICANT


def pairs(comparison: Comparison) -> list[Pair]:
    """Every pair, those of the lowest mean first."""
    ends = {name: result.regret[:, -1] for name, result in comparison.items()}
    names = sorted(ends, key=lambda name: float(ends[name].mean()))
    found = [(a, b, *compare_paired(ends[a], ends[b])) for a, b in combinations(names, 2)]
    corrected = correct_p_values([p for *_, p in found])
    return [Pair(*each, after) for each, after in zip(found, corrected, strict=True)]


@dataclass(frozen=True)
class Final:
    """The final regret of an algorithm, and whether it is more than the lowest beyond doubt."""

    name: str
    summary: Summary
    best_arm_share: float | None
    engine: str
    verdict: str
    against: Pair | None  # with the lowest


def finals(comparison: Comparison, compared: Sequence[Pair]) -> list[Final]:
    """The final regret of each, in the comparison's order."""
    lowest = compared[0].first if compared else next(iter(comparison))
    against = {pair.second: pair for pair in compared if pair.first == lowest}
    rows = []
    for name, result in comparison.items():
        pair = against.get(name)
        verdict = LOWEST if pair is None else MORE if pair.decided else UNDECIDED
        share = result.best_arm_share()
        rows.append(Final(name, result.summary(), share, result.engine, verdict, pair))
    return rows


@dataclass(frozen=True)
class Tail:
    """Final regret of single runs; percentiles are None where there are too few of them.

    worst_run:    the number of the worst run
    wrong_leader: the share of runs in which the arm played most was not a best one, where the true
                  means are known and the same for all agents and rounds
    """

    name: str
    runs: FloatArray
    lowest: float
    median: float
    percentile_95: float | None
    percentile_99: float | None
    worst: float
    worst_run: int
    wrong_leader: float | None


def tails(comparison: Comparison) -> list[Tail]:
    """The runs of each algorithm, from the best to the worst."""
    rows = []
    for name, result in comparison.items():
        regret = result.regret[:, -1]
        at = int(regret.argmax())
        gaps = _gaps(result)
        rows.append(
            Tail(
                name=name,
                runs=regret,
                lowest=float(regret.min()),
                median=float(np.median(regret)),
                percentile_95=tail_percentile(regret, 95),
                percentile_99=tail_percentile(regret, 99),
                worst=float(regret[at]),
                worst_run=result.run_numbers[at],
                wrong_leader=None if gaps is None else wrong_leader_share(result.pulls, gaps),
            )
        )
    return rows


@dataclass(frozen=True)
class Agents:
    """Final regret of single agents: the best, median and worst of each run, and their spread.

    means: of each agent over runs, (N,); spread: the standard deviation between agents of a run
    """

    name: str
    means: FloatArray
    best: Estimate[float]
    median: Estimate[float]
    worst: Estimate[float]
    spread: Estimate[float]


def agents(comparison: Comparison) -> list[Agents]:
    """What each agent lost, where that was kept and there are several."""
    rows = []
    for name, result in comparison.items():
        if "agents" not in result.kept or result.n_agents == 1:
            continue
        ends = result.agent_regret[:, :, -1]  # (R, N)
        of_runs = ends.min(axis=1), np.median(ends, axis=1), ends.max(axis=1), ends.std(1, ddof=1)
        best, median, worst, spread = map(_estimate, of_runs)
        rows.append(Agents(name, ends.mean(axis=0), best, median, worst, spread))
    return rows


@dataclass(frozen=True)
class Messages:
    """How many numbers an agent sent until the horizon, and what regret that bought."""

    name: str
    sent: Estimate[float]
    a_round: float
    regret: float


def messages(comparison: Comparison) -> list[Messages]:
    """What each algorithm sent, where that was kept."""
    rows = []
    for name, result in comparison.items():
        if "messages" in result.kept:
            sent = _estimate(result.numbers_sent[:, -1])
            a_round = sent.mean / result.horizon
            regret = result.summary().mean
            rows.append(Messages(name, sent, a_round, regret))
    return rows


def _estimate(values: FloatArray) -> Estimate[float]:
    return Estimate(*map(float, mean_interval(values)))


def _gaps(result: Result) -> FloatArray | None:
    """How much worse each arm is in each run, (R, K), if for all agents and rounds alike."""
    means = result.kept.get("means")
    if means is None:
        told = result._fixed_means()
        means = None if told is None else np.broadcast_to(told, (result.runs, result.n_arms))
    if means is None or means.ndim != 2:
        return None
    return np.asarray(means.max(axis=1, keepdims=True) - means)
