"""Randomness is an argument: one stream per run and purpose, never a global state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Numbers = FloatArray | float

# A stream is keyed by (seed, run, purpose) and never by algorithm: algorithms compared under one
# seed meet the same means, rewards and networks (common random numbers).  The order is part of
# every published number: append, never reorder.
PURPOSES = ("means", "permutation", "rewards", "network", "policy", "graph")


class Randomness(Protocol):
    """What families, policies and networks ask of a generator: a subset of NumPy's."""

    def random(self, size: Any) -> Any:
        """Uniforms on [0, 1)."""

    def standard_normal(self, size: Any) -> Any:
        """Standard normal variates."""

    def standard_gamma(self, shape: Any) -> Any:
        """Gamma variates of scale 1, one for each entry of shape."""

    def beta(self, a: Any, b: Any) -> Any:
        """Beta variates, one for each entry of a and b."""


def generator(seed: int, run: int, purpose: str) -> np.random.Generator:
    """The stream of one run and purpose: the same whatever else is simulated."""
    key = (run, PURPOSES.index(purpose))
    return np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed, spawn_key=key)))


class Streams:
    """R generators that act as one: row r of every draw comes from the generator of run r.

    So an algorithm written for one Generator runs vectorised over a block of runs, and what run r
    draws does not depend on which other runs share its block.
    """

    def __init__(self, generators: Sequence[np.random.Generator]) -> None:
        self.generators = tuple(generators)

    @classmethod
    def of(cls, seed: int, runs: Sequence[int], purpose: str) -> Streams:
        """The streams of some runs for one purpose."""
        return cls([generator(seed, run, purpose) for run in runs])

    def random(self, size: tuple[int, ...]) -> FloatArray:
        """Uniforms of shape (R, ...)."""
        out = np.empty(size)
        for run, stream in zip(_rows(out), self.generators, strict=True):
            stream.random(out=run)
        return out

    def standard_normal(self, size: tuple[int, ...]) -> FloatArray:
        """Standard normal variates of shape (R, ...)."""
        out = np.empty(size)
        for run, stream in zip(_rows(out), self.generators, strict=True):
            stream.standard_normal(out=run)
        return out

    def standard_gamma(self, shape: FloatArray) -> FloatArray:
        """Gamma variates, one for each entry of shape (R, ...)."""
        out = np.empty(shape.shape)
        rows = zip(_rows(out), self.generators, _rows(shape), strict=True)
        for run, stream, a in rows:
            stream.standard_gamma(a, out=run)
        return out

    def beta(self, a: FloatArray, b: FloatArray) -> FloatArray:
        """Beta variates, one for each entry of a and b (R, ...)."""
        rows = zip(self.generators, a, b, strict=True)
        return np.stack([stream.beta(a_row, b_row) for stream, a_row, b_row in rows])


def _rows(values: FloatArray) -> FloatArray:
    """An array (R, ...) whose rows are arrays, even where each holds one number: views."""
    return values if values.ndim > 1 else values[:, None]
