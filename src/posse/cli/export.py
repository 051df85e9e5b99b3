"""`posse export`: write the decisions and rewards of an agent for analysis."""

from __future__ import annotations

import math
import sys
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import IO, Annotated, Any

import typer

from posse.cli.common import UserError, catch_user_errors, discard_output, require_live_extra

EXAMPLES = """Examples:

posse export berlin.db > decisions.jsonl

posse export berlin.db -o decisions.parquet

posse export berlin.db --since 2026-11-01 --format csv -o november.csv

posse export berlin.db --experiment checkout -o checkout.jsonl

posse export berlin.db --visitor u-17 -o u-17.jsonl

posse export berlin.db | jq -s 'map(select(.reward == 1)) | length'"""


class Format(StrEnum):
    """A file format of exports."""

    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"


def export(
    store: Annotated[Path, typer.Argument(metavar="STORE", help="The agent's store.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Output file, replaced once everything is written."),
    ] = None,
    experiment: Annotated[
        str | None, typer.Option(help="Only the decisions of this experiment.")
    ] = None,
    visitor: Annotated[
        str | None, typer.Option(help="Only the decisions for this visitor.")
    ] = None,
    format: Annotated[
        Format | None,
        typer.Option(
            help="jsonl, csv or parquet; if not given, by the output's ending, else jsonl."
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Only decisions made, rewarded or closed since then: a date such as 2026-11-01, a "
            "time in UTC such as 2026-11-01T12:30, or seconds since 1970.",
        ),
    ] = None,
) -> None:
    """Write every decision of an agent, with its propensities and reward, as a line or a row.

    Experiments follow one another, each in the order of its decisions. The agent may be running:
    the export is a consistent snapshot of its store, and nothing is changed. With --since, the
    command prints the value of --since for the next export. A decision comes again whenever it has
    changed, so replace rows of the same experiment, site and id.
    """
    with catch_user_errors(), require_live_extra():
        kind = _choose_format(format, output)
        selection = {
            "experiment": experiment,
            "visitor": visitor,
            "since": None if since is None else parse_time(since),
        }
        if output is None:
            if kind is Format.PARQUET:
                raise UserError("Parquet is not text: name a file, -o decisions.parquet")
            following = _print_decisions(store, selection, kind)
        else:
            following = _write_file(store, output, selection, kind)
    if since is not None and following is not None:
        typer.echo(f"next: --since {following:.3f}", err=True)


def parse_time(text: str) -> float:
    """Parse a time: seconds since 1970, or a date or time of ISO 8601, in UTC if it has no zone."""
    refusal = ValueError(
        f"--since must be a time such as 2026-11-01, 2026-11-01T12:30 or seconds since 1970, "
        f"got {text!r}"
    )
    try:
        seconds = float(text)
    except ValueError:
        pass
    else:
        if not math.isfinite(seconds):
            raise refusal
        return seconds
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise refusal from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _choose_format(chosen: Format | None, output: Path | None) -> Format:
    if chosen is not None:
        return chosen
    ending = "" if output is None else output.suffix.removeprefix(".")
    return Format(ending) if ending in set(Format) else Format.JSONL


def _write_file(store: Path, output: Path, selection: dict[str, Any], kind: Format) -> float | None:
    # The draft replaces the output only when it is complete: readers never see half an export.
    draft = output.with_name(output.name + ".part")
    try:
        text = {} if kind is Format.PARQUET else {"encoding": "utf-8", "newline": ""}
        with draft.open("wb" if kind is Format.PARQUET else "w", **text) as file:  # type: ignore[call-overload]
            count, following = _write_decisions(store, file, selection, kind)
        draft.replace(output)
    finally:
        draft.unlink(missing_ok=True)
    typer.echo(f"{count} decisions in {output}")
    return following


def _print_decisions(store: Path, selection: dict[str, Any], kind: Format) -> float | None:
    following = None
    try:
        _, following = _write_decisions(store, sys.stdout, selection, kind)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has closed the pipe, as head does
        discard_output()
    return following


def _write_decisions(
    store: Path, file: IO[Any], selection: dict[str, Any], kind: Format
) -> tuple[int, float | None]:
    """Write the decisions; return their number and where the next export begins."""
    from posse.live.store import read_snapshot, write_csv, write_json_lines, write_parquet

    writers: dict[Format, Any] = {
        Format.JSONL: write_json_lines,
        Format.CSV: write_csv,
        Format.PARQUET: write_parquet,
    }
    with read_snapshot(store, **selection) as snapshot:
        return writers[kind](snapshot.decisions, file), snapshot.next_since
