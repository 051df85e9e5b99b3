"""Origins: a replicated map of every origin's evidence, one entry for each of its incarnations.

1. A decision belongs for ever to the incarnation in which it was made. Its start, its reward, its
   closing and its cancelling change that entry and no other (`own_incarnations`).
2. An entry is signed by its origin and has a version; of two versions the larger wins whole
   (`replica`). So loss, repetition and order of messages do not matter.
3. After a start own entries rest until neighbours have shown what they hold of this agent: its disk
   may be an old copy. What they hold in a larger version is taken, and its open decisions are
   superseded.
4. An origin folds entries that nobody will write again into bases (`compaction`).
5. With a half-life, entries are in numbers of an epoch, and everybody reads them by their age
   (`half_life`).

Nothing ever counts twice: a decision is in one entry, and of an entry one version counts. Nothing
is sent before it is on disk. With the agent's own name as identity, even a lost disk costs only
what no neighbour held.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from posse.live.exchange.compaction import Compaction
from posse.live.exchange.digests import Neighbour, Sender
from posse.live.exchange.interface import ExchangeBase, NeighbourStatus, Outgoing
from posse.live.exchange.message_validation import Examined, Examiner, Quotas, RateCap, Sign, Verify
from posse.live.exchange.messages import Entry, Holding, OriginsMessage
from posse.live.exchange.own_incarnations import NONCE_BITS, OwnIncarnations
from posse.live.exchange.replica import Replica
from posse.live.ledger import (
    AHEAD,
    LARGEST,
    PER_UNIT,
    Cell,
    Ledger,
    is_side_row,
    plus,
    select_cells,
)

GRACE_TICKS = 30  # for which a rest waits for neighbours that are not heard
LONGEST_REST = 300  # ticks, for neighbours that are heard and do not answer

RESTORED = (
    "neighbours hold more evidence of this agent than its store: it was restored from a copy, or "
    "is new; open decisions of processes of which they know more are superseded (rewards refused)"
)
TWIN = (
    "another agent of this name sends evidence: nothing counts twice, but give every agent its own "
    "name, and stop the one that should not run"
)
OVERRULED = (
    "two copies of this agent's store compacted the same evidence, and one of the two is kept: "
    "evidence of {} earlier starts may be lost"
)


class Origins(ExchangeBase):
    """The exchange of exact evidence, entry by entry and neighbour by neighbour."""

    def __init__(
        self,
        *,
        sign: Sign | None = None,
        verify: Verify | None = None,
        rate_cap: RateCap | None = None,
        digest_every: int = 10,  # ticks
        batch: int = 200,  # entries a message
        most_entries: int = 60_000,  # a liar cannot fill the memory
        **options: Any,  # of every exchange
    ) -> None:
        """Nothing observed yet."""
        super().__init__(**options)
        shape = self.fingerprint, self._bounds, most_entries
        self._examiner = Examiner(*shape, verify, self.network, self._is_news, self._draw)
        self._quotas = Quotas(most_entries, rate_cap, self._epochs.fading)
        self.sender = Sender(self.fingerprint, self.network, sign, digest_every, batch)
        self.grace_ticks = GRACE_TICKS
        self.longest_rest = LONGEST_REST
        self.rested_alone = True  # whether it began, or its rest ended, before all had answered
        self._rested_ticks = 0
        self._question = 1 + self._draw(NONCE_BITS)  # of this process
        self._now = 0.0  # by the clock that nobody sets, if there is one
        self._faded_epoch = -1  # the epoch in which old entries were last dropped
        self._neighbours: dict[str, Neighbour] = {}
        self._warnings: dict[str, bool] = {}  # sentence -> whether it was returned
        self._create_parts()

    def _create_parts(self) -> None:
        self.replica = Replica()
        self.incarnations = OwnIncarnations(
            self.identity, self.replica, self._bounds, self._epochs, self._draw
        )
        self.compaction = Compaction(self.incarnations)

    # ---- own decisions

    def incarnation(self) -> int:
        """Return the present incarnation, to which new decisions belong."""
        return self.incarnations.incarnation()

    def begin_decision(self, arm: str, side_rows: Sequence[str] = ()) -> int:
        """Note that a decision is made now; returns the incarnation that it belongs to for ever.

        side_rows: the names of those to which something of it may be added.
        """
        return self.incarnations.begin_decision(arm, side_rows)

    def observe(
        self, arm: str, statistic: Sequence[int], incarnation: int = 0, at: float | None = None
    ) -> None:
        """Add a part of an own decision, in quanta, to the entry of its incarnation (0: present).

        The last coordinate is the count: -1 takes back an open decision that is cancelled, with
        what it counted so far. at: the time of the decision.
        """
        values = self._bounds.check_observation(arm, statistic)
        if at is not None and self._epochs.is_behind(at):
            self._move_epochs(at)  # the decision may be of an epoch that no tick has met yet
        if any(values) and (problem := self.incarnations.observe(arm, values, incarnation, at)):
            self.refusals[problem] += 1

    def observe_side(self, name: str, cell: Sequence[int], incarnation: int = 0) -> None:
        """Add an observation of an own decision to a side row: value, square and a count of 1."""
        if problem := self.incarnations.observe(name, self._bounds.check_cell(cell), incarnation):
            self.refusals[problem] += 1

    def is_superseded(self, incarnation: int) -> bool:
        """Whether another copy of this agent has the decisions of an incarnation."""
        return incarnation != 0 and incarnation not in self.incarnations.writable

    def warnings(self) -> list[str]:
        """Return the sentences to log since the last call: a restored copy, a second agent."""
        sentences = [sentence for sentence, returned in self._warnings.items() if not returned]
        self._warnings = dict.fromkeys(self._warnings, True)
        return sentences

    # ---- evidence

    @property
    def revision(self) -> int:
        """A number that rises whenever the evidence changes."""
        return self.replica.revision

    def evidence(self) -> Ledger:
        """The sum over all origins."""
        return self._read_totals(self.replica.totals)

    def own(self) -> Ledger:
        """The sum over own incarnations, with what waits for the rest to end."""
        return self._read_totals(self._totals_of(self.identity))

    def by_origin(self) -> dict[str, Ledger]:
        """The evidence of each origin, over its incarnations."""
        self.incarnations.write()
        return {
            name: self._read_totals(self._totals_of(name)) for name in self.replica.incarnations
        }

    def pulls_by_origin(self) -> dict[str, int]:
        """How many pulls of each origin count here, over all arms, for what they are worth now."""
        self.incarnations.write()
        worth, of_origin = self._epochs.worth, self.replica.of_origin
        return {
            name: round(sum(e.pulls() * worth(e.epoch) for e in of_origin(name)) / PER_UNIT)
            for name in self.replica.incarnations
        }

    def _totals_of(self, origin: str) -> dict[int, Ledger]:
        """Return the sums of an origin, by epoch."""
        self.incarnations.write()
        ledgers = self.incarnations.waiting_ledgers() if origin == self.identity else []
        ledgers += [(entry.epoch, entry.ledger()) for entry in self.replica.of_origin(origin)]
        totals: dict[int, Ledger] = {}
        for epoch, ledger in ledgers:
            totals[epoch] = plus(totals.get(epoch, {}), ledger)
        return totals

    def _read_totals(self, totals: Mapping[int, Ledger]) -> Ledger:
        """Return sums of several epochs for what they are worth now, without side rows."""
        rows = self._epochs.read_ledger(totals)
        return {name: row for name, row in rows.items() if not is_side_row(name)}

    def side_cells(self, own: bool = False) -> dict[tuple[str, ...], Cell]:
        """The side rows of all origins, or own ones alone, by the parts of their names."""
        totals = self._totals_of(self.identity) if own else self.replica.totals
        return select_cells(totals.get(0, {}))

    def known(self) -> frozenset[str]:
        """All origins with evidence, and oneself."""
        self.incarnations.write()
        return frozenset({self.identity, *self.replica.incarnations})

    # ---- neighbours

    def is_current(self) -> bool:
        """Whether all that neighbours have shown is here: each that was heard its whole digest.

        Then nothing is lacking that decisions known here were made on (causal closure).
        """
        heard = [n for n in self._neighbours.values() if n.last_heard is not None]
        return all(neighbour.shown_all for neighbour in heard) and all(
            self.replica.holds(key, version)
            for neighbour in heard
            for key, version in neighbour.holds.items()
        )

    def connect(self, peer: str) -> None:
        """Begin as if it held nothing, until it says what it holds."""
        self._neighbours.setdefault(peer, Neighbour())

    def disconnect(self, peer: str) -> None:
        """Send nothing more to it; what it says is still heard."""
        self._neighbours.pop(peer, None)

    def neighbours(self) -> dict[str, NeighbourStatus]:
        """Every edge, with the number of entries the neighbour is not known to hold as they are.

        An entry for which rewards wait is one of them: an operator replaces a disk at a lag of 0.
        """
        self.incarnations.write()
        waiting = self.incarnations.waiting_keys()
        statuses = {}
        for name, neighbour in self._neighbours.items():
            heard = neighbour.last_heard
            lacking = {entry.key for entry in neighbour.lacking(self.replica.entries)} | waiting
            lag = None if heard is None else len(lacking)
            statuses[name] = NeighbourStatus(None, True, heard, lag)
        return statuses

    def tick(self, now: float) -> Outgoing:
        """To each neighbour the entries it has not acknowledged, and now and then a digest."""
        self._follow_time(now)
        if self.incarnations.resting:
            self._rested_ticks += 1
            if self._has_rested():
                self.rested_alone = not all(map(self._has_answered, self._neighbours.values()))
                self.incarnations.end_rest()
        self.incarnations.write()
        question = self._question if self.incarnations.resting else 0
        return self.sender.make_messages(self.replica, self._neighbours, self.identity, question)

    def _has_rested(self) -> bool:
        """Whether neighbours were asked what they hold of this agent, and all of it is here."""
        neighbours = list(self._neighbours.values())
        if all(map(self._has_answered, neighbours)):
            return True
        if self._rested_ticks < self.grace_ticks:
            return False
        heard = [neighbour for neighbour in neighbours if neighbour.last_heard is not None]
        return all(map(self._has_answered, heard)) or self._rested_ticks >= self.longest_rest

    def _has_answered(self, neighbour: Neighbour) -> bool:
        return neighbour.answered and all(
            self.replica.holds(key, version)
            for key, version in neighbour.holds.items()
            if key[0] == self.identity
        )

    def needs_compaction(self) -> bool:
        """Whether old entries may be folded; then `compact` must know which decisions are open."""
        self.compaction.longest_rest = self.longest_rest * self.tick_seconds
        self.compaction.window = self.reward_window
        return self.compaction.is_due(self.sender.ticks, self._now)

    def compact(self, open_incarnations: Collection[int]) -> None:
        """Fold the entries of old incarnations, but not of those with open decisions."""
        self.incarnations.write()
        self.compaction.fold(open_incarnations, self._neighbours, self._now)

    def examine(self, message: object) -> object:
        """Check shapes and signatures, which needs no lock: others may call anything meanwhile."""
        return self._examiner.examine(message) if isinstance(message, OriginsMessage) else message

    def receive(self, peer: str, message: object, now: float) -> Outgoing:
        """Keep what is newer, and acknowledge what came; the message may have been examined."""
        # Time first: an agent that slept for two epochs would refuse what is ahead of its tick.
        self._follow_time(now)
        examined = message if isinstance(message, Examined) else self.examine(message)
        if not isinstance(examined, Examined):
            self.refusals["exchange_mismatch"] += 1
            return []
        self.refusals += examined.refused
        if not examined.usable:
            return []
        self.incarnations.write()
        neighbour = self._neighbours.get(peer, Neighbour())  # a removed edge is still heard
        neighbour.last_heard = now
        neighbour.heard_at = self._now
        neighbour.receive_digest(examined.message, self.replica, self._quotas.most_entries)
        neighbour.answered |= examined.message.answers == self._question
        for entry in examined.news:
            if problem := self._take(entry, now):
                self.refusals[problem] += 1
            else:
                neighbour.note(entry.key, entry.version)
        held: dict[Holding, None] = {}
        for entry in (*examined.news, *examined.known):
            if self.replica.holds(entry.key, entry.version):
                neighbour.note(entry.key, entry.version)
                mine = self.replica.entries.get(entry.key, entry)
                held[mine.holding] = None
        return self._answer(peer, examined.message, tuple(held))

    def _answer(self, peer: str, message: OriginsMessage, held: tuple[Holding, ...]) -> Outgoing:
        """Acknowledge entries, and show an agent that rests all that is held of it."""
        outgoing: Outgoing = []
        if held:
            outgoing.append((peer, OriginsMessage(self.fingerprint, (), held, False)))
        origin, question = message.asks
        if question and origin:
            holds = tuple(entry.holding for entry in self.replica.of_origin(origin))
            whole = (origin, 0), (origin, LARGEST)
            shown = OriginsMessage(self.fingerprint, (), holds, True, *whole, answers=question)
            outgoing.append((peer, shown))
        return outgoing

    def _is_news(self, entry: Entry) -> bool:
        return not self._epochs.is_forgotten(entry.epoch) and self.replica.is_news(entry)

    def _take(self, entry: Entry, now: float) -> str | None:
        """Keep an entry that is news; returns why not, if not."""
        if not self._is_news(entry):  # any more
            return None
        if self._epochs.is_ahead(entry.epoch):
            return AHEAD
        if entry.origin == self.identity:
            self._give_up_rivals(entry)
        elif problem := self._quotas.find_problem(self.replica, entry, now):
            return problem
        self.replica.keep(entry)
        return None

    def _give_up_rivals(self, entry: Entry) -> None:
        """Give up the incarnations of which a neighbour has more."""
        rivals = self.replica.find_rivals(entry)
        numbers = (entry.incarnation, *entry.covers, *(rival.incarnation for rival in rivals))
        superseded = [n for n in dict.fromkeys(numbers) if n in self.incarnations.writable]
        for number in superseded:
            self.refusals["superseded"] += self.incarnations.supersede(number)
        lost = {n for rival in rivals for n in rival.covers}.difference(numbers)
        if lost:
            self._warnings.setdefault(OVERRULED.format(len(lost)), False)
        self.compaction.note_change(entry, self._now, self._neighbours.values())
        if superseded or self.incarnations.resting:
            self._warnings.setdefault(RESTORED, False)
        elif self.compaction.twin_seen == self._now:
            self._warnings.setdefault(TWIN, False)

    # ---- durable state

    def state(self) -> dict[str, Any]:
        """All durable parts: identity, own incarnations, edges, and one for each entry."""
        self.incarnations.write()
        return super().state() | self.replica.state()

    def changes(self) -> dict[str, Any]:
        """The parts that changed since they were last written; None: a part is gone."""
        self.incarnations.write()
        return super().changes() | self.replica.changes()

    def commit(self) -> None:
        """Note that all changes so far are on disk."""
        super().commit()
        self.replica.commit()

    def rollback(self) -> None:
        """Return to the last commit: nothing that came later was sent."""
        self.incarnations.rollback(self._saved)
        self._connect_all(self._saved["neighbours"])
        self._written = self._saved
        self.replica.revision += 1

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from saved parts, in a new process: own entries rest at first."""
        self.identity = state["identity"]
        revision = self.replica.revision
        self._create_parts()
        self.replica.restore(state)
        self.incarnations.restore(state)
        self.replica.revision += revision + 1
        self._neighbours = {}
        self._connect_all(state["neighbours"])
        self._rested_ticks = 0
        self.rested_alone = False
        self._written = self._saved = self._small_parts()

    def _connect_all(self, names: Sequence[str]) -> None:
        self._neighbours = {name: self._neighbours.get(name, Neighbour()) for name in names}

    def _small_parts(self) -> dict[str, Any]:
        parts = {"identity": self.identity, "neighbours": list(self._neighbours)}
        return parts | self.incarnations.parts()

    def _follow_time(self, now: float) -> None:
        """Follow the time: evidence fades with it, and what reads as nothing is dropped."""
        self._now = now if self._epochs.monotonic is None else self._epochs.monotonic()
        self._move_epochs(now)

    def _move_epochs(self, now: float) -> None:
        if not self._epochs.move_to(now):
            return
        if self.replica.totals:
            self.replica.revision += 1
        if self._epochs.epoch != self._faded_epoch:
            self._faded_epoch = self._epochs.epoch
            self.incarnations.write()
            entries = self.replica.entries.values()
            faded = [entry for entry in entries if self._epochs.is_forgotten(entry.epoch)]
            self.replica.drop(faded)
            self.incarnations.forget_faded(
                e.incarnation for e in faded if e.origin == self.identity
            )
