"""`posse paper`: run panels, draw their figures, and write the report."""

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
from posse.lab.jobs import PartStore, count_slots
from posse.lab.paper import analysis, claims, panels
from posse.lab.paper.analysis import shared_least_slope
from posse.lab.paper.panels import (
    FULL_RUNS,
    QUICK_RUNS,
    Panel,
    PanelOutcome,
    build_simulation,
    run_panel,
)
from posse.lab.paper.report_data import ClaimReport, PaperProvenance, PaperReport
from posse.lab.plots import draw_result, is_wide, save_figure, set_logarithmic, style_axes
from posse.lab.report import write_csv, write_json
from posse.lab.report.pages import paper as page
from posse.serialization.encode import collect_versions


def draw_panel(outcome: PanelOutcome, path: Path) -> list[Path]:
    """Draw a panel as PNG and PDF: regret against time and its logarithm; return their paths.

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
    # The right side keeps a linear axis of regret, and has a logarithmic one of rounds anyway.
    if wide:
        set_logarithmic(left, "y")
        left.set_ylabel("regret per agent, logarithmic")
    right.set_xscale("log")
    right.set_xlabel("round, logarithmic")
    right.set_ylabel("regret per agent" if wide else "")
    slope = _draw_least_slope(right, outcome)
    handles, labels = left.get_legend_handles_labels()
    if slope is not None:
        handles = [*handles, slope]
        labels = [*labels, slope.get_label()]
    figure.legend(
        handles, labels, loc="outside lower center", ncols=3, frameon=False, handlelength=3
    )
    figure.suptitle(f"{outcome.panel.title} ({outcome.runs} runs, 95% bands)", fontsize=11)
    paths = []
    for suffix in (".png", ".pdf"):
        save_figure(figure, path.with_suffix(suffix))
        paths.append(path.with_suffix(suffix))
    return paths


def _draw_least_slope(axes: Any, outcome: PanelOutcome) -> Any:
    """Draw the Lai-Robbins slope as a dashed line that ends where the lowest curve does."""
    least = shared_least_slope(outcome)
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


# Running and writing a report.

TITLE = "Bayesian Algorithms for Decentralized Stochastic Bandits, reproduced"
DATA = "report.json"
Advance = Callable[[int], None]


class PaperProgress:
    """Progress of a reproduction; this one is silent."""

    @contextmanager
    def show_panel(self, name: str, panel: Panel, runs: int) -> Iterator[Advance]:
        """Show a panel while it runs; call the value with the number of runs done of a curve."""
        yield lambda runs: None

    def announce_compiling(self, seconds: int) -> None:
        """Announce that kernels are compiled first, in about so many seconds."""

    def announce_plan(self, work: Sequence[tuple[str, Panel, int]]) -> None:
        """Announce the panels to run: names, panels and numbers of runs."""


@dataclass
class Reproduction:
    """A reproduction: its panels, runs and seed, and the folder of results and report."""

    ids: Sequence[str]
    runs: int
    seed: int
    output: Path
    threads: int
    as_published: bool = False
    progress: PaperProgress = field(default_factory=PaperProgress)
    executor: Executor | None = None  # computes in place of threads

    def __post_init__(self) -> None:
        self.store = PartStore(self.output / "results")
        self._seconds: dict[str, float] = {}

    def run(self) -> PaperReport:
        """Run the panels that are not stored yet, write figures and page, and return the report."""
        start = time.perf_counter()
        (self.output / "figures").mkdir(parents=True, exist_ok=True)
        chosen_panels = {id_: panels.load_panel(id_) for id_ in self.ids}
        if self.as_published:
            chosen_panels = {
                id_: panel.as_published_panel() for id_, panel in chosen_panels.items()
            }
        if self.executor is None:
            self._compile_kernels(chosen_panels)
        outcomes = self._run_panels(chosen_panels)
        verdicts = self._judge_claims(outcomes)
        scoreboards = analysis.score_panels(outcomes)
        panel_reports = []
        for id_, outcome in outcomes.items():
            path = self.output / "figures" / id_
            paths = [*draw_panel(outcome, path), path.with_suffix(".csv")]
            files = [file.relative_to(self.output).as_posix() for file in paths]
            settings = panels.read_panel_toml(id_)
            seconds = self._seconds[id_]
            panel = analysis.build_panel_report(
                id_, outcome, scoreboards[id_], seconds, settings, files
            )
            write_csv(panel.chart.curves, paths[-1])
            panel_reports.append(panel)
        report = PaperReport(
            title=TITLE,
            summary=self._describe_provenance(time.perf_counter() - start),
            claims=verdicts,
            panels=panel_reports,
        )
        write_json(report, self.output / DATA)
        with atomic_write(self.page) as temporary:
            temporary.write_text(page.render(report, [DATA]), encoding="utf-8")
        return report

    @property
    def page(self) -> Path:
        """The path of the page."""
        return self.output / "index.html"

    def _compile_kernels(self, chosen_panels: dict[str, Panel]) -> None:
        """Compile the kernels of all panels at once, and announce once how long that takes."""
        from posse.lab.compiled import engine

        simulations = [
            build_simulation(panel, curve, self.seed, panel.horizon)
            for panel in chosen_panels.values()
            for curve in panel.curves.values()
        ]
        engine.compile_kernels(simulations, self.progress.announce_compiling)

    def _run_panels(
        self, chosen_panels: dict[str, Panel], suffix: str = ""
    ) -> dict[str, PanelOutcome]:
        self.progress.announce_plan(
            [(id_ + suffix, panel, self.runs) for id_, panel in chosen_panels.items()]
        )
        outcomes = {}
        for id_, panel in chosen_panels.items():
            start = time.perf_counter()
            with self.progress.show_panel(id_ + suffix, panel, self.runs) as advance:
                outcomes[id_] = run_panel(
                    panel,
                    self.store,
                    runs=self.runs,
                    seed=self.seed,
                    executor=self.executor,
                    threads=self.threads,
                    advance=advance,
                )
            # The first run of a panel counts: a second one, as published, would replace its time.
            self._seconds.setdefault(id_, time.perf_counter() - start)
        return outcomes

    def _judge_claims(self, outcomes: dict[str, PanelOutcome]) -> list[ClaimReport]:
        """Judge the claims; panels of claims that fail as stated are run as published."""
        # Runs as published cost as much as the first ones, so only failing panels get them.
        doubtful = set() if self.as_published else claims.find_failing_panels(outcomes)
        again = {
            id_: panels.load_panel(id_).as_published_panel()
            for id_ in doubtful
            if panels.load_panel(id_).as_published is not None
        }
        published = self._run_panels(again, ", as published") if again else {}
        return claims.judge_claims(outcomes, {**outcomes, **published} if published else {})

    def _describe_provenance(self, seconds: float) -> PaperProvenance:
        return PaperProvenance(
            mode={QUICK_RUNS: "quick", FULL_RUNS: "full"}.get(self.runs, "custom"),
            variant="as published" if self.as_published else "as stated",
            seed=self.seed,
            seconds=seconds,
            versions=collect_versions(),
            machine=f"{platform.machine()}, {self._describe_workers()}",
        )

    def _describe_workers(self) -> str:
        if self.executor is None:
            return f"{self.threads} threads"
        return f"{count_slots(self.executor)} workers"
