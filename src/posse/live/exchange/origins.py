"""Origins: a state-based CRDT of every origin's cumulative evidence; exact, whatever is lost.

Entries only grow, and the one with the higher sequence number wins, so loss, repetition and order
of messages do not matter.  An origin's evidence is the sum over its incarnations: each process of
it observes into a new one, for its disk may have forgotten sequence numbers that others have seen,
and what others hold of the old ones comes back to it.  Old incarnations are folded into the present
one (`own`).  With the agent's own name as identity even a lost disk costs only what it had not sent
yet.

A memory snapshot put back is another future of the same process.  An entry that counts less of some
arm than the one held is refused, and the origin is shown what is held: it keeps that, and moves
what it observed since the last version in common to a new incarnation.  A clock that jumps opens a
new one at once.  What is lost then is at most what both futures observed of the same arm between
two ticks, or what only one of them had sent when a third agent had heard of neither.

With a half-life entries are of an epoch (`epochs`). Everybody reads them for what they are worth at
the last tick, and only an origin itself halves its present one, before it adds to it: so an agent
that is gone fades for all alike, and after 60 half-lives its entries are dropped.
"""

from __future__ import annotations

import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from posse.live.exchange.books import NOT_HERE_YET, Books
from posse.live.exchange.bounds import Bounds
from posse.live.exchange.current import Current
from posse.live.exchange.digests import Holding, Neighbour
from posse.live.exchange.epochs import AHEAD, Epochs
from posse.live.exchange.examine import Examined, Examiner
from posse.live.exchange.examine import Sign as Sign
from posse.live.exchange.examine import Verify as Verify
from posse.live.exchange.jumps import Jumps
from posse.live.exchange.layouts import DEFAULT
from posse.live.exchange.ledger import Ledger
from posse.live.exchange.messages import Entry, OriginsMessage
from posse.live.exchange.origin_checks import LARGEST_ENTRY, OriginChecks, RateCap
from posse.live.exchange.own import Own
from posse.live.exchange.parts import WrittenParts
from posse.live.exchange.quanta import PER_UNIT
from posse.live.exchange.rooms import LARGEST_ORIGIN as LARGEST_ORIGIN
from posse.live.exchange.rooms import Rooms
from posse.live.exchange.seam import NeighbourStatus, Outgoing
from posse.live.exchange.sending import Sending


class Origins:
    """The exchange of exact evidence, entry by entry and neighbour by neighbour."""

    def __init__(
        self,
        *,
        fingerprint: str,
        bounds: Sequence[float],
        closed: int = 0,  # how many of the first coordinates come again, for closed decisions
        features: int = 0,  # of contexts, whose Gram matrix is the last of these
        identity: str | None = None,
        network: str = "",
        experiment: str = DEFAULT,
        sign: Sign | None = None,
        verify: Verify | None = None,
        rate_cap: RateCap | None = None,
        digest_every: int = 10,  # ticks
        batch: int = 200,  # entries a message
        most_entries: int = 10_000,  # a stranger cannot fill the memory
        draw: Callable[[int], int] = secrets.randbits,
        clock: Callable[[], float] = time.time,  # for the numbers of incarnations alone
        half_life: float | None = None,  # seconds in which evidence fades to a half
        monotonic: Callable[[], float] | None = None,  # by which a clock that jumps is known
    ) -> None:
        """Nothing observed yet; `bounds` are the most a pull adds to each coordinate."""
        self.identity = identity or f"{draw(128):032x}"
        self.refusals: Counter[str] = Counter()
        self.fingerprint = fingerprint
        self._experiment = experiment
        self._bounds = Bounds(tuple(bounds), closed, half_life is not None, features)
        self._epochs = Epochs(half_life, clock, monotonic, self.refusals)
        checks = OriginChecks(fingerprint, self._bounds, most_entries, experiment)
        self._examiner = Examiner(checks, verify, network, self._is_news, draw)
        self._sending = Sending(sign, network, digest_every, batch)
        self._rooms = Rooms(most_entries, rate_cap)
        self._read_at = -1  # the epoch in which old entries were last looked for
        self._most_entries = most_entries
        self._draw = draw
        self._clock = clock
        self._process = f"{draw(64):016x}"  # only this very process goes on in an incarnation
        self._books, self._own = self._empty()
        self._neighbours: dict[str, Neighbour] = {}
        self._parts = WrittenParts()
        self._jumps = Jumps()
        self._by_clock = Jumps()  # which need not be the time of the ticks

    @property
    def revision(self) -> int:
        """A number that rises whenever the evidence changes."""
        return self._books.revision

    def observe(
        self, arm: str, statistic: Sequence[int], *, made: int = 0, at: float | None = None
    ) -> int:
        """Add one's own evidence to one's current entry."""
        values = self._bounds.check_observation(arm, statistic)
        if not any(values):
            return self.incarnation()
        if self._by_clock.between(self._clock()):  # not only at the next tick: see there
            self._own.close()
        return self._own.observe(arm, values, made, at)

    def incarnation(self) -> int:
        """The present one, opened if there is none."""
        if self._by_clock.between(self._clock()):
            self._own.close()
        return (self._own.current or self._own.open()).incarnation

    @property
    def void_through(self) -> int:
        """The newest incarnation that this disk forgot a part of: what was open then is void."""
        return self._own.void_through

    def by_origin(self) -> dict[str, Ledger]:
        """The evidence of each origin, over its incarnations."""
        self._own.write()
        return {origin: self._sum_of(origin) for origin in list(self._books.origins())}

    def pulls_by_origin(self) -> dict[str, int]:
        """The pulls of each origin that count here, for what they are worth now."""
        self._own.write()
        return {origin: self._pulls_of(origin) for origin in list(self._books.origins())}

    def _pulls_of(self, origin: str) -> int:
        """Of entries as they are, none of which is added up again: there may be many."""
        entries = self._books.counting(origin)
        if not self._epochs.fading:
            return sum(entry.pulls for entry in entries) // PER_UNIT
        worth = sum(entry.pulls * self._epochs.worth(entry.epoch) for entry in entries)
        return round(worth / PER_UNIT)

    def evidence(self) -> Ledger:
        """The sum over all origins."""
        if not self._epochs.fading:
            return dict(self._books.totals.get(0, {}))
        return self._epochs.read_ledger(self._books.totals)

    def _sum_of(self, origin: str) -> Ledger:
        """The evidence of an origin for what it is worth now."""
        if not self._epochs.fading:
            return self._books.sum_of(origin)
        return self._epochs.read_ledger(self._books.sums_of(origin))

    def own(self) -> Ledger:
        """The sum over one's own incarnations."""
        self._own.write()
        return self._sum_of(self.identity)

    def is_current(self) -> bool:
        """Whether all that neighbours have shown is here: each that was heard its whole digest.

        Then nothing is lacking that decisions known here were made on (causal closure).
        """
        heard = [each for each in self._neighbours.values() if each.last_heard is not None]
        return all(each.shown_all for each in heard) and all(
            self._holds(key, seq) for each in heard for key, seq in each.holds.items()
        )

    def _holds(self, key: tuple[str, int], seq: int) -> bool:
        """Whether an entry is here, or what has absorbed it."""
        mine = self._books.entries.get(key)
        if mine is not None and seq <= mine.seq:
            return True
        return self._books.absorbed(key[0]).covers(key[1], seq)

    def known(self) -> frozenset[str]:
        """All origins with evidence, and oneself."""
        self._own.write()
        return frozenset({self.identity, *self._books.origins()})

    def connect(self, peer: str) -> None:
        """Begin as if it held nothing, until it says what it holds."""
        self._neighbours.setdefault(peer, Neighbour())

    def disconnect(self, peer: str) -> None:
        """Send nothing more to it; what it says is still heard."""
        self._neighbours.pop(peer, None)

    def neighbours(self) -> dict[str, NeighbourStatus]:
        """Every edge, with the number of entries the neighbour is not known to hold."""
        self._own.write()
        entries = self._books.entries
        return {
            name: NeighbourStatus(
                identity=None,
                active=True,
                last_heard=neighbour.last_heard,
                lag=None if neighbour.last_heard is None else len(neighbour.lacking(entries)),
            )
            for name, neighbour in self._neighbours.items()
        }

    def tick(self, now: float) -> Outgoing:
        """To each neighbour the entries it has not acknowledged, and now and then a digest."""
        self._follow(now)
        # then this may be a copy of a process that went on elsewhere
        if any([self._jumps.at(now), self._by_clock.at(self._clock())]):
            self._own.close()
        self._own.write()
        shown = all(map(self._has_shown_all, self._neighbours.values()))
        self._own.fold_if_many(shown)
        if self._own.current is not None:
            self._own.current.note_version()
        return self._sending.messages(
            self._books, self.identity, self.fingerprint, self._neighbours
        )

    def examine(self, message: object) -> object:
        """Check shapes and signatures, which needs no lock: others may call anything meanwhile."""
        if not isinstance(message, OriginsMessage):
            return message
        return self._examiner.examine(message)

    def _follow(self, now: float) -> None:
        """Time goes on, and evidence fades with it."""
        if self._epochs.move_to(now):
            self._fade()

    def receive(self, peer: str, message: object, now: float) -> Outgoing:
        """Keep what is newer, and acknowledge what came; the message may have been examined."""
        self._follow(now)  # or who slept for two epochs would refuse what is ahead of its last tick
        examined = message if isinstance(message, Examined) else self.examine(message)
        if not isinstance(examined, Examined):
            self.refusals["exchange_mismatch"] += 1
            return []
        self.refusals += examined.refused
        if not examined.usable:
            return []
        self._own.write()
        neighbour = self._neighbours.get(peer, Neighbour())  # a removed edge is still heard
        neighbour.last_heard = now
        neighbour.hear(examined.message, self._most_entries)
        self._hear_of_own(examined.message.holds)
        back: list[Entry] = []  # what the peer itself should see
        for entry in examined.news:
            if problem := self._take(entry, now):
                self.refusals[problem] += 1
            else:
                neighbour.note(entry.key, entry.seq)
        held: dict[Holding, None] = {}
        for entry in (*examined.news, *examined.known):
            mine = self._books.entries.get(entry.key)
            if mine is not None and entry.seq <= mine.seq:
                neighbour.note(entry.key, entry.seq)
            if mine is not None:
                held[*entry.key, mine.seq] = None
                if entry.origin == peer and self._books.is_another_future(mine, entry):
                    back.append(mine)
            elif self._books.absorbed(entry.origin).covers(entry.incarnation, entry.seq):
                neighbour.note(entry.key, entry.seq)
                held[*entry.key, entry.seq] = None
        if not (held or back):
            return []
        answer = self._sending.answer(self._books, self.identity, self.fingerprint, back, held)
        return [(peer, answer)]

    def state(self) -> dict[str, Any]:
        """All durable parts: identity, incarnation, edges, and one for each entry."""
        self._own.write()
        small = self._parts.take_all(self._small_parts())
        kept = self._own.archive.state() | self._own.carried.state()
        return {**small, **self._books.state(), **kept}

    def changes(self) -> dict[str, Any]:
        """The parts that changed since they were last written; None: a part is gone."""
        self._own.write()
        changed = self._parts.take_changes(self._small_parts()) | self._books.changes()
        return changed | self._own.archive.changes() | self._own.carried.changes()

    def restore(self, state: Mapping[str, Any], clean: bool = False) -> None:
        """Continue; unless this very process goes back, the next observation opens a new one."""
        self.identity = state["identity"]
        before = self._own.current
        revision = self._books.revision
        self._books, self._own = self._empty()
        self._books.restore(state)
        self._own.archive.restore(state)
        self._own.carried.restore(state)
        self._books.revision = revision + 1
        self._neighbours = {name: Neighbour() for name in state["neighbours"]}
        written = state["incarnation"]
        self._own.void_through = state.get("void_through", 0)
        self._own.epoch = state.get("epoch", 0)
        self._own.last_opened = written[0] or 0
        if clean and written[1] == self._process and written[0]:
            mine = self._books.entries.get((self.identity, written[0]))
            if mine is not None:
                self._own.current = Current.resumed(
                    mine, self._bounds, LARGEST_ENTRY // 2, self._draw
                )
                if before is not None and before.incarnation == mine.incarnation:
                    self._own.current.take_versions(before)
        self._parts.restore(self._small_parts())

    def _fade(self) -> None:
        """Time went on: all is worth less, and what reads as nothing is held no longer."""
        if self._books.totals:
            self._books.revision += 1
        if self._epochs.epoch != self._read_at:
            self._read_at = self._epochs.epoch
            entries = self._books.entries.values()
            old = [each for each in entries if self._epochs.is_forgotten(each.epoch)]
            self._own.forget(old)
            self._books.drop(old)

    def _empty(self) -> tuple[Books, Own]:
        books = Books(self._bounds, self._epochs.fading)
        own = Own(
            books,
            identity=self.identity,
            experiment=self._experiment,
            largest_entry=LARGEST_ENTRY // 2,
            largest_origin=LARGEST_ORIGIN,
            clock=self._clock,
            draw=self._draw,
            epochs=self._epochs,
        )
        return books, own

    def _small_parts(self) -> dict[str, Any]:
        current = self._own.current
        parts: dict[str, Any] = {
            "identity": self.identity,
            "incarnation": [current and current.incarnation, self._process],
            "neighbours": list(self._neighbours),
        }
        if self._epochs.fading:
            parts["epoch"] = self._own.epoch
        if self._own.void_through:
            parts["void_through"] = self._own.void_through
        return parts

    def _hear_of_own(self, holds: Iterable[Holding]) -> None:
        current = self._own.current
        if current is not None:
            for origin, incarnation, seq in holds:
                if incarnation == current.incarnation and origin == self.identity:
                    current.note_acknowledged(seq)

    def _is_news(self, entry: Entry) -> bool:
        if self._epochs.is_forgotten(entry.epoch):
            return False
        if entry.origin == self.identity:
            return self._own.is_news(entry)
        if self._books.absorbed(entry.origin).covers(entry.incarnation, entry.seq):
            return False
        mine = self._books.entries.get(entry.key)
        return mine is None or entry.seq > mine.seq

    def _take(self, entry: Entry, now: float) -> str | None:
        """Keep an entry that is news, if nothing speaks against it."""
        if not self._is_news(entry):  # any more
            return None
        if self._epochs.is_ahead(self._books.epoch_of(entry)):
            return AHEAD
        if problem := self._rooms.problem(self._books, entry, now):
            return problem
        if entry.origin == self.identity:
            return self._own.take(entry)
        if not self._books.allow(entry):
            return NOT_HERE_YET
        mine = self._books.entries.get(entry.key)
        if mine is not None and not self._books.dominates(entry, mine):
            return "sequence_regressed"
        self._books.keep(entry)
        return None

    def _has_shown_all(self, neighbour: Neighbour) -> bool:
        """Whether it has shown all it holds, and nothing of ours that we do not hold."""
        return neighbour.shown_all and all(
            self._holds(key, seq) for key, seq in neighbour.holds.items() if key[0] == self.identity
        )
