"""Tables and sparklines of `posse status`, for terminals of 80 columns or more."""

from __future__ import annotations

import time
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from posse.cli.common import UserError
from posse.cli.status_queries import AgentStatus, ExperimentStatus

BLOCKS, ASCII = "▁▂▃▄▅▆▇█", "_.-:=+*#"
HOURS = 4
MINUTE = 60

Cells = list[float | None]  # None: no decision in this cell, or the agent was down


@dataclass(frozen=True)
class Trends:
    """The last hours at one agent, in time cells of equal length, newest last."""

    seconds: float  # from the first cell to the last
    shares: dict[str, Cells]  # share of each arm in the decisions
    rates: Cells  # mean reward of closed decisions


def draw_sparkline(cells: Cells, low: float, high: float, unicode: bool = True) -> str:
    """Draw numbers between low and high as one character each; a blank for None.

    >>> draw_sparkline([0.0, 0.5, None, 1.0], 0.0, 1.0)
    '▁▅ █'
    """
    levels = BLOCKS if unicode else ASCII
    top = len(levels) - 1
    scale = (high - low) or 1.0
    return "".join(
        " " if value is None else levels[min(top, max(0, round((value - low) / scale * top)))]
        for value in cells
    )


def compute_trends(history: dict[str, Any], most: int) -> Trends | None:
    """Divide the last hours of a history of minutes into `most` cells; None if it is too short.

    Numbers of a history are cumulative, so a cell is their difference; discounted evidence is not
    cumulative and is taken as it is.
    """
    times = history["times"]
    arms = {n: arm["here"] for n, arm in history["arms"].items()}
    if len(times) < 2 or most < 1:
        return None
    span = min(times[-1] - times[0], HOURS * 3600)
    length = max(1, -(-span // (most * MINUTE))) * MINUTE  # whole minutes
    edges = [times[-1] - n * length for n in range(-(-span // length), -1, -1)]
    places = [bisect_right(times, edge) - 1 for edge in edges]
    # None for a cell without a point: the agent was down
    pairs = [(max(a, 0), b) if b > max(a, 0) else None for a, b in pairwise(places)]
    fading = bool(history["fading"])

    def changes_of(key: str) -> dict[str, Cells]:
        return {name: _cell_changes(series[key], pairs, fading) for name, series in arms.items()}

    pulls = changes_of("pulls")
    closed = changes_of("closed")
    rewards = changes_of("rewards")
    total = _sum_cells(pulls.values(), len(pairs))
    return Trends(
        edges[-1] - edges[0],
        {name: _divide_cells(cells, total) for name, cells in pulls.items()},
        _divide_cells(
            _sum_cells(rewards.values(), len(pairs)), _sum_cells(closed.values(), len(pairs))
        ),
    )


def _cell_changes(series: Sequence[float | None], pairs: Sequence[Any], fading: bool) -> Cells:
    cells: Cells = []
    for pair in pairs:
        before, after = (None, None) if pair is None else (series[pair[0]], series[pair[1]])
        # Discounted evidence fades, so that differences of it can be negative: its level is shown
        # instead.
        if after is None or (before is None and not fading):
            cells.append(None)
        else:
            cells.append(after if fading or before is None else after - before)
    return cells


def _sum_cells(columns: Any, length: int) -> Cells:
    """Add up the known values, cell by cell."""
    rows = zip(*columns, strict=True) if columns else [()] * length
    values = [[value for value in row if value is not None] for row in rows]
    return [sum(row) if row else None for row in values]


def _divide_cells(cells: Cells, total: Cells) -> Cells:
    return [
        None if a is None or not b or b <= 0 else a / b for a, b in zip(cells, total, strict=True)
    ]


# Tables.

FIGURES = 58  # columns of the arms' table without names and padding
OF_NEIGHBOURS = 40  # columns of the neighbours' table without names
WIDE = 100  # terminals from this width on get more padding
# number of arms with a sparkline; columns for the name, and for the number beside it
DRAWN = 8
LONGEST = 24
BESIDE = 9
# a longer reward window is advised from this share on; the alert and the page use the same
LATE_SHARE = 0.03  # of all rewards
FEWEST_LATE = 10
# Unicode isolates around right-to-left names, so that they do not reorder the line
ISOLATE = "\u2068"
END = "\u2069"


class StatusTables:
    """Renders the tables of one moment, as wide as the terminal is now."""

    def __init__(self) -> None:
        from rich.console import Console

        console = Console()
        self.width = console.width
        self.unicode = _can_encode(console.encoding, "▁█…" + ISOLATE)

    def render_agent(self, answers: AgentStatus) -> Any:
        """Render all tables of an agent; a UserError if these are not the answers of an agent."""
        from rich.console import Group

        try:
            tables: list[Any] = []
            for name, experiment in answers.experiments.items():
                title = f"arms, as seen by {answers.url}{describe_visitors(experiment.context)}"
                tables += self._render_arms(
                    experiment, f"{name}: {title}" if answers.several else title
                )
            return Group(*tables, *self._render_network(answers.network))
        except (LookupError, TypeError, ValueError, AttributeError):
            # Another kind of server may answer with JSON, too, but with other keys.
            raise UserError(f"the server at {answers.url} is not a Posse agent") from None

    def _render_arms(self, experiment: ExperimentStatus, title: str) -> list[Any]:
        from rich.text import Text

        arms = experiment.arms
        controls = experiment.controls
        about = experiment.about
        table = self._new_table(["arm", "mean", "95% interval", "best?", "expected\nloss",
                             "decided\nhere", "in\nnetwork"])  # fmt: skip
        room = max(8, self.width - FIGURES - (12 if self.width >= WIDE else 6))
        for name, arm in arms.items():
            pinned = name == controls["pinned"]
            paused = name in controls["paused"]
            mark = " (pinned)" if pinned else " (paused)" if paused else ""
            table.add_row(
                self._fit_name(name, room - len(mark)).append(mark, "bold"),
                _format_number(arm["mean"], ".3g"),
                f"{_format_number(arm['low'], '.3g')} to {_format_number(arm['high'], '.3g')}",
                _format_number(arm["probability_best"], ".1%"),
                _format_number(arm["expected_loss"], ".3g"),
                _format_count(arm["pulls_here"]),
                _format_count(arm["pulls_in_network"]),
            )
        sentences = [
            *describe_windows(arms, about),
            *describe_verdict(experiment.verdict),
            *describe_sites(about.get("sites")),
        ]
        sentences += [
            *describe_odd_contexts(about.get("context")),
            *describe_audit(experiment.audit),
        ]
        past = self._render_trends(experiment.history) if experiment.history is not None else []
        lines = [Text(make_printable(line)) for line in sentences]
        return [Text(make_printable(title), "italic"), table, *lines, *past, Text("")]

    def _render_trends(self, history: dict[str, Any]) -> list[Any]:
        """Render sparklines of each arm's share of the decisions, and of the reward rate."""
        from rich.text import Text

        names = min(LONGEST, max(11, *map(len, history["arms"])))  # no shorter than "reward rate"
        recent = compute_trends(history, self.width - names - BESIDE)
        if recent is None:
            return []
        now = {name: _last_value(cells) for name, cells in recent.shares.items()}
        busiest = sorted(now, key=lambda name: -sum(x or 0 for x in recent.shares[name]))[:DRAWN]
        table = self._new_table(["", "", ""], left_columns=2)
        # The busiest arms are drawn, in the order of the table of arms.
        for name in (name for name in recent.shares if name in busiest):
            line = draw_sparkline(recent.shares[name], 0.0, 1.0, self.unicode)
            table.add_row(self._fit_name(name, names), line, _format_number(now[name], ".0%"))
        rates = [rate for rate in recent.rates if rate is not None]
        low = min([0.0, *rates])
        high = max([0.0, *rates])
        line = draw_sparkline(recent.rates, low, high, self.unicode)
        table.add_row("reward rate", line, _format_number(_last_value(recent.rates), ".3g"))
        table.show_header = False
        hours = _format_duration(recent.seconds)
        title = f"share of decisions here, and mean reward, over the last {hours}"
        return [Text(title, "italic"), table]

    def _render_network(self, network: dict[str, Any]) -> list[Any]:
        from rich.text import Text

        title = describe_neighbours(network)
        table = self._new_table(["neighbour", "connected", "last message", "lag"], left_columns=4)
        for name, neighbour in network["neighbours"].items():
            last_heard = neighbour["last_heard"]
            ago = "never" if last_heard is None else _format_age(max(0.0, time.time() - last_heard))
            lag = "" if neighbour["lag"] is None else str(neighbour["lag"])
            connected = "yes" if neighbour["connected"] else "no"
            table.add_row(
                self._fit_name(name, self.width - OF_NEIGHBOURS), connected, ago, Text(lag)
            )
        refused = [
            Text(make_printable(f"refused: {reason}  {count}"))
            for reason, count in network["refused"].items()
            if count
        ]
        return [Text(title, "italic"), table, *refused, Text("")]

    def _new_table(self, columns: list[str], left_columns: int = 1) -> Any:
        """Create a table without lines, so that it fits into 80 columns."""
        from rich.table import Table

        between = 2 if self.width >= WIDE else 1
        table = Table(box=None, pad_edge=False, padding=(0, between, 0, 0), header_style="bold")
        for number, column in enumerate(columns):
            table.add_column(
                column, justify="left" if number < left_columns else "right", no_wrap=True
            )
        return table

    def _fit_name(self, name: str, room: int) -> Any:
        """Shorten a name to `room` columns; Rich would read [brackets] in a str as markup."""
        from rich.text import Text

        text = Text(make_printable(name))
        text.truncate(max(1, room), overflow="ellipsis")
        if self.unicode and any(unicodedata.bidirectional(c) in ("R", "AL") for c in name):
            text = Text(ISOLATE).append(text).append(END)
        return text


def describe_windows(arms: dict[str, dict[str, Any]], about: dict[str, Any]) -> Iterator[str]:
    """Describe decisions and rewards that are not in the table: open, late or superseded."""
    open_counts = {
        name: (a.get("open_here", 0), a.get("open_in_network", 0)) for name, a in arms.items()
    }
    # flows mix to fractions of a quantum, and discounted counts are never exactly 0
    if any(round(number) for both in open_counts.values() for number in both):
        numbers = ", ".join(
            f"{name} {_format_count(here)} here, {_format_count(all_)} in network"
            for name, (here, all_) in open_counts.items()
        )
        yield f"open, so not in the table: {numbers}"
    elif about.get("silence") == "wait" and about["open_decisions"]:
        yield f"open, so not in the table: {_format_count(about['open_decisions'])} here"
    if half_life := about.get("half_life"):
        yield f"evidence is discounted: half its weight after {_format_duration(half_life)}"
    if late := about.get("late_rewards"):
        rewards = about["rewards"] + late
        too_many = late >= FEWEST_LATE and late > LATE_SHARE * rewards
        yield (
            f"late: {_format_count(late)} of {_format_count(rewards)} "
            f"reward{'s' if rewards > 1 else ''} came up to {about['longest_lateness']:,.0f} s "
            "after the window had closed, and did not count"
            f"{': lengthen reward_window' if too_many else ''}"
        )
    if superseded := about.get("superseded_rewards"):
        yield (
            f"superseded: {_format_count(superseded)} rewards of decisions that were open in a "
            "restored store"
        )


def describe_verdict(verdict: dict[str, Any] | None) -> Iterator[str]:
    """Describe the verdict; None for an experiment without `stop`."""
    if verdict is not None:
        yield f"verdict: {verdict['sentence']}"


def describe_visitors(context: dict[str, Any] | None) -> str:
    """Name the visitors that the arms are shown for, if visitors differ."""
    if context is None:
        return ""
    pairs = ", ".join(f"{name}={value}" for name, value in context.items())
    return f", {f'for {pairs}' if pairs else 'on average'}"


def describe_odd_contexts(context: dict[str, Any] | None) -> Iterator[str]:
    """Describe values of contexts outside the schema, since the start."""
    if context is None:
        return
    odd = [f"{name} {_format_count(n)} unknown" for name, n in context["unknown"].items() if n]
    odd += [
        f"{name} {_format_count(n)} out of range" for name, n in context["clipped"].items() if n
    ]
    if odd:
        yield f"contexts: {', '.join(odd)}"


def describe_sites(sites: dict[str, Any] | None) -> Iterator[str]:
    """Describe whether sites differ, and what sharing evidence gained."""
    if sites is None:
        return
    if sites["differ"]:
        yield f"sites: {sites['differ']}"
    alone = sites["loss_alone"]
    shared = sites["loss_shared"]
    if alone is not None and shared is not None and sites["alike"] is not None:
        yield f"sharing: expected loss of choosing now {shared:.2g}, by this site alone {alone:.2g}"


def describe_audit(audit: dict[str, Any] | None) -> Iterator[str]:
    """Compare the counted decisions with those in the agent's own evidence."""
    if audit is None:
        return
    counted = audit["counted"]
    in_evidence = audit["in_evidence"]
    sentence = f"audit: {counted:,} decisions counted, {in_evidence:,.0f} in the evidence"
    if counted == in_evidence:
        yield f"{sentence}; {audit['in_network']:,.0f} in the network"
    elif counted < in_evidence:
        # neighbours returned entries that the disk had forgotten
        yield f"{sentence} (the store was restored from a copy; nothing is missing)"
    else:
        missing = counted - in_evidence
        yield f"{sentence}: {missing:,.0f} ARE MISSING, see the log of this agent"


def describe_neighbours(network: dict[str, Any]) -> str:
    """Summarize connections and evidence, for example while an agent joins."""
    neighbours = network["neighbours"]
    connected = sum(bool(neighbour["connected"]) for neighbour in neighbours.values())
    n_known = network["agents_known"]
    counts = f"{connected} of {len(neighbours)}" if connected < len(neighbours) else f"{connected}"
    agents = f"{n_known} agent{'' if n_known == 1 else 's'}"
    # with its neighbours' evidence an agent knows at least one more agent than it has neighbours
    so_far = " so far" if n_known <= len(neighbours) else ""
    plural = "" if len(neighbours) == 1 else "s"
    return f"{counts} neighbour{plural} connected; evidence from {agents}{so_far}"


def make_printable(text: str) -> str:
    """Replace control characters, so that a name cannot steer the terminal."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def _can_encode(encoding: str, text: str) -> bool:
    try:
        text.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _last_value(cells: list[float | None]) -> float | None:
    return next((value for value in reversed(cells) if value is not None), None)


def _format_number(value: float | None, spelling: str) -> str:
    """Format a number; a dash for None, which stands for a number that JSON cannot hold."""
    return "-" if value is None else format(value, spelling)


def _format_count(value: float) -> str:
    """Format a count in at most seven characters."""
    for unit, size in (("G", 1e9), ("M", 1e6)):
        if value >= size:
            return f"{value / size:.2f}{unit}"[-7:]
    return f"{value:,.0f}"


def _format_age(seconds: float) -> str:
    """Format an age: to a tenth of a second, or in few characters."""
    return f"{seconds:.1f} s ago" if seconds < 100 else f"{_format_duration(seconds)} ago"


def _format_duration(seconds: float) -> str:
    """Format seconds in the largest unit of which there is at least one."""
    units = (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0), ("seconds", 1.0))
    name, size = next((unit for unit in units if seconds >= unit[1]), units[-1])
    number = f"{seconds / size:.3g}"
    return f"{number} {name.removesuffix('s') if number == '1' else name}"
