"""`posse export`: write the decisions and rewards of an agent as JSON lines."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, TextIO

import typer

from posse.cli.common import catch_user_errors, discard_output, require_live_extra

EXAMPLES = """Examples:

posse export berlin.db > decisions.jsonl

posse export berlin.db -o decisions.jsonl

posse export berlin.db --experiment checkout -o checkout.jsonl

posse export berlin.db | jq -s 'map(select(.reward == 1)) | length'"""


def export(
    store: Annotated[Path, typer.Argument(metavar="STORE", help="The agent's store.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Output file, replaced once everything is written."),
    ] = None,
    experiment: Annotated[
        str | None, typer.Option(help="Only the decisions of this experiment.")
    ] = None,
) -> None:
    """Write every decision of an agent, with its propensities and reward, as a line of JSON.

    Experiments follow one another, each in the order of its decisions. The agent may be running:
    the export is a consistent snapshot of its store, and nothing is changed.
    """
    with catch_user_errors(), require_live_extra():
        if output is None:
            _print_decisions(store, experiment)
            return
        # The draft replaces the output only when it is complete: readers never see half an export.
        draft = output.with_name(output.name + ".part")
        try:
            with draft.open("w", encoding="utf-8") as file:
                count = _write_decisions(store, file, experiment)
            draft.replace(output)
        finally:
            draft.unlink(missing_ok=True)
    typer.echo(f"{count} decisions in {output}")


def _print_decisions(store: Path, experiment: str | None) -> None:
    try:
        _write_decisions(store, sys.stdout, experiment)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has closed the pipe, as head does
        discard_output()


def _write_decisions(store: Path, file: TextIO, experiment: str | None) -> int:
    from posse.live.store import export_decisions as write

    return write(store, file, experiment)
