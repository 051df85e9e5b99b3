"""The decisions of one experiment in an open transaction: kept, settled, expired."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from functools import cache
from typing import Any

from posse.live.store.keeper import Keeper
from posse.live.store.records import Conflict, DecisionRecord, Late, Outcome, Unknown, number, text

COLUMNS = "id, arm, probability, time, reward, settled, silent"
INSERT = (
    "INSERT INTO decision (experiment, id, arm, probability, time) VALUES (?, ?, ?, ?, ?) "
    "ON CONFLICT (experiment, id) DO NOTHING"
)
SETTLE = "UPDATE decision SET reward = ?, settled = ?, silent = ? WHERE number = ?"
AT_ONCE = 512  # ids in a query


class Decisions:
    """The rows of an experiment; its participant hears of each that is settled."""

    def __init__(self, connection: sqlite3.Connection, experiment: int, keeper: Keeper) -> None:
        self._connection, self._experiment, self._keeper = connection, experiment, keeper

    def add(self, decisions: Sequence[DecisionRecord]) -> list[DecisionRecord]:
        """Keep new ones; in the place of one whose id is taken that which has it."""
        execute, kept = self._connection.execute, []
        for d in decisions:
            row = self._experiment, d.id, d.arm, float(d.probability), float(d.time)
            made = execute(INSERT, row).rowcount
            kept.append(d if made else self._find([d.id])[d.id][1])
        return kept

    def reward(
        self, items: Sequence[tuple[str, float] | ValueError], time: float
    ) -> list[Outcome | ValueError]:
        """Settle what can be, within the open transaction."""
        kept = self._find([item[0] for item in items if not isinstance(item, ValueError)])
        outcomes: list[Outcome | ValueError] = []
        settled: list[tuple[float | None, float, bool, int]] = []
        try:
            for item in items:
                if isinstance(item, ValueError):
                    outcomes.append(item)
                    continue
                id, reward = item
                found = kept.get(id)
                if found is None:
                    error = f"there is no decision {id!r}: check the id, or its age"
                    outcomes.append(Unknown(error))
                elif found[1].settled is not None:
                    outcomes.append(_again(found[1], reward))
                else:
                    row, decision = found
                    now = _settled(decision, reward, time, False)
                    try:
                        self._keeper.settle(now)
                    except ValueError as refused:
                        outcomes.append(refused)
                        continue
                    kept[id] = row, now
                    settled.append((reward, time, False, row))
                    outcomes.append(Outcome.NEW)
        finally:  # whatever happens, what the participant took in is written
            if settled:
                self._connection.executemany(SETTLE, settled)
        return outcomes

    def expire(self, last: float, default: float | None, now: float, most: int) -> int:
        """Settle the oldest of the open ones up to a time, with the default reward or none."""
        rows = self._connection.execute(
            f"SELECT number, {COLUMNS} FROM decision WHERE experiment = ? "
            "AND settled IS NULL AND time <= ? ORDER BY time, number LIMIT ?",
            (self._experiment, last, most),
        ).fetchall()
        for row, *columns in rows:
            self._keeper.settle(_settled(of_columns(columns), default, now, True))
            self._connection.execute(SETTLE, (default, now, True, row))
        return len(rows)

    def _find(self, ids: Sequence[str]) -> dict[str, tuple[int, DecisionRecord]]:
        """Look up decisions and their rows within the open transaction."""
        execute, found = self._connection.execute, {}
        for first in range(0, len(ids), AT_ONCE):
            some = ids[first : first + AT_ONCE]
            places = 1 << (len(some) - 1).bit_length()  # few different queries are prepared
            asked = (*some, *[some[0]] * (places - len(some)))
            for row, *columns in execute(_query(places), (self._experiment, *asked)):
                found[columns[0]] = row, of_columns(columns)
        return found


def check(decision: DecisionRecord) -> None:
    """Refuse a new decision that a file cannot hold."""
    text("id", decision.id)
    text("arm", decision.arm)
    number("time", decision.time)
    if not 0 <= number("probability", decision.probability) <= 1:
        raise ValueError(f"probability must be between 0 and 1, got {decision.probability}")


def of_columns(columns: Sequence[Any]) -> DecisionRecord:
    """Make a decision of the COLUMNS."""
    id, arm, probability, time, reward, settled, silent = columns
    return DecisionRecord(id, arm, probability, time, reward, settled, bool(silent))


@cache
def _query(places: int) -> str:
    """What looks for so many ids."""
    marks = ", ".join("?" * places)
    return f"SELECT number, {COLUMNS} FROM decision WHERE experiment = ? AND id IN ({marks})"


def given(id: str, reward: float) -> tuple[str, float] | ValueError:
    """A reward, or why it is none."""
    try:
        return text("decision_id", id), number("reward", reward)
    except ValueError as error:
        return error


def _settled(
    decision: DecisionRecord, reward: float | None, time: float, silent: bool
) -> DecisionRecord:
    """What becomes of it with its reward."""
    d = decision
    return DecisionRecord(d.id, d.arm, d.probability, d.time, reward, time, silent)


def _again(kept: DecisionRecord, reward: float) -> Outcome | Conflict:
    """What another reward of a settled decision is."""
    if kept.reward == reward:
        return Outcome.REPEATED
    if kept.reward is None:
        return Late(
            f"decision {kept.id!r} was discarded when its window closed: the reward {reward} comes "
            "too late"
        )
    silence = " by default, when its window closed" if kept.silent else ""
    return (Late if kept.silent else Conflict)(
        f"decision {kept.id!r} has the reward {kept.reward}{silence}: the reward {reward} is "
        "refused"
    )
