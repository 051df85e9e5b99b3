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


@functools.lru_cache(maxsize=32)
def mixing_errors(network: Network) -> FloatArray:
    """eps_i = N sum_p sum_{j >= 2} |l_p l_j|/(1 - |l_p l_j|) nu_pj |u_p u_j|_i: (N,).

    nu_pj is the sum of the positive entries of u_p u_j. (The source tells three cases apart by
    signs; eigenvectors being orthogonal, the positive and the negative entries have equal sums, and
    all three are this.) It depends on the eigenvectors chosen where eigenvalues repeat, which are
    those of `eigh`; on a 10 x 10 grid other ones change the regret by up to 2%.
    """
    weights = network.weights
    dense = weights if isinstance(weights, np.ndarray) else weights.toarray()
    values, vectors = np.linalg.eigh(dense)
    values, vectors = values[::-1], vectors[:, ::-1]  # l_1 = 1 first
    errors = np.zeros(network.n_agents)
    for p, value in enumerate(values):
        products = value * values[1:]  # l_p l_j
        v = vectors[:, [p]] * vectors[:, 1:]  # (N, N - 1): entry i of u_p u_j
        nu = np.where(v > 0, v, 0).sum(axis=0)  # (N - 1,)
        errors += abs(v) @ (nu * abs(products) / (1 - abs(products)))
    return np.asarray(network.n_agents * errors)
