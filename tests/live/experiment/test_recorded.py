"""What a log says of a decision is what held when it was made, whatever changes around it."""

import io
import json

import numpy as np
import pytest

import posse
from posse import families
from posse.live.agent.agent import Agent
from posse.live.experiment.decision_request import DecisionRequest
from posse.live.store import StoreError, export_decisions
from posse.live.store.decisions import ArmLists, pack_probabilities, unpack_probabilities
from tests.live.http.test_request_batches import ask, wish
from tests.live.several import Several, table


@pytest.fixture
def one(tmp_path):
    """An agent alone, of one experiment."""
    made = Several(tmp_path).start(a=table("a", ["shop"]), b=table("b", ["shop"]))
    yield made
    made.close()


def lines(path, **options):
    """The export of a store."""
    file = io.StringIO()
    export_decisions(path, file, **options)
    return [json.loads(line) for line in file.getvalue().splitlines()]


def reload(several, **changes):
    return several.nodes["a"].reload(several.read_settings(table("a", ["shop"]) | changes))


def test_every_line_says_what_was_allowed_then(one, tmp_path):
    """Through reloads, pauses, pins, lists of arms, batches and a restart."""
    node = one.nodes["a"]
    shop = node.experiment("shop")
    expected = []

    def decide(allowed, asked=None):
        made = [shop.decide(allowed=asked)]
        made += node.store.add_decisions(shop.draw_decisions([DecisionRequest(None, asked)] * 3))
        expected.extend((each, allowed) for each in made)

    decide(["red", "green"])
    assert reload(one, arms=["blue", "green", "red"]) == "arms of shop: +blue"
    decide(["blue", "green", "red"])
    decide(["red", "blue"], ["red", "blue"])
    node.pause("shop", "green")
    decide(["blue", "red"])
    node.pin("shop", "red")
    decide(["red"])
    node.resume("shop")
    one.visit("a", "shop", 5)
    reload(one, arms=["green", "red"], min_share=0.1)
    decide(["green", "red"])
    reload(one)
    decide(["red", "green"])
    node.stop()
    shop = one.open_node(table("a", ["shop"], arms=["red", "green", "violet"])).experiment("shop")
    node = one.nodes["a"]
    decide(["red", "green", "violet"])
    found = {line["id"]: line for line in lines(tmp_path / "a.db")}
    assert {line["site"] for line in found.values()} == {"a"}
    assert {line["experiment"] for line in found.values()} == {"shop"}
    for made, allowed in expected:
        line = found[made.id]
        assert line["allowed"] == allowed
        assert len(line["probabilities"]) == len(allowed)
        assert sum(line["probabilities"]) == pytest.approx(1.0, abs=1e-6)
        place = allowed.index(line["arm"])
        assert line["probabilities"][place] == line["probability"] == made.probability > 0


def test_shares_change_in_a_running_agent(one):
    shop = one.nodes["a"].experiment("shop")
    for _ in range(200):
        shop.agent.learn("red", 1.0)
        shop.agent.learn("green", 0.0)
    assert shop.decide().probability > 0.999
    assert reload(one, min_share=0.25) == "min_share of shop: 0.25"
    assert {round(shop.decide().probability, 6) for _ in range(60)} == {0.75, 0.25}
    with pytest.raises(ValueError, match="min_share must be at most 1/2 for 2 arms"):
        reload(one, min_share=0.6)
    with pytest.raises(ValueError, match="min_share must be at most 1/5 for 5 arms"):
        reload(one, min_share=0.25, arms=list("abcde"))
    assert shop.agent.arm_names == ["red", "green"]
    # both at once, of which neither would do with the other as it was
    said = reload(one, min_share=0.2, arms=[*"abc", "red", "green"], new_arm_share=0.3)
    assert said == "arms of shop: +a +b +c; min_share of shop: 0.2; new_arm_share of shop: 0.3"
    assert shop.decide().probability == pytest.approx(0.2)
    assert shop.agent.shares == posse.live.Shares(0.2, 0.3, 100)


def test_new_arms_that_cannot_be_kept_on_disk_are_not_played(one, monkeypatch):
    """Else decisions would refer to a list of arms that nobody finds."""
    shop = one.nodes["a"].experiment("shop")
    keep, full = shop.store.write_record, [True]

    def fails(key, value):
        if full[0]:
            raise StoreError("the disk is full")
        keep(key, value)

    monkeypatch.setattr(shop.store, "write_record", fails)
    with pytest.raises(StoreError, match="full"):
        shop.set_arms(["red", "violet"])
    assert shop.agent.arm_names == ["red", "green"]
    full[0] = False
    shop.set_arms(["red", "violet"])
    assert shop.decide(allowed=["violet"]).arm == "violet"


def test_turns_record_what_they_answer(node, tmp_path):
    """Questions of one turn: rows have the probabilities of the answers."""
    first, second = wish(node, "a", "b"), wish(node, "c", allowed=["red", "green"])
    assert ask(node, first, second) == [None, None]
    found = {line["id"]: line for line in lines(tmp_path / "agent.db")}
    for made in (*first.decisions, *second.decisions):
        line = found[made.id]
        place = line["allowed"].index(made.arm)
        assert line["probabilities"][place] == made.probability
    assert found["c"]["allowed"] == ["red", "green"]
    assert found["a"]["allowed"] == ["red", "green", 'the "blue"']


def test_a_policy_that_needs_a_horizon_is_refused_without_one():
    with pytest.raises(ValueError, match="log_power above 0 needs a horizon"):
        Agent(["a", "b"], families.Bernoulli(), policy=posse.BayesUCB(log_power=1.0))


@pytest.mark.parametrize("policy", [posse.BayesUCB(), posse.Greedy()])
def test_ties_of_an_index_are_recorded_as_such(policy):
    """Two of three arms tie for the first place: one half each, and nothing for the third."""
    one = Agent(["a", "b", "c"], families.Bernoulli(), policy=policy, seed=4)
    for arm, reward in (("a", 1.0), ("b", 1.0), ("c", 0.0)):
        one.learn(arm, reward)
    choices = one.draw_choices([None] * 40)
    assert {each.arm for each in choices} == {"a", "b"}
    for each in choices:
        np.testing.assert_array_equal(each.probabilities, [0.5, 0.5, 0.0])


def test_offers_are_read_as_they_were_written():
    arms = [f"årm {k}" for k in range(12)]
    first = ArmLists()
    data = first.encode_with(arms)
    first.use_arms(arms)
    assert first.encode_with(arms) is None
    texts = [first.encode_allowed(tuple(some)) for some in (arms, arms[3:], arms[:1], arms[::-1])]
    assert texts[0] == "0"
    more = first.encode_with(["x"])
    for kept in (data, more):  # lists are only ever added
        again = ArmLists(kept)
        assert [again.decode_allowed(text) for text in texts] == [
            arms, arms[3:], arms[:1], arms[::-1]
        ]  # fmt: skip
    first.use_arms(["x"])
    assert first.encode_allowed(("x",)) == "1"


def test_probabilities_have_seven_digits():
    values = np.random.default_rng(1).dirichlet(np.full(50, 0.05))
    assert len(pack_probabilities(values)) == 200
    np.testing.assert_allclose(
        unpack_probabilities(pack_probabilities(values)), values, rtol=2e-7, atol=1e-37
    )
    assert unpack_probabilities(pack_probabilities(np.array([0.3, 1.0, 0.0]))) == [0.3, 1.0, 0.0]
