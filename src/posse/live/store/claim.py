"""Who opens a store, and for which experiment: what a file must fit before it is written to."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass

from posse.live.store.records import text

DEFAULT = "default"  # the experiment that a store of 0.1 holds


@dataclass(frozen=True)
class Claim:
    """An experiment and its fingerprint, or an equal one, and the name of the agent if it has one.

    An experiment that a file does not hold yet fits every file.
    """

    experiment: str
    fingerprint: str
    equal: tuple[str, ...] = ()
    owner: str | None = None

    def __post_init__(self) -> None:
        """Names that a file can hold."""
        text("experiment", self.experiment)
        if self.owner is not None:
            text("owner", self.owner)

    def check(self, connection: sqlite3.Connection, path: str) -> None:
        """Refuse a file of another agent, or of other evidence under the experiment's name."""
        owner = owner_of(connection)
        if self.owner is not None and owner not in (None, self.owner):
            raise ValueError(
                f"{path} is the store of {owner}: set name back to it, or give {self.owner} a "
                "new store"
            )
        stored = _fingerprint(connection, self.experiment)
        if stored is not None and stored not in (self.fingerprint, *self.equal):
            which = "" if self.experiment == DEFAULT else f" in the experiment {self.experiment}"
            raise ValueError(
                f"{path} holds evidence of another exchange, family, prior, reward_range, "
                f"half_life or stop (and with stop reward_window){which} ({stored!r}, and this "
                f"agent is {self.fingerprint!r}): set them back in agent.toml, make another "
                "experiment, or give it a new store"
            )

    def enter(self, connection: sqlite3.Connection) -> tuple[int, str]:
        """The experiment's number and fingerprint, written if new; within a transaction."""
        if self.owner is not None:
            connection.execute("UPDATE agent SET owner = ? WHERE owner IS NULL", (self.owner,))
        connection.execute(
            "INSERT INTO experiment (name, fingerprint) VALUES (?, ?) ON CONFLICT DO NOTHING",
            (self.experiment, self.fingerprint),
        )
        query = "SELECT number, fingerprint FROM experiment WHERE name = ?"
        number, fingerprint = connection.execute(query, (self.experiment,)).fetchone()
        return int(number), str(fingerprint)


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def owner_of(connection: sqlite3.Connection) -> str | None:
    """The name that first opened the file; of origins in 0.1, the one in its evidence."""
    if _version(connection) > 1:
        (owner,) = connection.execute("SELECT owner FROM agent").fetchone()
        if owner is not None:
            return str(owner)
        parts = dict(connection.execute("SELECT part, value FROM exchange WHERE experiment = 1"))
    else:
        parts = dict(connection.execute("SELECT part, value FROM exchange"))
    # flows have an identity that is no name; only origins have incarnations
    return str(json.loads(parts["identity"])) if "incarnation" in parts else None


def _fingerprint(connection: sqlite3.Connection, experiment: str) -> str | None:
    if _version(connection) > 1:
        query = "SELECT fingerprint FROM experiment WHERE name = ?"
        row = connection.execute(query, (experiment,)).fetchone()
    else:
        row = connection.execute("SELECT fingerprint FROM agent").fetchone()
        row = row if experiment == DEFAULT else None
    return None if row is None else str(row[0])
