"""Least-squares weights: the symmetric weights of a graph with the least cost of the network.

Xiao, Boyd and Kim, "Distributed average consensus with least-mean-square deviation", 2007. Over
link weights w >= 0 with w_ii = 1 - (sum of the links of agent i) >= 0 they minimise

    sum over eigenvalues l != 1 of 1 / (1 - l^2) = tr A^-1 / 2 + tr C^-1 / 2 + constant,
    A = I - W + 11^T/N,  C = I + W - 11^T/N,

which is convex in w and, up to constants, N times the cost S2 of `posse.theory.network_cost`.
"""

from __future__ import annotations

import functools

import numpy as np

from posse.networks.graphs import Graph
from posse.networks.weights import FloatArray, assemble_matrix, weigh_by_metropolis

MOST_AGENTS = 1000
MOST_DIRECT = 1200  # links up to which the Newton system is formed and factorised
# The barrier ends when its duality gap is this share of the objective.
ACCURACY = 1e-10
SHRINK = 0.1  # of the barrier's weight from one stage to the next
MOST_STEPS = 100  # Newton steps of a stage; three or four are usual


def minimise_deviation(graph: Graph) -> FloatArray:
    """Return the link weights (E,) with the least squared deviation, all positive.

    An interior-point method: Newton steps on the objective minus mu times the sum of the logarithms
    of all slacks (w and w_ii), for a decreasing mu. Its duality gap is mu times the number of
    slacks. Weights that are 0 at the optimum come out tiny and positive.
    """
    if graph.n_agents > MOST_AGENTS:
        raise ValueError(
            f"weights 'least-squares' are computed for at most {MOST_AGENTS} agents, "
            f"got {graph.n_agents}: use 'metropolis'"
        )
    links = weigh_by_metropolis(graph)  # strictly inside: every w and w_ii is positive
    if not len(links):
        return links
    n_slacks = len(links) + graph.n_agents
    value = _Point(graph, links).value
    barrier = value / n_slacks
    while True:
        links = _minimise_stage(graph, links, barrier)
        value = _Point(graph, links).value
        if barrier * n_slacks <= ACCURACY * value:
            return links
        barrier *= SHRINK


class _Point:
    """The objective tr A^-1 / 2 + tr C^-1 / 2 and its derivatives at some link weights.

    With b_e = e_i - e_j of link e, dA/dw_e = b_e b_e^T = -dC/dw_e.
    """

    def __init__(self, graph: Graph, links: FloatArray) -> None:
        self.graph = graph
        deviation = assemble_matrix(graph, links).toarray() - 1 / graph.n_agents
        identity = np.eye(graph.n_agents)
        # A^-1 and C^-1, (N, N) each; both matrices are positive definite inside
        self.inverses = [np.linalg.inv(identity - deviation), np.linalg.inv(identity + deviation)]

    @property
    def value(self) -> float:
        """The objective."""
        return float(sum(inverse.trace() for inverse in self.inverses)) / 2

    @functools.cached_property
    def squares(self) -> list[FloatArray]:
        """A^-2 and C^-2."""
        return [inverse @ inverse for inverse in self.inverses]

    @property
    def gradient(self) -> FloatArray:
        """-b_e^T A^-2 b_e / 2 + b_e^T C^-2 b_e / 2 of every link, (E,)."""
        first, second = (self._contract(square) for square in self.squares)
        return (second - first) / 2

    @property
    def hessian_diagonal(self) -> FloatArray:
        """The diagonal of the Hessian, (E,)."""
        first, second = (
            self._contract(inverse) * self._contract(square)
            for inverse, square in zip(self.inverses, self.squares, strict=True)
        )
        return first + second

    def form_hessian(self) -> FloatArray:
        """Return (b_e^T A^-1 b_f)(b_e^T A^-2 b_f) + the same of C of every two links: (E, E)."""
        first, second = (
            self._contract_all(inverse) * self._contract_all(square)
            for inverse, square in zip(self.inverses, self.squares, strict=True)
        )
        return first + second

    def multiply_hessian(self, direction: FloatArray) -> FloatArray:
        """Return the product of the Hessian and a direction (E,), without forming the Hessian."""
        # the Laplacian with the direction as link weights
        laplacian = np.eye(self.graph.n_agents) - assemble_matrix(self.graph, direction).toarray()
        first, second = (
            self._contract(inverse @ laplacian @ square)
            for inverse, square in zip(self.inverses, self.squares, strict=True)
        )
        return first + second

    def _contract(self, matrix: FloatArray) -> FloatArray:
        """Return b_e^T M b_e of every link, (E,)."""
        i, j = self.graph.edges.T
        diagonal = matrix.diagonal()
        return np.asarray(diagonal[i] + diagonal[j] - matrix[i, j] - matrix[j, i])

    def _contract_all(self, matrix: FloatArray) -> FloatArray:
        """Return b_e^T M b_f of every two links, (E, E)."""
        i, j = self.graph.edges.T
        rows = matrix[i] - matrix[j]
        return np.asarray(rows[:, i] - rows[:, j])


def _sum_links(graph: Graph, links: FloatArray) -> FloatArray:
    """Sum a number of every link (E,) over the links of each agent: (N,)."""
    sums = np.bincount(graph.edges.ravel(), np.repeat(links, 2), graph.n_agents)
    return np.asarray(sums, dtype=np.float64)


def _minimise_stage(graph: Graph, links: FloatArray, barrier: float) -> FloatArray:
    """Minimise the objective minus `barrier` times the logarithms of the slacks, by Newton."""

    def penalise(links: FloatArray) -> float:
        slacks = np.append(links, 1 - _sum_links(graph, links))
        if slacks.min() <= 0:
            return np.inf
        return _Point(graph, links).value - barrier * float(np.log(slacks).sum())

    i, j = graph.edges.T
    value = penalise(links)
    for _ in range(MOST_STEPS):
        slacks = 1 - _sum_links(graph, links)  # w_ii
        point = _Point(graph, links)
        slope = point.gradient - barrier / links + barrier * (1 / slacks[i] + 1 / slacks[j])
        own = barrier / links**2  # curvature of the barrier of w, (E,)
        shared = barrier / slacks**2  # of w_ii, (N,): couples all links of an agent
        solve = _solve_directly if len(links) <= MOST_DIRECT else _solve_iteratively
        step = solve(point, own, shared, slope)
        decrement = float(step @ slope)
        # The duality gap is barrier times the number of slacks: this error is far below it.
        if decrement <= 1e-3 * barrier:
            break
        # Backtrack until the step stays inside and decreases enough (Armijo).
        length = 1.0
        while (trial := penalise(links - length * step)) > value - 0.25 * length * decrement:
            length /= 2
            if length < 1e-12:  # rounding hides the decrease: the stage is done
                return links
        links = links - length * step
        value = trial
    return links


def _solve_directly(
    point: _Point, own: FloatArray, shared: FloatArray, slope: FloatArray
) -> FloatArray:
    """Solve the Newton system by a Cholesky factorisation."""
    from scipy.linalg import cho_factor, cho_solve

    links = np.arange(len(own))
    incidence = np.zeros((len(own), point.graph.n_agents))  # which links belong to which agents
    incidence[links, point.graph.edges[:, 0]] = 1.0
    incidence[links, point.graph.edges[:, 1]] = 1.0
    hessian = point.form_hessian() + (incidence * shared) @ incidence.T
    hessian[links, links] += own
    return np.asarray(cho_solve(cho_factor(hessian), slope))


def _solve_iteratively(
    point: _Point, own: FloatArray, shared: FloatArray, slope: FloatArray
) -> FloatArray:
    """Solve the Newton system by conjugate gradients, for too many links to form it.

    The preconditioner has the barrier exactly and the diagonal of the objective's Hessian; it is
    inverted by Woodbury's identity with a matrix of agents.
    """
    from scipy.linalg import cho_factor, cho_solve
    from scipy.sparse.linalg import LinearOperator, cg

    graph = point.graph
    i, j = graph.edges.T
    agents = np.arange(graph.n_agents)
    weights = 1 / (point.hessian_diagonal + own)
    inner = np.zeros((graph.n_agents, graph.n_agents))
    inner[i, j] = weights
    inner[j, i] = weights
    inner[agents, agents] = _sum_links(graph, weights) + 1 / shared
    factor = cho_factor(inner)

    def multiply(direction: FloatArray) -> FloatArray:
        direction = direction.ravel()
        pulled = shared * _sum_links(graph, direction)
        return np.asarray(
            point.multiply_hessian(direction) + own * direction + pulled[i] + pulled[j]
        )

    def precondition(direction: FloatArray) -> FloatArray:
        direction = direction.ravel()
        solved = cho_solve(factor, _sum_links(graph, weights * direction))
        return np.asarray(weights * (direction - solved[i] - solved[j]))

    shape = (len(slope), len(slope))
    step, _ = cg(
        LinearOperator(shape, matvec=multiply, dtype=np.float64),
        slope,
        rtol=1e-6,
        maxiter=500,
        M=LinearOperator(shape, matvec=precondition, dtype=np.float64),
    )
    return np.asarray(step)
