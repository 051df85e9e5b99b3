"""The map of sites: plain sums, marks where a site differs, what sharing gained."""

import numpy as np
import pytest

from posse import families
from posse.live.agent.agent import Agent
from posse.live.agent.site_pooling import MOST_SITES, SiteMap

ARMS = ["red", "green"]


def network(rates, pulls, seed=0, family=None, **options):
    """Agents of sites with their own rates, all evidence exchanged; the first of them."""
    generator = np.random.default_rng(seed)
    family = family or families.Bernoulli()
    agents = {
        name: Agent(ARMS, family, seed=1, exchange_options={"identity": name}, **options)
        for name in rates
    }
    saw = {}
    for name, agent in agents.items():
        for k, arm in enumerate(ARMS):
            rewards = (generator.random(pulls) < rates[name][k]).astype(float)
            saw[name, arm] = rewards
            for reward in rewards:
                agent.learn(arm, reward)
    first, *others = agents
    for name in others:
        agents[first].connect(name)
        agents[name].connect(first)
    for now in range(1, 4):
        for name in others:
            for _, message in agents[name].tick(float(now)):
                agents[first].receive(name, message, float(now))
        agents[first].tick(float(now))
    for now in range(4, 30):  # it looks for differences now and then
        agents[first].tick(float(now))
    return agents[first], saw


def test_every_cell_is_the_plain_mean_of_what_its_site_saw():
    agent, saw = network({"a": (0.2, 0.4), "b": (0.3, 0.3), "c": (0.2, 0.3)}, 40)
    found = agent.build_site_map()
    assert next(iter(found.sites)) == "a"
    assert set(found.sites) == {"a", "b", "c"}
    for (site, arm), rewards in saw.items():
        cell = found.sites[site].arms[arm]
        assert (cell.pulls, cell.mean) == (len(rewards), pytest.approx(rewards.mean()))
    assert (found.left_out, found.why) == (0, None)


def test_one_site_far_off_does_not_mark_the_others():
    rates = dict.fromkeys("abcd", (0.3, 0.5)) | {"e": (0.3, 0.9)}
    agent, _ = network(rates, 400)
    assert [(each.site, each.arm, each.higher) for each in agent.build_site_map().apart] == [
        ("e", "green", True)
    ]
    lower = dict.fromkeys("abcd", (0.3, 0.5)) | {"e": (0.3, 0.1)}
    (mark,) = network(lower, 400)[0].build_site_map().apart
    assert (mark.site, mark.higher) == ("e", False)
    assert mark.elsewhere == pytest.approx(0.5, abs=0.05)


def test_sites_that_are_alike_have_no_marks():
    rates = dict.fromkeys("abcde", (0.3, 0.5))
    assert not any(network(rates, 200, seed=seed)[0].build_site_map().apart for seed in range(5))


def test_sharing_is_worth_as_many_times_as_there_are_equal_sites():
    agent, _ = network(dict.fromkeys("abcd", (0.2, 0.5)), 600)
    gains = [site.gain for site in agent.build_site_map().sites.values()]
    assert gains == pytest.approx([4.0] * 4, rel=0.1)
    alone, _ = network({"a": (0.2, 0.5)}, 50)
    assert alone.build_site_map().sites["a"].gain is None


def test_a_site_that_reads_others_for_what_they_are_worth_gains_less():
    rates = {"a": (0.2, 0.5), "b": (0.2, 0.7), "c": (0.2, 0.3)}
    pooled = network(rates, 500)[0].build_site_map().sites["a"].gain
    apart = network(rates, 500, sites="differ")[0].build_site_map().sites["a"].gain
    assert 1.0 <= apart < 1.3 < 2.5 < pooled


def test_many_sites_are_cut_to_those_with_the_most_pulls_and_the_own():
    agent = Agent(ARMS, families.Bernoulli(), seed=1, exchange_options={"identity": "zz"})
    for i in range(MOST_SITES + 5):
        other = Agent(ARMS, families.Bernoulli(), seed=1, exchange_options={"identity": f"s{i:03}"})
        other.connect("zz")
        for _ in range(i + 1):
            other.learn("red", 1.0)
        for _, message in other.tick(1.0):
            agent.receive(f"s{i:03}", message, 1.0)
    found = agent.build_site_map()
    assert len(found.sites) == MOST_SITES
    assert found.left_out == 6
    assert "zz" in found.sites
    assert "s000" not in found.sites


def test_flows_say_why_there_is_no_map():
    agent = Agent(ARMS, families.Bernoulli(), exchange="flows", network_size=3)
    assert agent.build_site_map() == SiteMap({}, why=agent.build_site_map().why)
    assert "origins" in agent.build_site_map().why


@pytest.mark.parametrize("name", ["gaussian-unknown-variance", "poisson", "gaussian"])
def test_every_family_has_a_map(name):
    family = families.FAMILIES[name]()
    agent = Agent(ARMS, family, reward_range=(0, 10), exchange_options={"identity": "a"})
    for reward in (2.0, 4.0):
        agent.learn("red", reward)
    cells = agent.build_site_map().sites["a"].arms
    assert (cells["red"].pulls, cells["red"].mean) == (2, pytest.approx(3.0, abs=1e-5))
    assert (cells["green"].pulls, cells["green"].mean) == (0, None)
