"""Checks at the door: one clear sentence that names the field, the value and what is allowed."""

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
    """A value in one short line."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 100 else f"{text[:97]}..."


def is_finite(value: Any) -> bool:
    """Whether a float can hold it; an integer may be too large."""
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
    """A finite real number within the given bounds."""
    # bool is an int to Python, but `sigma=True` is a mistake
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
    """An integer within the given bounds (2.0 counts as 2)."""
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
    """Finite numbers of any shape, each within the bounds."""
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
    """One of the allowed names; an unknown one gets the nearest as a suggestion."""
    options = list(allowed)
    if value in options:
        return str(value)
    near = difflib.get_close_matches(str(value), options, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise ValueError(
        f"{name} {format_value(value)} is unknown: {hint}allowed are {', '.join(options)}"
    )


def validate_methods(name: str, value: Any, methods: Iterable[str], example: str) -> None:
    """An object with these methods; a class given in place of an object is the usual slip."""
    missing = [method for method in methods if not callable(getattr(value, method, None))]
    if isinstance(value, type):
        problem = f"the class {value.__name__}, not an object"
    elif missing:
        problem = f"{format_value(value)}, which lacks {' and '.join(missing)}"
    else:
        return
    raise ValueError(f"{name} must be one such as {example}, got {problem}")


def detect_memory() -> float:
    """The memory of this machine in GB; 100 where it does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    except (AttributeError, ValueError, OSError):  # not on Windows
        return 100.0


def format_gigabytes(value: float) -> str:
    """A number of GB as sentences show it."""
    return f"{value:,.0f} GB" if value >= 1000 else f"{value:.3g} GB"


class FrozenArray:
    """A read-only array that compares and hashes by its content, for fields of frozen values."""

    def __init__(self, values: ArrayLike) -> None:
        self.values = np.array(values)
        self.values.setflags(write=False)
        content = f"{self.values.dtype.str}{self.values.shape}".encode() + self.values.tobytes()
        self.digest = hashlib.sha256(content).hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FrozenArray) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"FrozenArray(shape={self.values.shape}, digest={self.digest[:8]!r})"
