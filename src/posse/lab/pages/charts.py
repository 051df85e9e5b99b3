"""Charts in SVG that need no script: places in percent, so text keeps its size at any width."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from posse.lab.pages.labels import placed
from posse.lab.pages.markup import Html, element
from posse.lab.pages.scales import Scale, label

_ROW, _HEAD = 24, 44  # pixels: a row of dots, and the axis above the first
_CEILING, _FOOT = 30, 46  # pixels above and below a plane
_WIDE, _NARROW = 900, 330  # pixels that a plane has at least on a screen and on a telephone


@dataclass(frozen=True)
class Dot:
    """A value with its interval, in a row of its own.

    name:  markup that stands before the row; kind: its class; glyph: circle, square, diamond, star
    title: what is said when it is pointed at
    rug:   the single values behind it, each a thin line
    """

    name: Html
    at: float | None
    low: float | None
    high: float | None
    title: str
    kind: str = "plain"
    glyph: str = "circle"
    own: bool = False
    rug: Sequence[float] = ()


@dataclass(frozen=True)
class Line:
    """A value that all rows are seen against."""

    at: float
    name: str
    kind: str = "reference"


def dots(meaning: str, rows: Sequence[Dot], scale: Scale, lines: Sequence[Line] = ()) -> Html:
    """Dots and intervals, a row for each; what is off the axis is an arrow at its end."""
    height = _HEAD + _ROW * len(rows)
    drawn = [_grid(tick, scale, height) for tick in scale.ticks(4)]
    lines = [line for line in lines if scale.holds(line.at)]
    sides = _sides(lines, scale)
    drawn += [_line(line, scale, height, side) for line, side in zip(lines, sides, strict=True)]
    drawn += [_dot(row, scale, _HEAD + _ROW * (i + 0.5)) for i, row in enumerate(rows)]
    if scale.zero:
        drawn.append(_break(scale, 34))
    names = [
        element("li", row.name, class_=f"own {row.kind}" if row.own else row.kind) for row in rows
    ]
    picture = element("svg", *drawn, width="100%", height=height, aria_hidden="true")
    return element(
        "div",
        element("ul", *names, aria_hidden="true"),
        picture,
        class_="dots",
        role="img",
        aria_label=meaning,
    )


@dataclass(frozen=True)
class Point:
    """A point of the plane and its name; the first of a sequence is the first to get a label."""

    name: str
    x: float
    y: float
    title: str
    kind: str = "plain"
    glyph: str = "circle"


def plane(
    meaning: str,
    points: Sequence[Point],
    x: Scale,
    y: Scale,
    names: tuple[str, str],
    *,
    front: Sequence[Point] = (),
    level: Line | None = None,
    height: int = 440,
) -> Html:
    """Points of a plane with a name at each that has room for it, and the front of the best.

    names: of the two axes
    front: points that no other beats in both; joined by steps
    level: a value of y that all are seen against
    """
    top, ground = _CEILING, height - _FOOT
    x = replace(x, start=10.0)  # the numbers of y stand before it

    def row(value: float) -> float:
        """The place of y in pixels: low values are at the ground."""
        return round(ground - (ground - top) * y.place(value) / 100, 1)

    at = row(level.at) if level is not None and y.holds(level.at) else -math.inf
    drawn = []
    for tick in y.ticks(5):
        hidden = 5 < row(tick) - at < 29  # under the name of the level
        drawn.append(_height("" if hidden else label(tick), row(tick)))
    drawn += [_foot(tick, x, ground) for tick in x.ticks(5)]
    if level is not None and at > 0:
        drawn.append(element("line", x1="0%", x2="100%", y1=at, y2=at, class_=level.kind))
        drawn.append(element("text", level.name, x="0", y=at + 13, class_=level.kind))
    steps = sorted(front, key=lambda point: (point.x, -point.y))
    for one, two in pairwise(steps):
        left, right = _percent(x, one.x), _percent(x, two.x)
        upper, lower = row(one.y), row(two.y)
        drawn.append(element("line", x1=left, x2=right, y1=upper, y2=upper, class_="front"))
        drawn.append(element("line", x1=right, x2=right, y1=upper, y2=lower, class_="front"))
    if x.zero:
        drawn.append(_break(x, ground + 4))
    for point in reversed(points):  # the first is drawn last, above the others
        drawn.append(
            _mark(point.glyph, point.kind, _percent(x, point.x), row(point.y), point.title)
        )
    for width, kind in ((_WIDE, "roomy"), (_NARROW, "tight")):
        places = [(x.place(point.x) * width / 100, row(point.y)) for point in points]
        found = placed([point.name for point in points], places, width, (top - 14, ground))
        for i, spot in found.items():
            drawn.append(
                element(
                    "text",
                    spot.text,
                    x=_percent(x, points[i].x),
                    y=row(points[i].y) + spot.dy,
                    dx=spot.dx,
                    text_anchor=spot.anchor,
                    class_=f"{kind} name {points[i].kind}",
                )
            )
    drawn.append(element("text", f"↑ {names[1]}", x="0", y="12", class_="axis-name"))
    drawn.append(
        element(
            "text", f"{names[0]} →", x="100%", y=height - 6, text_anchor="end", class_="axis-name"
        )
    )
    picture = element("svg", *drawn, width="100%", height=height, aria_hidden="true")
    return element("div", picture, class_="plane", role="img", aria_label=meaning)


def swatch(glyph: str, kind: str) -> Html:
    """A glyph as a legend shows it."""
    return element(
        "svg", _mark(glyph, kind, "7", 7, ""), width=14, height=14, class_="swatch",
        aria_hidden="true",
    )  # fmt: skip


def _percent(scale: Scale, value: float) -> str:
    return f"{scale.place(value):.2f}%"


def _mark(glyph: str, kind: str, x: str, y: float, title: str) -> Html:
    said = element("title", title) if title else Html()
    return element("use", said, href=f"#{glyph}", x=x, y=y, class_=f"glyph {kind}")


def _grid(tick: float, scale: Scale, height: float) -> Html:
    x = _percent(scale, tick)
    line = element("line", x1=x, x2=x, y1=_HEAD - 6, y2=height, class_="grid")
    return Html(line + element("text", label(tick), x=x, y=_HEAD - 12, text_anchor="middle"))


def _line(line: Line, scale: Scale, height: float, side: str) -> Html:
    x = _percent(scale, line.at)
    drawn = element("line", x1=x, x2=x, y1=_HEAD - 8, y2=height, class_=line.kind)
    return Html(drawn + element("text", line.name, x=x, y=14, text_anchor=side, class_=line.kind))


def _sides(lines: Sequence[Line], scale: Scale) -> list[str]:
    """Where names stand from their lines: away from each other, and inside at the right end."""
    if len(lines) == 1:
        place = scale.place(lines[0].at)
        return ["end" if place > 80 else "start" if place < 20 else "middle"]
    least = min((line.at for line in lines), default=0.0)
    return ["end" if line.at == least or scale.place(line.at) > 80 else "start" for line in lines]


def _dot(row: Dot, scale: Scale, y: float) -> Html:
    drawn = []
    if row.own:
        drawn.append(
            element("rect", x="0", width="100%", y=y - _ROW / 2, height=_ROW, class_="own")
        )
    for value in row.rug:
        x = _percent(scale, value)
        drawn.append(element("line", x1=x, x2=x, y1=y - 7, y2=y + 7, class_=f"rug {row.kind}"))
    if row.at is None:
        return Html("".join(drawn))
    if row.low is not None and row.high is not None:
        ends = {"x1": _percent(scale, row.low), "x2": _percent(scale, row.high)}
        drawn.append(element("line", **ends, y1=y, y2=y, class_=f"interval {row.kind}"))
    beyond = row.at > scale.high
    if beyond or (row.at < scale.low and not scale.zero):
        drawn.append(
            element(
                "text",
                element("title", row.title),
                "▸" if beyond else "◂",
                x="99%" if beyond else "1%",
                y=y + 5,
                text_anchor="end" if beyond else "start",
                class_=f"arrow {row.kind}",
            )
        )
    else:
        drawn.append(_mark(row.glyph, row.kind, _percent(scale, row.at), y, row.title))
    return Html("".join(drawn))


def _height(name: str, y: float) -> Html:
    line = element("line", x1="0%", x2="100%", y1=y, y2=y, class_="grid")
    return Html(line + element("text", name, x="0", y=y - 4))


def _foot(tick: float, scale: Scale, ground: float) -> Html:
    x = _percent(scale, tick)
    line = element("line", x1=x, x2=x, y1=ground, y2=ground + 5, class_="axis")
    return Html(line + element("text", label(tick), x=x, y=ground + 18, text_anchor="middle"))


def _break(scale: Scale, y: float) -> Html:
    """Where an axis leaves out all between zero and its least number."""
    place = (scale.place(0) + scale.place(scale.low)) / 2
    return element("text", "//", x=f"{place:.2f}%", y=y, text_anchor="middle", class_="break")
