"""Who opens a store, and for which experiment: what a file must fit before it is written to."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from posse.live.store.records import text

DEFAULT = "default"  # the experiment of files without tables of experiments


@dataclass(frozen=True)
class Claim:
    """An experiment and its fingerprint, and the name of the agent if it has one.

    equal: further fingerprints that a file may hold in its place; it keeps the one that it holds.
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
            wanted = _version_of(self.fingerprint)
            if _version_of(stored) != wanted:
                raise ValueError(
                    f"{path} has fingerprints of version {_version_of(stored)} and this Posse "
                    f"reads version {wanted}: start the agent with the Posse that wrote it, or "
                    "give it a new store"
                )
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


def _version_of(fingerprint: str) -> str:
    """The version at the head of a fingerprint, such as 1 of '1-9f86'."""
    version, dash, _ = fingerprint.partition("-")
    return version if dash else "none"


def owner_of(connection: sqlite3.Connection) -> str | None:
    """The name of the agent that first opened the file, if it had one."""
    (owner,) = connection.execute("SELECT owner FROM agent").fetchone()
    return None if owner is None else str(owner)


def _fingerprint(connection: sqlite3.Connection, experiment: str) -> str | None:
    query = "SELECT fingerprint FROM experiment WHERE name = ?"
    row = connection.execute(query, (experiment,)).fetchone()
    return None if row is None else str(row[0])
