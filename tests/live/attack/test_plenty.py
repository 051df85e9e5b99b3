"""A certified neighbour that says too much: nobody's memory fills, nobody's voice is lost."""

import itertools
import json
from dataclasses import replace

import pytest

from posse import families
from posse.live.agent.agent import Agent
from posse.live.exchange import Entry, Flows, FlowsMessage, Origins, OriginsMessage
from posse.live.exchange.message_validation import LARGEST_ORIGIN
from posse.live.ledger import PER_UNIT
from posse.live.messaging.transport import MAX_BYTES
from posse.live.messaging.wire import Codec

CODEC = Codec(OriginsMessage, FlowsMessage)
ONE = (0, PER_UNIT)


def origins(name, *near):
    made = Origins(fingerprint="f", bounds=(1.0, 1.0), identity=name)
    for peer in near:
        made.connect(peer)
    return made


def flood(agent, entries):
    for at in range(0, len(entries), 100):
        agent.receive("liar", OriginsMessage("f", tuple(entries[at : at + 100]), (), False), 1.0)


def entry(origin, incarnation, evidence):
    return Entry.from_ledger((origin, incarnation), (1, 1, 1), evidence)


def wide(nth, arms, length=20, origin="liar"):
    """An entry of the liar with many arms, which its pulls allow."""
    return entry(origin, nth, {f"{nth} {arm} ".ljust(length, "x"): ONE for arm in range(arms)})


@pytest.mark.parametrize("arms", [1, 1000])
def test_one_origin_fills_no_memory_and_takes_no_ones_place(arms):
    agent = origins("me", "liar", "friend")
    flood(agent, [wide(nth, arms) for nth in range(1, 7_000 if arms == 1 else 90)])
    assert agent.refusals["too_many_entries_of_origin"]
    assert len(json.dumps(agent.state())) < 3 * LARGEST_ORIGIN
    agent.receive("liar", OriginsMessage("f", (entry("new", 1, {"a": ONE}),), (), False), 1.0)
    assert agent.evidence()["a"] == ONE


def test_an_entry_too_large_for_a_message_is_refused():
    agent = origins("me", "liar")
    flood(agent, [wide(1, 1000, 200), wide(2, 1000, 200)])
    assert agent.evidence()
    flood(agent, [entry("liar", 9, {"é" * 196 + f"{arm:04}": ONE for arm in range(1000)})])
    assert agent.refusals == {"entry_too_large": 1}
    flood(agent, [replace(entry("liar", 9, {}), signature=b"s" * 500_000)])
    assert agent.refusals == {"entry_too_large": 2}


def test_what_is_relayed_fits_into_messages_and_all_of_it_arrives():
    """Without a limit by bytes the first message would be too large, again and again."""
    agent, friend = origins("me", "liar", "friend"), origins("friend", "me")
    flood(agent, [wide(nth, 1000, origin=f"liar {nth % 3}") for nth in range(1, 61)])
    assert not agent.refusals
    agent.observe("a", ONE)
    for now in range(20):
        for peer, message in agent.tick(float(now)):
            assert len(CODEC.encode(message)) <= MAX_BYTES
            if peer == "friend":
                for _, answer in friend.receive("me", message, float(now)):
                    agent.receive("friend", answer, float(now))
    assert friend.evidence() == agent.evidence()
    assert friend.evidence()["a"] == ONE


def test_a_digest_that_does_not_fit_is_sent_in_turns():
    agent = origins("me", "friend")
    for nth in range(9000):
        agent.receive("x", OriginsMessage("f", (entry(f"{nth} " * 15, 1, {}),), (), False), 1.0)
    messages = [agent.tick(1.0)[0][1] for _ in range(6)]
    assert all(len(CODEC.encode(message)) <= MAX_BYTES for message in messages)
    pages = [message for message in messages if message.complete]
    assert 1 < len(pages) < 6
    assert pages == messages[: len(pages)]
    assert pages[0].first == pages[-1].last == ("", 0)
    for page, following in itertools.pairwise(pages):
        assert page.last == following.first
    assert len({holding for page in pages for holding in page.holds}) == 9000


def test_more_arms_than_an_entry_may_have():
    """Arms come and go over the years; what was seen of them is still heard."""
    agent, friend = origins("me", "friend"), origins("friend", "me")
    for arm in range(1100):
        agent.observe(f"arm {arm}", ONE, agent.begin_decision(f"arm {arm}"))
    agent.observe("arm 1", ONE, agent.begin_decision("arm 1"))
    for now in range(3):
        for _, message in agent.tick(float(now)):
            friend.receive("me", CODEC.decode(CODEC.encode(message)).message, float(now))
    assert friend.evidence() == agent.evidence()
    assert len(friend.evidence()) == 1100
    assert not friend.refusals


def greeted():
    """An honest agent and a liar of flows that has been heard, and its last message."""
    agent, liar = (Flows(fingerprint="f", bounds=(1.0, 1.0), identity=name) for name in ("b", "a"))
    agent.connect("liar")
    liar.connect("me")
    for now in range(6):
        for _, message in liar.tick(float(now)):
            for _, answer in agent.receive("liar", message, float(now)):
                liar.receive("me", answer, float(now))
        for _, message in agent.tick(float(now)):
            for _, answer in liar.receive("me", message, float(now)):
                agent.receive("liar", answer, float(now))
    ((_, message),) = liar.tick(7.0)
    return agent, replace(message, version=message.version + 1, seq=message.seq + 1)


@pytest.mark.parametrize(
    "flow",
    [{"a": (0, 2**60)}, {f"arm {nth}": ONE for nth in range(1000)}],
    ids=["pulls", "arms"],
)
def test_nobody_is_made_to_say_what_others_refuse(flow):
    """Flows that are possible by themselves, but not together with what is there."""
    agent, message = greeted()
    agent.observe("a", ONE)
    agent.observe("b", ONE)
    before = agent.state()
    agent.receive("liar", replace(message, flow=flow), 8.0)
    assert agent.refusals == {"evidence_exceeds_network": 1}
    assert agent.state() == before
    agent.receive("liar", replace(message, flow={"a": ONE}, seq=message.seq + 1), 8.0)
    assert agent.level()["a"] == (0, 2 * PER_UNIT)


@pytest.mark.parametrize("exchange", ["origins", "flows"])
@pytest.mark.parametrize("pulls", [2**40, 2**42])
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_an_absurd_lie_leaves_an_agent_that_answers(exchange, pulls, share):
    """Numbers of any size give a decision, a probability and an interval."""
    agent = Agent(["red", "green"], families.Bernoulli(), exchange=exchange, seed=1)
    exchanged = agent.exchange
    quanta = pulls * PER_UNIT
    reward = int(share * quanta)
    if exchange == "origins":
        lie = entry("liar", 1, {"red": (reward, reward, quanta, quanta)})
        agent.receive("x", OriginsMessage(agent.fingerprint, (lie,), (), False), 1.0)
        assert exchanged.evidence()
    else:
        signs = [0] * (exchanged._bounds.dimension - 2)
        exchanged._records.observe("red", (reward, *signs, quanta))
    for _ in range(20):
        decision = agent.pull()
        assert 0 <= decision.probability <= 1
        agent.update(decision, 1.0)
    for status in agent.arms().values():
        assert 0 <= status.low <= status.mean <= status.high <= 1
        assert 0 <= status.probability_best <= 1
