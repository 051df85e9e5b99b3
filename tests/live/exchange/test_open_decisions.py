"""Decisions that count from their start: one entry has their start, correction and closing."""

import itertools

import pytest

from posse.live.exchange import Entry, Flows, OriginsMessage
from posse.live.exchange.messages import signed_bytes
from posse.live.ledger import PER_UNIT
from posse.live.messaging.wire import Codec
from tests.live.exchange.origins import (
    agent,
    entry,
    link,
    message,
    own_entries,
    pump,
    save,
    signatures,
    start,
)

BOUNDS = (2.0**41, 2.0**41, 1.0, 1.0)  # reward, closed reward, closed count, count
LATE = {"bounds": (1.0, 1.0, 1.0, 1.0), "closed": 1}
ONE = PER_UNIT
START, CORRECTION, CLOSING = (0, 0, 0, ONE), (ONE, 0, 0, 0), (0, ONE, ONE, 0)
WHOLE = (ONE, ONE, ONE, ONE)
CODEC = Codec(OriginsMessage)


def times(n, row):
    return tuple(n * value for value in row)


def late(name="me", **options):
    return agent(name, **{**LATE, **options})


def test_a_decision_is_a_pull_at_once_and_closed_later():
    mine = late()
    made = mine.begin_decision("a")
    assert mine.evidence() == {}
    mine.observe("a", START, made)
    assert mine.evidence() == {"a": START}
    mine.observe("a", CORRECTION, made)
    assert mine.evidence() == {"a": (ONE, 0, 0, ONE)}
    mine.observe("a", CLOSING, made)
    assert mine.evidence() == mine.own() == mine.by_origin()["me"] == {"a": WHOLE}
    mine.observe("a", (0, 0, 0, 0), made)  # the reward was the assumed one
    assert mine.evidence() == {"a": WHOLE}


def test_an_entry_says_what_is_open_and_what_is_closed():
    mine, versions = late(), []
    mine.connect("new")
    made = mine.begin_decision("a")
    for now, row in enumerate((WHOLE, START, CORRECTION, CLOSING, WHOLE)):
        mine.observe("a", row, made)
        ((_, out),) = mine.tick(float(now))
        (sent,) = out.entries
        parcel = CODEC.decode(CODEC.encode(message(sent)))
        assert parcel.message.entries == (sent,)
        assert sent.ledger() == mine.evidence()
        other = late("other")
        other.receive("me", parcel.message, 0.0)
        assert other.evidence() == mine.evidence()
        versions.append(sent.version)
    assert sent.ledger() == {"a": times(3, WHOLE)}
    assert versions == sorted(set(versions))


def test_versions_begin_with_the_decisions_begun_and_never_fall():
    """A cancelled decision leaves the sums, and not the number of decisions."""
    mine, versions = late(), []
    mine.connect("new")
    for now in range(6):
        made = mine.begin_decision("a")
        mine.observe("a", START, made)
        if now % 2:
            mine.observe("a", (5, 0, 0, 0), made)
            mine.observe("a", (-5, 0, 0, 0), made)
        mine.tick(float(now))
        (held,) = own_entries(mine)
        versions.append(held.version)
    assert [version[0] for version in versions] == [1, 2, 3, 4, 5, 6]
    assert len({nonce for *_, nonce in versions}) == 6


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_every_part_stays_in_the_entry_of_its_decision(order):
    """Decided, restarted, rewarded, restarted: at no time more rewards than decisions."""
    first = late("me")
    made = [first.begin_decision("a") for _ in range(3)]
    for each in made:
        first.observe("a", START, each)
    second = start(save(first), **LATE)
    second.observe("a", CORRECTION, made[0])
    second.observe("a", CLOSING, made[0])
    second.tick(0.0)
    third = start(save(second), **LATE)
    third.observe("a", CORRECTION, made[1])
    third.observe("a", START, third.begin_decision("a"))
    third.tick(0.0)
    assert third.own() == {"a": (2 * ONE, ONE, ONE, 4 * ONE)}
    old, new = own_entries(third)
    assert old.incarnation == made[0]
    assert old.ledger() == {"a": (2 * ONE, ONE, ONE, 3 * ONE)}
    said = [*own_entries(first), old, new]
    reader = late("reader")
    for nth in order:
        reader.receive("relay", message(said[nth]), 0.0)
        for row in reader.evidence().values():
            assert abs(row[0]) <= row[3]
            assert row[1] <= row[2] <= row[3]
    assert reader.evidence() == third.own()
    assert not reader.refusals


def test_begin_decision_reserves_a_row_and_opens_a_new_incarnation_without_room():
    mine, friend = agent("me"), agent("friend")
    agents = link(mine, friend)
    begun = [(f"arm {nth}", mine.begin_decision(f"arm {nth}")) for nth in range(2100)]
    numbers = [incarnation for _, incarnation in begun]
    assert len(set(numbers)) == 3
    assert numbers == sorted(numbers, key=numbers.index)
    for arm, incarnation in reversed(begun):  # its place was kept
        mine.observe(arm, (0, ONE), incarnation)
    assert not mine.refusals
    pump(agents, 0.0, rounds=4)
    assert friend.evidence() == mine.evidence()
    assert len(friend.evidence()) == 2100
    assert not friend.refusals


def test_rewards_after_a_restart_have_room_as_well():
    mine = agent("me")
    begun = [(f"arm {nth}", mine.begin_decision(f"arm {nth}")) for nth in range(1500)]
    mine = start(save(mine))
    mine.tick(0.0)
    for arm, incarnation in begun:
        mine.observe(arm, (0, ONE), incarnation)
    assert len(mine.evidence()) == 1500
    assert not mine.refusals


def test_sums_never_pass_what_messages_carry_and_no_reward_is_dropped():
    """Seen: above 2^63 an honest agent was cut off, with all that it relayed."""
    huge, options = (2**60, PER_UNIT), {"bounds": (2.0**40, 1.0)}
    mine, friend = agent("me", **options), agent("friend", **options)
    agents = link(mine, friend)
    for _ in range(40):
        mine.observe("a", huge, mine.begin_decision("a"))
    pump(agents, 0.0, rounds=4)
    assert friend.evidence() == mine.evidence() == {"a": (40 * 2**60, 40 * PER_UNIT)}
    assert all(held.ledger()["a"][0] <= 2**62 for held in own_entries(mine))
    assert not friend.refusals
    assert not mine.refusals


BAD = {
    "a closed count above the count": (0, 0, 2 * ONE, ONE),
    "a negative count": (0, 0, 0, -ONE),
    "a negative closed count": (0, 0, -ONE, ONE),
    "more closed rewards than closed decisions": (0, 2**62, ONE, 2 * ONE),
    "less closed rewards than closed decisions": (0, -(2**62), ONE, 2 * ONE),
    "closed rewards of nothing": (0, 1, 0, ONE),
    "rewards of nothing": (1, 0, 0, 0),
    "more rewards than decisions": (2**61 + 1, 0, 0, ONE),
    "beyond all sums": (0, 0, 0, 2**62 + 1),
    "too few numbers": (0, 0, ONE),
    "too many numbers": (0, 0, 0, 0, ONE),
}


@pytest.mark.parametrize("row", BAD.values(), ids=BAD)
def test_hostile_entries_are_refused_one_by_one(row):
    mine = late(bounds=BOUNDS)
    lie, honest = entry("liar", evidence={"a": row}), entry("honest", evidence={"a": START})
    mine.receive("liar", message(lie, honest, entry(evidence={"a": WHOLE})), 0.0)
    assert mine.evidence() == {"a": (ONE, ONE, ONE, 2 * ONE)}
    assert sum(mine.refusals.values()) == 1
    assert mine.refusals.keys() <= {"malformed", "evidence_exceeds_pulls"}


def test_sums_beyond_what_is_written_are_refused():
    """Each incarnation is within 2^62; so many of them add up, in whole numbers without an end."""
    mine = late()
    rows = [(0, 0, 0, 2**62), (0, 0, 2**62, 2**62), (0, 0, 0, 2**62 + 1)]
    lies = [entry("liar", nth, evidence={"a": row}) for nth, row in enumerate(rows, 1)]
    mine.receive("liar", message(*lies), 0.0)
    assert mine.evidence() == {"a": (0, 0, 2**62, 2**63)}
    assert mine.refusals == {"malformed": 1}


def test_what_is_signed_names_the_network_and_all_of_an_entry():
    sign = signatures("other")["sign"]
    said = Entry.from_ledger(("other", 1), (2, 3, 4), {"a": START})
    mine = late(**signatures("me"))
    signed = entry(made=2, seq=3, nonce=4, evidence={"a": START})
    assert signed == said
    mine.receive("x", message(entry(signature=sign(b"another"), evidence={"a": START})), 0.0)
    assert mine.refusals == {"signature_invalid": 1}
    content = signed_bytes("bernoulli", said)
    mine.receive(
        "x",
        message(entry(made=2, seq=3, nonce=4, evidence={"a": START}, signature=sign(content))),
        0.0,
    )
    assert mine.evidence() == {"a": START}
    assert signed_bytes("bernoulli", said, "n") != content != signed_bytes("f", said)


@pytest.mark.parametrize(
    "row",
    [
        (2**62 + 2, 0, 0, 0),  # more than a difference of two
        (0, ONE, 0, 0),
        (0, 0, ONE, -ONE),
        (0, 0, 2 * ONE, 0),
        (0, 0, 2 * ONE, ONE),
        (0, 0, 0, -2 * ONE),  # more than one cancelled decision takes back
        (ONE, 0, 0),
    ],
)
@pytest.mark.parametrize("exchange", ["origins", "flows"])
def test_no_agent_observes_what_no_part_of_a_pull_can_be(row, exchange):
    mine = (
        late(bounds=BOUNDS)
        if exchange == "origins"
        else Flows(fingerprint="f", bounds=BOUNDS, closed=1)
    )
    made = mine.begin_decision("a")
    mine.observe("a", START, made)
    with pytest.raises(ValueError, match="bounds"):
        mine.observe("a", row, made)
    assert mine.evidence() == {"a": START}
    mine.observe("a", (-(2**61), 0, 0, 0), made)
    mine.observe("a", (2**61, 0, 0, 0), made)
    assert mine.evidence() == {"a": START}
