"""Three real agents without a centre: once their beliefs agree, a visitor gets one arm."""

from contextlib import ExitStack

import pytest

from posse.live import Client
from posse.live.demo import create_process_sites
from tests.live.loopback import wait_until

ARMS = ["red", "green", "blue", "gold"]
VISITORS = [f"visitor-{i}" for i in range(10_000)]


@pytest.fixture
def sites(tmp_path):
    common = {"arms": ARMS, "family": "bernoulli", "network": "shops", "min_share": 0.02}
    agents = [{"name": name, **common} for name in ("berlin", "paris", "rome")]
    made = create_process_sites(tmp_path, [(0, 1), (1, 2)], agents)
    for site in made:
        site.start()
    for site in made:
        site.wait_until_ready()
    yield made
    for site in made:
        site.request_stop()
    for site in made:
        site.stop()


def assign_visitors(clients, pulls):
    """The decisions of all visitors, which are the same at all agents when their beliefs are."""

    def agree():
        ledgers = [client.evidence()["held"] for client in clients]
        known = sum(arm["pulls_in_network"] for arm in clients[0].arms().values())
        return known == pulls and ledgers[0] == ledgers[1] == ledgers[2]

    wait_until(agree)
    decisions = [client.pull_all(len(VISITORS), visitors=VISITORS) for client in clients]
    arms = [[decision.arm for decision in made] for made in decisions]
    assert arms[0] == arms[1] == arms[2]
    assert set(arms[0]) == set(ARMS)
    return decisions[0]


@pytest.fixture
def clients(sites):
    with ExitStack() as stack:
        yield [stack.enter_context(Client(site.url, timeout=30, patience=60)) for site in sites]


@pytest.mark.long
def test_three_agents_give_ten_thousand_visitors_the_same_arms(clients):
    """Without `default_reward` decisions are no evidence, so the beliefs stay equal meanwhile."""
    for round_ in range(40):  # each agent learns other rewards first, in another order
        for place, client in enumerate(clients):
            decision = client.pull(decision=f"{place}-{round_}", visitor=f"first-{place}-{round_}")
            win = (round_ + place) % (2 + ARMS.index(decision.arm)) == 0
            client.update(decision, float(win))

    before = assign_visitors(clients, pulls=120)
    # further rewards move some of them, at all agents alike: each to an arm that gained more
    for round_ in range(30):
        clients[1].update(clients[1].pull(["gold"], decision=f"gold-{round_}"), 1.0)
    after = assign_visitors(clients, pulls=150)
    gain = {}
    for old, new in zip(before, after, strict=True):
        gain.setdefault(new.arm, {})["after"] = new.probability
        gain.setdefault(old.arm, {})["before"] = old.probability
    ratio = {arm: gain[arm]["after"] / gain[arm]["before"] for arm in ARMS}
    moved = [(a.arm, b.arm) for a, b in zip(before, after, strict=True) if a.arm != b.arm]
    assert 0 < len(moved) < len(VISITORS)
    assert all(ratio[new] > ratio[old] for old, new in moved)
