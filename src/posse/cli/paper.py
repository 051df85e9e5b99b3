"""`posse paper`: every figure of the paper, with its statistics, as one page."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from posse.cli.common import (
    Cluster,
    UserError,
    Workers,
    announce_resume,
    catch_user_errors,
    open_executor,
)

if TYPE_CHECKING:
    from posse.lab.paper import Panel, PaperReport
    from posse.lab.paper.report import Advance

EXAMPLES = """Examples:

posse paper

posse paper fig1a fig5b --runs 1000

posse paper --full --output report-full --workers 8

posse paper fig3 --as-published"""


def paper(
    figures: Annotated[
        list[str] | None,
        typer.Argument(metavar="FIGURE", help="Such as fig1a or fig3; all if none is given."),
    ] = None,
    runs: Annotated[int | None, typer.Option(help="Runs of each curve; 100 by default.")] = None,
    full: Annotated[bool, typer.Option("--full", help="The paper's 1000 runs.")] = False,
    as_published: Annotated[
        bool,
        typer.Option("--as-published", help="As the authors' notebooks did, not as the text says."),
    ] = False,
    seed: Annotated[int | None, typer.Option(help="Seed of all random numbers.")] = None,
    output: Annotated[Path, typer.Option(help="Folder of the report and its results.")] = Path(
        "report"
    ),
    threads: Annotated[int | None, typer.Option(help="Threads; all cores by default.")] = None,
    workers: Workers = None,
    cluster: Cluster = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print only the path.")] = False,
) -> None:
    """Reproduce the paper's figures: runs, statistics, claims, and a report to open in a browser.

    Stored results are not computed again, so an interrupted run continues where it stopped.
    """
    with catch_user_errors():
        from posse import validation
        from posse.lab.paper import FULL_RUNS, QUICK_RUNS, SEED, choose_panels
        from posse.lab.paper.report import PaperProgress, Reproduction

        if full and runs is not None:
            raise UserError("give --full or --runs, not both")
        n_runs = runs if runs is not None else FULL_RUNS if full else QUICK_RUNS
        reproduction = Reproduction(
            ids=choose_panels(figures or []),
            runs=validation.validate_integer("--runs", n_runs, at_least=2),
            seed=SEED if seed is None else validation.validate_integer("--seed", seed, at_least=0),
            output=output,
            threads=validation.validate_integer(
                "--threads", threads or os.cpu_count() or 1, at_least=1
            ),
            as_published=as_published,
        )
        output.mkdir(parents=True, exist_ok=True)
    with (
        open_executor(workers, cluster, threads) as executor,
        announce_resume(),
        catch_user_errors(),
    ):
        reproduction.executor = executor
        with _show_progress(PaperProgress(), quiet) as progress:
            reproduction.progress = progress
            report = reproduction.run()
    for note in reproduction.store.notes:
        typer.echo(f"posse: {note}", err=True)
    if not quiet:
        _print_claims(report)
    typer.echo(reproduction.page)


@contextmanager
def _show_progress(silent: Any, quiet: bool) -> Iterator[Any]:
    """Show a bar for all panels and one for the running panel, on standard error."""
    if quiet:
        yield silent
        return
    from posse.lab.progress import create_progress

    with create_progress() as bars:
        yield _PaperBars(bars)


class _PaperBars:
    """Progress bars in agent-steps, which the run time is proportional to."""

    def __init__(self, bars: Any) -> None:
        self._bars = bars
        self._total_task: Any = None

    def announce_plan(self, work: Sequence[tuple[str, Panel, int]]) -> None:
        # A second plan follows the first where claims failed: the panels as published.
        total = sum(_count_steps(panel, runs) for _, panel, runs in work)
        if self._total_task is None:
            self._total_task = self._bars.add_task("all panels", total=total)
        else:
            (planned,) = [task.total for task in self._bars.tasks if task.id == self._total_task]
            self._bars.update(self._total_task, total=planned + total)

    def announce_compiling(self, seconds: int) -> None:
        from posse.lab.progress import RichBars

        RichBars(self._bars, [], 0).announce_compilation(seconds)

    @contextmanager
    def show_panel(self, name: str, panel: Panel, runs: int) -> Iterator[Advance]:
        total = _count_steps(panel, runs)
        task = self._bars.add_task(f"{name}: {panel.title}", total=total)
        n_curves = len(panel.curves)

        def advance(runs_done: int) -> None:
            # Progress comes as a number of runs of any curve: each counts as an average run of the
            # panel.
            steps = total * runs_done / (runs * n_curves)
            self._bars.advance(task, steps)
            self._bars.advance(self._total_task, steps)

        yield advance
        # Without a terminal bars are drawn once, at the end: a line says that a figure is done.
        if not self._bars.console.is_terminal:
            line = f"{name}: {panel.title}: done, {runs} runs"
            self._bars.console.print(line, markup=False, highlight=False)


def _count_steps(panel: Panel, runs: int) -> int:
    agents = sum(curve.network.n_agents for curve in panel.curves.values())
    return agents * panel.horizon * runs


def _print_claims(report: PaperReport) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from posse.lab.paper import FAILS, HOLDS, UNTESTED, summarise_agreement

    tested = [row for row in report.claims if row.verdict != UNTESTED]
    console = Console()
    if tested:
        table = Table(title="What the paper says, put to the test", title_justify="left")
        for column in ("figure", "claim", "verdict"):
            table.add_column(column)
        colours = {HOLDS: "green", FAILS: "red"}
        for row in tested:
            verdict = Text(row.verdict, style=colours.get(row.verdict, "yellow"))
            table.add_row(row.figure, Text(row.claim), verdict)
        console.print(table)
    untested = len(report.claims) - len(tested)
    if untested:
        console.print(f"{untested} claims of other figures were not tested")
    for panel in report.panels:
        if panel.published:
            console.print(summarise_agreement(panel.published, panel.runs))
