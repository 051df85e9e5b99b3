"""The disk as a commit sees it: the one place where a simulation lets it fail."""

from __future__ import annotations

import sqlite3


class Disk:
    """A disk that works, as well as it does.

    For faults, override a method and raise `sqlite3.OperationalError` in it (a full disk before
    `begin`, a failed write or sync in `commit`): all of that commit is then rolled back. When
    `commit` returns for `durable`, the files at the store's path and at path + "-wal" hold all
    that a power failure leaves; at any other time copies of both are what a kill leaves. A store
    is opened at once from such copies, best in memory (/dev/shm).
    """

    def begin(self, connection: sqlite3.Connection) -> None:
        """Begin a transaction."""
        connection.execute("BEGIN IMMEDIATE")

    def commit(self, connection: sqlite3.Connection, durable: bool) -> None:
        """Commit it; if `durable`, wait until it has reached the disk."""
        connection.execute("COMMIT")
