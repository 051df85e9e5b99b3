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
    LateReward,
    RewardOutcome,
    Unknown,
    VoidReward,
    validate_number,
    validate_text,
)
from posse.live.store.transactions import ParticipantState
from posse.randomness import FloatArray

ARMS = "arms"  # under which a store keeps the lists
MAX_CACHED_TEXTS = 1000  # sets of arms that are remembered as text


class ArmLists:
    """The lists of all arms that an experiment has had."""

    def __init__(self, data: bytes | None = None) -> None:
        self._lists: list[list[str]] = [] if data is None else json.loads(data)
        self._texts: dict[tuple[str, ...], str] = {}
        self._current = -1

    def encode_with(self, arms: Sequence[str]) -> bytes | None:
        """What is to be kept before any decision between these arms is; None if it is already."""
        names = list(arms)
        if names in self._lists:
            return None
        return json.dumps([*self._lists, names], ensure_ascii=False).encode()

    def use_arms(self, arms: Sequence[str]) -> None:
        """All arms from now on."""
        names = list(arms)
        if names not in self._lists:
            self._lists.append(names)
        self._current = self._lists.index(names)
        self._texts.clear()

    @property
    def current_number(self) -> int:
        """Of the list of all arms now."""
        return self._current

    def arms_of(self, number: int) -> list[str]:
        """The arms of a list by its number."""
        return list(self._lists[number])

    def encode_allowed(self, allowed: tuple[str, ...]) -> str:
        """The number of the list, followed by the places of those allowed if not all are."""
        encoded = self._texts.get(allowed)
        if encoded is None:
            arms = self._lists[self._current]
            places = [] if list(allowed) == arms else [arms.index(name) for name in allowed]
            if len(self._texts) >= MAX_CACHED_TEXTS:
                self._texts.clear()
            encoded = self._texts[allowed] = " ".join(map(str, [self._current, *places]))
        return encoded

    def decode_allowed(self, text: str) -> list[str]:
        """The arms of such a text."""
        number, *places = map(int, text.split())
        arms = self._lists[number]
        return [arms[place] for place in places] if places else list(arms)


def pack_probabilities(probabilities: FloatArray) -> bytes:
    """Probabilities in four bytes each."""
    return probabilities.astype("<f4").tobytes()


def unpack_probabilities(data: bytes) -> list[float]:
    """Probabilities as they were packed, each with as few digits as tell it from others."""
    return [float(str(probability)) for probability in np.frombuffer(data, "<f4")]


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
MAX_IDS_PER_QUERY = 512  # ids in a query


class DecisionTable:
    """The rows of an experiment; its participant hears of each that is new, settled or closed."""

    def __init__(
        self, connection: sqlite3.Connection, experiment: int, keeper: ParticipantState
    ) -> None:
        self._connection = connection
        self._experiment = experiment
        self._keeper = keeper

    def insert_decisions(
        self, decisions: Sequence[DecisionRecord]
    ) -> list[tuple[DecisionRecord, bool]]:
        """Keep new ones; in the place of one whose id is taken that which has it, and False."""
        execute = self._connection.execute
        stored = []
        # what counts from the start must be known to be new before it is counted
        counting = self._keeper.counting
        rows = self._find_decisions([d.id for d in decisions]) if counting else {}
        existing = {id: decision for id, (_, decision) in rows.items()}
        for requested in decisions:
            if requested.id in existing:
                stored.append((existing[requested.id], False))
                continue
            d = self._keeper.begin_decision(requested)
            row = (
                *(self._experiment, d.id, d.arm, float(d.probability), float(d.time)),
                *(d.assumed, d.made, d.allowed, d.probabilities, d.context, d.log_odds),
            )
            if execute(INSERT, row).rowcount:
                stored.append((d, True))
                if counting:
                    existing[d.id] = d
            else:
                stored.append((self._find_decisions([d.id])[d.id][1], False))
        return stored

    def settle_rewards(
        self, items: Sequence[tuple[str, float] | ValueError], time: float
    ) -> list[RewardOutcome | ValueError]:
        """Settle what can be, within the open transaction."""
        rows = self._find_decisions([item[0] for item in items if not isinstance(item, ValueError)])
        outcomes: list[RewardOutcome | ValueError] = []
        settled: list[tuple[float, float, float | None, int]] = []
        try:
            for item in items:
                if isinstance(item, ValueError):
                    outcomes.append(item)
                    continue
                id, reward = item
                row_and_decision = rows.get(id)
                if row_and_decision is None:
                    error = f"there is no decision {id!r}: check the id, or its age"
                    outcomes.append(Unknown(error))
                elif row_and_decision[1].settled is not None:
                    outcomes.append(_judge_repeated_reward(row_and_decision[1], reward, time))
                elif self._keeper.is_void(row_and_decision[1]):
                    outcomes.append(_void_error(row_and_decision[1], reward))
                else:
                    row, decision = row_and_decision
                    now = replace(decision, reward=reward, settled=time)
                    try:
                        closed = time if self._keeper.settle_reward(now) else None
                    except ValueError as refused:
                        outcomes.append(refused)
                        continue
                    rows[id] = row, now
                    settled.append((reward, time, closed, row))
                    outcomes.append(RewardOutcome.NEW)
        finally:  # whatever happens, what the participant took in is written
            if settled:
                self._connection.executemany(SETTLE, settled)
        return outcomes

    def close_decisions(
        self, last: float | None, default: float | None, now: float, limit: int
    ) -> int:
        """Close the oldest of the open ones up to a time, whatever their reward.

        Without one they have what was assumed for them, else the default, or nothing. last: None
        for those that have a reward, whenever they were made.
        """
        which = (REWARDED, (limit,)) if last is None else (OLDEST, (last, limit))
        rows = self._connection.execute(OPEN + which[0], (self._experiment, *which[1])).fetchall()
        for row, *columns in rows:
            decision = decode_row(columns)
            void = self._keeper.is_void(decision)
            if decision.settled is None:
                reward = default if decision.assumed is None else decision.assumed
                decision = replace(
                    decision, reward=None if void else reward, settled=now, silent=True
                )
            if not void:
                self._keeper.close_decision(decision)
            d = decision
            self._connection.execute(CLOSE, (d.reward, d.settled, d.silent, now, void, row))
        return len(rows)

    def _find_decisions(self, ids: Sequence[str]) -> dict[str, tuple[int, DecisionRecord]]:
        """Look up decisions and their rows within the open transaction."""
        execute = self._connection.execute
        rows = {}
        for first in range(0, len(ids), MAX_IDS_PER_QUERY):
            chunk = ids[first : first + MAX_IDS_PER_QUERY]
            places = 1 << (len(chunk) - 1).bit_length()  # few different queries are prepared
            padded = (*chunk, *[chunk[0]] * (places - len(chunk)))
            for row, *columns in execute(_select_by_ids(places), (self._experiment, *padded)):
                rows[columns[0]] = row, decode_row(columns)
        return rows


def validate_decision(decision: DecisionRecord) -> None:
    """Refuse a new decision that a file cannot hold."""
    validate_text("id", decision.id)
    validate_text("arm", decision.arm)
    validate_number("time", decision.time)
    if not 0 <= validate_number("probability", decision.probability) <= 1:
        raise ValueError(f"probability must be between 0 and 1, got {decision.probability}")


def decode_row(columns: Sequence[Any]) -> DecisionRecord:
    """Make a decision of the COLUMNS."""
    id, arm, probability, time, reward, settled, silent, *more = columns
    assumed, closed, made, void, *rest = more  # as they are: allowed, probabilities, context ...
    d = id, arm, probability, time, reward, settled, bool(silent)
    return DecisionRecord(*d, assumed, closed, made, bool(void), *rest)


@cache
def _select_by_ids(places: int) -> str:
    """What looks for so many ids."""
    marks = ", ".join("?" * places)
    return f"SELECT number, {COLUMNS} FROM decision WHERE experiment = ? AND id IN ({marks})"


def validate_reward(id: str, reward: float) -> tuple[str, float] | ValueError:
    """A reward, or why it is none."""
    try:
        return validate_text("decision_id", id), validate_number("reward", reward)
    except ValueError as error:
        return error


def _judge_repeated_reward(
    stored: DecisionRecord, reward: float, time: float
) -> RewardOutcome | Conflict:
    """What another reward of a settled decision is."""
    if stored.reward == reward:
        return RewardOutcome.REPEATED
    if stored.void and stored.silent:
        return _void_error(stored, reward)
    if not stored.silent:
        return Conflict(
            f"decision {stored.id!r} has the reward {stored.reward}: the reward {reward} is refused"
        )
    lateness = max(0.0, time - (time if stored.closed is None else stored.closed))
    if stored.reward is None:
        return LateReward(
            f"decision {stored.id!r} was discarded when its reward window closed: the reward "
            f"{reward} is too late",
            lateness,
        )
    return LateReward(
        f"decision {stored.id!r} got the default reward {stored.reward} when its reward window "
        f"closed: the reward {reward} is too late",
        lateness,
    )


def _void_error(stored: DecisionRecord, reward: float) -> VoidReward:
    """That nothing can come of a decision any more."""
    return VoidReward(
        f"decision {stored.id!r} is void, for it was open when the disk was set back and may have "
        f"been counted since: the reward {reward} is refused"
    )
