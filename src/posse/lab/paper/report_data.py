"""The report of the paper as data: every field that the page and report.json may read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from posse.lab.report import Chart, Scoreboard
from posse.lab.statistics import Estimate


@dataclass(frozen=True)
class CurveGrowth:
    """How the regret of a curve grows at the end.

    slope:       regret per unit of ln t over the rounds that the panel names
    least_slope: the least that any consistent algorithm has in the long run (Lai and Robbins)
    growth:      one of the words in `analysis`
    """

    curve: str
    slope: Estimate[float]
    least_slope: float
    growth: str


@dataclass(frozen=True)
class PublishedValue:
    """A value read off a published figure beside ours; verdict: agrees, differs or undecided."""

    curve: str
    time: int
    published: float
    ours: float
    standard_error: float
    difference: float
    in_errors: float | None
    verdict: str


@dataclass(frozen=True)
class PanelReport:
    """Everything that the page shows of a panel.

    scoreboard:   final regrets of its curves, and paired differences of chosen curves after Holm's
                  correction over all panels of the report
    slope_rounds: the first and last round of the window that all slopes are taken over
    files:        those that can be downloaded, relative to the page
    """

    id: str
    figure: str
    title: str
    caption: str
    note: str | None
    runs: int
    engine: str
    seconds: float
    settings: str
    slope_rounds: tuple[int, int]
    chart: Chart
    scoreboard: Scoreboard
    growth: Sequence[CurveGrowth]
    published: Sequence[PublishedValue] = ()
    files: Sequence[str] = ()


@dataclass(frozen=True)
class ClaimReport:
    """A sentence of the paper, its verdict (one of those in `claims`) and the evidence for it."""

    figure: str
    claim: str
    verdict: str
    detail: str


@dataclass(frozen=True)
class PaperProvenance:
    """How a report of the paper was computed."""

    mode: str
    variant: str
    seed: int
    seconds: float
    versions: Mapping[str, str]
    machine: str


@dataclass(frozen=True)
class PaperReport:
    """A reproduction of the paper: its claims and its panels."""

    title: str
    summary: PaperProvenance
    claims: Sequence[ClaimReport]
    panels: Sequence[PanelReport]
