"""Offers: between which arms a decision was made and with which probabilities, in few bytes.

A row of a decision refers to a list of all arms, kept once for each that there was, and has four
bytes a probability: seven digits, where that of the arm played is in the row in full.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from posse.live.store.records import (
    Conflict,
    DecisionRecord,
    Late,
    Outcome,
    Unknown,
    Void,
    number,
    text,
)
from posse.live.store.transactions import Keeper
from posse.randomness import FloatArray

ARMS = "arms"  # under which a store keeps the lists
MOST = 1000  # sets of arms that are remembered as text


class Offers:
    """The lists of all arms that an experiment has had."""

    def __init__(self, data: bytes | None = None) -> None:
        self._lists: list[list[str]] = [] if data is None else json.loads(data)
        self._texts: dict[tuple[str, ...], str] = {}
        self._now = -1

    def fresh(self, arms: Sequence[str]) -> bytes | None:
        """What is to be kept before any decision between these arms is; None if it is already."""
        names = list(arms)
        if names in self._lists:
            return None
        return json.dumps([*self._lists, names], ensure_ascii=False).encode()

    def use(self, arms: Sequence[str]) -> None:
        """All arms from now on."""
        names = list(arms)
        if names not in self._lists:
            self._lists.append(names)
        self._now = self._lists.index(names)
        self._texts.clear()

    @property
    def number(self) -> int:
        """Of the list of all arms now."""
        return self._now

    def arms(self, number: int) -> list[str]:
        """The arms of a list by its number."""
        return list(self._lists[number])

    def text(self, allowed: tuple[str, ...]) -> str:
        """The number of the list, followed by the places of those allowed if not all are."""
        found = self._texts.get(allowed)
        if found is None:
            arms = self._lists[self._now]
            places = [] if list(allowed) == arms else [arms.index(name) for name in allowed]
            if len(self._texts) >= MOST:
                self._texts.clear()
            found = self._texts[allowed] = " ".join(map(str, [self._now, *places]))
        return found

    def allowed(self, text: str) -> list[str]:
        """The arms of such a text."""
        number, *places = map(int, text.split())
        arms = self._lists[number]
        return [arms[place] for place in places] if places else list(arms)


def packed(probabilities: FloatArray) -> bytes:
    """Probabilities in four bytes each."""
    return probabilities.astype("<f4").tobytes()


def unpacked(data: bytes) -> list[float]:
    """Probabilities as they were packed, each with as few digits as tell it from others."""
    return [float(str(each)) for each in np.frombuffer(data, "<f4")]


# The decisions of one experiment in an open transaction: kept, settled, closed.

COLUMNS = (
    "id, arm, probability, time, reward, settled, silent, "
    "assumed, closed, made, void, allowed, probabilities, context, log_odds"
)
INSERT = (
    "INSERT INTO decision (experiment, id, arm, probability, time, assumed, made, allowed, "
    "probabilities, context, log_odds) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
    "ON CONFLICT (experiment, id) DO NOTHING"
)
SETTLE = "UPDATE decision SET reward = ?, settled = ?, closed = ? WHERE number = ?"
CLOSE = (
    "UPDATE decision SET reward = ?, settled = ?, silent = ?, closed = ?, void = ? WHERE number = ?"
)
# not yet final, of which those up to a time, or those that have a reward
OPEN = f"SELECT number, {COLUMNS} FROM decision WHERE experiment = ? AND closed IS NULL AND "
OLDEST = "time <= ? ORDER BY time, number LIMIT ?"
REWARDED = "settled IS NOT NULL ORDER BY time, number LIMIT ?"
AT_ONCE = 512  # ids in a query


class Decisions:
    """The rows of an experiment; its participant hears of each that is new, settled or closed."""

    def __init__(self, connection: sqlite3.Connection, experiment: int, keeper: Keeper) -> None:
        self._connection = connection
        self._experiment = experiment
        self._keeper = keeper

    def add(self, decisions: Sequence[DecisionRecord]) -> list[tuple[DecisionRecord, bool]]:
        """Keep new ones; in the place of one whose id is taken that which has it, and False."""
        execute = self._connection.execute
        kept = []
        # what counts from the start must be known to be new before it is counted
        counting = self._keeper.counting
        found = self._find([d.id for d in decisions]) if counting else {}
        taken = {id: decision for id, (_, decision) in found.items()}
        for asked in decisions:
            if asked.id in taken:
                kept.append((taken[asked.id], False))
                continue
            d = self._keeper.begin(asked)
            row = (
                *(self._experiment, d.id, d.arm, float(d.probability), float(d.time)),
                *(d.assumed, d.made, d.allowed, d.probabilities, d.context, d.log_odds),
            )
            if execute(INSERT, row).rowcount:
                kept.append((d, True))
                if counting:
                    taken[d.id] = d
            else:
                kept.append((self._find([d.id])[d.id][1], False))
        return kept

    def reward(
        self, items: Sequence[tuple[str, float] | ValueError], time: float
    ) -> list[Outcome | ValueError]:
        """Settle what can be, within the open transaction."""
        kept = self._find([item[0] for item in items if not isinstance(item, ValueError)])
        outcomes: list[Outcome | ValueError] = []
        settled: list[tuple[float, float, float | None, int]] = []
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
                    outcomes.append(_again(found[1], reward, time))
                elif self._keeper.is_void(found[1]):
                    outcomes.append(_void(found[1], reward))
                else:
                    row, decision = found
                    now = replace(decision, reward=reward, settled=time)
                    try:
                        closed = time if self._keeper.settle(now) else None
                    except ValueError as refused:
                        outcomes.append(refused)
                        continue
                    kept[id] = row, now
                    settled.append((reward, time, closed, row))
                    outcomes.append(Outcome.NEW)
        finally:  # whatever happens, what the participant took in is written
            if settled:
                self._connection.executemany(SETTLE, settled)
        return outcomes

    def close(self, last: float | None, default: float | None, now: float, most: int) -> int:
        """Close the oldest of the open ones up to a time, whatever their reward.

        Without one they have what was assumed for them, else the default, or nothing. last: None
        for those that have a reward, whenever they were made.
        """
        which = (REWARDED, (most,)) if last is None else (OLDEST, (last, most))
        rows = self._connection.execute(OPEN + which[0], (self._experiment, *which[1])).fetchall()
        for row, *columns in rows:
            decision = of_columns(columns)
            void = self._keeper.is_void(decision)
            if decision.settled is None:
                reward = default if decision.assumed is None else decision.assumed
                decision = replace(
                    decision, reward=None if void else reward, settled=now, silent=True
                )
            if not void:
                self._keeper.close(decision)
            d = decision
            self._connection.execute(CLOSE, (d.reward, d.settled, d.silent, now, void, row))
        return len(rows)

    def _find(self, ids: Sequence[str]) -> dict[str, tuple[int, DecisionRecord]]:
        """Look up decisions and their rows within the open transaction."""
        execute = self._connection.execute
        found = {}
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
    id, arm, probability, time, reward, settled, silent, *more = columns
    assumed, closed, made, void, *rest = more  # as they are: allowed, probabilities, context ...
    d = id, arm, probability, time, reward, settled, bool(silent)
    return DecisionRecord(*d, assumed, closed, made, bool(void), *rest)


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


def _again(kept: DecisionRecord, reward: float, time: float) -> Outcome | Conflict:
    """What another reward of a settled decision is."""
    if kept.reward == reward:
        return Outcome.REPEATED
    if kept.void and kept.silent:
        return _void(kept, reward)
    if not kept.silent:
        return Conflict(
            f"decision {kept.id!r} has the reward {kept.reward}: the reward {reward} is refused"
        )
    lateness = max(0.0, time - (time if kept.closed is None else kept.closed))
    if kept.reward is None:
        return Late(
            f"decision {kept.id!r} was discarded when its window closed: the reward {reward} comes "
            "too late",
            lateness,
        )
    return Late(
        f"decision {kept.id!r} has the reward {kept.reward} by default, when its window closed: "
        f"the reward {reward} is refused",
        lateness,
    )


def _void(kept: DecisionRecord, reward: float) -> Void:
    """That nothing can come of a decision any more."""
    return Void(
        f"decision {kept.id!r} is void, for it was open when the disk was set back and may have "
        f"been counted since: the reward {reward} is refused"
    )
