"""Sweeps in files: an experiment and a table [sweep] of the values that some of its keys take.

[sweep]
network.agents = [10, 30]
"algorithms.*.policy" = ["thompson-sampling", "bayes-ucb"]

[[sweep.paired]]                 # these two in step
network.graph = ["cycle", "star"]
horizon = [1000, 500]
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posse import validation
from posse.lab.atomic_files import atomic_write
from posse.lab.experiments import Experiment, experiment_to_toml, read_file
from posse.lab.sweeps import sweep as tables
from posse.lab.sweeps.grid import Grid
from posse.serialization import toml
from posse.serialization.decode import from_data

if TYPE_CHECKING:
    from posse.lab.sweeps.sweep import Sweep

PAIRED = "paired"


def read_sweep(path: str | os.PathLike[str]) -> tuple[Experiment, dict[Any, Any]]:
    """Read the experiment and the grid of a TOML file with a table [sweep], as `sweep` takes them.

    Keys of the table may be written "network.agents" or network.agents.
    """
    return read_file(path, sweep_from_toml)


def sweep_from_toml(text: str) -> tuple[Experiment, dict[Any, Any]]:
    """The experiment and the grid that TOML text describes."""
    data = toml.parse_toml(text)
    if "sweep" not in data:
        raise ValueError(
            "there is no table [sweep], such as [sweep] with the line network.agents = [10, 30]"
        )
    grid = _grid(data.pop("sweep"))
    Grid.checked(grid)
    return from_data(Experiment, data), grid


def sweep_to_toml(experiment: Experiment, grid: Mapping[Any, Any] | Grid) -> str:
    """Describe a sweep in TOML, from which `sweep_from_toml` makes an equal one."""
    made = grid if isinstance(grid, Grid) else Grid.checked(grid)
    data = made.to_data()
    pairs = data.pop(PAIRED, [])
    for table in [data, *pairs]:
        for key, values in table.items():
            if any(value is None for value in values):
                raise ValueError(
                    f"grid: {key} has the value None, which TOML has no word for: write the "
                    "default itself, or leave it out"
                )
    sections = [toml.format_section(("sweep",), data)]
    sections += [toml.format_section(("sweep", PAIRED), table, in_array=True) for table in pairs]
    return "\n\n".join([experiment_to_toml(experiment).rstrip(), *sections]) + "\n"


def write_sweep(
    experiment: Experiment, grid: Mapping[Any, Any] | Grid, path: str | os.PathLike[str]
) -> None:
    """Write a TOML file, wholly or not at all."""
    text = sweep_to_toml(experiment, grid)
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def save(sweep: Sweep, folder: Path) -> list[Path]:
    """Write what others read: the table as text, the arrays as netCDF, and the sweep itself."""
    folder.mkdir(parents=True, exist_ok=True)
    table, arrays, itself = (folder / name for name in ("table.csv", "sweep.nc", "sweep.toml"))
    with atomic_write(table) as temporary:
        sweep.table().to_csv(temporary, index=False)
    with atomic_write(arrays) as temporary:
        tables.for_netcdf(sweep.to_xarray()).to_netcdf(temporary, engine="scipy")
    written = [table, arrays]
    with contextlib.suppress(ValueError):  # such as None, which TOML cannot hold
        write_sweep(sweep.experiment, sweep.grid, itself)
        written.append(itself)
    return written


def _grid(table: Any) -> dict[Any, Any]:
    """The grid of a table [sweep]."""
    if not isinstance(table, Mapping):
        raise ValueError(f"sweep must be a table, got {validation.format_value(table)}")
    paired = table.get(PAIRED, [])
    if not isinstance(paired, list) or not all(isinstance(each, Mapping) for each in paired):
        raise ValueError(f"sweep.{PAIRED} must be tables, each under [[sweep.{PAIRED}]]")
    grid: dict[Any, Any] = _columns({k: v for k, v in table.items() if k != PAIRED})
    for each in paired:
        columns = _columns(each)
        lengths = {len(values) for values in columns.values()}
        if len(lengths) != 1:
            told = ", ".join(f"{key} has {len(values)}" for key, values in columns.items())
            raise ValueError(
                f"sweep.{PAIRED}: lists must be of one length: {told or 'none is there'}"
            )
        grid[tuple(columns)] = list(zip(*columns.values(), strict=True))
    return grid


def _columns(table: Mapping[str, Any]) -> dict[str, list[Any]]:
    """The lists of a table by dotted key; one written in two ways would be lost."""
    columns: dict[str, list[Any]] = {}
    for key, values in _lists(table):
        if key in columns:
            raise ValueError(f"sweep: {key} is there twice")
        columns[key] = values
    return columns


def _lists(table: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, list[Any]]]:
    """The lists in a table and in tables in it, by dotted key."""
    for name, value in table.items():
        # a key that is written in quotes is dotted already
        whole = not before and ("." in name)
        part = name if whole or re.fullmatch(r"[^.\"']+", name) else f'"{name}"'
        key = f"{before}.{part}" if before else part
        if isinstance(value, Mapping):
            yield from _lists(value, key)
        elif isinstance(value, list):
            yield key, value
        else:
            raise ValueError(
                f"sweep: {key} must be a list of values, got {validation.format_value(value)}"
            )
