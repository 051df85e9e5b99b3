"""Atomicity of memory and disk: both have a reward, or neither."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from typing import Any, Protocol

from posse.live.store.records import DecisionRecord


class Participant(Protocol):
    """What takes part in commits: evidence in memory, in step with the rewards on disk."""

    def settle(self, decision: DecisionRecord) -> None:
        """Take in the reward of a decision, or raise with nothing changed."""

    def state(self) -> dict[str, Any]:
        """Write all that is durable, in parts that JSON can hold; a part that changed is new."""

    def restore(self, state: dict[str, Any]) -> None:
        """Go back to what `state` gave."""


class Keeper:
    """Keeps a participant, if there is one, in step with the commits on `connection`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._participant: Participant | None = None
        self._moved = False  # whether the participant may have changed since the last commit
        self._state: dict[str, Any] = {}  # as it was when last looked at
        self._saved: dict[str, str] = {}  # part -> JSON, as on disk
        self._written: dict[str, str] = {}  # in the open transaction

    def attach(self, participant: Participant) -> None:
        """Keep a participant whose state, as it is now, is on disk."""
        self._participant, self._state = participant, participant.state()
        self._saved = dump(self._state)

    def expect(self) -> None:
        """Look for changes of the participant at the next commit."""
        self._moved = self._participant is not None

    def settle(self, decision: DecisionRecord) -> None:
        """Give a decision to the participant, which may refuse it."""
        if self._participant is not None and decision.reward is not None:
            self._moved = True
            self._participant.settle(decision)

    def write(self, parts: Mapping[str, str]) -> None:
        """Write parts of the exchange state into the open transaction."""
        self._connection.executemany("REPLACE INTO exchange VALUES (?, ?)", parts.items())

    def before_commit(self) -> None:
        """Add what changed in a participant that moved to the commit."""
        if self._moved and self._participant is not None:
            # the same object is the same part: much of a state stays as it is for long
            before, self._state = self._state, self._participant.state()
            changed = {
                k: v for k, v in self._state.items() if k not in before or v is not before[k]
            }
            looked = dump(changed)
            self._written = {k: v for k, v in looked.items() if v != self._saved.get(k)}
            self.write(self._written)

    def after(self, committed: bool) -> None:
        """Keep the state that was committed, or go back to the last one that was."""
        if self._moved and self._participant is not None:
            self._moved = False
            if committed:
                self._saved |= self._written
            else:
                self._participant.restore({k: json.loads(v) for k, v in self._saved.items()})
                self._state = {}  # of which no object is in the participant any more
            self._written = {}


def dump(state: Mapping[str, Any]) -> dict[str, str]:
    """Write each part of a state as JSON, which knows no NaN."""
    return {part: json.dumps(value, allow_nan=False) for part, value in state.items()}
