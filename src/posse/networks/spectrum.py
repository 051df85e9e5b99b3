"""The spectrum of a network: how fast beliefs mix, 1 - lambda_2 in Theorem 1.

If all links have weight c, W = I - c Lap, and the eigenvalues of Lap are known in closed form for
structured graphs. An eigenvalue l of Lap gives a gap of 1 - |1 - c l| = min(c l, 2 - c l), exact
however small.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from posse.networks.graphs import LargeCompleteGraph, complete
from posse.networks.static import STATIC
from posse.networks.weights import WEIGHT_RULES, FloatArray, Matrix, is_symmetric

if TYPE_CHECKING:
    from posse.networks.network import Network

DENSE_LIMIT = 1000  # agents up to which a dense eigenvalue solver is faster
# Graphs with a smaller gap are long and thin, so a sparse factorisation has little fill-in.
THIN = 1e-4


def _path_eigenvalues(agents: int) -> FloatArray:
    # The Laplacian of a path is diagonalised by the discrete cosine transform.
    return np.asarray(4 * np.sin(np.pi * np.arange(agents) / (2 * agents)) ** 2)


def _cycle_eigenvalues(agents: int) -> FloatArray:
    # Two agents share one link, not two.
    return (
        _path_eigenvalues(2) if agents == 2 else 4 * np.sin(np.pi * np.arange(agents) / agents) ** 2
    )


def _ring_eigenvalues(agents: int, k: int) -> FloatArray:
    turns = np.pi * np.arange(agents) / agents
    return np.asarray(sum(4 * np.sin(turns * step) ** 2 for step in range(1, k + 1)))


def _product_eigenvalues(first: FloatArray, second: FloatArray) -> FloatArray:
    # The Laplacian of a Cartesian product of graphs is the Kronecker sum of their Laplacians.
    return np.add.outer(first, second).ravel()


# Eigenvalues of the Laplacian D - A, each at least once, first the zero of the constant vector.
LAPLACIANS: dict[str, Callable[..., FloatArray]] = {
    "complete": lambda agents: np.array([0.0, agents]),
    "cycle": _cycle_eigenvalues,
    "path": _path_eigenvalues,
    "star": lambda agents: np.array([0.0, agents] if agents == 2 else [0.0, 1.0, agents]),
    "grid": lambda rows, columns: _product_eigenvalues(
        _path_eigenvalues(rows), _path_eigenvalues(columns)
    ),
    "torus": lambda rows, columns: _product_eigenvalues(
        _cycle_eigenvalues(rows), _cycle_eigenvalues(columns)
    ),
    "regular_ring": _ring_eigenvalues,
    "hypercube": lambda dimension: 2.0 * np.arange(dimension + 1),
}


# How often each eigenvalue occurs, where the list above has it once only.
MULTIPLICITIES: dict[str, Callable[..., FloatArray]] = {
    "complete": lambda agents: np.array([1.0, agents - 1]),
    "star": lambda agents: np.array([1.0, 1.0] if agents == 2 else [1.0, agents - 2, 1.0]),
    "hypercube": lambda dimension: np.array(
        [math.comb(dimension, ones) for ones in range(dimension + 1)], dtype=float
    ),
}
# Graphs in which all agents are alike.
TRANSITIVE = ("complete", "cycle", "torus", "regular_ring", "hypercube")


def spectral_gap(network: Network) -> float:
    """Return 1 - lambda_2 of E[W(t)], lambda_2 its second largest absolute eigenvalue."""
    if network.n_agents == 1:
        return 1.0
    steps = _structured_steps(network)
    if steps is not None:
        return float(np.minimum(steps, 2 - steps)[1:].min())
    return compute_matrix_gap(network.expected_weights, network.is_stochastic)


def structured_spectrum(network: Network) -> tuple[FloatArray, FloatArray] | None:
    """Return the distances 1 - l of all eigenvalues l of E[W(t)] from 1, and how often each occurs.

    None unless they are known in closed form; the first is the 0 of the constant vector.
    """
    steps = None if network.n_agents == 1 else _structured_steps(network)
    if steps is None:
        return None
    count = MULTIPLICITIES.get(network.graph)
    counts = np.ones(len(steps)) if count is None else count(**network.resolve_arguments())
    return steps, counts


def _structured_steps(network: Network) -> FloatArray | None:
    """Return 1 - l of the eigenvalues l of a structured graph whose links have equal weights."""
    if network.graph not in LAPLACIANS or isinstance(network.rule, Matrix):
        return None
    by_degree = network.rule != "least-squares" and network.dynamics == STATIC
    if by_degree and isinstance(network.topology, LargeCompleteGraph):
        # on complete graphs every rule of degrees divides the same number by N
        links = WEIGHT_RULES[network.rule](complete(2)) * 2 / network.n_agents
    else:
        links = network.expected_links
    if np.ptp(links) > 0:
        return None
    return np.asarray(links[0] * LAPLACIANS[network.graph](**network.resolve_arguments()))


def compute_matrix_gap(weights: Any, stochastic: bool = True) -> float:
    """Return 1 - the second largest absolute eigenvalue of a dense or sparse matrix (N, N).

    stochastic: whether rows and columns sum to 1, so that the largest eigenvalue is 1 with the
    constant vector.
    """
    symmetric = is_symmetric(weights)
    if weights.shape[0] <= DENSE_LIMIT:
        dense = weights if isinstance(weights, np.ndarray) else weights.toarray()
        # an asymmetric W has complex eigenvalues
        values = np.linalg.eigvalsh(dense) if symmetric else np.linalg.eigvals(dense)
        return float(1 - np.sort(abs(values))[-2])
    from scipy.sparse.linalg import ArpackNoConvergence

    try:
        if symmetric and stochastic:
            return large_gap(weights)
        return arnoldi_gap(weights, stochastic)
    except ArpackNoConvergence as error:
        raise RuntimeError(
            f"the second eigenvalue of this {weights.shape[0]}-agent matrix did not converge: "
            "its spectral gap is too small to find iteratively"
        ) from error


def _deflate_constant(weights: Any) -> Any:
    """Return W minus its projection on the constant vector, as a linear operator."""
    from scipy.sparse.linalg import LinearOperator

    return LinearOperator(
        weights.shape, matvec=lambda v: weights @ v - v.mean(), dtype=np.dtype(np.float64)
    )


def _start_vector(n_agents: int) -> FloatArray:
    """Return a fixed generic vector, so that a network always has the same digits."""
    return np.random.default_rng(0).standard_normal(n_agents)


def large_gap(weights: Any) -> float:
    """Compute the gap of a large symmetric doubly stochastic matrix, by Lanczos."""
    from scipy.sparse.linalg import ArpackNoConvergence

    # A rough solution tells cheaply whether Lanczos would converge in reasonable time.
    try:
        # Lanczos needs about 1/sqrt(gap) steps, so a tiny gap is left to the inverse.
        if _lanczos_gap(weights, tolerance=1e-4) > THIN:
            return _lanczos_gap(weights, tolerance=1e-10)
    except ArpackNoConvergence:
        pass
    return inverse_gap(weights)


def _lanczos_gap(weights: Any, tolerance: float) -> float:
    from scipy.sparse.linalg import eigsh

    (value,) = eigsh(
        _deflate_constant(weights),
        k=1,
        v0=_start_vector(weights.shape[0]),
        ncv=32,
        maxiter=1000,
        tol=tolerance,
        return_eigenvectors=False,
    )
    return float(1 - abs(value))


def inverse_gap(weights: Any) -> float:
    """Compute a tiny gap, where Lanczos is slow, from the largest eigenvalue of (I - W)^-1."""
    from scipy.sparse import csc_array, eye_array
    from scipy.sparse.linalg import LinearOperator, eigsh, splu

    n_agents = weights.shape[0]
    # I - W is singular along the constant vector only: fix one agent at 0, then centre.
    solve = splu(csc_array(eye_array(n_agents) - weights)[:-1, :-1]).solve

    def inverse(v: FloatArray) -> FloatArray:
        v = v.ravel()
        u: FloatArray = np.append(solve((v - v.mean())[:-1]), 0.0)
        return np.asarray(u - u.mean())

    operator = LinearOperator((n_agents, n_agents), matvec=inverse, dtype=np.dtype(np.float64))
    start = _start_vector(n_agents)
    (value,) = eigsh(operator, k=1, which="LA", v0=start, return_eigenvectors=False)
    gap = float(1 / value)
    # Gershgorin: no eigenvalue is below 2 min W_ii - 1, so the negative end matters only if the
    # gap is larger than its distance to -1.
    if gap > 2 * weights.diagonal().min():
        (least,) = eigsh(weights, k=1, which="SA", v0=start, return_eigenvectors=False)
        gap = min(gap, float(1 + least))
    return gap


def arnoldi_gap(weights: Any, stochastic: bool) -> float:
    """Compute the gap of a large matrix that is not symmetric, or not doubly stochastic."""
    from scipy.sparse.linalg import eigs

    operator = _deflate_constant(weights) if stochastic else weights
    # Six at once: for k = 1 ARPACK may converge to a smaller eigenvalue without a warning.
    start = _start_vector(weights.shape[0])
    values = eigs(operator, k=6, ncv=64, v0=start, return_eigenvectors=False)
    return float(1 - np.sort(abs(values))[-1 if stochastic else -2])
