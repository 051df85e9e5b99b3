"""The results of the paper as numbers: Lai-Robbins, Theorem 1, mixing times and the lemmas.

Several functions take the spectral gap or the second eigenvalue, which are properties of a
network: `Network.spectral_gap` and `Network.second_eigenvalue`. For the symmetric weights used
here the paper's lambda_2 (Theorem 1) and sigma_2 (its proof) are the same number.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from posse import notebook_tables
from posse.divergences import Divergence, get_divergence, kl_bernoulli
from posse.randomness import FloatArray
from posse.validation import validate_array, validate_integer, validate_number

# Regret --------------------------------------------------------------------------------------


class HasMeans(Protocol):
    """The part of a bandit that the theory needs."""

    @property
    def family(self) -> Any:
        """The reward family."""

    @property
    def means(self) -> ArrayLike:
        """Mean rewards (K,)."""


def lai_robbins_constant(
    means: ArrayLike, n_agents: int, divergence: Divergence = kl_bernoulli
) -> float:
    """Least limit of per-agent regret / log T (remark Optimality): sum of gap / (N d(mean, best)).

    Arms tied with the best cost nothing and contribute 0.

    >>> round(theory.lai_robbins_constant([0.9, 0.5], n_agents=10), 4)
    0.0783
    """
    means, gaps = _means_and_gaps(means)
    agents = validate_integer("n_agents", n_agents, at_least=1)
    worse = gaps > 0
    return float(np.sum(gaps[worse] / divergence(means[worse], means.max()))) / agents


def lai_robbins(bandit: HasMeans, n_agents: int) -> float:
    """`lai_robbins_constant` of a bandit, with the divergence of its own reward family.

    >>> bandit = posse.Bandit.gaussian([0.5, 0.1], sigma=1.0)
    >>> round(theory.lai_robbins(bandit, n_agents=10), 4)
    0.5
    """
    if getattr(bandit, "drift", None) is not None:
        raise ValueError("lai_robbins needs stationary means: with drift, regret is not log T")
    return lai_robbins_constant(bandit.means, n_agents, get_divergence(bandit.family))


@dataclass(frozen=True)
class Theorem1:
    """The terms of Theorem 1, which by themselves are NOT a finite-time bound on the regret.

    The theorem adds a term O(epsilon^-n_tilde) without its constant; `log10_omitted` is the
    power of ten of epsilon^-n_tilde, astronomical for epsilon < 1.
    """

    epsilon: float
    leading: float
    network: float
    explicit: float
    n_tilde: float
    log10_omitted: float
    omitted: str = "O(1/epsilon^N-tilde), constant not given"

    def _repr_html_(self) -> str:
        return notebook_tables.render_fields("Theorem 1, not a finite-time bound", asdict(self))

    def describe(self) -> str:
        """One sentence with every term, and the warning."""
        return (
            f"Theorem 1 at epsilon = {self.epsilon:g}: leading {self.leading:.4g} + network "
            f"{self.network:.4g} = {self.explicit:.4g}, plus {self.omitted} "
            f"(epsilon^-N-tilde = 10^{self.log10_omitted:.4g}): the explicit terms are not a "
            f"finite-time bound by themselves"
        )


def theorem_1(
    means: ArrayLike, n_agents: int, spectral_gap: float, horizon: int, epsilon: float
) -> Theorem1:
    """Compute the explicit terms of Theorem 1 (Bernoulli arms, learning rate N, prior Beta(1, 1)).

    They are NOT a finite-time bound: see `Theorem1`. As in the theorem, N-tilde is
    N log N / (1 - lambda_2); the appendix has 4 N log N / (1 - sigma_2). The theorem allows every
    epsilon > 0, its proof takes epsilon <= 1.
    """
    means, gaps = _means_and_gaps(validate_array("means", means, 0, 1))
    agents = validate_integer("n_agents", n_agents, at_least=1)
    spectral_gap = validate_number("spectral_gap", spectral_gap, above=0, at_most=1)
    horizon = validate_integer("horizon", horizon, at_least=1)
    epsilon = validate_number("epsilon", epsilon, above=0)

    constant = lai_robbins_constant(means, agents)
    leading = (1 + epsilon) ** 2 * math.log(agents * horizon) * constant
    network = 3 * (1 + 8 / epsilon) * math.log(agents) / spectral_gap * float(gaps.sum())
    n_tilde = agents * math.log(agents) / spectral_gap
    return Theorem1(
        epsilon=epsilon,
        leading=leading,
        network=network,
        explicit=leading + network,
        n_tilde=n_tilde,
        log10_omitted=n_tilde * math.log10(1 / epsilon),
    )


# Mixing --------------------------------------------------------------------------------------


def mixing_time(n_agents: int, second_eigenvalue: float, accuracy: float = 0.01) -> int | float:
    """Return the number of rounds that spread an observation evenly over all agents.

    The smallest t with sqrt(N)/2 lambda_2^t <= accuracy, which bounds the total variation distance
    of every row of W^t to 1/N for symmetric doubly stochastic W. Infinite if lambda_2 = 1.

    >>> theory.mixing_time(100, second_eigenvalue=0.9)
    59
    """
    agents = validate_integer("n_agents", n_agents, at_least=1)
    second = validate_number("second_eigenvalue", second_eigenvalue, at_least=0, at_most=1)
    accuracy = validate_number("accuracy", accuracy, above=0, below=1)
    start = math.sqrt(agents) / 2
    # A single agent is mixed from the start; W of rank 1 mixes in one round.
    if agents == 1 or start <= accuracy:
        return 0
    if second == 0:
        return 1
    if second == 1:
        return math.inf
    return math.ceil(math.log(accuracy / start) / math.log(second))


class ConsensusDeviation(NamedTuple):
    """Both sides of Fact `W_sum_conv`: the sum at the worst agent, and its bound."""

    largest: float
    bound: float


def consensus_deviation(weights: ArrayLike, rounds: int) -> ConsensusDeviation:
    """Sum over tau = 1..rounds and j of |W^(rounds - tau)_ij - 1/N|, largest over i.

    The bound is 4 log N / (1 - sigma_2) for doubly stochastic W (N, N) (Fact `W_sum_conv`).
    """
    weights = _validate_weights(weights)
    rounds = validate_integer("rounds", rounds, at_least=1)
    agents = len(weights)
    power = np.eye(agents)
    deviation = np.zeros(agents)
    for _ in range(rounds):
        deviation += np.abs(power - 1 / agents).sum(axis=1)
        power = power @ weights
    return ConsensusDeviation(float(deviation.max()), _consensus_bound(weights))


# Lemmas on the Beta posterior ----------------------------------------------------------------


class BetaBounds(NamedTuple):
    """Lower and upper bounds on the parameters of a Beta posterior, valid at every agent."""

    alpha_low: FloatArray
    alpha_high: FloatArray
    beta_low: FloatArray
    beta_high: FloatArray


def alpha_beta_bounds(
    successes: ArrayLike,
    pulls: ArrayLike,
    n_agents: int,
    spectral_gap: float,
    learning_rate: float | None = None,
) -> BetaBounds:
    """Lemma `alpha_beta_bounds`: how far any agent's Beta posterior is from the pooled one.

    successes (sum of rewards S_k) and pulls (n_k) count what the whole network has seen, per arm
    (any shape); prior Beta(1, 1), learning rate N unless given. The lower bounds are the lemma's:
    they may fall below 1, where the parameters themselves never go.
    """
    successes = validate_array("successes", successes, 0)
    pulls = validate_array("pulls", pulls, 0)
    agents = validate_integer("n_agents", n_agents, at_least=1)
    spectral_gap = validate_number("spectral_gap", spectral_gap, above=0, at_most=1)
    rate = validate_number(
        "learning_rate", agents if learning_rate is None else learning_rate, above=0
    )
    if np.any(successes > pulls):
        raise ValueError(f"successes must be at most pulls = {pulls}, got {successes}")
    slack = rate * 4 * math.log(agents) / spectral_gap
    alpha = rate / agents * successes + 1
    beta = rate / agents * (pulls - successes) + 1
    return BetaBounds(alpha - slack, alpha + slack, beta - slack, beta + slack)


class BetaParameters(NamedTuple):
    """Parameters of the Beta posteriors, each (N, K)."""

    alpha: FloatArray
    beta: FloatArray


def posterior_closed_form(
    arms: ArrayLike, rewards: ArrayLike, weights: ArrayLike, learning_rate: float, n_arms: int
) -> BetaParameters:
    """Lemma `posterior_closed_form`: the Beta posteriors at time t from the whole history.

    arms and rewards are (t-1, N), oldest first, and weights W is (N, N); prior Beta(1, 1). The
    observations of round tau arrive through the matrix power W^(t - tau).
    """
    weights = _validate_weights(weights)
    agents = len(weights)
    arm_history = np.asarray(arms)
    rewards = validate_array("rewards", rewards, 0, 1)
    rate = validate_number("learning_rate", learning_rate, above=0)
    n_arms = validate_integer("n_arms", n_arms, at_least=1)
    if (
        arm_history.ndim != 2
        or arm_history.shape[1] != agents
        or arm_history.shape != rewards.shape
    ):
        raise ValueError(
            f"arms and rewards must both have shape (rounds, {agents}), "
            f"got {arm_history.shape} and {rewards.shape}"
        )
    if not np.isin(arm_history, np.arange(n_arms)).all():
        raise ValueError(f"arms must be whole numbers from 0 to {n_arms - 1}, got {arm_history}")

    successes = np.zeros((agents, n_arms))
    pulls = np.zeros((agents, n_arms))
    # Backwards in time: the power of W grows with the age of an observation.
    power = weights
    for arm, reward in zip(arm_history[::-1], rewards[::-1], strict=True):
        indicator = (arm[:, None] == np.arange(n_arms)).astype(float)
        successes += power @ (reward[:, None] * indicator)
        pulls += power @ indicator
        power = power @ weights
    return BetaParameters(1 + rate * successes, 1 + rate * (pulls - successes))


# Helpers -------------------------------------------------------------------------------------


def alpha_divergence(
    exact: Any, exact_belief: FloatArray, family: Any, belief: FloatArray, alpha: float
) -> FloatArray:
    """Divergence of an approximate belief from the exact posterior of the mean: (D, ...) -> (...).

    D = (1 - integral of p^alpha q^(1 - alpha)) / (alpha (1 - alpha)), p the exact posterior, q the
    approximation; its limits are KL(p, q) at alpha = 1 and KL(q, p) at alpha = 0. Theorem 1 assumes
    exact posteriors, D = 0. For approximate ones, a bound of one D is not enough (Phan,
    Abbasi-Yadkori and Domke 2019); under a variant of Bayes-UCB, bounds of two D of different alpha
    are (Huang, Lam, Meisami and Zhang 2023).

    exact: a `posse.families.Grid`, on whose cells both are integrated by the midpoint rule and
    normalised; its cells must be narrower than either density. exact_belief: (G, ...). belief:
    (D, ...), of any family. Tails beyond the support do not count. Above 1, alpha weighs the tails
    by p^alpha / q^(alpha - 1), which is infinite if those of q are thinner, as those of a Gaussian
    q for rewards with outliers are, however little they matter.

    >>> grid = posse.families.Grid.example()  # a Bernoulli likelihood
    >>> exact = grid.statistic(np.array([1.0, 0.0])).sum(axis=1)  # the posterior is Beta(2, 2)
    >>> other = np.array([3.0, 3.0])
    >>> q = posse.families.Bernoulli()
    >>> round(float(theory.alpha_divergence(grid, exact, q, other, alpha=1.0)), 3)
    0.057
    """
    alpha = validate_number("alpha", alpha)
    edges = np.asarray(getattr(exact, "edges", ()))
    if not len(edges):
        raise ValueError("exact must be a family on a grid, such as posse.families.Grid")
    axes = (-1, *[1] * (np.ndim(belief) - 1))
    widths = np.diff(edges).reshape(axes)
    centres = ((edges[:-1] + edges[1:]) / 2).reshape(axes)
    log_p = exact.log_density(np.asarray(exact_belief)[:, None], centres) + np.log(widths)
    log_q = family.log_density(np.asarray(belief)[:, None], centres) + np.log(widths)
    mass = np.exp(log_q).sum(axis=0)
    if np.any(np.abs(mass - 1.0) > 0.01):
        raise ValueError(
            "the cells of exact do not resolve the belief, or its support does not hold it: its "
            f"probabilities sum to {float(mass.ravel()[np.argmax(np.abs(mass - 1))]):.3f} there"
        )
    log_q = log_q - np.log(mass)
    if alpha in (0.0, 1.0):
        first, second = (log_p, log_q) if alpha == 1.0 else (log_q, log_p)
        # the sum may be negative by rounding
        return np.asarray(np.maximum((np.exp(first) * (first - second)).sum(axis=0), 0.0))
    # relative to the largest term, so that neither power overflows
    terms = alpha * log_p + (1.0 - alpha) * log_q
    peak = terms.max(axis=0)
    log_integral = peak + np.log(np.exp(terms - peak).sum(axis=0))
    with np.errstate(over="ignore"):  # infinite is a valid answer
        divergence = -np.expm1(log_integral) / (alpha * (1.0 - alpha))
    return np.asarray(np.maximum(divergence, 0.0))


def _consensus_bound(weights: FloatArray) -> float:
    """Bound of Fact `W_sum_conv`, infinite where W does not mix."""
    agents = len(weights)
    if agents == 1:
        return 0.0
    gap = 1 - float(np.linalg.svd(weights, compute_uv=False)[1])
    # A disconnected W has gap 0 up to the rounding of its singular values.
    return 4 * math.log(agents) / gap if gap > 1e-12 else math.inf


def _means_and_gaps(means: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Validate means (K,) and return them with their gaps to the best."""
    values = validate_array("means", means)
    if values.ndim != 1 or values.size == 0:
        raise ValueError(f"means must be a list of at least one number, got {means!r}")
    return values, values.max() - values


def _validate_weights(weights: Any) -> FloatArray:
    """Validate doubly stochastic weights (N, N) and return them dense."""
    dense = weights.toarray() if hasattr(weights, "toarray") else weights
    values = validate_array("weights", dense, 0)
    if values.ndim != 2 or values.shape[0] != values.shape[1] or values.size == 0:
        raise ValueError(f"weights must be a square matrix, got shape {values.shape}")
    sums = np.concatenate([values.sum(axis=0), values.sum(axis=1)])
    if np.abs(sums - 1).max() > 1e-9:
        raise ValueError(
            f"weights must be doubly stochastic, got row and column sums from {sums.min():g} "
            f"to {sums.max():g}"
        )
    return values
