"""Result files: netCDF, which any scientific tool reads, and which loads without losing a bit.

The classic format has no groups, no None and no 64-bit integers. So the settings are one JSON
attribute, counts are 32-bit, and a Comparison is an `algorithm` dimension, with its engines in a
JSON attribute as well. Kept arrays of different shapes are padded with nan; the attribute `shapes`
has the shape of every algorithm's array.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from posse.lab.atomic_files import atomic_write, delay_interrupt
from posse.lab.comparisons import Comparison
from posse.lab.results import Result
from posse.lab.simulation import RECORDED, infer_dims

if TYPE_CHECKING:
    import xarray as xr

FORMAT = 1  # of a file; any other is refused
RESULT = "posse-result"
COMPARISON = "posse-comparison"
ATTRIBUTES = ("kind", "format", "engine", "settings", "shapes", "checksum")

# SciPy writes the size of an array as a signed 32-bit number, rounded up to a multiple of 4
LARGEST_ARRAY = 2**31 - 4


def to_dataset(value: Result | Comparison) -> xr.Dataset:
    """Label the arrays of a result or a comparison, with the settings as a JSON attribute."""
    import xarray as xr

    results = list(value.values()) if isinstance(value, Comparison) else [value]
    outer = {"algorithm": list(value)} if isinstance(value, Comparison) else {}
    first = results[0]
    arrays: dict[str, tuple[tuple[str, ...], list[NDArray[Any]]]] = {
        first.measure: (("run", "time"), [result.curves for result in results]),
        "pulls": (("run", "agent", "arm"), [result.pulls for result in results]),
    }
    for name in first.kept:
        dims = infer_dims(name, first.kept[name].ndim, first.settings)
        arrays[RECORDED[name].attribute] = dims, [result.kept[name] for result in results]
    shapes = {name: [result.kept[name].shape for result in results] for name in first.kept}
    return xr.Dataset(
        data_vars={
            name: ([*outer, *dims], _stack_padded(values) if outer else values[0])
            for name, (dims, values) in arrays.items()
        },
        coords={
            **outer,
            "run": np.array(first.run_numbers),
            "time": first.times,
            "agent": np.arange(first.n_agents),
            "arm": np.arange(first.n_arms),
        },
        attrs={
            "kind": COMPARISON if outer else RESULT,
            "format": FORMAT,
            "engine": _encode_engine(value),
            "settings": json.dumps(_collect_settings(value), default=repr),
            "shapes": json.dumps(shapes),
        },
    )


def _stack_padded(arrays: list[NDArray[Any]]) -> NDArray[Any]:
    """Stack arrays, the smaller ones padded with nan."""
    largest = tuple(np.max([array.shape for array in arrays], axis=0))
    if all(array.shape == largest for array in arrays):
        return np.stack(arrays)
    stacked = np.full((len(arrays), *largest), np.nan)
    for place, array in zip(stacked, arrays, strict=True):
        place[tuple(map(slice, array.shape))] = array
    return stacked


def save(value: Result | Comparison, path: str | os.PathLike[str]) -> None:
    """Write a netCDF file, atomically."""
    if Path(path).suffix not in (".nc", ""):
        raise ValueError(
            f"{path} must end in .nc: results are saved as netCDF; to_dataframe().to_csv(...) "
            "writes curves as text"
        )
    # Settings that JSON cannot represent are refused before anything is written.
    settings = json.dumps(_collect_settings(value), default=_refuse_value)
    dataset = to_dataset(value)
    for name in dataset.data_vars:
        size = dataset[name].nbytes
        if size > LARGEST_ARRAY:
            raise ValueError(
                f"{name} takes {size / 1e9:.1f} GB and a netCDF file holds 2 GB of it: "
                "record fewer rounds or save fewer runs at a time"
            )
    dataset.attrs["settings"] = settings
    arrays = {str(name): dataset[name].values for name in ["time", *dataset.data_vars]}
    dataset.attrs["checksum"] = _compute_checksum(dataset.attrs, list(arrays.values()))
    with atomic_write(path) as temporary, delay_interrupt():
        dataset.to_netcdf(temporary, engine="scipy")


def load(path: str | os.PathLike[str]) -> Result | Comparison:
    """Read a result or a comparison that `save` wrote; other and damaged files are refused."""
    if not isinstance(path, str | os.PathLike):
        raise ValueError(f"path must be that of a file such as 'r.nc', got {path!r}")
    attributes, variables = _read_netcdf(path)
    kind = attributes["kind"]
    version = attributes["format"]
    if kind not in (RESULT, COMPARISON):
        raise ValueError(f"{path} is a netCDF file but not a result of Posse")
    if isinstance(version, int) and version != FORMAT:
        raise ValueError(
            f"{path} has format {version} and this Posse reads format {FORMAT}: read it with the "
            "Posse that wrote it, or run the experiment again"
        )
    try:
        shapes = json.loads(attributes["shapes"])
        times = variables["time"].astype(np.int64)
        curves = variables["regret" if "regret" in variables else "reward"].astype(np.float64)
        pulls = variables["pulls"].astype(np.int32)
        kept = {name: variables[RECORDED[name].attribute].astype(np.float64) for name in shapes}
        arrays: list[NDArray[Any]] = [times, curves, pulls, *kept.values()]
        whole = attributes["checksum"] == _compute_checksum(attributes, arrays)
    except Exception:  # a part is missing or of another type
        whole = False
    if not whole:
        raise ValueError(f"{path} is damaged: its content does not match its checksum")
    for array in arrays:
        array.setflags(write=False)  # so that a Result need not copy it

    engine = attributes["engine"]
    settings = json.loads(attributes["settings"])
    if kind == RESULT:
        return Result(times, curves, pulls, engine, settings, kept)
    # A Comparison: cut the padding off the kept arrays of every algorithm.
    engines = json.loads(engine)
    results = {}
    for place, (name, own_settings) in enumerate(settings.items()):
        parts = {
            key: array[place][tuple(map(slice, shapes[key][place]))] for key, array in kept.items()
        }
        results[name] = Result(
            times, curves[place], pulls[place], engines[name], own_settings, parts
        )
    return Comparison(results)


def _encode_engine(value: Result | Comparison) -> str:
    """Encode the engine of a result, or the engines of a comparison by name as JSON."""
    if isinstance(value, Result):
        return value.engine
    return json.dumps({name: result.engine for name, result in value.items()})


def _collect_settings(value: Result | Comparison) -> dict[str, Any]:
    """Collect the settings of a result, or those of a comparison by name."""
    if isinstance(value, Result):
        return value.settings
    return {name: result.settings for name, result in value.items()}


def _refuse_value(value: Any) -> Any:
    """Refuse a value that JSON cannot represent."""
    raise ValueError(
        f"settings must be plain values to be saved (functions named 'module:function'), "
        f"got {value!r}"
    )


def _compute_checksum(attributes: Mapping[str, Any], arrays: Sequence[NDArray[Any]]) -> str:
    """Hash the arrays and attributes (SHA-256), in a byte order that no machine changes."""
    # Shapes are hashed too: the same bytes in another shape are other numbers.
    digest = hashlib.sha256()
    head = [attributes[name] for name in ("kind", "engine", "settings", "shapes", "format")]
    shapes = [array.shape for array in arrays]
    digest.update(json.dumps([*head, shapes]).encode())
    for array in arrays:
        digest.update(np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).data)
    return digest.hexdigest()


def _read_netcdf(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Read the attributes that `save` writes, and all variables, of a netCDF file."""
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
                attributes = {name: getattr(file, name, None) for name in ATTRIBUTES}
                variables = {name: item.data for name, item in file.variables.items()}
        return {name: _decode_attribute(value) for name, value in attributes.items()}, variables
    except Exception as error:  # a damaged header can make SciPy raise nearly anything
        raise ValueError(f"{path} is not a netCDF file (classic format), or is damaged") from error


def _decode_attribute(value: Any) -> str | int | None:
    """Decode text and whole numbers, the only types that `save` writes."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return int(value) if isinstance(value, np.integer) else None
