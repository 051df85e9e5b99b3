"""Decisions that count from their start: what neighbours make of corrections and closings."""

import itertools
import json
from dataclasses import replace

import pytest

from posse.live.exchange import Entry, Flows, OriginsMessage
from posse.live.exchange.bounds import Bounds
from posse.live.exchange.evidence_sums import PER_UNIT, dominates, larger
from posse.live.exchange.messages import signed_bytes
from posse.live.exchange.replica import NOT_HERE_YET
from posse.live.messaging.wire import Codec
from tests.live.exchange.late import BOUNDS, START, agent
from tests.live.exchange.origins import signatures

ONE = PER_UNIT
CORRECTION, CLOSING = (ONE, 0, 0, 0), (0, ONE, ONE, 0)
WHOLE = (ONE, ONE, ONE, ONE)
CODEC = Codec(OriginsMessage)


def times(n, row):
    return tuple(n * value for value in row)


def message(*entries, holds=(), complete=False):
    return OriginsMessage("f", tuple(entries), holds, complete)


def own_entries(each):
    parts = each.state().items()
    return [part for name, part in parts if name.startswith(f"entry {each.identity} ")]


def said_by(each, now=0.0):
    """All that it would send to a new neighbour."""
    each.connect("new")
    return [e for to, out in each.tick(now) if to == "new" for e in out.entries]


def test_a_decision_is_a_pull_at_once_and_closed_later():
    mine = agent("me")
    made = mine.observe("a", START)
    assert made == mine.incarnation()
    assert mine.evidence() == {"a": START}
    assert mine.observe("a", CORRECTION, made=made) == made
    assert mine.evidence() == {"a": (ONE, 0, 0, ONE)}
    mine.observe("a", CLOSING, made=made)
    assert mine.evidence() == mine.own() == mine.by_origin()["me"] == {"a": WHOLE}
    mine.observe("a", (0, 0, 0, 0), made=made)  # the reward was the assumed one
    assert mine.evidence() == {"a": WHOLE}


def test_an_entry_says_what_is_open_and_what_is_closed():
    mine = agent("me")
    for now, row in enumerate((WHOLE, START, CORRECTION, CLOSING, WHOLE)):
        mine.observe("a", row)
        (entry,) = said_by(mine, now)
        parcel = CODEC.decode(CODEC.encode(message(entry)))
        assert parcel.message.entries == (entry,)
        assert entry.evidence == mine.evidence()
        other = agent("other")
        other.receive("me", parcel.message, 0.0)
        assert other.evidence() == mine.evidence()
    assert entry.evidence == {"a": times(3, WHOLE)}


def test_what_is_larger_or_grew_is_told_by_both_counts():
    counts = Bounds((1.0, 1.0, 1.0, 1.0), 1).counts
    fewer, more = {"a": (9, 9, 1, 3)}, {"a": (0, 0, 2, 3)}
    assert dominates(more, fewer, counts)
    assert not dominates(fewer, more, counts)
    assert not dominates({"a": (0, 0, 2, 3)}, {"a": (0, 0, 1, 4)}, counts)
    assert larger(fewer, more, counts) == larger(more, fewer, counts) == more
    # what no honest origin says, but two futures of one: never less closed than either
    one, other = {"a": (5, 6, 2, 3)}, {"a": (7, 8, 1, 4)}
    both = {"a": (7, 6, 2, 4)}
    assert larger(one, other, counts) == larger(other, one, counts) == both
    assert larger({"a": (1, 0, 2, 3)}, {"a": (2, 0, 2, 3)}, counts) == {"a": (1, 0, 2, 3)}
    assert larger({"a": (1, 0, 2, 3)}, {"a": (2, 0, 2, 3)}, counts, True) == {"a": (2, 0, 2, 3)}


TIGHT = (1.0, 1.0, 1.0, 1.0)


def restarted(mine, bounds=BOUNDS):
    again = agent("me", bounds)
    again.restore(json.loads(json.dumps(mine.state())))
    return again


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
@pytest.mark.parametrize("batch", [1, 3])
def test_decide_restart_reward_at_a_neighbour_that_joins_late(order, batch):
    """Rewards that come before their decisions wait: they are not acknowledged, and come again."""
    first = agent("me", TIGHT)
    made = [first.observe("a", START) for _ in range(3)]
    second = restarted(first, TIGHT)
    second.observe("a", CORRECTION, made=made[0])
    second.observe("a", CLOSING, made=made[0])
    third = restarted(second, TIGHT)
    third.observe("a", CORRECTION, made=made[1])
    third.observe("a", START)
    assert third.own() == {"a": (2 * ONE, ONE, ONE, 4 * ONE)}
    said = said_by(third)
    late, now = agent("late", TIGHT), 0.0
    lacking = [said[nth] for nth in order]
    for _ in range(9):
        now += 1.0
        batched, lacking = lacking[:batch], lacking[batch:]
        answers = late.receive("relay", message(*batched), now)
        held = {hold[:2] for _, answer in answers for hold in answer.holds}
        lacking += [e for e in batched if e.key not in held]
        # at no time more rewards, or closed decisions, than decisions
        for row in late.evidence().values():
            assert abs(row[0]) <= row[3]
            assert row[1] <= row[2] <= row[3]
    assert not lacking
    assert late.evidence() == third.own()
    assert late.refusals.keys() <= {NOT_HERE_YET}


def test_what_waits_for_an_older_incarnation_comes_again_by_itself():
    first = agent("me", TIGHT)
    made = [first.observe("a", START) for _ in range(3)]
    second = agent("me", TIGHT, batch=1, digest_every=3)
    second.restore(json.loads(json.dumps(first.state())))
    for each in made:
        second.observe("a", CORRECTION, made=each)
    late = agent("late", TIGHT, batch=1, digest_every=3)
    second.connect("late")
    late.connect("me")
    for now in range(12):
        waiting = [("me", late, out) for _, out in second.tick(now)]
        waiting += [("late", second, out) for _, out in late.tick(now)]
        for source, to, out in waiting:
            back = late if to is second else second
            waiting += [(to.identity, back, answer) for _, answer in to.receive(source, out, now)]
    assert late.evidence() == second.own()
    assert second.neighbours()["late"].lag == 0


BAD = {
    "a closed count above the count": (0, 0, 2 * ONE, ONE),
    "a negative count": (0, 0, 0, -ONE),
    "a negative closed count": (0, 0, -ONE, ONE),
    "more closed rewards than closed decisions": (0, 2**62, ONE, 2 * ONE),
    "less closed rewards than closed decisions": (0, -(2**62), ONE, 2 * ONE),
    "closed rewards of nothing": (0, 1, 0, ONE),
    "rewards of nothing": (1, 0, 0, 0),
    "more rewards than decisions": (2**61 + 1, 0, 0, ONE),
    "beyond all sums": (0, 0, 0, 2**63),
    "too few numbers": (0, 0, ONE),
    "too many numbers": (0, 0, 0, 0, ONE),
    "no whole number": (0, 0, 0.0, ONE),
}


@pytest.mark.parametrize("row", BAD.values(), ids=BAD)
def test_hostile_entries_are_refused_one_by_one(row):
    mine = agent("me")
    lie = Entry("liar", 1, 1, {"a": row})
    honest = Entry("honest", 1, 1, {"a": START})
    closed = Entry("other", 1, 1, {"a": WHOLE})
    mine.receive("liar", message(lie, honest, closed), 0.0)
    assert mine.evidence() == {"a": (ONE, ONE, ONE, 2 * ONE)}
    assert sum(mine.refusals.values()) == 1
    assert mine.refusals.keys() <= {
        "malformed",
        "evidence_exceeds_pulls",
        NOT_HERE_YET,
    }


def test_sums_beyond_what_is_written_are_refused():
    """Each incarnation is within 2^62; so many of them add up, in whole numbers without an end."""
    mine = agent("me")
    rows = [(0, 0, 0, 2**62), (0, 0, 2**62, 2**62), (0, 0, 0, 2**62 + 1)]
    lies = [Entry("liar", nth, 1, {"a": row}) for nth, row in enumerate(rows)]
    mine.receive("liar", message(*lies), 0.0)
    assert mine.evidence() == {"a": (0, 0, 2**62, 2**63)}
    assert mine.refusals == {"malformed": 1}


def test_rows_without_closed_sums_are_refused():
    mine = agent("me")
    mine.receive("liar", message(Entry("liar", 1, 1, {"a": (ONE, ONE)})), 0.0)
    mine.receive("liar", message(Entry("liar", 1, 1, {"a": START}, layout=2)), 0.0)
    assert mine.refusals == {"malformed": 1, "layout_mismatch": 1}
    assert mine.evidence() == {}


def test_the_layout_is_signed():
    sign = signatures("other")["sign"]
    entry = Entry("other", 1, 1, {"a": START}, experiment="default")
    mine = agent("me", **signatures("me"))
    mine.receive("x", message(replace(entry, signature=sign(b"another"))), 0.0)
    assert mine.refusals == {"signature_invalid": 1}
    mine.receive("x", message(replace(entry, signature=sign(signed_bytes("f", entry)))), 0.0)
    assert mine.evidence() == {"a": START}
    assert signed_bytes("f", entry, "n") == (
        b'[1,"n","default","f","other",1,1,0,[],0,{"a":[0,0,0,1048576]}]'
    )


@pytest.mark.parametrize(
    "row",
    [
        (2**62 + 2, 0, 0, 0),  # more than a difference of two
        (0, ONE, 0, 0),
        (0, 0, ONE, -ONE),
        (0, 0, 2 * ONE, 0),
        (0, 0, 2 * ONE, ONE),
        (0, 0, 0, -ONE),
        (ONE, 0, 0),
    ],
)
@pytest.mark.parametrize("exchange", ["origins", "flows"])
def test_no_agent_observes_what_no_part_of_a_pull_can_be(row, exchange):
    bounds = (2.0**41, 2.0**41, 1.0, 1.0)
    mine = agent("me") if exchange == "origins" else Flows(fingerprint="f", bounds=bounds, closed=1)
    mine.observe("a", START)
    with pytest.raises(ValueError, match="bounds"):
        mine.observe("a", row, made=1)
    assert mine.evidence() == {"a": START}
    mine.observe("a", (-(2**61), 0, 0, 0))
    mine.observe("a", (2**61, 0, 0, 0))
    assert mine.evidence() == {"a": START}


def test_what_was_written_is_read():
    mine, late = agent("me"), 2**62
    state = mine.state() | {
        "entry other 1": ["other", 1, 4, {"a": times(2, WHOLE)}, "", 1, "default", 0, [], 0],
        f"entry me {late + 9}": [
            *("me", late + 9, 3, {"a": times(5, WHOLE)}, ""),
            *(1, "default", 0, [[late + 5, 2]], 0),
        ],
        f"archive {late + 5}": [2, {"a": times(2, WHOLE)}],
    }
    state = json.loads(json.dumps(state))
    mine.restore(state)
    assert mine.own() == {"a": times(5, WHOLE)}
    assert mine.evidence() == {"a": times(7, WHOLE)}
    assert {**mine.state(), "incarnation": 0} == {**state, "incarnation": 0}
    # more of what was absorbed is added exactly
    more = Entry("me", late + 5, 3, {"a": (2 * ONE, 2 * ONE, 2 * ONE, 3 * ONE)})
    mine.receive("x", message(more), 0.0)
    assert mine.own() == {"a": (5 * ONE, 5 * ONE, 5 * ONE, 6 * ONE)}


def test_closed_and_open_entries_of_one_origin_fold_into_one():
    mine = agent("me")
    closed = [Entry("me", nth, 1, {"a": WHOLE}) for nth in range(1, 70)]
    opened = [Entry("me", 100 + nth, 1, {"a": START}) for nth in range(3)]
    mine.connect("x")
    mine.receive("x", message(*closed, *opened, complete=True), 0.0)
    mine.observe("b", WHOLE)
    before = mine.own()
    mine.tick(1.0)
    assert len(own_entries(mine)) == 1
    assert mine.own() == before == {"a": (69 * ONE, 69 * ONE, 69 * ONE, 72 * ONE), "b": WHOLE}
    other = agent("other")
    other.receive("me", message(*said_by(mine, 2.0)), 2.0)
    assert other.evidence() == mine.own()
    again = restarted(mine)
    assert again.own() == before


def test_corrections_of_what_was_folded_are_added():
    """Seen: as many pulls as were known, and so no news."""
    mine = agent("me")
    made = mine.observe("a", START)
    disk = mine.state()
    mine.observe("a", CORRECTION, made=made)
    (later,) = said_by(mine)
    set_back = agent("me")
    set_back.restore(json.loads(json.dumps(disk)))
    set_back.observe("a", START)
    set_back._own.fold([e for e in set_back._books.of("me") if e.incarnation == made])
    assert set_back.own() == {"a": (0, 0, 0, 2 * ONE)}
    set_back.receive("x", message(later), 0.0)
    assert set_back.own() == {"a": (ONE, 0, 0, 2 * ONE)}
    assert not set_back.refusals
