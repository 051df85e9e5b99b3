"""Weights W of the neighbours of each agent: rules and doubly stochastic matrices.

A symmetric doubly stochastic W is one number per link, w_ij, and the diagonal completes each row:
W = I - sum over links of w_ij (e_i - e_j)(e_i - e_j)^T.  So a rule maps a graph to (E,) weights.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from posse.networks.graphs import Graph, IntArray, LargeCompleteGraph, build_simple_graph
from posse.validation import FrozenArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array

FloatArray = NDArray[np.float64]
DEFAULT_RULE = "max-degree"
# Rows and columns must sum to 1 up to this: rounding in user-supplied matrices is far smaller.
TOLERANCE = 1e-9


def weigh_by_max_degree(graph: Graph) -> FloatArray:
    """W = I - (D - A) / (d_max + 1), the matrices of the paper's simulations."""
    return np.full(len(graph.edges), 1 / (count_degrees(graph).max() + 1))


def weigh_by_metropolis(graph: Graph) -> FloatArray:
    """W_ij = 1 / (1 + max(d_i, d_j)): two neighbours need only each other's degrees."""
    return np.asarray(1 / (1 + count_degrees(graph)[graph.edges].max(axis=1)), dtype=np.float64)


def weigh_lazily(graph: Graph) -> FloatArray:
    """Half of max-degree, W = (I + W_max-degree) / 2: no negative eigenvalue."""
    return weigh_by_max_degree(graph) / 2


def weigh_by_least_squares(graph: Graph) -> FloatArray:
    """The weights with the least cost of the network (Xiao, Boyd and Kim 2007), by optimisation."""
    from posse.networks.least_squares import minimise_deviation

    return minimise_deviation(graph)


WEIGHT_RULES: dict[str, Callable[[Graph], FloatArray]] = {
    "max-degree": weigh_by_max_degree,
    "metropolis": weigh_by_metropolis,
    "lazy": weigh_lazily,
    "least-squares": weigh_by_least_squares,
}


@dataclass(frozen=True)
class Matrix:
    """Custom weights, checked to be doubly stochastic and connected unless check is False.

    `content` is the matrix (N, N), or when mostly zeros its entries (row, column, weight), sorted.
    """

    content: FrozenArray
    check: bool = True

    @classmethod
    def from_matrix(cls, matrix: Any, check: bool = True) -> Matrix:
        """Create weights from a dense or sparse matrix (N, N), or raise a ValueError."""
        weights = _validate_matrix(matrix)
        if check:
            _refuse_unless_stochastic_and_connected(weights)
        else:
            warnings.warn(
                "this matrix is not checked to be doubly stochastic: the paper's guarantees "
                "may not hold",
                UserWarning,
                stacklevel=3,
            )
        frozen = freeze_matrix(weights)
        return cls(
            FrozenArray(frozen if isinstance(frozen, np.ndarray) else _list_entries(frozen)), check
        )

    @classmethod
    def from_links(cls, n_agents: int, links: Mapping[tuple[int, int], float]) -> Matrix:
        """Create symmetric weights from those of links; the diagonal completes each row."""
        from scipy.sparse import coo_array

        ends = np.array(list(links), dtype=np.int64).reshape(-1, 2)
        values = np.fromiter(links.values(), dtype=np.float64)
        link_sums = np.bincount(ends.ravel(), np.repeat(values, 2), minlength=n_agents)
        worst = int(link_sums.argmax())
        if link_sums[worst] > 1 + TOLERANCE:
            raise ValueError(
                f"weights of an agent's links must sum to at most 1, but those of agent {worst} "
                f"sum to {link_sums[worst]:.6g}: divide all by {link_sums[worst]:.6g} or more"
            )
        agents = np.arange(n_agents)
        rows = np.concatenate([ends[:, 0], ends[:, 1], agents])
        columns = np.concatenate([ends[:, 1], ends[:, 0], agents])
        # Rounding may leave -1e-17 on the diagonal, which would be refused as negative.
        entries = np.concatenate([values, values, np.maximum(1 - link_sums, 0.0)])
        return cls.from_matrix(coo_array((entries, (rows, columns)), shape=(n_agents, n_agents)))

    @classmethod
    def from_entries(cls, entries: Any, check: bool = True) -> Matrix:
        """Create weights from the entries [row, column, weight] of a sparse matrix."""
        from scipy.sparse import coo_array

        table = np.asarray(entries, dtype=np.float64)
        if table.ndim != 2 or table.shape[1] != 3 or not len(table):
            raise ValueError(f"entries must be rows [row, column, weight], got {table.shape=}")
        places = table[:, :2].astype(np.int64)
        if (places < 0).any() or (places != table[:, :2]).any():
            raise ValueError("entries must be rows [row, column, weight] with whole indices >= 0")
        n_agents = int(places.max()) + 1
        return cls.from_matrix(
            coo_array((table[:, 2], places.T), shape=(n_agents, n_agents)), check
        )

    def to_csr(self) -> csr_array[Any, tuple[int, int]]:
        """Return the matrix (N, N) as CSR."""
        from scipy.sparse import coo_array, csr_array

        content = self.content.values
        if content.ndim == 2:
            return csr_array(content)
        # The last entry is always in the last row, see `_list_entries`.
        n_agents = int(content["row"][-1]) + 1
        places = content["row"], content["column"]
        return csr_array(coo_array((content["weight"], places), shape=(n_agents, n_agents)))

    def to_graph(self) -> Graph:
        """Return the links with a positive weight in either direction."""
        weights = self.to_csr().tocoo()
        i, j = (ends[weights.data > 0].astype(np.int64) for ends in weights.coords)
        return build_simple_graph(weights.shape[0], (i, j))

    def to_data(self) -> dict[str, Any]:
        """Encode as {"matrix": rows} or {"entries": rows}, and "check" when it is off."""
        key = "matrix" if self.content.values.ndim == 2 else "entries"
        rows = [list(row) for row in self.content.values.tolist()]
        return {key: rows} | ({} if self.check else {"check": False})


def count_degrees(graph: Graph) -> IntArray:
    """Count the neighbours of each agent, (N,); in a directed graph its receivers."""
    if isinstance(graph, LargeCompleteGraph):
        return np.full(graph.n_agents, graph.n_agents - 1)
    ends = graph.edges[:, 0] if graph.directed else graph.edges.ravel()
    return np.bincount(ends, minlength=graph.n_agents)


def assemble_matrix(graph: Graph, links: FloatArray) -> csr_array[Any, tuple[int, int]]:
    """Build the symmetric W (N, N) from the weight of each link (E,); rows sum to 1.

    Diagonal entries are always stored, even when zero.
    """
    from scipy.sparse import coo_array, csr_array

    i, j = graph.edges.T
    link_sums = np.bincount(graph.edges.ravel(), np.repeat(links, 2), minlength=graph.n_agents)
    agents = np.arange(graph.n_agents)
    places = np.concatenate([i, j, agents]), np.concatenate([j, i, agents])
    values = np.concatenate([links, links, 1 - link_sums])
    return csr_array(coo_array((values, places), shape=(graph.n_agents, graph.n_agents)))


def add_links(
    product: FloatArray, matrix: FloatArray, edges: IntArray, factors: FloatArray | float
) -> FloatArray:
    """Add the sum over links of factor B M B to a product, B = (e_i - e_j)(e_i - e_j)^T: (N, N).

    product and matrix M are symmetric; factors are one number per link (E,), or one for all.
    """
    i, j = edges.T
    diagonal = matrix.diagonal()
    values = factors * (diagonal[i] + diagonal[j] - 2 * matrix[i, j])
    total = product.copy()
    total[i, j] -= values
    total[j, i] -= values
    agents = np.arange(len(total))
    total[agents, agents] += np.bincount(edges.ravel(), np.repeat(values, 2), len(total))
    return total


def is_dense(n_agents: int, n_entries: int) -> bool:
    """Return whether to store a matrix dense: a dense product is ten times faster per entry."""
    return 10 * n_entries > n_agents**2


def freeze_matrix(weights: csr_array[Any, tuple[int, int]]) -> Any:
    """Return a matrix as a read-only ndarray if small or dense, else as read-only CSR."""
    n_agents: int = weights.shape[0]
    if is_dense(n_agents, weights.nnz):
        dense = weights.toarray()
        dense.setflags(write=False)
        return dense
    weights.data.setflags(write=False)
    return weights


def is_symmetric(weights: Any) -> bool:
    """Return whether a dense or sparse matrix equals its transpose up to the tolerance."""
    return bool(abs(weights - weights.T).max() <= TOLERANCE)


def _validate_matrix(matrix: Any) -> csr_array[Any, tuple[int, int]]:
    """Return a square, finite, non-negative matrix as a CSR copy with summed duplicates."""
    from scipy.sparse import coo_array, csr_array, issparse

    try:
        values = matrix if issparse(matrix) else np.asarray(matrix, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"matrix must be an array of numbers: {error}") from None
    if len(values.shape) != 2 or values.shape[0] != values.shape[1] or not values.shape[0]:
        raise ValueError(f"matrix must be square, (agents, agents), got shape {values.shape}")
    weights = csr_array(values, dtype=np.float64, copy=True)
    # A sparse matrix may list one place twice, and then means the sum.
    weights.sum_duplicates()
    weights.eliminate_zeros()
    for wrong, allowed in (
        (~np.isfinite(weights.data), "finite"),
        (weights.data < 0, "non-negative"),
    ):
        if wrong.any():
            entries = coo_array(weights)
            row, column, value = (part[wrong][0] for part in (*entries.coords, entries.data))
            raise ValueError(
                f"matrix must be {allowed}, got {value:g} at row {row}, column {column}"
            )
    return weights


def _refuse_unless_stochastic_and_connected(weights: csr_array[Any, tuple[int, int]]) -> None:
    from scipy.sparse.csgraph import connected_components

    for line, axis in (("row", 1), ("column", 0)):
        sums = np.asarray(weights.sum(axis=axis)).ravel()
        worst = int(abs(sums - 1).argmax())
        if abs(sums[worst] - 1) > TOLERANCE:
            raise ValueError(
                f"matrix must be doubly stochastic to {TOLERANCE:g}, but {line} {worst} sums to "
                f"{sums[worst]:.12g}, off by {sums[worst] - 1:.3g} (from_matrix(W, check=False) "
                "admits any non-negative W, without the paper's guarantees)"
            )
    # Strong components, because W may be asymmetric.
    parts = connected_components(weights, directed=True, connection="strong", return_labels=False)
    if parts > 1:
        raise ValueError(
            f"matrix must be connected, but it has {parts} components: "
            "agents of different components could never agree; add links between them "
            "(from_matrix(W, check=False) admits any non-negative W)"
        )


def _list_entries(weights: csr_array[Any, tuple[int, int]]) -> NDArray[np.void]:
    """Return the entries (row, column, weight) of a sparse matrix, sorted.

    An explicit zero in the last corner preserves N where the last row or column is empty.
    """
    table = weights.tocoo()
    corner = weights.shape[0] - 1
    rows = table.row
    columns = table.col
    values = table.data
    if weights.indptr[-1] == weights.indptr[-2] or columns[-1] != corner:
        rows = np.append(rows, corner)
        columns = np.append(columns, corner)
        values = np.append(values, 0.0)
    fields = [("row", np.int64), ("column", np.int64), ("weight", np.float64)]
    entries = np.empty(len(values), dtype=fields)
    entries["row"] = rows
    entries["column"] = columns
    entries["weight"] = values
    return entries
