"""Names beside points: as many as do not run into each other, the first ones first."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from posse.lab.plots import DECADES, WIDE
from posse.lab.report.html import Html, element, isolated, scrolling

# pixels: a letter's width, a line, half a mark
_LETTER = 7.2
_LINE = 15.0
_MARK = 7.0
_LONGEST = 24  # letters


@dataclass(frozen=True)
class Spot:
    """A label's text and where it stands from its point: pixels and the side it is anchored."""

    text: str
    dx: float
    dy: float
    anchor: str


Box = tuple[float, float, float, float]  # left, top, right, bottom


def placed(
    names: Sequence[str],
    places: Sequence[tuple[float, float]],
    width: float,
    heights: tuple[float, float],
) -> dict[int, Spot]:
    """The spots of those names that find room beside their points, by number."""
    marks = [(x - _MARK, y - _MARK, x + _MARK, y + _MARK) for x, y in places]
    taken: list[Box] = []
    found = {}
    for i, (name, place) in enumerate(zip(names, places, strict=True)):
        others = marks[:i] + marks[i + 1 :] + taken
        for spot in _spots(name):
            box = _box(spot, place)
            inside = box[0] >= 0 and box[2] <= width
            inside = inside and box[1] >= heights[0] and box[3] <= heights[1] + _LINE
            if inside and not any(_meet(box, other) for other in others):
                taken.append(box)
                found[i] = spot
                break
    return found


def shortened(name: str, most: int = _LONGEST) -> str:
    """A name that a chart or a sentence has room for, set apart from what is around it."""
    return isolated(name if len(name) <= most else f"{name[: most - 1]}…")


def _spots(name: str) -> list[Spot]:
    text = shortened(name)
    return [
        Spot(text, 10, 4, "start"),
        Spot(text, -10, 4, "end"),
        Spot(text, 0, -11, "middle"),
        Spot(text, 0, 19, "middle"),
        Spot(text, 8, -8, "start"),
        Spot(text, 8, 16, "start"),
        Spot(text, -8, -8, "end"),
        Spot(text, -8, 16, "end"),
    ]


def _box(spot: Spot, place: tuple[float, float]) -> Box:
    wide = _LETTER * len(spot.text)
    left = place[0] + spot.dx - {"start": 0.0, "middle": wide / 2, "end": wide}[spot.anchor]
    bottom = place[1] + spot.dy + 3
    return (left, bottom - _LINE, left + wide, bottom)


def _meet(one: Box, two: Box) -> bool:
    return one[0] < two[2] and two[0] < one[2] and one[1] < two[3] and two[1] < one[3]


# From numbers to places: an axis in percent of its length, with round ticks.

_END = 96.0  # percent: room for half a mark and half a label
_GAP = 12.0  # percent between zero and the least number of a logarithmic axis that has a zero


@dataclass(frozen=True)
class Scale:
    """An axis from low to high, 0 < low < high where it is logarithmic.

    zero:  whether a logarithmic axis is broken and begins with 0
    start: the place of its first number, in percent
    """

    low: float
    high: float
    log: bool = False
    zero: bool = False
    start: float = 4.0

    def place(self, value: float) -> float:
        """Where a value stands, in percent; what is beyond an end stands there."""
        if self.zero and value <= 0:
            return self.start
        start = self.start + _GAP * self.zero
        if value <= self.low:
            return start
        bend = math.log if self.log else float
        part = (bend(value) - bend(self.low)) / (bend(self.high) - bend(self.low))
        return start + (_END - start) * min(1.0, part)

    def holds(self, value: float) -> bool:
        """Whether the value is on the axis."""
        return self.low <= value <= self.high or (self.zero and value == 0)

    def ticks(self, count: int = 5) -> list[float]:
        """About so many round numbers."""
        found = _log_ticks(self.low, self.high, count) if self.log else []
        found = found if len(found) > 1 else _linear_ticks(self.low, self.high, count)
        return [0.0, *found] if self.zero else found


def scale_of(values: Iterable[float | None], *, log: bool | None = None) -> Scale:
    """An axis that holds all values: logarithmic, unless told, where they are far apart.

    A logarithmic axis reaches four decades down at most, and has a broken off zero where a value
    is zero; a linear one begins at zero unless a value is less.
    """
    known = [value for value in values if value is not None and math.isfinite(value)]
    above = [value for value in known if value > 0]
    if log is None:
        log = bool(above) and max(above) > WIDE * min(above)
    if not log or not above:
        low = min(known, default=0.0)
        high = max(known, default=1.0)
        low = min(0.0, low)
        return Scale(low, high if high > low else low + 1.0)
    high = max(above)
    low = max(min(above), high / 10**DECADES)
    if high < 1.5 * low:  # all alike: some room about them
        low = low / 1.5
        high = high * 1.5
    return Scale(low / 1.08, high * 1.08, log=True, zero=0.0 in known)


def centred(values: Iterable[float | None], most: float) -> Scale:
    """A linear axis with zero in its middle that holds the values, those beyond `most` apart."""
    known = [abs(value) for value in values if value is not None and math.isfinite(value)]
    inside = [value for value in known if value <= most]
    end = most if len(inside) < len(known) else max(inside, default=0.0)
    end = end or most or 1.0
    return Scale(-1.05 * end, 1.05 * end)


def label(tick: float) -> str:
    """A tick as it is written."""
    return f"{tick:,.10g}".replace("-", "−")


def _linear_ticks(low: float, high: float, count: int) -> list[float]:
    span = high - low
    power = 10 ** math.floor(math.log10(span / count))
    step = power * next(each for each in (1, 2, 5, 10) if span / (each * power) <= count)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    ticks = [float(f"{i * step:.10g}") for i in range(first, last + 1)]
    return [tick for tick in ticks if low <= tick <= high]


def _log_ticks(low: float, high: float, count: int) -> list[float]:
    """Powers of ten and, where there is room, round numbers between them."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks: list[float] = []
    for parts in ((1, 2, 5), (1, 3), (1,)):
        every = [float(f"{part}e{power}") for power in powers for part in parts]
        ticks = [tick for tick in every if low <= tick <= high]
        if len(ticks) <= count + 1:
            return ticks
    return ticks[:: math.ceil(len(ticks) / count)]


# Charts in SVG that need no script: places in percent, so text keeps its size at any width.

# pixels: a row of dots, and the axis above the first
_ROW = 24
_HEAD = 44
# pixels above and below a plane
_CEILING = 30
_FOOT = 46
# pixels that a plane has at least on a screen and on a telephone
_WIDE = 900
_NARROW = 330


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
    top = _CEILING
    ground = height - _FOOT
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
        left = _percent(x, one.x)
        right = _percent(x, two.x)
        upper = row(one.y)
        lower = row(two.y)
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
    # One run has no interval: its ends are nan.
    if row.low is not None and row.high is not None and math.isfinite(row.high - row.low):
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


# A heat map as a table: every field says its number, the colour only helps to find it.


@dataclass(frozen=True)
class Field:
    """A field of the map.

    shade:  from -1 (cold) over 0 (paper) to 1 (warm); None for a field without a value
    title:  what is said when it is pointed at
    strong: whether its text is in bold type
    """

    text: str
    shade: float | None
    title: str = ""
    strong: bool = False


def heat_map(
    title: str,
    corner: str,
    columns: Sequence[str],
    rows: Sequence[tuple[str, Sequence[Field]]],
    own: Sequence[bool] = (),
) -> Html:
    """A row of fields for each name, the columns' names upright; `own` marks columns."""
    marks = own or [False] * len(columns)
    head = [
        element("th", element("span", name), scope="col", class_="own" if mark else None)
        for name, mark in zip(columns, marks, strict=True)
    ]
    body = "\n".join(
        element("tr", element("th", name, scope="row"), *map(_field, fields))
        for name, fields in rows
    )
    top = element("tr", element("th", corner, scope="col"), *head)
    inner = Html(f"\n<thead>{top}</thead>\n<tbody>\n{body}\n</tbody>")
    return scrolling(title, element("table", inner, class_="heat"))


def _field(field: Field) -> Html:
    text = element("b", field.text) if field.strong else field.text
    if field.shade is None:
        return element("td", text, class_="none", title=field.title or None)
    share = min(1.0, abs(field.shade))
    kind = "warm" if field.shade > 0 else "cold"
    style = f"--s: {60 * share:.0f}%"  # of the colour: at most so much that text is read on it
    return element("td", text, class_=kind, style=style, title=field.title or None)
