"""Export of decisions as JSON lines, for off-policy evaluation, whether the agent runs or not."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, TextIO

from posse.live.store import schema
from posse.live.store.decisions import ARMS, ArmLists, unpack_probabilities
from posse.live.store.file_lock import read_owner

# fields of a line, after the experiment and the site
FIELDS = (
    "id", "arm", "probability", "allowed", "probabilities", "time", "reward", "settled", "silent",
    "closed", "assumed", "superseded", "context",
)  # fmt: skip


def export_decisions(
    path: str | os.PathLike[str], file: TextIO, experiment: str | None = None
) -> int:
    """Write the decisions of one experiment or of all, by time; return their number.

    The lines are one moment of the store (a snapshot); the agent may be running.
    """
    target = Path(path).resolve()
    if not target.is_file():
        raise ValueError(f"there is no store {path}")
    schema.check_file(target)
    count = 0
    # an own connection: one snapshot of the store, however long the export takes
    with closing(schema.open_connection(target, readonly=True)) as connection:
        connection.execute("BEGIN")
        numbers = _load_experiments(connection)
        if experiment is not None and experiment not in numbers:
            raise ValueError(
                f"{path} has no experiment {experiment!r}: it has {', '.join(numbers) or 'none'}"
            )
        site = read_owner(connection)
        columns = ", ".join(FIELDS)
        query = f"SELECT {columns} FROM decision WHERE experiment = ? ORDER BY time, number"
        for name in numbers if experiment is None else [experiment]:
            offers = _load_arm_lists(connection, numbers[name])
            for row in connection.execute(query, (numbers[name],)):
                fields = _decode_fields(dict(zip(FIELDS, row, strict=True)), offers)
                line = {"experiment": name, "site": site, **fields}
                file.write(json.dumps(line, ensure_ascii=False) + "\n")
                count += 1
    return count


def _decode_fields(fields: dict[str, Any], offers: ArmLists) -> dict[str, Any]:
    """Decode the fields of a row for people: lists, probabilities and context in place of bytes."""
    fields["silent"] = bool(fields["silent"])
    fields["superseded"] = bool(fields["superseded"])
    if fields["allowed"] is not None:
        allowed = fields["allowed"] = offers.decode_allowed(fields["allowed"])
        probabilities = fields["probabilities"] = unpack_probabilities(fields["probabilities"])
        probabilities[allowed.index(fields["arm"])] = fields["probability"]  # stored in full
    if fields["context"] is not None:
        fields["context"] = json.loads(fields["context"])
    return fields


def _load_arm_lists(connection: sqlite3.Connection, experiment: int) -> ArmLists:
    """Load the lists of arms that an experiment has had."""
    query = "SELECT value FROM kept WHERE experiment = ? AND key = ?"
    row = connection.execute(query, (experiment, ARMS)).fetchone()
    return ArmLists(row[0] if row else None)


def _load_experiments(connection: sqlite3.Connection) -> dict[str, int]:
    """Load the names in a file with the number of each."""
    rows = connection.execute("SELECT name, number FROM experiment ORDER BY number")
    return {str(name): number for name, number in rows}
