"""The arrays and settings of a result: checked, copied where they could be changed, read-only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from posse import checks
from posse.lab.keep import KEEP, dims_in

# the largest count that the file format holds
LARGEST = np.iinfo(np.int32).max


def read_only(
    name: str, values: ArrayLike, ndim: int, dtype: DTypeLike, finite: bool = True
) -> NDArray[Any]:
    """Check the axes and the range of an array and make it read-only."""
    array = np.asarray(values)
    kinds, what = ("iuf", "numbers") if dtype is np.float64 else ("iu", "whole numbers")
    if array.ndim != ndim or array.size == 0 or array.dtype.kind not in kinds:
        raise ValueError(
            f"{name} must be a non-empty array of {what} with {ndim} axes, "
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


def read_only_kept(
    kept: Mapping[str, ArrayLike], sizes: Mapping[str, int], settings: Mapping[str, Any]
) -> dict[str, NDArray[Any]]:
    """What was kept, in the order of the table, if it has the axes that the table says.

    sizes: of the axes that are known; the others are free.
    """
    for name in kept:
        checks.choice("kept", name, KEEP)
    checked = {}
    for name in [name for name in KEEP if name in kept]:
        dims = dims_in(name, np.ndim(kept[name]), settings)
        array = read_only(f"kept {name}", kept[name], len(dims), np.float64, finite=False)
        wanted = tuple(sizes.get(dim, size) for dim, size in zip(dims, array.shape, strict=True))
        if array.shape != wanted:
            raise ValueError(
                f"kept {name} must have shape ({', '.join(dims)}) = {wanted}, got {array.shape}"
            )
        checked[name] = array
    return checked


def plain(value: Any) -> Any:
    """Copy in JSON's own types, so that what is loaded equals what was saved."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    return value
