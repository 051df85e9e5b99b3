"""The SQLite schema: atomic creation, integrity check before use, migrations."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from posse.live.store.claim import Claim

APPLICATION = 0x706F7373  # "poss", in the header of the file

# Entry i takes a file from version i to i + 1; a released entry is never changed, only followed.
MIGRATIONS: list[tuple[str, ...]] = [
    (
        "CREATE TABLE agent (fingerprint TEXT NOT NULL, flushed INTEGER NOT NULL DEFAULT 0)",
        "CREATE TABLE exchange (part TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
        # number: the order of arrival, for decisions of the same time
        "CREATE TABLE decision (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, "
        "arm TEXT NOT NULL, probability REAL NOT NULL, time REAL NOT NULL, "
        "reward REAL, settled REAL, silent INTEGER NOT NULL DEFAULT 0)",
        "CREATE INDEX decision_time ON decision (time)",
        "CREATE INDEX decision_open ON decision (time) WHERE settled IS NULL",
    ),
    (
        # several experiments; what 0.1 kept is the one that it had
        "CREATE TABLE experiment (number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, "
        "fingerprint TEXT NOT NULL)",
        "INSERT INTO experiment SELECT 1, 'default', fingerprint FROM agent",
        # owner: the agent's name, once one has opened it
        "ALTER TABLE agent RENAME TO agent_1",
        "CREATE TABLE agent (owner TEXT, flushed INTEGER NOT NULL DEFAULT 0)",
        "INSERT INTO agent SELECT NULL, flushed FROM agent_1",
        "DROP TABLE agent_1",
        "ALTER TABLE exchange RENAME TO exchange_1",
        # with rows, or all above 1 kB would overflow: a changed entry should write one page
        "CREATE TABLE exchange (number INTEGER PRIMARY KEY, experiment INTEGER NOT NULL, "
        "part TEXT NOT NULL, value TEXT NOT NULL, UNIQUE (experiment, part))",
        "INSERT INTO exchange SELECT NULL, 1, part, value FROM exchange_1",
        "DROP TABLE exchange_1",
        "CREATE TABLE kept (experiment INTEGER NOT NULL, key TEXT NOT NULL, "
        "value BLOB NOT NULL, PRIMARY KEY (experiment, key)) WITHOUT ROWID",
        "ALTER TABLE decision RENAME TO decision_1",
        "CREATE TABLE decision (number INTEGER PRIMARY KEY, experiment INTEGER NOT NULL, "
        "id TEXT NOT NULL, arm TEXT NOT NULL, probability REAL NOT NULL, time REAL NOT NULL, "
        "reward REAL, settled REAL, silent INTEGER NOT NULL DEFAULT 0, UNIQUE (experiment, id))",
        "INSERT INTO decision SELECT number, 1, id, arm, probability, time, reward, settled, "
        "silent FROM decision_1 ORDER BY number",
        "DROP TABLE decision_1",
        "CREATE INDEX decision_time ON decision (experiment, time)",
        "CREATE INDEX decision_open ON decision (experiment, time) WHERE settled IS NULL",
    ),
    (
        # rewards that come late: what was counted from the start, and when it became final.
        # Whatever was settled is; what is open counts when it is settled, as it did
        "ALTER TABLE decision ADD COLUMN assumed REAL",
        "ALTER TABLE decision ADD COLUMN closed REAL",
        "ALTER TABLE decision ADD COLUMN made INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE decision ADD COLUMN void INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE decision ADD COLUMN allowed TEXT",
        "ALTER TABLE decision ADD COLUMN probabilities BLOB",
        "UPDATE decision SET closed = settled WHERE settled IS NOT NULL",
        "DROP INDEX decision_open",
        "CREATE INDEX decision_open ON decision (experiment, time) WHERE closed IS NULL",
    ),
    (
        # the past. With rows: what comes last is written last, and pages are filled
        "CREATE TABLE history (number INTEGER PRIMARY KEY, experiment INTEGER NOT NULL, "
        "scale INTEGER NOT NULL, time INTEGER NOT NULL, arms INTEGER NOT NULL, "
        "point BLOB NOT NULL, UNIQUE (experiment, scale, time))",
        "CREATE TABLE event (number INTEGER PRIMARY KEY, experiment INTEGER NOT NULL, "
        "time REAL NOT NULL, kind TEXT NOT NULL, text TEXT NOT NULL)",
        "CREATE INDEX event_experiment ON event (experiment)",
    ),
    (
        # what was known of the visitor, and where a reward counted from the start was linearised
        "ALTER TABLE decision ADD COLUMN context TEXT",
        "ALTER TABLE decision ADD COLUMN log_odds REAL",
    ),
]


def connect(path: Path, *, readonly: bool = False) -> sqlite3.Connection:
    """Connect to a file that is there, with commits that wait for the disk."""
    mode = "ro" if readonly else "rw"
    connection = sqlite3.connect(
        f"{path.as_uri()}?mode={mode}", uri=True, isolation_level=None, check_same_thread=False
    )
    try:
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA fullfsync=1")  # on macOS a plain fsync does not reach the disk
    except BaseException:
        connection.close()
        raise
    return connection


def create(path: Path) -> None:
    """Make a new file under another name, so that a crash leaves it whole or not there."""
    left = path.with_name(path.name + "-wal")
    if left.exists() and left.stat().st_size:  # SQLite would replay it into the new file
        raise ValueError(f"{path} is gone but {left} is there: bring it back or move that away")
    fresh = path.with_name(path.name + ".new")
    for name in (fresh, fresh.with_name(fresh.name + "-journal")):
        name.unlink(missing_ok=True)
    fresh.touch(0o600)  # it tells what every visitor was shown
    with closing(connect(fresh)) as connection:
        connection.execute(f"PRAGMA application_id={APPLICATION}")
        migrate(connection)
        connection.execute("INSERT INTO agent (owner) VALUES (NULL)")
        connection.execute("PRAGMA journal_mode=WAL")
    fresh.replace(path)
    if os.name == "posix":  # elsewhere folders cannot be flushed
        handle = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def check(path: Path, claim: Claim | None = None) -> None:
    """Refuse a file that is damaged, foreign, newer or of another agent, without writing to it."""
    damaged = f"{path} is damaged or no store ({{}}): move it away or name another"
    try:
        size = path.stat().st_size
        with closing(connect(path, readonly=True)) as connection:
            found = [str(row[0]) for row in connection.execute("PRAGMA quick_check(1)")]
            if found != ["ok"]:
                raise ValueError(damaged.format(" ".join(found[0].split())))
            page, application, version = (
                connection.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("page_size", "application_id", "user_version")
            )
            wal = path.with_name(path.name + "-wal")
            # with a WAL the last page may be half written, and is read from there
            if size == 0 or (size % page and not (wal.exists() and wal.stat().st_size)):
                raise ValueError(damaged.format("it is cut short"))
            if application != APPLICATION:
                raise ValueError(f"{path} is a SQLite file but no store of Posse: name another")
            if version > len(MIGRATIONS):
                raise ValueError(
                    f"{path} was written by a newer Posse (schema {version}, known up to "
                    f"{len(MIGRATIONS)}): upgrade Posse or start a new store"
                )
            if claim is not None:
                claim.check(connection, str(path))
    except (sqlite3.DatabaseError, TypeError) as error:
        # a file that cannot be read now, on a full disk for one, is not a damaged one
        if isinstance(error, sqlite3.OperationalError) and error.sqlite_errorcode & 0xFF in (
            sqlite3.SQLITE_BUSY,
            sqlite3.SQLITE_CANTOPEN,
            sqlite3.SQLITE_FULL,
            sqlite3.SQLITE_IOERR,
            sqlite3.SQLITE_PERM,
        ):
            raise ValueError(
                f"{path} cannot be read ({error}): see to the disk, its space and permissions"
            ) from error
        raise ValueError(damaged.format(error)) from error


def migrate(connection: sqlite3.Connection) -> None:
    """Bring a file to the newest version, wholly or not at all."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version == len(MIGRATIONS):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        for statements in MIGRATIONS[version:]:
            for statement in statements:
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version={len(MIGRATIONS)}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
