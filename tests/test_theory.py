"""Every formula of posse.theory against an oracle that does not share its code."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import ClassVar

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, optimize, sparse, special, stats

from posse import divergences, theory

probabilities = st.floats(0.02, 0.98)
positive = st.floats(0.05, 20)
seeds = st.integers(0, 2**32 - 1)
unhurried = settings(deadline=None, max_examples=50)  # a deadline would time the machine


# Independent material ------------------------------------------------------------------------


def max_degree(graph: nx.Graph) -> np.ndarray:
    adjacency = nx.to_numpy_array(graph)
    degree = adjacency.sum(axis=1)
    return np.eye(len(degree)) - (np.diag(degree) - adjacency) / (degree.max() + 1)


GRAPHS = {
    "one agent": nx.empty_graph(1),
    "pair": nx.path_graph(2),
    "complete 3": nx.complete_graph(3),
    "complete 20": nx.complete_graph(20),
    "cycle 5": nx.cycle_graph(5),
    "cycle 30": nx.cycle_graph(30),
    "path 12": nx.path_graph(12),
    "star 15": nx.star_graph(14),
    "grid 5x5": nx.grid_2d_graph(5, 5),
    "barbell": nx.barbell_graph(6, 2),
    "hypercube": nx.hypercube_graph(4),
}


@pytest.fixture(params=GRAPHS)
def weights(request: pytest.FixtureRequest) -> np.ndarray:
    return max_degree(GRAPHS[request.param])


def second_eigenvalue(weights: np.ndarray) -> float:
    sizes = np.sort(np.abs(np.linalg.eigvalsh(weights)))[::-1]
    return float(sizes[1]) if len(sizes) > 1 else 0.0


def second_singular_value(weights: np.ndarray) -> float:
    return float(np.linalg.norm(weights - 1 / len(weights), ord=2))


def random_doubly_stochastic(n_agents: int, generator: np.random.Generator) -> np.ndarray:
    """A mixture of permutations (Birkhoff), not symmetric; staying and shifting make it mix."""
    stay = np.arange(n_agents)
    orders = [stay, np.roll(stay, 1), generator.permutation(stay), generator.permutation(stay)]
    shares = (generator.dirichlet(np.ones(4)) + 1) / 5
    return sum(share * np.eye(n_agents)[order] for share, order in zip(shares, orders, strict=True))


def thompson_run(
    weights: np.ndarray,
    means: list[float],
    rounds: int,
    learning_rate: float,
    generator: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray, list[tuple[np.ndarray, np.ndarray]]]:
    """Decentralized Thompson Sampling as Algorithm 2 says it, agent by agent.

    Gives arms and rewards (rounds, N), and (alpha, beta) at times 1..rounds+1.
    """
    n_agents, n_arms = len(weights), len(means)
    alpha, beta = np.ones((n_agents, n_arms)), np.ones((n_agents, n_arms))
    history_arms, history_rewards, beliefs = [], [], [(alpha, beta)]
    for _ in range(rounds):
        arms = generator.beta(alpha, beta).argmax(axis=1)
        rewards = (generator.random(n_agents) < np.array(means)[arms]).astype(float)
        alpha, beta = alpha.copy(), beta.copy()
        for agent in range(n_agents):
            alpha[agent, arms[agent]] += learning_rate * rewards[agent]
            beta[agent, arms[agent]] += learning_rate * (1 - rewards[agent])
        alpha, beta = weights @ alpha, weights @ beta
        history_arms.append(arms)
        history_rewards.append(rewards)
        beliefs.append((alpha, beta))
    shape = (rounds, n_agents)
    return (
        np.array(history_arms, dtype=int).reshape(shape),
        np.array(history_rewards).reshape(shape),
        beliefs,
    )


# Divergences ---------------------------------------------------------------------------------


@unhurried
@given(probabilities, probabilities)
def test_bernoulli_divergence_is_the_entropy_of_two_outcomes(p: float, q: float) -> None:
    expected = stats.entropy([p, 1 - p], [q, 1 - q])
    assert theory.kl_bernoulli(p, q) == pytest.approx(expected, rel=1e-9, abs=1e-15)


@unhurried
@given(positive, positive)
def test_poisson_divergence_is_the_sum_over_counts(p: float, q: float) -> None:
    counts = np.arange(150)
    laws = stats.poisson.logpmf(counts, p), stats.poisson.logpmf(counts, q)
    expected = np.sum(np.exp(laws[0]) * (laws[0] - laws[1]))
    assert theory.kl_poisson(p, q) == pytest.approx(expected, rel=1e-8, abs=1e-12)


@unhurried
@given(positive, positive)
def test_exponential_divergence_is_the_integral(p: float, q: float) -> None:
    law, other = stats.expon(scale=p), stats.expon(scale=q)
    expected, _ = integrate.quad(
        lambda y: law.pdf(y) * (law.logpdf(y) - other.logpdf(y)), 0, 50 * p, limit=200
    )
    assert theory.kl_exponential(p, q) == pytest.approx(expected, rel=1e-7, abs=1e-9)


@unhurried
@given(st.floats(-3, 3), st.floats(-3, 3), st.floats(0.2, 3))
def test_gaussian_divergence_is_the_integral(p: float, q: float, sigma: float) -> None:
    law, other = stats.norm(p, sigma), stats.norm(q, sigma)
    expected, _ = integrate.quad(
        lambda y: law.pdf(y) * (law.logpdf(y) - other.logpdf(y)), p - 12 * sigma, p + 12 * sigma
    )
    assert theory.kl_gaussian(p, q, sigma) == pytest.approx(expected, rel=1e-7, abs=1e-9)


@unhurried
@given(st.floats(-3, 3), st.floats(-3, 3), st.floats(0.2, 3))
def test_unknown_variance_takes_the_closest_variance(p: float, q: float, sigma: float) -> None:
    def to_law_with(log_sd: float) -> float:
        sd = math.exp(log_sd)
        return log_sd - math.log(sigma) + (sigma**2 + (p - q) ** 2) / (2 * sd**2) - 0.5

    closest = optimize.minimize_scalar(to_law_with, bounds=(-4, 4), method="bounded").fun
    divergence = theory.kl_gaussian_unknown_variance(p, q, sigma)
    assert divergence == pytest.approx(closest, abs=1e-6)
    assert divergence <= theory.kl_gaussian(p, q, sigma) + 1e-15


@pytest.mark.parametrize(
    ("p", "q", "expected"),
    [
        (0, 0, 0),
        (1, 1, 0),
        (0, 0.3, -math.log(0.7)),
        (1, 0.3, -math.log(0.3)),
        (0, 1, math.inf),
        (1, 0, math.inf),
        (0.4, 0, math.inf),
        (0.4, 1, math.inf),
        (0.1, 0.5, 0.1 * math.log(0.2) + 0.9 * math.log(1.8)),
    ],
)
def test_bernoulli_divergence_at_the_edges(p: float, q: float, expected: float) -> None:
    assert theory.kl_bernoulli(p, q) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("p", "q", "expected"), [(0, 0, 0), (0, 2, 2), (2, 0, math.inf), (2, 1, 2 * math.log(2) - 1)]
)
def test_poisson_divergence_at_the_edges(p: float, q: float, expected: float) -> None:
    assert theory.kl_poisson(p, q) == pytest.approx(expected)


@pytest.mark.parametrize("gap", [1e-3, 1e-5, 1e-8, 1e-11])
def test_divergences_keep_their_digits_when_means_nearly_agree(gap: float) -> None:
    # to leading order a divergence is gap^2 / (2 variance); rounding of 1 - p limits the digits
    best = 0.3
    worse = best - gap
    accuracy = 4 * gap + 1e-15 / gap
    for divergence, variance in [
        (theory.kl_bernoulli, best * (1 - best)),
        (theory.kl_poisson, best),
        (theory.kl_exponential, best**2),
        (theory.kl_gaussian, 1),
        (theory.kl_gaussian_unknown_variance, 1),
    ]:
        expected = (best - worse) ** 2 / (2 * variance)
        assert divergence(worse, best) == pytest.approx(expected, rel=accuracy)


@pytest.mark.parametrize(
    "divergence",
    [theory.kl_bernoulli, theory.kl_poisson, theory.kl_exponential, theory.kl_gaussian],
)
def test_divergences_are_continuous_where_the_series_takes_over(
    divergence: theory.Divergence,
) -> None:
    worse = 0.5 * (1 - np.array([0.00999999, 0.01000001]))
    inside, outside = divergence(worse, 0.5)
    assert outside == pytest.approx(inside, rel=5e-6)
    assert outside > inside


@pytest.mark.parametrize(
    "divergence",
    [
        theory.kl_bernoulli,
        theory.kl_gaussian,
        theory.kl_gaussian_unknown_variance,
        theory.kl_poisson,
        theory.kl_exponential,
    ],
)
def test_divergences_broadcast(divergence: theory.Divergence) -> None:
    p, q = np.array([[0.1], [0.2], [0.5]]), np.array([0.2, 0.5])
    table = divergence(p, q)
    assert table.shape == (3, 2)
    assert table[1, 0] == table[2, 1] == 0
    for row, column in np.ndindex(3, 2):
        assert table[row, column] == divergence(p[row, 0], q[column])


@pytest.mark.parametrize("bad", [-0.1, 1.1, math.nan, "a", None])
def test_bernoulli_divergence_refuses_what_is_no_probability(bad: object) -> None:
    with pytest.raises(ValueError, match=r"^p must be .*, got"):
        theory.kl_bernoulli(bad, 0.5)
    with pytest.raises(ValueError, match=r"^q must be .*, got"):
        theory.kl_bernoulli(0.5, bad)


def test_other_divergences_refuse_means_outside_their_family() -> None:
    with pytest.raises(ValueError, match="p must be finite numbers at least 0, got -1"):
        theory.kl_poisson(-1, 1)
    with pytest.raises(ValueError, match="q must be finite numbers above 0, got 0"):
        theory.kl_exponential(1, 0)
    with pytest.raises(ValueError, match="sigma must be a finite number above 0, got 0"):
        theory.kl_gaussian(0, 1, sigma=0)
    with pytest.raises(ValueError, match="p must be finite numbers, got inf"):
        theory.kl_gaussian(math.inf, 1)


# The divergence of a family ------------------------------------------------------------------


@dataclass(frozen=True)
class Plain:
    name: str


@dataclass(frozen=True)
class GaussianLike:
    name: ClassVar[str] = "gaussian"
    sigma: float = 2.0


@dataclass(frozen=True)
class UnknownVarianceLike:
    name: ClassVar[str] = "gaussian-unknown-variance"
    sigma: float = 2.0


@dataclass(frozen=True)
class BanditLike:
    family: object
    means: tuple[float, ...]


@pytest.mark.parametrize(
    ("family", "expected"),
    [
        (Plain("bernoulli"), 0.1 * math.log(0.2) + 0.9 * math.log(1.8)),
        (Plain("bounded"), 0.1 * math.log(0.2) + 0.9 * math.log(1.8)),
        (GaussianLike(), 0.4**2 / (2 * 2**2)),
        (UnknownVarianceLike(), 0.5 * math.log(1 + 0.4**2 / 2**2)),
        (Plain("poisson"), 0.1 * math.log(0.2) + 0.4),
        (Plain("exponential"), 0.2 - 1 - math.log(0.2)),
    ],
)
def test_divergence_of_a_family(family: object, expected: float) -> None:
    assert theory.divergence(family)(0.1, 0.5) == pytest.approx(expected)
    constant = theory.lai_robbins(BanditLike(family, (0.1, 0.5, 0.1)), n_agents=4)
    assert constant == pytest.approx(2 * 0.4 / (4 * expected))


@pytest.mark.parametrize(("family", "shown"), [(Plain("grid"), "'grid'"), (3, "3")])
def test_divergence_of_an_unknown_family(family: object, shown: str) -> None:
    with pytest.raises(ValueError, match=f"family {shown} has no known divergence: known are bern"):
        theory.divergence(family)


def test_every_registered_family_but_the_grid_has_a_divergence() -> None:
    from posse.families import FAMILIES

    assert set(divergences.DIVERGENCES) == set(FAMILIES) - {"grid"}
    for name in divergences.DIVERGENCES:
        bandit = BanditLike(FAMILIES[name](), (0.5, 0.1))
        assert theory.lai_robbins(bandit, 3) > 0


def test_bernoulli_divergence_is_the_smallest_for_bounded_rewards() -> None:
    # what the choice for Bounded rests on, on its own rewards Beta(c m, c (1 - m))
    for concentration in (0.5, 5, 50):
        law = stats.beta(concentration * 0.3, concentration * 0.7)
        other = stats.beta(concentration * 0.6, concentration * 0.4)
        # on the logit scale, where the density has no poles
        actual, _ = integrate.quad(
            lambda x, law=law, other=other: (
                law.pdf(special.expit(x))
                * special.expit(x)
                * special.expit(-x)
                * (law.logpdf(special.expit(x)) - other.logpdf(special.expit(x)))
            ),
            -30,
            30,
            limit=200,
        )
        assert theory.kl_bernoulli(0.3, 0.6) < actual


# Lai-Robbins ---------------------------------------------------------------------------------


@unhurried
@given(st.lists(probabilities, min_size=1, max_size=6), st.integers(1, 50))
def test_lai_robbins_is_the_sum_over_worse_arms(means: list[float], n_agents: int) -> None:
    best = max(means)
    expected = sum(
        (best - mean) / (n_agents * float(theory.kl_bernoulli(mean, best)))
        for mean in means
        if mean < best
    )
    assert theory.lai_robbins_constant(means, n_agents) == pytest.approx(expected)


def test_lai_robbins_by_hand() -> None:
    # the paper's 17 Bernoulli arms: d(0.1, 0.5) = 0.368064...
    means = [0.5] + [0.1] * 16
    assert theory.lai_robbins_constant(means, 1) == pytest.approx(16 * 0.4 / 0.3680642071684971)
    assert theory.lai_robbins_constant(means, 64) == pytest.approx(0.27169, abs=1e-5)
    # Gaussian arms: gap / (gap^2 / 2) = 2 / gap
    assert theory.lai_robbins_constant(means, 2, theory.kl_gaussian) == pytest.approx(16 * 5 / 2)


def test_lai_robbins_at_the_edges() -> None:
    assert theory.lai_robbins_constant([0.4], 3) == 0
    assert theory.lai_robbins_constant([0.4, 0.4], 3) == 0
    assert theory.lai_robbins_constant([0.4, 0.4, 0.1], 3) == theory.lai_robbins_constant(
        [0.1, 0.4], 3
    )
    # a best arm that never fails is told apart by one failure: no logarithmic regret
    assert theory.lai_robbins_constant([1.0, 0.4], 3) == 0


@pytest.mark.parametrize(
    ("means", "n_agents", "message"),
    [
        ([], 2, "means must be a list of at least one number"),
        ([[0.1, 0.2]], 2, "means must be a list of at least one number"),
        (["a", "b"], 2, "means must be numbers"),
        ([0.1, math.nan], 2, "means must be finite numbers, got"),
        ([0.1, 1.2], 2, "q must be finite numbers at least 0 and at most 1, got"),
        ([0.1, 0.2], 0, "n_agents must be a whole number at least 1, got 0"),
        ([0.1, 0.2], 2.5, "n_agents must be a whole number at least 1, got 2.5"),
    ],
)
def test_lai_robbins_refuses(means: list[float], n_agents: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        theory.lai_robbins_constant(means, n_agents)


# Theorem 1 -----------------------------------------------------------------------------------


def test_theorem_1_by_hand() -> None:
    bound = theory.theorem_1([0.1, 0.5, 0.3], 4, spectral_gap=0.5, horizon=100, epsilon=0.5)
    to_first = 0.1 * math.log(0.2) + 0.9 * math.log(1.8)
    to_third = 0.3 * math.log(0.6) + 0.7 * math.log(1.4)
    leading = 2.25 * math.log(400) / 4 * (0.4 / to_first + 0.2 / to_third)
    network = 3 * 17 * math.log(4) / 0.5 * 0.6
    assert bound.leading == pytest.approx(leading)
    assert bound.network == pytest.approx(network)
    assert bound.explicit == pytest.approx(leading + network)
    assert bound.n_tilde == pytest.approx(4 * math.log(4) / 0.5)
    assert 10**bound.log10_omitted == pytest.approx(0.5**-bound.n_tilde)
    assert bound.epsilon == 0.5


def test_theorem_1_says_it_is_no_finite_time_bound() -> None:
    bound = theory.theorem_1([0.5, 0.1], 64, spectral_gap=0.02, horizon=800, epsilon=0.5)
    assert bound.log10_omitted > 4000
    assert bound.omitted == "O(1/epsilon^N-tilde), constant not given"
    assert bound.omitted in repr(bound)
    assert bound.omitted in bound.describe()
    assert "not a finite-time bound" in bound.describe()
    assert "NOT a finite-time bound" in (theory.Theorem1.__doc__ or "")
    assert "NOT a finite-time bound" in (theory.theorem_1.__doc__ or "")
    with pytest.raises(dataclasses.FrozenInstanceError):
        bound.leading = 0.0  # type: ignore[misc]


def test_theorem_1_of_one_agent_has_no_network_term() -> None:
    bound = theory.theorem_1([0.5, 0.1], 1, spectral_gap=1, horizon=100, epsilon=0.5)
    assert (bound.network, bound.n_tilde, bound.log10_omitted) == (0, 0, 0)
    assert bound.explicit == bound.leading > 0


@unhurried
@given(st.floats(0.01, 0.9), st.floats(1.01, 1.1), st.integers(2, 50))
def test_theorem_1_trades_its_terms_through_epsilon(
    epsilon: float, factor: float, n_agents: int
) -> None:
    small, large = (
        theory.theorem_1([0.5, 0.1], n_agents, 0.3, 1000, value)
        for value in (epsilon, epsilon * factor)
    )
    assert small.leading < large.leading
    assert small.network > large.network
    assert small.log10_omitted > large.log10_omitted


def test_theorem_1_grows_at_the_rate_of_lai_robbins() -> None:
    # remark Optimality: the slope in log T, as epsilon goes to 0
    means, epsilon = [0.5, 0.1, 0.45], 1e-6
    early, late = (theory.theorem_1(means, 9, 0.2, 10**power, epsilon) for power in (6, 9))
    slope = (late.explicit - early.explicit) / math.log(1000)
    assert slope == pytest.approx(theory.lai_robbins_constant(means, 9), rel=1e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"means": [0.5, 1.5]}, "means must be finite numbers at least 0 and at most 1, got"),
        ({"n_agents": 0}, "n_agents must be a whole number at least 1, got 0"),
        ({"spectral_gap": 0.0}, "spectral_gap must be a finite number above 0 and at most 1"),
        ({"spectral_gap": 1.1}, "spectral_gap must be a finite number above 0 and at most 1"),
        ({"horizon": 0}, "horizon must be a whole number at least 1, got 0"),
        ({"epsilon": 0}, "epsilon must be a finite number above 0, got 0"),
    ],
)
def test_theorem_1_refuses(change: dict[str, object], message: str) -> None:
    good = {"means": [0.5, 0.1], "n_agents": 4, "spectral_gap": 0.5, "horizon": 9, "epsilon": 0.5}
    with pytest.raises(ValueError, match=message):
        theory.theorem_1(**(good | change))


# Mixing --------------------------------------------------------------------------------------


@unhurried
@given(st.integers(2, 10_000), st.floats(0.001, 0.99), st.floats(1e-6, 0.9))
def test_mixing_time_is_the_smallest(n_agents: int, second: float, accuracy: float) -> None:
    def bound(rounds: int) -> float:
        return math.sqrt(n_agents) / 2 * second**rounds

    rounds = theory.mixing_time(n_agents, second, accuracy)
    assert isinstance(rounds, int)
    assert bound(rounds) <= accuracy * (1 + 1e-9)
    assert rounds == 0 or bound(rounds - 1) > accuracy * (1 - 1e-9)


@pytest.mark.parametrize("accuracy", [0.3, 0.01, 1e-6])
def test_mixing_time_bounds_the_total_variation_distance(
    weights: np.ndarray, accuracy: float
) -> None:
    n_agents = len(weights)
    rounds = theory.mixing_time(n_agents, second_eigenvalue(weights), accuracy)
    power = np.linalg.matrix_power(weights, rounds)
    distances = np.abs(power - 1 / n_agents).sum(axis=1) / 2
    assert distances.max() <= accuracy * (1 + 1e-9)


def test_mixing_time_at_the_edges() -> None:
    assert theory.mixing_time(10, 0.0) == 1
    assert theory.mixing_time(10, 1.0) == math.inf
    assert theory.mixing_time(1, 0.0) == 0
    assert theory.mixing_time(1, 1.0) == 0
    assert theory.mixing_time(2, 0.5, accuracy=0.9) == 0
    assert theory.mixing_time(4, 0.1, accuracy=0.001) == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 0.5), "n_agents must be a whole number at least 1"),
        ((3, -0.1), "second_eigenvalue must be a finite number at least 0 and at most 1"),
        ((3, 1.1), "second_eigenvalue must be a finite number at least 0 and at most 1"),
        ((3, 0.5, 0), "accuracy must be a finite number above 0 and below 1"),
        ((3, 0.5, 1), "accuracy must be a finite number above 0 and below 1"),
    ],
)
def test_mixing_time_refuses(arguments: tuple[float, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        theory.mixing_time(*arguments)


def deviation_by_hand(weights: np.ndarray, rounds: int) -> float:
    """Fact `W_sum_conv`, left-hand side, index by index."""
    n_agents = len(weights)
    powers = [np.linalg.matrix_power(weights, rounds - tau) for tau in range(1, rounds + 1)]
    return max(
        sum(abs(power[i, j] - 1 / n_agents) for power in powers for j in range(n_agents))
        for i in range(n_agents)
    )


@pytest.mark.parametrize("rounds", [1, 2, 7])
def test_consensus_deviation_is_the_sum(weights: np.ndarray, rounds: int) -> None:
    deviation = theory.consensus_deviation(weights, rounds)
    assert deviation.largest == pytest.approx(deviation_by_hand(weights, rounds))


@pytest.mark.parametrize("rounds", [1, 10, 500])
def test_fact_w_sum_conv_holds(weights: np.ndarray, rounds: int) -> None:
    largest, bound = theory.consensus_deviation(weights, rounds)
    gap = 1 - second_eigenvalue(weights)
    assert bound == pytest.approx(4 * math.log(len(weights)) / gap)
    assert largest <= bound


@unhurried
@given(st.integers(2, 8), seeds)
def test_fact_w_sum_conv_holds_for_weights_that_are_not_symmetric(n: int, seed: int) -> None:
    weights = random_doubly_stochastic(n, np.random.default_rng(seed))
    largest, bound = theory.consensus_deviation(weights, 60)
    assert largest == pytest.approx(deviation_by_hand(weights, 60))
    assert bound == pytest.approx(4 * math.log(n) / (1 - second_singular_value(weights)), rel=1e-6)
    assert largest <= bound


def test_consensus_deviation_by_hand() -> None:
    # two agents: W^s - 1/2 has rows +-second^s/2, so the sum is geometric
    lazy = np.array([[0.9, 0.1], [0.1, 0.9]])
    assert theory.consensus_deviation(lazy, 20).largest == pytest.approx((1 - 0.8**20) / 0.2)
    # complete graph: only the round itself (W^0) deviates
    assert theory.consensus_deviation(np.full((5, 5), 0.2), 20).largest == pytest.approx(1.6)
    assert theory.consensus_deviation([[1.0]], 20) == (0, 0)
    # two islands never agree
    islands = np.kron(np.eye(2), np.full((3, 3), 1 / 3))
    assert theory.consensus_deviation(islands, 20).bound == math.inf


def test_consensus_deviation_takes_sparse_weights() -> None:
    dense = max_degree(nx.cycle_graph(6))
    assert theory.consensus_deviation(sparse.csr_array(dense), 9) == theory.consensus_deviation(
        dense, 9
    )


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0], "weights must be a square matrix, got shape"),
        ([[0.5, 0.5]], "weights must be a square matrix, got shape"),
        ([[0.5, 0.5], [0.4, 0.6]], "weights must be doubly stochastic, got row and column sums"),
        ([[1.5, -0.5], [-0.5, 1.5]], "weights must be finite numbers at least 0, got"),
    ],
)
def test_bad_weights_are_refused(weights: list[list[float]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        theory.consensus_deviation(weights, 3)
    with pytest.raises(ValueError, match=message):
        theory.posterior_closed_form([[0, 0]], [[1, 1]], weights, 2, 2)


def test_consensus_deviation_refuses_no_rounds() -> None:
    with pytest.raises(ValueError, match="rounds must be a whole number at least 1, got 0"):
        theory.consensus_deviation(np.eye(2), 0)


# The Beta posterior --------------------------------------------------------------------------


@unhurried
@given(st.integers(1, 7), st.integers(0, 25), st.floats(0.3, 12), seeds)
def test_closed_form_equals_update_then_merge(
    n_agents: int, rounds: int, learning_rate: float, seed: int
) -> None:
    generator = np.random.default_rng(seed)
    weights = random_doubly_stochastic(n_agents, generator)
    arms, rewards, beliefs = thompson_run(
        weights, [0.5, 0.2, 0.4], rounds, learning_rate, generator
    )
    alpha, beta = theory.posterior_closed_form(arms, rewards, weights, learning_rate, n_arms=3)
    np.testing.assert_allclose(alpha, beliefs[-1][0], rtol=1e-11)
    np.testing.assert_allclose(beta, beliefs[-1][1], rtol=1e-11)


def test_closed_form_by_hand() -> None:
    # one round: an observation reaches an agent with weight W_ij, its own with W_ii
    weights = np.array([[0.75, 0.25], [0.25, 0.75]])
    alpha, beta = theory.posterior_closed_form([[0, 1]], [[1, 0.5]], weights, 2.0, n_arms=2)
    np.testing.assert_allclose(alpha, [[1 + 2 * 0.75, 1 + 0.25], [1 + 2 * 0.25, 1 + 0.75]])
    np.testing.assert_allclose(beta, [[1, 1 + 0.25], [1, 1 + 0.75]])


def test_closed_form_before_any_round_is_the_prior() -> None:
    nothing = np.empty((0, 3))
    alpha, beta = theory.posterior_closed_form(nothing, nothing, np.full((3, 3), 1 / 3), 3, 4)
    assert alpha.shape == beta.shape == (3, 4)
    assert np.all(alpha == 1)
    assert np.all(beta == 1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"arms": [[0, 2]]}, "arms must be whole numbers from 0 to 1, got"),
        ({"arms": [[0, -1]]}, "arms must be whole numbers from 0 to 1, got"),
        ({"arms": [[0, 0.5]]}, "arms must be whole numbers from 0 to 1, got"),
        ({"arms": [0, 1]}, r"arms and rewards must both have shape \(rounds, 2\), got"),
        ({"arms": [[0, 1, 1]]}, r"arms and rewards must both have shape \(rounds, 2\), got"),
        ({"rewards": [[1, 0], [0, 0]]}, r"arms and rewards must both have shape \(rounds, 2\)"),
        ({"rewards": [[1, 2]]}, "rewards must be finite numbers at least 0 and at most 1, got"),
        ({"learning_rate": 0}, "learning_rate must be a finite number above 0, got 0"),
        ({"n_arms": 0}, "n_arms must be a whole number at least 1, got 0"),
    ],
)
def test_closed_form_refuses(change: dict[str, object], message: str) -> None:
    good = {
        "arms": [[0, 1]],
        "rewards": [[1, 0]],
        "weights": np.full((2, 2), 0.5),
        "learning_rate": 2,
        "n_arms": 2,
    }
    with pytest.raises(ValueError, match=message):
        theory.posterior_closed_form(**(good | change))


@pytest.mark.parametrize("learning_rate", [None, 1.0])
def test_alpha_beta_bounds_hold_on_runs(weights: np.ndarray, learning_rate: float | None) -> None:
    n_agents, means = len(weights), [0.5, 0.1, 0.3]
    rate = n_agents if learning_rate is None else learning_rate
    arms, rewards, beliefs = thompson_run(weights, means, 60, rate, np.random.default_rng(5))
    for time in (0, 1, 10, 60):
        played = arms[:time, :, None] == np.arange(3)
        pulls = played.sum(axis=(0, 1))
        successes = (played * rewards[:time, :, None]).sum(axis=(0, 1))
        bounds = theory.alpha_beta_bounds(
            successes, pulls, n_agents, 1 - second_eigenvalue(weights), learning_rate
        )
        alpha, beta = beliefs[time]
        rounding = 1e-9
        assert np.all(bounds.alpha_low - rounding <= alpha)
        assert np.all(alpha <= bounds.alpha_high + rounding)
        assert np.all(bounds.beta_low - rounding <= beta)
        assert np.all(beta <= bounds.beta_high + rounding)


def test_alpha_beta_bounds_by_hand() -> None:
    slack = 4 * math.log(4) / 0.5
    bounds = theory.alpha_beta_bounds([10, 0], [30, 5], 4, 0.5, learning_rate=2)
    np.testing.assert_allclose(bounds.alpha_low, [5 + 1 - 2 * slack, 1 - 2 * slack])
    np.testing.assert_allclose(bounds.alpha_high, [5 + 1 + 2 * slack, 1 + 2 * slack])
    np.testing.assert_allclose(bounds.beta_low, [10 + 1 - 2 * slack, 2.5 + 1 - 2 * slack])
    np.testing.assert_allclose(bounds.beta_high, [10 + 1 + 2 * slack, 2.5 + 1 + 2 * slack])
    # learning rate N: the pooled posterior of a central agent, plus or minus 4 N log N / gap
    pooled = theory.alpha_beta_bounds(10, 30, 4, 0.5)
    assert (pooled.alpha_low + pooled.alpha_high) / 2 == pytest.approx(11)
    assert (pooled.beta_low + pooled.beta_high) / 2 == pytest.approx(21)
    assert (pooled.alpha_high - pooled.alpha_low) / 2 == pytest.approx(4 * slack)


def test_alpha_beta_bounds_of_one_agent_are_exact() -> None:
    assert theory.alpha_beta_bounds(3, 10, 1, 1.0) == (4, 4, 8, 8)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"successes": [4]}, "successes must be at most pulls"),
        ({"successes": [-1]}, "successes must be finite numbers at least 0, got"),
        ({"pulls": [-1]}, "pulls must be finite numbers at least 0, got"),
        ({"n_agents": 0}, "n_agents must be a whole number at least 1"),
        ({"spectral_gap": 0}, "spectral_gap must be a finite number above 0 and at most 1"),
        ({"learning_rate": -1}, "learning_rate must be a finite number above 0, got -1"),
    ],
)
def test_alpha_beta_bounds_refuse(change: dict[str, object], message: str) -> None:
    good = {"successes": [1], "pulls": [3], "n_agents": 2, "spectral_gap": 0.5}
    with pytest.raises(ValueError, match=message):
        theory.alpha_beta_bounds(**(good | change))


# Facts of the appendix that have no code of their own ----------------------------------------


def test_fact_beta_binom_with_alpha_plus_beta_minus_1_trials() -> None:
    alpha, beta, x = np.meshgrid(np.arange(1, 9), np.arange(1, 9), np.linspace(0.05, 0.95, 19))
    beta_law = special.betainc(alpha, beta, x)
    np.testing.assert_allclose(
        beta_law, 1 - special.bdtr(alpha - 1, alpha + beta - 1, x), atol=1e-13
    )
    # as printed, with alpha + beta + 1 trials, it is off by up to 0.55
    as_printed = 1 - special.bdtr(alpha - 1, alpha + beta + 1, x)
    assert np.abs(beta_law - as_printed).max() > 0.5


def test_facts_beta_cdf_1_and_2() -> None:
    y = np.linspace(0.1, 0.9, 9)
    assert np.all(special.betainc(5, 3, y) < special.betainc(4, 3, y))
    assert np.all(special.betainc(5, 3, y) < special.betainc(5, 4, y))
    mean = 0.3
    few, many = (special.betainc(mean * n + 1, (1 - mean) * n + 1, y) for n in (200, 400))
    above = (y > mean + 0.05) & (few < 1)
    assert above.sum() >= 2
    assert np.all(few[above] < many[above])


@unhurried
@given(st.integers(1, 200), probabilities, probabilities)
def test_fact_chernoff(trials: int, mean: float, level: float) -> None:
    bound = math.exp(-trials * float(theory.kl_bernoulli(level, mean)))
    count = math.floor(trials * level + 1e-9)
    if level > mean:
        assert stats.binom.sf(count, trials, mean) <= bound * (1 + 1e-9)
    elif level < mean:
        strictly_below = math.ceil(trials * level - 1e-9) - 1
        assert stats.binom.cdf(strictly_below, trials, mean) <= bound * (1 + 1e-9)


def test_what_docs_paper_map_says_about_the_thresholds_of_the_proof() -> None:
    best, worse = 0.5, 0.1
    total = float(theory.kl_bernoulli(worse, best))

    def thresholds(epsilon: float) -> tuple[float, float]:
        x = optimize.brentq(
            lambda x: theory.kl_bernoulli(x, best) - total / (1 + epsilon), worse, best
        )
        y = optimize.brentq(
            lambda y: theory.kl_bernoulli(x, y) - total / (1 + epsilon) ** 2, x, best
        )
        return x, y

    # x_k - mu_k > epsilon / 2 does not hold, nor does x_k > (1 + epsilon/8) mu_k + epsilon/8
    x, _ = thresholds(0.5)
    assert x - worse < 0.07 < 0.5 / 2
    assert x < (1 + 0.5 / 8) * worse + 0.5 / 8
    # 1/d(y_k, mu_1) is of order 1/epsilon^2, not 1/epsilon
    large, small = (
        epsilon**2 / float(theory.kl_bernoulli(thresholds(epsilon)[1], best))
        for epsilon in (0.02, 0.01)
    )
    assert small == pytest.approx(large, rel=0.05)
