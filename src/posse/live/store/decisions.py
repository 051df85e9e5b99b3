"""The decision table: new decisions, their propensities, rewards and closing, in a transaction.

The allowed arms of a decision and their probabilities (propensities) are stored in few bytes: a row
refers to a list of all arms, stored once, and has four bytes for each probability. The probability
of the arm played is stored in full.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from posse.live.store.records import (
    Conflict,
    DecisionRecord,
    LateReward,
    RewardOutcome,
    SupersededReward,
    Transition,
    Unknown,
    copy_decision,
    validate_number,
    validate_text,
)
from posse.live.store.transactions import ParticipantState
from posse.randomness import FloatArray

ARMS = "arms"  # the key of the lists in the store
MAX_CACHED_TEXTS = 1000  # encoded sets of allowed arms


class ArmLists:
    """The lists of all arms that an experiment has had; decisions refer to them by number."""

    def __init__(self, data: bytes | None = None) -> None:
        self._lists: list[list[str]] = [] if data is None else json.loads(data)
        self._texts: dict[tuple[str, ...], str] = {}
        self._current = -1

    def encode_with(self, arms: Sequence[str]) -> bytes | None:
        """Encode all lists with this one, to be stored first; None if it is stored already."""
        names = list(arms)
        if names in self._lists:
            return None
        return json.dumps([*self._lists, names], ensure_ascii=False).encode()

    def use_arms(self, arms: Sequence[str]) -> None:
        """Make these the arms of decisions from now on."""
        names = list(arms)
        if names not in self._lists:
            self._lists.append(names)
        self._current = self._lists.index(names)
        self._texts.clear()

    @property
    def current_number(self) -> int:
        """The number of the current list of arms."""
        return self._current

    def arms_of(self, number: int) -> list[str]:
        """Return the arms of a list by its number."""
        return list(self._lists[number])

    def encode_allowed(self, allowed: tuple[str, ...]) -> str:
        """Encode allowed arms: the number of the list, then places unless all are allowed."""
        encoded = self._texts.get(allowed)
        if encoded is None:
            arms = self._lists[self._current]
            places = [] if list(allowed) == arms else [arms.index(name) for name in allowed]
            if len(self._texts) >= MAX_CACHED_TEXTS:
                self._texts.clear()
            encoded = self._texts[allowed] = " ".join(map(str, [self._current, *places]))
        return encoded

    def decode_allowed(self, text: str) -> list[str]:
        """Decode the allowed arms of `encode_allowed`."""
        number, *places = map(int, text.split())
        arms = self._lists[number]
        return [arms[place] for place in places] if places else list(arms)


def pack_probabilities(probabilities: FloatArray) -> bytes:
    """Pack probabilities, (K,), in four bytes each."""
    return probabilities.astype("<f4").tobytes()


def unpack_probabilities(data: bytes) -> list[float]:
    """Unpack probabilities, each with as few digits as distinguish it from others of four bytes."""
    return [float(str(probability)) for probability in np.frombuffer(data, "<f4")]


# --- the table itself; all functions run within an open transaction

# the columns are the fields of a record, except its features
FIELDS = tuple(field.name for field in fields(DecisionRecord) if field.name != "features")
COLUMNS = ", ".join(FIELDS)
_FLAGS = ("silent", "superseded", "inactive", "cancelled")
INSERT = (
    "INSERT INTO decision (experiment, id, arm, probability, time, assumed, incarnation, allowed, "
    "probabilities, context, log_odds, visitor, inactive, uplift) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
    "ON CONFLICT (experiment, id) DO NOTHING"
)
ACTIVATE = "UPDATE decision SET inactive = 0, assumed = ?, log_odds = ? WHERE number = ?"
CANCEL = (
    "UPDATE decision SET cancelled = 1, assumed = NULL, log_odds = NULL, settled = ?, silent = 1, "
    "closed = ? WHERE number = ?"
)
MEASURE = "UPDATE decision SET metrics = ? WHERE number = ?"
SETTLE = "UPDATE decision SET reward = ?, settled = ?, closed = ? WHERE number = ?"
CLOSE = (
    "UPDATE decision SET reward = ?, settled = ?, silent = ?, closed = ?, superseded = ? "
    "WHERE number = ?"
)
# open decisions: those up to a time, or those that have a reward
OPEN = f"SELECT number, {COLUMNS} FROM decision WHERE experiment = ? AND closed IS NULL AND "
OLDEST = "time <= ? ORDER BY time, number LIMIT ?"
REWARDED = "settled IS NOT NULL ORDER BY time, number LIMIT ?"
MAX_IDS_PER_QUERY = 512


class ErasedRow(NamedTuple):
    """What a deleted row had of a visitor: it must be nowhere in the file."""

    id: str
    context: str | None


class DecisionTable:
    """The decisions of one experiment, within the open transaction of the store.

    The participant of the experiment follows every change.
    """

    def __init__(
        self, connection: sqlite3.Connection, experiment: int, state: ParticipantState
    ) -> None:
        self._connection = connection
        self._experiment = experiment
        self._state = state

    def insert_decisions(
        self, decisions: Sequence[DecisionRecord]
    ) -> list[tuple[DecisionRecord, bool]]:
        """Insert decisions; where an id exists, return the stored decision and False."""
        for decision in decisions:
            _validate_decision(decision)
        execute = self._connection.execute
        stored = []
        # a decision that counts from the start must be new before it is counted: otherwise a
        # repeated id (deduplication) would be counted twice
        counting = self._state.participant.counting
        rows = self._find_decisions([d.id for d in decisions]) if counting else {}
        existing = {id: decision for id, (_, decision) in rows.items()}
        for requested in decisions:
            if requested.id in existing:
                stored.append((existing[requested.id], False))
                continue
            d = self._state.change_participant().begin(requested)
            row = (
                *(self._experiment, d.id, d.arm, float(d.probability), float(d.time)),
                *(d.assumed, d.incarnation, d.allowed, d.probabilities, d.context, d.log_odds),
                *(d.visitor, d.inactive, d.uplift),
            )
            if execute(INSERT, row).rowcount:
                stored.append((d, True))
                if counting:
                    existing[d.id] = d
            else:
                stored.append((self._find_decisions([d.id])[d.id][1], False))
        return stored

    def settle_rewards(
        self, rewards: Sequence[tuple[str, float]], time: float
    ) -> list[RewardOutcome | ValueError]:
        """Settle decisions with their rewards: the outcome of each, or its error."""
        time = validate_number("time", time)
        items = [_validate_reward(*pair) for pair in rewards]
        rows = self._find_decisions([item[0] for item in items if not isinstance(item, ValueError)])
        participant = self._state.participant
        # The participant (memory) changes first and the rows follow in `finally`: both are in the
        # same transaction, which restores both if it fails.
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
                    outcomes.append(_unknown_error(id))
                elif row_and_decision[1].closed is None and participant.is_superseded(
                    row_and_decision[1]
                ):  # also if it was rewarded before neighbours were heard
                    outcomes.append(_superseded_error(row_and_decision[1], reward))
                elif row_and_decision[1].settled is not None:
                    outcomes.append(_judge_repeated_reward(row_and_decision[1], reward, time))
                else:
                    row, decision = row_and_decision
                    try:
                        if decision.inactive:  # a reward shows that its arm was played
                            participant.check_reward(reward)
                            decision = self._activate(row, decision)
                        now = copy_decision(decision, reward=reward, settled=time)
                        final = self._state.change_participant().settle(now)
                    except ValueError as refused:
                        outcomes.append(refused)
                        continue
                    rows[id] = row, now
                    settled.append((reward, time, time if final else None, row))
                    outcomes.append(RewardOutcome.NEW)
        finally:  # rewards that the participant accepted are written, whatever happens
            if settled:
                self._connection.executemany(SETTLE, settled)
        return outcomes

    def change_decisions(
        self, transitions: Sequence[tuple[Transition, str]], time: float
    ) -> list[tuple[DecisionRecord, bool] | ValueError]:
        """Activate or cancel decisions without a reward.

        Returns each as it is now, and whether it changed: a repetition changes nothing.
        """
        time = validate_number("time", time)
        items = [_validate_transition(*pair) for pair in transitions]
        ids = [item[1] for item in items if not isinstance(item, ValueError)]
        rows = self._find_decisions(ids)
        outcomes: list[tuple[DecisionRecord, bool] | ValueError] = []
        for item in items:
            if isinstance(item, ValueError):
                outcomes.append(item)
                continue
            transition, id = item
            if id not in rows:
                outcomes.append(_unknown_error(id))
                continue
            row, decision = rows[id]
            superseded = decision.closed is None and self._state.participant.is_superseded(decision)
            if problem := _find_transition_problem(transition, decision, superseded):
                outcomes.append(problem)
                continue
            changes = decision.inactive if transition == "activate" else not decision.cancelled
            if changes and transition == "activate":
                decision = self._activate(row, decision)
            elif changes:
                decision = self._cancel(row, decision, time)
            rows[id] = row, decision
            outcomes.append((decision, changes))
        return outcomes

    def measure_decisions(
        self, metrics: Sequence[tuple[str, Mapping[str, float]]], time: float
    ) -> list[bool | ValueError]:
        """Add metrics to decisions; True: some were new.

        The same value again changes nothing, and another one is a Conflict.
        """
        time = validate_number("time", time)
        items = [(validate_text("decision_id", id), values) for id, values in metrics]
        rows = self._find_decisions([id for id, _ in items])
        outcomes: list[bool | ValueError] = []
        for id, values in items:
            if id not in rows:
                outcomes.append(_unknown_error(id))
                continue
            row, decision = rows[id]
            before: dict[str, float] = json.loads(decision.metrics or "{}")
            fresh = {name: value for name, value in values.items() if name not in before}
            if problem := self._find_metric_problem(decision, values, before, fresh, time):
                outcomes.append(problem)
                continue
            if fresh:
                if decision.inactive:  # a measurement shows that its arm was played
                    decision = self._activate(row, decision)
                self._state.change_participant().measure(decision, fresh)
                encoded = json.dumps(before | fresh)
                self._connection.execute(MEASURE, (encoded, row))
                rows[id] = row, replace(decision, metrics=encoded)
            outcomes.append(bool(fresh))
        return outcomes

    def _find_metric_problem(
        self,
        decision: DecisionRecord,
        values: Mapping[str, float],
        before: Mapping[str, float],
        fresh: Mapping[str, float],
        time: float,
    ) -> Conflict | None:
        """Return why metrics cannot be added to a decision, if they cannot."""
        name = f"decision {decision.id!r}"
        for metric, value in values.items():
            if before.get(metric, value) != value:
                return Conflict(f"{name} has {metric} = {before[metric]}: {value} is refused")
        if not fresh:
            return None
        if decision.cancelled:
            return Conflict(f"{name} was cancelled: its metrics are refused")
        if decision.silent or self._state.participant.is_window_over(decision, time):
            return Conflict(f"the reward window of {name} has closed: its metrics are too late")
        if self._state.participant.is_superseded(decision):
            return Conflict(SUPERSEDED.format(decision.id) + "its metrics are refused")
        return None

    def erase_visitor(self, visitor: str, limit: int) -> list[ErasedRow]:
        """Delete some decisions for a visitor, as `erase_decision` does; returns what they were."""
        query = "SELECT id FROM decision WHERE experiment = ? AND visitor = ? LIMIT ?"
        rows = self._connection.execute(query, (self._experiment, visitor, limit)).fetchall()
        return [erased for (id,) in rows for erased in self.erase_decision(id)]

    def erase_decision(self, id: str) -> list[ErasedRow]:
        """Delete a decision; its closed evidence stays.

        One that is open is cancelled first, and one that has a reward is closed with it.
        """
        rows = self._find_decisions([id])
        if id not in rows:
            raise _unknown_error(id)
        row, decision = rows[id]
        if decision.closed is None:
            if self._state.participant.is_superseded(decision):
                self._state.change_participant().discard(decision)
            elif decision.settled is None:
                self._state.change_participant().cancel(decision)
            elif decision.reward is not None:
                self._state.change_participant().close(decision)
        self._connection.execute("DELETE FROM decision WHERE number = ?", (row,))
        return [ErasedRow(decision.id, decision.context)]

    def _activate(self, row: int, decision: DecisionRecord) -> DecisionRecord:
        active = self._state.change_participant().activate(decision)
        self._connection.execute(ACTIVATE, (active.assumed, active.log_odds, row))
        return active

    def _cancel(self, row: int, decision: DecisionRecord, time: float) -> DecisionRecord:
        taken_back = self._state.change_participant().cancel(decision)
        self._connection.execute(CANCEL, (time, time, row))
        return replace(taken_back, cancelled=True, settled=time, silent=True, closed=time)

    def close_decisions(
        self, last: float | None, default: float | None, now: float, limit: int
    ) -> int:
        """Close the oldest open decisions up to a time, with or without a reward.

        Those without one get the reward that was assumed for them, else the default, or none, as
        inactive ones do. last: None closes the decisions that have a reward, whenever they were
        made.
        """
        condition, values = (REWARDED, (limit,)) if last is None else (OLDEST, (last, limit))
        rows = self._connection.execute(OPEN + condition, (self._experiment, *values)).fetchall()
        for row, *columns in rows:
            decision = decode_row(columns)
            superseded = self._state.participant.is_superseded(decision)
            if decision.settled is None:
                reward = default if decision.assumed is None else decision.assumed
                if superseded or decision.inactive:
                    reward = None
                decision = replace(decision, reward=reward, settled=now, silent=True)
            if superseded:
                self._state.change_participant().discard(decision)
            elif decision.reward is not None:
                self._state.change_participant().close(decision)
            d = decision
            self._connection.execute(CLOSE, (d.reward, d.settled, d.silent, now, superseded, row))
        return len(rows)

    def _find_decisions(self, ids: Sequence[str]) -> dict[str, tuple[int, DecisionRecord]]:
        """Find decisions by id, with their row numbers."""
        execute = self._connection.execute
        rows = {}
        for first in range(0, len(ids), MAX_IDS_PER_QUERY):
            chunk = ids[first : first + MAX_IDS_PER_QUERY]
            places = 1 << (len(chunk) - 1).bit_length()  # so few queries are prepared
            padded = (*chunk, *[chunk[0]] * (places - len(chunk)))
            for row, *columns in execute(_select_by_ids(places), (self._experiment, *padded)):
                rows[columns[0]] = row, decode_row(columns)
        return rows


def _validate_decision(decision: DecisionRecord) -> None:
    """Refuse a decision that a file cannot store."""
    validate_text("id", decision.id)
    validate_text("arm", decision.arm)
    validate_number("time", decision.time)
    if not 0 <= validate_number("probability", decision.probability) <= 1:
        raise ValueError(f"probability must be between 0 and 1, got {decision.probability}")
    if decision.visitor is not None:
        validate_text("visitor", decision.visitor)


def decode_row(columns: Sequence[Any]) -> DecisionRecord:
    """Build a decision from the COLUMNS of a row."""
    record = object.__new__(DecisionRecord)  # as in `copy_decision`
    values = record.__dict__
    values.update(zip(FIELDS, columns, strict=True))
    for name in _FLAGS:  # SQLite has no booleans
        values[name] = bool(values[name])
    return record


@cache
def _select_by_ids(places: int) -> str:
    """Return the query for so many ids."""
    marks = ", ".join("?" * places)
    return f"SELECT number, {COLUMNS} FROM decision WHERE experiment = ? AND id IN ({marks})"


def _validate_reward(id: str, reward: float) -> tuple[str, float] | ValueError:
    """Return a valid reward, or the error in its place."""
    try:
        return validate_text("decision_id", id), validate_number("reward", reward)
    except ValueError as error:
        return error


def _validate_transition(transition: Transition, id: str) -> tuple[Transition, str] | ValueError:
    """Return a valid transition, or the error in its place."""
    try:
        return transition, validate_text("decision_id", id)
    except ValueError as error:
        return error


def _judge_repeated_reward(
    stored: DecisionRecord, reward: float, time: float
) -> RewardOutcome | Conflict:
    """Judge another reward of a settled decision: a repetition, a conflict, or too late."""
    if stored.reward == reward:
        return RewardOutcome.REPEATED
    if stored.cancelled:
        return Conflict(
            f"decision {stored.id!r} was cancelled: the reward {reward} is refused; ask for a new "
            "decision"
        )
    if stored.superseded and stored.silent:
        return _superseded_error(stored, reward)
    if not stored.silent:
        return Conflict(
            f"decision {stored.id!r} has the reward {stored.reward}: the reward {reward} is refused"
        )
    lateness = max(0.0, time - (time if stored.closed is None else stored.closed))
    if stored.inactive:
        return LateReward(
            f"decision {stored.id!r} was not activated before its reward window closed: the reward "
            f"{reward} is too late",
            lateness,
        )
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


def _unknown_error(id: str) -> Unknown:
    """Return the error of a request about a decision that is not here."""
    return Unknown(f"there is no decision {id!r}: check the id, or its age")


SUPERSEDED = (
    "decision {!r} is superseded: it was open when the store was restored from a copy, and "
    "neighbours have newer evidence of the process that made it; "
)


def _superseded_error(stored: DecisionRecord, reward: float) -> SupersededReward:
    """Return the error of a reward for a superseded decision."""
    return SupersededReward(SUPERSEDED.format(stored.id) + f"the reward {reward} is refused")


def _find_transition_problem(
    transition: Transition, stored: DecisionRecord, superseded: bool
) -> Conflict | None:
    """Return why a decision can neither be activated nor cancelled now, if it cannot."""
    name = f"decision {stored.id!r}"
    if superseded or stored.superseded:
        return Conflict(SUPERSEDED.format(stored.id) + f"it is too late to {transition} it")
    if stored.cancelled:
        if transition == "cancel":
            return None
        return Conflict(f"{name} was cancelled: ask for a new decision")
    if transition == "activate":
        # a repetition is answered as before, whatever became of the decision since
        if stored.closed is None or not stored.inactive:
            return None
        return Conflict(f"{name} was not activated before its reward window closed")
    if stored.metrics is not None:
        return Conflict(f"{name} has metrics: it can no longer be cancelled")
    if stored.settled is not None and not stored.silent:
        return Conflict(f"{name} has the reward {stored.reward}: it can no longer be cancelled")
    if stored.closed is not None:
        return Conflict(f"{name} is closed: it can no longer be cancelled")
    return None
