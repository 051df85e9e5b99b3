"""`posse.sweep`: an experiment over a grid of its settings; stored parts are not recomputed."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from posse import notebook_tables, rules, validation
from posse.bandits import Environment
from posse.lab import plots
from posse.lab.atomic_files import atomic_write
from posse.lab.comparisons import Comparison
from posse.lab.experiments import Experiment
from posse.lab.jobs import PartStore, complete_jobs, digest, track_progress
from posse.lab.simulation import Job
from posse.lab.sweeps.files import write_sweep
from posse.lab.sweeps.grid import (
    Label,
    SweepGrid,
    describe_cell,
    experiment_to_data,
    set_key,
    shorten,
)
from posse.serialization.decode import from_data

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.axes import Axes

    from posse.lab.report import Scoreboard

PLAYED = " played"  # the end of a column: the numbers that were played for rules
SUMMARIES = ("mean", "standard_error", "low", "high")


def build_rows(sweep: Sweep) -> list[dict[str, Any]]:
    """Build a row for every cell and algorithm."""
    rows = []
    for cell, scoreboard in zip(sweep.plan, sweep.scoreboards, strict=True):
        labels: dict[str, Any] = {}
        for axis, place in zip(sweep.grid.axes, cell.point, strict=True):
            if axis.title:
                labels[axis.title.name] = axis.point_labels[place]
            for key in axis.keys:
                labels[key] = cell.labels[key]
                if key in cell.played:
                    labels[f"{key}{PLAYED}"] = cell.played[key]
        for score in scoreboard.rows:
            mean, error, low, high = score.regret
            row = {**labels, "algorithm": score.algorithm, "runs": score.runs, "regret": mean}
            row |= {"standard_error": error, "low": low, "high": high}
            if score.best_arm_share is not None:
                row["best_arm_share"] = score.best_arm_share
            if score.numbers_sent is not None:
                row["numbers_sent"] = score.numbers_sent.mean
            rows.append(row | {"engine": score.engine})
    return rows


def to_frame(rows: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Make a DataFrame of rows."""
    import pandas as pd

    return pd.DataFrame(list(rows))


def build_dataset(sweep: Sweep) -> xr.Dataset:
    """Build labelled arrays over the grid."""
    import xarray as xr

    names = sweep.algorithms
    axes = sweep.grid.axes
    numbers = sorted({run for cell in sweep.plan for job in cell.jobs.values() for run in job.runs})
    outer = (*sweep.grid.shape, len(names))
    regret = np.full((*outer, len(numbers)), np.nan)
    summaries = {name: np.full(outer, np.nan) for name in SUMMARIES}
    curves: dict[tuple[int, ...], Any] = {}
    for cell, comparison in zip(sweep.plan, sweep, strict=True):
        for name, result in comparison.items():
            place = (*cell.point, names.index(name))
            first = numbers.index(result.run_numbers.start)
            # Cells may have different runs: those that a cell lacks stay nan.
            regret[place][first : first + result.runs] = result.regret[:, -1]
            for key, array in summaries.items():
                array[place] = getattr(result.summary(), key)
            curves[place] = result.times, result.regret.mean(axis=0)
    dims = (*(axis.name for axis in axes), "algorithm")
    arrays: dict[str, Any] = {"regret": ((*dims, "run"), regret)}
    arrays |= {name: (dims, array) for name, array in summaries.items()}
    coords: dict[str, Any] = {"algorithm": names, "run": numbers}
    for axis in axes:
        for key, column in zip(axis.keys, zip(*axis.labels, strict=True), strict=True):
            # One coordinate has one type: numbers beside rules become text.
            texts = any(isinstance(label, str) for label in column)
            coords[key] = (axis.name, list(map(str, column)) if texts else list(column))
        if axis.title:
            coords[axis.name] = list(map(str, axis.point_labels))
    # Cells may have different horizons; a common time axis exists only where all are equal.
    times = next(iter(curves.values()))[0]
    if all(np.array_equal(cell_times, times) for cell_times, _ in curves.values()):
        curve = np.full((*outer, len(times)), np.nan)
        for place, (_, values) in curves.items():
            curve[place] = values
        arrays["curve"] = ((*dims, "time"), curve)
        coords["time"] = times
    return xr.Dataset(arrays, coords)


def adapt_for_netcdf(dataset: xr.Dataset) -> xr.Dataset:
    """Change names and types that the classic format of netCDF does not support."""
    # It refuses slashes, and has 32-bit integers only: larger ones become text.
    names = {str(n): str(n).replace("/", "|") for n in [*dataset.dims, *dataset.coords]}
    large = {
        name: coordinate.astype(str)
        for name, coordinate in dataset.coords.items()
        if coordinate.dtype.kind in "iu" and np.abs(coordinate).max() >= 2**31
    }
    renamed = {old: new for old, new in names.items() if old != new}
    return dataset.assign_coords(large).rename(renamed)


PARTS = "parts"


def sweep(
    experiment: Experiment,
    grid: Mapping[Any, Any],
    *,
    folder: str | os.PathLike[str],
    executor: Executor | None = None,
    runs: int | range | None = None,
    threads: int | None = None,
    progress: bool = False,
) -> Sweep:
    """Compare the algorithms of an experiment in every cell of a grid, under one seed.

    grid:     key to values, such as {"network.agents": [10, 30]}: any key of an experiment file;
              "algorithms.*.policy" is the policy of all algorithms; a tuple of keys with tuples of
              values is a paired list, and `posse.axis` names one. Values are plain data, objects
              of the library, or rules such as "sqrt(N)" where a number stands.
    folder:   where parts are stored: another call with it computes only what is missing
    executor: any `concurrent.futures.Executor`; None computes on threads of this process
    runs:     replaces the runs of the experiment

    Every cell is validated before the first is computed.
    """
    result = plan_sweep(experiment, grid, folder=folder, runs=runs)
    result.complete(executor=executor, threads=threads, progress=progress)
    return result


def plan_sweep(
    experiment: Experiment,
    grid: Mapping[Any, Any] | SweepGrid,
    *,
    folder: str | os.PathLike[str],
    runs: int | range | None = None,
) -> Sweep:
    """Validate a sweep without computing it."""
    if not isinstance(experiment, Experiment):
        raise ValueError(
            "experiment must be an experiment such as posse.read_experiment('file.toml'), "
            f"got {validation.format_value(experiment)}"
        )
    if not isinstance(folder, str | os.PathLike):
        raise ValueError(
            f"folder must be the path of a folder, got {validation.format_value(folder)}"
        )
    if isinstance(experiment.bandit, Environment) and experiment.bandit.means is None:
        raise ValueError("experiment: a sweep compares regret, and the environment has no means")
    if runs is not None:
        experiment = dataclasses.replace(experiment, runs=runs)
    sweep_grid = grid if isinstance(grid, SweepGrid) else SweepGrid.from_mapping(grid)
    data = experiment_to_data(experiment)
    cells = [_build_cell(data, sweep_grid, point) for point in sweep_grid.points()]
    return Sweep(experiment, sweep_grid, Path(folder), tuple(cells))


@dataclass(frozen=True)
class SweepCell:
    """A cell of the grid: its indices on the axes, its labels, its experiment and jobs.

    played: the number that was played, for every key of which some value is a rule
    """

    point: tuple[int, ...]
    labels: dict[str, Label]
    experiment: Experiment
    jobs: dict[str, Job]
    played: dict[str, Any]

    def describe(self, names: Mapping[str, str]) -> str:
        """Describe the cell by short names of its keys; a rule also by the number played."""
        return ", ".join(
            f"{names[key]} = {label}"
            + (f" = {plots.format_value(self.played[key])}" if rules.is_rule(label) else "")
            for key, label in self.labels.items()
        )


@dataclass(frozen=True, eq=False, repr=False)
class Sweep:
    """The results of an experiment in every cell of a grid, loaded from the store on access."""

    experiment: Experiment
    grid: SweepGrid
    folder: Path
    plan: tuple[SweepCell, ...]
    store: PartStore = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "store", PartStore(self.folder / PARTS))

    @property
    def cells(self) -> list[dict[str, Label]]:
        """The value of every key in each cell, in the order of nested loops."""
        return [dict(cell.labels) for cell in self.plan]

    @property
    def jobs(self) -> list[Job]:
        """All jobs, without duplicates of jobs that several cells share."""
        unique: dict[tuple[str, range], Job] = {}
        for cell in self.plan:
            for job in cell.jobs.values():
                unique.setdefault((digest(job), job.runs), job)
        return list(unique.values())

    @property
    def title(self) -> str:
        """The title of the experiment, or what is swept."""
        short = self.grid.short_names()
        names = [
            axis.name if axis.title or len(axis.keys) > 1 else short[axis.keys[0]]
            for axis in self.grid.axes
        ]
        return self.experiment.title or f"Regret by {', '.join(names)}"

    @property
    def algorithms(self) -> list[str]:
        """The names of the algorithms of all cells."""
        return list(dict.fromkeys(name for cell in self.plan for name in cell.jobs))

    def complete(
        self,
        *,
        executor: Executor | None = None,
        threads: int | None = None,
        progress: bool = False,
    ) -> None:
        """Compute the runs that the store does not hold yet."""
        jobs = self.jobs
        with track_progress(
            self.title, jobs, self.store, show=progress, here=executor is None
        ) as advance:
            complete_jobs(jobs, self.store, executor=executor, threads=threads, advance=advance)

    def __len__(self) -> int:
        return len(self.plan)

    def __getitem__(self, cell: int | Mapping[str, Any]) -> Comparison:
        """Load the results of one cell, by its number or by values that only it has."""
        planned = self.plan[cell] if isinstance(cell, int) else self._find_cell(cell)
        return Comparison({name: self.store.load_result(job) for name, job in planned.jobs.items()})

    def __iter__(self) -> Iterator[Comparison]:
        return (self[number] for number in range(len(self)))

    def __repr__(self) -> str:
        axes = " x ".join(f"{len(axis)} {axis.name}" for axis in self.grid.axes)
        return f"Sweep({len(self)} cells: {axes}; {', '.join(self.algorithms)})"

    def _repr_html_(self) -> str:
        axes = {axis.name: ", ".join(map(str, axis.point_labels)) for axis in self.grid.axes}
        facts = {"algorithms": ", ".join(self.algorithms), "folder": str(self.folder)}
        caption = f"{self.title}: {len(self)} cells"
        return notebook_tables.render_fields(caption, axes | facts)

    def _find_cell(self, keys: Any) -> SweepCell:
        if not isinstance(keys, Mapping):
            raise KeyError(
                f"a cell is its number or a dict of its keys, got {validation.format_value(keys)}"
            )
        full = {short: key for key, short in self.grid.short_names().items()}
        titles = {axis.title.name: i for i, axis in enumerate(self.grid.axes) if axis.title}
        wanted: dict[str, Any] = {}
        for name, value in keys.items():
            key = str(full.get(name, name))
            validation.validate_choice("key", key, [*titles, *self.grid.keys])
            wanted[key] = shorten(value)
        matches = []
        for cell in self.plan:
            settings = self.grid.settings(cell.point)
            titled = {
                name: self.grid.axes[i].point_labels[cell.point[i]] for name, i in titles.items()
            }
            if all(
                value in ((titled[key],) if key in titled else (cell.labels[key], settings[key]))
                for key, value in wanted.items()
            ):
                matches.append(cell)
        if len(matches) != 1:
            raise KeyError(f"{describe_cell(keys)} is {len(matches) or 'no'} cells of {self!r}")
        return matches[0]

    @cached_property
    def scoreboards(self) -> list[Scoreboard]:
        """The scoreboard of each cell: mean regret with its interval, tails, numbers sent."""
        from posse.lab.report import build_scoreboard

        return [build_scoreboard(comparison) for comparison in self]

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """A row for every cell and algorithm, as the table has them."""
        return build_rows(self)

    def table(self) -> pd.DataFrame:
        """One tidy table, a row for each cell and algorithm.

        A column per key, then algorithm, runs, regret at the horizon, standard_error, low and high
        (its 95% interval), best_arm_share and engine.
        """
        return to_frame(self.rows)

    def to_xarray(self) -> xr.Dataset:
        """The grid as dimensions, with algorithm and run: regret at the horizon, and its means.

        A paired list is one dimension with a coordinate for each of its keys.
        """
        return build_dataset(self)

    @overload
    def plot(
        self,
        x: str | None = None,
        hue: str | None = None,
        row: None = None,
        column: None = None,
        *,
        where: Mapping[str, Any] | None = None,
    ) -> Axes: ...

    @overload
    def plot(
        self,
        x: str | None = None,
        hue: str | None = None,
        row: str | None = None,
        column: str | None = None,
        *,
        where: Mapping[str, Any] | None = None,
    ) -> Any: ...

    def plot(
        self,
        x: str | None = None,
        hue: str | None = None,
        row: str | None = None,
        column: str | None = None,
        *,
        where: Mapping[str, Any] | None = None,
    ) -> Axes | list[Axes]:
        """Draw regret at the horizon with its 95% interval against a key of the grid.

        x:      a key, numeric (on a logarithmic axis if values are far apart) or categorical; the
                first key with several values if not given
        hue:    a key, or "algorithm" (the default if there are several): a curve for every value
        row:    a key, or "algorithm": axes below each other, which are returned as a list
        column: the same for axes side by side; the list has them row after row
        where:  the values of all other keys, such as {"network.agents": 30}, or a list of values;
                required for keys of several values, since nothing is averaged

        A key may be written in short ("agents"), and a named paired list by its name.
        """
        from posse.lab.sweeps import figures as views

        figure_axes = views.draw_plot(self, x, hue, row, where, column)
        return figure_axes[0] if row is None and column is None else figure_axes

    @overload
    def heat_map(
        self,
        x: str | None = None,
        y: str | None = None,
        algorithm: str | None = None,
        *,
        row: None = None,
        column: None = None,
        where: Mapping[str, Any] | None = None,
    ) -> Axes: ...

    @overload
    def heat_map(
        self,
        x: str | None = None,
        y: str | None = None,
        algorithm: str | None = None,
        *,
        row: str | None = None,
        column: str | None = None,
        where: Mapping[str, Any] | None = None,
    ) -> Any: ...

    def heat_map(
        self,
        x: str | None = None,
        y: str | None = None,
        algorithm: str | None = None,
        *,
        row: str | None = None,
        column: str | None = None,
        where: Mapping[str, Any] | None = None,
    ) -> Axes | list[Axes]:
        """Draw regret at the horizon over two keys, or over a key and "algorithm", as a matrix.

        algorithm:   the one shown, unless "algorithm" has a role
        row, column: as in `plot`: maps below each other and side by side, on one scale of colours
        where:       as in `plot`
        """
        from posse.lab.sweeps import figures as views

        figure_axes = views.draw_heat_map(self, x, y, algorithm, where, row, column)
        return figure_axes[0] if row is None and column is None else figure_axes

    def significance(self, over: str | None = None) -> pd.DataFrame:
        """Compare the values of one key in every cell of the others: the best, and those like it.

        over: the key, or "algorithm"; by default the algorithms if there are several, else
              the key with the most values that changes them

        A row for each problem and value: regret with its standard error, the verdict ("best",
        "not told from the best", "worse", or "too few runs"), the difference to the best (paired
        run by run) with its 95% interval, and its p-value after Holm's correction over all pairs
        of the whole sweep.
        """
        from posse.lab.sweeps import significance as contests

        return to_frame(contests.build_rows(contests.compute_significance(self, over)))

    def to_latex(
        self, over: str | None = None, *, caption: str | None = None, label: str | None = None
    ) -> str:
        """Write a table of regrets with their standard errors for LaTeX (package booktabs).

        A row for each problem and a column for each value of `over`, as in `significance`. The
        best is bold, and so are those not told from it. A caption or a label makes it a float.
        """
        from posse.lab.sweeps import significance as contests

        return contests.format_latex(contests.compute_significance(self, over), caption, label)

    def report(self, folder: str | os.PathLike[str] | None = None) -> Path:
        """Write a page with figures, the table and all settings: index.html, and files beside it.

        folder: that of the sweep, if not given. The page is self-contained; its path is returned.
        """
        from posse.lab.report.pages import sweep as page

        return page.write_page(self, self.folder if folder is None else Path(folder))

    def save(self, folder: str | os.PathLike[str] | None = None) -> list[Path]:
        """Write table.csv, sweep.nc and sweep.toml, by default to the folder of the sweep.

        `read_sweep` reads sweep.toml.
        """
        return _save_sweep(self, self.folder if folder is None else Path(folder))


def _build_cell(data: dict[str, Any], grid: SweepGrid, point: tuple[int, ...]) -> SweepCell:
    """Build the experiment of a cell and its jobs; an error names the cell."""
    labels = grid.labels(point)
    settings = copy.deepcopy(data)
    try:
        for key, value in grid.settings(point).items():
            set_key(settings, key, copy.deepcopy(value))
        e = from_data(Experiment, settings)
        jobs = e.jobs()
    except ValueError as error:
        raise ValueError(f"the cell {describe_cell(labels)}: {error}") from None
    values = grid.settings(point)
    played = {
        key: rules.evaluate_rule(key, values[key], e.sizes)
        if rules.is_rule(values[key])
        else values[key]
        for key in grid.rule_keys
    }
    return SweepCell(point, labels, e, jobs, played)


def _save_sweep(sweep: Sweep, folder: Path) -> list[Path]:
    """Write the table as CSV, the arrays as netCDF, and the sweep as TOML."""
    folder.mkdir(parents=True, exist_ok=True)
    table, arrays, definition = (folder / name for name in ("table.csv", "sweep.nc", "sweep.toml"))
    with atomic_write(table) as temporary:
        sweep.table().to_csv(temporary, index=False)
    with atomic_write(arrays) as temporary:
        adapt_for_netcdf(sweep.to_xarray()).to_netcdf(temporary, engine="scipy")
    written = [table, arrays]
    with contextlib.suppress(ValueError):  # such as None, which TOML cannot represent
        write_sweep(sweep.experiment, sweep.grid, definition)
        written.append(definition)
    return written
