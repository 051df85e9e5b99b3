"""Operators: weights that mix agents by `weights @ belief`, for beliefs of shape (..., N, K).

A dense array (N, N), or (R, N, N) for R runs, is an operator by NumPy's matmul. Every other
operator here returns a new array of the shape of x as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

# Entries of a block-diagonal matrix: enough to amortise the overhead of a call (6 microseconds),
# few enough to stay in the cache.
_BLOCK_ENTRIES = 2**16


class Operator(Protocol):
    """An object that mixes the agents: `weights @ x` for x (..., N, K), eq. `merge_posteriors`."""

    def __matmul__(self, x: FloatArray, /) -> FloatArray:
        """Return the mixed x, of the same shape."""


class UniformWeights:
    """All weights 1/N: every agent gets the mean, as a read-only view of one row."""

    def __init__(self, n_agents: int) -> None:
        self.n_agents = n_agents

    def count_links(self, n_runs: int) -> IntArray:
        """Count the directed links in use in each run, (R,)."""
        return np.full(n_runs, self.n_agents * (self.n_agents - 1))

    def __matmul__(self, x: FloatArray) -> FloatArray:
        n_agents = x.shape[-2]
        # A product with a row of 1/N takes a fifth of the time of x.mean(axis=-2).
        return np.broadcast_to(np.full((1, n_agents), 1 / n_agents) @ x, x.shape)


class SparseWeights:
    """One CSR matrix (N, N) for all leading axes, applied to many of them at a time."""

    def __init__(self, weights: csr_array[Any, tuple[int, int]]) -> None:
        self.weights = weights
        self._blocks: dict[int, csr_array[Any, tuple[int, int]]] = {}
        self._links: int | None = None

    def count_links(self, n_runs: int) -> IntArray:
        """Count the directed links in use in each run, (R,); W is constant, so count once."""
        if self._links is None:
            self._links = int(_find_off_diagonal(self.weights)[1].sum())
        return np.full(n_runs, self._links)

    def __matmul__(self, x: FloatArray) -> FloatArray:
        n_agents, n_arms = x.shape[-2:]
        flat = x.reshape(-1, n_arms)
        step = max(1, _BLOCK_ENTRIES // max(1, self.weights.nnz)) * n_agents
        parts = [flat[start : start + step] for start in range(0, len(flat), step)]
        mixed = [self._repeat_diagonally(len(part) // n_agents) @ part for part in parts]
        return (mixed[0] if len(mixed) == 1 else np.concatenate(mixed)).reshape(x.shape)

    def _repeat_diagonally(self, copies: int) -> csr_array[Any, tuple[int, int]]:
        """Return the matrix repeated along a diagonal: one product instead of many small ones."""
        from scipy.sparse import csr_array, eye_array, kron

        if copies not in self._blocks:
            self._blocks[copies] = csr_array(kron(eye_array(copies), self.weights, format="csr"))
        return self._blocks[copies]


class SparseRuns:
    """A sparse matrix for each of R runs, as one block-diagonal CSR (R N, R N)."""

    def __init__(self, blocks: csr_array[Any, tuple[int, int]]) -> None:
        self.blocks = blocks

    def count_links(self, n_runs: int) -> IntArray:
        """Count the directed links in use in each run, (R,)."""
        rows, in_use = _find_off_diagonal(self.blocks)
        n_agents = self.blocks.shape[0] // n_runs
        return np.bincount(rows[in_use] // n_agents, minlength=n_runs)

    def __matmul__(self, x: FloatArray) -> FloatArray:
        layers = x.reshape(-1, self.blocks.shape[0], x.shape[-1])
        return np.stack([self.blocks @ layer for layer in layers]).reshape(x.shape)


class GossipPairs:
    """Gossip, eq. `gossip`: in run r agents first[r] and second[r] (R,) both take their average."""

    def __init__(self, first: NDArray[np.int64], second: NDArray[np.int64]) -> None:
        self.first = first
        self.second = second

    def count_links(self, n_runs: int) -> IntArray:
        """Count the directed links in use in each run, (R,): a pair sends both ways."""
        return np.full(n_runs, 2)

    def __matmul__(self, x: FloatArray) -> FloatArray:
        runs = np.arange(len(self.first))
        average = (x[..., runs, self.first, :] + x[..., runs, self.second, :]) / 2
        mixed = x.copy()
        mixed[..., runs, self.first, :] = average
        mixed[..., runs, self.second, :] = average
        return mixed


class GossipPush:
    """In run r agent sender[r] pushes one half of what it has to receiver[r], both (R,)."""

    def __init__(self, sender: NDArray[np.int64], receiver: NDArray[np.int64]) -> None:
        self.sender = sender
        self.receiver = receiver

    def count_links(self, n_runs: int) -> IntArray:
        """Count the directed links in use in each run, (R,)."""
        return np.ones(n_runs, dtype=np.int64)

    def __matmul__(self, x: FloatArray) -> FloatArray:
        runs = np.arange(len(self.sender))
        half = x[..., runs, self.sender, :] / 2
        mixed = x.copy()
        mixed[..., runs, self.sender, :] = half
        mixed[..., runs, self.receiver, :] += half
        return mixed


def as_operator(weights: Any) -> Operator:
    """Return weights as an operator: an ndarray, a SciPy sparse matrix, or an operator."""
    if hasattr(weights, "tocsr"):
        return SparseWeights(weights.tocsr())
    if isinstance(weights, np.ndarray):
        return np.asarray(weights)  # np.matrix has two axes only
    operator: Operator = weights
    return operator


def as_matrix(weights: Any, n_agents: int, n_runs: int = 1) -> FloatArray:
    """Return W(t) as a dense array, from any operator: (N, N), or (R, N, N) by run.

    User-defined algorithms may need entries of W and not only `weights @ x`. The array holds all
    entries, while most networks are sparse.
    """
    if isinstance(weights, np.ndarray):
        return np.asarray(weights, dtype=np.float64)
    if isinstance(weights, SparseWeights) or hasattr(weights, "tocsr"):
        matrix = weights.weights if isinstance(weights, SparseWeights) else weights
        return np.asarray(matrix.toarray(), dtype=np.float64)
    if isinstance(weights, UniformWeights):
        return np.full((n_agents, n_agents), 1 / n_agents)
    identity = np.broadcast_to(np.eye(n_agents), (n_runs, n_agents, n_agents))
    return np.asarray(weights @ identity, dtype=np.float64)


def count_links_in_use(weights: Any, n_runs: int, n_agents: int | None = None) -> IntArray:
    """Count the directed links of W(t) in each run, (R,): j sends to i if j != i, W(t)_ij != 0.

    `n_agents` is needed only for user-defined operators, which have no shape.
    """
    operator = as_operator(weights)
    if isinstance(operator, UniformWeights | SparseWeights | SparseRuns | GossipPairs | GossipPush):
        return operator.count_links(n_runs)
    n_agents = getattr(weights, "shape", (n_agents,))[-1]
    if n_agents is None:
        raise ValueError(f"n_agents must be given for weights without a shape, got {weights!r}")
    matrix = as_matrix(weights, n_agents, n_runs)
    diagonal = np.diagonal(matrix, axis1=-2, axis2=-1)
    used = np.count_nonzero(matrix, axis=(-2, -1)) - np.count_nonzero(diagonal, axis=-1)
    return np.broadcast_to(np.asarray(used, dtype=np.int64), (n_runs,))


def get_link_weights(
    weights: Any,  # W(t)
    senders: IntArray,  # (C,)
    receivers: IntArray,  # (C,)
    n_runs: int,
    n_agents: int,
) -> FloatArray:
    """Return the weight of each directed link, W(t)_(receiver, sender): (R, C), read-only.

    Sparse weights stay sparse, so that the cost grows with the links and not with N^2.
    """
    entries: Any
    if isinstance(weights, UniformWeights):
        entries = 1 / n_agents
    elif isinstance(weights, SparseRuns):
        # the runs are blocks on the diagonal of one sparse matrix
        first = np.arange(0, n_runs * n_agents, n_agents)[:, None]
        rows, columns = np.broadcast_arrays(first + receivers, first + senders)
        entries = np.asarray(weights.blocks[rows.ravel(), columns.ravel()]).reshape(rows.shape)
    elif isinstance(weights, SparseWeights) or hasattr(weights, "tocsr"):
        matrix = weights.weights if isinstance(weights, SparseWeights) else weights.tocsr()
        entries = np.asarray(matrix[receivers, senders]).reshape(1, -1)
    elif isinstance(weights, GossipPairs):
        first, second = weights.first[:, None], weights.second[:, None]
        is_pair = (senders == first) & (receivers == second)
        entries = (is_pair | (senders == second) & (receivers == first)) / 2
    elif isinstance(weights, GossipPush):
        entries = (senders == weights.sender[:, None]) & (receivers == weights.receiver[:, None])
        entries = entries / 2
    else:
        entries = as_matrix(weights, n_agents, n_runs)[..., receivers, senders]
    return np.broadcast_to(entries, (n_runs, len(senders)))


def sum_by_receiver(values: FloatArray, receivers: IntArray, n_agents: int) -> FloatArray:
    """Sum what arrives over the links at each agent: (..., C, K) -> (..., N, K).

    receivers: (C,) of the links, ascending.
    """
    starts = np.searchsorted(receivers, np.arange(n_agents))
    # an agent without incoming links has the start of the next one, and the sum 0
    receives = np.diff(starts, append=len(receivers)) > 0
    sums = np.zeros((*values.shape[:-2], n_agents, values.shape[-1]))
    if receives.any():
        sums[..., receives, :] = np.add.reduceat(values, starts[receives], axis=-2)
    return sums


def _find_off_diagonal(
    weights: csr_array[Any, tuple[int, int]],
) -> tuple[IntArray, NDArray[np.bool_]]:
    """Return the row of every stored entry, and which entries are non-zero off the diagonal."""
    rows = np.repeat(np.arange(weights.shape[0]), np.diff(weights.indptr))
    return rows, (weights.indices != rows) & (weights.data != 0)
