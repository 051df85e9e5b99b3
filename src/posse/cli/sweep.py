"""`posse sweep`: run an experiment over a grid of its settings; write tables and figures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from posse.cli.common import Cluster, Workers, announce_resume, catch_user_errors, open_executor

if TYPE_CHECKING:
    import pandas as pd
    from rich.table import Table

    from posse.lab.sweeps.sweep import Sweep

EXAMPLES = """Examples:

posse sweep experiments/sweep.toml

posse sweep experiments/sweep.toml --runs 200 --report

posse sweep experiments/sweep.toml --output results/more --workers 4"""

MOST_ROWS = 40


def sweep(
    file: Annotated[Path, typer.Argument(metavar="FILE.toml", help="Experiment with a \\[sweep].")],
    runs: Annotated[int | None, typer.Option(help="Number of runs (overrides the file).")] = None,
    output: Annotated[
        Path | None, typer.Option(help="Folder for parts and tables (default: results/FILE).")
    ] = None,
    report: Annotated[
        bool, typer.Option("--report", help="Also write a report with figures: index.html.")
    ] = False,
    workers: Workers = None,
    cluster: Cluster = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print only the paths.")] = False,
) -> None:
    r"""Run an experiment over the grid of settings in its table \[sweep].

    Results are stored: an interrupted sweep resumes where it stopped, and a sweep with more runs or
    more cells computes only the new ones.
    """
    from rich.console import Console

    folder = Path("results") / file.stem if output is None else output
    with catch_user_errors():
        from posse.lab.sweeps import read_sweep
        from posse.lab.sweeps.sweep import plan_sweep

        planned_sweep = plan_sweep(*read_sweep(file), folder=folder, runs=runs)
    with open_executor(workers, cluster) as executor, announce_resume(), catch_user_errors():
        planned_sweep.complete(executor=executor, progress=not quiet)
    for note in planned_sweep.store.notes:
        typer.echo(f"posse: {note}", err=True)
    with catch_user_errors():
        if not quiet:
            console = Console()
            frame = planned_sweep.table()
            console.print(_build_table(planned_sweep, frame))
            console.print(_build_caption(frame), highlight=False)
        for path in planned_sweep.save():
            typer.echo(path)
        if report:
            typer.echo(planned_sweep.report())


def _build_table(planned_sweep: Sweep, frame: pd.DataFrame) -> Table:
    """Build a table of the regret of each cell and algorithm, MOST_ROWS rows at most."""
    from rich.table import Table
    from rich.text import Text

    from posse.lab.results import Summary

    table = Table(
        title=Text(planned_sweep.title, style="bold"),
        title_justify="left",
        box=None,  # with lines, the values of four keys would not fit into 80 columns
        padding=(0, 2, 0, 0),
    )
    names = {**planned_sweep.grid.short_names(), "algorithm": "algorithm"}
    for name in names.values():
        table.add_column(Text(name), overflow="fold")
    table.add_column("regret", justify="right", no_wrap=True)
    for row in frame.head(MOST_ROWS).to_dict("records"):
        s = Summary(row["regret"], row["standard_error"], row["low"], row["high"], row["runs"], 0)
        table.add_row(*(Text(str(row[key])) for key in names), s.format_mean())
    return table


def _build_caption(frame: pd.DataFrame) -> str:
    runs = " or ".join(map(str, sorted(set(frame["runs"]))))
    text = f"regret per agent at the horizon ± standard error; {runs} runs"
    if len(frame) > MOST_ROWS:
        text += f"; {MOST_ROWS} of {len(frame)} rows, table.csv has all"
    return text
