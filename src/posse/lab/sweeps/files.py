"""Sweep files: an experiment in TOML with a table [sweep] of keys and their values.

[sweep]
network.agents = [10, 30]
"algorithms.*.policy" = ["thompson-sampling", "bayes-ucb"]

[[sweep.paired]]                 # lists of equal length, taken in step
name = "size"                    # optional, as labels = ["small", "large"] is
network.graph = ["cycle", "star"]
horizon = [1000, 500]
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from posse import validation
from posse.lab.atomic_files import atomic_write
from posse.lab.experiments import Experiment, build_from_file, experiment_to_toml
from posse.lab.sweeps.grid import SweepGrid, axis
from posse.serialization import toml
from posse.serialization.decode import from_data

PAIRED = "paired"


def read_sweep(path: str | os.PathLike[str]) -> tuple[Experiment, dict[Any, Any]]:
    """Read the experiment and the grid of a TOML file with a table [sweep], as `sweep` takes them.

    Keys of the table may be written "network.agents" or network.agents.
    """
    return build_from_file(path, sweep_from_toml)


def sweep_from_toml(text: str) -> tuple[Experiment, dict[Any, Any]]:
    """Build the experiment and the grid that TOML text describes."""
    data = toml.parse_toml(text)
    if "sweep" not in data:
        raise ValueError(
            "there is no table [sweep], such as [sweep] with the line network.agents = [10, 30]"
        )
    grid = _parse_grid(data.pop("sweep"))
    SweepGrid.from_mapping(grid)
    return from_data(Experiment, data), grid


def sweep_to_toml(experiment: Experiment, grid: Mapping[Any, Any] | SweepGrid) -> str:
    """Write a sweep as TOML text; `sweep_from_toml` reads an equal one from it."""
    sweep_grid = grid if isinstance(grid, SweepGrid) else SweepGrid.from_mapping(grid)
    data = sweep_grid.to_data()
    pairs = data.pop(PAIRED, [])
    for table in [data, *pairs]:
        for key, values in table.items():
            if key != "name" and any(value is None for value in values):
                raise ValueError(
                    f"grid: {key} has the value None, which TOML cannot represent: write the "
                    "default itself, or leave it out"
                )
    # Tables of paired lists come last: TOML would read later keys as theirs.
    sections = [toml.format_section(("sweep",), data)]
    sections += [toml.format_section(("sweep", PAIRED), table, in_array=True) for table in pairs]
    return "\n\n".join([experiment_to_toml(experiment).rstrip(), *sections]) + "\n"


def write_sweep(
    experiment: Experiment, grid: Mapping[Any, Any] | SweepGrid, path: str | os.PathLike[str]
) -> None:
    """Write a sweep to a TOML file, atomically."""
    text = sweep_to_toml(experiment, grid)
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _parse_grid(table: Any) -> dict[Any, Any]:
    """Parse a table [sweep]."""
    if not isinstance(table, Mapping):
        raise ValueError(f"sweep must be a table, got {validation.format_value(table)}")
    paired = table.get(PAIRED, [])
    if not isinstance(paired, list) or not all(
        isinstance(pair_table, Mapping) for pair_table in paired
    ):
        raise ValueError(f"sweep.{PAIRED} must be tables, each under [[sweep.{PAIRED}]]")
    grid: dict[Any, Any] = _collect_columns({k: v for k, v in table.items() if k != PAIRED})
    for pair_table in paired:
        columns = _collect_columns(
            {key: value for key, value in pair_table.items() if key not in ("name", "labels")}
        )
        if "name" in pair_table:
            grid |= axis(pair_table["name"], columns, labels=pair_table.get("labels"))
            continue
        lengths = {len(values) for values in columns.values()}
        if len(lengths) != 1:
            lengths_text = ", ".join(f"{key} has {len(values)}" for key, values in columns.items())
            raise ValueError(
                f"sweep.{PAIRED}: lists must be of one length: {lengths_text or 'none is there'}"
            )
        grid[tuple(columns)] = list(zip(*columns.values(), strict=True))
    return grid


def _collect_columns(table: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Collect the lists of a table by dotted key; a key written in two ways is refused."""
    columns: dict[str, list[Any]] = {}
    for key, values in _find_lists(table):
        if key in columns:
            raise ValueError(f"sweep: {key} is there twice")
        columns[key] = values
    return columns


def _find_lists(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, list[Any]]]:
    """Find the lists in a table and its nested tables, by dotted key."""
    for name, value in table.items():
        # A quoted key such as "network.agents" is a dotted key already.
        whole = not prefix and ("." in name)
        part = name if whole or re.fullmatch(r"[^.\"']+", name) else f'"{name}"'
        key = f"{prefix}.{part}" if prefix else part
        if isinstance(value, Mapping):
            yield from _find_lists(value, key)
        elif isinstance(value, list):
            yield key, value
        else:
            raise ValueError(
                f"sweep: {key} must be a list of values, got {validation.format_value(value)}"
            )
