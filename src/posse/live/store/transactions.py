"""Atomicity of memory and disk: both have a reward, or neither."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from posse.live.store.records import DecisionRecord


class Participant:
    """Follows the decisions and rewards of an experiment in memory, in step with the commits.

    Each method says what a subclass may do, and does what a store without an experiment needs.
    """

    @property
    def counting(self) -> bool:
        """Whether decisions count from the start: `begin` then changes evidence."""
        return False

    def is_superseded(self, decision: DecisionRecord) -> bool:
        """Whether an open decision no longer counts: another copy of this agent has it."""
        return False

    def begin(self, decision: DecisionRecord) -> DecisionRecord:
        """Count a new decision, if they count from the start; add `incarnation`, `assumed`."""
        return decision

    def activate(self, decision: DecisionRecord) -> DecisionRecord:
        """Count an inactive decision from now on, if decisions count from the start."""
        return replace(decision, inactive=False)

    def cancel(self, decision: DecisionRecord) -> DecisionRecord:
        """Take back what a decision without a reward has counted."""
        return decision

    def check_reward(self, reward: float) -> None:
        """Raise if no decision can have this reward."""

    def is_window_over(self, decision: DecisionRecord, time: float) -> bool:
        """Whether the reward window of a decision has ended."""
        return False

    def measure(self, decision: DecisionRecord, metrics: Mapping[str, float]) -> None:
        """Add metrics of a decision."""

    def settle(self, decision: DecisionRecord) -> bool:
        """Add a reward, or raise with nothing changed; return whether that is final."""
        return True

    def close(self, decision: DecisionRecord) -> None:
        """Make the evidence of a decision final, with its reward, or raise with nothing changed."""

    def discard(self, decision: DecisionRecord) -> None:
        """Note that a superseded decision is closed, perhaps with a reward."""

    def state(self) -> dict[str, Any]:
        """Return the whole durable state, in parts that JSON can represent."""
        return {}

    def changes(self) -> dict[str, Any]:
        """Return the parts changed since this, `state` or `restore` was called; None: deleted."""
        return {}

    def commit(self) -> None:
        """Note that all changes so far are on disk."""

    def rollback(self) -> None:
        """Return to the last commit."""

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore the state on disk at a start."""


NO_PARTICIPANT = Participant()


class ParticipantState:
    """Synchronises the participant of one experiment, if there is one, with the commits."""

    def __init__(self, connection: sqlite3.Connection, experiment: int) -> None:
        self._connection = connection
        self._experiment = experiment
        self.participant = NO_PARTICIPANT  # to ask it; to change it, `change_participant`
        self.dirty = False  # asked for changes at the next commit
        self._changed = False  # it may have changed since the last commit
        self._replaced: Participant | None = None  # by one that is not on disk yet

    def attach_participant(self, participant: Participant, resumed: bool = False) -> None:
        """Attach a participant and write its state, or what changed since it was read.

        Within a transaction.
        """
        parts = participant.changes() if resumed else participant.state()
        self.write_parts(encode_parts(parts))
        self._replaced = self.participant
        self.participant = participant

    def change_participant(self) -> Participant:
        """Return the participant to change it: it is asked for changes at the next commit."""
        if self.participant is not NO_PARTICIPANT:
            self.dirty = self._changed = True
        return self.participant

    def mark_dirty(self) -> None:
        """Ask the participant for changes at the next commit."""
        self.dirty = True

    def expect_changes(self) -> None:
        """Expect changes of the participant before the next commit."""
        self.dirty = self._changed = True

    def write_parts(self, parts: Mapping[str, str | None]) -> None:
        """Write parts of the exchange state into the open transaction; None deletes."""
        for part, value in parts.items():
            if value is None:
                self._connection.execute(
                    "DELETE FROM exchange WHERE experiment = ? AND part = ?",
                    (self._experiment, part),
                )
            else:
                self._connection.execute(
                    "INSERT INTO exchange (experiment, part, value) VALUES (?, ?, ?) "
                    "ON CONFLICT (experiment, part) DO UPDATE SET value = excluded.value",
                    (self._experiment, part, value),
                )

    def before_commit(self) -> None:
        """Add the changes of the participant to the commit."""
        # Only changed parts are written: the state grows with the number of agents, and a commit
        # should cost as much as its rewards.
        changes = self.participant.changes()
        # Noted first: if the disk is full, what was asked for must be rolled back.
        self._changed |= bool(changes)
        self.write_parts(encode_parts(changes))

    def after_commit(self, committed: bool) -> None:
        """Tell the participant whether its changes are on disk, or never will be."""
        self.dirty = False
        changed = self._changed
        self._changed = False
        if not committed and self._replaced is not None:
            self.participant = self._replaced
        self._replaced = None
        if committed:
            self.participant.commit()
        elif changed or self.participant.changes():
            self.participant.rollback()


class ParticipantStates:
    """The participants of all experiments in a file, as the writer calls them."""

    def __init__(self) -> None:
        self.by_experiment: dict[int, ParticipantState] = {}

    def mark_all_dirty(self) -> None:
        """Ask every participant for changes at the next commit."""
        for keeper in self.by_experiment.values():
            keeper.mark_dirty()

    def before_commit(self) -> None:
        """Add the changes of all dirty participants to the commit."""
        for keeper in self.by_experiment.values():
            if keeper.dirty:
                keeper.before_commit()

    def after_commit(self, committed: bool) -> None:
        """Confirm or undo the changes of each, whatever another one does."""
        errors = []
        for keeper in self.by_experiment.values():
            if not keeper.dirty:
                continue
            try:
                keeper.after_commit(committed)
            except Exception as error:  # the others must be restored all the same
                errors.append(error)
        if errors:
            raise errors[0]


# refuses NaN; built once, as it is called at every commit
encode_json = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode


def encode_parts(state: Mapping[str, Any]) -> dict[str, str | None]:
    """Encode each part of a state as JSON; None stays, for a part that is gone."""
    return {part: None if value is None else encode_json(value) for part, value in state.items()}


class EncodedParts(Mapping[str, Any]):
    """The parts of a state as they are on disk, each decoded when it is read."""

    def __init__(self, rows: Iterable[tuple[str, str]]) -> None:
        self._encoded = dict(rows)

    def __getitem__(self, part: str) -> Any:
        return json.loads(self._encoded[part])

    def __iter__(self) -> Iterator[str]:
        return iter(self._encoded)

    def __len__(self) -> int:
        return len(self._encoded)
