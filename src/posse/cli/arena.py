"""`posse arena`: all algorithms on a suite of instances, and yours among them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from posse.cli.common import Cluster, Workers, announce_resume, catch_user_errors, open_executor

if TYPE_CHECKING:
    from posse.lab.arena import Arena, ArenaReport, LeaderboardRow
    from posse.lab.simulation import Job

EXAMPLES = """Examples:

posse arena

posse arena mine.py:MyAlgorithm

posse arena mine.py:MyAlgorithm --instances 4,23

posse arena --instances 1,4,7-9 --algorithms dec-TS,coop-UCL --runs 100

posse arena --suite contexts

posse arena --full --output arena-full"""


def arena(
    own: Annotated[
        list[str] | None,
        typer.Argument(metavar="MINE.py:NAME", help="Your algorithms, a class or an instance."),
    ] = None,
    suite: Annotated[
        str, typer.Option(help="Class of instances: plain or contexts; each has its own ranking.")
    ] = "plain",
    full: Annotated[
        bool, typer.Option("--full", help="Play 200 runs of all rounds; takes hours.")
    ] = False,
    instances: Annotated[str | None, typer.Option(help="Such as 1,4,7-9; all by default.")] = None,
    algorithms: Annotated[
        str | None, typer.Option(help="Such as dec-TS,DDUCB; all by default.")
    ] = None,
    runs: Annotated[
        int | None, typer.Option(help="Runs of each algorithm (default: 20, with --full 200).")
    ] = None,
    horizon: Annotated[
        int | None, typer.Option(help="Largest number of rounds of an instance.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed of all runs (default: the seed of the suite).")
    ] = None,
    agents: Annotated[
        str | None,
        typer.Option(help="Whose regret is ranked: hubs, leaves, or numbers such as 0,3,5."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(help="Folder of the page and its results (default: arena or arena-contexts)."),
    ] = None,
    workers: Workers = None,
    cluster: Cluster = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print only the path.")] = False,
) -> None:
    """Rank all algorithms, and yours, on a suite of 24 instances: a table and a page.

    The quick form takes minutes; --full estimates its own time. Stored results are not computed
    again, so an interrupted arena continues where it stopped.
    """
    start = time.perf_counter()
    with catch_user_errors():
        from posse.lab.arena import (
            PLAIN,
            Arena,
            build_report,
            choose_form,
            choose_instances,
            choose_players,
            choose_workers,
            load_players,
            write_data,
        )
        from posse.lab.jobs import count_slots
        from posse.lab.report.pages import arena as page

        # Whatever can be refused is refused here, before anything is computed.
        chosen_instances = choose_instances(instances, suite)
        output = output or Path("arena" if suite == PLAIN else f"arena-{suite}")
        names = None if algorithms is None else algorithms.split(",")
        players = choose_players(names, suite)
        players |= load_players(own or [], players)
        form = choose_form(full, runs, horizon, seed)
        output.mkdir(parents=True, exist_ok=True)
        arena = Arena(chosen_instances, players, form, output / "results", _parse_agents(agents))
        arena.store.check_writable()
    if workers is None and cluster is None:
        workers = choose_workers(arena.missing_jobs)
    with (
        open_executor(workers, cluster) as executor,
        announce_resume(),
        catch_user_errors(),
        _show_progress(quiet) as progress,
    ):
        n_workers = (os.cpu_count() or 1) if executor is None else count_slots(executor)
        # Before the estimate: compilation would otherwise be measured as the speed of the first
        # runs.
        arena.compile_kernels(progress.announce_compiling)
        seconds = progress.estimate_seconds(arena, measure=full, n_workers=n_workers)
        arena.play_missing(executor=executor, advance=progress.start_bar(arena, seconds))
    with catch_user_errors():
        machine = f"{n_workers} threads" if executor is None else f"{n_workers} workers"
        report = build_report(arena, time.perf_counter() - start, machine)
        write_data(report, output)
        path = page.write_page(report, output)
    for note in arena.store.notes:
        typer.echo(f"posse: {note}", err=True)
    if not quiet:
        if agents is not None:
            typer.echo(f"regret of these agents only: {agents}")
        print_leaderboard(report)
    typer.echo(path)


def _parse_agents(text: str | None) -> str | list[int] | None:
    """Parse numbers of agents separated by commas; other text is the name of a group."""
    parts = [] if text is None else text.split(",")
    if parts and all(part.strip().isdecimal() for part in parts):
        return [int(part) for part in parts]
    return text


class _SilentProgress:
    """Progress that is not shown."""

    def announce_compiling(self, seconds: int) -> None:
        """Announce that kernels are compiled first, in about so many seconds."""

    def estimate_seconds(self, arena: Arena, measure: bool, n_workers: int) -> dict[int, float]:
        """Estimate the seconds of a run of each job, by its id; by a short trial if `measure`."""
        return {}

    def start_bar(self, arena: Arena, seconds: dict[int, float]) -> Callable[[Job, int], None]:
        """Start the bar; call the value with a job and the number of its runs that are done."""
        return lambda job, runs: None


class _ProgressBar(_SilentProgress):
    """One bar, in estimated seconds."""

    def __init__(self, bars: Any) -> None:
        self._bars = bars

    def announce_compiling(self, seconds: int) -> None:
        self._print_line(f"compiling kernels (once, about {seconds} s)")

    def estimate_seconds(self, arena: Arena, measure: bool, n_workers: int) -> dict[int, float]:
        from posse.lab.arena import measure_seconds_per_run

        seconds = {id(job): job.seconds_per_run for job in arena.jobs.values()}
        missing = arena.missing_jobs
        if not measure or not missing:
            return seconds
        task = self._bars.add_task("measuring speeds", total=len(missing))
        total = 0.0
        for job, runs in missing:
            seconds[id(job)] = measure_seconds_per_run(job)
            total += seconds[id(job)] * runs / n_workers
            self._bars.advance(task)
        duration = _format_duration(total)
        self._print_line(
            f"this will take about {duration}; if interrupted, it continues where it stopped"
        )
        return seconds

    def start_bar(self, arena: Arena, seconds: dict[int, float]) -> Callable[[Job, int], None]:
        total = sum(seconds[id(job)] * len(job.runs) for job in arena.jobs.values())
        task = self._bars.add_task("playing", total=total)
        return lambda job, runs: self._bars.advance(task, seconds[id(job)] * runs)

    def _print_line(self, line: str) -> None:
        self._bars.console.print(line, markup=False, highlight=False)


@contextmanager
def _show_progress(quiet: bool) -> Iterator[_SilentProgress]:
    if quiet:
        yield _SilentProgress()
        return
    from posse.lab.progress import create_progress

    with create_progress() as bars:
        yield _ProgressBar(bars)


def _format_duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes / 60:.1f} hours"


def print_leaderboard(report: ArenaReport) -> None:
    """Print the leaderboard in 80 columns, its legend, and the algorithms that could not play."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from posse.lab.report import count_things

    made = report.made
    instances = count_things(len(report.instances), "instance")
    console = Console()
    table = Table(
        title=Text(f"Arena, {made.mode} form: {instances}, {made.runs} runs each"),
        title_justify="left",
        caption=Text(
            f"regret: over {report.reference}'s, geometric mean [95%]; +/-/?: instances where it "
            f"is better, worse or undecided; sent: numbers per agent and round; * on the front of "
            "regret and numbers sent; rank: 1 + those that are better beyond doubt"
        ),
        caption_justify="left",
        # Without lines: the widest rows fit into 80 columns only so.
        box=None,
        padding=(0, 2, 0, 0),
    )
    for column, justify in (
        ("rank", "right"),
        ("algorithm", "left"),
        ("plays", "right"),
        ("regret", "right"),
        ("+/-/?", "right"),
        ("worst", "right"),
        ("sent", "right"),
    ):
        table.add_column(column, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    for row in report.standings:
        style = "bold" if row.source == "yours" else ""
        table.add_row(*_table_cells(row, report.reference), style=style)
    console.print(table)
    for sentence in _describe_refusals(report):
        console.print(Text(sentence))


def _table_cells(row: LeaderboardRow, reference: str) -> list[str]:
    verdicts = f"{row.better}/{row.worse}/{row.undecided}"
    sent = "" if row.numbers_sent is None else f"{row.numbers_sent:.3g}{' *'[row.on_front]}"
    worst = ""
    if row.worst_ratio is not None:
        worst = f"{_format_ratio(row.worst_ratio)} #{row.worst_instance}"
    return [
        "–" if row.rank is None else str(row.rank),
        row.algorithm,
        str(row.instances),
        _format_interval(row),
        "" if row.algorithm == reference else verdicts,
        "" if row.algorithm == reference else worst,
        sent,
    ]


def _format_interval(row: LeaderboardRow) -> str:
    if row.ratio is None:
        return ""
    if row.ratio_low is None or row.ratio_high is None or row.ratio_low == row.ratio_high:
        return _format_ratio(row.ratio)
    low = _format_ratio(row.ratio_low)
    high = _format_ratio(row.ratio_high)
    return f"{_format_ratio(row.ratio)} [{low}, {high}]"


def _format_ratio(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.0f}"


def _describe_refusals(report: ArenaReport) -> list[str]:
    """List what user-defined algorithms could not play, and why; the page lists all."""
    yours = {entrant.name for entrant in report.entrants if entrant.source == "yours"}
    return [
        f"{refusal.algorithm} did not play instance {instance.number}: {refusal.why}"
        for instance in report.instances
        for refusal in instance.refusals
        if refusal.algorithm in yours
    ]
