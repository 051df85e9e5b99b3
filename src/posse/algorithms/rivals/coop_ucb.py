"""Running consensus: the baselines coop-UCB, coop-UCB2 and coop-UCL.

Agents average their counts and sums of rewards with their neighbours and play an index of both.
"""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from posse import validation
from posse.algorithms.algorithm import Problem
from posse.algorithms.rivals.initial_pulls import (
    ForcedStart,
    check_static,
    count_numbers_averaged,
    noise_scale,
)
from posse.networks import Network
from posse.policies import argmax
from posse.randomness import FloatArray, IntArray, Randomness


@dataclass(frozen=True)
class ConsensusIndex:
    """Q = (shift + s)/(weight + n) + sqrt(scale(t) (n + slack) / (n (weight + n))).

    One form for the three algorithms; the slack is that of each agent plus `growing` sqrt(ln t).
    """

    shift: float
    weight: float
    growing: float
    slack: FloatArray  # (N,)

    def evaluate(self, counts: FloatArray, totals: FloatArray, t: int, scale: float) -> FloatArray:
        """Compute the index of every arm: (..., N, K)."""
        slack = self.slack[:, None] + self.growing * math.sqrt(math.log(t))
        total_weight = self.weight + counts
        # without observations, as after a forced round asleep, an arm is played first
        with np.errstate(divide="ignore", invalid="ignore"):
            width = np.sqrt(scale * (counts + slack) / (counts * total_weight))
            bound = (self.shift + totals) / total_weight + width
        return np.where(counts > 0, bound, np.inf)


def ucb_scale(problem: Problem, exploration: float, sigma: float | None, t: int) -> float:
    """Return 2 gamma sigma^2 ln t / N, the factor of the squared width in coop-UCB and UCB2."""
    scale = noise_scale(problem.family, sigma)
    return 2 * exploration * scale**2 * math.log(t) / problem.n_agents


@dataclass(frozen=True)
class ConsensusState:
    """Consensus estimates of plays per agent and of the sum of rewards, for each arm."""

    counts: FloatArray  # (R, N, K)
    totals: FloatArray  # (R, N, K)
    rounds: int  # played so far
    index: ConsensusIndex
    problem: Problem


@dataclass(frozen=True, kw_only=True)
class RunningConsensus(ForcedStart, ABC):
    """n <- W (n + 1{played}), s <- W (s + reward) after every round but the K forced ones.

    Landgren, Srivastava, Leonard, "Distributed cooperative decision-making in multiarmed
    bandits", ECC and CDC 2016, Automatica 2021.
    """

    accepts_idle: ClassVar[bool] = True

    @abstractmethod
    def build_index(self, problem: Problem) -> ConsensusIndex:
        """Return the constants of the index."""

    @abstractmethod
    def index_scale(self, problem: Problem, t: int) -> float:
        """Return the factor of the squared width in round t."""

    def init(self, problem: Problem) -> ConsensusState:
        """Start without observations."""
        self.check_problem(problem)
        empty = np.zeros((problem.n_runs, problem.n_agents, problem.n_arms))
        return ConsensusState(empty, empty, 0, self.build_index(problem), problem)

    def choose(self, state: ConsensusState, t: int, generator: Randomness) -> NDArray[np.intp]:
        """Choose arm t in round t <= K, then the largest index, ties at random: (R, N)."""
        if t <= state.problem.n_arms:
            return np.full(state.counts.shape[:-1], t - 1)
        scale = self.index_scale(state.problem, t)
        return argmax(state.index.evaluate(state.counts, state.totals, t, scale), generator)

    def learn(
        self, state: ConsensusState, arms: NDArray[np.intp], rewards: FloatArray, weights: Any
    ) -> ConsensusState:
        """Add the own observation, then average with the neighbours."""
        is_played = np.arange(state.problem.n_arms) == arms[..., None]
        counts = state.counts + is_played
        totals = state.totals + is_played * rewards[..., None]
        # the forced rounds are not averaged: every agent has played every arm once
        if state.rounds >= state.problem.n_arms:
            counts = weights @ counts
            totals = weights @ totals
        return replace(state, counts=counts, totals=totals, rounds=state.rounds + 1)

    def numbers_sent(self, state: ConsensusState, t: int, links: IntArray) -> FloatArray:
        """Count counts and sums of K arms over every link in use, after the forced rounds: (R,)."""
        return count_numbers_averaged(state.problem, t, links)


# coop-UCB: a confidence bound with the mixing error of each agent's position


@dataclass(frozen=True)
class CoopUCB(RunningConsensus):
    """Q = s/n + sigma sqrt(2 gamma (n + eps_i)/(N n) ln t / n), gamma = `exploration`.

    Landgren et al. 2016; checked against public code. The agent must know N, sigma and all
    eigenvalues and eigenvectors of W, so W must be static and symmetric.

    exploration: gamma, above 0; a larger value explores longer.
    sigma: the sub-Gaussian constant of rewards; None takes the bandit's own.
    charge_initial: False leaves out the regret of the first K rounds, as published curves do.
    """

    name: ClassVar[str] = "coop-ucb"
    needs_fixed_links: ClassVar[bool] = True

    exploration: float = 1.01

    def __post_init__(self) -> None:
        super().__post_init__()
        validation.validate_number("exploration", self.exploration, above=0)

    def check_problem(self, problem: Problem) -> None:
        """Refuse a W that changes, is not symmetric or does not mix."""
        super().check_problem(problem)
        check_static(problem, "CoopUCB")
        if problem.network.second_eigenvalue > 1 - 1e-12:
            raise ValueError(
                f"CoopUCB needs weights with a second eigenvalue below 1, got {problem.network}"
            )

    def build_index(self, problem: Problem) -> ConsensusIndex:
        """Return the index with slack eps_i for agent i."""
        return ConsensusIndex(0.0, 0.0, 0.0, mixing_errors(problem.network))

    def index_scale(self, problem: Problem, t: int) -> float:
        """Return 2 gamma sigma^2 ln t / N."""
        return ucb_scale(problem, self.exploration, self.sigma, t)


# Eigenvalues closer than this are one eigenspace: rounding separates equal ones by far less.
_ONE_SPACE = 1e-9


@functools.lru_cache(maxsize=32)
def mixing_errors(network: Network) -> FloatArray:
    """eps_i = N sum_{a, b} |l_a l_b|/(1 - |l_a l_b|) sum_d max(0, (P_a)_id (P_b)_id): (N,).

    a and b are eigenspaces of W, b not that of eigenvalue 1, with eigenvalues l and projections P.
    The source sums over pairs of eigenvectors u_p, u_j with a weight nu_pj, the sum of the positive
    entries of u_p u_j. (The source distinguishes three cases by sign; as eigenvectors are
    orthogonal, positive and negative entries have equal sums, and the cases coincide.) This is the
    same number if all eigenvalues are simple. If they repeat, as on a cycle or a grid, the source's
    sum depends on the basis that the linear algebra library picks, and so on the processor;
    projections do not.
    """
    weights = network.weights
    dense = weights if isinstance(weights, np.ndarray) else weights.toarray()
    values, vectors = np.linalg.eigh(dense)
    # in decreasing order, so that l_1 = 1 comes first
    values = values[::-1]
    vectors = vectors[:, ::-1]
    # the first position of each eigenspace, and its dimension
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


# coop-UCB2: coop-UCB with a slowly growing slack instead of the spectrum


@dataclass(frozen=True)
class CoopUCB2(RunningConsensus):
    """Q = s/n + sigma sqrt(2 gamma (n + sqrt(ln t))/(N n) ln t / n), gamma = `exploration`.

    Landgren et al., CDC 2016 (their G = 1); checked against public code. The agent must know N and
    sigma; any network will do.

    exploration: gamma, above 0; a larger value explores longer.
    sigma: the sub-Gaussian constant of rewards; None takes the bandit's own.
    charge_initial: False leaves out the regret of the first K rounds, as published curves do.
    """

    name: ClassVar[str] = "coop-ucb2"

    exploration: float = 1.01

    def __post_init__(self) -> None:
        super().__post_init__()
        validation.validate_number("exploration", self.exploration, above=0)

    def build_index(self, problem: Problem) -> ConsensusIndex:
        """Return the index with slack f(t) = sqrt(ln t) for all agents."""
        return ConsensusIndex(0.0, 0.0, 1.0, np.zeros(problem.n_agents))

    def index_scale(self, problem: Problem, t: int) -> float:
        """Return 2 gamma sigma^2 ln t / N."""
        return ucb_scale(problem, self.exploration, self.sigma, t)


# coop-UCL: the upper credible limit of a Gaussian posterior from consensus estimates


@dataclass(frozen=True)
class CoopUCL(RunningConsensus):
    """Q = m + sigma sqrt((n + f)/n / (d + N n)) Phi^-1(1 - 1/(sqrt(2 pi e) t)), f = sqrt(ln t).

    m = (d mu_0 + N s)/(d + N n) with d = sigma^2/sigma_0^2 for the prior N(mu_0, sigma_0^2).
    Landgren et al., ECC 2016, from memory, not checked against the text (medium confidence). The
    agent must know N and sigma; any network will do.

    prior_mean, prior_sd: the Gaussian prior of the mean of every arm.
    level: factor of the squared width, above 0; 1 as published, a smaller value explores less.
    sigma: the sub-Gaussian constant of rewards; None takes the bandit's own.
    charge_initial: False leaves out the regret of the first K rounds, as published curves do.
    """

    name: ClassVar[str] = "coop-ucl"

    prior_mean: float = 0.0
    prior_sd: float = 1.0
    level: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        validation.validate_number("prior_mean", self.prior_mean)
        validation.validate_number("prior_sd", self.prior_sd, above=0)
        validation.validate_number("level", self.level, above=0)

    def build_index(self, problem: Problem) -> ConsensusIndex:
        """Return the index in which the prior counts as d/N observations of mu_0."""
        sigma = noise_scale(problem.family, self.sigma)
        # divided by N, since consensus counts are per agent
        weight = (sigma / self.prior_sd) ** 2 / problem.n_agents
        return ConsensusIndex(weight * self.prior_mean, weight, 1.0, np.zeros(problem.n_agents))

    def index_scale(self, problem: Problem, t: int) -> float:
        """Return level (sigma z_t)^2 / N, where z_t is the Gaussian quantile."""
        from scipy.special import ndtri

        score = -ndtri(1 / (math.sqrt(2 * math.pi * math.e) * t))
        sigma = noise_scale(problem.family, self.sigma)
        return float(self.level * (sigma * score) ** 2 / problem.n_agents)
