"""Sparklines: shares of visits and the rate of rewards over the last hours, a character a cell."""

from __future__ import annotations

import time
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from posse.cli.common import Mistake
from posse.cli.status_queries import Answers, Experiment

BLOCKS, ASCII = "▁▂▃▄▅▆▇█", "_.-:=+*#"
HOURS = 4
MINUTE = 60

Cells = list[float | None]  # None: nothing happened, or nobody was there to see it


@dataclass(frozen=True)
class Trends:
    """What the last hours were like at one agent, in cells of equal length, the last one last."""

    seconds: float  # from the first to the last
    shares: dict[str, Cells]  # of the arms in the visits
    rates: Cells  # rewards a closed visit


def drawn(cells: Cells, low: float, high: float, unicode: bool = True) -> str:
    """A line of characters, as high as the numbers between low and high; a blank for none.

    >>> drawn([0.0, 0.5, None, 1.0], 0.0, 1.0)
    '▁▅ █'
    """
    levels = BLOCKS if unicode else ASCII
    top = len(levels) - 1
    scale = (high - low) or 1.0
    return "".join(
        " " if each is None else levels[min(top, max(0, round((each - low) / scale * top)))]
        for each in cells
    )


def trends(history: dict[str, Any], most: int) -> Trends | None:
    """The last hours of a history of minutes in at most so many cells; None if there is too little.

    Numbers of a history are cumulative, and a cell is what came in it; what fades is as it was.
    """
    times = history["times"]
    arms = {n: each["here"] for n, each in history["arms"].items()}
    if len(times) < 2 or most < 1:
        return None
    span = min(times[-1] - times[0], HOURS * 3600)
    length = max(1, -(-span // (most * MINUTE))) * MINUTE  # whole minutes
    edges = [times[-1] - n * length for n in range(-(-span // length), -1, -1)]
    places = [bisect_right(times, edge) - 1 for edge in edges]
    # before the first point nothing is known, and where no point is in a cell nobody was there
    pairs = [(max(a, 0), b) if b > max(a, 0) else None for a, b in pairwise(places)]
    fading = bool(history["fading"])

    def came(key: str) -> dict[str, Cells]:
        return {name: _came(series[key], pairs, fading) for name, series in arms.items()}

    pulls = came("pulls")
    closed = came("closed")
    rewards = came("rewards")
    total = _summed(pulls.values(), len(pairs))
    return Trends(
        edges[-1] - edges[0],
        {name: _ratio(cells, total) for name, cells in pulls.items()},
        _ratio(_summed(rewards.values(), len(pairs)), _summed(closed.values(), len(pairs))),
    )


def _came(series: Sequence[float | None], pairs: Sequence[Any], fading: bool) -> Cells:
    cells: Cells = []
    for pair in pairs:
        before, after = (None, None) if pair is None else (series[pair[0]], series[pair[1]])
        if after is None or (before is None and not fading):
            cells.append(None)
        else:
            cells.append(after if fading or before is None else after - before)
    return cells


def _summed(columns: Any, length: int) -> Cells:
    """The sum of what is known, cell by cell."""
    rows = zip(*columns, strict=True) if columns else [()] * length
    known = [[each for each in row if each is not None] for row in rows]
    return [sum(row) if row else None for row in known]


def _ratio(cells: Cells, total: Cells) -> Cells:
    return [
        None if a is None or not b or b <= 0 else a / b for a, b in zip(cells, total, strict=True)
    ]


# An agent's answers as tables for a terminal of 80 columns or more, whatever names it has.

FIGURES = 58  # columns that all but the names of arms may take, without what is between them
OF_NEIGHBOURS = 40  # and all but the names of neighbours
WIDE = 100  # columns from which on there is more between them
# arms with a sparkline; columns of its name, and of its number
DRAWN = 8
LONGEST = 24
BESIDE = 9
# a longer reward window is advised from here on; the alert and the page use the same share
LATE_SHARE = 0.03  # of all rewards
FEWEST_LATE = 10
# around a name from right to left, so that it turns no line
ISOLATE = "\u2068"
END = "\u2069"


class Overview:
    """Makes the tables of one moment, as wide as the terminal is now."""

    def __init__(self) -> None:
        from rich.console import Console

        console = Console()
        self.width = console.width
        self.unicode = _knows(console.encoding, "▁█…" + ISOLATE)

    def of(self, answers: Answers) -> Any:
        """All tables of an agent; a Mistake if these are no answers of one."""
        from rich.console import Group

        try:
            tables: list[Any] = []
            for name, experiment in answers.experiments.items():
                title = f"arms, as {answers.url} knows them{whom(experiment.at)}"
                tables += self._arms(experiment, f"{name}: {title}" if answers.several else title)
            return Group(*tables, *self._network(answers.network))
        except (LookupError, TypeError, ValueError, AttributeError):
            raise Mistake(f"no agent answers at {answers.url}, but something else") from None

    def _arms(self, experiment: Experiment, title: str) -> list[Any]:
        from rich.text import Text

        arms = experiment.arms
        holds = experiment.controls
        about = experiment.about
        table = self._table(["arm", "mean", "95% interval", "best?", "expected\nloss",
                             "pulls\nhere", "in\nnetwork"])  # fmt: skip
        room = max(8, self.width - FIGURES - (12 if self.width >= WIDE else 6))
        for name, arm in arms.items():
            pinned = name == holds["pinned"]
            paused = name in holds["paused"]
            mark = " (pinned)" if pinned else " (paused)" if paused else ""
            table.add_row(
                self._name(name, room - len(mark)).append(mark, "bold"),
                _number(arm["mean"], ".3g"),
                f"{_number(arm['low'], '.3g')} to {_number(arm['high'], '.3g')}",
                _number(arm["probability_best"], ".1%"),
                _number(arm["expected_loss"], ".3g"),
                _count(arm["pulls_here"]),
                _count(arm["pulls_in_network"]),
            )
        said = [*windows(arms, about), *verdict(experiment.verdict), *sites(about.get("sites"))]
        said += [*contexts(about.get("context")), *audit_lines(experiment.audit)]
        past = self._trends(experiment.history) if experiment.history is not None else []
        lines = [Text(printable(line)) for line in said]
        return [Text(printable(title), "italic"), table, *lines, *past, Text("")]

    def _trends(self, history: dict[str, Any]) -> list[Any]:
        """Sparklines: how visits were shared between arms, and what they brought."""
        from rich.text import Text

        names = min(LONGEST, max(11, *map(len, history["arms"])))  # no shorter than "reward rate"
        found = trends(history, self.width - names - BESIDE)
        if found is None:
            return []
        now = {name: _last(cells) for name, cells in found.shares.items()}
        chosen = sorted(now, key=lambda name: -sum(x or 0 for x in found.shares[name]))[:DRAWN]
        table = self._table(["", "", ""], left=2)
        for name in (name for name in found.shares if name in chosen):
            line = drawn(found.shares[name], 0.0, 1.0, self.unicode)
            table.add_row(self._name(name, names), line, _number(now[name], ".0%"))
        rates = [each for each in found.rates if each is not None]
        low = min([0.0, *rates])
        high = max([0.0, *rates])
        line = drawn(found.rates, low, high, self.unicode)
        table.add_row("reward rate", line, _number(_last(found.rates), ".3g"))
        table.show_header = False
        title = f"share of visits here, and rewards a visit, over {_duration(found.seconds)}"
        return [Text(title, "italic"), table]

    def _network(self, network: dict[str, Any]) -> list[Any]:
        from rich.text import Text

        known = network["agents_known"]
        title = f"neighbours, and evidence of {known} agent{'' if known == 1 else 's'}"
        table = self._table(["neighbour", "connected", "last heard", "lag"], left=4)
        for name, neighbour in network["neighbours"].items():
            heard = neighbour["last_heard"]
            ago = "never" if heard is None else _ago(max(0.0, time.time() - heard))
            lag = "" if neighbour["lag"] is None else str(neighbour["lag"])
            connected = "yes" if neighbour["connected"] else "no"
            table.add_row(self._name(name, self.width - OF_NEIGHBOURS), connected, ago, Text(lag))
        refused = [
            Text(printable(f"refused: {reason}  {count}"))
            for reason, count in network["refused"].items()
            if count
        ]
        return [Text(title, "italic"), table, *refused, Text("")]

    def _table(self, columns: list[str], left: int = 1) -> Any:
        """A table without lines that no terminal of 80 columns need fold."""
        from rich.table import Table

        between = 2 if self.width >= WIDE else 1
        table = Table(box=None, pad_edge=False, padding=(0, between, 0, 0), header_style="bold")
        for number, column in enumerate(columns):
            table.add_column(column, justify="left" if number < left else "right", no_wrap=True)
        return table

    def _name(self, name: str, room: int) -> Any:
        """A name in so many columns; Text, for in a str Rich takes [brackets] for its markup."""
        from rich.text import Text

        shown = Text(printable(name))
        shown.truncate(max(1, room), overflow="ellipsis")
        if self.unicode and any(unicodedata.bidirectional(c) in ("R", "AL") for c in name):
            shown = Text(ISOLATE).append(shown).append(END)
        return shown


def windows(arms: dict[str, dict[str, Any]], about: dict[str, Any]) -> Iterator[str]:
    """What is not in the table yet, or never will be."""
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
    elif about.get("silence") == "wait" and about["open_decisions"]:
        yield f"open, so not shown above: {_count(about['open_decisions'])} here"
    if half_life := about.get("half_life"):
        yield f"pulls are counted for what they are worth: half after {_duration(half_life)}"
    if late := about.get("late_rewards"):
        rewards = about["rewards"] + late
        too_many = late >= FEWEST_LATE and late > LATE_SHARE * rewards
        yield (
            f"late: {_count(late)} of {_count(rewards)} reward{'s' if rewards > 1 else ''} came up "
            f"to {about['longest_lateness']:,.0f} s after the window had closed, and did not count"
            f"{': lengthen reward_window' if too_many else ''}"
        )
    if void := about.get("void_rewards"):
        yield f"void: {_count(void)} of decisions that were open when the disk was set back"


def verdict(found: dict[str, Any] | None) -> Iterator[str]:
    """Whether it may stop; None for an experiment without `stop`."""
    if found is not None:
        yield f"verdict: {found['sentence']}"


def whom(at: dict[str, Any] | None) -> str:
    """Of which visitors, where these differ."""
    if at is None:
        return ""
    known = ", ".join(f"{name}={value}" for name, value in at.items())
    return f", {f'for {known}' if known else 'on average'}"


def contexts(context: dict[str, Any] | None) -> Iterator[str]:
    """Of contexts what the schema does not quite know, since the start."""
    if context is None:
        return
    odd = [f"{name} {_count(n)} unknown" for name, n in context["unknown"].items() if n]
    odd += [f"{name} {_count(n)} out of range" for name, n in context["clipped"].items() if n]
    if odd:
        yield f"contexts: {', '.join(odd)}"


def sites(sites: dict[str, Any] | None) -> Iterator[str]:
    """Whether sites differ, and what their sharing gained."""
    if sites is None:
        return
    if sites["differ"]:
        yield f"sites: {sites['differ']}"
    alone = sites["loss_alone"]
    shared = sites["loss_shared"]
    if alone is not None and shared is not None and sites["alike"] is not None:
        yield f"sharing: to settle now would give up {shared:.2g}, by this site alone {alone:.2g}"


def audit_lines(audit: dict[str, Any] | None) -> Iterator[str]:
    """Compare the decisions counted by the agent with those in its evidence."""
    if audit is not None:
        counted = audit["counted"]
        in_evidence = audit["in_evidence"]
        in_network = audit["in_network"]
        if counted == in_evidence:
            explanation = ""
        elif counted < in_evidence:
            explanation = " (the store was restored from a copy or is new; nothing is missing)"
        else:
            explanation = " (evidence is MISSING: see the agent's log)"
        yield (
            f"audit: {counted:,} decisions counted, {in_evidence:,.0f} in the evidence"
            f"{explanation}; {in_network:,.0f} in the network"
        )


def printable(text: str) -> str:
    """Text on one line that steers no terminal: what cannot be printed is marked."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def _knows(encoding: str, text: str) -> bool:
    try:
        text.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _last(cells: list[float | None]) -> float | None:
    return next((each for each in reversed(cells) if each is not None), None)


def _number(value: float | None, spelling: str) -> str:
    """A number, or a dash for one that JSON cannot hold."""
    return "-" if value is None else format(value, spelling)


def _count(value: float) -> str:
    """A count in seven characters at most."""
    for unit, size in (("G", 1e9), ("M", 1e6)):
        if value >= size:
            return f"{value / size:.2f}{unit}"[-7:]
    return f"{value:,.0f}"


def _ago(seconds: float) -> str:
    """How long ago: to a tenth of a second, or in few characters."""
    return f"{seconds:.1f} s ago" if seconds < 100 else f"{_duration(seconds)} ago"


def _duration(seconds: float) -> str:
    """Seconds in the largest unit of which there is at least one."""
    units = (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0), ("seconds", 1.0))
    name, size = next((each for each in units if seconds >= each[1]), units[-1])
    number = f"{seconds / size:.3g}"
    return f"{number} {name.removesuffix('s') if number == '1' else name}"
