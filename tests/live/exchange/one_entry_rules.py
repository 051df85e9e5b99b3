"""Rules of the origins exchange in a model: one decision, one entry.

Sums are dictionaries of decisions and their states, so that "counted twice" is exact. A change of
a decision is (before, after), like the amount that real sums add: applied to an entry in which the
decision is not in the state `before`, it would count twice, and the model stops.

1. A decision belongs for ever to the incarnation of the process that made it; all its changes go
   into the entry of that incarnation. It is superseded if its incarnation is not in `own`.
2. After a start, entries of earlier incarnations rest: their changes wait on disk until every
   neighbour has shown what it holds of this agent and that has arrived, or GRACE has passed.
3. An own entry that arrives with a larger version is taken whole, and frozen (leaves `own`).
4. A version of the present incarnation that this process did not write freezes it, too: the
   machine was put back with its memory, or runs twice.
5. An own-named entry that is not in `own` and still grows is that of a twin.
6. The origin folds entries without open decisions into a base, which names what it covers. A base
   is an entry with a number of its own: each disk writes other ones, and begins another when one
   has as many names as it may have. Covered entries are ignored, and of two bases with a name in
   common the larger version wins whole. Bases that this disk may not write fold like entries.
7. With a half-life an entry is relative to its own epoch; its writer brings it to the present.
8. A failed commit changes nothing.

`one_entry_model.py` plays random schedules of faults with these agents and checks the promises.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from tests.live.exchange.one_entry_model import ModelWorld

WEIGHT = 5  # of one decision, in whole numbers

Key = tuple[str, int]  # origin, incarnation
Version = tuple[int, ...]
State = tuple[str, int] | None  # ("open" or "closed", reward); None: not in the entry


class Violation(AssertionError):
    """A promise of the scheme does not hold in this schedule."""


@dataclass(frozen=True)
class Rules:
    """The constants, and switches that take one rule away to test the checks."""

    grace: int = 8  # ticks of an agent
    window: int | None = 12  # time steps
    drop_windows: int = 2  # after so many windows without change open decisions are dropped
    day: int = 40
    fold_above: int = 2
    oldest_above: int = 4  # without a window: this many entries stay
    most_names: int = 1000
    half_life: int | None = None
    prefer_closed: bool = False  # versions (made, closed, seq, nonce)
    detect_rewind: bool = True  # rule 4's "seq not above ours"
    renew: bool = True  # a process that was idle for half a day opens a new incarnation
    rest: bool = True
    freeze: bool = True
    nonce: bool = True
    compare_entry: bool = True
    covers: bool = True
    neighbours_hold: bool = True
    no_twin: bool = True


@dataclass(frozen=True)
class ModelEntry:
    """One version of an entry: what one incarnation of an origin observed."""

    made: int = 0
    seq: int = 0
    nonce: int = 0
    states: Mapping[int, tuple[str, int]] = field(default_factory=dict)
    covers: tuple[int, ...] = ()  # of a base
    epoch: int = 0
    open_sum: int = 0  # whole numbers, halved toward zero at every epoch
    closed_sum: int = 0
    closings: int = 0  # how many decisions were ever closed in it
    serial: int = 0  # for the checks only: this version, and those it was built on
    ancestors: frozenset[int] = frozenset()

    def version(self, rules: Rules) -> Version:
        """The order of versions: the larger wins whole."""
        if rules.prefer_closed:
            return (self.made, self.closings, self.seq, self.nonce)
        return (self.made, self.seq, self.nonce)

    def shift_epoch(self, epoch: int) -> ModelEntry:
        """Halve the sums once for every epoch that has passed."""
        steps = max(0, epoch - self.epoch)
        return replace(
            self,
            epoch=self.epoch + steps,
            open_sum=self.open_sum >> steps,
            closed_sum=self.closed_sum >> steps,
        )

    def list_names(self, incarnation: int) -> set[int]:
        """The incarnations that it stands for, its own among them."""
        return {incarnation, *self.covers}

    def open_decisions(self) -> list[int]:
        """Decisions that are counted but not closed."""
        return [decision for decision, state in self.states.items() if state[0] == "open"]


class Row(NamedTuple):
    """A decision on its agent's disk."""

    incarnation: int
    time: int
    status: str  # inactive, open, done, never shown
    reward: int | None = None


class Change(NamedTuple):
    """What happens to one decision in its entry."""

    decision: int
    before: State
    after: State
    time: int  # of the decision: its weight is that of the decision's epoch


@dataclass
class Disk:
    """All durable state of an agent; entries and rows are immutable, so a copy is shallow."""

    rows: dict[int, Row] = field(default_factory=dict)
    own: list[int] = field(default_factory=list)
    entries: dict[Key, ModelEntry] = field(default_factory=dict)
    waiting: dict[int, list[Change]] = field(default_factory=dict)

    def copy(self) -> Disk:
        """Copy it, as a back-up does."""
        waiting = {name: list(changes) for name, changes in self.waiting.items()}
        return Disk(dict(self.rows), list(self.own), dict(self.entries), waiting)

    def rewards(self) -> set[tuple[int, int]]:
        """All (decision, reward) that this disk knows in any form."""
        known = {(d, row.reward) for d, row in self.rows.items() if row.reward is not None}
        for entry in self.entries.values():
            known.update((decision, state[1]) for decision, state in entry.states.items())
        return known


@dataclass(frozen=True)
class Message:
    """One message between neighbours."""

    sender: str
    receiver: str
    holds: dict[Key, Version]
    complete: bool  # whether `holds` is everything, or acknowledges single entries
    entries: dict[Key, ModelEntry]
    question: int | None  # the number of a process that asks what the receiver holds of it
    answer: tuple[int, dict[Key, Version]] | None = None


class ModelAgent:
    """One process with its disk: the rules 1 to 7."""

    def __init__(self, world: ModelWorld, name: str, neighbours: Iterable[str]) -> None:
        self.world = world
        self.name = name
        self.neighbours = set(neighbours)
        self.disk = Disk()
        self.start()

    def start(self) -> None:
        """Begin a process on this disk."""
        self.process = self.world.draw_number()
        self.incarnation: int | None = None
        self.resting = True
        self.age = 0
        self.started = self.world.now
        self.rest_end = ""
        self.promised = frozenset(self.world.find_near_serials(self))
        self.holds: dict[str, dict[Key, Version]] = {}
        self.heard: dict[str, int] = {}
        self.answers: dict[str, dict[Key, Version]] = {}
        self.acknowledgements: dict[str, set[Key]] = {}
        self.written: dict[int, dict[int, int]] = {}  # of versions of this process: seq -> nonce
        self.changed = dict.fromkeys(self.list_own_keys(), self.world.now)
        self.twin_time: int | None = None
        if not self.world.rules.rest:
            self.end_rest("asked")

    def copy_memory(self) -> dict[str, Any]:
        """Copy the process with its disk, as a snapshot of a running machine does."""
        state = {name: copy(value) for name, value in self.__dict__.items() if name != "world"}
        nested = ("holds", "acknowledgements", "written")
        state.update({name: {k: copy(v) for k, v in state[name].items()} for name in nested})
        return {**state, "disk": self.disk.copy()}

    # ---- Reading

    def list_own_keys(self) -> list[Key]:
        """Keys of all entries of this origin."""
        return [key for key in self.disk.entries if key[0] == self.name]

    def list_bases(self, origin: str) -> dict[int, ModelEntry]:
        """The bases of an origin, by their numbers."""
        return {k[1]: e for k, e in self.disk.entries.items() if k[0] == origin and e.covers}

    def list_versions(self) -> dict[Key, Version]:
        """The versions of all entries."""
        rules = self.world.rules
        return {key: entry.version(rules) for key, entry in self.disk.entries.items()}

    def get_version(self, key: Key) -> Version:
        """Our version of an entry; smaller than all if we have none."""
        entry = self.disk.entries.get(key)
        if entry is None:
            return ()
        version = entry.version(self.world.rules)
        if not self.world.rules.compare_entry and self.disk.waiting.get(key[1]):
            return (*version[:-2], version[-2] + len(self.disk.waiting[key[1]]), version[-1])
        return version

    def is_covered(self, key: Key) -> bool:
        """Whether a base of the origin contains this entry."""
        covers = chain.from_iterable(base.covers for base in self.list_bases(key[0]).values())
        return self.world.rules.covers and key[1] in covers

    def has_pending(self, incarnation: int) -> bool:
        """Whether a decision of an incarnation is still open, or inactive."""
        rows = self.disk.rows.values()
        pending = [row for row in rows if row.status in ("inactive", "open")]
        return any(row.incarnation == incarnation for row in pending)

    # ---- Rule 1: decisions and rewards

    def decide(self, decision: int, inactive: bool) -> None:
        """Make a decision in the present incarnation."""
        if self.incarnation is None or self.is_idle():
            self.incarnation = self.world.draw_number()
            self.disk.own.append(self.incarnation)
        self.disk.rows[decision] = Row(self.incarnation, self.world.now, "inactive")
        if not inactive:
            self.activate(decision)

    def is_idle(self) -> bool:
        """Whether a twin could soon fold the present entry, because it has not changed for long."""
        changed = self.changed.get((self.name, self.incarnation or 0), self.world.now)
        return self.world.rules.renew and self.world.now > changed + self.world.rules.day // 2

    def activate(self, decision: int) -> bool:
        """Let a decision count, within its window."""
        row = self.disk.rows[decision]
        if row.incarnation not in self.disk.own:
            return False
        if self.is_over(row):
            return True
        self.disk.rows[decision] = row._replace(status="open")
        if self.world.mode == "count":
            self.change(decision, None, ("open", 0))
        return True

    def reward(self, decision: int, reward: int) -> str:
        """Answer a reward: stored, superseded or late."""
        row = self.disk.rows[decision]
        if row.status != "open" or row.reward is not None:
            return "late"
        if row.incarnation not in self.disk.own:
            return "superseded"
        done = self.world.mode == "heard"
        self.disk.rows[decision] = row._replace(reward=reward, status="done" if done else "open")
        if self.world.mode == "heard":
            self.change(decision, None, ("closed", reward))
        elif self.world.mode == "count":
            self.change(decision, ("open", 0), ("open", reward))
        return "stored"

    def cancel(self, decision: int) -> None:
        """Take a decision back."""
        row = self.disk.rows[decision]
        self.disk.rows[decision] = row._replace(status="done")
        counted = row.status == "open" and self.world.mode == "count"
        if counted and row.incarnation in self.disk.own:
            self.change(decision, ("open", 0), None)

    def close_windows(self) -> None:
        """Close the decisions whose reward window has ended."""
        for decision, row in list(self.disk.rows.items()):
            if row.status not in ("inactive", "open") or not self.is_over(row):
                continue
            shown = row.status == "open"
            self.disk.rows[decision] = row._replace(status="done" if shown else "never shown")
            if not shown:
                continue
            if row.incarnation not in self.disk.own:
                if row.reward is not None:
                    self.world.note_superseded([(decision, row.reward)])
            elif self.world.mode == "count":
                self.change(decision, ("open", row.reward or 0), ("closed", row.reward or 0))
            elif self.world.mode == "wait":
                self.change(decision, None, ("closed", row.reward or 0))

    def is_over(self, row: Row) -> bool:
        """Whether the reward window of a decision has ended; it begins with the decision."""
        window = self.world.rules.window
        return window is not None and self.world.now >= row.time + window

    def change(self, decision: int, before: State, after: State) -> None:
        """Change a decision in the entry of its incarnation, or let the change wait."""
        row = self.disk.rows[decision]
        change = Change(decision, before, after, row.time)
        if self.resting and row.incarnation != self.incarnation:
            self.disk.waiting.setdefault(row.incarnation, []).append(change)
        else:
            self.write(row.incarnation, [change])

    def write(self, incarnation: int, changes: list[Change]) -> None:
        """Write a new version of an own entry."""
        old = self.disk.entries.get((self.name, incarnation), ModelEntry())
        epoch = self.world.epoch
        entry = old.shift_epoch(epoch)
        states = dict(entry.states)
        sums = {"open": entry.open_sum, "closed": entry.closed_sum}
        made = entry.made
        closings = entry.closings
        for decision, before, after, time in changes:
            if states.get(decision) != before:
                raise Violation(f"decision {decision} counted twice: {states.get(decision)}")
            weight = WEIGHT >> (epoch - self.world.find_epoch(time))
            if before is None:
                made += 1
            else:
                sums[before[0]] -= weight
                del states[decision]
            if after is not None:
                sums[after[0]] += weight
                closings += after[0] == "closed"
                states[decision] = after
        self.publish(
            incarnation,
            replace(
                entry,
                made=made,
                seq=old.seq + 1,
                states=states,
                open_sum=sums["open"],
                closed_sum=sums["closed"],
                closings=closings,
            ),
            old.ancestors | {old.serial},
        )

    def publish(self, incarnation: int, entry: ModelEntry, ancestors: frozenset[int]) -> None:
        """Put a new version on disk, with a nonce of its own."""
        nonce = self.world.draw_number() if self.world.rules.nonce else 0
        serial = self.world.draw_serial()
        entry = replace(entry, nonce=nonce, serial=serial, ancestors=ancestors)
        self.world.note_write(self, incarnation, entry)
        self.disk.entries[self.name, incarnation] = entry
        self.changed[self.name, incarnation] = self.world.now
        self.written.setdefault(incarnation, {})[entry.seq] = nonce

    # ---- Rules 2 to 5: what neighbours show

    def send(self, receiver: str, complete: bool, most: int) -> Message:
        """Write a message: what we hold, and some entries that the receiver lacks."""
        known = self.holds.get(receiver, {})
        versions = self.list_versions()
        lacking = [key for key in versions if known.get(key, ()) < versions[key]]
        self.world.random.shuffle(lacking)
        acknowledged = self.acknowledgements.pop(receiver, set())
        return Message(
            sender=self.name,
            receiver=receiver,
            holds={k: v for k, v in versions.items() if complete or k in acknowledged},
            complete=complete,
            entries={key: self.disk.entries[key] for key in lacking[:most]},
            question=self.process if self.resting else None,
        )

    def receive(self, message: Message) -> Message | None:
        """Take in a message; the reply has what its sender lacks, and answers its question.

        The reply is sent at once: two twins share one name, so that what a neighbour knows of
        this name is at its next tick true of the other twin.
        """
        sender = message.sender
        if sender not in self.neighbours:
            return None
        self.heard[sender] = self.world.now
        holds = self.holds.setdefault(sender, {})
        if message.complete:  # a neighbour that was put back holds less than it acknowledged
            holds.clear()
        holds.update(message.holds)
        for key, entry in message.entries.items():
            self.accept(key, entry)
            holds[key] = entry.version(self.world.rules)
            self.acknowledgements.setdefault(sender, set()).add(key)
        for key, version in message.holds.items():
            self.judge_version(key, version)
        if message.answer is not None and message.answer[0] == self.process:
            self.answers[sender] = message.answer[1]
        if not message.complete and message.question is None:
            return None
        reply = self.send(sender, complete=False, most=1000 if message.complete else 0)
        if message.question is None:
            return reply if reply.entries else None
        shown = {key: version for key, version in self.list_versions().items() if key[0] == sender}
        return replace(reply, answer=(message.question, shown), question=None)

    def accept(self, key: Key, entry: ModelEntry) -> None:
        """Take an entry if its version is larger than ours."""
        (origin, incarnation) = key
        version = entry.version(self.world.rules)
        if not entry.covers and self.is_covered(key):
            return
        self.judge_version(key, version)
        if version <= self.get_version(key) or not self.beats_other_bases(key, entry):
            return
        known = key in self.disk.entries
        if origin == self.name:
            if known and incarnation not in self.disk.own and not self.resting:
                self.twin_time = self.world.now
            self.changed[key] = self.world.now
        for name in entry.list_names(incarnation) if self.world.rules.covers else {incarnation}:
            self.disk.entries.pop((origin, name), None)
            if origin == self.name:
                self.freeze(name)
        for name, base in self.list_bases(origin).items():
            if self.world.rules.covers and self.share_names((origin, name), base, key, entry):
                del self.disk.entries[origin, name]
        self.disk.entries[key] = entry

    def share_names(self, key: Key, entry: ModelEntry, other_key: Key, other: ModelEntry) -> bool:
        """Whether an incarnation is in both."""
        return bool(entry.list_names(key[1]) & other.list_names(other_key[1]))

    def beats_other_bases(self, key: Key, entry: ModelEntry) -> bool:
        """Whether an entry has a larger version than all bases with a name in common."""
        rules = self.world.rules
        return not rules.covers or all(
            base.version(rules) < entry.version(rules)
            for name, base in self.list_bases(key[0]).items()
            if entry.covers and self.share_names((key[0], name), base, key, entry)
        )

    def freeze(self, incarnation: int) -> None:
        """Never write an own entry again; what waited for it is superseded."""
        if incarnation not in self.disk.own or not self.world.rules.freeze:
            return
        self.disk.own.remove(incarnation)
        dropped = self.disk.waiting.pop(incarnation, [])
        waited = [(change.decision, change.after) for change in dropped]
        self.world.note_superseded([(decision, after[1]) for decision, after in waited if after])
        if incarnation == self.incarnation:
            self.incarnation = None

    def judge_version(self, key: Key, version: Version) -> None:
        """Freeze an own incarnation if somebody else wrote a version of it (rule 4)."""
        (origin, incarnation) = key
        if origin != self.name or incarnation not in self.disk.own or self.is_covered(key):
            return
        if version > self.get_version(key):
            self.freeze(incarnation)
            return
        written = self.written.get(incarnation, {})
        seq = version[-2]
        mine = self.world.rules.detect_rewind and seq in written
        if mine and written[seq] != version[-1]:
            self.freeze(incarnation)

    def tick(self) -> None:
        """Let time pass: windows, the rest, compaction."""
        self.age += 1
        self.close_windows()
        if self.resting:
            self.end_rest(self.find_rest_end())
        self.compact()

    def find_rest_end(self) -> str:
        """Why the rest is over; empty if it is not."""
        grace = self.world.rules.grace
        shown = [item for holds in self.answers.values() for item in holds.items()]
        arrived = all(self.is_covered(k) or version <= self.get_version(k) for k, version in shown)
        if arrived and self.neighbours <= set(self.answers):
            return "asked"
        if arrived and self.age > grace and set(self.heard) & self.neighbours <= set(self.answers):
            return "grace"
        return "late" if self.age > 10 * grace else ""

    def end_rest(self, reason: str) -> None:
        """Write what waited into its entries."""
        if not reason:
            return
        self.resting = False
        self.rest_end = reason
        self.promised &= self.world.find_near_serials(self) if reason == "asked" else frozenset()
        for incarnation, changes in list(self.disk.waiting.items()):
            del self.disk.waiting[incarnation]
            self.write(incarnation, changes)

    # ---- Rule 6: compaction

    def is_shown_by_neighbours(self, key: Key) -> bool:
        """Whether every neighbour heard within a day holds exactly our version."""
        rules = self.world.rules
        if not rules.neighbours_hold:
            return True
        since = self.world.now - rules.day
        recent = {name for name, time in self.heard.items() if time >= since} & self.neighbours
        if self.neighbours and not recent:
            return False
        return all(self.holds[name].get(key, ()) == self.get_version(key) for name in recent)

    def is_foldable(self, incarnation: int) -> bool:
        """Whether an own-named entry cannot change any more, as far as this agent can know."""
        key = (self.name, incarnation)
        rules = self.world.rules
        if incarnation == self.incarnation or not self.is_shown_by_neighbours(key):
            return False
        if incarnation in self.disk.own:
            return rules.window is not None and not self.has_pending(incarnation)
        if not self.neighbours and rules.neighbours_hold:
            return False  # a twin may still write it, and nobody could tell
        if not self.neighbours <= set(self.heard) and self.world.now <= self.started + rules.day:
            return False  # one that is away may hold more
        wait = rules.drop_windows * (rules.window or rules.day)
        if not self.disk.entries[key].open_decisions():
            wait = rules.day + 2 * (rules.window or 0)
        return self.world.now >= self.changed[key] + wait

    def compact(self) -> None:
        """Fold entries that cannot change into bases."""
        rules = self.world.rules
        twin = rules.no_twin and self.twin_time is not None
        if self.resting or (twin and self.world.now < self.twin_time + rules.day):
            return
        bases = [name for name in self.list_bases(self.name) if name in self.disk.own]
        if not all(self.is_shown_by_neighbours((self.name, name)) for name in bases):
            return
        names = [key[1] for key in self.list_own_keys() if key[1] not in bases]
        foldable = [name for name in names if self.is_foldable(name)]
        if len(names) <= rules.fold_above:
            entries = self.disk.entries
            foldable = [n for n in foldable if entries[self.name, n].open_decisions()]
        if rules.window is None:  # an open decision may be rewarded at any time
            oldest = [name for name in self.disk.own if name in names and name != self.incarnation]
            excess = max(0, len(names) - rules.oldest_above)
            foldable += [n for n in oldest[:excess] if self.is_shown_by_neighbours((self.name, n))]
        came_back = [name for name in foldable if name not in self.disk.own]
        open_decisions = [self.disk.entries[self.name, n].open_decisions() for n in came_back]
        if len(came_back) == 1 and not any(open_decisions):
            foldable.remove(came_back[0])
        new_bases: list[int] = []  # of what came back: nobody writes them again
        for number in foldable:
            self.fold(number, self.disk.own if number in self.disk.own else new_bases)

    def fold(self, number: int, writable: list[int]) -> None:
        """Write a base that contains the closed decisions of one entry more.

        writable: the numbers of the bases that may be written, among others.
        """
        entry = self.disk.entries[self.name, number].shift_epoch(self.world.epoch)
        names = (*entry.covers, number)
        room = self.world.rules.most_names - len(names)
        if room < 0:
            return
        del self.disk.entries[self.name, number]
        dropped = entry.open_decisions()
        self.world.note_superseded([(d, entry.states[d][1]) for d in dropped])
        self.freeze(number)
        bases = self.list_bases(self.name).items()
        free = [n for n, base in bases if n in writable and len(base.covers) <= room]
        if free:
            base_number = free[0]
        else:
            base_number = self.world.draw_number()
            writable.append(base_number)
        old = self.disk.entries.get((self.name, base_number), ModelEntry())
        base = old.shift_epoch(self.world.epoch)
        kept = {d: state for d, state in entry.states.items() if d not in dropped}
        base = replace(
            base,
            made=old.made + (entry.made if entry.covers else 1),
            seq=max(old.seq, entry.seq if entry.covers else 0) + 1,
            epoch=self.world.epoch,
            states={**base.states, **kept},
            closed_sum=base.closed_sum + entry.closed_sum,
            covers=(*old.covers, *names),
        )
        ancestors = old.ancestors | entry.ancestors | {old.serial, entry.serial}
        self.publish(base_number, base, ancestors)
