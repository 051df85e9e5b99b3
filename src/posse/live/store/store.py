"""The durable state of one experiment of a live agent: decisions, rewards, exchange.

A reward is acknowledged only when it is on disk, together with the exchange state it changed.
"""

from __future__ import annotations

import json
import os
import time as times
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from posse.live.store.clock import Ages
from posse.live.store.decisions import COLUMNS, Decisions, check, given, of_columns
from posse.live.store.file import StoreFile
from posse.live.store.file_lock import DEFAULT, Claim
from posse.live.store.group_commit import Disk
from posse.live.store.records import DecisionRecord, Outcome, number, text
from posse.live.store.timeline import Events, Points
from posse.live.store.transactions import Participant, dump

NEWEST = "SELECT coalesce(max(number), 0) FROM decision"
CHUNK = 1000  # decisions that one commit expires or forgets, so that rewards need not wait long


class Store:
    """One experiment's durable state; any number of threads may use it, one process at a time.

    Several experiments share a file (`beside`), and then its commits, its lock and its `close`.
    """

    def __init__(
        self, file: StoreFile, claim: Claim, monotonic: Callable[[], float] = times.monotonic
    ) -> None:
        self._file = file
        self.experiment = claim.experiment
        self._number, self.fingerprint = file.enter(claim)
        self._keeper = file.keepers.each[self._number]
        self._decisions = Decisions(file.connection, self._number, self._keeper)
        self.points, self.events = Points(file, self._number), Events(file, self._number)
        self._monotonic = monotonic
        latest = "SELECT max(time) FROM decision WHERE experiment = ?"
        (((newest,),), ((time,),)) = self._read(NEWEST), self._read(latest, (self._number,))
        self._ages = file.ages.setdefault(self._number, Ages(newest, time, monotonic))

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        fingerprint: str,
        equal: Sequence[str] = (),
        experiment: str = DEFAULT,
        owner: str | None = None,
        disk: Disk | None = None,
        monotonic: Callable[[], float] = times.monotonic,
    ) -> Store:
        """Open the store of an agent, made if it is not there, and hold it until `close`.

        equal: fingerprints that a file may hold in place of the first, and then keeps. owner: the
        name of the agent; the first that opens a file stays in it, and any other is refused. disk,
        monotonic: a disk that fails and another clock, for simulations.
        """
        claim = Claim(experiment, fingerprint, tuple(equal), owner)
        file = StoreFile.open(path, claim, disk or Disk())
        try:
            store = cls(file, claim, monotonic)
            store.flush()  # what is found there is acknowledged when somebody asks again
            return store
        except BaseException:
            file.close()
            raise

    def beside(self, experiment: str, fingerprint: str, equal: Sequence[str] = ()) -> Store:
        """Another experiment in the same file, made if it is not in it."""
        claim = Claim(experiment, fingerprint, tuple(equal))
        return Store(self._file, claim, self._monotonic)

    def experiments(self) -> list[str]:
        """The names of all experiments that the file holds, in the order in which they came."""
        return [str(row[0]) for row in self._read("SELECT name FROM experiment ORDER BY number")]

    def close(self) -> None:
        """Wait for those who write and let go of the file, for all experiments in it."""
        self._file.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def decide(self, decision: DecisionRecord) -> DecisionRecord:
        """Keep a new decision; one that is kept already under its id is returned in its place.

        It survives this process at once, and a power failure with the next reward or `flush`.
        """
        return self.decide_many([decision])[0]

    def decide_many(self, decisions: Sequence[DecisionRecord]) -> list[DecisionRecord]:
        """Keep new decisions, of which one may have the id of another; see `decide`."""
        return [kept for kept, _ in self.decided(decisions)]

    def decided(self, decisions: Sequence[DecisionRecord]) -> list[tuple[DecisionRecord, bool]]:
        """As `decide_many`, each with whether it is new."""
        for decision in decisions:
            check(decision)
        # who asks should not wait for the disk: its reward will, and then both are there
        return self._file.run(lambda: self._decisions.add(decisions), durable=False)

    def reward(self, decision_id: str, reward: float, time: float) -> Outcome:
        """Settle a decision; the same reward again changes nothing, another one is a Conflict."""
        (outcome,) = self.reward_many([(decision_id, reward)], time)
        if isinstance(outcome, ValueError):
            raise outcome
        return outcome

    def reward_many(
        self, rewards: Sequence[tuple[str, float]], time: float
    ) -> list[Outcome | ValueError]:
        """Settle decisions, each or not: what came of it, or why it is refused; see `reward`."""
        time = number("time", time)
        items = [given(*each) for each in rewards]
        return self._file.run(lambda: self._decisions.reward(items, time))

    def flush(self) -> None:
        """Wait until all decisions are on disk."""
        self._file.flush()

    def check_place(self) -> None:
        """Raise a StoreError if the file was moved, replaced or linked since it was opened."""
        self._file.check_place()

    def decision(self, id: str) -> DecisionRecord | None:
        """Look up a decision."""
        query = f"SELECT {COLUMNS} FROM decision WHERE experiment = ? AND id = ?"
        rows = self._read(query, (self._number, text("id", id)))
        return of_columns(rows[0]) if rows else None

    def open_decisions(self) -> int:
        """How many decisions are not final: their window is open, or they have no reward yet."""
        query = "SELECT count(*) FROM decision WHERE experiment = ? AND closed IS NULL"
        return int(self._read(query, (self._number,))[0][0])

    def expire(self, now: float, window: float | None, default_reward: float | None) -> int:
        """Close the decisions whose window ended, in order of time, whatever their reward.

        Those without one are settled with what was assumed for them, else with the default reward;
        if there is none, they are discarded. window: None closes those that have a reward.
        """
        now = number("now", now)
        last = None if window is None else now - number("window", window)
        if default_reward is not None:
            default_reward = number("default_reward", default_reward)

        return self._repeat(lambda: self._decisions.close(last, default_reward, now, CHUNK))

    def forget(self, now: float, remember: float) -> int:
        """Delete decisions that are final and older than `remember` seconds; their evidence stays.

        `now` is the time of the clock. If it jumps, ahead or back, none is deleted early for it.
        """
        now = number("now", now)
        remember = number("remember", remember)

        def work() -> int:
            execute = self._file.connection.execute
            (newest,) = execute(NEWEST).fetchone()
            last, before = self._ages.older(remember, now, newest)
            deleted = execute(
                "DELETE FROM decision WHERE number IN (SELECT number FROM decision WHERE "
                "experiment = ? AND time < ? AND number <= ? AND closed IS NOT NULL "
                "ORDER BY time LIMIT ?)",
                (self._number, before, last, CHUNK),
            ).rowcount
            if deleted and execute(NEWEST).fetchone() != (newest,):
                self._file.give_numbers_again()
            return deleted

        return self._repeat(work)

    def keep(self, key: str, value: bytes | None) -> None:
        """Keep a small record under a key, in place of the one that is there; None deletes it."""
        place = self._number, text("key", key)
        if value is None:
            self._write("DELETE FROM kept WHERE experiment = ? AND key = ?", place)
        else:
            self._write("REPLACE INTO kept (experiment, key, value) VALUES (?, ?, ?)",
                        (*place, value))  # fmt: skip

    def kept(self, key: str) -> bytes | None:
        """The record under a key."""
        query = "SELECT value FROM kept WHERE experiment = ? AND key = ?"
        rows = self._read(query, (self._number, key))
        return bytes(rows[0][0]) if rows else None

    def save_exchange(self, state: Mapping[str, Any]) -> None:
        """Keep the exchange state; within `transaction`, together with the rewards in it."""
        written = dump(state)
        self._file.run(lambda: self._keeper.write(written))

    def load_exchange(self) -> dict[str, Any] | None:
        """Read the exchange state, None before the first."""
        query = "SELECT part, value FROM exchange WHERE experiment = ?"
        rows = self._read(query, (self._number,))
        return {part: json.loads(value) for part, value in rows} if rows else None

    def attach(self, participant: Participant) -> None:
        """Restore a participant, then feed it every reward and save its state in the same commit.

        From here on, change it only within `transaction`; if a commit fails, it goes back.
        """
        state = self.load_exchange()
        if state is not None:
            participant.restore(state)
        self._file.run(lambda: self._keeper.attach(participant))

    @contextmanager
    def transaction(self, durable: bool = True) -> Iterator[None]:
        """Put on disk as one what this thread does within (no `await` in it), or nothing of it.

        All experiments of the file may be used within. If not `durable`, it survives this process
        at once, and a power failure with a later commit that is, or `flush`.
        """
        self._file.check_process()
        with self._file.writer.transaction(durable):
            self._keeper.expect()
            yield

    def answering(self, durable: bool = True) -> AbstractContextManager[None]:
        """As `transaction`, in which participants change by rewards alone: no other is asked."""
        self._file.check_process()
        return self._file.writer.transaction(durable, look=False)

    @property
    def commits(self) -> int:
        """How many commits the rewards and all else took."""
        return self._file.writer.commits

    def _write(self, statement: str, values: tuple[Any, ...]) -> None:
        self._file.run(lambda: self._file.connection.execute(statement, values))

    def _read(self, query: str, values: tuple[Any, ...] = ()) -> list[Any]:
        return self._file.read(query, values)

    def _repeat(self, work: Callable[[], int]) -> int:
        """Do chunks of work, each in a transaction of its own, until one is not full."""
        total = 0
        done = CHUNK
        while done == CHUNK:
            # not in a shared commit: if one decision is refused, all of a chunk stay open
            with nullcontext() if self._file.writer.mine else self.transaction():
                done = self._file.run(work)
            total += done
        return total
