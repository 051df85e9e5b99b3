"""Neighbours, stores and dead origins of Posse 0.1, by what its own code has said and written."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from posse.live.dialects import Dialects
from posse.live.exchange import Flows, FlowsMessage, Origins, OriginsMessage
from posse.live.exchange.ledger import plus
from posse.live.exchange.quanta import PER_UNIT
from posse.live.wire import Codec, WireError

from .origins import ONE, agent, entry, message, signatures
from .world import BOUNDS, FINGERPRINT

# recorded from 0.1: a relay tells of itself and of "old", whom it heard; two agents of flows
RECORDED = json.loads((Path(__file__).parent / "of_0_1.json").read_text())
CODEC = Codec(OriginsMessage, FlowsMessage)
OF_OLD = {"red": (2 * PER_UNIT, 5 * PER_UNIT), "grün": (0, PER_UNIT)}
OF_RELAY = {"red": (3 * PER_UNIT, 3 * PER_UNIT)}
ALL = plus(OF_OLD, OF_RELAY)


def said(exchange):
    return CODEC.decode(bytes.fromhex(RECORDED[exchange]["payload"]))


@pytest.mark.parametrize("exchange", ["origins", "flows"])
def test_what_0_1_says_is_understood_and_said_again_in_the_same_bytes(exchange):
    parcel = said(exchange)
    assert (parcel.version, parcel.experiment) == (1, "default")
    again = CODEC.encode(parcel.message, version=1)
    assert again.hex() == RECORDED[exchange]["payload"]
    assert CODEC.decode(CODEC.encode(parcel.message)).message == parcel.message


def test_a_dead_origin_of_0_1_travels_on_through_new_agents_and_their_stores():
    """Nobody can sign its words anew, so they are passed on as they were signed."""
    first, second, third = (agent(name, **signatures(name)) for name in ("one", "two", "three"))
    first.receive("relay", said("origins").message, 0.0)
    assert first.evidence() == ALL
    first.connect("two")
    restarted = agent("one", **signatures("one"))
    restarted.restore(json.loads(json.dumps(first.state())))
    for reader, name, writer in ((second, "one", restarted), (third, "two", second)):
        writer.connect("next")
        for _, out in writer.tick(0.0):
            parcel = CODEC.decode(CODEC.encode(out))
            reader.receive(name, reader.examine(parcel.message), 0.0)
        assert reader.evidence() == ALL
        assert not reader.refusals


def test_a_store_of_0_1_is_taken_over():
    mine = agent("relay", **signatures("relay"))
    mine.restore(RECORDED["origins"]["state"])
    assert (mine.evidence(), mine.own()) == (ALL, OF_RELAY)
    changes = mine.changes()
    assert {part for part, value in changes.items() if value is None} == {"own", "others"}
    kept = {part: value for part, value in changes.items() if value is not None}
    mine.observe("red", ONE)
    kept |= {part: value for part, value in mine.changes().items() if value is not None}
    again = agent("relay")
    again.restore(kept)
    assert again.evidence() == plus(ALL, {"red": ONE})
    assert len([part for part in kept if part.startswith("entry relay ")]) == 2


def test_a_store_of_0_1_of_flows_is_taken_over():
    agents = []
    for state in (RECORDED["flows"]["state"], RECORDED["flows"]["other"]):
        mine = Flows(fingerprint=FINGERPRINT, bounds=BOUNDS)
        mine.restore(state)
        changes = mine.changes()
        assert changes.pop("records", 0) is None
        again = Flows(fingerprint=FINGERPRINT, bounds=BOUNDS)
        again.restore({**{k: v for k, v in mine.state().items() if k not in changes}, **changes})
        assert again.level() == mine.level()
        agents.append(again)
    one, other = agents
    assert one.own() == plus(one.level(), other.level()) == {"red": (5 * PER_UNIT, 10 * PER_UNIT)}


def test_what_0_1_cannot_read_is_left_out_for_it():
    fold = entry("third", layout=2, folded=((1, 1),))
    both = message(entry(), fold)
    assert CODEC.decode(CODEC.encode(both, version=1)).message.entries == (entry(),)
    assert both.left_out_of_version_1() == 1
    assert CODEC.decode(CODEC.encode(both)).message == both
    with pytest.raises(WireError, match="experiment 'banner' cannot be said in version 1"):
        CODEC.encode(both, "banner", version=1)


def test_a_digest_in_turns_is_no_whole_one_to_0_1():
    whole, part = message(complete=True), replace(message(complete=True), last=("m", 1))
    said = [CODEC.decode(CODEC.encode(each, version=1)).message for each in (whole, part)]
    assert [each.complete for each in said] == [True, False]


class Line:
    """New - old - new in memory; of the old one only what 0.1 can carry goes through."""

    def __init__(self, make):
        self.agents = {name: make(name) for name in "abc"}
        self.dialects = {name: Dialects() for name in "ac"}
        self.links = [("a", "b"), ("b", "c")]
        for one, other in self.links:
            self.agents[one].connect(other)
            self.agents[other].connect(one)
        self.now = 0.0

    def payloads(self, source, outgoing):
        for to, out in outgoing:
            speaks = self.dialects[source].spoken_to(to, self.now) if source != "b" else (1,)
            for version in speaks:
                yield source, to, CODEC.encode(out, version=version)

    def round(self):
        self.now += 1.0
        waiting = [p for n, a in self.agents.items() for p in self.payloads(n, a.tick(self.now))]
        while waiting:
            source, to, payload = waiting.pop(0)
            parcel = CODEC.decode(payload)
            if to != "b":
                self.dialects[to].heard(source, parcel.version, self.now)
            elif parcel.version != 1:
                continue
            answers = self.agents[to].receive(source, parcel.message, self.now)
            waiting += self.payloads(to, answers)


def test_a_line_new_old_new_of_origins():
    line = Line(lambda name: agent(name, **signatures(name)))
    for name in "abc":
        line.agents[name].observe(name, ONE)
    for _ in range(90):
        line.round()
    line.agents["a"].observe("a", ONE)
    for _ in range(12):
        line.round()
    two = (2 * PER_UNIT, 2 * PER_UNIT)
    for each in line.agents.values():
        assert each.evidence() == {"a": two, "b": ONE, "c": ONE}
        assert not each.refusals
    assert line.dialects["a"].spoken_to("b", line.now) == (1,)


def test_many_restarts_beside_0_1_are_not_folded_while_there_is_room():
    """Seen: after 65 crashes nothing more of an agent reached its neighbour of 0.1, nor beyond."""
    line = Line(lambda name: agent(name, digest_every=1, **signatures(name)))
    disk = line.agents["a"].state()
    for _ in range(70):
        mine = line.agents["a"] = agent("a", digest_every=1, **signatures("a"))
        mine.restore(disk)
        mine.observe("a", ONE)
        for _ in range(3):
            line.round()
            shown = {name: line.dialects[name].shown("b") for name in "ac"}
            assert shown in ({"a": None, "c": None}, {"a": 1, "c": 1})
            mine.older = frozenset("b") if shown["a"] == 1 else frozenset()
        disk = mine.state()
    for each in line.agents.values():
        assert each.evidence() == {"a": (70 * PER_UNIT, 70 * PER_UNIT)}
        assert not each.refusals
    assert len([part for part in disk if part.startswith("entry a ")]) == 70
    mine.older = frozenset()  # it was upgraded
    line.round()
    disk = mine.state()
    assert len([part for part in disk if part.startswith("entry a ")]) == 1


def test_a_line_new_old_new_of_flows():
    line = Line(lambda name: Flows(fingerprint=FINGERPRINT, bounds=BOUNDS))
    for _ in range(64):
        line.agents["a"].observe("a", ONE)
    for _ in range(100):
        line.round()
    levels = [each.level()["a"][-1] / PER_UNIT for each in line.agents.values()]
    assert levels == pytest.approx([64 / 3] * 3, abs=0.001)
    assert sum(each.level()["a"][-1] for each in line.agents.values()) == 64 * PER_UNIT


@pytest.mark.parametrize(
    ("network", "experiment", "fingerprint"),
    [
        ("other", "banner", "f"),
        ("net", "basket", "f"),
        ("net", "banner", "g"),
        ("", "default", "f"),
    ],
)
def test_nothing_signed_is_believed_in_another_network_experiment_or_model(
    network, experiment, fingerprint
):
    def made(name, **options):
        return Origins(bounds=BOUNDS, identity=name, **options, **signatures(name))

    home = {"network": "net", "experiment": "banner", "fingerprint": "f"}
    writer, friend = made("writer", **home), made("friend", **home)
    writer.connect("x")
    writer.observe("a", ONE)
    ((_, out),) = writer.tick(0.0)
    friend.receive("writer", out, 0.0)
    assert friend.evidence() == {"a": ONE}
    away = made("away", network=network, experiment=experiment, fingerprint=fingerprint)
    forged = tuple(replace(each, experiment=experiment) for each in out.entries)
    for entries in (out.entries, forged, tuple(replace(each, layout=1) for each in forged)):
        away.receive("liar", replace(out, fingerprint=fingerprint, entries=entries), 0.0)
    assert away.evidence() == {}
    assert sum(away.refusals.values()) >= 2
    # nor the other way: what the one experiment of 0.1 signed
    old = entry("writer", signature=b"whatever")
    friend.receive("liar", replace(out, entries=(replace(old, experiment="banner"),)), 0.0)
    friend.receive("liar", replace(out, entries=(old,)), 0.0)
    assert friend.refusals == {"malformed": 1, "another experiment": 1}
