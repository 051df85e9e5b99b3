"""Least-squares weights: the symmetric weights of a graph with the least cost of the network.

Xiao, Boyd and Kim, "Distributed average consensus with least-mean-square deviation", 2007. Over
link weights w >= 0 with w_ii = 1 - (sum of the links of agent i) >= 0 they minimise

    sum over eigenvalues l != 1 of 1 / (1 - l^2) = tr A^-1 / 2 + tr C^-1 / 2 + constant,
    A = I - W + 11^T/N,  C = I + W - 11^T/N,

which is convex in w and, up to constants, N times the cost S2 of `posse.theory.network_cost`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from posse.networks.graphs import Graph, IntArray
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
    objective = _Objective(graph)
    value = objective.evaluate(links)
    barrier = value / n_slacks
    while True:
        links = _minimise_stage(objective, links, barrier)
        value = objective.evaluate(links)
        if barrier * n_slacks <= ACCURACY * value:
            return links
        barrier *= SHRINK


class _Objective:
    """tr A^-1 / 2 + tr C^-1 / 2 of link weights, its gradient and its Hessian."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.edges: IntArray = graph.edges

    def slacks(self, links: FloatArray) -> FloatArray:
        """Return w_ii of every agent, (N,)."""
        sums = np.bincount(self.edges.ravel(), np.repeat(links, 2), self.graph.n_agents)
        return np.asarray(1 - sums)

    def invert(self, links: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return A^-1 and C^-1, (N, N) each; both matrices are positive definite inside."""
        weights = assemble_matrix(self.graph, links).toarray()
        deviation = weights - 1 / self.graph.n_agents
        identity = np.eye(self.graph.n_agents)
        return np.linalg.inv(identity - deviation), np.linalg.inv(identity + deviation)

    def evaluate(self, links: FloatArray) -> float:
        """Return the objective."""
        return float(sum(inverse.trace() for inverse in self.invert(links))) / 2

    def differentiate(
        self, links: FloatArray
    ) -> tuple[
        FloatArray, FloatArray, Callable[[FloatArray], FloatArray], Callable[[], FloatArray]
    ]:
        """Return the gradient (E,), the Hessian's diagonal (E,), its product and the Hessian.

        With b_e = e_i - e_j of link e, dA/dw_e = b_e b_e^T = -dC/dw_e, so that the gradient is
        -b_e^T A^-2 b_e / 2 + b_e^T C^-2 b_e / 2, and the Hessian is the sum of
        (b_e^T A^-1 b_f)(b_e^T A^-2 b_f) and the same of C.
        """
        pairs = [(inverse, inverse @ inverse) for inverse in self.invert(links)]
        (_, first_square), (_, second_square) = pairs
        gradient = (self._contract(second_square) - self._contract(first_square)) / 2
        diagonal = sum(
            self._contract(inverse) * self._contract(square) for inverse, square in pairs
        )

        def multiply(direction: FloatArray) -> FloatArray:
            # I - W without its diagonal completion: the Laplacian of the direction
            laplacian = np.eye(self.graph.n_agents) - assemble_matrix(self.graph, direction)
            return np.asarray(
                sum(self._contract(inverse @ laplacian @ square) for inverse, square in pairs)
            )

        def form() -> FloatArray:
            return np.asarray(
                sum(self._contract_all(inverse) * self._contract_all(square)
                    for inverse, square in pairs)
            )  # fmt: skip

        return gradient, np.asarray(diagonal), multiply, form

    def _contract(self, matrix: FloatArray) -> FloatArray:
        """Return b_e^T M b_e of every link, (E,)."""
        i, j = self.edges.T
        diagonal = matrix.diagonal()
        return np.asarray(diagonal[i] + diagonal[j] - matrix[i, j] - matrix[j, i])

    def _contract_all(self, matrix: FloatArray) -> FloatArray:
        """Return b_e^T M b_f of every two links, (E, E)."""
        i, j = self.edges.T
        rows = matrix[i] - matrix[j]
        return np.asarray(rows[:, i] - rows[:, j])


def _minimise_stage(objective: _Objective, links: FloatArray, barrier: float) -> FloatArray:
    """Minimise the objective minus `barrier` times the logarithms of the slacks, by Newton."""

    def penalise(links: FloatArray) -> float:
        slacks = np.append(links, objective.slacks(links))
        if slacks.min() <= 0:
            return np.inf
        return objective.evaluate(links) - barrier * float(np.log(slacks).sum())

    value = penalise(links)
    for _ in range(MOST_STEPS):
        slacks = objective.slacks(links)
        gradient, diagonal, multiply, form = objective.differentiate(links)
        i, j = objective.edges.T
        slope = gradient - barrier / links + barrier * (1 / slacks[i] + 1 / slacks[j])
        own = barrier / links**2  # curvature of the barrier of w, (E,)
        shared = barrier / slacks**2  # of w_ii, (N,): couples all links of an agent
        if len(links) <= MOST_DIRECT:
            step = _solve_directly(objective, form(), own, shared, slope)
        else:
            step = _solve_iteratively(objective, multiply, diagonal, own, shared, slope)
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
    objective: _Objective,
    hessian: FloatArray,
    own: FloatArray,
    shared: FloatArray,
    slope: FloatArray,
) -> FloatArray:
    """Solve the Newton system by a Cholesky factorisation."""
    from scipy.linalg import cho_factor, cho_solve

    incidence = _incidence(objective)
    hessian = hessian + (incidence * shared) @ incidence.T
    hessian[np.diag_indices(len(own))] += own
    return np.asarray(cho_solve(cho_factor(hessian), slope))


def _solve_iteratively(
    objective: _Objective,
    multiply: Callable[[FloatArray], FloatArray],
    diagonal: FloatArray,
    own: FloatArray,
    shared: FloatArray,
    slope: FloatArray,
) -> FloatArray:
    """Solve the Newton system by conjugate gradients, for too many links to form it.

    The preconditioner has the barrier exactly and the diagonal of the objective's Hessian; it is
    inverted by Woodbury's identity with a matrix of agents.
    """
    from scipy.linalg import cho_factor, cho_solve
    from scipy.sparse.linalg import LinearOperator, cg

    i, j = objective.edges.T
    n_agents = objective.graph.n_agents
    weights = 1 / (diagonal + own)
    inner = np.zeros((n_agents, n_agents))
    inner[i, j] = weights
    inner += inner.T
    sums = np.bincount(objective.edges.ravel(), np.repeat(weights, 2), n_agents)
    inner[np.diag_indices(n_agents)] = sums + 1 / shared
    factor = cho_factor(inner)

    def gather(direction: FloatArray) -> FloatArray:
        return np.asarray(
            np.bincount(objective.edges.ravel(), np.repeat(direction, 2), n_agents), dtype=float
        )

    def apply(direction: FloatArray) -> FloatArray:
        direction = direction.ravel()
        pulled = shared * gather(direction)
        return np.asarray(multiply(direction) + own * direction + pulled[i] + pulled[j])

    def precondition(direction: FloatArray) -> FloatArray:
        direction = direction.ravel()
        agents = cho_solve(factor, gather(weights * direction))
        return np.asarray(weights * (direction - agents[i] - agents[j]))

    shape = (len(slope), len(slope))
    step, _ = cg(
        LinearOperator(shape, matvec=apply, dtype=np.float64),
        slope,
        rtol=1e-6,
        maxiter=500,
        M=LinearOperator(shape, matvec=precondition, dtype=np.float64),
    )
    return np.asarray(step)


def _incidence(objective: _Objective) -> FloatArray:
    """Return which links belong to which agents: (E, N) of 0 and 1."""
    incidence = np.zeros((len(objective.edges), objective.graph.n_agents))
    rows = np.arange(len(objective.edges))
    incidence[rows, objective.edges[:, 0]] = 1.0
    incidence[rows, objective.edges[:, 1]] = 1.0
    return incidence
