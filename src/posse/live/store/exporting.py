"""Export: the decisions of a store as JSON lines, whether its agent runs or not."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TextIO

from posse.live.store import schema
from posse.live.store.claim import DEFAULT

COLUMNS = "id, arm, probability, time, reward, settled, silent"


def export(path: str | os.PathLike[str], file: TextIO, experiment: str | None = None) -> int:
    """Write the decisions of one experiment, or of one after the other, in order of their times.

    What is written is one moment of the store; the agent may be running.
    """
    target = Path(path).resolve()
    if not target.is_file():
        raise ValueError(f"there is no store {path}")
    schema.check(target)
    count = 0
    # a connection of its own: one moment of the store, however long it takes
    with closing(schema.connect(target, readonly=True)) as connection:
        connection.execute("BEGIN")
        known = _experiments(connection)
        if experiment is not None and experiment not in known:
            raise ValueError(
                f"{path} has no experiment {experiment!r}: it has {', '.join(known) or 'none'}"
            )
        for name in known if experiment is None else [experiment]:
            where, values = known[name]
            query = f"SELECT {COLUMNS} FROM decision {where} ORDER BY time, number"
            for row in connection.execute(query, values):
                fields = dict(zip(COLUMNS.split(", "), row, strict=True))
                fields["silent"] = bool(fields["silent"])
                line = json.dumps({"experiment": name, **fields}, ensure_ascii=False)
                file.write(line + "\n")
                count += 1
    return count


def _experiments(connection: sqlite3.Connection) -> dict[str, tuple[str, tuple[int, ...]]]:
    """The names in a file, and how to find the decisions of each; one of 0.1 is left as it is."""
    if connection.execute("PRAGMA user_version").fetchone() == (1,):
        return {DEFAULT: ("", ())}
    rows = connection.execute("SELECT name, number FROM experiment ORDER BY number")
    return {str(name): ("WHERE experiment = ?", (number,)) for name, number in rows}
