"""The numbers of a sweep, as a tidy table and as labelled arrays over its grid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from posse.lab.sweeps.sweep import Sweep

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

    names, axes = sweep.algorithms, sweep.grid.axes
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
