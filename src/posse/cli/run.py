"""`posse run`: an experiment file in; a table, a result file and a figure out."""

from __future__ import annotations

import dataclasses
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from posse.cli.common import Cluster, Mistake, Workers, executing, goes_on, mistakes

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from rich.table import Table

    from posse.lab import Comparison
    from posse.lab.experiments import Experiment
    from posse.lab.jobs.results_cache import PartStore

EXAMPLES = """Examples:

posse run experiments/demo.toml

posse run experiments/demo.toml --runs 10 --horizon 500 --output /tmp/quick

posse run experiments/demo.toml --report"""

RESULTS = Path("results")


def run(
    file: Annotated[Path, typer.Argument(metavar="FILE.toml", help="The experiment.")],
    runs: Annotated[int | None, typer.Option(help="Runs, in place of the file's.")] = None,
    horizon: Annotated[int | None, typer.Option(help="Rounds, in place of the file's.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed, in place of the file's.")] = None,
    output: Annotated[Path, typer.Option(help="Folder of FILE.nc and FILE.png.")] = RESULTS,
    plot: Annotated[bool, typer.Option("--plot/--no-plot", help="Draw FILE.png.")] = True,
    report: Annotated[
        bool, typer.Option("--report", help="Write a page, too: FILE.report/index.html.")
    ] = False,
    workers: Workers = None,
    cluster: Cluster = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print only the paths.")] = False,
) -> None:
    """Run an experiment file: print its final regrets, save its results and a figure.

    Parts are kept in the folder FILE.parts beside the results: an interrupted run goes on where it
    was, and one with more runs computes those.
    """
    from rich.console import Console

    from posse.lab.experiments import read_experiment
    from posse.lab.jobs.results_cache import PartStore
    from posse.lab.plots import write_comparison
    from posse.lab.report import writer as writing

    options: dict[str, Any] = {"runs": runs, "horizon": horizon, "seed": seed}
    given = {key: value for key, value in options.items() if value is not None}
    data, figure, page = (output / f"{file.stem}.{kind}" for kind in ("nc", "png", "report"))
    with mistakes():
        experiment = dataclasses.replace(read_experiment(file), **given)
        # before the hours of work, not after them
        output.mkdir(parents=True, exist_ok=True)
        for target in (data, figure):
            if target.is_dir():
                raise ValueError(f"{target} is a folder, and a result is to be written there")
        if report:
            writing.check_folder(page)
        if not os.access(output, os.W_OK):
            raise ValueError(f"{output} cannot be written to")
    _refuse_too_large(experiment)
    title = experiment.title or file.stem
    store = PartStore(output / f"{file.stem}.parts")
    with executing(workers, cluster) as executor, goes_on(), mistakes():
        # a family, for instance, cannot learn from the bandit's rewards
        comparison = _compare(title, experiment, store, executor, progress=not quiet)
    for note in store.notes:
        typer.echo(f"posse: {note}", err=True)
    if not quiet:
        Console().print(_table(title, comparison, experiment.seed))
    with mistakes():
        comparison.save(data)
        typer.echo(data)
        if plot:
            write_comparison(comparison, experiment.title, [figure])
            typer.echo(figure)
        if report:
            typer.echo(writing.write_report(comparison, page, title, saved=data))


def _compare(
    title: str,
    experiment: Experiment,
    store: PartStore,
    executor: Executor | None,
    *,
    progress: bool,
) -> Comparison:
    """The results of an experiment, of which a store holds what was computed before."""
    from posse.lab import Comparison
    from posse.lab.jobs.scheduler import complete, watched

    jobs = experiment.jobs()
    here = executor is None
    with watched(title, list(jobs.values()), store, show=progress, here=here) as advance:
        complete(list(jobs.values()), store, executor=executor, advance=advance)
    return Comparison({name: store.result(job) for name, job in jobs.items()})


def _refuse_too_large(experiment: Experiment) -> None:
    """Refuse at once what could not be saved at the end."""
    from posse.lab.recording import axes
    from posse.lab.simulation import model_of, numbers_a_run
    from posse.lab.storage import LARGEST_ARRAY

    e = experiment
    rows = len(e.algorithms) * e.n_runs
    # counted without listing them, which alone could take all memory
    rounds = len(e.record) if isinstance(e.record, tuple) else min(e.record or e.horizon, e.horizon)
    if 8 * rows * rounds > LARGEST_ARRAY:
        raise Mistake(
            f"the curves of {rows} runs at {rounds} rounds do not fit into a result file of 2 GB: "
            "keep fewer rounds, such as record = 1000, or fewer runs"
        )
    if 4 * rows * e.network.n_agents * e.bandit.n_arms > LARGEST_ARRAY:
        raise Mistake(
            f"the pulls of {rows} runs, {e.network.n_agents} agents and {e.bandit.n_arms} arms do "
            "not fit into a result file of 2 GB: take fewer runs"
        )
    models = [model_of(each, e.bandit) for each in e.algorithms.values()]
    for name in e.keep:
        sizes = [axes(e.bandit, e.network, rounds, model) for model in models]
        if 8 * rows * max(numbers_a_run(name, each, e.bandit) for each in sizes) > LARGEST_ARRAY:
            raise Mistake(
                f"keep: {name!r} of {rows} runs at {rounds} rounds does not fit into a result file "
                "of 2 GB: keep fewer rounds, such as record = 100, or fewer runs"
            )


def _table(title: str, comparison: Comparison, seed: int) -> Table:
    """Lay out the regret of each algorithm at the horizon, in the order of the file."""
    from rich.table import Table
    from rich.text import Text

    summaries = {name: result.summary() for name, result in comparison.items()}
    first = next(iter(summaries.values()))
    caption = f"regret per agent at round {first.horizon}; {first.runs} runs, seed {seed}"
    table = Table(title=Text(title, style="bold"), caption=Text(caption), title_justify="left")
    table.caption_justify = "left"
    table.add_column("algorithm")
    for column in ("regret", "± standard error", "95% interval"):
        table.add_column(column, justify="right")
    where: dict[str, tuple[str]] = {}
    if comparison.is_mixed:  # which ran where: they met the same means, not the same rewards
        table.add_column("engine")
        where = {name: (result.engine,) for name, result in comparison.items()}
    errors = [s.standard_error for s in summaries.values() if s.standard_error > 0]
    # so many decimals that the surest of them shows two digits of its error
    decimals = max(0, 1 - math.floor(math.log10(min(errors)))) if errors else 3
    for name, s in summaries.items():
        numbers = [f"{number:.{decimals}f}" for number in (s.mean, s.standard_error, s.low, s.high)]
        error = numbers[1]
        interval = f"{numbers[2]} to {numbers[3]}"
        known = (error, interval) if s.runs > 1 else ("", "")
        table.add_row(Text(name), numbers[0], *known, *where.get(name, ()))
    return table
