"""The report as data: every field that the page and the command line may read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from posse.lab.report.curves import Chart


@dataclass(frozen=True)
class Final:
    """A curve's final regret: its mean, the tails that a mean hides, and how it grows at the end.

    slope:       regret per unit of ln t over the rounds that the panel names
    least_slope: the least that any consistent algorithm has in the long run (Lai and Robbins)
    growth:      one of the words in `rates`
    """

    name: str
    mean: float
    standard_error: float | None
    low: float | None
    high: float | None
    percentile_95: float | None
    worst_agent: float | None
    wrong_leader: float | None
    slope: float | None
    slope_low: float | None
    slope_high: float | None
    least_slope: float | None
    growth: str


@dataclass(frozen=True)
class Difference:
    """Final regret of the first curve minus that of the second, paired run by run."""

    first: str
    second: str
    difference: float
    low: float | None
    high: float | None
    p: float
    significant: bool = False


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
    """Everything the page shows of a panel.

    slope_rounds: the first and last round of the window that all slopes are taken over
    files:        what can be downloaded, relative to the page
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
    table: Sequence[Final]
    comparisons: Sequence[Difference]
    published: Sequence[PublishedValue] = ()
    files: Sequence[str] = ()


@dataclass(frozen=True)
class ClaimReport:
    """A sentence of the paper, its verdict (one of those in `claims`) and what shows it."""

    figure: str
    claim: str
    verdict: str
    detail: str


@dataclass(frozen=True)
class Made:
    """How a report was made."""

    mode: str
    variant: str
    seed: int
    seconds: float
    versions: Mapping[str, str]
    machine: str


@dataclass(frozen=True)
class Report:
    """A reproduction: its claims and its panels."""

    title: str
    summary: Made
    claims: Sequence[ClaimReport]
    panels: Sequence[PanelReport]
