"""Figures of a sweep: final regret along one key, or over two keys as a heat map.

A figure gives roles (x, y, hue, row, column) to keys of the sweep or to its algorithms; all other
dimensions are fixed to one value by `where`, since an average over settings would answer no
question. Two keys of one paired list may have two roles: only the places of its points are filled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from posse import validation
from posse.lab import plots
from posse.lab.sweeps.grid import Axis, Label, format_label
from posse.randomness import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from posse.lab.sweeps.sweep import Sweep

ALGORITHM = "algorithm"
Row = Mapping[str, Any]  # of the sweep's table


@dataclass(frozen=True)
class Dimension:
    """An axis of the grid, or the algorithms.

    name:   the name whose labels distinguish all points
    points: the indices that the figure shows
    labels: of all its points, by name: a name for every key, in short, and for a paired list its
            own name, or all keys joined where none of them distinguishes its points
    """

    name: str
    points: tuple[int, ...]
    labels: Mapping[str, tuple[Label, ...]]

    @classmethod
    def from_axis(cls, axis: Axis, names: Mapping[str, str]) -> Dimension:
        """Make a dimension of an axis of the grid, by the short names of its keys."""
        short = [names[key] for key in axis.keys]
        columns = dict(zip(short, zip(*axis.labels, strict=True), strict=True))
        name = " & ".join(short)
        if axis.title:
            name = axis.title.name
        elif axis.first_distinct_key:
            name = names[axis.first_distinct_key]
        return cls(name, tuple(range(len(axis))), columns | {name: axis.point_labels})

    def restrict(self, points: Sequence[int]) -> Dimension:
        """Show some of the points."""
        return Dimension(self.name, tuple(points), self.labels)


@dataclass(frozen=True)
class ShownDimension:
    """A dimension as a figure shows it: its name and distinct labels of its points."""

    name: str
    labels: tuple[Label, ...]

    def find_place(self, dimension: Dimension, point: int) -> int:
        """Find the place of a point of the dimension among the labels shown."""
        return self.labels.index(dimension.labels[self.name][point])

    @property
    def is_numeric(self) -> bool:
        """Whether all labels are numbers."""
        return all(isinstance(x, int | float) and not isinstance(x, bool) for x in self.labels)


@dataclass(frozen=True)
class Layout:
    """The rows of a sweep's table, by their places along the dimensions shown.

    by_role: the dimension of every role, such as x and hue; None of an unused role
    rows:    by the place along every role, 0 for an unused role
    fixed:   the values of all other dimensions, as text; empty if there are none
    """

    by_role: Mapping[str, ShownDimension | None]
    rows: Mapping[tuple[int, ...], Row]
    fixed: str

    def list_labels(self, role: str) -> tuple[Label, ...]:
        """List the labels along the dimension of a role."""
        dimension = self.by_role[role]
        return ("",) if dimension is None else dimension.labels


def lay_out(
    sweep: Sweep, roles: Mapping[str, str | None], where: Mapping[str, Any] | None
) -> Layout:
    """Lay out a figure, given the name of a dimension for every role (x, hue, ...).

    A dimension of several values without a role must be fixed by `where`.
    """
    selected = select_points(sweep, where)
    whole = list_dimensions(sweep)
    roles = {
        role: None if name is None else resolve_name(sweep, name) for role, name in roles.items()
    }
    numbers = {
        role: None if name is None else _find_dimension(selected, name)
        for role, name in roles.items()
    }
    for role, second_role in _list_pairs(list(roles)):
        if roles[role] is not None and roles[role] == roles[second_role]:
            raise ValueError(
                f"{role} and {second_role} must be different, got {roles[role]!r} for both"
            )
    for number, dimension in enumerate(selected):
        if number not in numbers.values() and len(dimension.points) > 1:
            _refuse_unnamed(dimension, [role for role, name in roles.items() if name is None])
    shared = [n for n in numbers.values() if n is not None and list(numbers.values()).count(n) > 1]
    by_role = {
        role: None
        if number is None
        else _show_dimension(selected[number], str(roles[role]), shared=number in shared)
        for role, number in numbers.items()
    }
    # The title names what is fixed, the algorithm first.
    fixed = [
        f"{dimension.name} = {dimension.labels[dimension.name][dimension.points[0]]}"
        for number, dimension in [(len(selected) - 1, selected[-1]), *enumerate(selected[:-1])]
        if number not in numbers.values() and len(whole[number].points) > 1
    ]
    rows: dict[tuple[int, ...], Row] = {}
    for point, row in _locate_rows(sweep):
        if not all(i in d.points for d, i in zip(selected, point, strict=True)):
            continue
        place = tuple(
            0
            if shown is None or number is None
            else shown.find_place(selected[number], point[number])
            for shown, number in zip(by_role.values(), numbers.values(), strict=True)
        )
        if place in rows:
            named = [str(roles[role]) for role, number in numbers.items() if number == shared[0]]
            raise ValueError(
                f"{' and '.join(named)} do not distinguish the points of "
                f"{selected[shared[0]].name}: name that instead"
            )
        rows[place] = row
    return Layout(by_role, rows, ", ".join(fixed))


def list_dimensions(sweep: Sweep) -> list[Dimension]:
    """List all dimensions: the axes of the grid, then the algorithms."""
    names = sweep.algorithms
    algorithms = Dimension(ALGORITHM, tuple(range(len(names))), {ALGORITHM: tuple(names)})
    short = sweep.grid.short_names()
    return [*(Dimension.from_axis(axis, short) for axis in sweep.grid.axes), algorithms]


def resolve_name(sweep: Sweep, name: Any) -> str:
    """Resolve the name of a dimension: a short name, or a key in full."""
    names = [label_name for dimension in list_dimensions(sweep) for label_name in dimension.labels]
    short = sweep.grid.short_names()
    joint = {
        " & ".join(short[key] for key in axis.keys): dimension.name
        for axis, dimension in zip(sweep.grid.axes, list_dimensions(sweep), strict=False)
    }
    return short.get(name) or joint.get(name) or validation.validate_choice("key", name, names)


def select_points(sweep: Sweep, where: Mapping[str, Any] | None) -> list[Dimension]:
    """Restrict all dimensions to the points that `where` selects."""
    selected = list_dimensions(sweep)
    if where is not None and not isinstance(where, Mapping):
        raise ValueError(
            f"where must be a dict of key to value, got {validation.format_value(where)}"
        )
    for full, value in (where or {}).items():
        key = resolve_name(sweep, full)
        number = _find_dimension(selected, key)
        dimension = selected[number]
        labels = selected[number].labels[key]
        wanted_labels = [
            format_label(item) for item in (value if isinstance(value, list) else [value])
        ]
        for item in wanted_labels:
            if item not in labels:
                available = ", ".join(map(repr, dict.fromkeys(labels)))
                raise ValueError(
                    f"where: {key} = {validation.format_value(item)} "
                    f"is not in the sweep, which has {available}"
                )
        remaining = tuple(point for point in dimension.points if labels[point] in wanted_labels)
        if not remaining:
            raise ValueError(f"where leaves nothing of {dimension.name}")
        selected[number] = dimension.restrict(remaining)
    return selected


def _find_dimension(candidates: Sequence[Dimension], name: str) -> int:
    """Find the index of the dimension with a name."""
    return next(i for i, dimension in enumerate(candidates) if name in dimension.labels)


def _show_dimension(dimension: Dimension, name: str, shared: bool) -> ShownDimension:
    """Show a dimension by one of its names; by its own where labels would coincide.

    shared: whether another role shows the same dimension, so that labels may coincide
    """
    labels = [dimension.labels[name][point] for point in dimension.points]
    if len(set(labels)) < len(labels) and not shared:
        name = dimension.name
        labels = [dimension.labels[name][point] for point in dimension.points]
    return ShownDimension(name, tuple(dict.fromkeys(labels)))


def _locate_rows(sweep: Sweep) -> list[tuple[tuple[int, ...], Row]]:
    """Pair every row of the table with its indices on all dimensions."""
    names = sweep.algorithms
    points = [(*cell.point, names.index(name)) for cell in sweep.plan for name in cell.jobs]
    return list(zip(points, sweep.rows, strict=True))


def _refuse_unnamed(dimension: Dimension, free: Sequence[str]) -> None:
    labels = dimension.labels[dimension.name]
    roles = f"name it as {' or '.join(free)}, or " if free else ""
    raise ValueError(
        f"{dimension.name} has {len(dimension.points)} values: {roles}"
        f"choose one by where={{{dimension.name!r}: {labels[dimension.points[0]]!r}}}"
    )


def _list_pairs(names: Sequence[str]) -> list[tuple[str, str]]:
    return [(first, second) for i, first in enumerate(names) for second in names[i + 1 :]]


_REGRET = "final regret per agent"
_SPREAD = 0.5  # of the distance between two categories, over which their points are spread
_TICKS = 9  # a numeric axis with more values has the ticks that matplotlib chooses


def draw_plot(
    sweep: Sweep,
    x: str | None = None,
    hue: str | None = None,
    row: str | None = None,
    where: Mapping[str, Any] | None = None,
    column: str | None = None,
) -> list[Axes]:
    """Draw final regret against a key: curves by hue, axes by row and column, row after row."""
    layout = lay_out(sweep, _choose_roles(sweep, x, hue, row, column, where), where)
    rows = layout.list_labels("row")
    columns = layout.list_labels("column")
    figure_axes = _new_axes(len(rows), len(columns))
    regrets = np.array([table_row["regret"] for table_row in layout.rows.values()])
    log = plots.log_bottom(regrets) if plots.is_wide(regrets) else None
    bottom = log or 0.0
    facets = [(i, j) for i in range(len(rows)) for j in range(len(columns))]
    curves = [
        _draw_curves(axes, layout, facet, bottom)
        for axes, facet in zip(figure_axes, facets, strict=True)
    ]
    for axes, (i, j), lines in zip(figure_axes, facets, curves, strict=True):
        axes.set_ylabel(_label_row(layout, i, _REGRET, len(columns)) if j == 0 else "")
        if log is not None:
            axes.set_yscale("log", nonpositive="clip")
            _write_plainly(axes.yaxis)
        axes.set_ylim(bottom=bottom)
        if title := _title_facet(layout, i, j, None):
            axes.set_title(title, parse_math=False)
        if len(columns) == 1:
            _name_curves(axes, lines, layout.by_role["hue"], layout.by_role["x"])
    if len(columns) > 1:
        _title_figure(figure_axes[0], layout.fixed)
        _add_legend(figure_axes[len(columns) - 1], curves[len(columns) - 1])
    return figure_axes


def draw_heat_map(
    sweep: Sweep,
    x: str | None = None,
    y: str | None = None,
    algorithm: str | None = None,
    where: Mapping[str, Any] | None = None,
    row: str | None = None,
    column: str | None = None,
) -> list[Axes]:
    """Draw final regret over two keys, a map for each row and column, on one colour scale."""
    several = ALGORITHM not in (x, y, row, column) and ALGORITHM not in (where or {})
    if several and algorithm is None and len(sweep.algorithms) == 1:
        algorithm = sweep.algorithms[0]
    if several and algorithm is None:
        raise ValueError(f"algorithm must be given, one of {', '.join(sweep.algorithms)}")
    if algorithm is not None:
        validation.validate_choice("algorithm", algorithm, sweep.algorithms)
        where = dict(where or {}) | {ALGORITHM: algorithm}
    x, y = _choose_two_keys(sweep, x, y, row, column, where or {})
    layout = lay_out(sweep, {"x": x, "y": y, "row": row, "column": column}, where)
    shape = [len(layout.list_labels(role)) for role in ("row", "column", "y", "x")]
    values = np.full(shape, np.nan)
    for (i_x, i_y, i_row, i_column), table_row in layout.rows.items():
        values[i_row, i_column, i_y, i_x] = table_row["regret"]
    figure_axes = _new_axes(shape[0], shape[1])
    norm = _scale_colours(values)
    facets = np.ndindex(shape[0], shape[1])
    for axes, (i, j) in zip(figure_axes, facets, strict=True):
        _draw_heat(axes, values[i, j], norm)
        for role, set_ticks, set_label, edge in (
            ("x", axes.set_xticks, axes.set_xlabel, i == shape[0] - 1),
            ("y", axes.set_yticks, axes.set_ylabel, j == 0),
        ):
            labels = layout.list_labels(role)
            set_ticks(range(len(labels)), list(map(_shorten_label, labels)))
            dimension = layout.by_role[role]
            text = "" if dimension is None or not edge else dimension.name
            if role == "y" and edge:
                text = _label_row(layout, i, text, shape[1])
            set_label(text, parse_math=False)
        _turn_long_labels(axes, layout.list_labels("x"), shape[1])
        single = len(figure_axes) == 1
        default = layout.fixed or str(algorithm or "") if single else ""
        axes.set_title(_title_facet(layout, i, j, default), parse_math=False)
    if len(figure_axes) > 1:
        _title_figure(figure_axes[0], layout.fixed)
    _add_colour_bar(figure_axes, norm)
    return figure_axes


def _describe_place(dimension: ShownDimension | None, place: int) -> str:
    """Describe a place along a dimension: an algorithm by its name, a value with its key."""
    if dimension is None:
        return ""
    name = "" if dimension.name == ALGORITHM else f"{dimension.name} = "
    return f"{name}{_shorten_label(dimension.labels[place])}"


def _title_facet(layout: Layout, row: int, column: int, fixed: str | None) -> str:
    """Write the title of one of several axes.

    In a matrix the first row names the columns, and the labels of the y axes name the rows, since
    a whole title would be wider than its axes. Axes below each other have whole titles.
    """
    if layout.by_role["column"] is not None:
        return _describe_place(layout.by_role["column"], column) if row == 0 else ""
    fixed = layout.fixed if fixed is None else fixed
    return ", ".join(filter(None, [_describe_place(layout.by_role["row"], row), fixed]))


def _label_row(layout: Layout, row: int, label: str, columns: int) -> str:
    """Name a row of a matrix of axes above the label of its y axis."""
    name = _describe_place(layout.by_role["row"], row) if columns > 1 else ""
    return "\n".join(filter(None, [name, label]))


def _title_figure(axes: Axes, text: str) -> None:
    figure = axes.get_figure(root=True)
    assert figure is not None
    if text:
        figure.suptitle(text, fontsize="medium", parse_math=False)


def _choose_roles(
    sweep: Sweep,
    x: str | None,
    hue: str | None,
    row: str | None,
    column: str | None,
    where: Mapping[str, Any] | None,
) -> dict[str, str | None]:
    """Choose the roles not given: hue the algorithm, x the first key with several values."""
    selected = select_points(sweep, where)
    hue, row, column = (
        None if candidate is None else resolve_name(sweep, candidate)
        for candidate in (hue, row, column)
    )
    if hue is None and ALGORITHM not in (x, row, column) and len(selected[-1].points) > 1:
        hue = ALGORITHM
    if x is None:
        used = {hue, row, column}
        free = [candidate for candidate in selected[:-1] if not used & set(candidate.labels)]
        free.sort(key=lambda candidate: len(candidate.points) == 1)  # in their order otherwise
        if not free:
            raise ValueError("x must be given: hue, row and column have all keys of the sweep")
        x = free[0].name
    return {"x": x, "hue": hue, "row": row, "column": column}


def _choose_two_keys(
    sweep: Sweep,
    x: str | None,
    y: str | None,
    row: str | None,
    column: str | None,
    where: Mapping[str, Any],
) -> tuple[str | None, str | None]:
    """Choose the keys of a heat map that are not given: the first ones with several values."""
    selected = select_points(sweep, where)[:-1]
    x, y, row, column = (
        None if candidate is None else resolve_name(sweep, candidate)
        for candidate in (x, y, row, column)
    )
    free = [
        candidate.name
        for candidate in selected
        if len(candidate.points) > 1 and not {x, y, row, column} & set(candidate.labels)
    ]
    if x is None and free:
        x = free.pop(0)
    if y is None and free:
        y = free.pop(0)
    if x is None or y is None:
        raise ValueError("a heat map needs two keys of several values, x and y")
    return x, y


def _new_axes(rows: int, columns: int = 1) -> list[Axes]:
    """Open a figure of pyplot with a matrix of axes, and return them row after row."""
    if rows == columns == 1:
        return [plots.new_axes()]
    import matplotlib.pyplot as plt

    size = (7.2 if columns == 1 else max(7.2, 2.8 * columns + 1.6), 3.0 * rows)
    with plots.ignore_open_figures():
        _, grid_axes = plt.subplots(
            rows, columns, figsize=size, dpi=150, layout="constrained",
            sharex=True, sharey=True, squeeze=False,
        )  # fmt: skip
    for axes in grid_axes.ravel():
        plots.style_axes(axes)
        axes.tick_params(labelbottom=True)
    return list(grid_axes.ravel())


def _write_plainly(axis: Any) -> None:
    """Label 1, 2 and 5 of every decade with plain numbers, not with powers of ten."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def _draw_curves(axes: Axes, layout: Layout, facet: tuple[int, int], bottom: float) -> list[Any]:
    """Draw a curve with its interval for every value of hue; points side by side for categories.

    facet:  the row and the column of the axes
    bottom: of the axis, to which intervals are clipped: a logarithmic axis has no zero
    """
    x_dimension = layout.by_role["x"]
    assert x_dimension is not None
    names = _name_hues(layout)
    places = _place_labels(x_dimension)
    side = _SPREAD / max(1, len(names))
    lines = []
    for number, name in enumerate(names):
        candidates = [(i, layout.rows.get((i, number, *facet))) for i in np.argsort(places)]
        rows = [(i, table_row) for i, table_row in candidates if table_row is not None]
        if not rows:
            continue
        positions = np.array([places[i] for i, _ in rows])
        mean, low, high = _collect_estimates([table_row for _, table_row in rows])
        # Clipped at the bottom, but never above the mean.
        low = np.maximum(low, np.minimum(bottom, mean))
        style = plots.line_style(number, points=1)
        if x_dimension.is_numeric:
            (line,) = axes.plot(positions, mean, label=name, markersize=4, **style)
            axes.fill_between(
                positions, low, high, color=line.get_color(), alpha=0.18, linewidth=0, zorder=1.5
            )
        else:
            positions = positions + side * (number - (len(names) - 1) / 2)
            errors = np.nan_to_num([mean - low, high - mean])
            line, *_ = axes.errorbar(
                positions, mean, errors, label=name, **style | {"linestyle": "none", "capsize": 3}
            )
        lines.append(line)
    _label_x(axes, x_dimension, places, len(layout.list_labels("column")))
    return lines


def _name_hues(layout: Layout) -> list[str]:
    """Name the curves: an algorithm by its name, a value with its key."""
    hue = layout.by_role["hue"]
    if hue is None or hue.name == ALGORITHM:
        return list(map(str, layout.list_labels("hue")))
    return [f"{hue.name} = {_shorten_label(label)}" for label in hue.labels]


def _collect_estimates(rows: Sequence[Mapping[str, Any]]) -> FloatArray:
    return np.array([[row[key] for row in rows] for key in ("regret", "low", "high")], dtype=float)


def _place_labels(dimension: ShownDimension) -> FloatArray:
    if dimension.is_numeric:
        return np.array(dimension.labels, dtype=float)
    return np.arange(len(dimension.labels), dtype=float)


def _label_x(axes: Axes, dimension: ShownDimension, places: FloatArray, columns: int) -> None:
    axes.set_xlabel(dimension.name, parse_math=False)
    if dimension.is_numeric:
        if places.min() > 0 and plots.is_wide(places):
            axes.set_xscale("log")
        axes.margins(x=0.03)
        if len(places) <= _TICKS:
            axes.set_xticks(places, list(map(_shorten_label, dimension.labels)))
            axes.set_xticks([], minor=True)
        return
    axes.set_xticks(places, list(map(_shorten_label, dimension.labels)))
    axes.set_xlim(-0.5, len(places) - 0.5)
    _turn_long_labels(axes, dimension.labels, columns)


def _turn_long_labels(axes: Axes, labels: Sequence[Any], columns: int = 1) -> None:
    """Rotate labels that would overlap; axes side by side have less room."""
    room = 70 if columns == 1 else 30
    for tick in axes.get_xticklabels():
        tick.set_parse_math(False)
        if sum(len(_shorten_label(label)) + 2 for label in labels) > room:
            tick.set(rotation=25, ha="right", rotation_mode="anchor")


def _name_curves(
    axes: Axes, lines: list[Any], hue: ShownDimension | None, x: ShownDimension | None
) -> None:
    """Write names at the ends of curves, or a legend where there is no room."""
    if len(lines) < 2 or hue is None:
        return
    if x is not None and x.is_numeric and plots.label_ends(axes, lines):
        return
    _add_legend(axes, lines)


def _add_legend(axes: Axes, lines: list[Any]) -> None:
    """Name the curves beside the axes, on their right."""
    if len(lines) < 2:
        return
    legend = axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    for text in legend.get_texts():
        text.set_parse_math(False)


def _scale_colours(values: FloatArray) -> Any:
    """Make one scale of colours for all values of a figure, logarithmic if they are far apart."""
    from matplotlib.colors import LogNorm, Normalize

    finite = values[np.isfinite(values)]
    if not finite.size:
        return Normalize(0, 1)
    log = finite.min() > 0 and plots.is_wide(finite)
    return (LogNorm if log else Normalize)(finite.min(), finite.max())


def _add_colour_bar(figure_axes: Sequence[Axes], norm: Any) -> None:
    from matplotlib.colors import LogNorm

    figure = figure_axes[0].get_figure(root=True)
    assert figure is not None
    image = figure_axes[0].images[0]
    bar = figure.colorbar(image, ax=list(figure_axes), label=_REGRET)
    if isinstance(norm, LogNorm):
        _write_plainly(bar.ax.yaxis)


def _draw_heat(axes: Axes, values: FloatArray, norm: Any) -> None:
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    image = axes.imshow(values, cmap="viridis_r", aspect="auto", origin="lower", norm=norm)
    size = min(9.0, 130 / max(values.shape))
    for (line, column), value in np.ndenumerate(values):
        if np.isfinite(value):
            red, green, blue, _ = image.to_rgba(np.array(value))
            # Perceived brightness (ITU-R BT.601) decides between black and white numbers.
            light = 0.299 * red + 0.587 * green + 0.114 * blue
            axes.text(
                column, line, plots.format_number(value), ha="center", va="center", fontsize=size,
                color="black" if light > 0.5 else "white",
            )  # fmt: skip


def _shorten_label(label: Any) -> str:
    """Shorten a label to the room of an axis."""
    text = f"{label:g}" if isinstance(label, float) else str(label)
    return text if len(text) <= 28 else f"{text[:27]}…"
