"""Laws of every registered policy, on every family: fair to arms, to agents and to runs.

Two policies that explore for ever stand beside the registered ones, so that no law forbids such.
Seeds are fixed; a correct policy fails a statistical test with probability below 1e-6.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy import stats

from posse import beliefs
from posse.policies import POLICIES, Greedy, ThompsonSampling, Uniform, choose
from posse.randomness import Streams
from tests.effort import limit_count

HORIZON = 100


@dataclasses.dataclass(frozen=True)
class EpsilonGreedy(Greedy):
    """The best arm, or in a fifth of the rounds any arm."""

    name = "epsilon-greedy"

    def scores(self, belief, family, t, horizon, generator):
        explores = generator.random(belief.shape[1:-1]) < 0.2
        any_arm = generator.random(belief.shape[1:])
        return np.where(explores[..., None], any_arm, family.posterior_mean(belief))

    def probabilities(self, belief, family, t, horizon):
        best = super().probabilities(belief, family, t, horizon)
        return 0.8 * best + 0.2 / belief.shape[-1]


@dataclasses.dataclass(frozen=True)
class SecondSample(ThompsonSampling):
    """The first or the second of a posterior sample, each in half of the rounds."""

    name = "second-sample"

    def scores(self, belief, family, t, horizon, generator):
        sample = family.sample_mean(belief, generator)
        first = sample == sample.max(axis=-1, keepdims=True)
        second = generator.random(belief.shape[1:-1]) < 0.5
        return np.where(first & second[..., None], -np.inf, sample)

    def probabilities(self, belief, family, t, horizon):
        return None  # that of being the second is not worked out


EXPLORERS = {each.name: each for each in (EpsilonGreedy, SecondSample)}


@pytest.fixture(scope="module", params=[*POLICIES, *EXPLORERS])
def policy(request, example_of):
    """Every registered policy in turn, and the two that explore for ever."""
    return example_of((POLICIES | EXPLORERS)[request.param])


class Relabelled:
    """A generator for relabelled arms (axis 1) or agents (axis 0): the same noise, moved alike."""

    def __init__(self, generator, order, axis):
        self.generator, self.order, self.axis = generator, order, axis

    def moved(self, values, order):
        # what is drawn once per agent, to break ties, does not move with the arms
        return values if values.ndim <= self.axis else np.take(values, order, axis=self.axis)

    def before(self, values):
        return self.moved(np.asarray(values), np.argsort(self.order))

    def random(self, size):
        return self.moved(self.generator.random(size), self.order)

    def standard_normal(self, size):
        return self.moved(self.generator.standard_normal(size), self.order)

    def standard_gamma(self, shape):
        return self.moved(self.generator.standard_gamma(self.before(shape)), self.order)

    def beta(self, a, b):
        return self.moved(self.generator.beta(self.before(a), self.before(b)), self.order)


@pytest.mark.parametrize("t", [2, 50])
def test_relabelling_arms_relabels_the_choice(policy, family, learnt, t):
    belief = learnt(family, np.random.default_rng(1), (40, 5), pulls=7)
    order = np.array([3, 0, 4, 1, 2])
    arms = choose(policy, belief, family, t, HORIZON, np.random.default_rng(2))
    noise = Relabelled(np.random.default_rng(2), order, axis=1)
    relabelled = choose(policy, belief[..., order], family, t, HORIZON, noise)
    scores = policy.scores(belief, family, t, HORIZON, np.random.default_rng(2))
    contested = (scores == scores.max(axis=-1, keepdims=True)).sum(axis=-1) > 1
    assert contested.mean() < 0.5
    np.testing.assert_array_equal(order[relabelled][~contested], arms[~contested])
    assert len(set(arms)) == 5


def test_relabelling_agents_relabels_the_choice(policy, family, learnt):
    belief = learnt(family, np.random.default_rng(3), (6, 4))
    belief[:, :, 1] = belief[:, :, 0]  # ties too
    order = np.array([5, 2, 0, 1, 4, 3])
    arms = choose(policy, belief, family, 9, HORIZON, np.random.default_rng(4))
    noise = Relabelled(np.random.default_rng(4), order, axis=0)
    relabelled = choose(policy, belief[:, order], family, 9, HORIZON, noise)
    np.testing.assert_array_equal(relabelled, arms[order])


@pytest.mark.parametrize("t", [1, 2, 30])
def test_arms_of_equal_belief_are_equally_likely(policy, family, learnt, t):
    """The first round above all; positional ties would play arm 0 alone."""
    n_arms = 5
    n_agents = limit_count(family, 8_000)
    if t == 1:
        belief = beliefs.prior(family, n_agents, n_arms)
    else:
        one = learnt(family, np.random.default_rng(5), (1, 1))
        belief = np.broadcast_to(one, (len(one), n_agents, n_arms))
    arms = choose(policy, belief, family, t, HORIZON, np.random.default_rng(6))
    assert stats.chisquare(np.bincount(arms, minlength=n_arms)).pvalue > 1e-6


def test_no_arm_is_played_more_often_than_the_best(policy, family):
    """Unlike the position, what was learnt decides: the best arm last, certain beyond doubt.

    A policy may explore for ever, and play the second best as often, but the worst less often.
    """
    if isinstance(policy, Uniform):  # ignores what was learnt: tests/policies/test_uniform.py
        return
    means = np.array([0.3, 0.5, 0.9])
    rewards = family.draw_rewards(np.broadcast_to(means, (4000, 3)), np.random.default_rng(7))
    belief = family.prior()[:, None] + 10 * family.statistic(rewards).sum(axis=1)
    agents = np.broadcast_to(belief[:, None], (len(belief), 1000, 3))
    arms = choose(policy, agents, family, 50, HORIZON, np.random.default_rng(17))
    worst, second, best = np.bincount(arms, minlength=3).tolist()
    assert stats.binom.sf(second - 1, second + best, 0.5) > 1e-6
    assert stats.binom.sf(best - 1, worst + best, 0.5) < 1e-6


@pytest.mark.parametrize(("t", "pulls"), [(1, 0), (2, 3), (60, 12)])
def test_arms_are_chosen_with_the_probabilities_that_the_policy_says(
    policy, family, learnt, t, pulls
):
    """Chi-square of many agents' choices at an error rate of 1e-6; two of four arms tie."""
    belief = learnt(family, np.random.default_rng(18), (4,), pulls=pulls)
    belief[:, 1] = belief[:, 0]
    said = policy.probabilities(belief, family, t, HORIZON)
    if said is None:  # such a policy is for the lab alone
        return
    assert said.shape == (4,)
    assert said.sum() == pytest.approx(1.0, abs=1e-6)
    n_agents = limit_count(family, 20_000)
    agents = np.broadcast_to(belief[:, None], (len(belief), n_agents, 4))
    arms = choose(policy, agents, family, t, HORIZON, np.random.default_rng(19))
    counts, expected = np.bincount(arms, minlength=4), n_agents * said
    likely = expected > 5  # the chi-square law needs a few in every class
    assert (counts[~likely] < 30).all()
    excess = (counts - expected)[likely]
    assert stats.chi2.sf((excess**2 / expected[likely]).sum(), max(1, likely.sum() - 1)) > 1e-6
    assert not counts[said == 0].any()


@pytest.mark.parametrize("shape", [(4,), (3, 4), (2, 3, 4)])
def test_scores_and_arms_follow_the_shape_of_the_belief(policy, family, learnt, shape):
    belief = learnt(family, np.random.default_rng(8), shape)
    scores = policy.scores(belief, family, 3, HORIZON, np.random.default_rng(9))
    arms = choose(policy, belief, family, 3, HORIZON, np.random.default_rng(9))
    assert scores.shape == shape
    assert np.shape(arms) == shape[:-1]
    assert np.issubdtype(np.asarray(arms).dtype, np.integer)


def test_a_run_does_not_notice_the_other_runs_of_its_block(policy, family, learnt):
    """Three rounds; runs 0 and 2 begin with ties, run 1 does not."""
    belief = learnt(family, np.random.default_rng(10), (3, 4, 5))
    belief[:, [0, 2]] = belief[:, [0, 2], :, :1]
    together = Streams.for_runs(11, [0, 1, 2], "policy")
    alone = [Streams.for_runs(11, [run], "policy") for run in range(3)]
    for t in (1, 2, 3):
        arms = choose(policy, belief, family, t, HORIZON, together)
        for run in range(3):
            np.testing.assert_array_equal(
                arms[run], choose(policy, belief[:, [run]], family, t, HORIZON, alone[run])[0]
            )
        belief = beliefs.observe(belief, arms, np.full(arms.shape, 0.5), family, 1.0 + t)


def test_breaking_a_tie_takes_no_more_of_the_stream_than_having_none(policy, family, learnt):
    distinct = learnt(family, np.random.default_rng(12), (4, 5))
    tied = np.broadcast_to(distinct[..., :1], distinct.shape)
    # samples may take more variates for one belief than for another, but then never tie
    scores = policy.scores(tied, family, 4, HORIZON, np.random.default_rng(13))
    if (scores == scores[:, :1]).all():
        after = []
        for belief in (distinct, tied):
            stream = np.random.default_rng(14)
            choose(policy, belief, family, 4, HORIZON, stream)
            after.append(stream.random())
        assert after[0] == after[1]


def test_beliefs_are_left_as_they_were(policy, family, learnt):
    belief = learnt(family, np.random.default_rng(15), (3, 4))
    copy = belief.copy()
    belief.setflags(write=False)
    choose(policy, belief, family, 2, HORIZON, np.random.default_rng(16))
    np.testing.assert_array_equal(belief, copy)


def test_policies_are_values(policy):
    copy = dataclasses.replace(policy)
    assert copy == policy
    assert hash(copy) == hash(policy)
    assert (POLICIES | EXPLORERS)[policy.name] is type(policy)
    with pytest.raises(dataclasses.FrozenInstanceError):
        policy.name = "other"
