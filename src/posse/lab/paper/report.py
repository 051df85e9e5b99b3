"""The figures for print: regret against time and against its logarithm."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from posse.lab.atomic_files import atomic_write
from posse.lab.jobs.executors import count_slots
from posse.lab.jobs.results_cache import PartStore
from posse.lab.paper import analysis, claims, panels
from posse.lab.paper.analysis import lai_robbins
from posse.lab.paper.panels import FULL, QUICK, Outcome, Panel, run_panel, simulation_of
from posse.lab.paper.report_data import ClaimReport, Made, Report
from posse.lab.plots import draw_result, is_wide, save_figure, set_logarithmic, style_axes
from posse.lab.report.curves import write_csv
from posse.lab.report.pages import paper as page
from posse.lab.report.text import write_json
from posse.serialization.encode import collect_versions


def draw(outcome: Outcome, path: Path) -> list[Path]:
    """Write a panel as PNG and PDF beside each other; returns their paths.

    Where final regrets differ more than tenfold, the left axis of regret is logarithmic: on a
    linear one, which the right side then has, the lowest curves lie on the axis.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    wide = is_wide([result.summary().mean for result in outcome.results.values()])
    figure = Figure(figsize=(9.6, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2, sharey=not wide)
    for axes in (left, right):
        style_axes(axes)
        for name, result in outcome.results.items():
            draw_result(axes, result, label=name)
    if wide:
        set_logarithmic(left, "y")
        left.set_ylabel("regret per agent, logarithmic")
    right.set_xscale("log")
    right.set_xlabel("round, logarithmic")
    right.set_ylabel("regret per agent" if wide else "")
    slope = _least_slope(right, outcome)
    handles, labels = left.get_legend_handles_labels()
    if slope is not None:
        handles = [*handles, slope]
        labels = [*labels, slope.get_label()]
    figure.legend(
        handles, labels, loc="outside lower center", ncols=3, frameon=False, handlelength=3
    )
    figure.suptitle(f"{outcome.panel.title} ({outcome.runs} runs, 95% bands)", fontsize=11)
    written = []
    for suffix in (".png", ".pdf"):
        save_figure(figure, path.with_suffix(suffix))
        written.append(path.with_suffix(suffix))
    return written


def _least_slope(axes: Any, outcome: Outcome) -> Any:
    """The Lai-Robbins slope as a dashed line that ends where the lowest curve does."""
    least = lai_robbins(outcome)
    if least is None:
        return None
    lowest = min(outcome.results.values(), key=lambda result: result.summary().mean)
    end = lowest.summary().mean
    horizon = lowest.horizon
    times = np.geomspace(max(1.0, horizon / 100), horizon, 50)
    line = end + least.slope * np.log(times / horizon)
    label = f"Lai-Robbins slope, {least.slope:.3g} ln t"
    look = {"color": "0.35", "linestyle": (0, (2, 2)), "linewidth": 1.4}
    return axes.plot(times, line, label=label, **look)[0]


# `posse paper`: run panels, draw them, and write the report.

TITLE = "Bayesian Algorithms for Decentralized Stochastic Bandits, reproduced"
DATA = "report.json"
Advance = Callable[[int], None]


class Progress:
    """What a run tells of its progress; this one keeps it to itself."""

    @contextmanager
    def panel(self, name: str, panel: Panel, runs: int) -> Iterator[Advance]:
        """While a panel runs: what to call with the number of runs done of a curve."""
        yield lambda runs: None

    def compiling(self, seconds: int) -> None:
        """Kernels are compiled first, which takes about so long."""

    def plan(self, work: Sequence[tuple[str, Panel, int]]) -> None:
        """What is to be run: names, panels and their runs."""


@dataclass
class Reproduction:
    """Some panels at some number of runs, and where their results and the report go."""

    ids: Sequence[str]
    runs: int
    seed: int
    output: Path
    threads: int
    as_published: bool = False
    progress: Progress = field(default_factory=Progress)
    executor: Executor | None = None  # that computes, in place of our threads

    def __post_init__(self) -> None:
        self.store = PartStore(self.output / "results")
        self._seconds: dict[str, float] = {}

    def run(self) -> Report:
        """Run what is not stored yet, then write figures and page; returns the report as data."""
        start = time.perf_counter()
        (self.output / "figures").mkdir(parents=True, exist_ok=True)
        shown = {id_: panels.panel(id_) for id_ in self.ids}
        if self.as_published:
            shown = {id_: panel.published() for id_, panel in shown.items()}
        if self.executor is None:
            self._compile(shown)
        outcomes = self._outcomes(shown)
        verdicts = self._verdicts(outcomes)
        compared = analysis.comparisons(outcomes)
        shown_panels = []
        for id_, outcome in outcomes.items():
            path = self.output / "figures" / id_
            written = [*draw(outcome, path), path.with_suffix(".csv")]
            files = [file.relative_to(self.output).as_posix() for file in written]
            settings = panels.toml_of(id_)
            seconds = self._seconds[id_]
            panel = analysis.panel_report(id_, outcome, compared[id_], seconds, settings, files)
            write_csv(panel.chart.curves, written[-1])
            shown_panels.append(panel)
        report = Report(
            title=TITLE,
            summary=self._summary(time.perf_counter() - start),
            claims=verdicts,
            panels=shown_panels,
        )
        write_json(report, self.output / DATA)
        with atomic_write(self.page) as temporary:
            temporary.write_text(page.render(report, [DATA]), encoding="utf-8")
        return report

    @property
    def page(self) -> Path:
        """Where the report is written."""
        return self.output / "index.html"

    def _compile(self, shown: dict[str, Panel]) -> None:
        """Compile what all panels need at once, so that people are told once how long it takes."""
        from posse.lab.compiled import engine

        simulations = [
            simulation_of(panel, curve, self.seed, panel.horizon)
            for panel in shown.values()
            for curve in panel.curves.values()
        ]
        engine.compile_kernels(simulations, self.progress.compiling)

    def _outcomes(self, shown: dict[str, Panel], suffix: str = "") -> dict[str, Outcome]:
        self.progress.plan([(id_ + suffix, panel, self.runs) for id_, panel in shown.items()])
        outcomes = {}
        for id_, panel in shown.items():
            start = time.perf_counter()
            with self.progress.panel(id_ + suffix, panel, self.runs) as advance:
                outcomes[id_] = run_panel(
                    panel,
                    self.store,
                    runs=self.runs,
                    seed=self.seed,
                    executor=self.executor,
                    threads=self.threads,
                    advance=advance,
                )
            self._seconds.setdefault(id_, time.perf_counter() - start)
        return outcomes

    def _verdicts(self, outcomes: dict[str, Outcome]) -> list[ClaimReport]:
        """The claims; what fails as stated is tried as published."""
        doubtful = set() if self.as_published else claims.failing(outcomes)
        again = {
            id_: panels.panel(id_).published()
            for id_ in doubtful
            if panels.panel(id_).as_published is not None
        }
        published = self._outcomes(again, ", as published") if again else {}
        return claims.verdicts(outcomes, {**outcomes, **published} if published else {})

    def _summary(self, seconds: float) -> Made:
        return Made(
            mode={QUICK: "quick", FULL: "full"}.get(self.runs, "custom"),
            variant="as published" if self.as_published else "as stated",
            seed=self.seed,
            seconds=seconds,
            versions=collect_versions(),
            machine=f"{platform.machine()}, {self._hands()}",
        )

    def _hands(self) -> str:
        if self.executor is None:
            return f"{self.threads} threads"
        return f"{count_slots(self.executor)} workers"
