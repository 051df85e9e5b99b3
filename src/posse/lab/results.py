"""What a simulation returns: the regret and the pulls of every run, to look at and to keep."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from posse.lab.statistics import mean_interval

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.axes import Axes

# the largest count that the file format holds
LARGEST = np.iinfo(np.int32).max


@dataclass(frozen=True)
class Summary:
    """The mean regret per agent at the horizon, its standard error and its 95% interval."""

    mean: float
    standard_error: float
    low: float
    high: float
    runs: int
    horizon: int

    def __str__(self) -> str:
        where = f"regret per agent at round {self.horizon}: {self.pair()}"
        if self.runs == 1:
            return f"{where} (1 run, no interval)"
        low, high = (_rounded(end, self.standard_error) for end in (self.low, self.high))
        return f"{where} (95% interval {low} to {high}, {self.runs} runs)"

    def pair(self) -> str:
        """Write the mean ± the standard error, in as many digits as the error allows."""
        mean = _rounded(self.mean, self.standard_error)
        if self.runs == 1:
            return mean
        return f"{mean} ± {_rounded(self.standard_error, self.standard_error)}"


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """The regret and the pulls of one algorithm, run by run.

    times:    (len,) the rounds recorded, from 1 on, the last being the horizon
    regret:   (runs, len) cumulative pseudo-regret up to each time, averaged over agents
    pulls:    (runs, agents, arms) how often each agent played each arm
    engine:   what ran it
    settings: how to run it again, in plain JSON values

    The arrays are read-only. They are copied unless they are so already.
    """

    times: NDArray[np.int64]
    regret: NDArray[np.float64]
    pulls: NDArray[np.int32]
    engine: str
    settings: dict[str, Any]

    def __post_init__(self) -> None:
        times = _read_only("times", self.times, 1, np.int64)
        regret = _read_only("regret", self.regret, 2, np.float64)
        pulls = _read_only("pulls", self.pulls, 3, np.int32)
        if times[0] < 1 or np.any(times[1:] <= times[:-1]):
            raise ValueError("times must be rounds from 1 on, each later than the one before")
        if regret.shape != (len(pulls), len(times)):
            raise ValueError(
                f"regret must have shape (runs, len(times)) = {(len(pulls), len(times))}, "
                f"got {regret.shape}"
            )
        if not isinstance(self.engine, str) or not self.engine.isprintable() or not self.engine:
            raise ValueError(f"engine must be a name, got {self.engine!r}")
        if not isinstance(self.settings, Mapping):
            raise ValueError(f"settings must be a dict, got {self.settings!r}")
        fields = {"times": times, "regret": regret, "pulls": pulls}
        for name, value in (fields | {"settings": _plain(self.settings)}).items():
            object.__setattr__(self, name, value)

    @property
    def runs(self) -> int:
        """The number of runs."""
        return int(self.pulls.shape[0])

    @property
    def n_agents(self) -> int:
        """The number of agents."""
        return int(self.pulls.shape[1])

    @property
    def n_arms(self) -> int:
        """The number of arms."""
        return int(self.pulls.shape[2])

    @property
    def horizon(self) -> int:
        """The last round."""
        return int(self.times[-1])

    def __repr__(self) -> str:
        return f"Result({_size(self)}, regret={self.summary().pair()})"

    def __reduce__(self) -> tuple[Any, ...]:
        # through the constructor, or a copy from another process could be written to
        return Result, (self.times, self.regret, self.pulls, self.engine, self.settings)

    def summary(self) -> Summary:
        """Give the mean regret at the horizon with its standard error and 95% interval."""
        mean, error, low, high = map(float, mean_interval(self.regret[:, -1]))
        return Summary(mean, error, low, high, runs=self.runs, horizon=self.horizon)

    def best_arm_share(self) -> float | None:
        """Give the share of pulls that went to a best arm, if the settings tell the true means."""
        bandit = self.settings.get("bandit")
        means = bandit.get("means") if isinstance(bandit, dict) else None
        if not isinstance(means, list) or len(means) != self.n_arms:
            return None
        if not all(type(mean) in (int, float) and math.isfinite(mean) for mean in means):
            return None
        best = np.array(means) == max(means)
        total = self.pulls.sum(dtype=np.int64)
        return float(self.pulls[:, :, best].sum(dtype=np.int64) / total) if total else None

    def to_xarray(self) -> xr.Dataset:
        """Label the arrays: a Dataset of regret (run, time) and pulls (run, agent, arm)."""
        from posse.lab import storage

        return storage.to_dataset(self)

    def to_dataframe(self) -> pd.DataFrame:
        """Make a long table, a row for each run and time, with columns run, time and regret."""
        import pandas as pd

        runs = np.repeat(np.arange(self.runs), len(self.times))
        times = np.tile(self.times, self.runs)
        return pd.DataFrame({"run": runs, "time": times, "regret": self.regret.ravel()})

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a netCDF file, which `posse.load` gives back exactly."""
        from posse.lab import storage

        storage.save(self, path)

    def plot(
        self,
        ax: Axes | None = None,
        label: str | None = None,
        *,
        log: bool | str = False,
        bands: str = "interval",
        **line_options: Any,
    ) -> Axes:
        """Draw the mean regret over time in a band, on new axes unless some are given.

        log:   False, "x", "y", or True for both axes
        bands: "interval" for the mean's 95% interval, "quantiles" for the middle 90% of the runs
        """
        from posse.lab import plots

        axes = plots.new_axes() if ax is None else ax
        plots.draw_result(axes, self, label, log=log, bands=bands, **line_options)
        return axes


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Mapping[str, Result]):
    """The results of several algorithms on one problem, by name and in the order given."""

    results: Mapping[str, Result]

    def __post_init__(self) -> None:
        results = dict(self.results)
        if not results:
            raise ValueError("a comparison must hold at least one result, got none")
        first_name, first = next(iter(results.items()))
        for name, result in results.items():
            if not isinstance(name, str) or not name.isprintable():
                raise ValueError(f"algorithm names must be printable text, got {name!r}")
            if not isinstance(result, Result):
                raise ValueError(f"{name!r} must be a Result, got {type(result).__name__}")
            shared = {
                "times": np.array_equal(result.times, first.times),
                "shape of pulls": result.pulls.shape == first.pulls.shape,
                "engine": result.engine == first.engine,
            }
            for what, same in shared.items():
                if not same:
                    raise ValueError(f"{first_name!r} and {name!r} must have the same {what}")
        object.__setattr__(self, "results", MappingProxyType(results))

    def __getitem__(self, name: str) -> Result:
        return self.results[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    @property
    def engine(self) -> str:
        """The engine that ran all of them."""
        return self._first().engine

    def __repr__(self) -> str:
        lines = [f"  {name}: {result.summary().pair()}" for name, result in self.items()]
        return "\n".join([f"Comparison({_size(self._first())}), regret:", *lines])

    def __reduce__(self) -> tuple[Any, ...]:
        return Comparison, (dict(self.results),)

    def table(self) -> pd.DataFrame:
        """Give each algorithm a row: regret at the horizon, standard_error, low and high.

        Where the settings tell the true means, best_arm_share is the share of pulls of a best arm.
        """
        import pandas as pd

        rows = []
        for result in self.values():
            mean, error, low, high = mean_interval(result.regret[:, -1])
            row = {"regret": mean, "standard_error": error, "low": low, "high": high}
            share = result.best_arm_share()
            rows.append(row if share is None else row | {"best_arm_share": share})
        return pd.DataFrame(rows, index=pd.Index(list(self), name="algorithm"), dtype=float)

    def to_xarray(self) -> xr.Dataset:
        """Stack the arrays: regret (algorithm, run, time), pulls (algorithm, run, agent, arm)."""
        from posse.lab import storage

        return storage.to_dataset(self)

    def to_dataframe(self) -> pd.DataFrame:
        """Make a long table with columns algorithm, run, time and regret."""
        import pandas as pd

        tables = [result.to_dataframe() for result in self.values()]
        for name, table in zip(self, tables, strict=True):
            table.insert(0, "algorithm", name)
        return pd.concat(tables, ignore_index=True)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a netCDF file, which `posse.load` gives back exactly."""
        from posse.lab import storage

        storage.save(self, path)

    def plot(
        self,
        ax: Axes | None = None,
        title: str | None = None,
        *,
        log: bool | str = False,
        bands: str = "interval",
    ) -> Axes:
        """Draw all mean regrets in their bands, each named at its end, on new axes or those given.

        log:   False, "x", "y", or True for both axes
        bands: "interval" for the mean's 95% interval, "quantiles" for the middle 90% of the runs
        """
        from posse.lab import plots

        axes = plots.new_axes() if ax is None else ax
        plots.draw_comparison(axes, self, title, log=log, bands=bands)
        return axes

    def _first(self) -> Result:
        return next(iter(self.results.values()))


def _read_only(name: str, values: ArrayLike, ndim: int, dtype: DTypeLike) -> NDArray[Any]:
    """Check the axes and the range of an array and make it read-only."""
    array = np.asarray(values)
    kinds, what = ("iuf", "numbers") if dtype is np.float64 else ("iu", "whole numbers")
    if array.ndim != ndim or array.size == 0 or array.dtype.kind not in kinds:
        raise ValueError(
            f"{name} must be a non-empty array of {what} with {ndim} axes, "
            f"got shape {array.shape} of {array.dtype}"
        )
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite, got nan or infinity")
    if array.dtype.kind != "f" and (array.min() < 0 or array.max() > LARGEST):
        raise ValueError(f"{name} must lie between 0 and {LARGEST}")
    if array.flags.writeable or array.dtype != dtype or not array.flags.c_contiguous:
        array = np.array(array, dtype=dtype, order="C")
        array.setflags(write=False)
    return array


def _plain(value: Any) -> Any:
    """Copy in JSON's own types, so that what is loaded equals what was saved."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    return value


def _rounded(value: float, error: float) -> str:
    """Write a number in as many decimals as give its error two digits."""
    if not error > 0:  # none or unknown
        return f"{value:.6g}"
    return f"{value:.{max(0, 1 - math.floor(math.log10(error)))}f}"


def _size(result: Result) -> str:
    return (
        f"engine={result.engine!r}, runs={result.runs}, agents={result.n_agents}, "
        f"arms={result.n_arms}, horizon={result.horizon}"
    )
