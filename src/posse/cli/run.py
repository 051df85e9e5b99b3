"""`posse run`: run an experiment file; print a table, write a result file and a figure."""

from __future__ import annotations

import dataclasses
import math
import os
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
    from concurrent.futures import Executor

    from rich.table import Table

    from posse.lab import Comparison
    from posse.lab.experiments import Experiment
    from posse.lab.jobs import PartStore

EXAMPLES = """Examples:

posse run experiments/demo.toml

posse run experiments/demo.toml --runs 10 --horizon 500 --output /tmp/quick

posse run experiments/demo.toml --report"""

RESULTS = Path("results")


def run(
    file: Annotated[Path, typer.Argument(metavar="FILE.toml", help="The experiment.")],
    runs: Annotated[int | None, typer.Option(help="Number of runs (overrides the file).")] = None,
    horizon: Annotated[
        int | None, typer.Option(help="Number of rounds (overrides the file).")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed (overrides the file).")] = None,
    output: Annotated[Path, typer.Option(help="Folder for FILE.nc and FILE.png.")] = RESULTS,
    plot: Annotated[bool, typer.Option("--plot/--no-plot", help="Draw FILE.png.")] = True,
    report: Annotated[
        bool, typer.Option("--report", help="Also write a report: FILE.report/index.html.")
    ] = False,
    workers: Workers = None,
    cluster: Cluster = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print only the paths.")] = False,
) -> None:
    """Run an experiment file: print its final regrets, save its results and a figure.

    Partial results are stored in the folder FILE.parts beside the results: an interrupted
    experiment resumes from them, and an experiment with more runs computes only the new ones.
    """
    from rich.console import Console

    from posse.lab.experiments import read_experiment
    from posse.lab.jobs import PartStore
    from posse.lab.plots import write_comparison
    from posse.lab.report import check_folder, write_report

    options: dict[str, Any] = {"runs": runs, "horizon": horizon, "seed": seed}
    overrides = {key: value for key, value in options.items() if value is not None}
    data, figure, page = (output / f"{file.stem}.{kind}" for kind in ("nc", "png", "report"))
    with catch_user_errors():
        experiment = dataclasses.replace(read_experiment(file), **overrides)
        # check the output now rather than after hours of work
        output.mkdir(parents=True, exist_ok=True)
        for target in (data, figure):
            if target.is_dir():
                raise ValueError(f"{target} is a folder: choose another --output")
        if report:
            check_folder(page)
        if not os.access(output, os.W_OK):
            raise ValueError(f"{output} is not writable: choose another --output")
    _refuse_too_large(experiment)
    title = experiment.title or file.stem
    store = PartStore(output / f"{file.stem}.parts")
    with open_executor(workers, cluster) as executor, announce_resume(), catch_user_errors():
        # the simulation validates, for example that a family can learn from the bandit's rewards
        comparison = _run_experiment(title, experiment, store, executor, progress=not quiet)
    for note in store.notes:
        typer.echo(f"posse: {note}", err=True)
    if not quiet:
        Console().print(_build_table(title, comparison, experiment.seed))
    with catch_user_errors():
        comparison.save(data)
        typer.echo(data)
        if plot:
            write_comparison(comparison, experiment.title, [figure])
            typer.echo(figure)
        if report:
            typer.echo(write_report(comparison, page, title, saved=data))


def _run_experiment(
    title: str,
    experiment: Experiment,
    store: PartStore,
    executor: Executor | None,
    *,
    progress: bool,
) -> Comparison:
    """Compute the results of an experiment, reusing the runs in the store."""
    from posse.lab import Comparison
    from posse.lab.jobs import complete_jobs, track_progress

    jobs = experiment.jobs()
    here = executor is None
    with track_progress(title, list(jobs.values()), store, show=progress, here=here) as advance:
        complete_jobs(list(jobs.values()), store, executor=executor, advance=advance)
    return Comparison({name: store.load_result(job) for name, job in jobs.items()})


def _refuse_too_large(experiment: Experiment) -> None:
    """Refuse an experiment whose result could not be saved at the end."""
    from posse.lab.simulation import (
        axis_sizes,
        count_numbers_per_run,
        count_recorded_rounds,
        resolve_model,
    )
    from posse.lab.storage import LARGEST_ARRAY

    e = experiment.resolve()
    rows = len(e.algorithms) * e.n_runs
    # counted without listing them: the list alone could exhaust the memory
    rounds = count_recorded_rounds(e.record, e.n_rounds)
    # Sizes in bytes: 8 for a number of a curve, 4 for a number of pulls.
    if 8 * rows * rounds > LARGEST_ARRAY:
        raise UserError(
            f"the curves of {rows} runs at {rounds} rounds do not fit into a result file of 2 GB: "
            "keep fewer rounds, for example record = 1000, or fewer runs"
        )
    if 4 * rows * e.network.n_agents * e.bandit.n_arms > LARGEST_ARRAY:
        raise UserError(
            f"the pulls of {rows} runs, {e.network.n_agents} agents and {e.bandit.n_arms} arms do "
            "not fit into a result file of 2 GB: take fewer runs"
        )
    models = [resolve_model(algorithm, e.bandit) for algorithm in e.algorithms.values()]
    for name in e.keep:
        sizes = [axis_sizes(e.bandit, e.network, rounds, model) for model in models]
        if (
            8 * rows * max(count_numbers_per_run(name, size, e.bandit) for size in sizes)
            > LARGEST_ARRAY
        ):
            raise UserError(
                f"keep: {name!r} of {rows} runs at {rounds} rounds does not fit into a result file "
                "of 2 GB: keep fewer rounds, for example record = 100, or fewer runs"
            )


def _build_table(title: str, comparison: Comparison, seed: int) -> Table:
    """Build a table of the regret of each algorithm at the horizon, in the order of the file."""
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
    if comparison.is_mixed:  # engines share the true means but not the rewards
        table.add_column("engine")
        where = {name: (result.engine,) for name, result in comparison.items()}
    errors = [s.standard_error for s in summaries.values() if s.standard_error > 0]
    # enough decimals for two digits of the smallest standard error
    decimals = max(0, 1 - math.floor(math.log10(min(errors)))) if errors else 3
    for name, s in summaries.items():
        numbers = [f"{number:.{decimals}f}" for number in (s.mean, s.standard_error, s.low, s.high)]
        error = numbers[1]
        interval = f"{numbers[2]} to {numbers[3]}"
        uncertainty = (error, interval) if s.runs > 1 else ("", "")
        table.add_row(Text(name), numbers[0], *uncertainty, *where.get(name, ()))
    return table
