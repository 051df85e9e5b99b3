"""Export of decisions, for off-policy evaluation, whether the agent runs or not."""

from __future__ import annotations

import csv
import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TextIO

from posse.live.store import schema
from posse.live.store.decisions import ARMS, ArmLists, unpack_probabilities
from posse.live.store.file_lock import read_owner
from posse.live.store.records import is_held_out

# fields of a line, after the experiment and the site
FIELDS = (
    "id", "arm", "probability", "allowed", "probabilities", "time", "reward", "settled", "silent",
    "closed", "assumed", "superseded", "inactive", "cancelled", "context", "visitor",
    "uplift", "metrics",
)  # fmt: skip
COLUMNS = ("experiment", "site", *(name for name in FIELDS if name != "uplift"), "holdout")
TEXT = ("experiment", "site", "id", "arm", "visitor")
TABLES = ("context", "metrics")  # JSON objects
FLAGS = ("silent", "superseded", "inactive", "cancelled")  # SQLite has no booleans
# A reward gets its time before it is on disk: the next export begins so many seconds earlier, and
# some decisions come twice.
OVERLAP = 60.0
ROWS_AT_ONCE = 10_000  # of a Parquet file


class Snapshot(NamedTuple):
    """The decisions of one moment of a store, and where the next incremental export begins."""

    decisions: Iterator[dict[str, Any]]
    next_since: float | None  # None: there are no decisions


@contextmanager
def read_snapshot(
    path: str | os.PathLike[str],
    experiment: str | None = None,
    visitor: str | None = None,
    since: float | None = None,
) -> Iterator[Snapshot]:
    """Read the decisions of one experiment or of all, by time, as one moment of the store.

    The agent may be running. visitor: only decisions for this visitor. since: only decisions that
    were made, rewarded or closed at this time (seconds since 1970) or later.
    """
    target = Path(path).resolve()
    if not target.is_file():
        raise ValueError(f"there is no store {path}")
    schema.check_file(target)
    # an own connection: one snapshot of the store, however long the export takes
    with closing(schema.open_connection(target, readonly=True)) as connection:
        connection.execute("BEGIN")
        numbers = _load_experiments(connection)
        if experiment is not None and experiment not in numbers:
            raise ValueError(
                f"{path} has no experiment {experiment!r}: it has {', '.join(numbers) or 'none'}"
            )
        chosen = numbers if experiment is None else {experiment: numbers[experiment]}
        yield Snapshot(_iterate(connection, chosen, visitor, since), _find_next(connection, chosen))


def export_decisions(
    path: str | os.PathLike[str],
    file: TextIO,
    experiment: str | None = None,
    visitor: str | None = None,
) -> int:
    """Write the decisions of one experiment or of all as JSON lines; return their number."""
    with read_snapshot(path, experiment, visitor) as snapshot:
        return write_json_lines(snapshot.decisions, file)


def write_json_lines(decisions: Iterable[Mapping[str, Any]], file: TextIO) -> int:
    """Write a decision on each line; return their number."""
    count = 0
    for decision in decisions:
        file.write(json.dumps(decision, ensure_ascii=False) + "\n")
        count += 1
    return count


def write_csv(decisions: Iterable[Mapping[str, Any]], file: TextIO) -> int:
    """Write a table with a header: text as it is, all else as JSON, null as an empty cell."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(COLUMNS)
    count = 0
    for decision in decisions:
        writer.writerow([_format_cell(name, decision[name]) for name in COLUMNS])
        count += 1
    return count


def _format_cell(name: str, value: Any) -> str:
    if value is None:
        return ""
    return value if name in TEXT else json.dumps(value, ensure_ascii=False)


def write_parquet(decisions: Iterable[Mapping[str, Any]], file: BinaryIO) -> int:
    """Write a Parquet file; lists are lists, context and metrics are JSON text."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise ValueError(
            "Parquet needs pyarrow: pip install 'posse[parquet]', or choose --format csv"
        ) from None
    kinds = {name: pyarrow.string() for name in (*TEXT, *TABLES)}
    kinds |= {name: pyarrow.bool_() for name in (*FLAGS, "holdout")}
    kinds |= {
        "allowed": pyarrow.list_(pyarrow.string()),
        "probabilities": pyarrow.list_(pyarrow.float64()),
    }
    table_schema = pyarrow.schema([(name, kinds.get(name, pyarrow.float64())) for name in COLUMNS])
    count = 0
    rows = iter(decisions)
    with parquet.ParquetWriter(file, table_schema) as writer:
        while batch := list(islice(rows, ROWS_AT_ONCE)):
            lines = [
                {**row, **{name: _encode_table(row[name]) for name in TABLES}} for row in batch
            ]
            writer.write_table(pyarrow.Table.from_pylist(lines, schema=table_schema))
            count += len(batch)
    return count


def _encode_table(table: Any) -> str | None:
    return None if table is None else json.dumps(table, ensure_ascii=False)


def _iterate(
    connection: sqlite3.Connection,
    numbers: Mapping[str, int],
    visitor: str | None,
    since: float | None,
) -> Iterator[dict[str, Any]]:
    """Yield the decisions of some experiments, each in the order of its decisions."""
    site = read_owner(connection)
    chosen = ["experiment = :experiment"]
    if visitor is not None:
        chosen.append("visitor = :visitor")
    if since is not None:
        chosen.append("(time >= :since OR settled >= :since OR closed >= :since)")
    query = (
        f"SELECT {', '.join(FIELDS)} FROM decision WHERE {' AND '.join(chosen)} "
        "ORDER BY time, number"
    )
    for name, number in numbers.items():
        offers = _load_arm_lists(connection, number)
        arguments = {"experiment": number, "visitor": visitor, "since": since}
        for row in connection.execute(query, arguments):
            fields = _decode_fields(dict(zip(FIELDS, row, strict=True)), offers)
            yield {"experiment": name, "site": site, **fields}


def _find_next(connection: sqlite3.Connection, numbers: Mapping[str, int]) -> float | None:
    """Return where the next export begins: a little before the latest time in the store."""
    query = (
        "SELECT max(max(time, ifnull(settled, time), ifnull(closed, time))) FROM decision "
        "WHERE experiment = ?"
    )
    times = [connection.execute(query, (number,)).fetchone()[0] for number in numbers.values()]
    known = [time for time in times if time is not None]
    return max(known) - OVERLAP if known else None


def _decode_fields(fields: dict[str, Any], offers: ArmLists) -> dict[str, Any]:
    """Decode the fields of a row for people: lists, probabilities and context in place of bytes."""
    for flag in FLAGS:
        fields[flag] = bool(fields[flag])
    if fields["allowed"] is not None:
        allowed = fields["allowed"] = offers.decode_allowed(fields["allowed"])
        probabilities = fields["probabilities"] = unpack_probabilities(fields["probabilities"])
        probabilities[allowed.index(fields["arm"])] = fields["probability"]  # stored in full
    for name in TABLES:
        if fields[name] is not None:
            fields[name] = json.loads(fields[name])
    bucket = fields.pop("uplift")
    fields["holdout"] = None if bucket is None else is_held_out(bucket)
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
