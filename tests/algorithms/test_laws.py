"""Laws of every algorithm in the registry, and identities that tie Algorithm 1 to its lemmas."""

import inspect
import re

import numpy as np
import pytest
from scipy import stats

import posse
from posse import beliefs, networks, theory
from posse.algorithms import ALGORITHMS, Centralized, Decentralized, Problem
from posse.algorithms.bayesian import BayesianAlgorithm
from posse.families import Bernoulli, Gaussian
from posse.policies import Greedy, ThompsonSampling

N_AGENTS, N_ARMS = 5, 4


def example_of(algorithm_class):
    return algorithm_class.example() if hasattr(algorithm_class, "example") else algorithm_class()


def problem_for(family, network, n_runs=1, horizon=50):
    return Problem(network.n_agents, N_ARMS, horizon, family, network, n_runs)


def play(algorithm, problem, arms, rewards, weights):
    """The state after a history of arms and rewards, each (t, N), alike in every run."""
    state = algorithm.init(problem)
    for arms_t, rewards_t in zip(arms, rewards, strict=True):
        alike = (problem.n_runs, problem.n_agents)
        state = algorithm.learn(
            state, np.broadcast_to(arms_t, alike), np.broadcast_to(rewards_t, alike), weights
        )
    return state


def history(rounds, generator, family=None):
    arms = generator.integers(0, N_ARMS, (rounds, N_AGENTS))
    means = np.array([0.3, 0.4, 0.5, 0.6])
    return arms, (family or Gaussian()).draw_rewards(means[arms], generator)


@pytest.mark.parametrize("name", ALGORITHMS)
class TestEveryAlgorithm:
    def test_help_says_what_every_argument_is(self, name):
        text = ALGORITHMS[name].__doc__
        for argument in inspect.signature(ALGORITHMS[name]).parameters:
            assert re.search(rf"^ *(\w+, )*{argument}(, \w+)*: ", text, re.MULTILINE), argument

    def choice_counts(self, algorithm, arms, rewards, network, seed, n_runs=40, times=100):
        """Of 4000 choices; runs that learnt alike choose many times, which is cheap."""
        problem = problem_for(Gaussian(), network, n_runs, horizon=len(arms) + 1)
        state = play(algorithm, problem, arms, rewards, network.weights)
        generator = np.random.default_rng(seed)
        chosen = [algorithm.choose(state, len(arms) + 1, generator) for _ in range(times)]
        assert {each.shape for each in chosen} == {(n_runs, N_AGENTS)}
        chosen = np.concatenate(chosen)
        return np.stack(
            [np.bincount(chosen[:, agent], minlength=N_ARMS) for agent in range(N_AGENTS)]
        )

    @pytest.mark.parametrize("rounds", [N_ARMS, 12])  # forced pulls have an order: after them
    def test_relabelling_arms_and_agents_relabels_the_choice(self, name, rounds):
        """In law: a two-sample chi-square per agent, error rate 1e-4 in all."""
        if name == "gosine":  # shares arms out by number: the law with the shares, test_rivals.py
            return
        algorithm = example_of(ALGORITHMS[name])
        generator = np.random.default_rng(rounds)
        arms, rewards = history(rounds, generator)
        # every arm is played first, so that indices of all kinds are defined
        arms[:N_ARMS] = np.arange(len(arms[:N_ARMS]))[:, None]
        arm_label = np.array([2, 0, 3, 1])  # old arm -> new arm
        agent_order = np.array([3, 1, 4, 0, 2])  # new agent -> old agent
        network = networks.path(N_AGENTS)
        relabelled = networks.from_matrix(
            np.asarray(network.weights)[np.ix_(agent_order, agent_order)]
        )
        before = self.choice_counts(algorithm, arms, rewards, network, seed=1)
        after = self.choice_counts(
            algorithm, arm_label[arms][:, agent_order], rewards[:, agent_order], relabelled, seed=2
        )
        expected = before[agent_order][:, np.argsort(arm_label)]
        for ours, theirs in zip(after, expected, strict=True):
            table = np.stack([ours, theirs])
            table = table[:, table.sum(axis=0) > 0]
            if table.shape[1] > 1:
                assert stats.chi2_contingency(table).pvalue > 1e-4 / (2 * N_AGENTS * 2)

    def test_beats_uniform_play(self, name):
        bandit = posse.Bandit.gaussian([1.0, 0.0, 0.0, 0.0])
        result = posse.simulate(
            bandit, networks.cycle(4), example_of(ALGORITHMS[name]), horizon=300, runs=20, seed=3
        )
        uniform_regret = 300 * 0.75
        assert result.summary().high < uniform_regret / 4

    def test_does_not_depend_on_the_other_runs_of_a_block(self, name):
        algorithm, network = example_of(ALGORITHMS[name]), networks.cycle(N_AGENTS)
        arms, rewards = history(6, np.random.default_rng(0))
        alone = play(algorithm, problem_for(Gaussian(), network), arms, rewards, network.weights)
        block = play(algorithm, problem_for(Gaussian(), network, 3), arms, rewards, network.weights)
        for kept, axis in {
            "belief": 1,
            "counts": 0,
            "totals": 0,
            "averaged": 1,
            "fresh": 1,
        }.items():
            if hasattr(block, kept):
                np.testing.assert_array_equal(
                    np.take(getattr(block, kept), 1, axis), np.take(getattr(alone, kept), 0, axis)
                )


def test_one_round_by_hand():
    """Two agents, one round, Beta(1, 1): update with learning rate 2, then merge (Alg. 1)."""
    network = networks.from_matrix([[0.75, 0.25], [0.25, 0.75]])
    problem = Problem(2, 2, 10, Bernoulli(), network)
    algorithm = Decentralized(ThompsonSampling())
    arms, rewards = np.array([[0, 1]]), np.array([[1.0, 0.0]])
    state = algorithm.learn(algorithm.init(problem), arms, rewards, network.weights)
    alpha, beta = state.belief[:, 0]
    np.testing.assert_allclose(alpha, [[1 + 2 * 0.75, 1], [1 + 2 * 0.25, 1]])
    np.testing.assert_allclose(beta, [[1, 1 + 2 * 0.25], [1, 1 + 2 * 0.75]])


def test_the_complete_graph_with_learning_rate_n_is_one_agent_with_pooled_data():
    network = networks.complete(N_AGENTS)
    arms, rewards = history(20, np.random.default_rng(5))
    state = play(
        Decentralized(Greedy()), problem_for(Gaussian(), network), arms, rewards, network.weights
    )
    pooled = beliefs.prior(Gaussian(), 1, N_ARMS)
    for arm, reward in zip(arms.ravel(), rewards.ravel(), strict=True):
        pooled = beliefs.observe(pooled, np.array([arm]), np.array([reward]), Gaussian(), 1.0)
    np.testing.assert_allclose(
        state.belief[:, 0], np.repeat(pooled, N_AGENTS, axis=1), rtol=1e-12, atol=1e-12
    )


def test_centralized_is_one_agent_with_pooled_data():
    network = networks.path(N_AGENTS)  # ignored
    arms, rewards = history(20, np.random.default_rng(6))
    state = play(
        Centralized(Greedy()), problem_for(Gaussian(), network), arms, rewards, network.weights
    )
    counts = np.bincount(arms.ravel(), minlength=N_ARMS)
    sums = np.bincount(arms.ravel(), weights=rewards.ravel(), minlength=N_ARMS)
    for agent in range(N_AGENTS):
        np.testing.assert_allclose(state.belief[:, 0, agent], [sums, 1 + counts], rtol=1e-12)


def test_isolated_agents_learn_from_their_own_rewards_alone():
    network = networks.complete(N_AGENTS)
    arms, rewards = history(20, np.random.default_rng(8))
    state = play(
        posse.Isolated(Greedy()), problem_for(Gaussian(), network), arms, rewards, network.weights
    )
    for agent in range(N_AGENTS):
        counts = np.bincount(arms[:, agent], minlength=N_ARMS)
        sums = np.bincount(arms[:, agent], weights=rewards[:, agent], minlength=N_ARMS)
        np.testing.assert_allclose(
            state.belief[:, 0, agent], [sums, 1 + counts], rtol=1e-12, atol=1e-12
        )


def test_gaussian_beliefs_are_running_consensus():
    """precision = 1/sigma0^2 + N n/sigma^2, (n, s) being the consensus pair started at 0."""
    family = Gaussian(sigma=2.0, prior_mean=0.5, prior_sd=3.0)
    network = networks.grid(1, N_AGENTS).weighted("metropolis")
    arms, rewards = history(30, np.random.default_rng(9))
    state = play(
        Decentralized(Greedy()), problem_for(family, network), arms, rewards, network.weights
    )
    n = s = np.zeros((N_AGENTS, N_ARMS))
    for arms_t, rewards_t in zip(arms, rewards, strict=True):
        played = np.eye(N_ARMS)[arms_t]
        n = network.weights @ (n + played)
        s = network.weights @ (s + played * rewards_t[:, None])
    shift, precision = state.belief[:, 0]
    np.testing.assert_allclose(precision, 1 / 9 + N_AGENTS * n / 4, rtol=1e-12)
    np.testing.assert_allclose(shift, 0.5 / 9 + N_AGENTS * s / 4, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("learning_rate", [None, 0.5, 3.0])
def test_beta_parameters_have_the_closed_form_and_its_bounds(learning_rate):
    """Lemma `posterior_closed_form`, and Lemma `alpha_beta_bounds` along the way."""
    network = networks.cycle(N_AGENTS)
    rate = N_AGENTS if learning_rate is None else learning_rate
    arms, rewards = history(40, np.random.default_rng(11), Bernoulli())
    algorithm = Decentralized(Greedy(), learning_rate=learning_rate)
    for t in (1, 2, 7, 40):
        state = play(
            algorithm,
            problem_for(Bernoulli(), network),
            arms[:t],
            rewards[:t],
            network.weights,
        )
        alpha, beta = theory.posterior_closed_form(
            arms[:t], rewards[:t], np.asarray(network.weights), rate, N_ARMS
        )
        np.testing.assert_allclose(state.belief[0, 0], alpha, rtol=1e-12)
        np.testing.assert_allclose(state.belief[1, 0], beta, rtol=1e-12)
        played, paid = arms[:t].ravel(), rewards[:t].ravel()
        bounds = theory.alpha_beta_bounds(
            np.bincount(played, weights=paid, minlength=N_ARMS),
            np.bincount(played, minlength=N_ARMS),
            N_AGENTS,
            network.spectral_gap,
            rate,
        )
        assert (bounds.alpha_low <= alpha).all()
        assert (alpha <= bounds.alpha_high).all()
        assert (bounds.beta_low <= beta).all()
        assert (beta <= bounds.beta_high).all()


@pytest.mark.parametrize("bad", [0, -1.0, np.nan, np.inf, "much", True])
def test_a_learning_rate_that_is_not_positive_is_refused(bad):
    with pytest.raises(ValueError, match="learning_rate"):
        Decentralized(ThompsonSampling(), learning_rate=bad)


BAYESIAN = [name for name, cls in ALGORITHMS.items() if issubclass(cls, BayesianAlgorithm)]


@pytest.mark.parametrize("name", BAYESIAN)
def test_what_is_not_a_policy_or_a_family_is_refused(name):
    with pytest.raises(ValueError, match="policy must be"):
        ALGORITHMS[name](ThompsonSampling)
    with pytest.raises(ValueError, match="policy must be"):
        ALGORITHMS[name]("thompson")
    with pytest.raises(ValueError, match="family must be"):
        ALGORITHMS[name](ThompsonSampling(), family="gaussian")
