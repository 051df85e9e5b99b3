"""Laws of every registered family: its algebra against the paper's two equations on a grid.

Nothing here knows a family's formulas: what is compared are its own likelihood, density,
distribution function, quantiles and samples, so a new entry of FAMILIES is tested by itself.
Statistical tests have fixed seeds; a correct family fails one with probability below 1e-6.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

from posse import beliefs
from posse.families import FAMILIES, get_optional

SHAPES = [(), (3,), (2, 3), (2, 2, 3)]
LEVELS = np.array([1e-12, 1e-6, 0.01, 0.3, 0.5, 0.9, 1 - 1e-6, 1 - 1e-12])
# nuisance parameters by name: from the real line into their range
NUISANCES = {"precision": np.exp, "conversion": special.expit}
seeds = st.integers(0, 2**32 - 1)
learning_rates = st.floats(1e-3, 100.0)
few = settings(deadline=None, max_examples=15)


def parameter_grid(family, means):
    """The parameters of the likelihood on a grid, each (G,)."""
    if len(family.parameters) == 1:
        return (means,)
    nuisance = NUISANCES[family.parameters[1]](np.linspace(-2.3, 2.3, 7))
    return tuple(axis.ravel() for axis in np.meshgrid(means, nuisance))


def boundary_rewards(family):
    ends = np.array([family.rewards.low, family.rewards.high])
    return ends[family.rewards.contains(ends)]


def panels(family, belief, cuts):
    """Gauss-Legendre nodes and weights that cover one belief (D,) but for 2e-13 of its mass."""
    lower = np.concatenate([np.geomspace(1e-13, 0.05, 40), np.linspace(0.05, 0.5, 30)[1:]])
    levels = np.concatenate([lower, 1 - lower[-2::-1]])
    edges = [family.mean_quantile(belief[:, None], levels), cuts, get_optional(family, "edges")]
    edges = np.unique(np.concatenate(edges))
    nodes, weights = np.polynomial.legendre.leggauss(12)
    half = np.diff(edges)[:, None] / 2
    return (edges[:-1, None] + half * (1 + nodes)).ravel(), (half * weights).ravel()


# The paper's two equations ------------------------------------------------------------------


@given(seed=seeds, learning_rate=learning_rates)
@few
def test_updates_and_merges_are_those_of_densities(
    family, with_random_prior, mean_grid, typical_means, doubly_stochastic, seed, learning_rate
):
    """Eqs. `posterior_update` and `merge_posteriors` on a grid of parameters, six rounds."""
    generator = np.random.default_rng(seed)
    family = with_random_prior(family, generator)
    n_agents, n_arms = 4, 3
    parameters = parameter_grid(family, mean_grid(family))
    columns = [axis[:, None, None] for axis in parameters]
    belief = beliefs.prior(family, n_agents, n_arms)
    log_q = np.broadcast_to(
        family.log_density(belief[:, None], *columns), (len(parameters[0]), n_agents, n_arms)
    ).copy()
    largest = np.abs(log_q).max()
    true_means = typical_means(family, generator, n_arms)
    for _ in range(6):
        weights = doubly_stochastic(generator, n_agents)
        arms = generator.integers(n_arms, size=n_agents)
        rewards = family.draw_rewards(true_means[arms], generator)
        on_boundary = generator.random(n_agents) < 0.3
        if len(boundary_rewards(family)):
            ends = generator.choice(boundary_rewards(family), n_agents)
            rewards = np.where(on_boundary, ends, rewards)
        belief = beliefs.merge(
            beliefs.observe(belief, arms, rewards, family, learning_rate), weights
        )
        for agent in range(n_agents):
            log_p = family.reward_log_density(rewards[agent], *parameters)
            log_q[:, agent, arms[agent]] += learning_rate * log_p
        largest = max(largest, np.abs(log_q).max())
        log_q = np.einsum("ij,gjk->gik", weights, log_q)
    closed_form = family.log_density(belief[:, None], *columns)
    np.testing.assert_allclose(
        closed_form - closed_form[0], log_q - log_q[0], rtol=0, atol=1e-12 * largest
    )


@given(seed=seeds, learning_rate=learning_rates)
@few
def test_the_statistic_is_the_log_likelihood(
    family, with_random_prior, mean_grid, typical_means, seed, learning_rate
):
    """Adding learning_rate * statistic multiplies the density by likelihood^learning_rate."""
    generator = np.random.default_rng(seed)
    family = with_random_prior(family, generator)
    parameters = parameter_grid(family, mean_grid(family))
    drawn = family.draw_rewards(typical_means(family, generator, 5), generator)
    for reward in [*drawn, *boundary_rewards(family)]:
        before = family.prior()
        after = before + learning_rate * family.statistic(np.asarray(reward))
        densities = [family.log_density(q[:, None], *parameters) for q in (after, before)]
        gain = densities[0] - densities[1]
        evidence = learning_rate * family.reward_log_density(reward, *parameters)
        # a small learning rate leaves little but the rounding of what is subtracted
        rounding = 8 * np.finfo(float).eps * np.abs(densities).max()
        np.testing.assert_allclose(
            gain - gain[0],
            evidence - evidence[0],
            rtol=1e-10,
            atol=1e-11 * np.abs(evidence).max() + rounding,
        )


# The posterior of the mean ------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_density_distribution_function_and_posterior_mean_agree(
    family, learnt, with_random_prior, seed
):
    generator = np.random.default_rng(seed)
    family = with_random_prior(family, generator)
    belief = learnt(family, generator, ())
    cuts = family.mean_quantile(belief[:, None], np.array([0.03, 0.4, 0.8]))
    x, width = panels(family, belief, cuts)
    mass = width * np.exp(family.log_density(belief[:, None], x))
    assert mass.sum() == pytest.approx(1.0, abs=1e-10)
    for cut in cuts:
        assert mass[x < cut].sum() == pytest.approx(family.mean_cdf(belief, cut), abs=1e-10)
    # what lies beyond the panels weighs 1e-13 times an extreme mean
    assert (mass * x).sum() == pytest.approx(family.posterior_mean(belief), rel=1e-7, abs=1e-7)


@pytest.mark.parametrize("name", [name for name in FAMILIES if len(FAMILIES[name].parameters) > 1])
def test_the_joint_density_has_the_density_of_the_mean(name, example_of, learnt, mean_grid):
    family = example_of(FAMILIES[name])
    belief = learnt(family, np.random.default_rng(4), ())
    means = mean_grid(family)[8:17]
    # trapezoid in the log or the log-odds, where tails vanish
    line = np.linspace(-40.0, 40.0, 16_001)
    nuisance = NUISANCES[family.parameters[1]](line)
    inside = nuisance < 1.0 if family.parameters[1] == "conversion" else nuisance > 0.0
    line = line[inside]
    nuisance = nuisance[inside]
    slope = nuisance * (special.expit(-line) if family.parameters[1] == "conversion" else 1.0)
    joint = family.log_density(belief[:, None, None], means[:, None], nuisance)
    marginal = np.trapezoid(np.exp(joint) * slope, line, axis=1)
    np.testing.assert_allclose(
        np.log(marginal), family.log_density(belief[:, None], means), rtol=0, atol=1e-9
    )


def test_quantiles_invert_the_distribution_function(family, learnt):
    belief = learnt(family, np.random.default_rng(5), (4,))
    quantiles = family.mean_quantile(belief[:, None, :], LEVELS[:, None])
    reached = family.mean_cdf(belief[:, None, :], quantiles)
    assert quantiles.shape == (len(LEVELS), 4)
    assert (np.diff(quantiles, axis=0) > 0).all()
    np.testing.assert_allclose(
        reached, np.broadcast_to(LEVELS[:, None], reached.shape), rtol=1e-9, atol=1e-15
    )


def test_quantiles_at_the_ends_of_the_levels(family, learnt):
    belief = learnt(family, np.random.default_rng(6), (3,), pulls=4)
    lowest, highest = family.mean_quantile(belief, 0.0), family.mean_quantile(belief, 1.0)
    assert (lowest < family.mean_quantile(belief, 1e-9)).all()
    assert (highest > family.mean_quantile(belief, 1 - 1e-9)).all()
    assert (lowest >= family.means.low).all()
    assert (highest <= family.means.high).all()
    np.testing.assert_allclose(family.mean_cdf(belief, lowest), 0.0, atol=1e-12)
    np.testing.assert_allclose(family.mean_cdf(belief, highest), 1.0, atol=1e-12)


@pytest.mark.parametrize("end", ["low", "high"])
def test_the_distribution_function_at_and_beyond_the_range_of_means(family, learnt, end):
    belief = learnt(family, np.random.default_rng(6), (3,))
    beyond = -1.0 if end == "low" else 1.0
    edge = getattr(family.means, end)
    for mean in (edge, edge + beyond, beyond * np.inf):
        np.testing.assert_allclose(
            family.mean_cdf(belief, mean), 0.0 if end == "low" else 1.0, atol=1e-14
        )


def test_samples_follow_the_distribution_function(family, learnt):
    generator = np.random.default_rng(7)
    belief = learnt(family, generator, ())
    many = np.broadcast_to(belief[:, None], (len(belief), 20_000))
    levels = family.mean_cdf(many, family.sample_mean(many, generator))
    assert stats.kstest(levels, "uniform").pvalue > 1e-6


# Shapes -------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES)
def test_every_entry_of_a_belief_is_treated_alone(family, learnt, mean_grid, shape):
    belief = learnt(family, np.random.default_rng(12), shape)
    mean = mean_grid(family)[9]
    functions = [
        family.posterior_mean,
        lambda q: family.mean_quantile(q, 0.7),
        lambda q: family.mean_cdf(q, mean),
        lambda q: family.log_density(q, mean),
        lambda q: family.sample_mean(q, np.random.default_rng(13)),
    ]
    for function in functions:
        together = function(belief)
        assert np.shape(together) == shape
        if function is not functions[-1]:
            for index in np.ndindex(shape):
                alone = function(belief[(slice(None), *index)])
                assert together[index] == pytest.approx(float(alone), rel=1e-13)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_statistic_adds_the_coordinates_in_front(family, typical_means, shape):
    generator = np.random.default_rng(14)
    rewards = family.draw_rewards(typical_means(family, generator, shape), generator)
    statistic = family.statistic(rewards)
    assert statistic.shape == (len(family.prior()), *shape)
    for index in np.ndindex(shape):
        alone = family.statistic(np.asarray(rewards[index]))
        np.testing.assert_array_equal(statistic[(slice(None), *index)], alone)


@pytest.mark.parametrize("argument", ["mean", "level"])
def test_means_and_levels_broadcast_against_beliefs(family, learnt, mean_grid, argument):
    belief = learnt(family, np.random.default_rng(15), (3,))
    if argument == "mean":
        values, functions = mean_grid(family)[5:12], (family.mean_cdf, family.log_density)
    else:
        values, functions = np.linspace(0.1, 0.9, 7), (family.mean_quantile,)
    for function in functions:
        table = function(belief, values[:, None])  # (3,) against (7, 1)
        assert table.shape == (7, 3)
        np.testing.assert_array_equal(table, function(belief[:, None, :], values[:, None]))
        np.testing.assert_allclose(table[:, 1], function(belief[:, 1], values), rtol=1e-13)
        np.testing.assert_allclose(table[4], function(belief, values[4]), rtol=1e-13)


# Extremes ---------------------------------------------------------------------------------


@pytest.mark.parametrize("learning_rate", [1e-9, 1.0, 1000.0])
@pytest.mark.parametrize("rewards", ["typical", "boundary"])
def test_a_million_pulls_leave_every_number_finite(family, typical_means, rewards, learning_rate):
    generator = np.random.default_rng(16)
    means = typical_means(family, generator, 4)
    if rewards == "typical":
        seen = family.draw_rewards(np.broadcast_to(means, (1000, 4)), generator)
    else:
        ends = boundary_rewards(family)
        seen = np.resize(ends if len(ends) else means, (1000, 4))
        seen[:] = seen[0]  # the same reward always
    evidence = 1000 * family.statistic(seen).sum(axis=1)
    belief = family.prior()[:, None] + learning_rate * evidence
    low, centre, high = (family.mean_quantile(belief, level) for level in (0.01, 0.5, 0.99))
    sample = family.sample_mean(belief, generator)
    assert np.isfinite([low, centre, high, sample, family.posterior_mean(belief)]).all()
    assert np.isfinite(family.log_density(belief, centre)).all()
    assert ((low <= centre) & (centre <= high)).all()
    if learning_rate >= 1 and rewards == "typical" and not hasattr(family, "edges"):
        spread = seen.std(axis=0) / np.sqrt(1000)
        assert (np.abs(centre - seen.mean(axis=0)) < 0.01 * spread + 1e-5).all()
        assert (high - low < spread).all()
