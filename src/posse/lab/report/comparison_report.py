"""The report of a comparison as data: its scoreboard, charts, settings and files."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from posse.bandits import Bandit
from posse.lab.comparisons import Comparison
from posse.lab.experiments import Experiment, experiment_of, experiment_to_toml
from posse.lab.plots import is_wide
from posse.lab.report import curves
from posse.lab.report.curves import Chart
from posse.lab.report.pages.comparison_text import write_title
from posse.lab.report.scoreboard import Scoreboard, estimate_mean, score_comparison
from posse.lab.results import Result
from posse.lab.statistics import Estimate
from posse.randomness import FloatArray


@dataclass(frozen=True)
class Rerun:
    """The experiment that gives the same numbers again and its TOML; else why there is none."""

    experiment: Experiment | None
    toml: str | None
    why_not: str = ""


@dataclass(frozen=True)
class ReportFile:
    """A file by its path from the page and its meaning; why it is missing, if it is."""

    path: str
    meaning: str
    missing: str = ""


@dataclass(frozen=True)
class AgentSpread:
    """Final regret of single agents: the best, median and worst of a run, and their spread.

    means:  of each agent over runs, (N,)
    spread: the standard deviation between the agents of a run
    """

    algorithm: str
    means: FloatArray
    best: Estimate[float]
    median: Estimate[float]
    worst: Estimate[float]
    spread: Estimate[float]


@dataclass(frozen=True)
class ComparisonReport:
    """Everything that the page shows; `agents` is empty and charts are None where unknown."""

    title: str
    comparison: Comparison
    rerun: Rerun
    scoreboard: Scoreboard
    agents: Sequence[AgentSpread]
    regret_chart: Chart | None
    sent_chart: Chart | None
    files: Sequence[ReportFile] = ()

    @property
    def first_result(self) -> Result:
        """One result: runs, agents, arms and rounds are the same of all."""
        return next(iter(self.comparison.values()))


def build_report(
    comparison: Comparison, title: str | None = None, single: bool = False
) -> ComparisonReport:
    """Compute all numbers of a comparison; `single` if it stands for one Result."""
    rerun = _describe_rerun(comparison, title or "", single)
    return ComparisonReport(
        title=title or write_title(comparison),
        comparison=comparison,
        rerun=rerun,
        scoreboard=score_comparison(comparison),
        agents=measure_agents(comparison),
        regret_chart=_chart_regret(comparison, rerun.experiment),
        sent_chart=_chart_numbers_sent(comparison),
    )


def settings_text(report: ComparisonReport) -> str:
    """Write the experiment as TOML, or the settings as JSON where there is no experiment."""
    if report.rerun.toml is not None:
        return report.rerun.toml
    settings = {name: result.settings for name, result in report.comparison.items()}
    return json.dumps(settings, indent=2, ensure_ascii=False, default=str)


def measure_agents(results: Mapping[str, Result]) -> list[AgentSpread]:
    """Compare the agents of each algorithm, where they were recorded and there are several."""
    spreads = []
    for name, result in results.items():
        if "agents" not in result.kept or result.n_agents == 1:
            continue
        regrets = result.agent_regret[:, :, -1]  # (R, N)
        spreads.append(
            AgentSpread(
                algorithm=name,
                means=regrets.mean(axis=0),
                best=estimate_mean(regrets.min(axis=1)),
                median=estimate_mean(np.median(regrets, axis=1)),
                worst=estimate_mean(regrets.max(axis=1)),
                spread=estimate_mean(regrets.std(axis=1, ddof=1)),
            )
        )
    return spreads


def _describe_rerun(comparison: Comparison, title: str, single: bool) -> Rerun:
    # A report must never fail because its experiment cannot be written as TOML: algorithms that
    # are no dataclasses, lambdas, or results of different networks. The page then says why.
    experiment = None
    try:
        value = next(iter(comparison.values())) if single else comparison
        experiment = dataclasses.replace(experiment_of(value), title=title)
        return Rerun(experiment, experiment_to_toml(experiment))
    except Exception as error:  # a user's module or class may raise anything
        return Rerun(experiment, None, str(error))


def _chart_regret(comparison: Comparison, experiment: Experiment | None) -> Chart | None:
    first = next(iter(comparison.values()))
    bound = None
    # The bound of Lai and Robbins is not known for bandits with contexts.
    if experiment is not None and isinstance(experiment.bandit, Bandit):
        bound = curves.least_slope(experiment.bandit, first.n_agents)
    return curves.chart_results("regret-over-time", comparison, bound)


def _chart_numbers_sent(comparison: Comparison) -> Chart | None:
    first = next(iter(comparison.values()))
    if "messages" not in first.kept or len(first.times) == 1:
        return None
    totals = [result.numbers_sent[:, -1].mean() for result in comparison.values()]
    sent = [
        curves.average_curve(name, result.times, result.numbers_sent)
        for name, result in comparison.items()
    ]
    return Chart("sent-over-time", sent, is_wide(totals), quantity="Numbers sent per agent")
