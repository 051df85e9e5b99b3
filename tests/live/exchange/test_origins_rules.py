"""Each rule of origins on the schedule that needs it."""

import hashlib
import json
from dataclasses import replace

import pytest

from posse.live.exchange import Entry, Origins, OriginsMessage, RateCap
from posse.live.exchange.origins import signed_bytes
from posse.live.exchange.quanta import PER_UNIT

from .world import BOUNDS, FINGERPRINT, two

ONE = (PER_UNIT, PER_UNIT)


def agent(name="me", **options):
    return Origins(fingerprint=FINGERPRINT, bounds=BOUNDS, identity=name, **options)


def entry(origin="other", incarnation=1, seq=1, pulls=1, **changes):
    evidence = {"a": (0, pulls * PER_UNIT)}
    return replace(Entry(origin, incarnation, seq, evidence), **changes)


def message(*entries, holds=(), complete=False):
    return OriginsMessage(FINGERPRINT, entries, holds, complete)


def test_the_higher_sequence_number_wins_in_any_order():
    for order in ([1, 2, 3], [3, 1, 2], [2, 2, 3], [3, 3, 1]):
        mine = agent()
        for seq in order:
            mine.receive("peer", message(entry(seq=seq, pulls=seq)), 0.0)
        assert mine.evidence() == {"a": (0, 3 * PER_UNIT)}


def test_evidence_is_the_sum_over_origins_and_incarnations():
    mine = agent()
    mine.observe("b", ONE)
    mine.receive("peer", message(entry(), entry(incarnation=2), entry(origin="third")), 0.0)
    assert mine.evidence() == {"a": (0, 3 * PER_UNIT), "b": ONE}
    assert mine.own() == {"b": ONE}
    assert mine.known() == {"me", "other", "third"}


def test_what_is_acknowledged_is_not_sent_again_and_what_is_not_is():
    mine, other = agent("me", digest_every=100), agent("other")
    mine.connect("other")
    mine.observe("a", ONE)
    mine.tick(0.0)
    ((_, again),) = mine.tick(1.0)
    assert [e.seq for e in again.entries] == [1]
    assert mine.neighbours()["other"].lag is None
    ((_, acknowledgement),) = other.receive("me", again, 1.0)
    assert mine.receive("other", acknowledgement, 2.0) == []
    assert mine.neighbours()["other"].lag == 0
    assert mine.neighbours()["other"].last_heard == 2.0
    mine.connect("other")  # again, which changes nothing
    assert mine.tick(3.0) == []


def test_late_words_do_not_turn_back_what_a_neighbour_is_known_to_hold():
    mine = agent(digest_every=100)
    mine.connect("other")
    mine.tick(0.0)
    mine.receive("third", message(entry(seq=3, pulls=3)), 0.0)
    mine.receive("other", message(holds=(("other", 1, 3),)), 1.0)
    mine.receive("other", message(holds=(("other", 1, 2),)), 2.0)
    assert mine.tick(3.0) == []
    mine.receive("other", message(entry(seq=1)), 4.0)
    assert mine.tick(5.0) == []


def test_a_relay_passes_entries_on_but_not_back():
    mine = agent(digest_every=100)
    for peer in ("left", "right"):
        mine.connect(peer)
    mine.tick(0.0)
    mine.receive("left", message(entry()), 0.0)
    ((to, passed_on),) = mine.tick(1.0)
    assert to == "right"
    assert passed_on.entries == (entry(),)


def test_a_digest_heals_a_neighbour_that_forgot_what_it_acknowledged():
    world, one, other = two(Origins, digest_every=4)
    world.back_up(other)
    world.observe(one, 5)
    world.settle(rounds=2)
    world.restart(other, backup=0)
    world.tick(other)
    world.network.clear()  # its first words are lost
    world.settle(rounds=6)
    assert world.agents[other].evidence() == world.truth


def test_a_message_carries_a_batch_and_the_next_one_the_rest():
    mine = agent(batch=2, digest_every=100)
    mine.receive("left", message(*(entry(f"o{nth}") for nth in range(5))), 0.0)
    mine.connect("right")
    sent = []
    for now in range(3):
        ((_, out),) = mine.tick(float(now))
        sent += [e.origin for e in out.entries]
        keys = tuple((e.origin, e.incarnation, e.seq) for e in out.entries)
        mine.receive("right", message(holds=keys), float(now))
    assert sorted(sent) == [f"o{nth}" for nth in range(5)]


def test_entries_that_a_neighbour_refuses_do_not_keep_others_from_it():
    mine, full = agent(batch=2, digest_every=100), agent("full", most_entries=3)
    mine.connect("full")
    mine.tick(0.0)
    mine.receive("left", message(*(entry(f"o{nth}") for nth in range(5))), 0.0)
    full.receive("left", message(*(entry(f"o{nth}") for nth in (2, 3, 4))), 0.0)
    mine.receive("left", message(entry("o4", seq=2, pulls=2)), 1.0)
    for now in range(2, 8):
        for _, out in mine.tick(float(now)):
            for _, answer in full.receive("me", out, float(now)):
                mine.receive("full", answer, float(now))
    assert full.refusals.keys() == {"too many entries"}
    assert full.evidence() == {"a": (0, 4 * PER_UNIT)}


def test_after_an_unclean_stop_no_sequence_number_is_used_twice():
    world, one, other = two(Origins, digest_every=2)
    world.observe(one, 1)
    world.back_up(one)
    world.observe(one, 3)
    world.settle(rounds=3)
    world.restart(one, backup=0)
    world.observe(one, 2)
    world.settle(rounds=6)
    for name in (one, other):
        assert world.agents[name].evidence() == world.truth
    assert world.agents[one].own() == world.truth


def test_a_disk_rolled_back_over_a_new_incarnation_does_not_use_it_twice():
    world, one, other = two(Origins, digest_every=2)
    world.observe(one, 1)
    world.back_up(one)
    for _ in range(2):  # each time the disk knows of one incarnation, and opens the next
        world.restart(one, backup=0)
        world.observe(one, 3)
        world.settle(rounds=1)
    world.settle(rounds=6)
    for name in (one, other):
        assert world.agents[name].evidence() == world.truth


def test_a_clean_stop_continues_the_incarnation():
    mine = agent()
    mine.observe("a", ONE)
    again = agent()
    again.restore(mine.state(), clean=True)
    again.observe("a", ONE)
    assert len(again.state()["own"]) == 1
    unclean = agent()
    unclean.restore(mine.state())
    unclean.observe("a", ONE)
    assert len(unclean.state()["own"]) == 2
    assert unclean.own() == again.own()


def test_its_own_forgotten_words_close_an_incarnation_wrongly_called_clean():
    mine = agent()
    states = []
    for _ in range(3):
        mine.observe("a", ONE)
        states.append(mine.state())
    again = agent()
    again.restore(states[0], clean=True)
    for state in states[1:]:  # two neighbours hold more, and one of them more than the other
        ((origin, incarnation, seq, evidence, _),) = state["own"]
        said = Entry(origin, incarnation, seq, {"a": tuple(evidence["a"])})
        again.receive("peer", message(said), 0.0)
        again.observe("a", ONE)
    assert again.own() == {"a": (5 * PER_UNIT, 5 * PER_UNIT)}


def test_its_own_words_that_it_still_knows_close_nothing():
    mine = agent()
    mine.connect("peer")
    mine.observe("a", ONE)
    ((_, said),) = mine.tick(0.0)
    mine.receive("peer", said, 1.0)
    mine.observe("a", ONE)
    assert len(mine.state()["own"]) == 1


def test_a_lost_disk_gets_its_own_evidence_back():
    world, one, _ = two(Origins, digest_every=2)
    world.observe(one, 5)
    world.settle(rounds=3)
    world.lose_disk(one)
    world.settle(rounds=6)
    assert world.agents[one].own() == world.truth


def signatures(name):
    """A toy of signatures: a keyed hash, of which everyone knows every key."""

    def verify(origin, content, signature):
        return signature == hashlib.sha256(origin.encode() + content).digest()

    def sign(content):
        return hashlib.sha256(name.encode() + content).digest()

    return {"sign": sign, "verify": verify}


def test_relays_pass_signatures_on_and_a_forged_entry_is_refused():
    left, relay, right = (agent(name, **signatures(name)) for name in ("left", "relay", "right"))
    left.connect("relay")
    relay.connect("right")
    left.observe("a", ONE)
    ((_, first),) = left.tick(0.0)
    relay.receive("left", first, 0.0)
    restored = agent("relay", **signatures("relay"))
    restored.restore(json.loads(json.dumps(relay.state())))
    ((_, second),) = restored.tick(0.0)
    right.receive("relay", second, 0.0)
    assert right.evidence() == {"a": ONE}
    forged = replace(second.entries[0], seq=9, evidence={"a": (0, 9 * PER_UNIT)})
    ((_, answer),) = right.receive("relay", message(forged), 0.0)
    assert answer.holds == (("left", forged.incarnation, 1),)
    assert right.refusals == {"bad signature": 1}
    assert right.evidence() == {"a": ONE}


def said_by(writer):
    ((_, message),) = writer.tick(0.0)
    return message


@pytest.mark.parametrize(
    "changes",
    [
        {"origin": "relay"},
        {"incarnation": 9},
        {"seq": 9},
        {"evidence": {"a": (0, PER_UNIT)}},
        {"signature": b""},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_every_word_of_an_entry_is_signed(changes):
    writer, reader = (agent(name, **signatures(name)) for name in ("left", "right"))
    writer.connect("right")
    writer.observe("a", ONE)
    sent = said_by(writer)
    forged = replace(sent.entries[0], **changes)
    reader.receive("left", message(forged), 0.0)
    assert reader.refusals == {"bad signature": 1}
    assert reader.evidence() == {}
    reader.receive("left", sent, 0.0)
    assert reader.evidence() == {"a": ONE}


def test_an_entry_is_signed_once_and_again_when_it_has_grown():
    signed = []

    def sign(content):
        signed.append(content)
        return signatures("left")["sign"](content)

    writer, reader = agent("left", sign=sign), agent("right", **signatures("right"))
    writer.connect("right")
    for pulls in (1, 2):
        writer.observe("a", ONE)
        said_by(writer)
        reader.receive("left", said_by(writer), 0.0)
        assert reader.evidence() == {"a": (pulls * PER_UNIT, pulls * PER_UNIT)}
        assert len(signed) == pulls


def test_a_signature_does_not_depend_on_the_order_of_the_arms():
    evidence = {"a": ONE, "b": (0, PER_UNIT)}
    turned = dict(reversed(evidence.items()))
    one, other = (signed_bytes("f", entry(evidence=arms)) for arms in (evidence, turned))
    assert one == other


def test_a_signature_holds_for_one_fingerprint_only():
    writer = agent("left", **signatures("left"))
    writer.connect("right")
    writer.observe("a", ONE)
    ((_, sent),) = writer.tick(0.0)
    reader = Origins(fingerprint="poisson", bounds=BOUNDS, **signatures("right"))
    reader.receive("left", replace(sent, fingerprint="poisson"), 0.0)
    assert reader.refusals == {"bad signature": 1}


@pytest.mark.parametrize("values", [(2 * PER_UNIT, PER_UNIT), (-2, 1), (0, -1), (1, 0)])
def test_more_evidence_than_its_pulls_allow_is_refused(values):
    mine = agent()
    mine.receive("peer", message(entry(evidence={"a": values})), 0.0)
    assert mine.refusals == {"more evidence than its pulls allow": 1}
    assert mine.evidence() == {}
    with pytest.raises(ValueError, match="bounds"):
        mine.observe("a", values)


def test_a_rate_cap_bounds_a_liars_pulls_over_all_its_incarnations():
    mine = agent(rate_cap=RateCap(per_second=1.0, since=100.0))
    mine.receive("peer", message(entry(pulls=10)), 110.0)
    mine.receive("peer", message(entry(incarnation=2, pulls=10)), 115.0)
    assert mine.refusals == {"more pulls than the rate allows": 1}
    mine.receive("peer", message(entry(incarnation=2, pulls=10)), 120.0)
    assert mine.evidence() == {"a": (0, 20 * PER_UNIT)}


def test_a_rate_cap_lets_every_origin_pull_as_often_as_the_clock_allows():
    mine = agent(rate_cap=RateCap(per_second=1.0, since=100.0))
    for seq in range(1, 11):
        now = 100.0 + seq
        grown = [entry(origin, seq=seq, pulls=seq) for origin in ("one", "other")]
        mine.receive("peer", message(*grown), now)
    assert not mine.refusals
    assert mine.evidence() == {"a": (0, 20 * PER_UNIT)}


def test_a_stranger_cannot_fill_the_memory():
    mine = agent(most_entries=3)
    mine.connect("peer")
    for nth in range(5):
        mine.receive("peer", message(entry(f"o{nth}")), 0.0)
    assert mine.refusals == {"too many entries": 2}
    for nth in range(9):
        mine.receive("peer", message(holds=((f"o{nth}", 1, 1),)), 0.0)
    assert len(mine._neighbours["peer"].holds) == 3
    mine.receive("peer", message(entry("o1", seq=2, pulls=2)), 0.0)
    assert mine.evidence() == {"a": (0, 4 * PER_UNIT)}


def test_a_removed_edge_is_silent_but_still_heard():
    mine = agent()
    mine.connect("peer")
    mine.disconnect("peer")
    mine.disconnect("never connected")
    mine.receive("peer", message(entry()), 0.0)
    assert mine.tick(0.0) == []
    assert mine.evidence() == {"a": (0, PER_UNIT)}


def test_the_durable_state_is_plain_json():
    mine = agent(**signatures("me"))
    mine.observe("a", ONE)
    mine.connect("peer")
    mine.tick(0.0)
    state = mine.state()
    assert json.loads(json.dumps(state)) == state
    again = agent()
    again.restore(state, clean=True)
    assert again.state() == state
