"""Which part of a sweep a figure shows, and along which of its dimensions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from posse import validation
from posse.lab import plots
from posse.lab.sweeps.grid import Axis, Label, label_of
from posse.randomness import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from posse.lab.sweeps.sweep import Sweep

ALGORITHM = "algorithm"
Row = Mapping[str, Any]  # of the sweep's table


@dataclass(frozen=True)
class Dimension:
    """An axis of the grid, or the algorithms.

    points: where it is shown
    labels: of all its points, by each of its names: its keys in short, and for a paired list all
            of them in one
    """

    points: tuple[int, ...]
    labels: Mapping[str, tuple[Label, ...]]

    @classmethod
    def of_axis(cls, axis: Axis, names: Mapping[str, str]) -> Dimension:
        """The dimension of an axis of the grid, whose keys have these short names."""
        short = [names[key] for key in axis.keys]
        columns = dict(zip(short, zip(*axis.labels, strict=True), strict=True))
        joint = tuple(" & ".join(map(str, labels)) for labels in axis.labels)
        paired = {" & ".join(short): joint} if len(short) > 1 else {}
        return cls(tuple(range(len(axis))), columns | paired)

    @property
    def name(self) -> str:
        """The name that tells all its points apart."""
        return list(self.labels)[-1]


@dataclass(frozen=True)
class Shown:
    """A dimension as a figure shows it: its name and the labels of its points, no two alike."""

    name: str
    labels: tuple[Label, ...]

    @property
    def is_numeric(self) -> bool:
        """Whether its labels are numbers, to be placed as such."""
        return all(isinstance(x, int | float) and not isinstance(x, bool) for x in self.labels)


@dataclass(frozen=True)
class Layout:
    """The rows of a sweep's table by their places along the dimensions shown.

    shown: by role, such as x and hue; None where a role was given nothing
    rows:  by the place on each of them, 0 where there is none
    fixed: what was chosen elsewhere, in words; empty if all is shown
    """

    shown: Mapping[str, Shown | None]
    rows: Mapping[tuple[int, ...], Row]
    fixed: str

    def labels(self, role: str) -> tuple[Label, ...]:
        """The labels along a role's dimension."""
        shown = self.shown[role]
        return ("",) if shown is None else shown.labels


def lay_out(
    sweep: Sweep, roles: Mapping[str, str | None], where: Mapping[str, Any] | None
) -> Layout:
    """What a figure shows, where each role (x, hue, ...) has the name of a dimension.

    A dimension of several values that no role has must be chosen from by `where`: an average
    over settings would be an answer to a question that nobody asked.
    """
    given = chosen(sweep, where)
    whole = dimensions(sweep)
    roles = {role: None if name is None else known(sweep, name) for role, name in roles.items()}
    numbers = {role: None if name is None else _number(given, name) for role, name in roles.items()}
    for role, other in _pairs(list(numbers)):
        if numbers[role] is not None and numbers[role] == numbers[other]:
            raise ValueError(f"{role} and {other} must be different, got {roles[role]!r} for both")
    for number, dimension in enumerate(given):
        if number not in numbers.values() and len(dimension.points) > 1:
            _refuse_unnamed(dimension, [role for role, name in roles.items() if name is None])
    shown = {
        role: None if number is None else _shown(given[number], str(roles[role]))
        for role, number in numbers.items()
    }
    fixed = [
        f"{dimension.name} = {dimension.labels[dimension.name][dimension.points[0]]}"
        for number, dimension in [(len(given) - 1, given[-1]), *enumerate(given[:-1])]
        if number not in numbers.values() and len(whole[number].points) > 1
    ]
    rows = {}
    for point, row in _rows(sweep):
        places = [
            d.points.index(i) if i in d.points else None for d, i in zip(given, point, strict=True)
        ]
        if None not in places:
            rows[tuple(0 if n is None else places[n] or 0 for n in numbers.values())] = row
    return Layout(shown, rows, ", ".join(fixed))


def dimensions(sweep: Sweep) -> list[Dimension]:
    """All dimensions: the axes of the grid, then the algorithms."""
    names = sweep.algorithms
    algorithms = Dimension(tuple(range(len(names))), {ALGORITHM: tuple(names)})
    short = sweep.grid.short_names()
    return [*(Dimension.of_axis(axis, short) for axis in sweep.grid.axes), algorithms]


def known(sweep: Sweep, name: Any) -> str:
    """The name of a dimension in short: keys may be written in full, too."""
    names = [each for dimension in dimensions(sweep) for each in dimension.labels]
    short = sweep.grid.short_names()
    return short.get(name) or validation.validate_choice("key", name, names)


def chosen(sweep: Sweep, where: Mapping[str, Any] | None) -> list[Dimension]:
    """All dimensions with the points that `where` leaves of them."""
    found = dimensions(sweep)
    if where is not None and not isinstance(where, Mapping):
        raise ValueError(
            f"where must be a dict of key to value, got {validation.format_value(where)}"
        )
    for full, value in (where or {}).items():
        key = known(sweep, full)
        number = _number(found, key)
        dimension = found[number]
        labels = found[number].labels[key]
        wanted = [label_of(each) for each in (value if isinstance(value, list) else [value])]
        for each in wanted:
            if each not in labels:
                there = ", ".join(map(repr, dict.fromkeys(labels)))
                raise ValueError(
                    f"where: {key} = {validation.format_value(each)} "
                    f"is not in the sweep: it has {there}"
                )
        left = tuple(point for point in dimension.points if labels[point] in wanted)
        if not left:
            raise ValueError(f"where leaves nothing of {dimension.name}")
        found[number] = Dimension(left, dimension.labels)
    return found


def _number(given: Sequence[Dimension], name: str) -> int:
    """Which dimension goes by a name."""
    return next(i for i, dimension in enumerate(given) if name in dimension.labels)


def _shown(dimension: Dimension, name: str) -> Shown:
    """A dimension by one of its names; by that of the whole where it does not tell all apart."""
    labels = [dimension.labels[name][point] for point in dimension.points]
    if len(set(labels)) < len(labels):
        name = dimension.name
        labels = [dimension.labels[name][point] for point in dimension.points]
    return Shown(name, tuple(labels))


def _rows(sweep: Sweep) -> list[tuple[tuple[int, ...], Row]]:
    """Each row of the table with its place on all dimensions."""
    names = sweep.algorithms
    points = [(*cell.point, names.index(name)) for cell in sweep.plan for name in cell.jobs]
    return list(zip(points, sweep._rows, strict=True))


def _refuse_unnamed(dimension: Dimension, free: Sequence[str]) -> None:
    labels = dimension.labels[dimension.name]
    roles = f"name it as {' or '.join(free)}, or " if free else ""
    raise ValueError(
        f"{dimension.name} has {len(dimension.points)} values: {roles}"
        f"choose one by where={{{dimension.name!r}: {labels[dimension.points[0]]!r}}}"
    )


def _pairs(names: Sequence[str]) -> list[tuple[str, str]]:
    return [(one, two) for i, one in enumerate(names) for two in names[i + 1 :]]


# A sweep as figures: final regret along one key, or over two as a heat map.

_REGRET = "final regret per agent"
_SPREAD = 0.5  # of the distance between two categories, for what stands side by side
_TICKS = 9  # more values than this of a numeric key are not all written


def plot(
    sweep: Sweep,
    x: str | None = None,
    hue: str | None = None,
    row: str | None = None,
    where: Mapping[str, Any] | None = None,
) -> list[Axes]:
    """Draw final regret against a key, a curve for each value of hue, axes for each of row."""
    layout = lay_out(sweep, _roles(sweep, x, hue, row, where), where)
    facets = layout.labels("row")
    figure_axes = _new_axes(len(facets))
    regrets = np.array([each["regret"] for each in layout.rows.values()])
    log = plots.log_bottom(regrets) if plots.is_wide(regrets) else None
    bottom = log or 0.0
    curves = [_draw_curves(axes, layout, i, bottom) for i, axes in enumerate(figure_axes)]
    for axes, facet, lines in zip(figure_axes, facets, curves, strict=True):
        axes.set_ylabel(_REGRET)
        if log is not None:
            axes.set_yscale("log", nonpositive="clip")
            _write_plainly(axes.yaxis)
        axes.set_ylim(bottom=bottom)
        shown = layout.shown["row"]
        title = ", ".join(
            filter(None, ["" if shown is None else f"{shown.name} = {facet}", layout.fixed])
        )
        if title:
            axes.set_title(title, parse_math=False)
        _name_curves(axes, lines, layout.shown["hue"], layout.shown["x"])
    return figure_axes


def heat_map(
    sweep: Sweep,
    x: str | None = None,
    y: str | None = None,
    algorithm: str | None = None,
    where: Mapping[str, Any] | None = None,
) -> Axes:
    """Draw the final regret of one algorithm over two keys, each cell with its number."""
    if algorithm is None and len(sweep.algorithms) == 1:
        algorithm = sweep.algorithms[0]
    if algorithm is None:
        raise ValueError(f"algorithm must be given, one of {', '.join(sweep.algorithms)}")
    validation.validate_choice("algorithm", algorithm, sweep.algorithms)
    where = dict(where or {}) | {ALGORITHM: algorithm}
    x, y = _two(sweep, x, y, where)
    layout = lay_out(sweep, {"x": x, "y": y}, where)
    columns = layout.labels("x")
    lines = layout.labels("y")
    values = np.full((len(lines), len(columns)), np.nan)
    for (column, line), each in layout.rows.items():
        values[line, column] = each["regret"]
    axes = _new_axes(1)[0]
    _draw_heat(axes, values)
    for labels, set_ticks, set_label, role in (
        (columns, axes.set_xticks, axes.set_xlabel, "x"),
        (lines, axes.set_yticks, axes.set_ylabel, "y"),
    ):
        set_ticks(range(len(labels)), list(map(_short, labels)))
        shown = layout.shown[role]
        set_label("" if shown is None else shown.name, parse_math=False)
    _turn_long_labels(axes, columns)
    axes.set_title(layout.fixed or str(algorithm), parse_math=False)
    return axes


def _roles(
    sweep: Sweep, x: str | None, hue: str | None, row: str | None, where: Mapping[str, Any] | None
) -> dict[str, str | None]:
    """What was left open: hue is the algorithm if there are several, x the first key that has."""
    given = chosen(sweep, where)
    hue, row = (None if each is None else known(sweep, each) for each in (hue, row))
    if hue is None and ALGORITHM not in (x, row) and len(given[-1].points) > 1:
        hue = ALGORITHM
    if x is None:
        free = [each for each in given[:-1] if not {hue, row} & set(each.labels)]
        free.sort(key=lambda each: len(each.points) == 1)  # in their order otherwise
        if not free:
            raise ValueError("x must be given: hue and row have all keys of the sweep")
        x = free[0].name
    return {"x": x, "hue": hue, "row": row}


def _two(
    sweep: Sweep, x: str | None, y: str | None, where: Mapping[str, Any]
) -> tuple[str | None, str | None]:
    """The two keys of a heat map; those left open are the first ones of several values."""
    given = chosen(sweep, where)[:-1]
    x, y = (None if each is None else known(sweep, each) for each in (x, y))
    free = [each.name for each in given if len(each.points) > 1 and not {x, y} & set(each.labels)]
    if x is None and free:
        x = free.pop(0)
    if y is None and free:
        y = free.pop(0)
    if x is None or y is None:
        raise ValueError("a heat map needs two keys of several values, x and y")
    return x, y


def _new_axes(rows: int) -> list[Axes]:
    """Axes below each other in one figure that pyplot knows."""
    if rows == 1:
        return [plots.new_axes()]
    import matplotlib.pyplot as plt

    with plots.ignore_open_figures():
        _, found = plt.subplots(
            rows, 1, figsize=(7.2, 3.0 * rows), dpi=150, layout="constrained",
            sharex=True, sharey=True, squeeze=False,
        )  # fmt: skip
    for axes in found[:, 0]:
        plots.dress(axes)
        axes.tick_params(labelbottom=True)
    return list(found[:, 0])


def _write_plainly(axis: Any) -> None:
    """Numbers as they are at 1, 2 and 5 of each decade, not as powers of ten."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def _draw_curves(axes: Axes, layout: Layout, facet: int, bottom: float) -> list[Any]:
    """A curve with its interval for each value of hue; side by side where x has no numbers.

    bottom: of the axis; below it an interval that reaches zero would have no end
    """
    shown = layout.shown["x"]
    assert shown is not None
    names = _names(layout)
    places = _places(shown)
    side = _SPREAD / max(1, len(names))
    lines = []
    for number, name in enumerate(names):
        found = [(i, layout.rows.get((i, number, facet))) for i in np.argsort(places)]
        rows = [(i, each) for i, each in found if each is not None]
        if not rows:
            continue
        at = np.array([places[i] for i, _ in rows])
        mean, low, high = _columns([each for _, each in rows])
        low = np.maximum(low, np.minimum(bottom, mean))
        look = plots.look(number, points=1)
        if shown.is_numeric:
            (line,) = axes.plot(at, mean, label=name, markersize=4, **look)
            axes.fill_between(
                at, low, high, color=line.get_color(), alpha=0.18, linewidth=0, zorder=1.5
            )
        else:
            at = at + side * (number - (len(names) - 1) / 2)
            errors = np.nan_to_num([mean - low, high - mean])
            line, *_ = axes.errorbar(
                at, mean, errors, label=name, **look | {"linestyle": "none", "capsize": 3}
            )
        lines.append(line)
    _label_x(axes, shown, places)
    return lines


def _names(layout: Layout) -> list[str]:
    """What curves are called: an algorithm by its name, a value with its key."""
    hue = layout.shown["hue"]
    if hue is None or hue.name == ALGORITHM:
        return list(map(str, layout.labels("hue")))
    return [f"{hue.name} = {_short(label)}" for label in hue.labels]


def _columns(rows: Sequence[Mapping[str, Any]]) -> FloatArray:
    return np.array([[row[key] for row in rows] for key in ("regret", "low", "high")], dtype=float)


def _places(shown: Shown) -> FloatArray:
    if shown.is_numeric:
        return np.array(shown.labels, dtype=float)
    return np.arange(len(shown.labels), dtype=float)


def _label_x(axes: Axes, shown: Shown, places: FloatArray) -> None:
    axes.set_xlabel(shown.name, parse_math=False)
    if shown.is_numeric:
        if places.min() > 0 and plots.is_wide(places):
            axes.set_xscale("log")
        axes.margins(x=0.03)
        if len(places) <= _TICKS:
            axes.set_xticks(places, list(map(_short, shown.labels)))
            axes.set_xticks([], minor=True)
        return
    axes.set_xticks(places, list(map(_short, shown.labels)))
    axes.set_xlim(-0.5, len(places) - 0.5)
    _turn_long_labels(axes, shown.labels)


def _turn_long_labels(axes: Axes, labels: Sequence[Any]) -> None:
    """Names that would run into each other stand aslant."""
    for tick in axes.get_xticklabels():
        tick.set_parse_math(False)
        if sum(len(_short(label)) + 2 for label in labels) > 70:
            tick.set(rotation=25, ha="right", rotation_mode="anchor")


def _name_curves(axes: Axes, lines: list[Any], hue: Shown | None, x: Shown | None) -> None:
    """Names at the ends of curves, or a legend where they have none or no room for them."""
    if len(lines) < 2 or hue is None:
        return
    if x is not None and x.is_numeric and plots.label_ends(axes, lines):
        return
    legend = axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    for text in legend.get_texts():
        text.set_parse_math(False)


def _draw_heat(axes: Axes, values: FloatArray) -> None:
    from matplotlib.colors import LogNorm

    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    seen = values[np.isfinite(values)]
    log = bool(seen.size) and seen.min() > 0 and plots.is_wide(seen)
    image = axes.imshow(
        values, cmap="viridis_r", aspect="auto", origin="lower", norm=LogNorm() if log else None
    )
    figure = axes.get_figure(root=True)
    assert figure is not None
    bar = figure.colorbar(image, ax=axes, label=_REGRET)
    if log:
        _write_plainly(bar.ax.yaxis)
    size = min(9.0, 130 / max(values.shape))
    for (line, column), value in np.ndenumerate(values):
        if np.isfinite(value):
            red, green, blue, _ = image.to_rgba(np.array(value))
            light = 0.299 * red + 0.587 * green + 0.114 * blue  # as eyes weigh them
            axes.text(
                column, line, plots.short(value), ha="center", va="center", fontsize=size,
                color="black" if light > 0.5 else "white",
            )  # fmt: skip


def _short(label: Any) -> str:
    """A label that an axis has room for."""
    text = f"{label:g}" if isinstance(label, float) else str(label)
    return text if len(text) <= 28 else f"{text[:27]}…"
