"""What one neighbour can make an agent work, hold or believe, and where it ends."""

import tracemalloc
from dataclasses import replace

import msgspec
import pytest

from posse.live.exchange import Flows, FlowsMessage, OriginsMessage
from posse.live.ledger.sums import PER_UNIT
from posse.live.messaging.wire import VERSION, Codec, WireError
from tests.live.exchange.origins import ONE, agent, entry, message, signatures
from tests.live.exchange.world import BOUNDS, FINGERPRINT, World, settled_pair

CODEC = Codec(OriginsMessage, FlowsMessage)


@pytest.mark.parametrize("tag", [None, "OriginsMessage"])
def test_a_megabyte_of_nothing_makes_no_million_objects(tag):
    """Seen: requests took 1.6 s under arrays of nils, and the process 375 MB."""
    payload = bytes([VERSION]) + msgspec.msgpack.encode([tag] + [None] * 990_000)
    tracemalloc.start()
    try:
        with pytest.raises(WireError, match="malformed"):
            CODEC.decode(payload)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


class Counting:
    """Toy signatures that count how often they were looked at."""

    def __init__(self, name):
        self.options = signatures(name)
        self.looked, self._verify = [], self.options["verify"]
        self.options["verify"] = self.verify

    def verify(self, origin, content, signature):
        self.looked.append(origin)
        return self._verify(origin, content, signature)


def said_by(name, arm="a"):
    writer = agent(name, **signatures(name))
    writer.connect("x")
    writer.observe(arm, ONE)
    ((_, out),) = writer.tick(0.0)
    return out.entries[0]


def test_forged_signatures_end_the_work_on_a_message():
    """Seen: 1,400 of them in each message, 3.2 s for a request of somebody else."""
    counting = Counting("me")
    mine = agent("me", **counting.options)
    forged = tuple(entry(f"liar {nth}") for nth in range(1400))
    mine.receive("liar", message(*forged), 0.0)
    assert len(counting.looked) == 1
    assert mine.refusals == {"signature_invalid": 1}


def test_a_bad_signature_keeps_no_good_one_out_for_ever():
    mine = agent("me", **signatures("me"))
    good = [said_by(name) for name in ("one", "two", "three")]
    for _ in range(60):
        mine.receive("relay", message(entry("liar"), *good), 0.0)
    assert mine.known() == {"me", "one", "two", "three"}


def test_only_what_is_news_is_verified_and_before_anything_is_locked():
    counting = Counting("me")
    mine = agent("me", **counting.options)
    first = said_by("one")
    out = message(
        first, said_by("two"), entry("liar", made=-1), entry("wide", signature=b"s" * 10**6)
    )
    examined = mine.examine(out)
    assert sorted(counting.looked) == ["one", "two"]
    assert mine.evidence() == {}
    mine.receive("peer", examined, 0.0)
    assert mine.evidence() == {"a": (2 * PER_UNIT, 2 * PER_UNIT)}
    assert sum(mine.refusals.values()) == 2
    mine.receive("peer", message(first), 1.0)
    mine.receive("peer", examined, 2.0)  # once more: what was news is none any more
    assert len(counting.looked) == 2
    assert mine.evidence() == {"a": (2 * PER_UNIT, 2 * PER_UNIT)}


def test_a_neighbour_set_back_is_healed_though_its_digest_takes_several_messages():
    """Seen: 6,600 entries under names of 64 letters; set back to 6,000 it stayed there."""
    mine, friend = agent("me", digest_every=2), agent("friend", digest_every=2)
    mine.connect("friend")
    friend.connect("me")
    entries = [entry(f"{nth:064}") for nth in range(6600)]
    for at in range(0, 6600, 600):
        mine.receive("x", message(*entries[at : at + 600]), 0.0)
        if at < 6000:
            friend.receive("x", message(*entries[at : at + 600]), 0.0)
    holds = tuple(each.holding for each in entries)
    mine.receive("friend", message(holds=holds), 0.0)  # so it had said before
    assert mine.neighbours()["friend"].lag == 0
    for now in range(12):
        for one, other, name in ((friend, mine, "friend"), (mine, friend, "me")):
            for to, out in one.tick(float(now)):
                for _, answer in other.receive(name, out, float(now)):
                    one.receive(to, answer, float(now))
    assert friend.evidence() == mine.evidence() == {"a": (0, 6600 * PER_UNIT)}


def test_a_liars_flow_does_not_have_the_honest_refuse_its_victim():
    """Seen: one flow of 2^40 pulls, and the victim's next reward made all others refuse it."""
    world = World(Flows, 0)
    for name in ("liar", "victim", "with honest"):  # the first of an edge by identity owns it
        world.agents[name] = Flows(fingerprint=FINGERPRINT, bounds=BOUNDS, identity=name)
    victim, honest = world.agents["victim"], world.agents["with honest"]
    world.link("liar", "victim")
    world.link("victim", "with honest")
    world.settle(rounds=4)
    for nth, pulls in enumerate((2**40, 2**40 - 1, 2**39 - 2)):
        world.tick("liar")
        ((_, _, said),) = world.network
        world.network.clear()
        lie = replace(said, version=said.version + 1, flow={"a": (0, pulls * PER_UNIT)})
        victim.receive("liar", lie, 1.0)
        assert victim.refusals.total() == min(nth + 1, 2)
    assert victim.level()
    for _ in range(10):
        victim.observe("a", ONE)
    world.agents.pop("liar")
    world.settle(rounds=10)
    assert not honest.refusals
    assert honest.level()


def test_flows_never_say_what_no_message_can_carry():
    mine = Flows(fingerprint="f", bounds=(2.0**45, 1.0))
    mine.connect("peer")
    for _ in range(5):
        mine.observe("a", (2**61, PER_UNIT))
    assert mine.refusals == {"evidence_full": 3}
    for _, out in mine.tick(0.0):
        CODEC.encode(out)
        assert out.level == {"a": (2**62, 2 * PER_UNIT)}


def test_a_counted_network_grows_step_by_step():
    """Seen: one message made N jump to 1000, and every belief with it."""
    world, owner, mirror = settled_pair()
    world.tick(mirror)
    ((_, _, said),) = world.network
    before = world.agents[owner].revision
    many = tuple(f"id{nth}" for nth in range(1000))
    for seq in range(100):
        world.agents[owner].receive(mirror, replace(said, known=many, seq=1000 + seq), 1.0)
    assert world.agents[owner].network_size() == 2 + 16
    assert world.agents[owner].revision > before
