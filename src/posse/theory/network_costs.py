"""The network cost S2: how unevenly an observation counts among the agents while it spreads.

An observation that was merged t times counts at agent i with the weights of row i of
Phi(t) = W(t) ... W(1), where an even 1/N at every agent would be ideal. The cost is the squared
deviation, summed over the life of the observation and averaged over agents,

    S2 = (1/N) sum over t >= 1 of E ||Phi(t) - 11^T/N||_F^2.

For a static symmetric W with eigenvalues l it is (1/N) sum over l != 1 of l^2 / (1 - l^2). For
independent W(t) the deviation D(t) = E[Phi Phi^T] - 11^T/N follows D(t) = E[W D(t-1) W^T].

Push-sum merges by shares P whose columns sum to 1, and divides by masses that tend to N pi, with pi
the stationary distribution of P. There an observation counts with (P^t)_ij / (N pi_i) in place of
(W^t)_ij; for doubly stochastic P this is the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from posse.networks import (
    TRANSITIVE,
    LinkFailure,
    Network,
    Static,
    is_symmetric,
    structured_spectrum,
)
from posse.randomness import FloatArray, Streams, create_generator
from posse.validation import validate_choice, validate_integer

SPECTRUM_LIMIT = 2000  # agents up to which all eigenvalues of W are computed
RECURSION_LIMIT = 400  # agents up to which E[W D W^T] is iterated or solved exactly
MOST_RECURSION = 2e10  # multiplications of a truncated recursion; beyond, samples are faster
# Samples: independent runs of the network, each with some random sign vectors.
RUNS = 40
SIGNS = 16
MOST_SAMPLED = 4e9  # multiplications of all samples together
MERGES = ("average", "push-sum")  # of `Decentralized` and of `PushSum`
SETTLED = 1e-7  # the share of a round in the sum so far at which a sum has converged


@dataclass(frozen=True)
class NetworkCost:
    """What a network costs, about in pulls per agent (docs/network-price.md).

    total: S2, the mean of the costs of all agents
    per_agent: the cost of each agent, (N,); None for more than 2000 agents that are not alike and
               whose eigenvectors would be needed
    standard_error: of the total, where it is estimated from samples; 0 where it is exact
    """

    total: float
    per_agent: FloatArray | None = field(repr=False)
    standard_error: float = 0.0

    def __str__(self) -> str:
        error = f" ± {self.standard_error:.2g}" if self.standard_error else ""
        return f"about {self.total:.3g}{error} pulls per agent"


def network_cost(
    network: Network, rounds: int | None = None, merge: str = "average"
) -> NetworkCost:
    """Compute the cost S2 of a network: the larger, the more dec-TS pays for slow mixing.

    rounds: sum over the first so many rounds of an observation's life only; None for all
    merge: "average" for the weights W(t) of `Decentralized`, "push-sum" for the shares of `PushSum`
           (static networks only, directed ones too)

    Exact for static networks up to 2000 agents and for structured ones of any size, and for
    gossip and failing links up to 400 agents. Estimated otherwise, with a standard error: from
    samples of W(t), and for user-defined dynamics from observations of the first round.

    >>> cost = theory.network_cost(posse.networks.star(36))
    >>> round(cost.total, 1), [round(float(x), 1) for x in cost.per_agent[:2]]
    (16.3, [0.0, 16.8])
    """
    if rounds is not None:
        rounds = validate_integer("rounds", rounds, at_least=1)
    push_sum = validate_choice("merge", merge, MERGES) == "push-sum"
    if network.n_agents == 1:
        return NetworkCost(0.0, np.zeros(1))
    per_agent: FloatArray | None
    if push_sum:
        shares, masses = _find_shares(network)
        # P - pi 1^T, whose powers are P^t - pi 1^T
        deviation = shares - masses[:, None] / network.n_agents
        per_agent = _sum_powers(deviation, rounds) / masses**2
        return NetworkCost(float(per_agent.mean()), per_agent)
    _refuse_unsuitable(network)
    if _is_static(network):
        spectrum = structured_spectrum(network)
        if spectrum is not None and (
            network.graph in TRANSITIVE or network.n_agents > SPECTRUM_LIMIT
        ):
            return _sum_structured(network, *spectrum, rounds)
        if network.n_agents <= SPECTRUM_LIMIT:
            per_agent = (
                _sum_spectrum(network, rounds)
                if is_symmetric(network.weights)
                else _sum_powers(_dense_weights(network) - 1 / network.n_agents, rounds)
            )
            return NetworkCost(float(per_agent.mean()), per_agent)
    elif _has_recursion(network, rounds):
        per_agent = _solve_recursion(network) if rounds is None else _sum_recursion(network, rounds)
        return NetworkCost(float(per_agent.mean()), per_agent)
    return _sample_cost(network, rounds)


def compute_decay(network: Network, rounds: int) -> FloatArray:
    """Return the decay g(s), s = 0..rounds: the mean sum of squared weights of a row of Phi(s).

    g(0) = 1 (an observation counts at one agent only) and g decreases to 1/N: (rounds + 1,).
    """
    n_agents = network.n_agents
    ages = np.arange(rounds + 1)
    if n_agents == 1:
        return np.ones(rounds + 1)
    _refuse_unsuitable(network)
    if _is_static(network) and n_agents <= SPECTRUM_LIMIT and is_symmetric(network.weights):
        values = np.linalg.eigvalsh(_dense_weights(network))[:-1]
        squares, counts = np.unique(np.round(values**2, 12), return_counts=True)
        return 1 / n_agents + (counts @ squares[:, None] ** ages) / n_agents
    if _has_recursion(network) and not _is_static(network):
        nodes, shares = _lanczos_quadrature(network, steps=20 + 2 * math.isqrt(rounds))
        return 1 / n_agents + shares @ nodes[:, None] ** ages
    # a mean over agents, so that large networks need few runs
    runs = max(4, min(RUNS, 4000 // n_agents))
    samples = [
        [squares.mean() for squares in _sample_squares(network, run, rounds)] for run in range(runs)
    ]
    return np.append(1.0, np.mean(samples, axis=0) + 1 / n_agents)


class CostShares(NamedTuple):
    """Where the cost of a network comes from, as shares between 0 and 1."""

    own: float  # from an agent's own observations, of the cost under E[W]
    random: float  # added by the randomness of W(t), of the whole cost


def split_cost(network: Network) -> CostShares | None:
    """Split the cost of a network; None where it is not known exactly, as in `network_cost`.

    The first share is near 1 on a star, where a leaf's own observations stay with it, and small on
    a path, where neighbours share them.
    """
    if network.n_agents == 1:
        return CostShares(0.0, 0.0)
    _refuse_unsuitable(network)
    static = _is_static(network)
    if network.n_agents > SPECTRUM_LIMIT or not (static or _has_recursion(network)):
        return None
    weights = _dense_weights(network)
    if not is_symmetric(weights):
        return None
    values, vectors = np.linalg.eigh(weights)
    values = values[:-1]
    squares = vectors[:, :-1] ** 2
    products = np.outer(values, values)
    sums = products / np.maximum(1 - products, 1e-300)  # of (l_k l_m)^t over t >= 1
    # (W^t)_ii - 1/N = sum over k of l_k^t u_k(i)^2, so its squares sum up to a quadratic form
    own = float(((squares @ sums) * squares).sum())
    expected = float((squares @ sums.diagonal()).sum())
    if expected < 1e-12:  # all weights are 1/N
        return CostShares(0.0, 0.0)
    total = expected if static else float(_solve_recursion(network).sum())
    return CostShares(own / expected, max(0.0, 1 - expected / total))


def follow_push_sum(network: Network, rounds: int) -> tuple[FloatArray, CostShares]:
    """Return the decay g(s) of push-sum, s = 0..rounds, and the shares of its cost by then."""
    n_agents = network.n_agents
    if n_agents == 1:
        return np.ones(rounds + 1), CostShares(0.0, 0.0)
    from scipy.sparse import csr_array

    dense_shares, masses = _find_shares(network)
    shares = csr_array(dense_shares)
    power = np.eye(n_agents)
    decay = np.empty(rounds + 1)
    own = 0.0
    total = 0.0
    for age in range(rounds + 1):
        weights = power / masses[:, None]
        decay[age] = (weights**2).sum() / n_agents
        if age > 0:
            own += float(((weights.diagonal() - 1 / n_agents) ** 2).sum())
            total += float(((weights - 1 / n_agents) ** 2).sum())
        power = shares @ power
    return decay, CostShares(own / total if total > 1e-12 else 0.0, 0.0)


def _find_shares(network: Network) -> tuple[FloatArray, FloatArray]:
    """Return the shares P (N, N) of push-sum and the masses (N,) to which its agents tend."""
    _refuse_recipe(network)
    if not _is_static(network) or network.n_agents > SPECTRUM_LIMIT:
        raise ValueError(
            f'merge="push-sum" needs a static network of at most {SPECTRUM_LIMIT} agents, got '
            f"{network}: simulate posse.PushSum instead"
        )
    if not getattr(network.rule, "check", True):  # so perhaps not connected
        raise ValueError('merge="push-sum" needs a network whose matrix was checked')
    shares = _to_dense(network.shares)
    # P y = y and sum of y = N, in place of one equation that follows from the others
    equations = shares - np.eye(network.n_agents)
    equations[-1] = 1.0
    right = np.zeros(network.n_agents)
    right[-1] = network.n_agents
    return shares, np.asarray(np.linalg.solve(equations, right), dtype=np.float64)


def _refuse_unsuitable(network: Network) -> None:
    """Refuse networks without products of doubly stochastic weights."""
    _refuse_recipe(network)
    if network.is_directed:
        raise ValueError(
            'a directed network has no doubly stochastic weights: use merge="push-sum"'
        )
    if not network.is_stochastic:
        raise ValueError("the cost of a network needs doubly stochastic weights")


def _refuse_recipe(network: Network) -> None:
    if network.is_recipe:
        raise ValueError(
            "this network is a fresh graph in every run: use network.of_run(seed, run)"
        )


def _is_static(network: Network) -> bool:
    return isinstance(network.dynamics, Static)


def _has_recursion(network: Network, rounds: int | None = None) -> bool:
    """Return whether E[W D W^T] is known, and cheap enough for this number of steps."""
    # of one step: two products of a sparse and a dense matrix
    multiplications = 4.0 * network.n_agents * (network.n_agents + 2 * network.n_links)
    if rounds is not None and rounds * multiplications > MOST_RECURSION:
        return False
    if network.n_agents > RECURSION_LIMIT or not hasattr(network.dynamics, "expected_product"):
        return False
    # with normalise="realised" neither E[W] nor the product has a closed form
    dynamics = network.dynamics
    return not (isinstance(dynamics, LinkFailure) and dynamics.normalise == "realised")


def _dense_weights(network: Network) -> FloatArray:
    return _to_dense(network.expected_weights)


def _to_dense(matrix: Any) -> FloatArray:
    return np.asarray(matrix.toarray() if hasattr(matrix, "toarray") else matrix)


def _sum_geometric(squares: FloatArray, gaps: FloatArray, rounds: int | None) -> FloatArray:
    """Sum x^t over t = 1..rounds for x = `squares`, where `gaps` is 1 - x, exact however small."""
    # A periodic W has l = -1, and the deviation never decreases.
    periodic = gaps < 1e-14
    gaps = np.where(periodic, 0.5, gaps)
    if rounds is None:
        return np.where(periodic, np.inf, squares / gaps)
    # x^rounds by the logarithm of the gap, which is exact for slow modes; a fast x may be 0
    slow = np.minimum(gaps, 0.5)
    remaining = np.where(gaps < 0.5, np.exp(rounds * np.log1p(-slow)), squares**rounds)
    return np.where(periodic, rounds, squares * (1 - remaining) / gaps)


def _sum_structured(
    network: Network, steps: FloatArray, counts: FloatArray, rounds: int | None
) -> NetworkCost:
    """Sum over the eigenvalues of a structured graph, in which agents may be all alike."""
    n_agents = network.n_agents
    # 1 - l^2 = step (2 - step) for l = 1 - step
    gaps = steps[1:] * (2 - steps[1:])
    total = float(counts[1:] @ _sum_geometric((1 - steps[1:]) ** 2, gaps, rounds)) / n_agents
    alike = network.graph in TRANSITIVE
    return NetworkCost(total, np.full(n_agents, total) if alike else None)


def _sum_spectrum(network: Network, rounds: int | None) -> FloatArray:
    """Return the cost of each agent under a symmetric W, from its eigenvectors: (N,)."""
    values, vectors = np.linalg.eigh(_dense_weights(network))
    values = values[:-1]
    gaps = (1 - values) * (1 + values)
    return np.asarray(vectors[:, :-1] ** 2 @ _sum_geometric(values**2, gaps, rounds))


def _sum_powers(deviation: FloatArray, rounds: int | None) -> FloatArray:
    """Return the sum over t of ||row i of B^t||^2, by doubling: B (N, N) -> (N,).

    B is W - 11^T/N for any doubly stochastic W. With X(t) = sum over s = 1..t of B^s (B^s)^T, the
    sum of s rounds followed by t more is X(s + t) = X(s) + B^s X(t) (B^s)^T.
    """
    # bits of the number of rounds, the highest first; a converged sum needs 60 doublings at most
    bits = [True] * 60 if rounds is None else [bit == "1" for bit in f"{rounds:b}"]
    power = np.eye(len(deviation))
    total = np.zeros_like(deviation)
    for bit in bits:
        total = total + power @ total @ power.T
        power = power @ power
        if bit:
            total = deviation @ total @ deviation.T + deviation @ deviation.T
            power = power @ deviation
        if np.abs(power).max() < 1e-20:  # all that follows adds nothing
            break
    else:
        if rounds is None:  # a periodic W, as a rotation
            return np.full(len(deviation), np.inf)
    return total.diagonal().copy()


def _start_deviation(n_agents: int) -> FloatArray:
    return np.eye(n_agents) - 1 / n_agents


def _sum_recursion(network: Network, rounds: int) -> FloatArray:
    """Return the cost of each agent by so many steps of D(t) = E[W D(t-1) W^T]: (N,)."""
    deviation = _start_deviation(network.n_agents)
    total = np.zeros(network.n_agents)
    for _ in range(rounds):
        deviation = network.dynamics.expected_product(network, deviation)
        total += deviation.diagonal()
    return total


def _solve_recursion(network: Network) -> FloatArray:
    """Return the cost of each agent by solving X = L(X) + L(D(0)), L(D) = E[W D W^T]: (N,).

    L is self-adjoint for symmetric W(t) and contracts all D with rows that sum to 0, so conjugate
    gradients apply. The preconditioner inverts D - E[W] D E[W] in the eigenbasis of E[W].
    """
    from scipy.sparse.linalg import LinearOperator, cg

    n_agents = network.n_agents
    values, vectors = np.linalg.eigh(_dense_weights(network))
    gaps = 1 - np.outer(values, values)
    gaps[-1, -1] = 1.0  # of the constant vector, along which every D is 0

    def subtract_product(x: FloatArray) -> FloatArray:
        matrix = x.reshape(n_agents, n_agents)
        matrix = (matrix + matrix.T) / 2
        return np.asarray(matrix - network.dynamics.expected_product(network, matrix)).ravel()

    def precondition(x: FloatArray) -> FloatArray:
        matrix = vectors.T @ x.reshape(n_agents, n_agents) @ vectors / gaps
        return np.asarray(vectors @ matrix @ vectors.T).ravel()

    shape = (n_agents**2, n_agents**2)
    right = network.dynamics.expected_product(network, _start_deviation(n_agents)).ravel()
    solution, failed = cg(
        LinearOperator(shape, matvec=subtract_product, dtype=np.float64),
        right,
        rtol=1e-11,
        maxiter=2000,
        M=LinearOperator(shape, matvec=precondition, dtype=np.float64),
    )
    if failed:
        raise ValueError(f"the cost of {network} did not converge: give rounds")
    return np.asarray(solution.reshape(n_agents, n_agents).diagonal()).copy()


def _lanczos_quadrature(network: Network, steps: int) -> tuple[FloatArray, FloatArray]:
    """Return nodes r and shares w with tr D(s) / N = sum of w r^s, exact for s < 2 steps.

    Lanczos iterations of L(D) = E[W D W^T] from D(0) give the Gauss quadrature of tr D(0) L^s D(0).
    """
    from scipy.linalg import eigh_tridiagonal

    n_agents = network.n_agents
    vector = _start_deviation(n_agents)
    size = float(np.linalg.norm(vector))
    basis = np.empty((steps, vector.size))
    basis[0] = vector.ravel() / size
    diagonal: list[float] = []
    below: list[float] = []
    while True:
        count = len(diagonal) + 1
        last = basis[count - 1]
        step = network.dynamics.expected_product(network, last.reshape(vector.shape)).ravel()
        diagonal.append(float(step @ last))
        # Orthogonal to all vectors so far, twice: rounding lets old ones return and grow. So would
        # parts that are not symmetric, or not orthogonal to the constant vector.
        for _ in range(2):
            step = step - (basis[:count] @ step) @ basis[:count]
        matrix = step.reshape(vector.shape)
        matrix = (matrix + matrix.T) / 2
        means = matrix.mean(axis=0)
        step = (matrix - means - means[:, None] + means.mean()).ravel()
        length = float(np.linalg.norm(step))
        if length < 1e-9 or count == steps:
            break
        below.append(length)
        basis[count] = step / length
    nodes, vectors = eigh_tridiagonal(diagonal, below)
    return nodes, vectors[0] ** 2 * size**2 / n_agents


def _sample_cost(network: Network, rounds: int | None) -> NetworkCost:
    """Estimate the cost of each agent from random signs z: E[((Phi - 11^T/N) z)_i^2] of agent i."""
    per_round = 2.0 * network.n_links + network.n_agents
    most = int(MOST_SAMPLED / (RUNS * SIGNS * per_round))
    totals = np.empty((RUNS, network.n_agents))
    for run in range(RUNS):
        total = np.zeros(network.n_agents)
        for squares in _sample_squares(network, run, most if rounds is None else rounds):
            total += squares
            if rounds is None and squares.sum() <= SETTLED * total.sum():
                break
        else:
            if rounds is None:
                raise ValueError(
                    f"the cost of {network} did not converge in {most:,} rounds: give rounds"
                )
        totals[run] = total
    by_run = totals.mean(axis=1)
    error = float(by_run.std(ddof=1) / math.sqrt(RUNS))
    return NetworkCost(float(by_run.mean()), totals.mean(axis=0), error)


def _sample_squares(network: Network, run: int, rounds: int) -> Iterator[FloatArray]:
    """Yield after each round the squares of Phi z - mean(z), averaged over some signs z: (N,)."""
    signs = create_generator(0, run, "signs")
    draw = network.sampler(1)
    stream = Streams([create_generator(0, run, "network")])
    x = signs.choice([-1.0, 1.0], (1, network.n_agents, SIGNS))
    x -= x.mean(axis=1, keepdims=True)
    for t in range(1, rounds + 1):
        x = draw(stream, t) @ x
        yield np.asarray((x[0] ** 2).mean(axis=-1))
