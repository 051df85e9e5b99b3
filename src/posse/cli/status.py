"""`posse status`: what a live agent knows, and how its neighbours are."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from posse.cli.errors import Mistake, live, mistakes

EXAMPLES = """Examples:

posse status http://127.0.0.1:8700

posse status http://127.0.0.1:8700 --watch"""


def status(
    url: Annotated[str, typer.Argument(metavar="URL", help="Where the agent answers.")],
    watch: Annotated[bool, typer.Option("--watch", help="Every second, until Ctrl-C.")] = False,
) -> None:
    """Show an agent's arms and neighbours as tables."""
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    with mistakes(), live():
        from posse.live.client import Client

        # one more attempt, for an agent that is just starting again
        with Client(url, timeout=3.0, attempts=2) as client:
            if not watch:
                Console().print(_shown(client))
                return
            with Live(_shown(client), console=Console(), auto_refresh=False) as shown:
                while True:
                    time.sleep(1)
                    try:
                        now = _shown(client)
                    except Mistake as error:  # it may be starting again
                        now = Text(str(error))
                    shown.update(now, refresh=True)


def _shown(client: Any) -> Any:
    from rich.console import Group

    try:
        arms, network = client.arms(), client.network()
    except ConnectionError as error:
        raise Mistake(str(error)) from None
    except Exception as error:
        reason = str(error) or type(error).__name__
        raise Mistake(f"no agent answers at {client.url}: {reason[:200]}") from None
    try:
        return Group(_arms(arms, client.url), _network(network))
    except (LookupError, TypeError, ValueError, AttributeError):
        raise Mistake(f"no agent answers at {client.url}, but something else") from None


def _number(value: float | None, spelling: str) -> str:
    """A number, or a dash for one that JSON cannot hold."""
    return "-" if value is None else format(value, spelling)


def _arms(arms: dict[str, dict[str, Any]], url: str) -> Any:
    from rich.table import Table
    from rich.text import Text

    # Text, here and below: in a str Rich takes [brackets] for its markup
    table = Table(title=Text(f"arms, as {url} knows them", "italic"), title_justify="left")
    table.add_column("arm")
    for column in ("mean", "95% interval", "best?", "expected\nloss", "pulls\nhere", "in\nnetwork"):
        table.add_column(column, justify="right")
    for name, arm in arms.items():
        table.add_row(
            Text(name),
            _number(arm["mean"], ".3g"),
            f"{_number(arm['low'], '.3g')} to {_number(arm['high'], '.3g')}",
            _number(arm["probability_best"], ".1%"),
            _number(arm["expected_loss"], ".3g"),
            f"{arm['pulls_here']:,.0f}",
            f"{arm['pulls_in_network']:,.0f}",
        )
    return table


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
