"""Evidence in memory and on disk, in step: both have a reward, or neither."""

from __future__ import annotations

import json
import sqlite3
from typing import Any, Protocol

from posse.live.store.records import Decision


class Ledger(Protocol):
    """The evidence in memory, which the store keeps in step with the rewards on disk."""

    def settle(self, decision: Decision) -> None:
        """Take in the reward of a decision, or raise with nothing changed."""

    def state(self) -> dict[str, Any]:
        """Write all that is durable, as JSON can hold it."""

    def restore(self, state: dict[str, Any]) -> None:
        """Go back to what `state` gave."""


class Keeper:
    """Keeps a ledger, if there is one, in step with the commits on `connection`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._ledger: Ledger | None = None
        self._moved = False  # whether the ledger may have changed since the last commit
        self._saved = self._written = ""

    def attach(self, ledger: Ledger) -> None:
        """Keep a ledger whose state, as it is now, is on disk."""
        self._ledger, self._saved = ledger, dump(ledger.state())

    def expect(self) -> None:
        """Look for changes of the ledger at the next commit."""
        self._moved = self._ledger is not None

    def settle(self, decision: Decision) -> None:
        """Give a decision to the ledger, which may refuse it."""
        if self._ledger is not None and decision.reward is not None:
            self._moved = True
            self._ledger.settle(decision)

    def write(self, state: str) -> None:
        """Write the exchange state into the open transaction."""
        self._connection.execute("REPLACE INTO exchange (row, state) VALUES (1, ?)", (state,))

    def before_commit(self) -> None:
        """Add the state of a ledger that moved to the commit."""
        if self._moved and self._ledger is not None:
            self._written = dump(self._ledger.state())
            if self._written != self._saved:
                self.write(self._written)

    def after(self, committed: bool) -> None:
        """Keep the state that was committed, or bring the ledger back to the last one that was."""
        if self._moved and self._ledger is not None:
            self._moved = False
            if committed:
                self._saved = self._written
            else:
                self._ledger.restore(json.loads(self._saved))


def dump(state: Any) -> str:
    """Write a state as JSON, which knows no NaN."""
    return json.dumps(state, allow_nan=False)
