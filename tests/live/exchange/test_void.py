"""A disk set back: decisions that were open in the copy are void, once a neighbour tells."""

import copy
import json
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from posse.live.exchange.carried import VOID

from posse.live.exchange import Entry, OriginsMessage, carried, own
from posse.live.exchange.evidence_sums import PER_UNIT
from posse.live.exchange.replica import NOT_HERE_YET
from tests.live.exchange.late import START, Site, Twice, agent, is_twice

ONE = PER_UNIT
CORRECTION, CLOSING = (ONE, 0, 0, 0), (0, ONE, ONE, 0)
WHOLE = (ONE, ONE, ONE, ONE)
TIGHT = (1.0, 1.0, 1.0, 1.0)


@settings(derandomize=True, deadline=None, max_examples=50)
@given(
    seed=st.integers(0, 10**6),
    neighbours=st.integers(1, 2),
    set_back=st.booleans(),
    eager=st.booleans(),
)
def test_any_history_counts_what_the_rule_says(seed, neighbours, set_back, eager):
    with pytest.MonkeyPatch.context() as patch:
        if eager:
            patch.setattr(own, "FOLDED_ABOVE", 2)
            patch.setattr(own, "FOLDED_AT_ONCE_ABOVE", 16)
        site = Site(seed, neighbours)
        try:
            site.play(60, set_back)
        except Twice:
            assert set_back
            return
        except AssertionError:
            if own.UNTOLD not in site.me.refusals:
                raise
            return
    assert set_back or not is_twice(site.disk)
    assert set_back or site.me.void_through == 0


class Pair:
    """An agent, a neighbour, and a clock that both have."""

    def __init__(self):
        self.now, self.random = 1000.0, Random(1)  # which no snapshot puts back
        self.mine, self.other = self.make("me"), self.make("other")
        self.mine.connect("other")
        self.other.connect("me")

    def make(self, name):
        draw = lambda bits: self.random.getrandbits(bits)  # noqa: E731
        return agent(name, clock=lambda: self.now, draw=draw, digest_every=1)

    def exchange(self, rounds=8):
        for _ in range(rounds):
            self.now += 0.1
            waiting = [(self.mine, self.other, m) for _, m in self.mine.tick(self.now)]
            waiting += [(self.other, self.mine, m) for _, m in self.other.tick(self.now)]
            for source, to, said in waiting:
                answers = to.receive(source.identity, said, self.now)
                waiting += [(to, source, answer) for _, answer in answers]

    def disk(self):
        return json.loads(json.dumps(self.mine.state()))

    def restart(self, disk=None):
        disk = disk or self.disk()
        self.now += 0.1
        self.mine = self.make("me")
        self.mine.restore(disk)

    def agree(self):
        assert self.mine.own() == self.mine.evidence() == self.other.evidence()
        return self.mine.own()["a"]


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("told", [False, True])
def test_a_reward_that_came_again_is_taken_back(restart, told):
    """One of two decisions was rewarded and closed in what the disk forgot, and again after."""
    pair = Pair()
    made = [pair.mine.observe("a", START) for _ in range(2)]
    pair.exchange()
    disk = pair.disk()
    pair.mine.observe("a", CORRECTION, made=made[0])
    pair.mine.observe("a", CLOSING, made=made[0])
    pair.exchange()
    pair.restart(disk)
    pair.mine.observe("a", CORRECTION, made=made[0])
    pair.mine.observe("a", CLOSING, made=made[0])
    pair.mine.observe("a", CORRECTION, made=made[1])
    fresh = pair.mine.observe("a", START)
    pair.mine.observe("a", CORRECTION, made=fresh)
    assert pair.mine.void_through == 0  # no neighbour was heard yet: until then it cannot act
    assert pair.mine.own() == {"a": (3 * ONE, ONE, ONE, 3 * ONE)}
    if told:  # to one that knows less, in an incarnation that cannot go back
        friend = pair.make("friend")
        pair.mine.connect("friend")
        for to, said in pair.mine.tick(pair.now):
            if to == "friend":
                friend.receive("me", said, pair.now)
        assert friend.evidence() == pair.mine.own()
    if restart:
        pair.restart()
    pair.exchange()
    assert made[0] <= pair.mine.void_through < fresh
    # once the forgotten correction and closing, and what was made after the copy was put back
    assert pair.agree() == (2 * ONE, ONE, ONE, 3 * ONE)
    if told:
        for _, said in pair.mine.tick(pair.now):
            friend.receive("me", said, pair.now)
        assert friend.evidence() == pair.mine.own()
    # void for good, also after a restart
    pair.restart()
    pair.mine.observe("a", CLOSING, made=made[1])
    pair.mine.observe("a", CLOSING, made=fresh)
    pair.exchange()
    assert pair.agree() == (2 * ONE, 2 * ONE, 2 * ONE, 3 * ONE)


def test_rewards_that_counted_in_whole_are_taken_back_as_well():
    pair = Pair()
    made = pair.mine.incarnation()
    pair.mine.observe("a", WHOLE, made=made)
    disk = pair.disk()
    pair.mine.observe("a", WHOLE, made=made)
    pair.exchange()
    pair.restart(disk)
    pair.mine.observe("a", WHOLE, made=made)  # the same reward, told again
    pair.exchange()
    assert pair.agree() == (2 * ONE,) * 4
    assert pair.mine.observe("a", WHOLE, made=made) == pair.mine.incarnation()
    assert pair.mine.own()["a"] == (2 * ONE,) * 4


def test_what_was_folded_is_taken_back(monkeypatch):
    """Out of the incarnation that absorbed it, and not from what was added before the copy."""
    monkeypatch.setattr(own, "FOLDED_ABOVE", 1)
    monkeypatch.setattr(own, "FOLDED_AT_ONCE_ABOVE", 1)
    pair = Pair()
    made = [pair.mine.observe("a", START) for _ in range(4)]
    pair.restart()
    pair.mine.observe("a", CORRECTION, made=made[0])  # before the copy
    pair.exchange()
    disk = pair.disk()
    pair.restart()
    pair.mine.observe("a", CORRECTION, made=made[1])
    pair.exchange()
    friend, pair.other = pair.other, pair.make("other")
    pair.restart(disk)
    for each in made[1:3]:
        pair.mine.observe("a", CORRECTION, made=each)
        pair.restart()
        pair.mine.observe("a", START)
        pair.mine.tick(pair.now)
    assert len([part for part in pair.mine.state() if part.startswith("entry me")]) == 1
    assert pair.mine.own() == {"a": (3 * ONE, 0, 0, 6 * ONE)}
    pair.other = friend
    pair.exchange()
    assert pair.agree() == (2 * ONE, 0, 0, 6 * ONE)


def test_two_futures_that_take_back_the_same_do_so_once():
    """It is named; a number subtracted twice would be a reward that nobody lost."""
    pair = Pair()
    made = pair.mine.observe("a", START)
    disk = pair.disk()
    pair.mine.observe("a", CORRECTION, made=made)
    pair.exchange()
    pair.restart(disk)
    pair.mine.observe("a", CORRECTION, made=made)
    pair.mine.observe("a", START)
    second = pair.disk()
    pair.exchange()
    assert pair.agree() == (ONE, 0, 0, 2 * ONE)
    entries = [part for name, part in pair.mine.state().items() if name.startswith("entry me")]
    assert [seq for part in entries for _, seq in (part[8] if len(part) > 5 else ())].count(
        VOID
    ) == 1
    pair.restart(second)
    pair.mine.observe("a", START)
    pair.exchange()
    assert pair.agree() == (ONE, 0, 0, 3 * ONE)


def test_a_machine_put_back_with_its_memory():
    """What decisions add that were open in the snapshot is not moved; what is new is."""
    pair = Pair()
    made = [pair.mine.observe("a", START) for _ in range(3)]
    pair.exchange()
    snapshot = copy.deepcopy(pair.mine)
    pair.mine.observe("a", CORRECTION, made=made[0])
    for _ in range(2):
        pair.mine.observe("a", START)
    pair.exchange()
    pair.mine = snapshot
    pair.mine.observe("a", CORRECTION, made=made[0])
    pair.mine.observe("a", START)
    pair.exchange()
    assert pair.mine.void_through == made[0]
    pair.mine.observe("a", CORRECTION, made=made[1])
    pair.exchange()
    assert pair.agree() == (ONE, 0, 0, 6 * ONE)
    new = pair.mine.observe("a", START)
    assert new > made[0]
    pair.mine.observe("a", CORRECTION, made=new)
    pair.exchange()
    assert pair.agree() == (2 * ONE, 0, 0, 7 * ONE)


def test_rows_are_few_and_durable(monkeypatch):
    monkeypatch.setattr(carried, "MOST_CARRIED", 3)
    pair = Pair()
    made = pair.mine.observe("a", START)
    for _ in range(6):
        pair.restart()
        pair.mine.observe("a", CORRECTION, made=made)
        made = pair.mine.observe("a", START)
        rows = [name for name in pair.mine.changes() if name.startswith("carried ")]
        assert rows
    rows = {n: v for n, v in pair.mine.state().items() if n.startswith("carried ")}
    assert len(rows) <= 4
    assert max(row[0] for row in rows.values()) < made
    assert {**pair.mine.state(), "incarnation": 0} == {**pair.disk(), "incarnation": 0}


def test_what_happened_before_is_no_news():
    """Words that come back, a restart, a crash: nothing is void."""
    pair = Pair()
    made = pair.mine.observe("a", START)
    pair.exchange()
    for _ in range(3):
        pair.restart()
        pair.mine.connect("other")
        pair.exchange()
        pair.mine.observe("a", START)
        pair.exchange()
    pair.mine.observe("a", CORRECTION, made=made)
    pair.exchange()
    assert pair.mine.void_through == 0
    assert pair.agree() == (ONE, 0, 0, 4 * ONE)


def test_own_rewards_that_come_back_before_their_decisions_wait():
    """A lost disk, and a neighbour that shows the newer incarnation first."""
    pair = Pair()
    made = pair.mine.observe("a", START)
    pair.restart()
    pair.mine.observe("a", CORRECTION, made=made)
    pair.exchange()
    entries = sorted(pair.other._books.of("me"), key=lambda entry: entry.incarnation)
    lost = agent("me", TIGHT)
    for entry in reversed(entries):
        lost.receive("other", OriginsMessage("f", (entry,), (), False), 0.0)
    assert lost.own() == {"a": START}
    assert lost.refusals == {NOT_HERE_YET: 1}
    lost.receive("other", OriginsMessage("f", tuple(entries), (), False), 0.0)
    assert lost.own() == {"a": (ONE, 0, 0, ONE)}


def row_of(pair):
    pair.mine.connect("other")
    pair.mine.tick(pair.now)
    ((name, row),) = (i for i in pair.mine.state().items() if i[0].startswith("carried "))
    return int(name.split()[1]), row


def test_what_another_future_took_back_is_taken_back_here():
    """Also where what it heard has no name any more."""
    pair = Pair()
    made = pair.mine.observe("a", START)
    pair.restart()
    added_in = pair.mine.observe("a", CORRECTION, made=made)
    number, _ = row_of(pair)
    seq = pair.mine._books.entries["me", added_in].seq
    # this disk folds it, the other one did so without the row
    pair.restart()
    pair.mine.observe("a", START)
    pair.mine.tick(pair.now)
    pair.mine._own.fold([pair.mine._books.entries["me", added_in]])
    assert pair.mine.own() == {"a": (ONE, 0, 0, 2 * ONE)}
    word = Entry("me", 2**63 - 2, 1, {"b": START}, b"", 1, "default", 0)
    word = replace(word, folded=((added_in, seq), (number, VOID)))
    pair.mine.receive("other", OriginsMessage("f", (word,), (), False), pair.now)
    assert pair.mine.own() == {"a": (0, 0, 0, 2 * ONE), "b": START}
    pair.restart()
    assert pair.mine.own() == {"a": (0, 0, 0, 2 * ONE), "b": START}


def test_an_incarnation_that_comes_folded_is_news_as_well():
    pair = Pair()
    made = pair.mine.observe("a", START)
    pair.restart()
    added_in = pair.mine.observe("a", CORRECTION, made=made)
    row_of(pair)
    word = Entry("me", 2**63 - 2, 1, {"b": START}, b"", 1, "default", 0)
    for forgot, counted in ((added_in + 1, ONE), (added_in - 1, 0)):
        told = replace(word, seq=word.seq + (not counted), folded=((forgot, 5),))
        pair.mine.receive("other", OriginsMessage("f", (told,), (), False), pair.now)
        assert pair.mine.own() == {"a": (counted, 0, 0, ONE), "b": START}
