"""Operators: what `weights @ belief` needs for beliefs of shape (..., N, K).

A dense (N, N), or (R, N, N) for R runs, is its own operator: NumPy's matmul does just this.
Every other operator here returns a new array of the shape of x as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array

FloatArray = NDArray[np.float64]

# Entries of a block-diagonal matrix: enough to forget the overhead of a call (6 microseconds),
# few enough to stay in the cache.
_BLOCK_ENTRIES = 2**16


class Operator(Protocol):
    """Anything that mixes the agents: `weights @ x` for x (..., N, K), eq. `merge_posteriors`."""

    def __matmul__(self, x: FloatArray, /) -> FloatArray:
        """The mixed x, of the same shape."""


class Uniform:
    """All weights 1/N: everybody gets the mean, as a read-only view of one row."""

    def __matmul__(self, x: FloatArray) -> FloatArray:
        n_agents = x.shape[-2]
        # A product with a row of 1/N takes a fifth of the time of x.mean(axis=-2)
        return np.broadcast_to(np.full((1, n_agents), 1 / n_agents) @ x, x.shape)


class Sparse:
    """One CSR matrix (N, N) for all leading axes, applied to many of them at a time."""

    def __init__(self, weights: csr_array[Any, tuple[int, int]]) -> None:
        self.weights = weights
        self._blocks: dict[int, csr_array[Any, tuple[int, int]]] = {}

    def __matmul__(self, x: FloatArray) -> FloatArray:
        n_agents, n_arms = x.shape[-2:]
        flat = x.reshape(-1, n_arms)
        step = max(1, _BLOCK_ENTRIES // max(1, self.weights.nnz)) * n_agents
        parts = [flat[start : start + step] for start in range(0, len(flat), step)]
        mixed = [self._block(len(part) // n_agents) @ part for part in parts]
        return (mixed[0] if len(mixed) == 1 else np.concatenate(mixed)).reshape(x.shape)

    def _block(self, copies: int) -> csr_array[Any, tuple[int, int]]:
        """The matrix repeated along a diagonal: one call instead of many small ones."""
        from scipy.sparse import csr_array, eye_array, kron

        if copies not in self._blocks:
            self._blocks[copies] = csr_array(kron(eye_array(copies), self.weights, format="csr"))
        return self._blocks[copies]


class SparseRuns:
    """A sparse matrix for each of R runs, as one block-diagonal CSR (R N, R N)."""

    def __init__(self, blocks: csr_array[Any, tuple[int, int]]) -> None:
        self.blocks = blocks

    def __matmul__(self, x: FloatArray) -> FloatArray:
        layers = x.reshape(-1, self.blocks.shape[0], x.shape[-1])
        return np.stack([self.blocks @ layer for layer in layers]).reshape(x.shape)


class Pairs:
    """Gossip, eq. `gossip`: in run r agents first[r] and second[r] (R,) both take their average."""

    def __init__(self, first: NDArray[np.int64], second: NDArray[np.int64]) -> None:
        self.first, self.second = first, second

    def __matmul__(self, x: FloatArray) -> FloatArray:
        runs = np.arange(len(self.first))
        average = (x[..., runs, self.first, :] + x[..., runs, self.second, :]) / 2
        mixed = x.copy()
        mixed[..., runs, self.first, :] = average
        mixed[..., runs, self.second, :] = average
        return mixed


def as_operator(weights: Any) -> Operator:
    """Weights as an operator: an ndarray, a SciPy sparse matrix or array, or an operator."""
    if hasattr(weights, "tocsr"):
        return Sparse(weights.tocsr())
    if isinstance(weights, np.ndarray):
        return np.asarray(weights)  # np.matrix knows two axes only
    operator: Operator = weights
    return operator
