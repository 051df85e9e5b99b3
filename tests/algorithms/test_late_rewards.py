"""Rewards that come late: an open pull counts as the lowest reward, or waits; later it is whole."""

import numpy as np
import pytest

import posse
from posse import beliefs, networks
from posse.algorithms import ArrivedRewards, Problem
from posse.families import FAMILIES, Bernoulli, Bounded, Gaussian
from posse.policies import ThompsonSampling

TS = ThompsonSampling()
KINDS = [posse.Decentralized, posse.Isolated, posse.Centralized, posse.Flooding]
RUNS, N_ARMS, NEVER = 2, 3, 10**6
LOWEST = [name for name, cls in FAMILIES.items() if name != "grid" and cls().rewards.low == 0]


def history(family, network, rounds, generator, typical_means, longest=6):
    """Arms, rewards and delays (T, R, N); a fifth never comes."""
    shape = (rounds, RUNS, network.n_agents)
    arms = generator.integers(0, N_ARMS, shape)
    rewards = family.draw_rewards(typical_means(family, generator, (N_ARMS,))[arms], generator)
    delays = generator.integers(0, longest + 1, shape)
    return arms, rewards, np.where(generator.random(shape) < 0.2, NEVER, delays)


def heard_in(t, arms, rewards, delays):
    """What arrives in round t, counted from 1."""
    pulled, run, agent = np.nonzero(np.arange(1, len(arms) + 1)[:, None, None] + delays == t)
    each = pulled, run, agent
    return ArrivedRewards(t, run, agent, arms[each], rewards[each], pulled + 1)


def played(algorithm, family, network, arms, rewards, delays, rounds=None):
    problem = Problem(network.n_agents, N_ARMS, len(arms), family, network, RUNS)
    state = algorithm.init(problem)
    for t in range(1, (rounds or len(arms)) + 1):
        heard = heard_in(t, arms, rewards, delays)
        state = algorithm.learn_delayed(state, arms[t - 1], heard, network.weights)
    if state.unclipped is None:
        return state.belief
    if isinstance(family, Bernoulli | Bounded):
        prior = family.prior()[:, None, None, None]
        np.testing.assert_array_equal(state.belief, np.maximum(state.unclipped, prior))
    else:
        np.testing.assert_array_equal(state.belief, state.unclipped)
    return state.unclipped


def slow(algorithm, family, network, arms, rewards, delays):
    """Pull by pull: what has gone round of its first guess, and of its reward, by how old it is."""
    rounds, runs, n_agents = arms.shape
    kind, matrix = type(algorithm), np.asarray(network.weights)
    counts = algorithm.open == "count"
    low = family.statistic(np.asarray(0.0)) if counts else np.zeros_like(family.prior())

    def there(source, since):
        """What each agent has of what the source has from a round on, after all rounds."""
        if kind is posse.Centralized or since > rounds:
            return np.full(n_agents, float(since <= rounds))
        steps = rounds - since + 1
        if kind is posse.Decentralized:
            return n_agents * np.linalg.matrix_power(matrix, steps)[:, source]
        if kind is posse.Isolated:
            return np.eye(n_agents)[source]
        return (np.linalg.matrix_power(matrix + np.eye(n_agents), steps)[source] > 0).astype(float)

    belief = beliefs.prior(family, (runs, n_agents), N_ARMS)
    for s, run, source in np.ndindex(arms.shape):
        left = (
            1.0 if algorithm.half_life is None else 0.5 ** ((rounds - s - 1) / algorithm.half_life)
        )
        guess = there(source, s + 1)
        reward = there(source, s + 1 + delays[s, run, source])
        whole = family.statistic(rewards[s, run, source])
        amount = np.outer(low, guess) + np.outer(whole - low, reward)
        belief[:, run, :, arms[s, run, source]] += left * amount
    return belief


@pytest.mark.parametrize("half_life", [None, 3.0])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", ["count", "wait", None])
def test_beliefs_are_those_of_a_slow_loop(kind, family, half_life, mode, typical_means):
    if mode == "count" and not np.isfinite(family.rewards.low):
        return  # refused by `simulate`, see below
    generator, network = np.random.default_rng(1), networks.path(4)
    given = history(family, network, 9, generator, typical_means)
    algorithm = kind(TS, half_life=half_life, open=mode)
    expected = slow(algorithm, family, network, *given)
    np.testing.assert_allclose(
        played(algorithm, family, network, *given), expected, rtol=1e-9, atol=1e-9
    )


@pytest.mark.parametrize("half_life", [None, 3.0])
@pytest.mark.parametrize("kind", KINDS)
def test_without_delay_hearing_is_learning_to_the_bit(kind, family, half_life, typical_means):
    generator, network = np.random.default_rng(2), networks.path(4)
    arms, rewards, delays = history(family, network, 9, generator, typical_means)
    algorithm = kind(TS, half_life=half_life)
    problem = Problem(4, N_ARMS, len(arms), family, network, RUNS)
    state = algorithm.init(problem)
    for t in range(len(arms)):
        state = algorithm.learn(state, arms[t], rewards[t], network.weights)
    ours = played(algorithm, family, network, arms, rewards, 0 * delays)
    np.testing.assert_array_equal(ours, state.belief)


@pytest.mark.parametrize("half_life", [None, 3.0])
@pytest.mark.parametrize("mode", ["count", "wait"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", LOWEST)
def test_nothing_is_lost_once_all_rewards_are_there(name, kind, mode, half_life, typical_means):
    """The beliefs of who heard each reward at once: on a complete graph all have all of it."""
    family, network = FAMILIES[name](), networks.complete(4)
    generator = np.random.default_rng(3)
    arms, rewards, delays = history(family, network, 12, generator, typical_means)
    pull = np.arange(12)[:, None, None]
    delays = np.minimum(delays, 11 - pull)  # all are there in the end
    algorithm = kind(TS, half_life=half_life, open=mode)
    late = played(algorithm, family, network, arms, rewards, delays)
    at_once = played(algorithm, family, network, arms, rewards, 0 * delays)
    np.testing.assert_allclose(late, at_once, rtol=1e-9, atol=1e-9)
    before = played(algorithm, family, network, arms, rewards, delays, rounds=8)
    then = played(algorithm, family, network, arms, rewards, 0 * delays, rounds=8)
    assert not np.allclose(before, then)  # some were open


def test_an_open_pull_counts_as_a_failure_or_not_at_all():
    """By hand: one agent, one pull that pays 1 two rounds later."""
    network, family = networks.complete(1), Bernoulli(1, 1)
    arms, rewards = np.zeros((3, RUNS, 1), int), np.ones((3, RUNS, 1))
    delays = np.array([2, NEVER, NEVER])[:, None, None] * np.ones((3, RUNS, 1), int)
    belief = {
        (mode, t): played(
            posse.Isolated(TS, open=mode), family, network, arms, rewards, delays, rounds=t
        )[:, 0, 0, 0].tolist()
        for mode in ("count", "wait")
        for t in (1, 3)
    }
    assert belief["count", 1] == [1, 2]
    assert belief["wait", 1] == [1, 1]
    assert belief["count", 3] == [2, 3]  # the two that never come stay failures
    assert belief["wait", 3] == [2, 1]


def test_a_correction_that_comes_after_its_pull_has_spread_leaves_a_belief():
    """16 on a cycle: a pull of weight 16 has spread when its success takes 16 failures back."""
    network, family, algorithm = (
        networks.cycle(16),
        Bernoulli(),
        posse.Decentralized(TS, open="count"),
    )
    arms, rewards = np.zeros((9, RUNS, 16), int), np.zeros((9, RUNS, 16))
    arms[:, :, 1:], rewards[0, :, 0] = 1, 1.0
    arms[1:, :, 0], delays = 2, np.full(arms.shape, NEVER)
    delays[0, :, 0] = 5
    exact = played(algorithm, family, network, arms, rewards, delays, rounds=6)
    assert exact[1, 0, 0, 0] < 0
    state = algorithm.init(Problem(16, N_ARMS, 9, family, network, RUNS))
    for t in range(1, 10):
        heard = heard_in(t, arms, rewards, delays)
        state = algorithm.learn_delayed(state, arms[t - 1], heard, network.weights)
        assert (state.belief >= 1).all()
        algorithm.choose(state, t + 1, np.random.default_rng(t))
    # of the whole network nothing is lost: one success of weight 16, no failure of arm 0
    np.testing.assert_allclose((state.unclipped - 1)[:, 0, :, 0].sum(axis=-1), [16, 0], atol=1e-9)


def test_what_counts_is_the_bandits_lowest_reward_in_the_agents_model():
    algorithm = posse.Isolated(TS, open="count")
    assert algorithm.open_pull_statistic(Gaussian().rewards.low, Gaussian()) is None
    np.testing.assert_array_equal(algorithm.open_pull_statistic(0.0, Gaussian()), [0.0, 1.0])
    for mode in ("wait", None):
        assert posse.Isolated(TS, open=mode).open_pull_statistic(0.0, Bernoulli()) is None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bad", ["close", True, 1])
def test_open_is_count_or_wait(kind, bad):
    with pytest.raises(ValueError, match=r"open .* is unknown: .*allowed are count, wait"):
        kind(TS, open=bad)
