"""Charts in SVG that need no script: dots with intervals, planes of points, heat maps.

Positions along an axis are percentages, so that text keeps its size at any width. A name beside a
point is left out where it would overlap another one; tooltips and tables have all names.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from posse.lab.plots import DECADES, WIDE
from posse.lab.report.html import Html, isolate_name, render_element, wrap_scrolling

# Pixels. The width of a letter is an upper estimate: no browser measures it for us.
_LETTER_WIDTH = 7.2
_LINE_HEIGHT = 15.0
_HALF_MARK = 7.0
_MOST_LETTERS = 24  # letters


@dataclass(frozen=True)
class LabelPosition:
    """A label's text, its offset from its point in pixels, and the side where it is anchored."""

    text: str
    dx: float
    dy: float
    anchor: str


Box = tuple[float, float, float, float]  # left, top, right, bottom


def place_labels(
    names: Sequence[str],
    points: Sequence[tuple[float, float]],
    width: float,
    heights: tuple[float, float],
) -> dict[int, LabelPosition]:
    """Place as many labels beside their points as fit, the first names first; by number."""
    marks = [(x - _HALF_MARK, y - _HALF_MARK, x + _HALF_MARK, y + _HALF_MARK) for x, y in points]
    # Greedy: each name takes the first free position around its point. Earlier names are the more
    # important ones, so nothing is ever moved again.
    label_boxes: list[Box] = []
    positions = {}
    for i, (name, point) in enumerate(zip(names, points, strict=True)):
        # The mark of the point itself is no obstacle: every candidate stands beside it.
        obstacles = marks[:i] + marks[i + 1 :] + label_boxes
        for position in _candidate_positions(name):
            box = _label_box(position, point)
            inside = box[0] >= 0 and box[2] <= width
            inside = inside and box[1] >= heights[0] and box[3] <= heights[1] + _LINE_HEIGHT
            if inside and not any(_boxes_overlap(box, obstacle) for obstacle in obstacles):
                label_boxes.append(box)
                positions[i] = position
                break
    return positions


def shorten_name(name: str, most_letters: int = _MOST_LETTERS) -> str:
    """Shorten a name for a chart or a sentence, and isolate its writing direction."""
    return isolate_name(name if len(name) <= most_letters else f"{name[: most_letters - 1]}…")


def _candidate_positions(name: str) -> list[LabelPosition]:
    text = shorten_name(name)
    return [
        LabelPosition(text, 10, 4, "start"),
        LabelPosition(text, -10, 4, "end"),
        LabelPosition(text, 0, -11, "middle"),
        LabelPosition(text, 0, 19, "middle"),
        LabelPosition(text, 8, -8, "start"),
        LabelPosition(text, 8, 16, "start"),
        LabelPosition(text, -8, -8, "end"),
        LabelPosition(text, -8, 16, "end"),
    ]


def _label_box(position: LabelPosition, point: tuple[float, float]) -> Box:
    # The fonts of the reader are unknown here: an average letter has to do.
    width = _LETTER_WIDTH * len(position.text)
    left = (
        point[0] + position.dx - {"start": 0.0, "middle": width / 2, "end": width}[position.anchor]
    )
    bottom = point[1] + position.dy + 3
    return (left, bottom - _LINE_HEIGHT, left + width, bottom)


def _boxes_overlap(box: Box, obstacle: Box) -> bool:
    return (
        box[0] < obstacle[2]
        and obstacle[0] < box[2]
        and box[1] < obstacle[3]
        and obstacle[1] < box[3]
    )


# Axes: from numbers to percentages of the length, with round ticks.

_AXIS_END = 96.0  # percent: room for half a mark and half a label
_ZERO_GAP = 12.0  # percent between zero and the least number of a logarithmic axis that has a zero


@dataclass(frozen=True)
class AxisScale:
    """An axis from low to high, 0 < low < high where it is logarithmic.

    zero:  whether a logarithmic axis is broken and begins with 0
    start: the place of its first number, in percent
    """

    low: float
    high: float
    log: bool = False
    zero: bool = False
    start: float = 4.0

    def position_of(self, value: float) -> float:
        """Give the position of a value in percent; values beyond an end stand at that end."""
        if self.zero and value <= 0:
            return self.start
        start = self.start + _ZERO_GAP * self.zero
        if value <= self.low:
            return start
        transform = math.log if self.log else float
        fraction = (transform(value) - transform(self.low)) / (
            transform(self.high) - transform(self.low)
        )
        return start + (_AXIS_END - start) * min(1.0, fraction)

    def contains(self, value: float) -> bool:
        """Tell whether a value is on the axis."""
        return self.low <= value <= self.high or (self.zero and value == 0)

    def choose_ticks(self, count: int = 5) -> list[float]:
        """Choose about `count` round numbers."""
        ticks = _log_ticks(self.low, self.high, count) if self.log else []
        ticks = ticks if len(ticks) > 1 else _linear_ticks(self.low, self.high, count)
        return [0.0, *ticks] if self.zero else ticks


def fit_scale(values: Iterable[float | None], *, log: bool | None = None) -> AxisScale:
    """Fit an axis to all values: logarithmic where they are far apart, unless `log` is given.

    A logarithmic axis reaches four decades down at most, and has a broken off zero where a value
    is zero; a linear one begins at zero unless a value is less.
    """
    finite_values = [value for value in values if value is not None and math.isfinite(value)]
    positive_values = [value for value in finite_values if value > 0]
    if log is None:
        log = bool(positive_values) and max(positive_values) > WIDE * min(positive_values)
    # Regret of 0 has no logarithm, and one of 1e-9 would squeeze all others: hence the broken axis
    # and the limit of decades below.
    if not log or not positive_values:
        low = min(finite_values, default=0.0)
        high = max(finite_values, default=1.0)
        low = min(0.0, low)
        return AxisScale(low, high if high > low else low + 1.0)
    high = max(positive_values)
    low = max(min(positive_values), high / 10**DECADES)
    if high < 1.5 * low:  # all alike: some room about them
        low = low / 1.5
        high = high * 1.5
    return AxisScale(low / 1.08, high * 1.08, log=True, zero=0.0 in finite_values)


def centre_scale(values: Iterable[float | None], most: float) -> AxisScale:
    """Fit a linear axis with zero in its middle; values beyond `most` are not on it."""
    sizes = [abs(value) for value in values if value is not None and math.isfinite(value)]
    sizes_inside = [value for value in sizes if value <= most]
    # If a value is beyond `most`, the axis ends there, and the value becomes an arrow at its end.
    end = most if len(sizes_inside) < len(sizes) else max(sizes_inside, default=0.0)
    end = end or most or 1.0
    return AxisScale(-1.05 * end, 1.05 * end)


def format_tick(tick: float) -> str:
    """Write a tick."""
    return f"{tick:,.10g}".replace("-", "−")


def _linear_ticks(low: float, high: float, count: int) -> list[float]:
    # Steps of 1, 2 or 5 times a power of ten; the tolerance keeps ticks that rounding moved by one
    # unit in the last place.
    span = high - low
    power = 10 ** math.floor(math.log10(span / count))
    step = power * next(factor for factor in (1, 2, 5, 10) if span / (factor * power) <= count)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    ticks = [float(f"{i * step:.10g}") for i in range(first, last + 1)]
    return [tick for tick in ticks if low <= tick <= high]


def _log_ticks(low: float, high: float, count: int) -> list[float]:
    """Choose powers of ten and, where there is room, round numbers between them."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks: list[float] = []
    # From many to few ticks: the first set that leaves room between the numbers is taken.
    for factors in ((1, 2, 5), (1, 3), (1,)):
        candidates = [float(f"{factor}e{power}") for power in powers for factor in factors]
        ticks = [tick for tick in candidates if low <= tick <= high]
        if len(ticks) <= count + 1:
            return ticks
    return ticks[:: math.ceil(len(ticks) / count)]


# Dots and planes.

# Pixels: a row of dots, and the axis above the first row.
_ROW_HEIGHT = 24
_HEAD_HEIGHT = 44
# Pixels above and below a plane.
_TOP_MARGIN = 30
_BOTTOM_MARGIN = 46
# Labels are placed twice, for these widths in pixels; the style sheet shows one of the two.
_SCREEN_WIDTH = 900
_PHONE_WIDTH = 330


@dataclass(frozen=True)
class DotRow:
    """A value with its interval, in its own row of a chart.

    name:  markup that stands before the row; kind: its class; glyph: circle, square, diamond, star
    title: its tooltip
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
class ReferenceLine:
    """A value that all rows are compared with."""

    at: float
    name: str
    kind: str = "reference"


def draw_dots(
    meaning: str, rows: Sequence[DotRow], scale: AxisScale, lines: Sequence[ReferenceLine] = ()
) -> Html:
    """Draw dots and intervals, a row for each; a value off the axis is an arrow at its end."""
    height = _HEAD_HEIGHT + _ROW_HEIGHT * len(rows)
    elements = [_draw_tick(tick, scale, height) for tick in scale.choose_ticks(4)]
    lines = [line for line in lines if scale.contains(line.at)]
    sides = _choose_anchors(lines, scale)
    elements += [
        _draw_line(line, scale, height, side) for line, side in zip(lines, sides, strict=True)
    ]
    elements += [
        _draw_dot(row, scale, _HEAD_HEIGHT + _ROW_HEIGHT * (i + 0.5)) for i, row in enumerate(rows)
    ]
    if scale.zero:
        elements.append(_draw_axis_break(scale, 34))
    names = [
        render_element("li", row.name, class_=f"own {row.kind}" if row.own else row.kind)
        for row in rows
    ]
    # Screen readers get one sentence (`meaning`) in place of all marks.
    picture = render_element("svg", *elements, width="100%", height=height, aria_hidden="true")
    return render_element(
        "div",
        render_element("ul", *names, aria_hidden="true"),
        picture,
        class_="dots",
        role="img",
        aria_label=meaning,
    )


@dataclass(frozen=True)
class PlanePoint:
    """A point of a plane and its name; the first of a sequence is the first to get a label."""

    name: str
    x: float
    y: float
    title: str
    kind: str = "plain"
    glyph: str = "circle"


def draw_plane(
    meaning: str,
    points: Sequence[PlanePoint],
    x: AxisScale,
    y: AxisScale,
    names: tuple[str, str],
    *,
    front: Sequence[PlanePoint] = (),
    level: ReferenceLine | None = None,
    height: int = 440,
) -> Html:
    """Draw points of a plane, names where there is room for them, and the Pareto front.

    names: of the two axes
    front: points that no other beats in both; joined by steps
    level: a value of y that all are compared with
    """
    top = _TOP_MARGIN
    ground = height - _BOTTOM_MARGIN
    x = replace(x, start=10.0)  # the numbers of y stand before it

    def row(value: float) -> float:
        """Give the position of y in pixels: low values are at the bottom."""
        return round(ground - (ground - top) * y.position_of(value) / 100, 1)

    # The name of the level stands below its line, where it would cover the number of a tick.
    level_pixel = row(level.at) if level is not None and y.contains(level.at) else -math.inf
    elements = []
    for tick in y.choose_ticks(5):
        hidden = 5 < row(tick) - level_pixel < 29  # under the name of the level
        elements.append(_draw_level("" if hidden else format_tick(tick), row(tick)))
    elements += [_draw_foot_tick(tick, x, ground) for tick in x.choose_ticks(5)]
    if level is not None and level_pixel > 0:
        elements.append(
            render_element(
                "line", x1="0%", x2="100%", y1=level_pixel, y2=level_pixel, class_=level.kind
            )
        )
        elements.append(
            render_element("text", level.name, x="0", y=level_pixel + 13, class_=level.kind)
        )
    # The front is a staircase: between two of its points nobody is better than the first of them.
    steps = sorted(front, key=lambda point: (point.x, -point.y))
    for start, end in pairwise(steps):
        left = _format_position(x, start.x)
        right = _format_position(x, end.x)
        upper = row(start.y)
        lower = row(end.y)
        elements.append(
            render_element("line", x1=left, x2=right, y1=upper, y2=upper, class_="front")
        )
        elements.append(
            render_element("line", x1=right, x2=right, y1=upper, y2=lower, class_="front")
        )
    if x.zero:
        elements.append(_draw_axis_break(x, ground + 4))
    for point in reversed(points):  # the first is drawn last, above the others
        elements.append(
            _draw_mark(
                point.glyph, point.kind, _format_position(x, point.x), row(point.y), point.title
            )
        )
    for width, kind in ((_SCREEN_WIDTH, "roomy"), (_PHONE_WIDTH, "tight")):
        pixels = [(x.position_of(point.x) * width / 100, row(point.y)) for point in points]
        labels = place_labels([point.name for point in points], pixels, width, (top - 14, ground))
        for i, position in labels.items():
            elements.append(
                render_element(
                    "text",
                    position.text,
                    x=_format_position(x, points[i].x),
                    y=row(points[i].y) + position.dy,
                    dx=position.dx,
                    text_anchor=position.anchor,
                    class_=f"{kind} name {points[i].kind}",
                )
            )
    elements.append(render_element("text", f"↑ {names[1]}", x="0", y="12", class_="axis-name"))
    elements.append(
        render_element(
            "text", f"{names[0]} →", x="100%", y=height - 6, text_anchor="end", class_="axis-name"
        )
    )
    picture = render_element("svg", *elements, width="100%", height=height, aria_hidden="true")
    return render_element("div", picture, class_="plane", role="img", aria_label=meaning)


def draw_swatch(glyph: str, kind: str) -> Html:
    """Draw a glyph for a legend."""
    return render_element(
        "svg", _draw_mark(glyph, kind, "7", 7, ""), width=14, height=14, class_="swatch",
        aria_hidden="true",
    )  # fmt: skip


def _format_position(scale: AxisScale, value: float) -> str:
    return f"{scale.position_of(value):.2f}%"


def _draw_mark(glyph: str, kind: str, x: str, y: float, title: str) -> Html:
    tooltip = render_element("title", title) if title else Html()
    return render_element("use", tooltip, href=f"#{glyph}", x=x, y=y, class_=f"glyph {kind}")


def _draw_tick(tick: float, scale: AxisScale, height: float) -> Html:
    x = _format_position(scale, tick)
    line = render_element("line", x1=x, x2=x, y1=_HEAD_HEIGHT - 6, y2=height, class_="grid")
    return Html(
        line
        + render_element("text", format_tick(tick), x=x, y=_HEAD_HEIGHT - 12, text_anchor="middle")
    )


def _draw_line(line: ReferenceLine, scale: AxisScale, height: float, side: str) -> Html:
    x = _format_position(scale, line.at)
    stroke = render_element("line", x1=x, x2=x, y1=_HEAD_HEIGHT - 8, y2=height, class_=line.kind)
    return Html(
        stroke + render_element("text", line.name, x=x, y=14, text_anchor=side, class_=line.kind)
    )


def _choose_anchors(lines: Sequence[ReferenceLine], scale: AxisScale) -> list[str]:
    """Choose the anchors of the lines' names: away from each other, and inside the chart."""
    # Two names at one height would overlap, so they grow away from each other.
    if len(lines) == 1:
        place = scale.position_of(lines[0].at)
        return ["end" if place > 80 else "start" if place < 20 else "middle"]
    least = min((line.at for line in lines), default=0.0)
    return [
        "end" if line.at == least or scale.position_of(line.at) > 80 else "start" for line in lines
    ]


def _draw_dot(row: DotRow, scale: AxisScale, y: float) -> Html:
    elements = []
    if row.own:
        elements.append(
            render_element(
                "rect", x="0", width="100%", y=y - _ROW_HEIGHT / 2, height=_ROW_HEIGHT, class_="own"
            )
        )
    for value in row.rug:
        x = _format_position(scale, value)
        elements.append(
            render_element("line", x1=x, x2=x, y1=y - 7, y2=y + 7, class_=f"rug {row.kind}")
        )
    if row.at is None:
        return Html("".join(elements))
    # One run has no interval: its ends are nan.
    if row.low is not None and row.high is not None and math.isfinite(row.high - row.low):
        ends = {"x1": _format_position(scale, row.low), "x2": _format_position(scale, row.high)}
        elements.append(render_element("line", **ends, y1=y, y2=y, class_=f"interval {row.kind}"))
    beyond = row.at > scale.high
    if beyond or (row.at < scale.low and not scale.zero):
        elements.append(
            render_element(
                "text",
                render_element("title", row.title),
                "▸" if beyond else "◂",
                x="99%" if beyond else "1%",
                y=y + 5,
                text_anchor="end" if beyond else "start",
                class_=f"arrow {row.kind}",
            )
        )
    else:
        elements.append(
            _draw_mark(row.glyph, row.kind, _format_position(scale, row.at), y, row.title)
        )
    return Html("".join(elements))


def _draw_level(name: str, y: float) -> Html:
    line = render_element("line", x1="0%", x2="100%", y1=y, y2=y, class_="grid")
    return Html(line + render_element("text", name, x="0", y=y - 4))


def _draw_foot_tick(tick: float, scale: AxisScale, ground: float) -> Html:
    x = _format_position(scale, tick)
    line = render_element("line", x1=x, x2=x, y1=ground, y2=ground + 5, class_="axis")
    return Html(
        line + render_element("text", format_tick(tick), x=x, y=ground + 18, text_anchor="middle")
    )


def _draw_axis_break(scale: AxisScale, y: float) -> Html:
    """Mark where an axis leaves out the numbers between zero and its least one."""
    place = (scale.position_of(0) + scale.position_of(scale.low)) / 2
    return render_element(
        "text", "//", x=f"{place:.2f}%", y=y, text_anchor="middle", class_="break"
    )


# Heat maps: every field shows its number, the colour only helps to find it.


@dataclass(frozen=True)
class HeatMapField:
    """A field of the map.

    shade:  from -1 (cold) over 0 (paper) to 1 (warm); None for a field without a value
    title:  its tooltip
    strong: whether its text is in bold type
    """

    text: str
    shade: float | None
    title: str = ""
    strong: bool = False


def draw_heat_map(
    title: str,
    corner: str,
    columns: Sequence[str],
    rows: Sequence[tuple[str, Sequence[HeatMapField]]],
    own: Sequence[bool] = (),
) -> Html:
    """Draw a heat map as a table; `own` marks the columns of the reader's own algorithms."""
    marks = own or [False] * len(columns)
    head = [
        render_element(
            "th", render_element("span", name), scope="col", class_="own" if mark else None
        )
        for name, mark in zip(columns, marks, strict=True)
    ]
    body = "\n".join(
        render_element("tr", render_element("th", name, scope="row"), *map(_draw_field, fields))
        for name, fields in rows
    )
    top = render_element("tr", render_element("th", corner, scope="col"), *head)
    inner = Html(f"\n<thead>{top}</thead>\n<tbody>\n{body}\n</tbody>")
    return wrap_scrolling(title, render_element("table", inner, class_="heat"))


def _draw_field(field: HeatMapField) -> Html:
    text = render_element("b", field.text) if field.strong else field.text
    if field.shade is None:
        return render_element("td", text, class_="none", title=field.title or None)
    share = min(1.0, abs(field.shade))
    kind = "warm" if field.shade > 0 else "cold"
    style = f"--s: {60 * share:.0f}%"  # of the colour: at most so much that text is read on it
    return render_element("td", text, class_=kind, style=style, title=field.title or None)
