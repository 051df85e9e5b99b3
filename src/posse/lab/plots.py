"""One look for all regret curves: the mean over runs inside a band, named at its end."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from posse import validation
from posse.lab.atomic_files import atomic_write
from posse.lab.statistics import mean_interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    from posse.lab.comparisons import Comparison
    from posse.lab.results import Result

# Okabe and Ito's colours, safe for colour-blind readers (without yellow, which is lost on white),
# and dashes in line widths. Seven of the one and five of the other have no common factor: 35
# curves before a pair comes back. The report's page draws with these tables, too.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES: tuple[tuple[float, ...], ...] = (
    (), (4, 2), (6, 1.8, 1.2, 1.8), (1.2, 1.6), (7, 1.5, 1.2, 1.5, 1.2, 1.5)
)  # fmt: skip

# More points than a page can show only make slow and heavy figures.
POINTS = 2000
# What a logarithmic axis of regret shows at most: the first rounds would press all else together.
DECADES = 4
# Final regrets farther apart than this need a logarithmic axis to be seen side by side.
WIDE = 10

SIZE = (7.2, 4.2)  # inches
FORMATS = ("png", "pdf", "svg")
BANDS = ("interval", "quantiles")
_LOGS = {False: "", True: "xy", "": "", "x": "x", "y": "y", "xy": "xy"}

_LABEL = 9.0  # points: the size of the labels at the curves' ends
_LINE = 1.25 * _LABEL
_ROWS = 16  # of a legend
_LETTERS = 80  # of a title, or of a name in a legend


def new_axes() -> Axes:
    """Open a figure that a notebook shows and that `plt.show()` and `plt.savefig` find."""
    import matplotlib.pyplot as plt

    with ignore_open_figures():
        axes = plt.figure(figsize=SIZE, dpi=150, layout="constrained").add_subplot()
    dress(axes)
    return axes


@contextmanager
def ignore_open_figures() -> Iterator[None]:
    """Silence pyplot's warning from the 21st open figure on, for users who plot in a loop.

    `rc_context` would silence it too, but the first figure of a notebook loads the inline backend,
    which sets `interactive`; leaving the context would reset that, and no later figure would show.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "More than .* figures have been opened", RuntimeWarning)
        yield


def dress(axes: Axes) -> None:
    """Give axes the house look: no box, a faint grid, curves that start at the edge."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="0.9", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.margins(x=0)


def draw_result(
    axes: Axes,
    result: Result,
    label: str | None = None,
    *,
    log: bool | str = False,
    bands: str = "interval",
    **line_options: Any,
) -> Line2D:
    """Add the mean regret of a result and, with two runs or more, a band around it.

    log:   False, "x", "y", or True for both axes
    bands: "interval" for the mean's 95% interval, "quantiles" for the middle 90% of the runs
    """
    from matplotlib.cbook import normalize_kwargs
    from matplotlib.lines import Line2D

    validation.validate_choice("bands", bands, BANDS)
    drawn = shown(len(result.times))
    times = result.times[drawn]
    regret = result.regret[:, drawn]
    mean, _, low, high = mean_interval(regret)
    if bands == "quantiles":
        low, high = np.quantile(regret, (0.05, 0.95), axis=0)
    options = look(len(axes.lines), points=len(times)) | normalize_kwargs(line_options, Line2D)
    (line,) = axes.plot(times, mean, label=label, **options)
    if result.runs > 1:
        axes.fill_between(
            times, low, high, color=line.get_color(), alpha=0.18, linewidth=0, zorder=1.5
        )
    # whoever named the axes before knows better
    axes.set_xlabel(axes.get_xlabel() or "round")
    axes.set_ylabel(axes.get_ylabel() or "regret per agent")
    set_logarithmic(axes, log)
    return line


def draw_comparison(
    axes: Axes,
    comparison: Comparison,
    title: str | None = None,
    *,
    log: bool | str = False,
    bands: str = "interval",
) -> None:
    """Add the curves of all algorithms, each named at its end or else in a legend."""
    lines = [
        draw_result(axes, result, label=name, bands=bands) for name, result in comparison.items()
    ]
    set_logarithmic(axes, log)
    if title is not None:
        axes.set_title(_cut(title), parse_math=False)
    if not label_ends(axes, lines):
        # long handles: a short one does not show which line style it is
        many = -(-len(lines) // _ROWS)  # columns
        size = "medium" if many == 1 else "x-small"
        legend = axes.legend(frameon=False, handlelength=3, ncols=many, fontsize=size)
        legend.set_in_layout(False)  # or one larger than the axes would leave them no room
        for text in legend.get_texts():
            text.set_parse_math(False)  # a name with dollar signs is no formula
            text.set_text(_cut(text.get_text()))


def set_logarithmic(axes: Axes, log: bool | str) -> None:
    """Make one axis or both logarithmic; regret then begins four decades below its top."""
    if not isinstance(log, (bool, str)) or log not in _LOGS:
        raise ValueError(f"log must be False, True, 'x', 'y' or 'xy', got {log!r}")
    if "x" in _LOGS[log]:
        axes.set_xscale("log")
    if "y" not in _LOGS[log]:
        return
    heights = np.concatenate([np.asarray(line.get_ydata(), float) for line in axes.lines])
    if (bottom := log_bottom(heights)) is not None:
        axes.set_yscale("log", nonpositive="clip")
        # bands reach down to zero, and the axis would follow them
        axes.set_ylim(bottom=bottom)


def log_bottom(heights: NDArray[np.float64]) -> float | None:
    """Where a logarithmic axis of these begins; None where all is zero, which has no logarithm."""
    seen = heights[heights > 0]
    return float(0.8 * max(seen.min(), seen.max() / 10**DECADES)) if seen.size else None


def is_wide(results: ArrayLike) -> bool:
    """Whether final regrets are so far apart that a linear axis hides the smallest."""
    ends = np.asarray(results, float)
    seen = ends[ends > 0]
    return bool(seen.size and seen.max() > WIDE * seen.min())


def spread(wanted: ArrayLike, gap: float, low: float, high: float) -> NDArray[np.float64]:
    """Move places as little as need be until they are a gap apart and inside low to high.

    The squares of all moves are least (isotonic regression of the places less their gaps). There
    must be room: (number - 1) * gap <= high - low.
    """
    from scipy.optimize import isotonic_regression

    places = np.asarray(wanted, dtype=np.float64)
    order = np.argsort(places, kind="stable")
    steps = gap * np.arange(len(places))
    moved = isotonic_regression(places[order] - steps).x
    found = np.empty_like(places)
    found[order] = np.clip(moved, low, max(low, high - gap * (len(places) - 1))) + steps
    return found


def save_figure(figure: Figure, path: str | os.PathLike[str], dpi: float = 200) -> None:
    """Write a figure as PNG, PDF or SVG, by the suffix of the path: wholly or not at all."""
    kind = validation.validate_choice(
        "figure format", Path(path).suffix.lower().lstrip("."), FORMATS
    )
    # no dates inside: the same figure is the same file
    undated = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}.get(kind)
    with atomic_write(path) as temporary:
        figure.savefig(temporary, format=kind, dpi=dpi, metadata=undated)


def write_comparison(comparison: Comparison, title: str, paths: Sequence[Path]) -> None:
    """Write the curves of a comparison as figures, each in the format of its suffix."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=SIZE, layout="constrained")  # which no window knows
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    dress(axes)
    # on a linear axis the best algorithms would lie on the axis itself
    wide = is_wide([result.summary().mean for result in comparison.values()])
    with warnings.catch_warnings():
        # a script that the font lacks: tables have the name as it is
        warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)
        draw_comparison(axes, comparison, title or None, log="y" if wide else False)
        for path in paths:
            save_figure(figure, path)


def label_ends(axes: Axes, lines: list[Line2D]) -> bool:
    """Write each curve's name and last value beside its end, if there is room for all of them.

    Labels stand outside the axes, so the figure's layout must make room for them.
    """
    figure = axes.get_figure(root=True)
    assert figure is not None
    points = 72 / figure.dpi  # of a pixel
    box = axes.get_window_extent()
    ends = [tuple(np.asarray(line.get_xydata())[-1]) for line in lines]
    texts = [f"{line.get_label()}  {short(y)}" for line, (_, y) in zip(lines, ends, strict=True)]
    too_wide = max(map(len, texts)) * 0.55 * _LABEL > 0.4 * figure.get_figwidth() * 72
    if figure.get_layout_engine() is None or too_wide:
        return False
    # the layout leaves less height than there is now
    if len(lines) * _LINE > 0.85 * box.height * points:
        return False
    axes.get_ylim()  # so that the limits are those of all curves
    heights = (axes.transData.transform(ends)[:, 1] - box.y0) * points
    heights = np.nan_to_num(heights, neginf=0.0)  # a regret of zero on a logarithmic axis
    places = spread(heights, _LINE, 0, box.height * points)
    for line, text, end, place, height in zip(lines, texts, ends, places, heights, strict=True):
        axes.annotate(
            text,
            end,
            xytext=(16, float(place - height)),
            textcoords="offset points",
            fontsize=_LABEL,
            color="0.1",
            va="center",
            annotation_clip=False,
            parse_math=False,  # a name with dollar signs is no formula
            arrowprops={
                "arrowstyle": "-",
                "color": line.get_color(),
                "linewidth": 1.2,
                "shrinkA": 0,
                "shrinkB": 0,
                "relpos": (0, 0.5),
            },
        )
    return True


def short(value: float) -> str:
    """A number of three digits, or all before its point."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:#.3g}"


def shown(length: int, points: int = POINTS) -> NDArray[np.intp]:
    """Choose the positions to draw: all of a short curve, else some evenly and in all decades."""
    if length <= points:
        return np.arange(length)
    even = np.linspace(0, length - 1, points)
    # so that the curve has its beginning on a logarithmic axis too
    decades = np.geomspace(1, length, points) - 1
    return np.unique(np.rint(np.concatenate([even, decades])).astype(np.intp))


def _cut(text: str) -> str:
    """As much of a text as a figure is wide."""
    return text if len(text) <= _LETTERS else f"{text[: _LETTERS - 1]}…"


def look(index: int, points: int) -> dict[str, Any]:
    """Give curve number `index` a colour and a line style, which tells it apart in grey too."""
    dash = DASHES[index % len(DASHES)]
    look = {"color": COLOURS[index % len(COLOURS)], "linestyle": (0, dash) if dash else "-"}
    # a single point has no line to be seen by
    return look | {"linewidth": 1.8, "marker": "o" if points == 1 else "None"}
