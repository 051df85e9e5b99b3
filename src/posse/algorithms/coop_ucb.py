"""coop-UCB: a confidence bound that knows how well each agent's position mixes."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from posse import checks
from posse.algorithms.algorithm import Problem
from posse.algorithms.consensus import Index, RunningConsensus, ucb_scale
from posse.algorithms.forced import check_static
from posse.networks.network import Network
from posse.randomness import FloatArray


@dataclass(frozen=True)
class CoopUCB(RunningConsensus):
    """Q = s/n + sigma sqrt(2 gamma (n + eps_i)/(N n) ln t / n), gamma = `exploration`.

    Landgren et al. 2016; checked against public code. The agent must know N, sigma and the whole
    spectrum of W with its eigenvectors, so W must be static and symmetric.

    exploration: gamma, above 0; more explores longer.
    sigma: the sub-Gaussian constant of rewards; None takes the bandit's own.
    charge_initial: False leaves out the regret of the first K rounds, as published curves do.
    """

    name: ClassVar[str] = "coop-ucb"

    exploration: float = 1.01

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.number("exploration", self.exploration, above=0)

    def check(self, problem: Problem) -> None:
        """A static, symmetric W that mixes."""
        super().check(problem)
        check_static(problem, "CoopUCB")
        if problem.network.second_eigenvalue > 1 - 1e-12:
            raise ValueError(f"CoopUCB needs weights that mix, got {problem.network}")

    def index(self, problem: Problem) -> Index:
        """Slack eps_i for agent i."""
        return Index(0.0, 0.0, 0.0, mixing_errors(problem.network))

    def scale(self, problem: Problem, t: int) -> float:
        """2 gamma sigma^2 ln t / N."""
        return ucb_scale(problem, self.exploration, self.sigma, t)


# Eigenvalues closer than this are one eigenspace: rounding separates equal ones by far less.
_ONE_SPACE = 1e-9


@functools.lru_cache(maxsize=32)
def mixing_errors(network: Network) -> FloatArray:
    """eps_i = N sum_{a, b} |l_a l_b|/(1 - |l_a l_b|) sum_d max(0, (P_a)_id (P_b)_id): (N,).

    a and b are eigenspaces of W, b not that of eigenvalue 1, with eigenvalues l and projections P.
    The source has a sum over pairs of eigenvectors u_p, u_j, with a weight nu_pj that is the sum of
    the positive entries of u_p u_j. (It tells three cases apart by signs; eigenvectors being
    orthogonal, the positive and the negative entries have equal sums, and all three are this.)
    That is the same number where all eigenvalues are simple. Where they repeat, as on a cycle or a
    grid, it would depend on the basis that the linear algebra library picks, and so on the
    processor; projections do not.
    """
    weights = network.weights
    dense = weights if isinstance(weights, np.ndarray) else weights.toarray()
    values, vectors = np.linalg.eigh(dense)
    values, vectors = values[::-1], vectors[:, ::-1]  # l_1 = 1 first
    starts = np.flatnonzero(np.diff(values, prepend=np.inf) < -_ONE_SPACE)
    sizes = np.diff(starts, append=len(values))
    spaces = np.add.reduceat(values, starts) / sizes  # (S,)
    products = abs(np.outer(spaces, spaces))
    factors = products / (1 - np.where(products < 1, products, 0.0))
    factors[:, 0] = 0.0  # b is not the space of eigenvalue 1
    # max(0, x) = (x + |x|)/2, and over d the x add up to (P_a P_b)_ii, which is 0 unless a is b
    inside = np.add.reduceat(vectors**2, starts, axis=1)  # (N, S): (P_a)_ii
    errors = inside @ np.diagonal(factors)
    # |(P_a)_id| is |u_i| |u_d| where the space has one vector u: N^3 steps for all agents
    lone = sizes == 1
    u = abs(vectors[:, starts[lone]])  # (N, S')
    errors += np.einsum("ia,ab,ib->i", u, factors[np.ix_(lone, lone)] * (u.T @ u), u, optimize=True)
    for i, row in enumerate(vectors if not lone.all() else ()):
        size = abs(np.add.reduceat(row[:, None] * vectors.T, starts, axis=0))  # (S, N): |(P_a)_id|
        overlaps = size[~lone] @ size.T  # (S'', S)
        errors[i] += np.sum(factors[~lone] * overlaps)
        errors[i] += np.sum(factors[np.ix_(lone, ~lone)].T * overlaps[:, lone])
    errors /= 2
    return np.asarray(network.n_agents * errors)
