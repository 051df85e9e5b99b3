"""Live agents at sites that differ: the core's formula on their evidence, and what people see."""

from __future__ import annotations

import logging

import numpy as np
import pytest

import posse
from posse.families import Bernoulli, Exponential, Gaussian, GaussianUnknownVariance, Poisson
from posse.live.agent.agent import Agent
from posse.live.agent.site_pooling import TICKS_BETWEEN_CHECKS
from posse.live.config.experiment_settings import experiment_from_data
from posse.sites import Sites
from tests.live.several import Several, table

ARMS = ["red", "green", "blue"]
MEANS = {"a": (0.6, 0.4, 0.2), "b": (0.6, 0.4, 0.2), "c": (0.2, 0.4, 0.6)}


def three(family=None, sites="alike", range_=None, **options):
    """Agents a, b and c, each linked with each."""
    found = {
        name: Agent(
            ARMS, family or Bernoulli(), sites=sites, seed=ord(name), reward_range=range_,
            exchange_options={"identity": name}, **options,
        )
        for name in MEANS
    }  # fmt: skip
    for name, each in found.items():
        for other in set(found) - {name}:
            each.connect(other)
    return found


def deliver(agents, now):
    waiting = [(s, r, m) for s, each in agents.items() for r, m in each.tick(now)]
    while waiting:
        sender, receiver, message = waiting.pop(0)
        answers = agents[receiver].receive(sender, message, now)
        waiting += [(receiver, peer, answer) for peer, answer in answers]


def settled(agents, now):
    """Everybody knows all, and has read it."""
    for later in range(4):
        deliver(agents, now + later)


def evidence_of(family, played):
    """(2, 3, K) of [(site, arm, reward)]."""
    sums = np.zeros((2, 3, len(ARMS)))
    for site, arm, reward in played:
        sums[:, "abc".index(site), ARMS.index(arm)] += family.statistic(np.array(reward))
    return sums


def history(family, seed, rounds=30):
    generator = np.random.default_rng(seed)
    for _ in range(rounds):
        for site in MEANS:
            arm = int(generator.integers(3))
            mean = np.array(MEANS[site][arm])
            reward = float(np.clip(family.draw_rewards(mean, generator), 0, 4))
            yield site, ARMS[arm], round(reward * 1024) / 1024  # whole quanta


@pytest.mark.parametrize("sites", [0.3, 0, "differ"])
@pytest.mark.parametrize(
    "family", [Bernoulli(1, 3), Gaussian(prior_mean=0.2), Poisson(), Exponential()], ids=str
)
def test_agents_believe_what_the_core_says_of_their_evidence(family, sites):
    """Acted on and shown; own rewards count exactly in between, others' from the next tick on."""
    agents, played = three(family, sites, (0, 1) if family.name == "bernoulli" else (0, 4)), []
    for site, arm, reward in history(family, 1):
        agents[site].learn(arm, reward)
        played.append((site, arm, reward))
    settled(agents, 1.0)
    site_sd = None if sites == "differ" else sites
    core = Sites(family, evidence_of(family, played), site_sd)
    for place, (name, each) in enumerate(agents.items()):
        np.testing.assert_allclose(each.belief, core.site_beliefs()[:, place], rtol=1e-6, atol=1e-6)
        shown, network = core.site_beliefs(for_display=True)[:, place], core.network_belief()
        for k, (arm, status) in enumerate(each.arms().items()):
            assert status.mean == pytest.approx(family.posterior_mean(shown[:, k]), rel=1e-5), name
            assert status.low == pytest.approx(family.mean_quantile(shown[:, k], 0.025), rel=1e-4)
            middle = family.posterior_mean(network[:, k])
            assert status.network_mean == pytest.approx(middle, rel=1e-5), arm
            assert status.network_low < status.network_mean < status.network_high
            assert status.sd_between_sites == pytest.approx(core.sd_between()[0][k], abs=1e-6)
    before, b = agents["a"].belief, agents["b"].belief
    agents["a"].learn("green", 1.0)
    added = agents["a"].belief - before
    np.testing.assert_allclose(added[:, 1], family.statistic(np.array(1.0)), atol=1e-5)
    np.testing.assert_array_equal(added[:, [0, 2]], 0)
    np.testing.assert_array_equal(agents["b"].belief, b)


def test_alike_is_as_it_was_and_zero_is_the_same():
    alike, zero = three(), three(sites=0)
    for agents in (alike, zero):
        for site, arm, reward in history(Bernoulli(), 2):
            agents[site].learn(arm, reward)
        settled(agents, 1.0)
    for name, each in alike.items():
        np.testing.assert_allclose(zero[name].belief, each.belief, rtol=1e-12)
        assert each.fingerprint == zero[name].fingerprint  # reading only


def test_one_tells_how_far_sites_differ_from_closed_decisions_and_acts_on_open_ones():
    family = Bernoulli(1, 3)
    agents = three(family, "differ", silent_default=0.0)
    closed = list(history(family, 3, rounds=60))
    for site, arm, reward in closed:
        made = agents[site].count_decision(arm, 0.0)
        agents[site].correct_reward(arm, 0.0, reward, made)
        agents[site].close_decision(arm, reward, made)
    # sites that wait for many rewards look as if they had lower means, to who does not wait
    for _ in range(200):
        agents["c"].count_decision("red", 0.0)
    settled(agents, 1.0)
    opened = [("c", "red", 0.0)] * 200
    core = Sites(family, evidence_of(family, closed))
    acted = core.site_beliefs(acting_evidence=evidence_of(family, closed + opened))
    shown = core.site_beliefs(for_display=True)
    for place, each in enumerate(agents.values()):
        np.testing.assert_allclose(each.belief, acted[:, place], rtol=1e-6)
        means = [status.mean for status in each.arms().values()]
        np.testing.assert_allclose(means, family.posterior_mean(shown[:, place]), rtol=1e-5)
        assert each.differences.alike == pytest.approx(
            float(core.probability_all_alike()), rel=1e-5
        )


def play(agents, means, ticks, seed):
    """Everybody plays ten times a tick, by its own means; the share of each arm at c."""
    generator, chosen = np.random.default_rng(seed), []
    for now in range(ticks):
        for name, each in agents.items():
            for arm, _ in each.choose_many([None] * 10):
                each.learn(arm, float(generator.random() < means[name][ARMS.index(arm)]))
                chosen += [arm] if name == "c" else []
        deliver(agents, float(now))
    return {arm: chosen.count(arm) / len(chosen) for arm in ARMS}


def test_a_site_whose_best_arm_is_the_others_worst_finds_its_own():
    """With pooling it plays its worst arm most of the time, and all are told that sites differ.

    Fixed seeds; far from either bound.
    """
    pooled, apart = three(), three(sites="differ")
    assert play(pooled, MEANS, 31, 4)["red"] > 0.6
    assert play(apart, MEANS, 31, 4)["red"] < 0.15
    for each in pooled.values():
        found = each.differences
        assert found.differ
        assert found.alike < 0.05
        assert found.arms[0] == "red"  # blue is hardly played by then
        assert found.sentence.startswith("sites differ by about 0.")
        assert found.sentence.endswith("pooling their evidence may harm: set sites = 'differ'")
        assert each.arms()["red"].sites_differ
    for name, each in apart.items():
        assert each.differences.differ
        best = max(each.arms().items(), key=lambda item: item[1].mean)[0]
        assert best == ARMS[int(np.argmax(MEANS[name]))]


def test_sites_that_are_alike_are_left_alone():
    agents = three()
    play(agents, dict.fromkeys("abc", MEANS["a"]), 21, 5)
    for each in agents.values():
        assert not each.differences.differ
        assert each.differences.alike > 0.5
        assert not any(status.sites_differ for status in each.arms().values())
        gained = each.measure_sharing()
        assert 0 <= gained.loss_shared < gained.loss_alone


def test_who_pools_looks_now_and_then_only(monkeypatch):
    """Decisions and most ticks do not read site by site."""
    agents = three()
    looks = []
    exchange = agents["a"].exchange
    by_origin = exchange.by_origin
    monkeypatch.setattr(exchange, "by_origin", lambda: looks.append(1) or by_origin())
    for now in range(3 * TICKS_BETWEEN_CHECKS):
        agents["a"].update(agents["a"].pull(), 1.0)
        deliver(agents, float(now))
    assert len(looks) == 3


def test_other_ways_to_read_are_taken_in_while_it_runs():
    agents = three()
    for site, arm, reward in history(Bernoulli(), 6):
        agents[site].learn(arm, reward)
    settled(agents, 1.0)
    each, core = agents["a"], evidence_of(Bernoulli(), history(Bernoulli(), 6))
    pooled = each.belief
    each.set_sites(0.5)
    np.testing.assert_allclose(
        each.belief, Sites(Bernoulli(), core, 0.5).site_beliefs()[:, 0], rtol=1e-6
    )
    each.set_arms(["green", "blue"])
    assert each.sites == 0.5
    np.testing.assert_allclose(
        each.belief, Sites(Bernoulli(), core[..., 1:], 0.5).site_beliefs()[:, 0], rtol=1e-6
    )
    each.set_arms(ARMS)
    each.set_sites("alike")
    np.testing.assert_array_equal(each.belief, pooled)


def test_a_restart_goes_on_with_what_others_said():
    agents = three(sites="differ")
    for site, arm, reward in history(Bernoulli(), 7):
        agents[site].learn(arm, reward)
    settled(agents, 1.0)
    again = three(sites="differ")["a"]
    np.testing.assert_allclose(again.belief, 1.0)  # the prior
    again.restore(agents["a"].state())
    np.testing.assert_allclose(again.belief, agents["a"].belief)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"sites": "different"}, "sites .different. is unknown: did you mean .differ."),
        ({"sites": -1.0}, "sites must be"),
        ({"sites": True}, "sites must be"),
        (
            {"sites": "differ", "exchange": "flows", "network_size": 3},
            "sites = 'differ' needs exchange 'origins': flows do not know evidence by site",
        ),
        ({"sites": "differ", "half_life": 1e5}, "does not go with half_life"),
        ({"sites": 0.1, "family": GaussianUnknownVariance()}, "family"),
    ],
)
def test_what_does_not_go_together_is_refused(options, said):
    given = {"family": Bernoulli(), "reward_range": (0, 1)} | options
    family = given.pop("family")
    with pytest.raises(ValueError, match=said):
        posse.Agent(ARMS, family, **given)
    data = {"arms": ARMS, "family": "bernoulli", "reward_range": [0, 1], **options}
    if not isinstance(family, Bernoulli):
        data["family"] = "gaussian-unknown-variance"
    with pytest.raises(ValueError, match=said):
        experiment_from_data(data)


def test_a_node_says_once_that_sites_differ_and_takes_in_another_way(tmp_path, caplog):
    """In the log, the numbers by experiment and by arm; and `reload` changes `sites`."""
    caplog.set_level(logging.INFO)
    data = {name: table(name, experiments=["banner"]) for name in "abc"}
    several = Several(tmp_path).start(**data)
    rewards = {"a": {"red": 1.0, "green": 0.0}, "b": {"red": 1.0, "green": 0.0},
               "c": {"red": 0.0, "green": 1.0}}  # fmt: skip
    try:
        for _ in range(TICKS_BETWEEN_CHECKS):
            for name, node in several.nodes.items():
                one = node.experiment("banner")
                for arm in ("red", "green"):
                    decision = one.decide(allowed=[arm])
                    one.reward(decision.id, rewards[name][arm])
            several.tick()
        several.tick(TICKS_BETWEEN_CHECKS + 2)
        node = several.nodes["b"]
        one = node.experiment("banner")
        said = [each for each in caplog.messages if each.startswith("sites differ by about 0.")]
        assert len(said) == 3  # each agent once
        found = one.site_status()
        assert found["read"] == "alike"
        assert found["alike"] < 0.05
        assert found["differ"] == one.agent.differences.sentence
        assert one.arms()["red"]["sites_differ"]
        assert found["loss_shared"] > found["loss_alone"]  # here sharing does harm
        changed = node.reload(several.read_settings({**data["b"], "sites": "differ"}))
        assert "sites of banner: differ" in changed
        several.tick()
        assert one.site_status()["read"] == "differ"
        assert one.site_status()["differ"].endswith(
            "evidence of other sites is discounted accordingly"
        )
        assert one.arms()["red"]["mean"] > 0.8
        said = [each for each in caplog.records if each.message.startswith("sites differ by")]
        assert [each.levelname for each in said] == ["WARNING"] * 3 + ["INFO"]
    finally:
        several.close()
