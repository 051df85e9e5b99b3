"""`posse status`: what live agents know, and how their neighbours are."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from posse.cli.common import Mistake, live, mistakes, token_in
from posse.cli.operators import Verify
from posse.cli.status_queries import Inquiry
from posse.cli.status_tables import Overview, printable

EXAMPLES = """Examples:

posse status http://127.0.0.1:8700

posse status http://127.0.0.1:8700 http://127.0.0.1:8701 --experiment checkout

posse status http://127.0.0.1:8700 --context country=de --context returning=true

posse status https://berlin.example.org:8700 --token-file token --watch

posse status http://127.0.0.1:8700 --json | jq '.agents[0].experiments'"""


def status(
    urls: Annotated[list[str], typer.Argument(metavar="URL", help="Where an agent answers.")],
    watch: Annotated[
        bool,
        typer.Option("--watch", help="Every second, with the last hours drawn, until Ctrl-C."),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON document, for programs.")
    ] = False,
    experiment: Annotated[str | None, typer.Option(help="This one alone, of several.")] = None,
    context: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="For visitors of whom this is known."),
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option("--token-file", help="The file that agent.toml calls http_token.")
    ] = None,
    verify: Verify = None,
) -> None:
    """Show agents' arms, experiment by experiment, and neighbours as tables.

    With --json an agent that does not answer is an entry with an error, and the exit code is 1.
    """
    with mistakes(), live(), ExitStack() as open_:
        if watch and as_json:
            raise Mistake("--json is one document: leave --watch out, and ask again")
        token = None if token_file is None else token_in(token_file)
        # one more attempt, for an agent that is just starting again
        options = {"timeout": 3.0, "attempts": 2, "token": token, "verify": verify}
        at = dict(map(_pair, context or []))
        agents = [Inquiry(url, experiment, options, open_, past=watch, at=at) for url in urls]
        if as_json:
            print_json(agents)
            return
        if hasattr(sys.stdout, "reconfigure"):  # names of others may not fit its encoding
            sys.stdout.reconfigure(errors="replace")
        if watch:
            watched(agents)
        else:
            print_tables(agents)


def _pair(text: str) -> tuple[str, str]:
    """Of NAME=VALUE both."""
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise Mistake(f"--context must be NAME=VALUE, such as country=de, got {text}")
    return name, value


def print_json(agents: Sequence[Inquiry]) -> None:
    """One document of all agents; exit code 1 if one of them does not answer."""
    found = []
    failed = False
    for each in agents:
        try:
            found.append(each.ask().plain())
        except Mistake as error:
            found.append({"url": each.url, "error": str(error)})
            failed = True
    print(json.dumps({"agents": found}, indent=2))
    if failed:
        raise typer.Exit(1)


def print_tables(agents: Sequence[Inquiry]) -> None:
    """The tables of all that answer; of the others, one line each why there are none."""
    from rich.console import Console

    errors: list[Mistake] = []
    for each in agents:
        try:
            Console().print(shown(each))
        except Mistake as error:
            errors.append(error)
    for told in errors[:-1]:
        print("posse:", " ".join(str(told).split()), file=sys.stderr)
    if errors:
        raise errors[-1]


def watched(agents: Sequence[Inquiry]) -> None:
    """The tables of all again and again; who does not answer may be starting again."""
    from rich.console import Console, Group
    from rich.live import Live
    from rich.text import Text

    def look() -> tuple[list[Any], list[Mistake]]:
        tables: list[Any] = []
        errors: list[Mistake] = []
        for each in agents:
            try:
                tables.append(shown(each))
            except Mistake as error:
                errors.append(error)
                tables.append(Text(printable(str(error))))
        return tables, errors

    begun, errors = look()
    if len(errors) == len(agents):
        raise errors[0]
    with Live(Group(*begun), console=Console(), auto_refresh=False) as screen:
        while True:
            time.sleep(1)
            screen.update(Group(*look()[0]), refresh=True)


def shown(agent: Inquiry) -> Any:
    """The tables of an agent now."""
    return Overview().of(agent.ask())
