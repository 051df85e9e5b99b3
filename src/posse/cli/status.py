"""`posse status`: what a live agent knows, and how its neighbours are."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from posse.cli.errors import Mistake, live, mistakes, token_in

EXAMPLES = """Examples:

posse status http://127.0.0.1:8700

posse status http://127.0.0.1:8700 --watch

posse status http://127.0.0.1:8700 --experiment checkout"""


def status(
    url: Annotated[str, typer.Argument(metavar="URL", help="Where the agent answers.")],
    watch: Annotated[bool, typer.Option("--watch", help="Every second, until Ctrl-C.")] = False,
    experiment: Annotated[
        str | None, typer.Option("--experiment", help="This one alone, of several.")
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option("--token-file", help="The file that is the agent's http_token.")
    ] = None,
    verify: Annotated[
        Path | None,
        typer.Option("--verify", help="For https: a file of authorities, such as certs/ca.pem."),
    ] = None,
) -> None:
    """Show an agent's arms and neighbours as tables."""
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    with mistakes(), live(), ExitStack() as open_clients:
        from posse.live.client.sync import Client

        def client(experiment: str | None) -> Any:
            # one more attempt, for an agent that is just starting again
            options: Any = {"token": token, "verify": verify, "experiment": experiment}
            return open_clients.enter_context(Client(url, timeout=3.0, attempts=2, **options))

        token = None if token_file is None else token_in(token_file)
        whole = client(experiment)
        names: list[str | None] = [] if experiment else [*_experiments(whole)]
        clients = {name: client(name) for name in names} or {experiment: whole}
        if not watch:
            Console().print(_shown(clients))
            return
        with Live(_shown(clients), console=Console(), auto_refresh=False) as shown:
            while True:
                time.sleep(1)
                try:
                    now = _shown(clients)
                except Mistake as error:  # it may be starting again
                    now = Text(str(error))
                shown.update(now, refresh=True)


def _experiments(client: Any) -> list[str]:
    """The experiments of an agent; none of one of Posse 0.1, or of something else."""
    try:
        return list(client.experiments()["experiments"])
    except ConnectionError as error:
        raise Mistake(str(error)) from None
    except Exception:  # what it is will be seen when it is asked for more
        return []


def _shown(clients: Mapping[Any, Any]) -> Any:
    from rich.console import Group

    url = next(iter(clients.values())).url
    try:
        arms = {name: client.arms() for name, client in clients.items()}
        controls = {name: _controls(client) for name, client in clients.items()}
        network = next(iter(clients.values())).network()
    except ConnectionError as error:
        raise Mistake(str(error)) from None
    except Exception as error:
        reason = str(error) or type(error).__name__
        raise Mistake(f"no agent answers at {url}: {reason[:200]}") from None
    several = len(clients) > 1
    try:
        tables = [
            _arms(arms[name], controls[name], f"{name}: " * several + f"arms, as {url} knows them")
            for name in clients
        ]
        return Group(*tables, _network(network))
    except (LookupError, TypeError, ValueError, AttributeError):
        raise Mistake(f"no agent answers at {url}, but something else") from None


def _controls(client: Any) -> dict[str, Any]:
    """What is pinned and paused; an agent of Posse 0.1 knows no such thing."""
    from posse.live.store import Unknown

    try:
        return dict(client.controls())
    except Unknown:
        return {"pinned": None, "paused": []}


def _number(value: float | None, spelling: str) -> str:
    """A number, or a dash for one that JSON cannot hold."""
    return "-" if value is None else format(value, spelling)


def _arms(arms: dict[str, dict[str, Any]], controls: dict[str, Any], title: str) -> Any:
    from rich.table import Table
    from rich.text import Text

    # Text, here and below: in a str Rich takes [brackets] for its markup
    table = Table(title=Text(title, "italic"), title_justify="left")
    table.add_column("arm")
    for column in ("mean", "95% interval", "best?", "expected\nloss", "pulls\nhere", "in\nnetwork"):
        table.add_column(column, justify="right")
    for name, arm in arms.items():
        table.add_row(
            Text(name + _mark(name, controls)),
            _number(arm["mean"], ".3g"),
            f"{_number(arm['low'], '.3g')} to {_number(arm['high'], '.3g')}",
            _number(arm["probability_best"], ".1%"),
            _number(arm["expected_loss"], ".3g"),
            f"{arm['pulls_here']:,.0f}",
            f"{arm['pulls_in_network']:,.0f}",
        )
    return table


def _mark(arm: str, controls: dict[str, Any]) -> str:
    if arm == controls["pinned"]:
        return " (pinned)"
    return " (paused)" if arm in controls["paused"] else ""


def _network(network: dict[str, Any]) -> Any:
    from rich.table import Table
    from rich.text import Text

    known = network["agents_known"]
    title = f"neighbours, and evidence of {known} agent{'' if known == 1 else 's'}"
    table = Table(title=Text(title, "italic"), title_justify="left")
    for column in ("neighbour", "connected", "last heard", "lag"):
        table.add_column(column)
    for name, neighbour in network["neighbours"].items():
        heard = neighbour["last_heard"]
        ago = "never" if heard is None else f"{max(0.0, time.time() - heard):.1f} s ago"
        lag = "" if neighbour["lag"] is None else str(neighbour["lag"])
        table.add_row(Text(name), "yes" if neighbour["connected"] else "no", ago, Text(lag))
    for reason, count in network["refused"].items():
        table.add_row(Text(f"refused: {reason}"), "", "", Text(str(count)))
    return table
