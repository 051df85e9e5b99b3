"""Factorised posteriors of weights: what `family.at` says, and no nonsense where matrices are."""

import numpy as np
import pytest

from posse import beliefs
from posse.live.agent.posterior import WeightPosteriors
from tests.live.visits import ARMS, FAMILIES, exchanged, reward_of, shop, visit

KINDS = pytest.mark.parametrize("kind", FAMILIES)


@KINDS
def test_readings_are_those_of_the_family_while_beliefs_change(kind):
    agent, generator = shop(kind), np.random.default_rng(1)
    weights = WeightPosteriors(agent.family, len(ARMS))
    for _ in range(50):
        x = np.array([agent.encode_context(visit(generator)).x for _ in range(4)])
        weights.update_belief(agent.belief)
        wanted = np.stack([agent.family.at_context(agent.belief, each) for each in x], axis=1)
        np.testing.assert_allclose(weights.belief_at(x), wanted, rtol=1e-9)
        np.testing.assert_allclose(weights.belief_at(x, 1), wanted[:, :, 1:2], rtol=1e-9)
        agent.learn(str(generator.choice(ARMS)), reward_of(kind, generator), x=x[0])


def test_a_matrix_that_is_none_reads_as_something_between_the_prior_and_its_evidence():
    """Of a neighbour that lies, or of sums that were rounded: no NaN, no negative variance."""
    agent = shop("linear")
    belief = beliefs.prior(agent.family, (), len(ARMS))
    d = agent.family.features
    rows, columns = np.triu_indices(d)
    belief[d:, 1] += np.where(rows == columns, 1e3, -0.9e3)  # 2 x 2 minors are as they should be
    belief[:d, 1] += 1e3
    weights = WeightPosteriors(agent.family, len(ARMS))
    weights.update_belief(belief)
    generator = np.random.default_rng(2)
    x = np.array([agent.encode_context(visit(generator)).x for _ in range(20)])
    shift, precision = weights.belief_at(x)
    assert np.isfinite(shift).all()
    assert (precision > 0).all()
    least = 1 / (agent.family.prior_sd**2 * (x**2).sum(axis=1))  # by the prior alone
    assert (precision[:, 1] >= 0.999 * least).all()


@KINDS
def test_agents_that_hear_each_other_decide_by_the_sum(kind):
    agents, generator = {name: shop(kind) for name in "abc"}, np.random.default_rng(3)
    for _ in range(30):
        for agent in agents.values():
            x = agent.encode_context(visit(generator)).x
            agent.learn(str(generator.choice(ARMS)), reward_of(kind, generator), x=x)
    exchanged(agents)
    one, *others = agents.values()
    for other in others:
        np.testing.assert_allclose(other.belief, one.belief, rtol=1e-12)
        assert other.exchange.evidence() == one.exchange.evidence()
    assert one.arms()["red"].pulls_in_network == sum(
        agent.arms()["red"].pulls_here for agent in agents.values()
    )
