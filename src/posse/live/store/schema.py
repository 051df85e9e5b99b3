"""The SQLite schema: atomic creation, and checks of integrity and version before use."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from posse.live.store.file_lock import StoreClaim

APPLICATION = 0x706F7373  # "poss", in the header of the file

VERSION = 4  # of the schema, in the header of the file
PREVIOUS = 3  # read, too, and raised at the start; any other is refused

SCHEMA = (
    # owner: the agent's name, once one has opened it
    "CREATE TABLE agent (owner TEXT, flushed INTEGER NOT NULL DEFAULT 0)",
    "CREATE TABLE experiment (number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, "
    "fingerprint TEXT NOT NULL)",
    # with row ids, else values above 1 kB would overflow: a changed entry should write one page
    "CREATE TABLE exchange (number INTEGER PRIMARY KEY, experiment INTEGER NOT NULL, "
    "part TEXT NOT NULL, value TEXT NOT NULL, UNIQUE (experiment, part))",
    "CREATE TABLE kept (experiment INTEGER NOT NULL, key TEXT NOT NULL, "
    "value BLOB NOT NULL, PRIMARY KEY (experiment, key)) WITHOUT ROWID",
    # number: the order of arrival, for decisions of the same time; assumed: what was counted from
    # the start, log_odds: where that was linearised; closed: when the reward became final
    "CREATE TABLE decision (number INTEGER PRIMARY KEY, experiment INTEGER NOT NULL, "
    "id TEXT NOT NULL, arm TEXT NOT NULL, probability REAL NOT NULL, time REAL NOT NULL, "
    "reward REAL, settled REAL, silent INTEGER NOT NULL DEFAULT 0, assumed REAL, closed REAL, "
    "incarnation INTEGER NOT NULL DEFAULT 0, superseded INTEGER NOT NULL DEFAULT 0, "
    "inactive INTEGER NOT NULL DEFAULT 0, cancelled INTEGER NOT NULL DEFAULT 0, allowed TEXT, "
    "probabilities BLOB, context TEXT, log_odds REAL, visitor TEXT, "
    "uplift INTEGER, metrics TEXT, UNIQUE (experiment, id))",
    "CREATE INDEX decision_time ON decision (experiment, time)",
    "CREATE INDEX decision_open ON decision (experiment, time) WHERE closed IS NULL",
    "CREATE INDEX decision_inactive ON decision (experiment, time) "
    "WHERE closed IS NULL AND inactive = 1",
    "CREATE INDEX decision_visitor ON decision (experiment, visitor, time) "
    "WHERE visitor IS NOT NULL",
    # the past. With rows: what comes last is written last, and pages are filled
    "CREATE TABLE history (number INTEGER PRIMARY KEY, experiment INTEGER NOT NULL, "
    "scale INTEGER NOT NULL, time INTEGER NOT NULL, arms INTEGER NOT NULL, "
    "point BLOB NOT NULL, UNIQUE (experiment, scale, time))",
    "CREATE TABLE event (number INTEGER PRIMARY KEY, experiment INTEGER NOT NULL, "
    "time REAL NOT NULL, kind TEXT NOT NULL, text TEXT NOT NULL)",
    "CREATE INDEX event_experiment ON event (experiment)",
    "INSERT INTO agent (owner) VALUES (NULL)",
)


def open_connection(path: Path, *, readonly: bool = False) -> sqlite3.Connection:
    """Open an existing file, with commits that wait for the disk."""
    mode = "ro" if readonly else "rw"
    connection = sqlite3.connect(
        f"{path.as_uri()}?mode={mode}", uri=True, isolation_level=None, check_same_thread=False
    )
    try:
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA fullfsync=1")  # on macOS a plain fsync does not reach the disk
        # deleted decisions are overwritten with zeros: who was shown what must be erasable
        connection.execute("PRAGMA secure_delete=ON")
    except BaseException:
        connection.close()
        raise
    return connection


def create_file(path: Path) -> None:
    """Create a file under another name first, so that a crash leaves a whole file or none."""
    leftover = path.with_name(path.name + "-wal")
    if leftover.exists() and leftover.stat().st_size:  # SQLite would replay it into the new file
        raise ValueError(
            f"{path} is missing but {leftover} exists: restore {path.name} or move "
            f"{leftover.name} away"
        )
    new_path = path.with_name(path.name + ".new")
    for name in (new_path, new_path.with_name(new_path.name + "-journal")):
        name.unlink(missing_ok=True)
    new_path.touch(0o600)  # private: it records what every visitor was shown
    with closing(open_connection(new_path)) as connection:
        connection.execute(f"PRAGMA application_id={APPLICATION}")
        connection.execute("BEGIN IMMEDIATE")
        for statement in SCHEMA:
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version={VERSION}")
        connection.execute("COMMIT")
        connection.execute("PRAGMA journal_mode=WAL")
    new_path.replace(path)
    if os.name == "posix":  # elsewhere folders cannot be flushed
        handle = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def raise_version(connection: sqlite3.Connection) -> None:
    """Mark a file of the previous version, which must not be opened by the previous Posse again."""
    if connection.execute("PRAGMA user_version").fetchone() != (VERSION,):
        connection.execute(f"PRAGMA user_version={VERSION}")


def check_file(path: Path, claim: StoreClaim | None = None) -> None:
    """Refuse a file that is damaged, foreign, or of another version or agent."""
    damaged = f"{path} is damaged or not a store ({{}}): move it away or use another"
    try:
        size = path.stat().st_size
        with closing(open_connection(path, readonly=True)) as connection:
            problems = [str(row[0]) for row in connection.execute("PRAGMA quick_check(1)")]
            if problems != ["ok"]:
                raise ValueError(damaged.format(" ".join(problems[0].split())))
            page, application, version = (
                connection.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("page_size", "application_id", "user_version")
            )
            wal = path.with_name(path.name + "-wal")
            # with a WAL the last page may be half written, and is read from there
            if size == 0 or (size % page and not (wal.exists() and wal.stat().st_size)):
                raise ValueError(damaged.format("it is truncated"))
            if application != APPLICATION:
                raise ValueError(f"{path} is a SQLite file but not a store of Posse: use another")
            if version not in (PREVIOUS, VERSION):
                raise ValueError(
                    f"{path} has schema {version} and this Posse reads schema {VERSION}: start "
                    "the agent with the Posse that wrote it, or give it a new store"
                )
            if claim is not None:
                claim.check_file(connection, str(path))
    except (sqlite3.DatabaseError, TypeError) as error:
        # a file that cannot be read now, e.g. on a full disk, is not damaged
        if isinstance(error, sqlite3.OperationalError) and error.sqlite_errorcode & 0xFF in (
            sqlite3.SQLITE_BUSY,
            sqlite3.SQLITE_CANTOPEN,
            sqlite3.SQLITE_FULL,
            sqlite3.SQLITE_IOERR,
            sqlite3.SQLITE_PERM,
        ):
            raise ValueError(
                f"{path} cannot be read ({error}): check the disk, its space and permissions"
            ) from error
        raise ValueError(damaged.format(error)) from error
