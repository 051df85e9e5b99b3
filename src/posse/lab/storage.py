"""Results in files: netCDF, which any scientific tool reads, and back without losing a bit.

The classic format knows neither groups, None nor 64-bit integers. So the settings are one JSON
attribute, counts are 32-bit, and a Comparison is an `algorithm` dimension.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from posse.lab.files import atomic_write
from posse.lab.results import Comparison, Result
from posse.lab.settings import has_unnamed

if TYPE_CHECKING:
    import xarray as xr

FORMAT = 1
RESULT = "posse-result"
COMPARISON = "posse-comparison"
ATTRIBUTES = ("kind", "format", "engine", "settings", "checksum")

# SciPy writes the size of an array as a signed 32-bit number, rounded up to a multiple of 4
LARGEST_ARRAY = 2**31 - 4


def to_dataset(value: Result | Comparison) -> xr.Dataset:
    """Label the arrays of a result or a comparison, with the settings as a JSON attribute."""
    import xarray as xr

    if isinstance(value, Comparison):
        results = list(value.values())
        first, kind, outer = results[0], COMPARISON, {"algorithm": list(value)}
        regret = np.stack([result.regret for result in results])
        pulls = np.stack([result.pulls for result in results])
    else:
        first, kind, outer = value, RESULT, {}
        regret, pulls = value.regret, value.pulls
    return xr.Dataset(
        data_vars={
            "regret": ([*outer, "run", "time"], regret),
            "pulls": ([*outer, "run", "agent", "arm"], pulls),
        },
        coords={
            **outer,
            "run": np.arange(first.runs),
            "time": first.times,
            "agent": np.arange(first.n_agents),
            "arm": np.arange(first.n_arms),
        },
        attrs={
            "kind": kind,
            "format": FORMAT,
            "engine": first.engine,
            "settings": json.dumps(_settings(value), default=repr),
        },
    )


def save(value: Result | Comparison, path: str | os.PathLike[str]) -> None:
    """Write a netCDF file, which has its name only once it is complete."""
    if has_unnamed(_settings(value)):
        raise ValueError(
            "this result cannot be saved: it used a lambda or a local function, which no file can "
            "name; define it in a module"
        )
    settings = json.dumps(_settings(value), default=_refuse)
    dataset = to_dataset(value)
    for name in ("regret", "pulls"):
        size = dataset[name].nbytes
        if size > LARGEST_ARRAY:
            raise ValueError(
                f"{name} takes {size / 1e9:.1f} GB and a netCDF file holds 2 GB of it: "
                "record fewer rounds or save fewer runs at a time"
            )
    dataset.attrs["settings"] = settings
    dataset.attrs["checksum"] = _checksum(
        dataset.attrs, dataset["time"].values, dataset["regret"].values, dataset["pulls"].values
    )
    with atomic_write(path) as temporary:
        dataset.to_netcdf(temporary, engine="scipy")


def load(path: str | os.PathLike[str]) -> Result | Comparison:
    """Read what `save` wrote; anything else, and anything damaged, is refused."""
    attributes, variables = _parse(path)
    kind, version = attributes["kind"], attributes["format"]
    if kind not in (RESULT, COMPARISON):
        raise ValueError(f"{path} is a netCDF file but holds no result of Posse")
    if isinstance(version, int) and version > FORMAT:
        raise ValueError(
            f"{path} was written by a newer Posse (format {version}, known up to {FORMAT})"
        )
    try:
        times = variables["time"].astype(np.int64)
        regret = variables["regret"].astype(np.float64)
        pulls = variables["pulls"].astype(np.int32)
        whole = attributes["checksum"] == _checksum(attributes, times, regret, pulls)
    except Exception:  # a part is missing or of another type
        whole = False
    if not whole:
        raise ValueError(f"{path} is damaged: its content does not match its checksum")
    for array in (times, regret, pulls):
        array.setflags(write=False)  # so that a Result need not copy it

    engine, settings = attributes["engine"], json.loads(attributes["settings"])
    if kind == RESULT:
        return Result(times, regret, pulls, engine, settings)
    each = zip(settings, regret, pulls, settings.values(), strict=True)
    return Comparison({name: Result(times, r, p, engine, own) for name, r, p, own in each})


def _settings(value: Result | Comparison) -> dict[str, Any]:
    """Find the settings of a result, or those of each algorithm by name."""
    if isinstance(value, Result):
        return value.settings
    return {name: result.settings for name, result in value.items()}


def _refuse(value: Any) -> Any:
    """Say what JSON cannot hold."""
    raise ValueError(
        f"settings must be plain values to be saved (functions named 'module:function'), "
        f"got {value!r}"
    )


def _checksum(attributes: Mapping[str, Any], *arrays: NDArray[Any]) -> str:
    """Hash all that is read back (SHA-256), alike on every machine."""
    digest = hashlib.sha256()
    head = [attributes[name] for name in ("kind", "engine", "settings")]
    shapes = [array.shape for array in arrays]
    digest.update(json.dumps([*head, attributes["format"], shapes]).encode())
    for array in arrays:
        digest.update(np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).data)
    return digest.hexdigest()


def _parse(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Read our attributes and all variables of a netCDF file."""
    from scipy.io import netcdf_file

    try:
        content = Path(path).read_bytes()
    except FileNotFoundError:
        raise ValueError(f"there is no file {path}") from None
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from error
    try:
        # From memory: SciPy would otherwise map the file, and warn about arrays still in use.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with netcdf_file(io.BytesIO(content), mmap=False) as file:
                found = {name: getattr(file, name, None) for name in ATTRIBUTES}
                variables = {name: item.data for name, item in file.variables.items()}
        return {name: _attribute(value) for name, value in found.items()}, variables
    except Exception as error:  # a damaged header can make SciPy raise nearly anything
        raise ValueError(f"{path} is not a netCDF file (classic format), or is damaged") from error


def _attribute(value: Any) -> str | int | None:
    """Take text and whole numbers, which are all that we write."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return int(value) if isinstance(value, np.integer) else None
