"""The numbers of a sweep, as a tidy table and as labelled arrays over its grid."""

from __future__ import annotations

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

from posse import validation
from posse.lab.comparisons import Comparison
from posse.lab.experiments import Experiment
from posse.lab.jobs.results_cache import PartStore, digest
from posse.lab.jobs.scheduler import complete, watched
from posse.lab.simulation import Job
from posse.lab.sweeps import files
from posse.lab.sweeps.grid import Grid, Label, data_of, put, short, words
from posse.serialization.decode import from_data

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.axes import Axes

SUMMARIES = ("mean", "standard_error", "low", "high")


def rows(sweep: Sweep) -> list[dict[str, Any]]:
    """A row for each cell and algorithm."""
    found = []
    for labels, comparison in zip(sweep.cells, sweep, strict=True):
        for name, result in comparison.items():
            s = result.summary()
            row = {**labels, "algorithm": name, "runs": s.runs, "regret": s.mean}
            row |= {"standard_error": s.standard_error, "low": s.low, "high": s.high}
            if (share := result.best_arm_share()) is not None:
                row["best_arm_share"] = share
            if "messages" in result.kept:
                row["numbers_sent"] = float(result.numbers_sent[:, -1].mean())
            found.append(row | {"engine": result.engine})
    return found


def frame(rows: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Rows as a table."""
    import pandas as pd

    return pd.DataFrame(list(rows))


def dataset(sweep: Sweep) -> xr.Dataset:
    """Labelled arrays over the grid."""
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
            coords[key] = (axis.name, list(column))
    times = next(iter(curves.values()))[0]
    if all(np.array_equal(own, times) for own, _ in curves.values()):
        curve = np.full((*outer, len(times)), np.nan)
        for place, (_, values) in curves.items():
            curve[place] = values
        arrays["curve"] = ((*dims, "time"), curve)
        coords["time"] = times
    return xr.Dataset(arrays, coords)


def for_netcdf(dataset: xr.Dataset) -> xr.Dataset:
    """The same under names, and with numbers, that the classic format of netCDF knows."""
    # it refuses slashes, and has whole numbers of 32 bits only: larger ones become text
    names = {str(n): str(n).replace("/", "|") for n in [*dataset.dims, *dataset.coords]}
    large = {
        name: coordinate.astype(str)
        for name, coordinate in dataset.coords.items()
        if coordinate.dtype.kind in "iu" and np.abs(coordinate).max() >= 2**31
    }
    renamed = {old: new for old, new in names.items() if old != new}
    return dataset.assign_coords(large).rename(renamed)


# `posse.sweep`: an experiment over a grid of its settings; what is kept is not computed again.

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

    grid:     key to values, such as {"network.agents": [10, 30]}: every key of an experiment file
              will do, "algorithms.*.policy" is that of all algorithms; a tuple of keys with tuples
              of values is a paired list. Values are plain data or values of the library.
    folder:   where parts are kept: interrupted, extended or repeated it computes what is missing.
    executor: any `concurrent.futures.Executor`; None: some threads of this process.
    runs:     in place of the experiment's.

    Every cell is checked before the first is computed.
    """
    made = planned(experiment, grid, folder=folder, runs=runs)
    made.complete(executor=executor, threads=threads, progress=progress)
    return made


def planned(
    experiment: Experiment,
    grid: Mapping[Any, Any] | Grid,
    *,
    folder: str | os.PathLike[str],
    runs: int | range | None = None,
) -> Sweep:
    """A sweep that is checked, but not computed."""
    if not isinstance(experiment, Experiment):
        raise ValueError(
            "experiment must be an experiment such as posse.read_experiment('file.toml'), "
            f"got {validation.format_value(experiment)}"
        )
    if not isinstance(folder, str | os.PathLike):
        raise ValueError(
            f"folder must be the path of a folder, got {validation.format_value(folder)}"
        )
    if runs is not None:
        experiment = dataclasses.replace(experiment, runs=runs)
    made = grid if isinstance(grid, Grid) else Grid.checked(grid)
    data = data_of(experiment)
    cells = [_cell(data, made, point) for point in made.points()]
    return Sweep(experiment, made, Path(folder), tuple(cells))


@dataclass(frozen=True)
class Cell:
    """One cell: its place in the grid, what is set there, and what is to be played."""

    point: tuple[int, ...]
    labels: dict[str, Label]
    experiment: Experiment
    jobs: dict[str, Job]


@dataclass(frozen=True, eq=False, repr=False)
class Sweep:
    """The results of an experiment in every cell of a grid; they are read when asked for."""

    experiment: Experiment
    grid: Grid
    folder: Path
    plan: tuple[Cell, ...]
    store: PartStore = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "store", PartStore(self.folder / PARTS))

    @property
    def cells(self) -> list[dict[str, Label]]:
        """The value of every key in each cell, in the order of nested loops."""
        return [dict(cell.labels) for cell in self.plan]

    @property
    def jobs(self) -> list[Job]:
        """What is to be computed: what several cells share is there once."""
        unique: dict[tuple[str, range], Job] = {}
        for cell in self.plan:
            for job in cell.jobs.values():
                unique.setdefault((digest(job), job.runs), job)
        return list(unique.values())

    @property
    def title(self) -> str:
        """The experiment's title, or how many cells there are."""
        return self.experiment.title or f"{len(self)} cells"

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
        """Compute what is missing."""
        jobs = self.jobs
        with watched(self.title, jobs, self.store, show=progress, here=executor is None) as advance:
            complete(jobs, self.store, executor=executor, threads=threads, advance=advance)

    def __len__(self) -> int:
        return len(self.plan)

    def __getitem__(self, cell: int | Mapping[str, Any]) -> Comparison:
        """The results of one cell: by its number, or by the values of keys that tell it."""
        found = self.plan[cell] if isinstance(cell, int) else self._find(cell)
        return Comparison({name: self.store.result(job) for name, job in found.jobs.items()})

    def __iter__(self) -> Iterator[Comparison]:
        return (self[number] for number in range(len(self)))

    def __repr__(self) -> str:
        axes = " x ".join(f"{len(axis)} {axis.name}" for axis in self.grid.axes)
        return f"Sweep({len(self)} cells: {axes}; {', '.join(self.algorithms)})"

    def _find(self, wanted: Any) -> Cell:
        if not isinstance(wanted, Mapping):
            raise KeyError(
                f"a cell is its number or a dict of its keys, got {validation.format_value(wanted)}"
            )
        for key in wanted:
            validation.validate_choice("key", key, self.grid.keys)
        plain = {key: short(value) for key, value in wanted.items()}
        found = []
        for cell in self.plan:
            settings = self.grid.settings(cell.point)
            if all(v in (cell.labels[key], settings[key]) for key, v in plain.items()):
                found.append(cell)
        if len(found) != 1:
            raise KeyError(f"{words(wanted)} is {len(found) or 'no'} cells of {self!r}")
        return found[0]

    @cached_property
    def _rows(self) -> list[dict[str, Any]]:
        return rows(self)

    def table(self) -> pd.DataFrame:
        """One tidy table, a row for each cell and algorithm.

        A column per key, then algorithm, runs, regret at the horizon, standard_error, low and high
        (its 95% interval), best_arm_share and engine.
        """
        return frame(self._rows)

    def to_xarray(self) -> xr.Dataset:
        """The grid as dimensions, with algorithm and run: regret at the horizon, and its means.

        A paired list is one dimension with a coordinate for each of its keys.
        """
        return dataset(self)

    @overload
    def plot(
        self,
        x: str | None = None,
        hue: str | None = None,
        row: None = None,
        *,
        where: Mapping[str, Any] | None = None,
    ) -> Axes: ...

    @overload
    def plot(
        self,
        x: str | None = None,
        hue: str | None = None,
        *,
        row: str,
        where: Mapping[str, Any] | None = None,
    ) -> list[Axes]: ...

    def plot(
        self,
        x: str | None = None,
        hue: str | None = None,
        row: str | None = None,
        *,
        where: Mapping[str, Any] | None = None,
    ) -> Axes | list[Axes]:
        """Draw regret at the horizon with its 95% interval against a key of the grid.

        x:     a key, at its numbers (on a logarithmic axis if they are far apart) or evenly; the
               first one of several values if not given
        hue:   a key, or "algorithm", which it is if not given: a curve for each of its values (one
               algorithm needs none)
        row:   the same: axes below each other, which are returned as a list
        where: what to show of the others, as {"network.agents": 30} or a list of values; what has
               several values must be chosen from or named, since nothing is averaged away
        """
        from posse.lab.sweeps import figures as views

        drawn = views.plot(self, x, hue, row, where)
        return drawn[0] if row is None else drawn

    def heat_map(
        self,
        x: str | None = None,
        y: str | None = None,
        algorithm: str | None = None,
        *,
        where: Mapping[str, Any] | None = None,
    ) -> Axes:
        """Draw the regret of one algorithm at the horizon over two keys; `where` as in `plot`."""
        from posse.lab.sweeps import figures as views

        return views.heat_map(self, x, y, algorithm, where)

    def report(self, folder: str | os.PathLike[str] | None = None) -> Path:
        """Write a page with figures, the table and all settings: index.html, and files beside it.

        folder: the sweep's own, if not given. The page is self-contained; its path is returned.
        """
        from posse.lab.report.pages import sweep as page

        return page.write(self, self.folder if folder is None else Path(folder))

    def save(self, folder: str | os.PathLike[str] | None = None) -> list[Path]:
        """Write table.csv, sweep.nc and sweep.toml, beside the parts unless told where.

        sweep.toml is the sweep as a file, which `read_sweep` reads.
        """
        return files.save(self, self.folder if folder is None else Path(folder))


def _cell(data: dict[str, Any], grid: Grid, point: tuple[int, ...]) -> Cell:
    """The experiment of a cell and its jobs; what is wrong with it is said with its name."""
    labels = grid.labels(point)
    changed = copy.deepcopy(data)
    try:
        for key, value in grid.settings(point).items():
            put(changed, key, copy.deepcopy(value))
        e = from_data(Experiment, changed)
        jobs = e.jobs()
    except ValueError as error:
        raise ValueError(f"the cell {words(labels)}: {error}") from None
    return Cell(point, labels, e, jobs)
