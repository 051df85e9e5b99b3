"""The arena's report as data: every field that the page, the table and report.json may read.

Regret is pseudo-regret per agent at the horizon, the lower the better. None: unknown, or not to be
said with these runs.
"""

from __future__ import annotations

import csv
import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from posse.lab.atomic_files import atomic_write
from posse.lab.report.text import write_json

# What a difference to the reference shows, after Holm's correction.
BETTER = "better"
WORSE = "worse"
UNDECIDED = "undecided"
REFERENCE = "reference"
VERDICTS = (BETTER, WORSE, UNDECIDED, REFERENCE)

# Where an algorithm comes from; the legend shows the words.
PAPER = "paper"
BASELINE = "baseline"
CODE = "code"
ABSTRACT = "abstract"
MEMORY = "memory"
OURS = "ours"
BOUND = "bound"
YOURS = "yours"
MARKS: Mapping[str, str] = {
    PAPER: "of the paper",
    BASELINE: "a plain baseline",
    CODE: "constants read in public code",
    ABSTRACT: "abstract read, constants from memory",
    MEMORY: "constants from memory",
    OURS: "our own",
    BOUND: "no decentralized algorithm: a floor, not ranked",
    YOURS: "yours",
}


@dataclass(frozen=True)
class Entrant:
    """An algorithm of the line-up.

    source:  a key of MARKS; the legend says MARKS[source]
    rival:   what its versions have in common ("DistUCB" of "Dist-UCB1" and "Dist-UCB (KL)"): where
             one algorithm has two indices, both are shown and the better of the instance is ranked;
             its own name if there is one version only
    ranked:  whether it takes part in the ranking; bounds do not
    """

    name: str
    source: str
    rival: str
    ranked: bool = True


@dataclass(frozen=True)
class Curve:
    """Mean regret per agent at some rounds, and its 95% band."""

    times: Sequence[int]
    mean: Sequence[float]
    low: Sequence[float | None]
    high: Sequence[float | None]


@dataclass(frozen=True)
class Score:
    """How an algorithm did on an instance.

    difference:    final regret minus the reference's (dec-TS), paired run by run, and its 95%
                   interval; None for the reference itself
    p, adjusted_p: of Student's paired t test, before and after Holm's correction over all
                   differences to the reference in the report
    verdict:       one of VERDICTS: what adjusted_p < 5% shows
    ratio:         mean regret over the reference's
    percentile_99: of runs, only where there are 200 of them; percentile_95: 40
    worst_agent:   the mean over runs of the largest regret of an agent
    wrong_share:   the share of runs whose most played arm is not a best one; None with contexts,
                   where every visit has its own
    numbers_sent:  per agent and round, on average; None if it does not say
    rank:          1 + the algorithms that are better beyond doubt, so equal ranks are undecided;
                   None for bounds and for the worse one of two versions
    on_front:      whether no ranked algorithm has both less regret and fewer numbers sent
    """

    algorithm: str
    engine: str
    runs: int
    mean: float
    standard_error: float | None
    low: float | None
    high: float | None
    difference: float | None
    difference_low: float | None
    difference_high: float | None
    p: float | None
    adjusted_p: float | None
    verdict: str
    ratio: float | None
    percentile_95: float | None
    percentile_99: float | None
    worst_agent: float
    wrong_share: float | None
    numbers_sent: float | None
    rank: int | None
    on_front: bool
    curve: Curve


@dataclass(frozen=True)
class Refusal:
    """An algorithm that cannot play an instance, and why, in a sentence."""

    algorithm: str
    why: str


@dataclass(frozen=True)
class InstanceReport:
    """An instance of the suite and how all algorithms did.

    number:       from 1 on, its place in the suite
    name:         short, such as "cycle 100"
    arms:         in words, such as "Gaussian, .5 and 16 x .1"
    network:      in words
    horizon:      the rounds played; full_horizon: those of the suite
    lower_bound:  Lai-Robbins over N at this horizon: slope ln T. It holds in the limit: at a finite
                  horizon an algorithm may lie below. None where it is not known.
    mixed:        whether algorithms ran on two engines: such pairs share means and graphs, not
                  rewards, and their intervals are wider
    """

    number: int
    name: str
    why: str
    arms: str
    network: str
    n_agents: int
    n_arms: int
    horizon: int
    full_horizon: int
    runs: int
    lower_bound: float | None
    mixed: bool
    scores: Sequence[Score]  # best first
    refusals: Sequence[Refusal]


@dataclass(frozen=True)
class Standing:
    """An algorithm over all instances that it plays; versions count as one, at their better.

    rank:         by ratio: 1 + those that are better beyond doubt on the instances both play; None
                  for bounds, which are shown only
    ratio:        geometric mean of regret over the reference's, with its 95% interval over runs
    mean_rank:    mean of its ranks, those of an undecided tie shared
    better, worse, undecided: instances by verdict against the reference
    numbers_sent: per agent and round, the mean over its instances; None if it does not say
    on_front:     whether no ranked algorithm has both a lower ratio and fewer numbers sent
    worst_ratio:  its largest ratio of an instance, and that instance's number
    """

    algorithm: str  # the name of the rival
    source: str
    rank: int | None
    instances: int
    ratio: float | None
    ratio_low: float | None
    ratio_high: float | None
    mean_rank: float | None
    firsts: int
    better: int
    worse: int
    undecided: int
    numbers_sent: float | None
    on_front: bool
    worst_ratio: float | None
    worst_instance: int | None


@dataclass(frozen=True)
class Made:
    """How a report was made.

    mode:  "quick", "full" or "custom"
    suite: the class of instances, "plain" or "contexts"
    """

    mode: str
    runs: int
    seed: int
    seconds: float
    versions: Mapping[str, str]
    machine: str
    suite: str = "plain"


@dataclass(frozen=True)
class ArenaReport:
    """The whole: who took part, how they did on each instance and over all.

    reference: the algorithm that differences are to
    notes:     how ranks are made and what these runs cannot show, a sentence each
    """

    title: str
    made: Made
    reference: str
    entrants: Sequence[Entrant]
    standings: Sequence[Standing]  # best first, bounds last
    instances: Sequence[InstanceReport]
    notes: Sequence[str] = field(default=())


# The report's numbers as a table, a row for each instance and algorithm, and as JSON.

_OF_INSTANCE = ("number", "name", "n_agents", "n_arms", "horizon")
_OF_SCORE = tuple(each.name for each in dataclasses.fields(Score) if each.name != "curve")


def write(report: ArenaReport, folder: Path) -> None:
    """Write report.json and table.csv."""
    write_json(report, folder / "report.json")
    with (
        atomic_write(folder / "table.csv") as temporary,
        temporary.open("w", encoding="utf-8", newline="") as file,
    ):
        rows = csv.writer(file)
        rows.writerow(["instance", *_OF_INSTANCE[1:], *_OF_SCORE, "lower_bound"])
        for instance in report.instances:
            for score in instance.scores:
                rows.writerow(_row(instance, score))


def _row(instance: InstanceReport, score: Score) -> list[Any]:
    """None is an empty cell."""
    shown = [getattr(instance, name) for name in _OF_INSTANCE]
    return [*shown, *(getattr(score, name) for name in _OF_SCORE), instance.lower_bound]
