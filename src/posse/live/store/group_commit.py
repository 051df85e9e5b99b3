"""Group commit: concurrent writers share one commit and wait until it is on disk.

There is no thread and no timer. The first writer commits at once; writers that arrive meanwhile
queue, and the first of them commits for all. Turns follow the order of arrival: otherwise a writer
that returns at once would always precede those that have to be woken.
"""

from __future__ import annotations

import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar, cast

from posse.live.store.file_lock import StoreMoved
from posse.live.store.transactions import ParticipantStates


class Disk:
    """The disk as a commit sees it: the one place where a simulation injects faults.

    For faults, override a method and raise `sqlite3.OperationalError` in it (a full disk before
    `begin`, a failed write or sync in `commit`): all of that commit is then rolled back. When
    `commit` returns for `durable`, the files at the store's path and at path + "-wal" contain all
    that a power failure leaves; at any other time copies of both are what a kill leaves. A store
    opens from such copies at once, best in memory (/dev/shm).
    """

    def begin(self, connection: sqlite3.Connection) -> None:
        """Begin a transaction."""
        connection.execute("BEGIN IMMEDIATE")

    def commit(self, connection: sqlite3.Connection, durable: bool) -> None:
        """Commit it; if `durable`, wait until it has reached the disk."""
        connection.execute("COMMIT")


T = TypeVar("T")

TRUNCATE = "PRAGMA wal_checkpoint(TRUNCATE)"
FLUSH = "UPDATE agent SET flushed = flushed + 1"  # SQLite syncs no commit that changes no byte


class StoreError(RuntimeError):
    """The store could not write; nothing of the request was stored, and it may be repeated."""


class _Job:
    """A piece of work in the queue, and its result."""

    def __init__(self, work: Callable[[], Any] = lambda: None, durable: bool = True) -> None:
        self.work = work
        self.durable = durable
        self.done = False
        self.result: Any = None
        self.error: Exception | None = None


class Writer:
    """The only writer of `connection`, one transaction at a time."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        name: str,
        hooks: ParticipantStates,
        disk: Disk,
        place: Callable[[], None],  # raises StoreMoved
    ) -> None:
        self.connection = connection
        self.commits = 0
        # Whether a power failure would undo the last commit. True at first: a process that was
        # killed while it waited for the disk left commits that it had not acknowledged.
        self.ahead_of_disk = True
        self._durable = True  # the present mode of the connection
        self._suspect = False  # the disk failed, and may have dropped earlier pages
        self._name = name
        self.participants = hooks
        self._disk = disk
        self._check_file_location = place
        # Invariant: at most one thread is between `_busy = True` and `_pass_turn`, and only this
        # thread writes. A job is done only after its commit, so that a caller that returns has what
        # was promised: memory and disk agree, and the disk is synced if the job was durable.
        self._turn = threading.Condition()
        self._busy = False
        self._closed = False
        self._owner: int | None = None  # the thread inside `transaction`
        self._failed: Exception | None = None  # why it can only be rolled back
        self._must_reach_disk = False  # some work in it must be on disk when it ends
        self.queue: list[_Job] = []
        self.waiting: deque[_Job] = deque()  # jobs in order of arrival: queued, or to run alone

    @property
    def in_transaction(self) -> bool:
        """Whether this thread is inside `transaction`."""
        return self._owner == threading.get_ident()

    def run_in_commit(self, work: Callable[[], T], durable: bool = True) -> T:
        """Run `work` in this thread's transaction, or in a shared one that is then on disk.

        Work raises before it writes, or fails as SQLite does: then the whole commit fails. Work
        that need not be `durable` survives the process at once, and a power failure when a later
        commit is on disk.
        """
        if self.in_transaction:
            self._must_reach_disk |= durable
            return self._run_joined(work)
        job = _Job(work, durable)
        with self._turn:
            self._check_open()
            self.queue.append(job)
            self._wait_for_turn(job)
            # Either another thread has done this job in its batch, or it is our turn: then we
            # take the whole queue, and our commit is that of all who wait.
            if not job.done:
                self._check_open()
                self._busy = True
                batch = self.queue
                self.queue = []
        if not job.done:
            try:
                self._commit_batch(batch)
            finally:
                self._pass_turn(batch)
        if job.error is not None:
            raise job.error
        return cast(T, job.result)

    @contextmanager
    def transaction(self, durable: bool = True, mark_dirty: bool = True) -> Iterator[None]:
        """Commit all writes of this thread within, or none of them.

        If it is not `durable` but some work in it is, a second commit waits for the disk.
        mark_dirty: whether every participant is asked for changes, also one that had no reward.
        """
        with self._turn:
            self._wait_for_turn(_Job())
            self._check_open()
            self._busy = True
        try:
            with self._attempt_commit(durable):
                if mark_dirty:
                    self.participants.mark_all_dirty()
                self._owner = threading.get_ident()
                self._failed = None
                self._must_reach_disk = False
                try:
                    yield
                    if self._failed is not None:
                        raise self._failed
                    self.participants.before_commit()
                finally:
                    self._owner = None
            # Work within asked for the disk after the mode was chosen. The sync of this second
            # commit covers all earlier ones in the log.
            if self._must_reach_disk and self.ahead_of_disk:
                with self._attempt_commit(durable=True):
                    self.connection.execute(FLUSH)
        except (sqlite3.Error, StoreMoved) as error:
            raise self._explain_error(error) from error
        finally:
            self._pass_turn([])

    def truncate_log(self) -> bool:
        """Move the log into the file and empty it, at once; False if a reader prevents that."""
        return self._truncate_after("SELECT 1")

    def rewrite_file(self) -> bool:
        """Write all pages of the file anew and empty its log; False if a reader prevents that."""
        return self._truncate_after("VACUUM")

    def _truncate_after(self, statement: str) -> bool:
        """Run a statement outside of transactions, in this thread's turn, then empty the log."""
        with self._turn:
            self._wait_for_turn(_Job())
            self._check_open()
            self._busy = True
        try:
            self._check_file_location()
            self._set_durability(True)
            self.connection.execute(statement)
            # Nobody waits for a reader here: requests wait for this turn.
            (patience,) = self.connection.execute("PRAGMA busy_timeout").fetchone()
            self.connection.execute("PRAGMA busy_timeout=0")
            try:
                (busy, _, _) = self.connection.execute(TRUNCATE).fetchone()
            finally:
                self.connection.execute(f"PRAGMA busy_timeout={patience}")
            return not busy
        except (sqlite3.Error, StoreMoved) as error:
            if _error_code(error) == sqlite3.SQLITE_BUSY:
                return False
            raise self._explain_error(error) from error
        finally:
            self._pass_turn([])

    def check_location(self) -> None:
        """Raise if the file is no longer where it was opened."""
        try:
            self._check_file_location()
        except StoreMoved as error:
            raise self._explain_error(error) from error

    def close(self, last: Callable[[], None]) -> None:
        """Wait for the turn, run `last`, and refuse all later work."""
        with self._turn:
            self._wait_for_turn(_Job())
            if self._closed:
                return
            self._closed = True
            try:
                self._set_durability(True)
                last()
            finally:
                self.connection.close()
                self._turn.notify_all()

    def _wait_for_turn(self, job: _Job) -> None:
        """Wait for the turn, or until another thread did the job or closed the store."""
        if self.in_transaction:  # it would wait for itself (deadlock)
            raise StoreError(f"{self._name} is in a transaction of this thread: end it first")
        if not (self._busy or self.waiting):
            return
        self.waiting.append(job)
        try:
            while not (job.done or self._closed) and (self._busy or self.waiting[0] is not job):
                self._turn.wait()
        except BaseException:
            self._turn.notify_all()  # the next in line may have been woken for nothing
            raise
        finally:
            if not job.done:
                self.waiting.remove(job)

    def _check_open(self) -> None:
        """Refuse to work on a closed store."""
        if self._closed:
            raise StoreError(f"{self._name} is closed: open it again")

    def _run_joined(self, work: Callable[[], T]) -> T:
        """Run `work` in the open transaction, which an error of SQLite spoils."""
        # SQLite may have ended the transaction: a write would now commit alone
        if self._failed is not None:
            raise self._failed
        try:
            return work()
        except sqlite3.Error as error:
            self._failed = self._explain_error(error)
            raise self._failed from error

    def _commit_batch(self, batch: list[_Job]) -> None:
        """Run a batch in one transaction; if the commit fails, every job fails."""
        try:
            with self._attempt_commit(any(job.durable for job in batch)):
                for job in batch:
                    try:
                        job.result = job.work()
                    except sqlite3.Error:
                        raise
                    except Exception as error:  # raised before it wrote: concerns its caller only
                        job.error = error
                self.participants.before_commit()
        except BaseException as error:
            for job in batch:
                if job.error is None:
                    job.error = self._explain_error(error)
                    job.error.__cause__ = error
            if not isinstance(error, Exception):
                raise

    @contextmanager
    def _attempt_commit(self, durable: bool) -> Iterator[None]:
        """Begin, then commit, or restore everything as it was, in memory too."""
        committed = False
        before = self.connection.total_changes
        try:
            self._set_durability(durable)
            self._rewrite_suspect_log()
            self._disk.begin(self.connection)
            yield
            # Checked after the work and right before COMMIT: if the file was replaced meanwhile,
            # another agent may own the path by now (split brain), and nothing may be acknowledged.
            self._check_file_location()
            self._disk.commit(self.connection, durable)
            committed = True
            if self.connection.total_changes != before:  # else nothing was synced
                self.ahead_of_disk = not durable
            self.commits += 1
        except sqlite3.Error as error:
            self._suspect |= _error_code(error) == sqlite3.SQLITE_IOERR
            raise
        finally:
            if not committed:
                with suppress(sqlite3.Error):  # SQLite may have rolled back by itself
                    self.connection.execute("ROLLBACK")
            # Only now the outcome is known: memory follows the disk, never the reverse.
            self.participants.after_commit(committed)

    def _set_durability(self, durable: bool) -> None:
        """Set whether commits wait for the disk; one that does also waits for all earlier ones."""
        if durable != self._durable:
            self.connection.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
            self._durable = durable

    def _rewrite_suspect_log(self) -> None:
        """Write everything again after a failed write or sync, before anything is added.

        A system may drop pages that it could not write and report no error the next time: then all
        that follows in the log would be unreadable after a power failure.
        """
        if self._suspect:
            busy, _, _ = self.connection.execute(TRUNCATE).fetchone()
            if busy:
                raise sqlite3.OperationalError("the disk failed, and a reader is still active")
            self._suspect = False

    def _pass_turn(self, batch: list[_Job]) -> None:
        """Pass the turn to the next in line, and the results to the callers of the batch."""
        with self._turn:
            self._busy = False
            for job in batch:
                job.done = True
            if self.waiting:
                self.waiting = deque(job for job in self.waiting if not job.done)
                self._turn.notify_all()

    def _explain_error(self, error: BaseException) -> StoreError:
        """Explain in one line what went wrong and what to do."""
        if isinstance(error, StoreMoved):
            return StoreError(str(error))
        full = _error_code(error) == sqlite3.SQLITE_FULL
        advice = "free some space and retry" if full else "check the disk and retry"
        return StoreError(f"{self._name} could not be written ({error}): {advice}")


def _error_code(error: BaseException) -> int | None:
    """Return the primary code of an SQLite error."""
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else int(code) & 0xFF
