"""Result: the regret and pulls of every run of one algorithm, with settings for a rerun."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from posse import notebook_tables, validation
from posse.lab import run_ranges as ranges
from posse.lab.simulation import RECORDED, draw_arm_orders, infer_dims
from posse.lab.statistics import mean_interval
from posse.networks import Network

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Summary:
    """The mean regret per agent at the horizon, its standard error and its 95% interval.

    measure: "regret", or "reward" where the true means are unknown
    """

    mean: float
    standard_error: float
    low: float
    high: float
    runs: int
    horizon: int
    measure: str = "regret"

    def __str__(self) -> str:
        where = f"{self.measure} per agent at round {self.horizon}: {self.format_mean()}"
        if self.runs == 1:
            return f"{where} (1 run, no interval)"
        return f"{where} (95% interval {self.format_interval()}, {self.runs} runs)"

    def _repr_html_(self) -> str:
        values = {name: getattr(self, name) for name in ("mean", "standard_error", "low", "high")}
        caption = f"{self.measure} per agent at round {self.horizon}, {self.runs} runs"
        return notebook_tables.render_fields(caption, values)

    def format_interval(self) -> str:
        """Format the 95% interval, with as many digits as the error allows."""
        low, high = (_round_to_error(end, self.standard_error) for end in (self.low, self.high))
        return f"{low} to {high}"

    def format_mean(self) -> str:
        """Format the mean ± the standard error, with as many digits as the error allows."""
        mean = _round_to_error(self.mean, self.standard_error)
        if self.runs == 1:
            return mean
        return f"{mean} ± {_round_to_error(self.standard_error, self.standard_error)}"


def _round_to_error(value: float, error: float) -> str:
    """Format a number with so many decimals that its error has two digits."""
    if not error > 0:  # zero, or nan of a single run
        return f"{value:.6g}"
    return f"{value:.{max(0, 1 - math.floor(math.log10(error)))}f}"


# The result file stores counts in 32 bits.
LARGEST = np.iinfo(np.int32).max


def validate_array(
    name: str, values: ArrayLike, ndim: int, dtype: DTypeLike, finite: bool = True
) -> NDArray[Any]:
    """Validate the axes and the range of an array; copy it unless it is read-only already."""
    array = np.asarray(values)
    kinds, kind_name = ("iuf", "numbers") if dtype is np.float64 else ("iu", "whole numbers")
    if array.ndim != ndim or array.size == 0 or array.dtype.kind not in kinds:
        raise ValueError(
            f"{name} must be a non-empty array of {kind_name} with {ndim} axes, "
            f"got shape {array.shape} of {array.dtype}"
        )
    if finite and array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite, got nan or infinity")
    if array.dtype.kind != "f" and (array.min() < 0 or array.max() > LARGEST):
        raise ValueError(f"{name} must lie between 0 and {LARGEST}")
    if array.flags.writeable or array.dtype != dtype or not array.flags.c_contiguous:
        array = np.array(array, dtype=dtype, order="C")
        array.setflags(write=False)
    return array


def validate_kept(
    kept: Mapping[str, ArrayLike], sizes: Mapping[str, int], settings: Mapping[str, Any]
) -> dict[str, NDArray[Any]]:
    """Validate the axes of kept arrays against RECORDED, and return them in its order.

    sizes: of the axes that regret and pulls determine; the others may have any size
    """
    for name in kept:
        validation.validate_choice("kept", name, RECORDED)
    checked = {}
    for name in [name for name in RECORDED if name in kept]:
        dims = infer_dims(name, np.ndim(kept[name]), settings)
        array = validate_array(f"kept {name}", kept[name], len(dims), np.float64, finite=False)
        expected = tuple(sizes.get(dim, size) for dim, size in zip(dims, array.shape, strict=True))
        if array.shape != expected:
            raise ValueError(
                f"kept {name} must have shape ({', '.join(dims)}) = {expected}, got {array.shape}"
            )
        checked[name] = array
    return checked


def to_json_types(value: Any) -> Any:
    """Copy settings in JSON's types, so that loaded settings equal the saved ones."""
    if isinstance(value, Mapping):
        return {str(key): to_json_types(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json_types(item) for item in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    return value


# Some agents, by numbers or by a name of AGENT_GROUPS; None: all.
Agents = Sequence[int] | NDArray[np.integer] | str | None
AGENT_GROUPS = ("all", "hubs", "leaves")


def select_agents(agents: Agents, n_agents: int, settings: Mapping[str, Any]) -> list[int] | None:
    """Return the numbers of some agents in ascending order; None if these are all agents.

    settings: those of a result, whose network says which agents are hubs or leaves
    """
    if agents is None:
        return None
    if isinstance(agents, str):
        if validation.validate_choice("agents", agents, AGENT_GROUPS) == "all":
            return None
        return _find_group(agents, settings)
    values = np.asarray(agents)
    if values.dtype.kind not in "iu" or values.ndim != 1:
        raise ValueError(
            'agents must be numbers such as [0, 1, 2], "hubs" or "leaves", '
            f"got {validation.format_value(agents)}"
        )
    numbers = np.unique(values).tolist()
    if not numbers or len(numbers) < values.size or numbers[0] < 0 or numbers[-1] >= n_agents:
        raise ValueError(
            f"agents must be different numbers from 0 to {n_agents - 1}, "
            f"got {validation.format_value(agents)}"
        )
    return None if len(numbers) == n_agents else numbers


def _find_group(group: str, settings: Mapping[str, Any]) -> list[int]:
    """Find the hubs or the leaves of the network that a result was played on."""
    if "agents" in settings or not isinstance(settings.get("network"), Mapping):
        raise ValueError(f"agents: who are {group} is unknown here: give the numbers of agents")
    network = Network.from_data(settings["network"])
    if network.is_recipe:
        raise ValueError(
            f"agents: {group} differ from run to run on {network}: give the numbers of agents"
        )
    degrees = network.degrees
    members = np.flatnonzero(degrees == (degrees.max() if group == "hubs" else 1))
    if not len(members):
        raise ValueError(f"agents: {network} has no leaves: every agent has several neighbours")
    if len(members) == network.n_agents:
        raise ValueError(f"agents: {network} has no {group}: all agents have equal degrees")
    return [int(agent) for agent in members]


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """The regret and the pulls of one algorithm, run by run.

    times:    (len,) the rounds recorded, from 1 on, the last being the horizon
    curves:   (runs, len) cumulative pseudo-regret up to each time, averaged over agents, which is
              `regret`; the cumulative reward, `reward`, of an environment without true means
    pulls:    (runs, agents, arms) how often each agent played each arm
    engine:   "compiled" or "reference"
    settings: all that a rerun needs, in plain JSON values
    kept:     further arrays, by the names of `posse.simulate(..., keep=...)`; and plays

    Arms are in the order of the bandit's means. The arrays are read-only: writeable ones are
    copied.
    """

    times: NDArray[np.int64]
    curves: NDArray[np.float64]
    pulls: NDArray[np.int32]
    engine: str
    settings: dict[str, Any]
    kept: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        times = validate_array("times", self.times, 1, np.int64)
        curves = validate_array(self.measure, self.curves, 2, np.float64)
        pulls = validate_array("pulls", self.pulls, 3, np.int32)
        if times[0] < 1 or np.any(times[1:] <= times[:-1]):
            raise ValueError("times must be rounds from 1 on, each later than the one before")
        if curves.shape != (len(pulls), len(times)):
            raise ValueError(
                f"{self.measure} must have shape (runs, len(times)) = {(len(pulls), len(times))}, "
                f"got {curves.shape}"
            )
        if not isinstance(self.engine, str) or not self.engine.isprintable() or not self.engine:
            raise ValueError(f"engine must be a name, got {self.engine!r}")
        if not isinstance(self.settings, Mapping):
            raise ValueError(f"settings must be a dict, got {self.settings!r}")
        fields: dict[str, Any] = {"times": times, "curves": curves, "pulls": pulls}
        fields |= {"settings": to_json_types(self.settings)}
        # The dataclass is frozen, and its fields are normalised here, once.
        for name, value in fields.items():
            object.__setattr__(self, name, value)
        sizes = dict(zip(("run", "agent", "arm", "time"), (*pulls.shape, len(times)), strict=True))
        kept = validate_kept(self.kept, sizes, self.settings)
        object.__setattr__(self, "kept", MappingProxyType(kept))

    @property
    def measure(self) -> str:
        """What the curves are: "regret", or "reward" where the true means are unknown."""
        bandit = self.settings.get("bandit") if isinstance(self.settings, Mapping) else None
        unknown = isinstance(bandit, Mapping) and "draw" in bandit and "means" not in bandit
        return "reward" if unknown else "regret"

    @property
    def regret(self) -> NDArray[np.float64]:
        """The cumulative pseudo-regret, averaged over agents: (runs, len(times))."""
        if self.measure != "regret":
            raise AttributeError(
                "regret is unknown, because the environment has no means: see reward"
            )
        return self.curves

    @property
    def reward(self) -> NDArray[np.float64]:
        """The cumulative reward, averaged over agents, where means are unknown: like `regret`."""
        if self.measure != "reward":
            raise AttributeError("reward was not recorded, because the means are known: see regret")
        return self.curves

    @property
    def agent_regret(self) -> NDArray[np.float64]:
        """The cumulative pseudo-regret of each agent, (runs, agents, len(times))."""
        return self._get_kept("agents")

    @property
    def means(self) -> NDArray[np.float64]:
        """The true means of the arms in each run, (runs, arms), or (runs, agents, arms).

        Where they drift, those of each recorded round: (runs, len(times), arms), or with agents
        (runs, len(times), agents, arms).
        """
        return self._get_kept("means")

    @property
    def numbers_sent(self) -> NDArray[np.float64]:
        """The numbers that an agent has sent up to each time, on average: (runs, len(times))."""
        return self._get_kept("messages")

    @property
    def beliefs(self) -> NDArray[np.float64]:
        """Every agent's belief at each time: (runs, len(times), coordinates, agents, arms).

        Coordinates are those of the algorithm's reward model.
        """
        return self._get_kept("beliefs")

    @property
    def signs(self) -> NDArray[np.float64]:
        """The sketch of every belief at each time: (runs, len(times), 1 + 16, agents, arms).

        First the sum of the weights of all pulls in the belief, then sums of weight times random
        sign. `posse.calibrate` estimates the effective sample size of a belief from them.
        """
        return self._get_kept("signs")

    @property
    def plays(self) -> NDArray[np.float64]:
        """How often the average agent has played up to each time: (runs, len(times)).

        Equal to the times unless `posse.simulate(..., activity=...)` lets agents sleep.
        """
        if "plays" not in self.kept and "activity" not in self.settings:
            return np.broadcast_to(self.times.astype(np.float64), self.regret.shape)
        return self._get_kept("plays")

    @property
    def arm_order(self) -> NDArray[np.intp]:
        """The arm here that was arm 0, 1, ... to the algorithm, in each run: (runs, arms).

        Arms are played in a random order in every run, so that no position is favoured. It serves
        to debug a user-defined algorithm, which sees arms in that order.
        """
        if "seed" not in self.settings:
            raise ValueError("the order of arms is unknown: the settings have no seed")
        # The arms of data sets and of user-defined environments are played in their own order.
        if not {"dataset", "draw"}.isdisjoint(self.settings.get("bandit", ())):
            return np.tile(np.arange(self.n_arms), (self.runs, 1))
        return draw_arm_orders(self.settings["seed"], self.run_numbers, self.n_arms)

    def _get_kept(self, name: str) -> NDArray[Any]:
        if name not in self.kept:
            # an AttributeError, so that hasattr returns False
            raise AttributeError(
                f'{RECORDED[name].attribute} was not kept: simulate(..., keep=("{name}",))'
            )
        return self.kept[name]

    @property
    def run_numbers(self) -> range:
        """The numbers of these runs: from 0 on, unless the settings have a range."""
        return ranges.decode_runs(self.settings.get("runs"), self.runs)

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
        size = describe_size(self, self.engine)
        return f"Result({size}, {self.measure}={self.summary().format_mean()})"

    def _repr_html_(self) -> str:
        from posse.lab import comparisons as html

        return html.render_result(self)

    def __reduce__(self) -> tuple[Any, ...]:
        # Through the constructor, which makes the arrays of the copy read-only again.
        arrays = (self.times, self.curves, self.pulls)
        return Result, (*arrays, self.engine, self.settings, dict(self.kept))

    def of_agents(self, agents: Agents) -> Result:
        """Give the result of some agents: their regret on average, their pulls, beliefs and means.

        agents: their numbers; "hubs" for those with the most neighbours; "leaves" for those with
        one neighbour; None or "all" for all, which is this result itself

        It needs the regret of each agent: `simulate(..., keep=("agents",))`. `numbers_sent` and
        `plays` stay those of the average agent of the whole network.
        """
        numbers = select_agents(agents, self.n_agents, self.settings)
        if numbers is None:
            return self
        if "agents" not in self.kept:
            raise ValueError(
                "agents: the regret of each agent was not kept: "
                'simulate(..., keep=("agents",)) keeps it'
            )
        kept = {}
        for name, array in self.kept.items():
            dims = infer_dims(name, array.ndim, self.settings)
            kept[name] = array.take(numbers, dims.index("agent")) if "agent" in dims else array
        return Result(
            self.times,
            kept["agents"].mean(axis=1),
            self.pulls[:, numbers],
            self.engine,
            self.settings | {"agents": numbers},
            kept,
        )

    def summary(self, *, agents: Agents = None) -> Summary:
        """Give the mean regret at the horizon with its standard error and 95% interval.

        agents: of some agents only, see `of_agents`
        """
        curves = self.of_agents(agents).curves
        mean, error, low, high = map(float, mean_interval(curves[:, -1]))
        size = (self.runs, self.horizon)
        return Summary(mean, error, low, high, *size, measure=self.measure)

    def table(self, *, agents: Agents = None) -> pd.DataFrame:
        """Give the row of `Comparison.table` for this result alone.

        agents: of some agents only, see `of_agents`
        """
        from posse.lab.comparisons import Comparison

        name = self.settings.get("algorithm", {}).get("name", "algorithm")
        return Comparison({name: self}).table(agents=agents)

    def best_arm_share(self) -> float | None:
        """Give the share of pulls of a best arm, where the settings have the true means."""
        if (means := self.fixed_means()) is None:
            return None
        best = means == means.max()
        total = self.pulls.sum(dtype=np.int64)
        return float(self.pulls[:, :, best].sum(dtype=np.int64) / total) if total else None

    def fixed_means(self) -> NDArray[np.float64] | None:
        """Give the true means (arms,) in the settings, if all agents and rounds have the same."""
        bandit = self.settings.get("bandit")
        if not isinstance(bandit, dict) or "drift" in bandit or "site_sd" in bandit:
            return None  # the best arm differs by round or agent
        means = bandit.get("means")
        if not isinstance(means, list) or len(means) != self.n_arms:
            return None
        if not all(type(mean) in (int, float) and math.isfinite(mean) for mean in means):
            return None
        return np.array(means, dtype=np.float64)

    def to_xarray(self) -> xr.Dataset:
        """Label the arrays: a Dataset of regret (run, time) and pulls (run, agent, arm)."""
        from posse.lab import storage

        return storage.to_dataset(self)

    def to_dataframe(self) -> pd.DataFrame:
        """Make a long table with columns run, time and regret (or reward), a row for each time."""
        import pandas as pd

        runs = np.repeat(np.array(self.run_numbers), len(self.times))
        times = np.tile(self.times, self.runs)
        return pd.DataFrame({"run": runs, "time": times, self.measure: self.curves.ravel()})

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a netCDF file, which `posse.load` reads back exactly."""
        from posse.lab import storage

        storage.save(self, path)

    def plot(
        self,
        ax: Axes | None = None,
        label: str | None = None,
        *,
        log: bool | str = False,
        bands: str = "interval",
        agents: Agents = None,
        **line_options: Any,
    ) -> Axes:
        """Draw the mean regret over time in a band, on new axes unless some are given.

        log:    False, "x", "y", or True for both axes
        bands:  "interval" for the mean's 95% interval, "quantiles" for the middle 90% of the runs
        agents: of some agents only, see `of_agents`
        """
        from posse.lab import plots

        result = self.of_agents(agents)
        axes = plots.new_axes() if ax is None else ax
        plots.draw_result(axes, result, label, log=log, bands=bands, **line_options)
        return axes

    def report(
        self, folder: str | os.PathLike[str], title: str | None = None, *, agents: Agents = None
    ) -> Path:
        """Write a page of curve, tails and settings, as `Comparison.report`; return its path.

        agents: of some agents only, see `of_agents`
        """
        from posse.lab.report import write_report

        return write_report(self.of_agents(agents), Path(folder), title)


def describe_size(result: Result, engine: str) -> str:
    """Describe engine, runs, agents, arms and horizon, for a repr."""
    numbers = result.run_numbers
    runs = result.runs if numbers.start == 0 else numbers
    return (
        f"engine={engine!r}, runs={runs}, agents={result.n_agents}, "
        f"arms={result.n_arms}, horizon={result.horizon}"
    )
