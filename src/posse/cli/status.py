"""`posse status`: what live agents know, and how their neighbours are."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from posse.cli.errors import Mistake, live, mistakes, token_in
from posse.cli.operators import Verify

EXAMPLES = """Examples:

posse status http://127.0.0.1:8700

posse status http://127.0.0.1:8700 http://127.0.0.1:8701 --experiment checkout

posse status http://127.0.0.1:8700 --context country=de --context returning=true

posse status https://berlin.example.org:8700 --token-file token --watch"""

FIGURES = 58  # columns that all but the names of arms may take, without what is between them
WIDE = 100  # columns from which on there is more between them


def status(
    urls: Annotated[list[str], typer.Argument(metavar="URL", help="Where an agent answers.")],
    watch: Annotated[bool, typer.Option("--watch", help="Every second, until Ctrl-C.")] = False,
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
    """Show agents' arms, experiment by experiment, and neighbours as tables."""
    from rich.console import Console, Group
    from rich.live import Live
    from rich.text import Text

    with mistakes(), live(), ExitStack() as open_:
        token = None if token_file is None else token_in(token_file)
        # one more attempt, for an agent that is just starting again
        options = {"timeout": 3.0, "attempts": 2, "token": token, "verify": verify}
        at = dict(map(_pair, context or []))
        agents = [_Agent(url, experiment, at, options, open_) for url in urls]
        if not watch:
            for each in agents:
                Console().print(_shown(each))
            return
        begun = Group(*map(_shown, agents))
        with Live(begun, console=Console(), auto_refresh=False) as shown:
            while True:
                time.sleep(1)
                now = []
                for each in agents:
                    try:
                        now.append(_shown(each))
                    except Mistake as error:  # it may be starting again
                        now.append(Text(str(error)))
                shown.update(Group(*now), refresh=True)


def _pair(text: str) -> tuple[str, str]:
    """Of NAME=VALUE both."""
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise Mistake(f"--context must be NAME=VALUE, such as country=de, got {text}")
    return name, value


def _value(text: str, field: Any) -> Any:
    """A value of the command line as the field of a schema needs it; the agent checks it."""
    if isinstance(field, dict) and "low" in field:
        try:
            return float(text)
        except ValueError:
            return text
    is_flag = field == "flag" or (isinstance(field, dict) and "flag" in field)
    return {"true": True, "false": False}.get(text.lower(), text) if is_flag else text


class _Agent:
    """An agent's answers, of one of its experiments or of all."""

    def __init__(
        self,
        url: str,
        experiment: str | None,
        context: dict[str, str],
        options: dict[str, Any],
        open_: ExitStack,
    ) -> None:
        self._url, self._experiment, self._options, self._open = url, experiment, options, open_
        self._context = context
        self._clients: dict[str | None, Any] = {}
        self.url = self._of(None).url

    def _of(self, experiment: str | None) -> Any:
        """A client of an experiment, or of the only one."""
        from posse.live.client import Client

        if experiment not in self._clients:
            client = Client(self._url, experiment=experiment, **self._options)
            self._clients[experiment] = self._open.enter_context(client)
        return self._clients[experiment]

    def where(self, experiment: dict[str, Any]) -> str:
        """For which visitors, in words, where they differ."""
        if not experiment.get("context"):
            return ""
        at = ", ".join(f"{name}={text}" for name, text in self._context.items())
        return f", {f'at {at}' if at else 'on average'}"

    def network(self) -> dict[str, Any]:
        """Its neighbours."""
        return dict(self._of(None).network())

    def experiments(self) -> dict[str | None, tuple[dict[str, Any], dict[str, Any]]]:
        """By name, if there are several: what holds for the arms, and what is known of them."""
        from posse.live.store import Unknown

        try:
            there = self._of(None).experiments()["experiments"]
        except Unknown:  # an agent of 0.1 has one, and does not say so
            there = {}
        if self._experiment is not None and self._experiment not in there:
            known = ", ".join(map(str, there))
            raise Mistake(f"{self.url} has no experiment {self._experiment}, but {known}")
        chosen = [self._experiment] if self._experiment else there if len(there) > 1 else [None]
        only: dict[str, Any] = next(iter(there.values()), {})
        return {
            name: (
                {**there.get(name, only), **self._holds(name), "verdict": self._verdict(name)},
                self._of(name).arms(self._at(there.get(name, only))),
            )
            for name in chosen
        }

    def _at(self, experiment: dict[str, Any]) -> dict[str, Any] | None:
        """The context that was asked for, in values of the experiment's schema."""
        fields = (experiment.get("context") or {}).get("fields", {})
        return {n: _value(text, fields.get(n)) for n, text in self._context.items()} or None

    def _holds(self, experiment: str | None) -> dict[str, Any]:
        """What is pinned and paused; an agent of 0.1 knows no such thing."""
        from posse.live.store import Unknown

        try:
            return dict(self._of(experiment).controls())
        except Unknown:
            return {"pinned": None, "paused": []}

    def _verdict(self, experiment: str | None) -> str:
        """Whether it may stop, in a sentence; empty for an experiment without `stop`."""
        from posse.live.store import Unknown

        try:
            return str(self._of(experiment).verdict()["sentence"])
        except Unknown:  # or an older agent
            return ""


def _shown(agent: Any) -> Any:
    from rich.console import Group

    try:
        network, experiments = agent.network(), agent.experiments()
    except ConnectionError as error:
        raise Mistake(str(error)) from None
    except Mistake:
        raise
    except ValueError as error:  # it answers, and refuses: such as without a token
        raise Mistake(f"{agent.url}: {str(error)[:200]}") from None
    except Exception as error:
        reason = str(error) or type(error).__name__
        raise Mistake(f"no agent answers at {agent.url}: {reason[:200]}") from None
    try:
        tables: list[Any] = []
        for name, (holds, arms) in experiments.items():
            title = f"arms, as {agent.url} knows them{agent.where(holds)}"
            tables += _arms(arms, holds, title if name is None else f"{name}: {title}")
        return Group(*tables, *_network(network))
    except (LookupError, TypeError, ValueError, AttributeError):
        raise Mistake(f"no agent answers at {agent.url}, but something else") from None


def _number(value: float | None, spelling: str) -> str:
    """A number, or a dash for one that JSON cannot hold."""
    return "-" if value is None else format(value, spelling)


def _count(value: float) -> str:
    """A count in seven characters at most."""
    for unit, size in (("G", 1e9), ("M", 1e6)):
        if value >= size:
            return f"{value / size:.2f}{unit}"[-7:]
    return f"{value:,.0f}"


def _duration(seconds: float) -> str:
    """Seconds in the largest unit of which there is at least one."""
    units = (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0), ("seconds", 1.0))
    name, size = next((each for each in units if seconds >= each[1]), units[-1])
    number = f"{seconds / size:.3g}"
    return f"{number} {name.removesuffix('s') if number == '1' else name}"


def _table(columns: list[str], left: int = 1) -> Any:
    """A table without lines that no terminal of 80 columns need fold."""
    from rich.console import Console
    from rich.table import Table

    between = 2 if Console().width >= WIDE else 1
    table = Table(box=None, pad_edge=False, padding=(0, between, 0, 0), header_style="bold")
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number < left else "right", no_wrap=True)
    return table


def _arms(arms: dict[str, dict[str, Any]], holds: dict[str, Any], title: str) -> list[Any]:
    from rich.console import Console
    from rich.text import Text

    table = _table(["arm", "mean", "95% interval", "best?", "expected\nloss", "pulls\nhere",
                    "in\nnetwork"])  # fmt: skip
    width = Console().width
    room = max(8, width - FIGURES - (12 if width >= WIDE else 6))
    for name, arm in arms.items():
        # Text, here and below: in a str Rich takes [brackets] for its markup
        pinned, paused = name == holds["pinned"], name in holds["paused"]
        mark = " (pinned)" if pinned else " (paused)" if paused else ""
        shown = Text(name)
        shown.truncate(room - len(mark), overflow="ellipsis")
        table.add_row(
            shown.append(mark, "bold"),
            _number(arm["mean"], ".3g"),
            f"{_number(arm['low'], '.3g')} to {_number(arm['high'], '.3g')}",
            _number(arm["probability_best"], ".1%"),
            _number(arm["expected_loss"], ".3g"),
            _count(arm["pulls_here"]),
            _count(arm["pulls_in_network"]),
        )
    said = [*_windows(arms, holds), *_odd(holds.get("context")), *_sites(holds.get("sites"))]
    return [Text(title, "italic"), table, *map(Text, said), Text("")]


def _odd(context: dict[str, Any] | None) -> Iterator[str]:
    """Which contexts the schema did not quite know, since the start."""
    if context is None:
        return
    unknown = [f"{name} {_count(n)} unknown" for name, n in context["unknown"].items() if n]
    clipped = [f"{name} {_count(n)} out of range" for name, n in context["clipped"].items() if n]
    if unknown or clipped:
        yield f"contexts: {', '.join(unknown + clipped)}"


def _sites(sites: dict[str, Any] | None) -> Iterator[str]:
    """Whether sites differ, and what their sharing gained; an older agent does not say."""
    if sites is None:
        return
    if sites["differ"]:
        yield f"sites: {sites['differ']}"
    alone, shared = sites["loss_alone"], sites["loss_shared"]
    if alone is not None and shared is not None and sites["alike"] is not None:
        yield f"sharing: to settle now would give up {shared:.2g}, by this site alone {alone:.2g}"


def _windows(arms: dict[str, dict[str, Any]], holds: dict[str, Any]) -> Iterator[str]:
    """What is not in the table yet, or never will be, and the verdict; older agents say less."""
    counted = {
        name: (a.get("open_here", 0), a.get("open_in_network", 0)) for name, a in arms.items()
    }
    # flows mix to fractions of a quantum, and what fades is never quite 0
    if any(round(number) for both in counted.values() for number in both):
        numbers = ", ".join(
            f"{name} {_count(here)} here, {_count(all_)} in network"
            for name, (here, all_) in counted.items()
        )
        yield f"open, so not shown above: {numbers}"
    elif holds.get("silence") == "wait" and holds["open_decisions"]:
        yield f"open, so not shown above: {_count(holds['open_decisions'])} here"
    if said := holds.get("verdict"):
        yield f"verdict: {said}"
    if half_life := holds.get("half_life"):
        yield f"pulls are counted for what they are worth: half after {_duration(half_life)}"
    if late := holds.get("late_rewards"):
        yield (
            f"late: {_count(late)} reward{'s' if late > 1 else ''} came up to "
            f"{holds['longest_lateness']:,.0f} s after the window had closed, and did not count: "
            "lengthen reward_window"
        )
    if void := holds.get("void_rewards"):
        yield f"void: {_count(void)} of decisions that were open when the disk was set back"


def _network(network: dict[str, Any]) -> list[Any]:
    from rich.text import Text

    known = network["agents_known"]
    title = f"neighbours, and evidence of {known} agent{'' if known == 1 else 's'}"
    table = _table(["neighbour", "connected", "last heard", "lag"], left=4)
    for name, neighbour in network["neighbours"].items():
        heard = neighbour["last_heard"]
        ago = "never" if heard is None else f"{max(0.0, time.time() - heard):.1f} s ago"
        lag = "" if neighbour["lag"] is None else str(neighbour["lag"])
        table.add_row(Text(name), "yes" if neighbour["connected"] else "no", ago, Text(lag))
    refused = [
        Text(f"refused: {reason}  {count}") for reason, count in network["refused"].items() if count
    ]
    return [Text(title, "italic"), table, *refused, Text("")]
