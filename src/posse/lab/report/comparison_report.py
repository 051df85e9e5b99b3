"""A report as data: a comparison, its numbers, its charts, and the files beside its page."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from posse.bandits import Bandit
from posse.lab.comparisons import Comparison
from posse.lab.experiments import Experiment, experiment_of, experiment_to_toml
from posse.lab.plots import is_wide
from posse.lab.report import curves
from posse.lab.report import scoreboard as numbers
from posse.lab.report.curves import Chart
from posse.lab.report.pages.comparison_text import title_of
from posse.lab.report.scoreboard import Agents, Final, Messages, Pair, Tail
from posse.lab.results import Result

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class Rerun:
    """The experiment that gives the same numbers again and its TOML; else why there is none."""

    experiment: Experiment | None
    toml: str | None
    why_not: str = ""


@dataclass(frozen=True)
class File:
    """A file by its path from the page, and what is in it; where it could not be written, why."""

    path: str
    meaning: str
    missing: str = ""


@dataclass(frozen=True)
class Report:
    """Everything the page shows; agents, messages and charts are empty where nothing is known."""

    title: str
    comparison: Comparison
    rerun: Rerun
    pairs: Sequence[Pair]
    finals: Sequence[Final]
    tails: Sequence[Tail]
    agents: Sequence[Agents]
    messages: Sequence[Messages]
    regret: Chart | None
    sent: Chart | None
    files: Sequence[File] = ()

    @property
    def first(self) -> Result:
        """One result: runs, agents, arms and rounds are the same of all."""
        return next(iter(self.comparison.values()))


def report_of(comparison: Comparison, title: str | None = None, single: bool = False) -> Report:
    """All numbers of a comparison; `single` if it stands for one Result."""
    rerun = _rerun(comparison, title or "", single)
    compared = numbers.pairs(comparison)
    return Report(
        title=title or title_of(comparison),
        comparison=comparison,
        rerun=rerun,
        pairs=compared,
        finals=numbers.finals(comparison, compared),
        tails=numbers.tails(comparison),
        agents=numbers.agents(comparison),
        messages=numbers.messages(comparison),
        regret=_regret(comparison, rerun.experiment),
        sent=_sent(comparison),
    )


def settings_text(report: Report) -> str:
    """The experiment as TOML, else the settings as they are."""
    if report.rerun.toml is not None:
        return report.rerun.toml
    told = {name: result.settings for name, result in report.comparison.items()}
    return json.dumps(told, indent=2, ensure_ascii=False, default=str)


def _rerun(comparison: Comparison, title: str, single: bool) -> Rerun:
    experiment = None
    try:
        value = next(iter(comparison.values())) if single else comparison
        experiment = dataclasses.replace(experiment_of(value), title=title)
        return Rerun(experiment, experiment_to_toml(experiment))
    except Exception as error:  # whatever a user's module or class may raise
        return Rerun(experiment, None, str(error))


def _regret(comparison: Comparison, experiment: Experiment | None) -> Chart | None:
    first = next(iter(comparison.values()))
    bound = None
    if experiment is not None and isinstance(experiment.bandit, Bandit):  # none with contexts
        bound = curves.least_slope(experiment.bandit, first.n_agents)
    return curves.of_results("regret-over-time", comparison, bound)


def _sent(comparison: Comparison) -> Chart | None:
    first = next(iter(comparison.values()))
    if "messages" not in first.kept or len(first.times) == 1:
        return None
    ends = [result.numbers_sent[:, -1].mean() for result in comparison.values()]
    drawn = [curves.curve(name, each.times, each.numbers_sent) for name, each in comparison.items()]
    return Chart("sent-over-time", drawn, is_wide(ends), quantity="Numbers sent per agent")
