"""Comparison: the results of several algorithms on one problem, paired run by run."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from posse import notebook_tables
from posse.lab.results import Agents, Result, describe_size

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Mapping[str, Result]):
    """The results of several algorithms on one problem, by name, in the order given.

    All have the same recorded rounds, runs, agents, arms and kept arrays, so that they can be
    paired and stacked.
    """

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
            # Whatever shares these can be stacked in one array and paired run by run.
            shared = {
                "times": np.array_equal(result.times, first.times),
                "shape of pulls": result.pulls.shape == first.pulls.shape,
                "runs": result.run_numbers == first.run_numbers,
                "keep": list(result.kept) == list(first.kept),
                "measure (regret or reward)": result.measure == first.measure,
            }
            for aspect, same in shared.items():
                if not same:
                    raise ValueError(f"{first_name!r} and {name!r} must have the same {aspect}")
        object.__setattr__(self, "results", MappingProxyType(results))

    def __getitem__(self, name: str) -> Result:
        return self.results[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    @property
    def measure(self) -> str:
        """What the curves are: "regret", or "reward" where the true means are unknown."""
        return self._first_result().measure

    @property
    def engine(self) -> str:
        """The engine that ran all of them, or 'compiled and reference'."""
        return " and ".join(sorted({result.engine for result in self.values()}))

    @property
    def is_mixed(self) -> bool:
        """Whether engines differ: paired runs then share means and graphs, but not rewards."""
        return len({result.engine for result in self.values()}) > 1

    def __repr__(self) -> str:
        lines = []
        for name, result in self.items():
            where = f" ({result.engine})" if self.is_mixed else ""
            lines.append(f"  {name}: {result.summary().format_mean()}{where}")
        return "\n".join(
            [
                f"Comparison({describe_size(self._first_result(), self.engine)}), {self.measure}:",
                *lines,
            ]
        )

    def _repr_html_(self) -> str:

        return render_comparison(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return Comparison, (dict(self.results),)

    def of_agents(self, agents: Agents) -> Comparison:
        """Give the comparison of some agents, by numbers or by name; see `Result.of_agents`."""
        results = {name: result.of_agents(agents) for name, result in self.items()}
        same = all(results[name] is result for name, result in self.items())
        return self if same else Comparison(results)

    def table(self, *, agents: Agents = None) -> pd.DataFrame:
        """Give each algorithm a row: regret at the horizon, standard_error, low and high.

        agents: of some agents only, such as [0, 1, 2], "hubs" or "leaves"; None: of all

        Where the true means are unknown the first column is the reward, of which more is better.
        Where the settings have the true means, best_arm_share is the share of pulls of a best arm.
        Where engines differ there is a column engine: rows of one engine faced the same rewards,
        rows of two engines only the same means and graphs.
        """
        import pandas as pd

        from posse.lab.report import build_scoreboard

        rows = []
        for score in build_scoreboard(self.of_agents(agents)).rows:
            mean, error, low, high = score.regret
            row = {self.measure: mean, "standard_error": error, "low": low, "high": high}
            share = score.best_arm_share
            rows.append(row if share is None else row | {"best_arm_share": share})
        table = pd.DataFrame(rows, index=pd.Index(list(self), name="algorithm"), dtype=float)
        if self.is_mixed:
            table["engine"] = [result.engine for result in self.values()]
        return table

    def to_latex(
        self, *, caption: str | None = None, label: str | None = None, agents: Agents = None
    ) -> str:
        """Write a table of regrets with their standard errors for LaTeX (package booktabs).

        agents: of some agents only, such as [0, 1, 2], "hubs" or "leaves"; None: of all

        The best algorithm is bold, and so are those that paired t tests with Holm's correction do
        not tell from it. A caption or a label makes the table a float.
        """
        from posse.lab.latex import escape_latex, format_estimate, format_table
        from posse.lab.report import WORSE, score_comparison

        scores = score_comparison(self.of_agents(agents)).rows
        shares = any(score.best_arm_share is not None for score in scores)
        rows = []
        for score in scores:
            mean, error, low, high = score.regret
            told = score.difference is not None and score.difference.adjusted_p is None
            bold = score.verdict != WORSE and not told
            cells = [escape_latex(score.algorithm), format_estimate(mean, error, bold)]
            cells.append(f"$[{low:.4g}, {high:.4g}]$" if error > 0 else "--")
            if shares:
                share = score.best_arm_share
                cells.append("--" if share is None else rf"{100 * share:.1f}\%")
            rows.append(cells)
        headers = ["algorithm", "regret", r"95\% interval", *(["best arm"] if shares else [])]
        return format_table(headers, rows, names=1, caption=caption, label=label)

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
        """Write a netCDF file, which `posse.load` reads back exactly."""
        from posse.lab import storage

        storage.save(self, path)

    def plot(
        self,
        ax: Axes | None = None,
        title: str | None = None,
        *,
        log: bool | str = False,
        bands: str = "interval",
        agents: Agents = None,
    ) -> Axes:
        """Draw all mean regrets in their bands, each named at its end, on new axes or those given.

        log:    False, "x", "y", or True for both axes
        bands:  "interval" for the mean's 95% interval, "quantiles" for the middle 90% of the runs
        agents: of some agents only, such as [0, 1, 2], "hubs" or "leaves"; None: of all
        """
        from posse.lab import plots

        comparison = self.of_agents(agents)
        axes = plots.new_axes() if ax is None else ax
        plots.draw_comparison(axes, comparison, title, log=log, bands=bands)
        return axes

    def report(
        self, folder: str | os.PathLike[str], title: str | None = None, *, agents: Agents = None
    ) -> Path:
        """Write a page of curves, tables, paired differences, tails and settings: index.html.

        agents: of some agents only, such as [0, 1, 2], "hubs" or "leaves"; None: of all

        The folder `files` beside it has the results, the experiment, tables and figures. The page
        needs nothing but a browser. Its path is returned.
        """
        from posse.lab.report import write_report

        return write_report(self.of_agents(agents), Path(folder), title)

    def _first_result(self) -> Result:
        return next(iter(self.results.values()))


# Tables for notebooks: `_repr_html_`.

_HEADERS = ("standard error", "95% interval")


def render_result(result: Result) -> str:
    """Render the final regret of one algorithm as an HTML table."""
    return notebook_tables.render_table(
        _write_caption(result, result.engine),
        [result.measure, *_HEADERS],
        [_format_numbers(result)],
    )


def render_comparison(comparison: Comparison) -> str:
    """Render a row for every algorithm: its final regret, and its engine where they differ."""
    first = next(iter(comparison.values()))
    headers = ["algorithm", first.measure, *_HEADERS, *(["engine"] if comparison.is_mixed else [])]
    rows = [
        [name, *_format_numbers(result), *([result.engine] if comparison.is_mixed else [])]
        for name, result in comparison.items()
    ]
    return notebook_tables.render_table(_write_caption(first, comparison.engine), headers, rows)


def _format_numbers(result: Result) -> list[str]:
    """Format mean, standard error and interval, with as many digits as the error allows."""
    summary = result.summary()
    mean, *error = summary.format_mean().split(" ± ")
    # One run has a mean, but neither error nor interval.
    return [mean, error[0], summary.format_interval()] if error else [mean, "", ""]


def _write_caption(result: Result, engine: str) -> str:
    measure = result.measure.capitalize()
    return (
        f"{measure} per agent at round {result.horizon:,}: {result.runs:,} runs, "
        f"{result.n_agents:,} agents, {result.n_arms:,} arms, engine {engine}"
    )
