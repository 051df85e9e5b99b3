"""The paper's two equations on arrays: Lemma 1, Lemma 2 and the closed form, as written there."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from posse import beliefs
from posse.families import Bernoulli, Gaussian

seeds = st.integers(0, 2**32 - 1)
learning_rates = st.floats(0.01, 100.0)
few = settings(deadline=None, max_examples=25)


@pytest.mark.parametrize("agents", [4, np.int64(4), (4,), (2, 4), ()])
def test_every_agent_and_arm_begins_at_the_prior(family, agents):
    belief = beliefs.prior(family, agents, 3)
    between = agents if isinstance(agents, tuple) else (4,)
    assert belief.shape == (len(family.prior()), *between, 3)
    assert belief.flags.writeable
    for index in np.ndindex(belief.shape[1:]):
        np.testing.assert_array_equal(belief[(slice(None), *index)], family.prior())


@pytest.mark.parametrize("between", [(), (4,), (2, 4)])
def test_only_the_arm_played_learns_and_the_input_is_untouched(
    family, learnt, typical_means, between
):
    generator = np.random.default_rng(1)
    belief = learnt(family, generator, (*between, 3))
    before = belief.copy()
    arms = generator.integers(3, size=between)
    rewards = family.draw_rewards(typical_means(family, generator, between), generator)
    after = beliefs.observe(belief, arms, rewards, family, 2.5)
    np.testing.assert_array_equal(belief, before)
    played = np.arange(3) == np.asarray(arms)[..., None]  # (..., K)
    np.testing.assert_array_equal(after[:, ~played], before[:, ~played])
    learnt_now = before + 2.5 * family.statistic(np.asarray(rewards))[..., None]
    np.testing.assert_array_equal(after[:, played], learnt_now[:, played])
    assert not np.array_equal(after, before)


@pytest.mark.parametrize("reward", [1, 1.0, np.float64(1.0), np.array(1.0)])
@pytest.mark.parametrize("arm", [2, np.int64(2), np.array(2)])
def test_one_live_agent_observes_scalars(family, arm, reward):
    belief = beliefs.prior(family, (), 3)
    after = beliefs.observe(belief, arm, reward, family, 4.0)
    gained = after - belief
    np.testing.assert_array_equal(gained[:, :2], 0.0)
    np.testing.assert_allclose(
        gained[:, 2], 4.0 * family.statistic(np.asarray(1.0)), rtol=1e-12, atol=1e-12
    )


def test_beliefs_that_are_views_are_observed_too(family, doubly_stochastic):
    """The merge with uniform weights returns a read-only view, runs are sliced: never in place."""
    whole = beliefs.prior(family, (2, 4), 3)
    views = [
        np.broadcast_to(whole[:, 0, :1], (len(whole), 4, 3)),
        whole[:, 1],
        np.asfortranarray(whole[:, 0]),
        whole[:, 0, ::-1],
    ]
    arms, rewards = np.array([0, 2, 1, 1]), np.array([1.0, 0.0, 1.0, 0.0])
    expected = beliefs.observe(whole[:, 0].copy(), arms, rewards, family, 3.0)
    for view in views:
        np.testing.assert_array_equal(beliefs.observe(view, arms, rewards, family, 3.0), expected)


def test_the_order_of_observations_does_not_matter(family, typical_means):
    generator = np.random.default_rng(2)
    rewards = family.draw_rewards(typical_means(family, generator, (20,)), generator)
    forwards = backwards = beliefs.prior(family, (), 2)
    for reward in rewards:
        forwards = beliefs.observe(forwards, 1, reward, family, 0.7)
    for reward in rewards[::-1]:
        backwards = beliefs.observe(backwards, 1, reward, family, 0.7)
    np.testing.assert_allclose(forwards, backwards, rtol=1e-12)


# Merging ------------------------------------------------------------------------------------


@pytest.mark.parametrize("runs", [(), (3,)])
def test_agent_i_takes_row_i_of_the_weights(family, learnt, doubly_stochastic, runs):
    generator = np.random.default_rng(3)
    belief = learnt(family, generator, (*runs, 4, 3))
    weights = doubly_stochastic(generator, 4)
    assert not np.allclose(weights, weights.T)
    merged = beliefs.merge(belief, weights)
    assert merged.shape == belief.shape
    for agent in range(4):
        row = sum(weights[agent, other] * belief[..., other, :] for other in range(4))
        np.testing.assert_allclose(merged[..., agent, :], row, rtol=1e-12, atol=1e-12)
    for matrix in (sparse.csr_array(weights), sparse.coo_matrix(weights)):
        np.testing.assert_allclose(beliefs.merge(belief, matrix), merged, rtol=1e-12, atol=1e-12)


def test_agents_that_agree_still_agree_after_merging(family, learnt, doubly_stochastic):
    generator = np.random.default_rng(4)
    belief = np.repeat(learnt(family, generator, (1, 3)), 4, axis=1)
    merged = beliefs.merge(belief, doubly_stochastic(generator, 4))
    np.testing.assert_allclose(merged, belief, rtol=1e-13)


# The lemmas ---------------------------------------------------------------------------------


@given(seed=seeds, learning_rate=learning_rates)
@few
def test_lemma_1(doubly_stochastic, seed, learning_rate):
    generator = np.random.default_rng(seed)
    family = Bernoulli(*generator.uniform(0.2, 5.0, 2))
    n_agents, n_arms = 5, 3
    belief = beliefs.prior(family, n_agents, n_arms)
    alpha = np.full((n_agents, n_arms), family.alpha)
    beta = np.full((n_agents, n_arms), family.beta)
    for _ in range(8):
        weights = doubly_stochastic(generator, n_agents)
        arms, rewards = generator.integers(n_arms, size=n_agents), generator.integers(2, size=5)
        belief = beliefs.merge(
            beliefs.observe(belief, arms, rewards, family, learning_rate), weights
        )
        new_alpha, new_beta = np.zeros_like(alpha), np.zeros_like(beta)
        for i, j, k in np.ndindex(n_agents, n_agents, n_arms):
            tilde_alpha = alpha[j, k] + learning_rate * rewards[j] * (arms[j] == k)
            tilde_beta = beta[j, k] + learning_rate * (1 - rewards[j]) * (arms[j] == k)
            new_alpha[i, k] += weights[i, j] * tilde_alpha
            new_beta[i, k] += weights[i, j] * tilde_beta
        alpha, beta = new_alpha, new_beta
    np.testing.assert_allclose(belief, [alpha, beta], rtol=1e-12)


@given(seed=seeds, learning_rate=learning_rates)
@few
def test_lemma_2(doubly_stochastic, seed, learning_rate):
    """With sigma-tilde of agent j on the right of eq. `mu_merge`, where the paper prints i."""
    generator = np.random.default_rng(seed)
    family = Gaussian(*generator.uniform(0.5, 3.0, 3))
    n_agents, n_arms = 4, 3
    belief = beliefs.prior(family, n_agents, n_arms)
    mu = np.full((n_agents, n_arms), family.prior_mean)
    sigma = np.full((n_agents, n_arms), family.prior_sd)
    for _ in range(8):
        weights = doubly_stochastic(generator, n_agents)
        arms, rewards = generator.integers(n_arms, size=n_agents), generator.normal(size=n_agents)
        belief = beliefs.merge(
            beliefs.observe(belief, arms, rewards, family, learning_rate), weights
        )
        played = arms[:, None] == np.arange(n_arms)
        tilde_sigma = np.sqrt(1 / (1 / sigma**2 + learning_rate * played / family.sigma**2))
        own_reward = learning_rate * rewards[:, None] * played
        tilde_mu = mu * (tilde_sigma / sigma) ** 2 + own_reward * (tilde_sigma / family.sigma) ** 2
        precision, shift = np.zeros_like(mu), np.zeros_like(mu)
        for i, j in np.ndindex(n_agents, n_agents):
            precision[i] += weights[i, j] / tilde_sigma[j] ** 2
            shift[i] += weights[i, j] * tilde_mu[j] / tilde_sigma[j] ** 2
        mu, sigma = shift / precision, precision**-0.5
    np.testing.assert_allclose(family.posterior_mean(belief), mu, rtol=1e-10, atol=1e-10)
    quartiles = [family.mean_quantile(belief, level) for level in (0.25, 0.75)]
    np.testing.assert_allclose(
        quartiles[1] - quartiles[0], 2 * 0.6744897501960817 * sigma, rtol=1e-9
    )


@given(seed=seeds, learning_rate=learning_rates)
@few
def test_the_closed_form_of_the_posterior(doubly_stochastic, seed, learning_rate):
    """Lemma `posterior_closed_form`: what j saw at tau weighs (W^(t - tau))_ij at agent i."""
    generator = np.random.default_rng(seed)
    n_agents, n_arms, rounds = 4, 3, 7
    weights = doubly_stochastic(generator, n_agents)
    arms = generator.integers(n_arms, size=(rounds, n_agents))
    rewards = generator.integers(2, size=(rounds, n_agents)).astype(float)
    belief = beliefs.prior(Bernoulli(), n_agents, n_arms)
    expected = np.ones((2, n_agents, n_arms))
    for tau in range(rounds):
        updated = beliefs.observe(belief, arms[tau], rewards[tau], Bernoulli(), learning_rate)
        belief = beliefs.merge(updated, weights)
        power = np.linalg.matrix_power(weights, rounds - tau)
        for j in range(n_agents):
            seen = learning_rate * power[:, j]
            expected[0, :, arms[tau, j]] += seen * rewards[tau, j]
            expected[1, :, arms[tau, j]] += seen * (1 - rewards[tau, j])
    np.testing.assert_allclose(belief, expected, rtol=1e-12)
