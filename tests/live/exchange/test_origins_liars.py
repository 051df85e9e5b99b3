"""What a liar cannot do to an agent of origins: forge, exaggerate, or fill its memory."""

import json
import random
from dataclasses import replace

import pytest

from posse.live.exchange import Origins, RateCap
from posse.live.ledger.sums import PER_UNIT
from tests.live.exchange.origins import ONE, agent, base, entry, link, message, pump, signatures
from tests.live.exchange.world import BOUNDS


def test_relays_pass_signatures_on_and_a_forged_entry_is_refused():
    left, relay, right = (agent(name, **signatures(name)) for name in ("left", "relay", "right"))
    left.connect("relay")
    relay.connect("right")
    left.observe("a", ONE, left.begin_decision("a"))
    ((_, first),) = left.tick(0.0)
    relay.receive("left", first, 0.0)
    restored = agent("relay", **signatures("relay"))
    restored.restore(json.loads(json.dumps(relay.state())))
    ((_, second),) = restored.tick(0.0)
    right.receive("relay", second, 0.0)
    assert right.evidence() == {"a": ONE}
    (honest,) = second.entries
    forged = replace(honest, version=(9, 9, 9), numbers=honest.numbers[::-1])
    assert right.receive("relay", message(forged), 0.0) == []
    assert right.refusals == {"signature_invalid": 1}
    assert right.evidence() == {"a": ONE}


def said_by(writer):
    ((_, message),) = writer.tick(0.0)
    return message


@pytest.mark.parametrize(
    "changes",
    [
        {"origin": "relay"},
        {"incarnation": 9},
        {"version": (9, 9, 9)},
        {"arms": ("b",)},
        {"numbers": bytes(8) + (1).to_bytes(8, "little")},
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
    assert reader.refusals == {"signature_invalid": 1}
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


def test_a_signature_holds_for_one_fingerprint_only():
    writer = agent("left", **signatures("left"))
    writer.connect("right")
    writer.observe("a", ONE)
    ((_, sent),) = writer.tick(0.0)
    reader = Origins(fingerprint="poisson", bounds=BOUNDS, **signatures("right"))
    reader.receive("left", replace(sent, fingerprint="poisson"), 0.0)
    assert reader.refusals == {"signature_invalid": 1}


@pytest.mark.parametrize("values", [(2 * PER_UNIT, PER_UNIT), (-2, 1), (0, -1), (1, 0)])
def test_more_evidence_than_its_pulls_allow_is_refused(values):
    mine = agent()
    mine.receive("peer", message(entry(evidence={"a": values})), 0.0)
    assert mine.refusals == {"evidence_exceeds_pulls": 1}
    assert mine.evidence() == {}
    with pytest.raises(ValueError, match="bounds"):
        mine.observe("a", values)


def test_a_rate_cap_bounds_a_liars_pulls_over_all_its_incarnations():
    mine = agent(rate_cap=RateCap(per_second=1.0, since=100.0))
    mine.receive("peer", message(entry(pulls=10)), 110.0)
    mine.receive("peer", message(entry(incarnation=2, pulls=10)), 115.0)
    assert mine.refusals == {"rate_cap_exceeded": 1}
    mine.receive("peer", message(entry(incarnation=2, pulls=10)), 120.0)
    assert mine.evidence() == {"a": (0, 20 * PER_UNIT)}


def test_a_rate_cap_counts_a_base_in_place_of_what_it_covers():
    mine = agent(rate_cap=RateCap(per_second=1.0, since=100.0))
    mine.receive("peer", message(entry(pulls=10), entry(incarnation=2, pulls=9)), 120.0)
    mine.receive("peer", message(base(pulls=19)), 120.0)
    assert mine.evidence() == {"a": (0, 19 * PER_UNIT)}
    mine.receive("peer", message(base(pulls=21, seq=2)), 120.0)
    assert mine.refusals == {"rate_cap_exceeded": 1}


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
    assert mine.refusals == {"too_many_entries": 2}
    for nth in range(9):
        mine.receive("peer", message(holds=((f"o{nth}", 1, 1, 1, 0),)), 0.0)
    mine.receive("peer", message(entry("o1", seq=2, pulls=2)), 0.0)
    assert mine.evidence() == {"a": (0, 4 * PER_UNIT)}


@pytest.mark.parametrize("pulls", [-1, 2**62 + 1, 2**63 - 1])
def test_a_bad_entry_is_refused_alone(pulls):
    """Seen: sums above 2^62 quanta of one origin had all that came with them refused, for ever."""
    mine = agent()
    bad = entry("liar", evidence={"a": (PER_UNIT, pulls), "b": (2**62, 1)})
    mine.receive("peer", message(bad, entry(pulls=2), bad), 0.0)
    assert mine.evidence() == {"a": (0, 2 * PER_UNIT)}
    assert mine.refusals.total() == 2


def test_entries_that_a_neighbour_refuses_keep_no_others_from_it():
    """Seen: ten entries were lacking, of which the same few filled every message."""

    def large(number):
        rows = {f"{number}-{k}".ljust(200, "x"): ONE for k in range(1000)}
        return entry("liar", number, evidence=rows)

    mine, friend = agent(), agent("friend")
    agents = link(mine, friend)
    for number in range(1, 9):  # all that an origin may take, at each of them something else
        friend.receive("liar", message(large(number)), 0.0)
        mine.receive("liar", message(large(100 + number)), 0.0)
    mine.receive("honest", message(entry("honest")), 0.0)
    mine.observe("a", ONE, mine.begin_decision("a"))
    assert len(mine.replica.of_origin("liar")) == len(friend.replica.of_origin("liar")) == 8
    pump(agents, 0.0, 40)
    assert {"honest", "me"} < friend.known()
    assert friend.refusals["too_many_entries_of_origin"] > 10


def test_an_agent_takes_back_all_that_is_its_own():
    """Its disk is lost, and neighbours hold more of it than they take of anybody now."""
    mine = agent(rate_cap=RateCap(per_second=1e-9, since=0.0), most_entries=2)
    for number in range(1, 9):
        rows = {f"{number}-{k}".ljust(200, "x"): ONE for k in range(1000)}
        mine.receive("peer", message(entry("me", number, evidence=rows)), 1.0)
    assert len(mine.replica.of_origin("me")) == 8
    assert not mine.refusals


def test_pulls_of_an_origin_are_the_sum_of_its_entries_whatever_changes():
    capped = agent(rate_cap=RateCap(1000.0, 0.0))
    generator = random.Random(5)
    for seq in range(1, 200):
        number = generator.randrange(0, 9)
        pulls = generator.randrange(1, 5)
        made = (
            base("other", (*range(1, 1 + generator.randrange(1, 4)),), pulls, seq=seq)
            if number == 0
            else entry("other", number, seq, pulls)
        )
        capped.receive("other", message(made), float(seq))
        entries = capped.replica.of_origin("other")
        assert capped.replica.pulls_of("other") == sum(each.pulls() for each in entries)
    assert not capped.refusals
