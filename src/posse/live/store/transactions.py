"""Atomicity of memory and disk: both have a reward, or neither."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from typing import Any, Protocol

from posse.live.store.records import DecisionRecord


class Participant(Protocol):
    """What takes part in commits: an experiment's evidence in memory, in step with its rewards."""

    @property
    def counting(self) -> bool:
        """Whether decisions count from the start: `begin` then changes evidence."""

    @property
    def void_through(self) -> int:
        """Decisions made in incarnations up to this one that are open are void; 0: none."""

    def begin(self, decision: DecisionRecord) -> DecisionRecord:
        """Count a new decision, if decisions count from the start; with `made` and `assumed`."""

    def settle(self, decision: DecisionRecord) -> bool:
        """Take in a reward, or raise with nothing changed; whether the evidence is final so."""

    def close(self, decision: DecisionRecord) -> None:
        """Make the evidence of a decision final, with its reward, or raise with nothing changed."""

    def state(self) -> dict[str, Any]:
        """Write all that is durable, in parts that JSON can hold."""

    def changes(self) -> dict[str, Any]:
        """Write the parts that changed since this, `state` or `restore` was called; None: gone."""

    def restore(self, state: dict[str, Any]) -> None:
        """Go back to what is on disk: at a start, or in this process when a commit failed."""


class ParticipantState:
    """Keeps the participant of one experiment, if there is one, in step with the commits."""

    def __init__(self, connection: sqlite3.Connection, experiment: int) -> None:
        self._connection = connection
        self._experiment = experiment
        self._participant: Participant | None = None
        self.dirty = False  # whether the participant is looked at, at the next commit
        self._changed = False  # whether it may have changed since the last one
        self._saved: dict[str, str] = {}  # part -> JSON, as on disk
        self._written: dict[str, str | None] = {}  # in the open transaction

    def attach_participant(self, participant: Participant) -> None:
        """Keep a participant, and write its state as it is now; within a transaction."""
        saved = encode_parts(participant.state())
        removed = [part for part, _ in self.read_parts() if part not in saved]
        self.write_parts({**saved, **dict.fromkeys(removed)})
        self._participant = participant
        self._saved = saved

    def mark_dirty(self) -> None:
        """Look for changes of the participant at the next commit."""
        self.dirty = True

    def expect_changes(self) -> None:
        """Expect changes of the participant before the next commit."""
        self.dirty = self._changed = True

    @property
    def counting(self) -> bool:
        """Whether the participant counts decisions from the start."""
        return self._participant is not None and self._participant.counting

    def begin_decision(self, decision: DecisionRecord) -> DecisionRecord:
        """Give a new decision to the participant; as it is to be kept."""
        if self._participant is None:
            return decision
        if self._participant.counting:
            self.dirty = self._changed = True
        return self._participant.begin(decision)

    def settle_reward(self, decision: DecisionRecord) -> bool:
        """Give a reward to the participant, which may refuse it; whether that is final."""
        if self._participant is None:
            return True
        self.dirty = self._changed = True
        return self._participant.settle(decision)

    def close_decision(self, decision: DecisionRecord) -> None:
        """Give a decision that has become final to the participant, if it is evidence."""
        if self._participant is not None and decision.reward is not None:
            self.dirty = self._changed = True
            self._participant.close(decision)

    def is_void(self, decision: DecisionRecord) -> bool:
        """Whether an open decision may have been counted in another future of this agent."""
        through = 0 if self._participant is None else self._participant.void_through
        return 0 < through >= decision.made

    def read_parts(self) -> list[tuple[str, str]]:
        """Read all parts of the experiment's exchange state, within the open transaction."""
        query = "SELECT part, value FROM exchange WHERE experiment = ?"
        return self._connection.execute(query, (self._experiment,)).fetchall()

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
        """Add what changed in the participant to the commit."""
        if self._participant is not None:
            for part, value in self._participant.changes().items():
                self._written[part] = None if value is None else encode_json(value)
            self.write_parts(self._written)

    def after_commit(self, committed: bool) -> None:
        """Keep the state that was committed, or go back to the last one that was."""
        self.dirty = False
        moved = self._changed
        self._changed = False
        written = self._written
        self._written = {}
        if self._participant is None:
            return
        if committed:
            for part, value in written.items():
                if value is None:
                    self._saved.pop(part, None)
                else:
                    self._saved[part] = value
        elif moved or written or self._participant.changes():
            self._participant.restore({k: json.loads(v) for k, v in self._saved.items()})


class ParticipantStates:
    """The keepers of all experiments in a file, as the writer calls them."""

    def __init__(self) -> None:
        self.by_experiment: dict[int, ParticipantState] = {}

    def mark_all_dirty(self) -> None:
        """Look at every participant at the next commit."""
        for keeper in self.by_experiment.values():
            keeper.mark_dirty()

    def before_commit(self) -> None:
        """Add what changed in any participant to the commit."""
        for keeper in self.by_experiment.values():
            if keeper.dirty:
                keeper.before_commit()

    def after_commit(self, committed: bool) -> None:
        """Keep or take back what each did since the last commit, whatever another one does."""
        errors = []
        for keeper in self.by_experiment.values():
            if not keeper.dirty:
                continue
            try:
                keeper.after_commit(committed)
            except Exception as error:  # the others must go back all the same
                errors.append(error)
        if errors:
            raise errors[0]


# which knows no NaN; one for all, for it is called at every commit
encode_json = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode


def encode_parts(state: Mapping[str, Any]) -> dict[str, str]:
    """Write each part of a state as JSON."""
    return {part: encode_json(value) for part, value in state.items()}
