"""`posse paper`: run panels, draw them, and write the report."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from posse.lab.files import atomic_write
from posse.lab.pages.curves import write_csv
from posse.lab.pages.plain import write_json
from posse.lab.paper import analysis, claims, figures, page, panels
from posse.lab.paper.data import ClaimReport, Made, Report
from posse.lab.paper.panels import Panel
from posse.lab.paper.runs import FULL, QUICK, Outcome, run_panel, simulation_of
from posse.lab.settings import versions
from posse.lab.work.executors import capacity
from posse.lab.work.part_store import PartStore

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
            written = [*figures.draw(outcome, path), path.with_suffix(".csv")]
            files = [file.relative_to(self.output).as_posix() for file in written]
            settings, seconds = panels.toml_of(id_), self._seconds[id_]
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
        engine.prepare(simulations, self.progress.compiling)

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
            versions=versions(),
            machine=f"{platform.machine()}, {self._hands()}",
        )

    def _hands(self) -> str:
        if self.executor is None:
            return f"{self.threads} threads"
        return f"{capacity(self.executor)} workers"
