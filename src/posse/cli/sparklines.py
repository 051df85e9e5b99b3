"""Sparklines: shares of visits and the rate of rewards over the last hours, a character a cell."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

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
    top, scale = len(levels) - 1, (high - low) or 1.0
    return "".join(
        " " if each is None else levels[min(top, max(0, round((each - low) / scale * top)))]
        for each in cells
    )


def trends(history: dict[str, Any], most: int) -> Trends | None:
    """The last hours of a history of minutes in at most so many cells; None if there is too little.

    Numbers of a history are cumulative, and a cell is what came in it; what fades is as it was.
    """
    times, arms = history["times"], {n: each["here"] for n, each in history["arms"].items()}
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

    pulls, closed, rewards = came("pulls"), came("closed"), came("rewards")
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
