"""The arena's report as data: every field that the page, the table and report.json may read.

Regret is pseudo-regret per agent at the horizon, the lower the better. None stands for a number
that is unknown, or that these runs are too few to tell.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from posse.lab.atomic_files import atomic_write
from posse.lab.report import Curve, Scoreboard, ScoreRow, write_json

# Sources of algorithms; the legend shows the words of MARKS.
PAPER = "paper"
BASELINE = "baseline"
CODE = "code"
ABSTRACT = "abstract"
MEMORY = "memory"
TUNED = "tuned"
OURS = "ours"
BOUND = "bound"
YOURS = "yours"
# Readers should know how far a rival's constants can be trusted, so every name carries a mark.
MARKS: Mapping[str, str] = {
    PAPER: "of the paper",
    BASELINE: "a plain baseline",
    CODE: "constants read in public code",
    ABSTRACT: "abstract read, constants from memory",
    MEMORY: "constants from memory",
    TUNED: "constants tuned on other instances",
    OURS: "our own",
    BOUND: "for scale, not ranked: a centralized algorithm, or an even split",
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
class InstanceRefusal:
    """An algorithm that cannot play an instance, and the reason in a sentence."""

    algorithm: str
    why: str


@dataclass(frozen=True)
class InstanceReport:
    """An instance of the suite and its scoreboard.

    number:       from 1 on, its place in the suite
    name:         short, such as "cycle 100"
    arms:         in words, such as "Gaussian, .5 and 16 x .1"
    network:      in words
    horizon:      the rounds played; full_horizon: those of the suite
    lower_bound:  Lai-Robbins over N at this horizon: slope ln T. It holds in the limit: at a finite
                  horizon an algorithm may lie below. None where it is not known.
    mixed:        whether algorithms ran on two engines: such pairs share means and graphs, not
                  rewards, and their intervals are wider
    scoreboard:   of all algorithms, best first; differences to the reference are after Holm's
                  correction over all instances of the report. The worse one of two versions of an
                  algorithm and the bounds have no rank.
    curves:       mean regret of each algorithm over time, in the same order
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
    scoreboard: Scoreboard
    curves: Sequence[Curve]
    refusals: Sequence[InstanceRefusal]


@dataclass(frozen=True)
class LeaderboardRow:
    """A row of the leaderboard: an algorithm over all instances that it plays.

    Versions of an algorithm count as one, the better of each instance.

    rank:         by ratio: 1 + those that are significantly better on the instances that both
                  play; None for bounds, which are not ranked
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
class ArenaProvenance:
    """How a report of the arena was computed.

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
    """The whole report: the entrants, the scoreboard of each instance and the leaderboard.

    reference: the algorithm that differences are to
    notes:     how ranks are computed and the limits of these runs, a sentence each
    """

    title: str
    made: ArenaProvenance
    reference: str
    entrants: Sequence[Entrant]
    standings: Sequence[LeaderboardRow]  # the leaderboard: best first, bounds last
    instances: Sequence[InstanceReport]
    notes: Sequence[str] = field(default=())


# The report's numbers as a table, a row for each instance and algorithm, and as JSON.

_INSTANCE_COLUMNS = ("number", "name", "n_agents", "n_arms", "horizon")


def write_data(report: ArenaReport, folder: Path) -> None:
    """Write report.json and table.csv."""
    write_json(report, folder / "report.json")
    # JSON has everything; the table is flat, for spreadsheets.
    rows = [
        _tabulate_row(instance, row)
        for instance in report.instances
        for row in instance.scoreboard.rows
    ]
    with (
        atomic_write(folder / "table.csv") as temporary,
        temporary.open("w", encoding="utf-8", newline="") as file,
    ):
        writer = csv.DictWriter(file, list(rows[0]) if rows else [])
        writer.writeheader()
        writer.writerows(rows)


def _tabulate_row(instance: InstanceReport, row: ScoreRow) -> dict[str, Any]:
    """Flatten a row of a scoreboard; None becomes an empty cell."""
    mean, standard_error, low, high = row.regret
    pair = row.difference
    return {
        "instance": instance.number,
        **{name: getattr(instance, name) for name in _INSTANCE_COLUMNS[1:]},
        "algorithm": row.algorithm,
        "engine": row.engine,
        "runs": row.runs,
        "mean": mean,
        "standard_error": standard_error,
        "low": low,
        "high": high,
        "difference": pair and pair.difference.mean,
        "difference_low": pair and pair.difference.low,
        "difference_high": pair and pair.difference.high,
        "p": pair and pair.p,
        "adjusted_p": pair and pair.adjusted_p,
        "verdict": row.verdict,
        "ratio": row.ratio,
        "percentile_95": row.tail.percentile_95,
        "percentile_99": row.tail.percentile_99,
        "worst_agent": row.worst_agent,
        "wrong_leader": row.tail.wrong_leader,
        "sent_per_round": row.sent_per_round,
        "rank": row.rank,
        "on_front": row.on_front,
        "lower_bound": instance.lower_bound,
    }
