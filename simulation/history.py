"""The history of a run: every acknowledgement, what each agent holds, and what may be given up.

A reward that was acknowledged must be held by all in the end, unless at some moment no disk held
it: that happens only where a disk was set back or lost before a neighbour held the reward.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field, replace
from typing import Any

from posse.live.control.controls import Controls
from posse.live.store import DecisionRecord
from simulation.bits import Mark, bit_of


class Violation(Exception):
    """A promise that was broken, in one sentence."""


@dataclass(frozen=True)
class Known:
    """A decision as its agent must remember it."""

    record: DecisionRecord
    flushed: bool = False  # whether a power failure leaves it
    made: float = 0.0  # by the clock that never jumps
    doubtful: bool = False  # whether the power failed while its experiment was not run


Key = tuple[str, str]  # experiment and id of a decision


def same(one: DecisionRecord, other: DecisionRecord) -> bool:
    """Whether two records of a decision agree in all that was ever answered."""
    return replace(one, closed=None, void=False) == replace(other, closed=None, void=False)


@dataclass
class Memory:
    """What the disk of one agent must hold."""

    decisions: dict[Key, Known] = field(default_factory=dict)
    # what a process that ended, or a disk that failed, may have done: reward, or None for expiry
    maybe: dict[Key, list[float | None]] = field(default_factory=dict)
    forgotten: frozenset[Mark] = frozenset()  # rewards whose decisions are no longer kept
    power_failed: bool = False  # since it was last seen what the disk remembers
    # of each commit in which a process ended, its decisions (None) and rewards: all or nothing
    turns: list[list[tuple[Key, float | None]]] = field(default_factory=list)
    controls: dict[str, Any] = field(default_factory=dict)  # ranks of what was acknowledged
    since: set[Key] = field(default_factory=set)  # decisions rewarded since the disk was set back
    then: set[Key] = field(
        default_factory=set
    )  # those in the copy: no others can be void

    def note_control(self, experiment: str, controls: Controls) -> None:
        """What is pinned and paused is on disk: nothing older comes back."""
        if controls._held is not None:
            self.controls[experiment] = controls._held.rank

    def copy(self) -> Memory:
        """As it is now, for a copy of the disk."""
        maybe = {key: list(what) for key, what in self.maybe.items()}
        forgotten, turns = self.forgotten, list(self.turns)
        kept = dict(self.decisions), maybe, forgotten, self.power_failed, turns
        return Memory(*kept, dict(self.controls), set(self.since), set(self.then))

    def flush(self) -> None:
        """All of it is on disk."""
        for key, known in self.decisions.items():
            if not known.flushed:
                self.decisions[key] = replace(known, flushed=True)

    def marks(self, experiments: Container[str]) -> frozenset[Mark]:
        """The rewards of some experiments that were counted here."""
        kept = {
            (experiment, known.record.arm, bit_of(known.record.reward))
            for (experiment, _), known in self.decisions.items()
            if known.record.reward
        }
        return frozenset(mark for mark in self.forgotten | kept if mark[0] in experiments)

    def silent(self, experiment: str) -> int:
        """How many decisions count with the default reward: from the start, or at the end."""
        return sum(
            not known.record.reward
            if known.record.assumed is not None
            else known.record.silent and known.record.reward is not None
            for key, known in self.decisions.items()
            if key[0] == experiment
        )


@dataclass
class History:
    """What the network as a whole must know, may know and cannot know."""

    acknowledged: set[Mark] = field(default_factory=set)
    given: set[Mark] = field(default_factory=set)  # acknowledged or not
    lost: set[Mark] = field(default_factory=set)  # at some moment no disk held it
    held: dict[str, frozenset[Mark]] = field(default_factory=dict)  # by agent
    # of futures that a memory put back parted, or when an origin cannot tell its words apart
    excused: set[Mark] = field(default_factory=set)
    untold: bool = False  # whether the latter ever was
    bits: dict[tuple[str, str], int] = field(default_factory=dict)
    disks_lost: bool = False  # whether any disk was set back or lost

    def next_bit(self, experiment: str, arm: str) -> int:
        """A reward that nobody gave before."""
        bit = self.bits.get((experiment, arm), 0)
        self.bits[experiment, arm] = bit + 1
        return bit

    def hold(self, name: str, marks: frozenset[Mark], set_back: bool) -> None:
        """Note what an agent holds now: never less than before, never what nobody gave."""
        if invented := marks - self.given:
            raise Violation(f"{name} holds rewards that nobody gave: {sorted(invented)}")
        before = self.held.get(name, frozenset())
        if before is marks:
            return
        if not set_back and (missing := before - marks - self.excused):
            raise Violation(f"{name} held rewards that it no longer holds: {sorted(missing)}")
        self.held[name] = marks
        if set_back:
            self.lost |= self.acknowledged - frozenset().union(*self.held.values())

    def must_hold(self) -> set[Mark]:
        """What every agent holds in the end."""
        return self.acknowledged - self.lost - self.excused
