"""Random streams: one per (seed, run, purpose), passed as an argument, never a global state."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Numbers = FloatArray | float

# A stream is keyed by (seed, run, purpose) and never by algorithm: algorithms compared under one
# seed meet the same means, rewards and networks (common random numbers).  The order is part of
# every published number: append, never reorder.
PURPOSES = (
    "means",
    "permutation",
    "rewards",
    "network",
    "policy",
    "graph",
    "signs",
    "sites",
    "drift",
    "delay",
    "contexts",
    "activity",
)


# Uniforms of one run that `UniformStreams` draws at once, a page of memory or more.
_DRAWN_AT_ONCE = 4096


class Randomness(Protocol):
    """The methods of a generator that families, policies and networks use: a subset of NumPy's."""

    def random(self, size: Any) -> Any:
        """Uniforms on [0, 1)."""

    def standard_normal(self, size: Any) -> Any:
        """Standard normal variates."""

    def standard_gamma(self, shape: Any) -> Any:
        """Gamma variates of scale 1, one for each entry of shape."""

    def beta(self, a: Any, b: Any) -> Any:
        """Beta variates, one for each entry of a and b."""

    def integers(self, low: Any, high: Any = None, size: Any = None) -> Any:
        """Whole numbers from low to high - 1, or from 0 to low - 1."""


def create_generator(seed: int, run: int, purpose: str) -> np.random.Generator:
    """Create the generator of one run and purpose; it does not depend on other runs."""
    key = (run, PURPOSES.index(purpose))
    return np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed, spawn_key=key)))


class Streams:
    """R generators that act as one: row r of every draw comes from the generator of run r.

    An algorithm that is written for one Generator runs vectorised over a block of runs. The draws
    of run r do not depend on which other runs share its block.
    """

    def __init__(self, generators: Sequence[np.random.Generator]) -> None:
        self.generators = tuple(generators)

    @classmethod
    def for_runs(cls, seed: int, runs: Sequence[int], purpose: str) -> Streams:
        """Create the streams of some runs for one purpose."""
        return cls([create_generator(seed, run, purpose) for run in runs])

    def random(self, size: tuple[int, ...]) -> FloatArray:
        """Uniforms of shape (R, ...)."""
        out = np.empty(size)
        for run, stream in zip(_view_rows(out), self.generators, strict=True):
            stream.random(out=run)
        return out

    def standard_normal(self, size: tuple[int, ...]) -> FloatArray:
        """Standard normal variates of shape (R, ...)."""
        out = np.empty(size)
        for run, stream in zip(_view_rows(out), self.generators, strict=True):
            stream.standard_normal(out=run)
        return out

    def standard_gamma(self, shape: FloatArray) -> FloatArray:
        """Gamma variates, one for each entry of shape (R, ...)."""
        out = np.empty(shape.shape)
        rows = zip(_view_rows(out), self.generators, _view_rows(shape), strict=True)
        for run, stream, a in rows:
            stream.standard_gamma(a, out=run)
        return out

    def beta(self, a: FloatArray, b: FloatArray) -> FloatArray:
        """Beta variates, one for each entry of a and b (R, ...)."""
        rows = zip(self.generators, a, b, strict=True)
        return np.stack([stream.beta(a_row, b_row) for stream, a_row, b_row in rows])

    # The library uses only the methods above; user-defined algorithms may use more of NumPy's.

    def integers(
        self, low: Any, high: Any = None, size: Any = None, *, endpoint: bool = False
    ) -> IntArray:
        """Whole numbers of shape (R, ...) from low to high - 1, or from 0 to low - 1."""
        if high is None:
            low, high = 0, low
        return self._draw_rows(
            lambda g, n, *x: g.integers(*x, n, endpoint=endpoint), size, low, high
        )

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> FloatArray:
        """Uniforms of shape (R, ...) on [low, high)."""
        return self._draw_rows(lambda g, n, *x: g.uniform(*x, n), size, low, high)

    def normal(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> FloatArray:
        """Normal variates of shape (R, ...)."""
        return self._draw_rows(lambda g, n, *x: g.normal(*x, n), size, loc, scale)

    def exponential(self, scale: Any = 1.0, size: Any = None) -> FloatArray:
        """Exponential variates of shape (R, ...)."""
        return self._draw_rows(lambda g, n, *x: g.exponential(*x, n), size, scale)

    def choice(self, a: Any, size: Any = None, replace: bool = True, p: Any = None) -> NDArray[Any]:
        """Entries of a, or numbers below it, drawn for every run on its own: (R, ...)."""
        return self._draw_rows(lambda g, n: g.choice(a, n, replace, p), size)

    def permutation(self, x: Any) -> NDArray[Any]:
        """An order of x, or of the numbers below it, for every run: (R, len)."""
        return np.stack([stream.permutation(x) for stream in self.generators])

    def _draw_rows(self, draw: Callable[..., Any], size: Any, *parameters: Any) -> NDArray[Any]:
        """Stack rows `draw(generator r, shape of a row, row r of the parameters)`: (R, ...).

        A size of None means the shape of the parameters, or one number per run.
        """
        n_runs = len(self.generators)
        shape = np.broadcast_shapes(*map(np.shape, parameters)) if size is None else size
        shape = tuple(np.atleast_1d(shape)) if shape != () else (n_runs,)
        if shape[0] != n_runs:
            raise ValueError(
                f"size must begin with the {n_runs} runs of the block, (R, ...), got {shape}"
            )
        # A scalar stays a scalar: NumPy may draw differently for an array of equal parameters.
        by_run = [x if np.ndim(x) == 0 else np.broadcast_to(x, shape) for x in parameters]
        return np.stack(
            [
                draw(stream, shape[1:], *(x if np.ndim(x) == 0 else x[run] for x in by_run))
                for run, stream in enumerate(self.generators)
            ]
        )


class UniformStreams:
    """Streams from which only uniforms are drawn: many at a time, the same ones as one by one."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self._drawn = np.empty((len(streams.generators), 0))
        self._n_used = 0

    def random(self, size: tuple[int, ...]) -> FloatArray:
        """Uniforms of shape (R, ...)."""
        start = self._n_used
        end = start + math.prod(size[1:])
        if end > self._drawn.shape[1]:
            more = self._streams.random((size[0], max(end - start, _DRAWN_AT_ONCE)))
            self._drawn = np.concatenate([self._drawn[:, start:], more], axis=1)
            start, end = 0, end - start
        self._n_used = end
        return self._drawn[:, start:end].reshape(size)


def _view_rows(values: FloatArray) -> FloatArray:
    """View an array (R, ...) with rows that are arrays, even where each holds one number."""
    return values if values.ndim > 1 else values[:, None]
