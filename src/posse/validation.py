"""Validation of arguments, with error messages that name the field, the value and what is allowed.

Every function takes the name of the field first, because messages begin with it: the decoder of
TOML and JSON files finds the key of a wrong value by the first word of the message
(`posse.serialization.decoder.locate_errors`).
"""

from __future__ import annotations

import difflib
import hashlib
import math
import os
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


def format_value(value: Any) -> str:
    """Format a value on one line of at most 100 characters."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 100 else f"{text[:97]}..."


def is_finite(value: Any) -> bool:
    """Return whether a number is finite as a float; a huge integer is not."""
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def validate_number(
    name: str,
    value: Any,
    *,
    above: float = -math.inf,
    at_least: float = -math.inf,
    below: float = math.inf,
    at_most: float = math.inf,
) -> float:
    """Return a finite real number within the given bounds, or raise a ValueError."""
    # A bool is an int in Python, but `sigma=True` is a mistake.
    if isinstance(value, (bool, np.bool_)) or not isinstance(
        value, (int, float, np.integer, np.floating)
    ):
        raise ValueError(f"{name} must be a number, got {format_value(value)}")
    bounds = [
        (value > above, above, "above"),
        (value >= at_least, at_least, "at least"),
        (value < below, below, "below"),
        (value <= at_most, at_most, "at most"),
    ]
    if not is_finite(value) or not all(holds for holds, _, _ in bounds):
        allowed = " and ".join(
            f"{word} {bound:g}" for _, bound, word in bounds if math.isfinite(bound)
        )
        raise ValueError(
            f"{name} must be a finite number {allowed}".rstrip() + f", got {format_value(value)}"
        )
    return float(value)


def validate_integer(name: str, value: Any, *, at_least: int, at_most: int | None = None) -> int:
    """Return an integer within the given bounds (2.0 counts as 2), or raise a ValueError."""
    allowed = f"at least {at_least}" + (f" and at most {at_most}" if at_most is not None else "")
    message = f"{name} must be a whole number {allowed}, got {format_value(value)}"
    if isinstance(value, (bool, np.bool_)) or not isinstance(
        value, (int, float, np.integer, np.floating)
    ):
        raise ValueError(message)
    if not is_finite(value) or value != int(value) or value < at_least:
        raise ValueError(message)
    if at_most is not None and value > at_most:
        raise ValueError(message)
    return int(value)


def validate_array(
    name: str,
    values: ArrayLike,
    low: float = -math.inf,
    high: float = math.inf,
    *,
    open_low: bool = False,
) -> NDArray[np.float64]:
    """Return finite numbers of any shape within the bounds as floats, or raise a ValueError."""
    try:
        array = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be numbers, got {format_value(values)}") from None
    above_low = array > low if open_low else array >= low
    if not np.all(np.isfinite(array) & above_low & (array <= high)):
        lower = f" {'above' if open_low else 'at least'} {low:g}" if math.isfinite(low) else ""
        upper = f" and at most {high:g}" if math.isfinite(high) else ""
        raise ValueError(f"{name} must be finite numbers{lower}{upper}, got {format_value(values)}")
    return array


def validate_choice(name: str, value: Any, allowed: Iterable[str]) -> str:
    """Return one of the allowed names; the error for an unknown one suggests the nearest."""
    options = list(allowed)
    if value in options:
        return str(value)
    near = difflib.get_close_matches(str(value), options, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise ValueError(
        f"{name} {format_value(value)} is unknown: {hint}allowed are {', '.join(options)}"
    )


def validate_methods(name: str, value: Any, methods: Iterable[str], example: str) -> None:
    """Refuse an object without these methods, or a class given in place of an object."""
    # The usual mistake is a class in place of an object: Gaussian for Gaussian().
    missing = [method for method in methods if not callable(getattr(value, method, None))]
    if isinstance(value, type):
        problem = f"the class {value.__name__}, not an object"
    elif missing:
        problem = f"{format_value(value)}, which lacks {' and '.join(missing)}"
    else:
        return
    raise ValueError(f"{name} must be one such as {example}, got {problem}")


def detect_memory() -> float:
    """Return the memory of this machine in GB; 100 where the system does not report it."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    except (AttributeError, ValueError, OSError):  # not on Windows
        return 100.0


def format_gigabytes(value: float) -> str:
    """Format a number of GB for an error message."""
    return f"{value:,.0f} GB" if value >= 1000 else f"{value:.3g} GB"


class FrozenArray:
    """A read-only array that compares and hashes by content, for fields of frozen dataclasses."""

    def __init__(self, values: ArrayLike) -> None:
        self.values = np.array(values)
        self.values.setflags(write=False)
        # shape and type count as well: [1, 2] and [[1, 2]] have the same bytes
        content = f"{self.values.dtype.str}{self.values.shape}".encode() + self.values.tobytes()
        self.digest = hashlib.sha256(content).hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FrozenArray) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"FrozenArray(shape={self.values.shape}, digest={self.digest[:8]!r})"
