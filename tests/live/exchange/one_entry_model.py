"""Executable model of the origins exchange: one decision, one entry, played through random faults.

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
6. The origin folds entries without open decisions into its base, which names what it covers;
   covered entries are ignored. Of two bases the larger version wins whole.
7. With a half-life an entry is relative to its own epoch; its writer brings it to the present.
8. A failed commit changes nothing.

`python one_entry_model.py RUNS [--kind KIND]` plays RUNS random schedules of each kind.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, NamedTuple

BASE = 0  # the incarnation number of a base
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
    refold: bool = True  # entries that only the smaller base covered come back from its disk
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

    def open_decisions(self) -> list[int]:
        """Decisions that are counted but not closed."""
        return [decision for decision, state in self.states.items() if state[0] == "open"]


class Row(NamedTuple):
    """A decision on its agent's disk."""

    incarnation: int
    time: int
    status: str  # inactive, open, done
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
    folded: dict[int, ModelEntry] = field(default_factory=dict)  # own entries that the base covers

    def copy(self) -> Disk:
        """Copy it, as a back-up does."""
        waiting = {name: list(changes) for name, changes in self.waiting.items()}
        return Disk(
            dict(self.rows), list(self.own), dict(self.entries), waiting, dict(self.folded)
        )

    def rewards(self) -> set[tuple[int, int]]:
        """All (decision, reward) that this disk knows in any form."""
        known = {(d, row.reward) for d, row in self.rows.items() if row.reward is not None}
        for entry in (*self.entries.values(), *self.folded.values()):
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
        self.rest_end = ""
        self.promised = frozenset(self.world.find_near_serials(self))
        self.holds: dict[str, dict[Key, Version]] = {}
        self.heard: dict[str, int] = {}
        self.answers: dict[str, dict[Key, Version]] = {}
        self.acknowledgements: dict[str, set[Key]] = {}
        self.written: dict[int, dict[int, int]] = {}  # of versions of this process: seq -> nonce
        self.changed = {key: self.world.now for key in self.list_own_keys()}
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

    def get_base(self, origin: str) -> ModelEntry:
        """The base of an origin, empty if there is none."""
        return self.disk.entries.get((origin, BASE), ModelEntry())

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
        """Whether the base of the origin contains this entry."""
        return self.world.rules.covers and key[1] in self.get_base(key[0]).covers

    def has_pending(self, incarnation: int) -> bool:
        """Whether a decision of an incarnation is still open, or inactive."""
        rows = self.disk.rows.values()
        return any(row.incarnation == incarnation and row.status != "done" for row in rows)

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
        changed = self.changed.get((self.name, self.incarnation or BASE), self.world.now)
        return self.world.rules.renew and self.world.now > changed + self.world.rules.day // 2

    def activate(self, decision: int) -> bool:
        """Let a decision count; its window begins."""
        row = self.disk.rows[decision]
        if row.incarnation not in self.disk.own:
            return False
        self.disk.rows[decision] = row._replace(status="open", time=self.world.now)
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
        window = self.world.rules.window
        if window is None:
            return
        for decision, row in list(self.disk.rows.items()):
            if row.status != "open" or self.world.now < row.time + window:
                continue
            self.disk.rows[decision] = row._replace(status="done")
            if row.incarnation not in self.disk.own:
                if row.reward is not None:
                    self.world.note_superseded([(decision, row.reward)])
            elif self.world.mode == "count":
                self.change(decision, ("open", row.reward or 0), ("closed", row.reward or 0))
            elif self.world.mode == "wait":
                self.change(decision, None, ("closed", row.reward or 0))

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
        if self.is_covered(key):
            return
        self.judge_version(key, version)
        if version <= self.get_version(key):
            return
        known = key in self.disk.entries
        if origin == self.name:
            if known and incarnation not in (BASE, *self.disk.own) and not self.resting:
                self.twin_time = self.world.now
            self.changed[key] = self.world.now
            self.freeze(incarnation)
        self.disk.entries[key] = entry
        if incarnation == BASE:
            self.take_base(origin, entry)

    def take_base(self, origin: str, base: ModelEntry) -> None:
        """Delete what a new base covers; put back what only our own old base covered."""
        for incarnation in base.covers if self.world.rules.covers else ():
            entry = self.disk.entries.pop((origin, incarnation), None)
            if origin == self.name:
                self.freeze(incarnation)
                if entry is not None and self.world.rules.refold:
                    self.disk.folded[incarnation] = entry
        if origin != self.name or not self.world.rules.refold:
            return
        for incarnation in [name for name in self.disk.folded if name not in base.covers]:
            entry = self.disk.folded.pop(incarnation)
            self.disk.entries[self.name, incarnation] = entry
            self.changed[self.name, incarnation] = self.world.now

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
        arrived = all(self.is_covered(key) or version <= self.get_version(key) for key, version in shown)
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
        if incarnation in (BASE, self.incarnation) or not self.is_shown_by_neighbours(key):
            return False
        if incarnation in self.disk.own:
            return rules.window is not None and not self.has_pending(incarnation)
        if not self.neighbours and rules.neighbours_hold:
            return False  # a twin may still write it, and nobody could tell
        wait = rules.drop_windows * (rules.window or rules.day)
        if not self.disk.entries[key].open_decisions():
            wait = rules.day + 2 * (rules.window or 0)
        return self.world.now >= self.changed[key] + wait

    def compact(self) -> None:
        """Fold entries that cannot change into the base."""
        rules = self.world.rules
        twin = rules.no_twin and self.twin_time is not None
        if self.resting or (twin and self.world.now < self.twin_time + rules.day):
            return
        base_key = (self.name, BASE)
        if base_key in self.disk.entries and not self.is_shown_by_neighbours(base_key):
            return
        names = [key[1] for key in self.list_own_keys() if key[1] != BASE]
        foldable = [name for name in names if self.is_foldable(name)]
        if len(names) <= rules.fold_above:
            entries = self.disk.entries
            foldable = [n for n in foldable if entries[self.name, n].open_decisions()]
        if rules.window is None:  # an open decision may be rewarded at any time
            oldest = [name for name in self.disk.own if name in names and name != self.incarnation]
            excess = max(0, len(names) - rules.oldest_above)
            foldable += [n for n in oldest[:excess] if self.is_shown_by_neighbours((self.name, n))]
        if foldable:
            self.fold(foldable)

    def fold(self, names: list[int]) -> None:
        """Write a new base that contains the closed decisions of these entries."""
        old = self.get_base(self.name)
        base = old.shift_epoch(self.world.epoch)
        states = dict(base.states)
        closed_sum = base.closed_sum
        ancestors = old.ancestors | {old.serial}
        for name in names:
            entry = self.disk.entries.pop((self.name, name)).shift_epoch(self.world.epoch)
            dropped = entry.open_decisions()
            self.world.note_superseded([(d, entry.states[d][1]) for d in dropped])
            states.update({d: s for d, s in entry.states.items() if d not in dropped})
            closed_sum += entry.closed_sum
            ancestors |= entry.ancestors | {entry.serial}
            self.freeze(name)
            if self.world.rules.refold:
                self.disk.folded[name] = entry
        covers = (*old.covers, *names)
        self.world.note_dropped_names(covers[: -self.world.rules.most_names])
        base = replace(
            base,
            made=old.made + len(names),
            seq=old.seq + 1,
            states=states,
            closed_sum=closed_sum,
            covers=covers[-self.world.rules.most_names :],
        )
        self.publish(BASE, base, ancestors)


# ---- The world: random schedules, and the checks


@dataclass(frozen=True)
class Kind:
    """Which faults a schedule may contain, beside restarts and bad links."""

    copies: bool = False  # old copies of disks are put back, disks are lost
    memories: bool = False  # machines are put back with their memory
    twins: bool = False  # two processes of one name, on different disks from the start
    clones: bool = False  # two processes of one name, one on a copy of the other's disk
    rules: Rules = field(default_factory=Rules)

    @property
    def is_strict(self) -> bool:
        """Whether nothing may be lost or refused."""
        return not (self.copies or self.memories or self.clones)


KINDS = {
    "faults": Kind(),
    "fading": Kind(rules=Rules(half_life=7)),
    "twins": Kind(twins=True, rules=Rules(day=60)),
    "copies": Kind(copies=True),
    "fading copies": Kind(copies=True, rules=Rules(half_life=7)),
    "memories": Kind(copies=True, memories=True),
    "clones": Kind(copies=True, memories=True, clones=True, twins=True),
    "no window": Kind(copies=True, rules=Rules(window=None)),
    "few names": Kind(copies=True, rules=Rules(most_names=2, fold_above=1)),
}


class ModelWorld:
    """Agents, links, messages on their way, a clock, and what the checks remember."""

    def __init__(self, seed: int, kind: Kind) -> None:
        self.random = random.Random(seed)
        self.kind = kind
        self.rules = kind.rules
        modes = ["heard"] if self.rules.window is None else ["heard", "count", "wait"]
        self.mode = self.random.choice(modes)
        self.now = 0
        self.serials = 0
        self.wire: list[Message] = []
        self.cuts: set[frozenset[str]] = set()
        self.copies: dict[str, list[Disk]] = {}
        self.memories: dict[str, list[dict[str, Any]]] = {}
        self.keys: dict[int, Key] = {}  # of every decision
        self.acknowledged: list[tuple[int, int]] = []  # (decision, reward)
        self.cancelled: set[int] = set()
        self.refused = 0
        self.unknown: set[tuple[int, int]] = set()  # on no disk when a disk was put back
        self.superseded: set[tuple[int, int]] = set()  # dropped, counted and reported
        self.conflicts: dict[Key, str] = {}  # entries that two copies wrote, and how
        self.dropped_names: set[int] = set()
        self.double_counts: set[int] = set()  # whose incarnation's name was dropped
        self.agents: list[ModelAgent] = []
        names = ["a", "b", "c", "d"][: self.random.choice((2, 3, 3, 4))]
        self.links = {frozenset(pair) for pair in zip(names, names[1:], strict=False)}
        pairs = {frozenset((x, y)) for x in names for y in names if x < y}
        self.links |= {pair for pair in sorted(pairs, key=sorted) if self.random.random() < 0.4}
        self.all_links = set(self.links)
        for name in names:
            self.agents.append(ModelAgent(self, name, self.list_neighbours(name)))

    # ---- What agents ask for

    def draw_number(self) -> int:
        """A random number that is never drawn again, whatever is put back."""
        return self.random.getrandbits(60) + 1

    def draw_serial(self) -> int:
        """The next number of a version, for the checks."""
        self.serials += 1
        return self.serials

    @property
    def epoch(self) -> int:
        """The present epoch of half-lives."""
        return self.find_epoch(self.now)

    def find_epoch(self, time: int) -> int:
        """The epoch of a time."""
        return time // self.rules.half_life if self.rules.half_life else 0

    def list_neighbours(self, name: str) -> set[str]:
        """The agents that a link connects with this one."""
        return {other for link in self.links if name in link for other in link - {name}}

    # ---- What the checks remember

    def find_versions(self, agent: ModelAgent) -> Iterator[tuple[str, Key, ModelEntry]]:
        """All entries of an agent on other disks and in messages, with their places."""
        others = [other for other in self.agents if other is not agent]
        places = [("neighbour" if other.name in agent.neighbours else "far", other.disk.entries) for other in others]
        places += [("message", message.entries) for message in self.wire]
        for place, entries in places:
            for key, entry in entries.items():
                if key[0] == agent.name:
                    yield place, key, entry

    def find_near_serials(self, agent: ModelAgent) -> frozenset[tuple[str, int]]:
        """Versions of an agent's own entries on the disks of its neighbours."""
        return frozenset(
            (other.name, entry.serial)
            for other in self.agents
            if other.name in agent.neighbours
            for key, entry in other.disk.entries.items()
            if key[0] == agent.name
        )

    def note_write(self, agent: ModelAgent, incarnation: int, entry: ModelEntry) -> None:
        """Remember a conflict if another version is in use that this one was not built on."""
        for place, key, other in self.find_versions(agent):
            same = key[1] == incarnation or key[1] in entry.covers or incarnation in other.covers
            if not same or other.serial in entry.ancestors:
                continue
            alone = sum(process.name == agent.name for process in self.agents) == 1
            if alone and any(other.serial == serial for _, serial in agent.promised):
                raise Violation(f"{agent.name} asked and overruled what a neighbour held: {key}")
            cause = f"rest ended: {agent.rest_end or 'not yet'}, other version at: {place}"
            self.conflicts.setdefault(key, cause)
            self.conflicts.setdefault((agent.name, incarnation), cause)

    def note_branches(self, agent: ModelAgent) -> None:
        """Remember conflicts of a disk that was put back with versions that others hold."""
        for other in self.agents:
            if other.resting:  # a neighbour that was put back meanwhile need not know any more
                other.promised = frozenset(pair for pair in other.promised if pair[0] != agent.name)
        stores = [other.disk.entries for other in self.agents if other is not agent]
        theirs = [item for entries in (*stores, *(m.entries for m in self.wire)) for item in entries.items()]
        for key, mine in agent.disk.entries.items():
            for (origin, incarnation), entry in theirs:
                names = (key[1] == incarnation, key[1] in entry.covers, incarnation in mine.covers)
                related = mine.serial in entry.ancestors or entry.serial in mine.ancestors
                if origin == key[0] and any(names) and not related and mine.serial != entry.serial:
                    self.conflicts.setdefault(key, "a copy of another branch was put back")
                    self.conflicts.setdefault((origin, incarnation), self.conflicts[key])

    def note_superseded(self, rewards: Iterable[tuple[int, int]]) -> None:
        """Remember rewards that an agent reported as superseded."""
        self.superseded.update(rewards)

    def note_dropped_names(self, names: Iterable[int]) -> None:
        """Remember names that a base does not list any more."""
        self.dropped_names.update(names)

    def note_put_back(self) -> None:
        """Remember acknowledged rewards that no disk holds any more."""
        known = set().union(*(agent.disk.rewards() for agent in self.agents))
        self.unknown.update(set(self.acknowledged) - known)

    # ---- Steps of a schedule

    def play(self) -> None:
        """Play a random schedule, heal everything, and check the end."""
        actions = self.list_actions()
        for _ in range(self.random.randint(30, 160)):
            agent = self.random.choice(self.agents)
            (action,) = self.random.choices(list(actions), list(actions.values()))
            action(agent)
            self.check_agents()
        self.heal()
        self.check_end()

    def list_actions(self) -> dict[Any, float]:
        """All actions with their relative frequencies."""
        actions = {
            self.act_decide: 16.0,
            self.act_reward: 18.0,
            self.act_on_row: 5.0,
            self.act_tick: 16.0,
            self.act_exchange: 26.0,
            self.act_cut: 3.0,
            self.act_link: 1.0,
            self.act_leap: 2.0,
            self.act_restart: 5.0,
        }
        if self.kind.copies:
            actions |= {self.act_copy: 5.0, self.act_put_back: 4.0, self.act_lose_disk: 0.7}
        if self.kind.memories:
            actions |= {self.act_copy_memory: 5.0, self.act_put_memory_back: 4.0}
        if self.kind.twins:
            actions |= {self.act_start_twin: 2.0}
        if self.kind.clones:
            actions |= {self.act_start_clone: 2.0}
        return actions

    def act_decide(self, agent: ModelAgent) -> None:
        """Make a decision; sometimes the commit fails."""
        before = agent.copy_memory() if self.random.random() < 0.05 else None
        decision = len(self.keys) + 1
        agent.decide(decision, inactive=self.random.random() < 0.15)
        if before is not None:
            agent.__dict__.update(before)  # rule 8
        else:
            self.keys[decision] = (agent.name, agent.disk.rows[decision].incarnation)

    def act_reward(self, agent: ModelAgent) -> None:
        """Report a reward."""
        if not agent.disk.rows:
            return
        pending = [d for d, row in agent.disk.rows.items() if row.status == "open"]
        decision = self.random.choice(pending or list(agent.disk.rows))
        before = agent.copy_memory() if self.random.random() < 0.05 else None
        reward = self.draw_serial()
        answer = agent.reward(decision, reward)
        if before is not None:
            agent.__dict__.update(before)
        elif answer == "stored":
            self.acknowledged.append((decision, reward))
        elif answer == "superseded":
            self.refused += 1

    def act_on_row(self, agent: ModelAgent) -> None:
        """Activate or cancel a decision."""
        rows = agent.disk.rows
        inactive = [d for d, row in rows.items() if row.status == "inactive"]
        pending = [d for d, row in rows.items() if row.status == "open" and row.reward is None]
        if inactive and self.random.random() < 0.7:
            self.refused += not agent.activate(self.random.choice(inactive))
        elif pending or inactive:
            decision = self.random.choice(pending + inactive)
            agent.cancel(decision)
            self.cancelled.add(decision)

    def act_tick(self, agent: ModelAgent) -> None:
        """Let an agent tick, and time pass."""
        self.now += self.random.random() < 0.5
        agent.tick()

    def act_exchange(self, agent: ModelAgent) -> None:
        """Send a message, and deliver some of those on their way, in any order, with loss."""
        if agent.neighbours:
            receiver = self.random.choice(sorted(agent.neighbours))
            message = agent.send(receiver, self.random.random() < 0.5, self.random.randint(0, 4))
            if frozenset((agent.name, receiver)) not in self.cuts:
                self.wire.append(message)
        for _ in range(self.random.randint(0, 3)):
            if self.wire:
                message = self.random.choice(self.wire)
                if self.random.random() < 0.85:  # else it is repeated later
                    self.wire.remove(message)
                if self.random.random() < 0.8:
                    self.deliver(message)

    def deliver(self, message: Message, reliable: bool = False) -> None:
        """Hand a message to its receiver, and to its twin; replies follow at once, or later."""
        if frozenset((message.sender, message.receiver)) in self.cuts:
            return
        for agent in self.agents:
            reply = agent.receive(message) if agent.name == message.receiver else None
            if reply is not None and reliable:
                self.deliver(reply, reliable)
            elif reply is not None:
                self.wire.append(reply)

    def act_cut(self, agent: ModelAgent) -> None:
        """Heal all links, cut some, or isolate one agent."""
        links = sorted(self.all_links, key=sorted)
        if self.cuts:
            self.cuts = set()
        elif self.random.random() < 0.5:
            self.cuts = {link for link in links if agent.name in link}
        else:
            self.cuts = {link for link in links if self.random.random() < 0.5}

    def act_link(self, agent: ModelAgent) -> None:
        """Remove a link, or add it again."""
        link = self.random.choice(sorted(self.all_links, key=sorted))
        self.links ^= {link}
        for other in self.agents:
            other.neighbours = self.list_neighbours(other.name)

    def act_leap(self, agent: ModelAgent) -> None:
        """Let a longer time pass."""
        if self.kind.twins and self.kind.is_strict:
            self.heal_links()  # a twin that is cut off for longer than two windows loses evidence
        for _ in range(self.random.randint(5, 25)):
            self.pass_time(1, lossy=not self.kind.is_strict)

    def act_restart(self, agent: ModelAgent) -> None:
        """Kill a process and start it again."""
        agent.start()

    def act_copy(self, agent: ModelAgent) -> None:
        """Back up a disk."""
        self.copies.setdefault(agent.name, []).append(agent.disk.copy())

    def act_put_back(self, agent: ModelAgent) -> None:
        """Put a copy back, sometimes of several agents at once."""
        for other in self.agents:
            copies = self.copies.get(other.name)
            if copies and (other is agent or self.random.random() < 0.15):
                self.replace_disk(other, self.random.choice(copies).copy())

    def act_lose_disk(self, agent: ModelAgent) -> None:
        """Replace a disk by an empty one."""
        self.replace_disk(agent, Disk())

    def replace_disk(self, agent: ModelAgent, disk: Disk) -> None:
        """Start an agent on another disk."""
        agent.disk = disk
        agent.start()
        self.note_put_back()
        self.note_branches(agent)

    def act_copy_memory(self, agent: ModelAgent) -> None:
        """Take a snapshot of a running machine."""
        self.memories.setdefault(agent.name, []).append(agent.copy_memory())

    def act_put_memory_back(self, agent: ModelAgent) -> None:
        """Put a snapshot of a running machine back: its process goes on."""
        memories = self.memories.pop(agent.name, [])
        if memories:
            agent.__dict__.update(self.random.choice(memories))
            agent.neighbours = self.list_neighbours(agent.name)
            agent.promised = frozenset()
            agent.rest_end = "rewound"
            self.note_put_back()
            self.note_branches(agent)

    def act_start_twin(self, agent: ModelAgent) -> None:
        """Start a second process of one name on an empty disk."""
        if sum(other.name == agent.name for other in self.agents) == 1:
            self.agents.append(ModelAgent(self, agent.name, agent.neighbours))

    def act_start_clone(self, agent: ModelAgent) -> None:
        """Start a second process of one name on a copy of the disk, or of the machine."""
        if sum(other.name == agent.name for other in self.agents) > 1:
            return
        clone = ModelAgent(self, agent.name, agent.neighbours)
        if self.random.random() < 0.5:
            clone.__dict__.update(agent.copy_memory())
        else:
            clone.disk = agent.disk.copy()
            clone.start()
        for twin in (agent, clone):
            twin.promised = frozenset()
        self.agents.append(clone)

    def pass_time(self, steps: int, lossy: bool) -> None:
        """All agents tick and talk to all neighbours."""
        self.now += steps
        for agent in self.agents:
            agent.tick()
        for agent in self.agents:
            for receiver in sorted(agent.neighbours):
                message = agent.send(receiver, complete=True, most=1000)
                if not lossy or self.random.random() < 0.7:
                    self.deliver(message, reliable=True)

    def heal_links(self) -> None:
        """Repair all links."""
        self.cuts = set()
        self.links = set(self.all_links)
        for agent in self.agents:
            agent.neighbours = self.list_neighbours(agent.name)

    def heal(self) -> None:
        """Repair all links, and let agents talk until windows and quiet times are over."""
        self.heal_links()
        self.wire = []
        window = self.rules.window or 0
        begin = self.now
        end = begin + self.rules.day + 4 * window
        while self.now < end or any(agent.resting for agent in self.agents):
            self.pass_time(1 if self.now < begin + 6 else 6, lossy=False)
            self.check_agents()
        for _ in range(5):
            self.pass_time(0, lossy=False)

    # ---- Checks

    def check_agents(self) -> None:
        """No decision is in two entries of one agent."""
        for agent in self.agents:
            entries = agent.disk.entries.values()
            counts = Counter(chain.from_iterable(entry.states for entry in entries))
            for decision in [decision for decision, count in counts.items() if count > 1]:
                if self.keys[decision][1] not in self.dropped_names:
                    raise Violation(f"{agent.name} counts decision {decision} twice")
                self.double_counts.add(decision)

    def check_end(self) -> None:
        """All agree, nothing stays open, and every lost reward has an allowed cause."""
        agent = self.agents[0]
        for other in self.agents:
            if other.disk.entries != agent.disk.entries:
                raise Violation(f"{agent.name} and {other.name} disagree")
        states: dict[int, tuple[str, int]] = {}
        for key, entry in agent.disk.entries.items():
            states.update(entry.states)
            if self.rules.window is not None and entry.open_decisions():
                raise Violation(f"stays open: {key} {entry.open_decisions()}")
        if self.kind.is_strict:
            self.check_exact(states)
        self.losses: Counter[str] = Counter()
        for decision, reward in self.acknowledged:
            if states.get(decision) != ("closed", reward):
                self.losses[self.find_cause(decision, reward)] += 1

    def check_exact(self, states: Mapping[int, tuple[str, int]]) -> None:
        """Without losses of disks exactly the decisions that count are counted."""
        expected: dict[int, tuple[str, int]] = {}
        for agent in self.agents:
            for decision, row in agent.disk.rows.items():
                expected[decision] = ("closed", row.reward or 0)
                if row.status == "inactive" or decision in self.cancelled:
                    del expected[decision]
                elif self.mode == "heard" and row.reward is None:
                    del expected[decision]
        if states != expected:
            raise Violation(f"counted {set(states.items()) ^ set(expected.items())}")
        if self.refused or self.superseded:
            raise Violation(f"refused without cause: {self.refused}, {self.superseded}")

    def find_cause(self, decision: int, reward: int) -> str:
        """Why an acknowledged reward does not count in the end."""
        key = self.keys[decision]
        if (decision, reward) in self.unknown:
            return "on no disk"
        if (decision, reward) in self.superseded:
            return "superseded"
        for name in (key, (key[0], BASE)):
            if name in self.conflicts:
                return "overruled: " + self.conflicts[name]
        raise Violation(f"lost without cause: decision {decision} of {key}")


def play_runs(kind: Kind, seeds: Iterable[int]) -> Counter[str]:
    """Play schedules; the number of acknowledged and of lost rewards by cause."""
    total: Counter[str] = Counter()
    for seed in seeds:
        world = ModelWorld(seed, kind)
        try:
            world.play()
        except Violation as violation:
            total["violations"] += 1
            total[f"violation in {world.mode}, seed {seed}: {violation}"] += 1
            continue
        total += world.losses
        total["acknowledged"] += len(world.acknowledged)
        total["refused"] += world.refused
        total["double counts of dropped names"] += len(world.double_counts)
    return total


def main() -> None:
    """Print a table of every kind."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", type=int)
    parser.add_argument("--kind", choices=list(KINDS))
    parser.add_argument("--first-seed", type=int, default=0)
    arguments = parser.parse_args()
    for name in [arguments.kind] if arguments.kind else KINDS:
        seeds = range(arguments.first_seed, arguments.first_seed + arguments.runs)
        total = play_runs(KINDS[name], seeds)
        print(f"{name}: {arguments.runs} runs")
        for cause, number in total.most_common(14):
            print(f"  {number:9,d} {cause}")


if __name__ == "__main__":
    main()
