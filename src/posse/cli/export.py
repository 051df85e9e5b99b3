"""`posse export`: the decisions and rewards of an agent, as JSON lines."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, TextIO

import typer

from posse.cli.common import drop_output, live, mistakes

EXAMPLES = """Examples:

posse export berlin.db > decisions.jsonl

posse export berlin.db -o decisions.jsonl

posse export berlin.db --experiment checkout -o checkout.jsonl

posse export berlin.db | jq -s 'map(select(.reward == 1)) | length'"""


def export(
    store: Annotated[Path, typer.Argument(metavar="STORE", help="The agent's store.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A file, replaced when all is written.")
    ] = None,
    experiment: Annotated[
        str | None, typer.Option(help="The decisions of this experiment only.")
    ] = None,
) -> None:
    """Write every decision of an agent, with its probabilities and reward, as a line of JSON.

    One experiment after the other, each in the order of its decisions' times. The agent may be
    running: what is written is one moment of its store, and nothing is changed.
    """
    with mistakes(), live():
        if output is None:
            _print(store, experiment)
            return
        draft = output.with_name(output.name + ".part")
        try:
            with draft.open("w", encoding="utf-8") as file:
                count = _write(store, file, experiment)
            draft.replace(output)
        finally:
            draft.unlink(missing_ok=True)
    typer.echo(f"{count} decisions in {output}")


def _print(store: Path, experiment: str | None) -> None:
    try:
        _write(store, sys.stdout, experiment)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has seen enough, such as head
        drop_output()


def _write(store: Path, file: TextIO, experiment: str | None) -> int:
    from posse.live.store import export_decisions as write

    return write(store, file, experiment)
