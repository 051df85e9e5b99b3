"""`posse status`: print what live agents know and how their neighbours are."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from posse.cli.common import UserError, catch_user_errors, read_token, require_live_extra
from posse.cli.operators import Verify
from posse.cli.status_queries import StatusQuery
from posse.cli.status_tables import StatusTables, make_printable

EXAMPLES = """Examples:

posse status http://127.0.0.1:8700

posse status http://127.0.0.1:8700 http://127.0.0.1:8701 --experiment checkout

posse status http://127.0.0.1:8700 --context country=de --context returning=true

posse status https://berlin.example.org:8700 --token-file token --watch

posse status http://127.0.0.1:8700 --json | jq '.agents[0].experiments'"""


def status(
    urls: Annotated[list[str], typer.Argument(metavar="URL", help="Address of an agent.")],
    watch: Annotated[
        bool,
        typer.Option(
            "--watch", help="Refresh every second until Ctrl-C, with sparklines of the last hours."
        ),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document for programs.")
    ] = False,
    experiment: Annotated[str | None, typer.Option(help="Only this experiment.")] = None,
    context: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="Show the arms for visitors with this attribute; may be repeated.",
        ),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file", help="File with the token; agent.toml names it as http_token."
        ),
    ] = None,
    verify: Verify = None,
) -> None:
    """Print tables of agents' arms, one per experiment, and of their neighbours.

    With --json an agent that does not answer becomes an entry with an error, and the exit code
    is 1.
    """
    with catch_user_errors(), require_live_extra(), ExitStack() as open_:
        if watch and as_json:
            raise UserError("--json prints one document: leave out --watch")
        token = None if token_file is None else read_token(token_file)
        # a second attempt covers an agent that is restarting
        options = {"timeout": 3.0, "attempts": 2, "token": token, "verify": verify}
        at = dict(map(_parse_context_value, context or []))
        agents = [
            StatusQuery(url, experiment, options, open_, with_history=watch, context=at)
            for url in urls
        ]
        if as_json:
            print_json(agents)
            return
        if hasattr(sys.stdout, "reconfigure"):  # a name from the network may not fit its encoding
            sys.stdout.reconfigure(errors="replace")
        if watch:
            watch_tables(agents)
        else:
            print_tables(agents)


def _parse_context_value(text: str) -> tuple[str, str]:
    """Split NAME=VALUE."""
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise UserError(f"--context must be NAME=VALUE, for example country=de, got {text}")
    return name, value


def print_json(queries: Sequence[StatusQuery]) -> None:
    """Print one JSON document of all agents; exit code 1 if one of them does not answer."""
    documents = []
    failed = False
    for query in queries:
        try:
            documents.append(query.fetch_status().as_dict())
        except UserError as error:
            documents.append({"url": query.url, "error": str(error)})
            failed = True
    print(json.dumps({"agents": documents}, indent=2))
    if failed:
        raise typer.Exit(1)


def print_tables(queries: Sequence[StatusQuery]) -> None:
    """Print the tables of all agents that answer, and one line for each that does not."""
    from rich.console import Console

    errors: list[UserError] = []
    for query in queries:
        try:
            Console().print(render_agent(query))
        except UserError as error:
            errors.append(error)
    # The last error is raised instead, so that `main` prints it and sets the exit code.
    for problem in errors[:-1]:
        print("posse:", " ".join(str(problem).split()), file=sys.stderr)
    if errors:
        raise errors[-1]


def watch_tables(queries: Sequence[StatusQuery]) -> None:
    """Refresh the tables every second; an agent that does not answer may be restarting."""
    from rich.console import Console, Group
    from rich.live import Live
    from rich.text import Text

    def collect_tables() -> tuple[list[Any], list[UserError]]:
        tables: list[Any] = []
        errors: list[UserError] = []
        for query in queries:
            try:
                tables.append(render_agent(query))
            except UserError as error:
                errors.append(error)
                tables.append(Text(make_printable(str(error))))
        return tables, errors

    first_tables, errors = collect_tables()
    # If no agent answers at all, a wrong address is more likely than a restart.
    if len(errors) == len(queries):
        raise errors[0]
    with Live(Group(*first_tables), console=Console(), auto_refresh=False) as screen:
        while True:
            time.sleep(1)
            screen.update(Group(*collect_tables()[0]), refresh=True)


def render_agent(query: StatusQuery) -> Any:
    """Fetch the status of an agent and render its tables."""
    return StatusTables().render_agent(query.fetch_status())
