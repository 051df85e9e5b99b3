"""`posse sweep`: an experiment over a grid of its settings; tables and figures out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from posse.cli.common import Cluster, Workers, executing, goes_on, mistakes

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
    runs: Annotated[int | None, typer.Option(help="Runs, in place of the file's.")] = None,
    output: Annotated[
        Path | None, typer.Option(help="Folder of parts and tables; results/FILE by default.")
    ] = None,
    report: Annotated[
        bool, typer.Option("--report", help="Write a page of figures, too: index.html.")
    ] = False,
    workers: Workers = None,
    cluster: Cluster = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print only the paths.")] = False,
) -> None:
    r"""Run an experiment over a grid of its settings, as its table \[sweep] says.

    What was computed before is not computed again: an interrupted sweep goes on where it was, and
    one with more runs or more cells computes these.
    """
    from rich.console import Console

    folder = Path("results") / file.stem if output is None else output
    with mistakes():
        from posse.lab.sweeps.files import read_sweep
        from posse.lab.sweeps.sweep import plan_sweep

        made = plan_sweep(*read_sweep(file), folder=folder, runs=runs)
    with executing(workers, cluster) as executor, goes_on(), mistakes():
        made.complete(executor=executor, progress=not quiet)
    for note in made.store.notes:
        typer.echo(f"posse: {note}", err=True)
    with mistakes():
        if not quiet:
            console = Console()
            frame = made.table()
            console.print(_table(made, frame))
            console.print(_caption(frame), highlight=False)
        for path in made.save():
            typer.echo(path)
        if report:
            typer.echo(made.report())


def _table(made: Sweep, frame: pd.DataFrame) -> Table:
    """Lay out the regret of each cell and algorithm, at most so many of them."""
    from rich.table import Table
    from rich.text import Text

    from posse.lab.results import Summary

    table = Table(
        title=Text(made.title, style="bold"),
        title_justify="left",
        box=None,  # or the values of four keys would not fit into 80 columns
        padding=(0, 2, 0, 0),
    )
    names = {**made.grid.short_names(), "algorithm": "algorithm"}
    for name in names.values():
        table.add_column(Text(name), overflow="fold")
    table.add_column("regret", justify="right", no_wrap=True)
    for row in frame.head(MOST_ROWS).to_dict("records"):
        s = Summary(row["regret"], row["standard_error"], row["low"], row["high"], row["runs"], 0)
        table.add_row(*(Text(str(row[key])) for key in names), s.format_mean())
    return table


def _caption(frame: pd.DataFrame) -> str:
    runs = " or ".join(map(str, sorted(set(frame["runs"]))))
    text = f"regret per agent at the horizon ± standard error; {runs} runs"
    if len(frame) > MOST_ROWS:
        text += f"; {MOST_ROWS} of {len(frame)} rows, table.csv has all"
    return text
