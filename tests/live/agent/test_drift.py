"""Live agents whose evidence fades: the lab's formula, settings, and what people are shown."""

import numpy as np
import pytest

from posse import beliefs, families
from posse.families import FAMILIES
from posse.live.agent.agent import Agent
from posse.live.agent.factory import make_evidence
from posse.live.config.agent_settings import settings_from_data
from posse.live.config.experiment_settings import experiment_from_data
from posse.live.ledger.sums import PER_UNIT
from tests.live.several import Several, table

LIVE = [name for name in FAMILIES if getattr(FAMILIES[name], "powers", ())]
HALF_LIFE = 50.0
PLAIN = {"arms": ["red", "green"], "family": "bernoulli"}


@pytest.fixture(params=LIVE)
def live(request, with_random_prior):
    """Every registered family that is for live agents, in turn."""
    return with_random_prior(FAMILIES[request.param](), np.random.default_rng(9))


def at(agent, now):
    agent.tick(now)
    return agent


@pytest.mark.parametrize("exchange", ["origins", "flows"])
def test_the_belief_is_the_labs_which_fades_every_round(live, typical_means, exchange):
    generator = np.random.default_rng(10)
    rewards = live.draw_rewards(typical_means(live, generator, 200), generator).tolist()
    own = live.rewards
    ends = None if np.isfinite([own.low, own.high]).all() else (min(rewards), max(rewards))
    agent = at(Agent(["a", "b"], live, exchange=exchange, reward_range=ends, half_life=50), 0.0)
    belief = beliefs.prior(live, 1, 2)
    for now, reward in enumerate(rewards):
        belief = beliefs.fade(belief, live, 2.0 ** (-1.0 / HALF_LIFE))
        arm = now % 2
        belief = beliefs.observe(belief, np.array([arm]), np.array([reward]), live, 1.0)
        at(agent, float(now)).learn("ab"[arm], reward)
    # whole quanta of each power, in units of its largest value
    size = (
        np.abs(make_evidence(exchange, live, ends, None).sums.linear).sum(axis=1)
        * max(1.0, *np.abs(rewards)) ** 2
    )
    near = 2.0**-20 * len(rewards) * size[:, None]
    assert np.all(np.abs(agent.belief - belief[:, 0]) <= near + 1e-9 * np.abs(belief[:, 0]))


@pytest.mark.parametrize("exchange", ["origins", "flows"])
def test_decisions_cost_no_more_between_ticks(exchange):
    agent = at(Agent(["a", "b"], families.Bernoulli(), exchange=exchange, half_life=50), 0.0)
    for _ in range(20):
        agent.learn("a", 1.0)
    before = at(agent, 5.0).belief
    agent.pull()
    assert agent.belief is before
    assert at(agent, 6.0).belief is not before


def test_pulls_are_shown_for_what_they_are_worth():
    agent = at(Agent(["a", "b"], families.Bernoulli(), half_life=HALF_LIFE), 0.0)
    for _ in range(64):
        agent.learn("a", 1.0)
    shown = at(agent, 2 * HALF_LIFE).arms()["a"]
    assert shown.pulls_here == shown.pulls_in_network == pytest.approx(16.0, abs=1e-3)
    wide = shown.high - shown.low
    gone = at(agent, 70 * HALF_LIFE).arms()["a"]
    assert gone.pulls_here == 0.0
    assert gone.high - gone.low > wide
    assert gone.mean == pytest.approx(0.5)  # the prior's


def test_a_constant_reward_counts_as_often_as_the_half_life_allows():
    agent = at(Agent(["a"], families.Bernoulli(), half_life=10.0), 0.0)
    for now in range(300):
        at(agent, float(now)).learn("a", 1.0)
    assert agent.arms()["a"].pulls_here == pytest.approx(1 / (1 - 2**-0.1), rel=1e-4)


def test_agents_with_another_half_life_do_not_exchange():
    def fingerprint(**keys):
        return experiment_from_data({**PLAIN, **keys}).make_agent().fingerprint

    day = fingerprint(half_life="1 day")
    assert fingerprint(half_life=86400) == fingerprint(half_life="24 hours") == day
    both = {
        exchange: fingerprint(half_life=60, exchange=exchange) for exchange in ("flows", "origins")
    }
    assert len({fingerprint(), day, *both.values()}) == 4


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"half_life": "two weeks"}, "half_life must be seconds, or a number and a unit"),
        ({"half_life": 0}, "half_life must be a finite number above 0"),
        ({"half_life": True}, "half_life must be a number"),
        ({"half_life": 99.0}, "half_life of the experiment default must be at least 100 times "
         "tick_seconds, 100 seconds, got 99"),
        ({"half_life": 600, "tick_seconds": 10}, "1000 seconds, got 600"),
        ({"half_life": 100, "reward_window": 1001.0}, "reward_window must be at most 10 half"),
        ({"half_life": 600, "stop": {}}, "drifting means have no lasting winner"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_in_a_sentence(keys, words):
    with pytest.raises(ValueError, match=words):
        settings_from_data({"name": "a", **PLAIN, **keys})


@pytest.mark.parametrize("exchange", ["origins", "flows"])
def test_nodes_whose_evidence_fades_agree_after_a_restart(tmp_path, exchange):
    """Epochs pass while one of them is down; rewards weigh by the time of their decisions."""
    data = {"half_life": 100.0, "exchange": exchange}
    several = Several(tmp_path).start(a=table("a", ["one"], **data), b=table("b", ["one"], **data))
    try:
        a, b = several.nodes["a"].experiment("one"), several.nodes["b"].experiment("one")
        several.tick(3)
        waiting = [a.decide() for _ in range(32)]
        several.tick(100)  # a half-life later
        for decision in waiting:
            a.reward(decision.id, 1.0)
        several.tick(20)
        expected = 32 * 2.0 ** (-(several.now - waiting[0].time) / 100.0)
        for one in (a, b):
            assert pulls(one) == pytest.approx(expected, rel=0.02)
        several.nodes["b"].stop()
        several.now += 250.0
        b = several.open_node(table("b", ["one"], **data)).experiment("one")
        several.tick(20)
        expected = 32 * 2.0 ** (-(several.now - waiting[0].time) / 100.0)
        for one in (a, b):
            assert pulls(one) == pytest.approx(expected, rel=0.02)
    finally:
        several.close()


def pulls(experiment):
    """Of all arms, in the network."""
    held = experiment.evidence()["held"]
    return sum(values[-1] for values in held.values()) / PER_UNIT
