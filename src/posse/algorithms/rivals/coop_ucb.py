"""Running consensus: agents average their counts and sums of rewards, and play an index of both."""

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
from posse.algorithms.rivals.initial_pulls import ForcedStart, check_static, noise_scale, pairs_sent
from posse.networks.network import Network
from posse.policies.policy import argmax
from posse.randomness import FloatArray, IntArray, Randomness


@dataclass(frozen=True)
class Index:
    """Q = (shift + s)/(weight + n) + sqrt(scale(t) (n + slack) / (n (weight + n))).

    One form for the three coop algorithms; slack is that of each agent plus `growing` sqrt(ln t).
    """

    shift: float
    weight: float
    growing: float
    slack: FloatArray  # (N,)

    def of(self, counts: FloatArray, totals: FloatArray, t: int, scale: float) -> FloatArray:
        """The index of every arm: (..., N, K)."""
        slack = self.slack[:, None] + self.growing * math.sqrt(math.log(t))
        known = self.weight + counts
        width = np.sqrt(scale * (counts + slack) / (counts * known))
        return np.asarray((self.shift + totals) / known + width)


def ucb_scale(problem: Problem, exploration: float, sigma: float | None, t: int) -> float:
    """What coop-UCB and coop-UCB2 multiply the square of the width by: 2 gamma sigma^2 ln t / N."""
    scale = noise_scale(problem.family, sigma)
    return 2 * exploration * scale**2 * math.log(t) / problem.n_agents


@dataclass(frozen=True)
class ConsensusState:
    """Estimates of how often each arm was played per agent, and of its sum of rewards."""

    counts: FloatArray  # (R, N, K)
    totals: FloatArray  # (R, N, K)
    rounds: int  # played so far
    index: Index
    problem: Problem


@dataclass(frozen=True, kw_only=True)
class RunningConsensus(ForcedStart, ABC):
    """n <- W (n + 1{played}), s <- W (s + reward) after every round beyond the forced ones.

    Landgren, Srivastava, Leonard, "Distributed cooperative decision-making in multiarmed
    bandits", ECC and CDC 2016, Automatica 2021.
    """

    @abstractmethod
    def index(self, problem: Problem) -> Index:
        """The constants of the index."""

    @abstractmethod
    def scale(self, problem: Problem, t: int) -> float:
        """What multiplies the square of the width at round t."""

    def init(self, problem: Problem) -> ConsensusState:
        """Nothing played yet."""
        self.check(problem)
        empty = np.zeros((problem.n_runs, problem.n_agents, problem.n_arms))
        return ConsensusState(empty, empty, 0, self.index(problem), problem)

    def choose(self, state: ConsensusState, t: int, generator: Randomness) -> NDArray[np.intp]:
        """Round t <= K: arm t; then the largest index, ties broken at random: (R, N)."""
        if t <= state.problem.n_arms:
            return np.full(state.counts.shape[:-1], t - 1)
        scale = self.scale(state.problem, t)
        return argmax(state.index.of(state.counts, state.totals, t, scale), generator)

    def learn(
        self, state: ConsensusState, arms: NDArray[np.intp], rewards: FloatArray, weights: Any
    ) -> ConsensusState:
        """Add one's own play, then average with the neighbours."""
        played = np.arange(state.problem.n_arms) == arms[..., None]
        counts = state.counts + played
        totals = state.totals + played * rewards[..., None]
        if state.rounds >= state.problem.n_arms:
            counts = weights @ counts
            totals = weights @ totals
        return replace(state, counts=counts, totals=totals, rounds=state.rounds + 1)

    def numbers_sent(self, state: ConsensusState, t: int, links: IntArray) -> FloatArray:
        """Counts and sums of all K arms over every link in use, after the forced rounds: (R,)."""
        return pairs_sent(state.problem, t, links)


# coop-UCB: a confidence bound that knows how well each agent's position mixes.


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
        validation.validate_number("exploration", self.exploration, above=0)

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
    # l_1 = 1 first
    values = values[::-1]
    vectors = vectors[:, ::-1]
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


# coop-UCB2: coop-UCB without the spectrum, which a slowly growing slack replaces.


@dataclass(frozen=True)
class CoopUCB2(RunningConsensus):
    """Q = s/n + sigma sqrt(2 gamma (n + sqrt(ln t))/(N n) ln t / n), gamma = `exploration`.

    Landgren et al., CDC 2016 (their G = 1); checked against public code. The agent must know N and
    sigma; any network will do.

    exploration: gamma, above 0; more explores longer.
    sigma: the sub-Gaussian constant of rewards; None takes the bandit's own.
    charge_initial: False leaves out the regret of the first K rounds, as published curves do.
    """

    name: ClassVar[str] = "coop-ucb2"

    exploration: float = 1.01

    def __post_init__(self) -> None:
        super().__post_init__()
        validation.validate_number("exploration", self.exploration, above=0)

    def index(self, problem: Problem) -> Index:
        """Slack f(t) = sqrt(ln t) for all."""
        return Index(0.0, 0.0, 1.0, np.zeros(problem.n_agents))

    def scale(self, problem: Problem, t: int) -> float:
        """2 gamma sigma^2 ln t / N."""
        return ucb_scale(problem, self.exploration, self.sigma, t)


# coop-UCL: the upper credible limit of a Gaussian posterior from consensus estimates.


@dataclass(frozen=True)
class CoopUCL(RunningConsensus):
    """Q = m + sigma sqrt((n + f)/n / (d + N n)) Phi^-1(1 - 1/(sqrt(2 pi e) t)), f = sqrt(ln t).

    m = (d mu_0 + N s)/(d + N n) with d = sigma^2/sigma_0^2 for the prior N(mu_0, sigma_0^2).
    Landgren et al., ECC 2016, recalled, not checked against the text (medium confidence). The agent
    must know N and sigma; any network will do.

    prior_mean, prior_sd: of every arm's mean, a Gaussian.
    sigma: the sub-Gaussian constant of rewards; None takes the bandit's own.
    charge_initial: False leaves out the regret of the first K rounds, as published curves do.
    """

    name: ClassVar[str] = "coop-ucl"

    prior_mean: float = 0.0
    prior_sd: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        validation.validate_number("prior_mean", self.prior_mean)
        validation.validate_number("prior_sd", self.prior_sd, above=0)

    def index(self, problem: Problem) -> Index:
        """The prior counts as d/N observations of mu_0."""
        sigma = noise_scale(problem.family, self.sigma)
        weight = (sigma / self.prior_sd) ** 2 / problem.n_agents
        return Index(weight * self.prior_mean, weight, 1.0, np.zeros(problem.n_agents))

    def scale(self, problem: Problem, t: int) -> float:
        """(sigma z_t)^2 / N, z_t the Gaussian quantile."""
        from scipy.special import ndtri

        score = -ndtri(1 / (math.sqrt(2 * math.pi * math.e) * t))
        sigma = noise_scale(problem.family, self.sigma)
        return float((sigma * score) ** 2 / problem.n_agents)
