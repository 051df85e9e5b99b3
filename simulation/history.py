"""The history of a run: every acknowledgement, what each agent holds, and what may be given up.

A reward that was acknowledged must be held by all in the end, unless at some moment no disk held
it: that happens only where a disk was set back or lost before a neighbour held the reward.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container
from dataclasses import dataclass, field, replace
from operator import add
from typing import Any, NamedTuple

from posse.live.controls.controls import Controls
from posse.live.store import DecisionRecord
from simulation.bits import (
    CLOSED,
    Mark,
    Sums,
    add_cells,
    marks_in,
    nth_bit,
    side_cells_of_decision,
    sums_of_decision,
)


class Violation(Exception):
    """A promise that was broken, in one sentence."""


@dataclass(frozen=True)
class KnownDecision:
    """A decision as its agent must remember it."""

    record: DecisionRecord
    flushed: bool = False  # whether a power failure leaves it
    made: float = 0.0  # by the clock that never jumps
    doubtful: bool = False  # whether the power failed while its experiment was not run
    before: DecisionRecord | None = None  # as a power failure may leave it, before its activation


Key = tuple[str, str]  # experiment and id of a decision


class GivenReward(NamedTuple):
    """A reward that may have been taken in, and whether its evidence was final with it."""

    reward: float
    final: bool
    assumed: float | None = None  # with which an inactive decision began to count


class Expiry(NamedTuple):
    """A window that may have been closed, with the default reward of that moment."""

    default: float | None
    superseded: bool = False  # whether its decision was, when the window ended


class Activation(NamedTuple):
    """An inactive decision that may have been activated, and the reward assumed for it then."""

    assumed: float | None


class Cancellation(NamedTuple):
    """A decision that may have been cancelled."""


class Measurement(NamedTuple):
    """Metrics that may have been taken in, and with which an inactive decision began to count."""

    metrics: str
    assumed: float | None


class Erasure(NamedTuple):
    """A decision that may have been deleted."""


Outcome = GivenReward | Expiry | Activation | Cancellation | Measurement | Erasure


@dataclass
class Memory:
    """What the disk of one agent must hold."""

    decisions: dict[Key, KnownDecision] = field(default_factory=dict)
    # what a process that ended, or a disk that failed, may have done
    maybe: dict[Key, list[Outcome]] = field(default_factory=dict)
    # what decisions that are no longer kept have added
    forgotten: frozenset[Mark] = frozenset()
    gone: dict[tuple[str, str], Sums] = field(default_factory=dict)
    gone_cells: dict[str, dict[tuple[str, ...], Sums]] = field(default_factory=dict)
    power_failed: bool = False  # since it was last seen what the disk remembers
    # of each commit in which a process ended, its decisions (None) and rewards: all or nothing
    turns: list[list[tuple[Key, float | None]]] = field(default_factory=list)
    controls: dict[str, Any] = field(default_factory=dict)  # ranks of what was acknowledged
    since: set[Key] = field(default_factory=set)  # decisions rewarded since the disk was set back
    # decisions that were not final in that copy, the last of them if they are no longer kept
    copied: dict[Key, DecisionRecord | None] = field(default_factory=dict)
    shared: frozenset[int] = frozenset()  # incarnations that a clone of the disk may write too

    def note_control(self, experiment: str, controls: Controls) -> None:
        """What is pinned and paused is on disk: nothing older comes back."""
        if controls.network_record is not None:
            self.controls[experiment] = controls.network_record.rank

    def copy_memory(self) -> Memory:
        """As it is now, for a copy of the disk."""
        maybe = {key: list(outcomes) for key, outcomes in self.maybe.items()}
        forgotten = (self.forgotten, dict(self.gone), dict(self.gone_cells))
        turns = list(self.turns)
        fields = dict(self.decisions), maybe, *forgotten, self.power_failed, turns
        return Memory(*fields, dict(self.controls), set(self.since), dict(self.copied), self.shared)

    def mark_flushed(self) -> None:
        """All of it is on disk."""
        for key, decision in self.decisions.items():
            if not decision.flushed or (decision.before and not decision.doubtful):
                before = decision.before if decision.doubtful else None
                self.decisions[key] = replace(decision, flushed=True, before=before)

    def mark_synced(self, experiments: Container[str]) -> None:
        """A start syncs what it finds of these: no power failure takes an activation back."""
        for key, decision in self.decisions.items():
            if decision.before is not None and key[0] in experiments:
                self.decisions[key] = replace(decision, before=None)

    def marks_of_rewards(self, experiments: Container[str]) -> frozenset[Mark]:
        """The rewards of some experiments that were counted here."""
        marks = set(self.forgotten)
        for (experiment, _), decision in self.decisions.items():
            if decision.record.reward:
                marks |= marks_in(
                    experiment, decision.record.arm, sums_of_decision(decision.record)
                )
        return frozenset(mark for mark in marks if mark[0] in experiments)

    def forget_decision(self, key: Key, record: DecisionRecord, bits: int) -> None:
        """A decision is no longer kept; its evidence is."""
        # whether all of a commit is there must be seen from what is left of it
        self.turns = [[part for part in parts if part[0] != key] for parts in self.turns]
        place = (key[0], record.arm)
        sums = sums_of_decision(record)
        if key in self.copied or record.incarnation in self.shared:
            self.copied[key] = record
        self.forgotten |= marks_in(*place, sums)
        before = self.gone.get(place, (0, 0, 0, 0))
        self.gone[place] = tuple(map(add, before, sums))
        cells = side_cells_of_decision(record, bits)
        self.gone_cells[key[0]] = add_cells(self.gone_cells.get(key[0], {}), cells)

    def sum_side_cells(self, experiment: str, bits: int) -> dict[tuple[str, ...], Sums]:
        """What all decisions of an experiment have added to side rows."""
        cells = self.gone_cells.get(experiment, {})
        for (name, _), decision in self.decisions.items():
            if name == experiment:
                cells = add_cells(cells, side_cells_of_decision(decision.record, bits))
        return cells

    def sum_by_arm(self, experiment: str) -> dict[str, Sums]:
        """What all decisions of an experiment have added up to."""
        sums = {arm: sums for (name, arm), sums in self.gone.items() if name == experiment}
        for (name, _), decision in self.decisions.items():
            if name == experiment:
                arm = decision.record.arm
                added = sums_of_decision(decision.record)
                sums[arm] = tuple(map(add, sums[arm], added)) if arm in sums else added
        return {arm: row for arm, row in sums.items() if any(row)}


@dataclass
class History:
    """What the network as a whole must know, may know and cannot know."""

    acknowledged: set[Mark] = field(default_factory=set)
    given: set[Mark] = field(default_factory=set)  # acknowledged or not
    lost: set[Mark] = field(default_factory=set)  # at some moment no disk held it
    held: dict[str, frozenset[Mark]] = field(default_factory=dict)  # by agent
    excused: set[Mark] = field(default_factory=set)  # of superseded decisions
    overruled: set[Mark] = field(default_factory=set)  # of two copies in use one was kept whole
    owners: dict[Mark, str] = field(default_factory=dict)  # agent whose decision was rewarded
    bits: dict[tuple[str, str], int] = field(default_factory=dict)
    disks_lost: bool = False  # whether any disk was set back or lost
    rewards: dict[Key, set[Mark]] = field(default_factory=lambda: defaultdict(set))  # acknowledged
    counted: dict[tuple[str, str], set[Key]] = field(default_factory=lambda: defaultdict(set))
    closed: dict[tuple[str, str], set[Key]] = field(default_factory=lambda: defaultdict(set))

    def give(self, agent: str, mark: Mark) -> None:
        """A reward is given to an agent, which may acknowledge it."""
        self.given.add(mark)
        self.owners[mark] = self.owners[mark[0], mark[1], mark[2] + CLOSED] = agent

    def marks_of_agents(self, agents: Container[str]) -> frozenset[Mark]:
        """All rewards of decisions of some agents."""
        return frozenset(mark for mark, owner in self.owners.items() if owner in agents)

    def note_acknowledged(self, key: Key, record: DecisionRecord) -> None:
        """A decision counts, or is final, on a disk: so for all, unless that is set back."""
        sums = sums_of_decision(record)
        if not any(sums):
            return
        marks = marks_in(key[0], record.arm, sums)
        self.given |= marks
        self.acknowledged |= marks
        self.rewards[key] |= {mark for mark in marks if mark[2] < CLOSED}
        self.counted[key[0], record.arm].add(key)
        if sums[2]:
            self.closed[key[0], record.arm].add(key)

    def may_close(self, key: Key, record: DecisionRecord) -> None:
        """A decision may be final soon, and a neighbour hear of it before its disk is set back."""
        place = key[0], record.arm
        self.counted[place].add(key)
        self.closed[place].add(key)
        if record.reward is not None:
            final = replace(record, closed=record.time, superseded=False)
            self.given |= marks_in(*place, sums_of_decision(final))

    def next_bit(self, experiment: str, arm: str) -> int:
        """A reward that nobody gave before."""
        nth = self.bits.get((experiment, arm), 0)
        self.bits[experiment, arm] = nth + 1
        return nth_bit(nth)

    def note_held(
        self, name: str, marks: frozenset[Mark], set_back: bool, may_fall: frozenset[Mark]
    ) -> None:
        """Note what an agent holds now: never less than before, never what nobody gave.

        may_fall: rewards of agents whose disk was restored, of which another version may win.
        """
        if invented := marks - self.given:
            raise Violation(f"{name} holds rewards that nobody gave: {sorted(invented)}")
        before = self.held.get(name, frozenset())
        if before is marks:
            return
        if not set_back and (missing := before - marks - self.excused):
            self.overruled |= missing & may_fall
            if missing := missing - may_fall:
                raise Violation(f"{name} held rewards that it no longer holds: {sorted(missing)}")
        self.held[name] = marks
        if set_back:
            self.lost |= self.acknowledged - frozenset().union(*self.held.values())

    def must_hold(self) -> set[Mark]:
        """What every agent holds in the end."""
        return self.acknowledged - self.lost - self.excused - self.overruled
