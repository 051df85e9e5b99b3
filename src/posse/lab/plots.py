"""Regret curves: the mean over runs inside a band, with the name at the end of the curve."""

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

# Okabe and Ito's colours, safe for colour-blind readers (without yellow, which is invisible on
# white), and dashes in line widths. Seven colours and five dashes have no common factor, so that
# 35 curves differ. The report page uses these tables too.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES: tuple[tuple[float, ...], ...] = (
    (), (4, 2), (6, 1.8, 1.2, 1.8), (1.2, 1.6), (7, 1.5, 1.2, 1.5, 1.2, 1.5)
)  # fmt: skip

# More points than a page can show only make slow and heavy figures.
POINTS = 2000
# Decades of a logarithmic axis of regret: more would let the first rounds compress the rest.
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
    style_axes(axes)
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


def style_axes(axes: Axes) -> None:
    """Style axes: no box, a faint grid, curves that start at the edge."""
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
    """Add the mean regret (or reward) of a result and, with two runs or more, a band around it.

    log:   False, "x", "y", or True for both axes
    bands: "interval" for the mean's 95% interval, "quantiles" for the middle 90% of the runs
    """
    from matplotlib.cbook import normalize_kwargs
    from matplotlib.lines import Line2D

    validation.validate_choice("bands", bands, BANDS)
    indices = choose_points(len(result.times))
    times = result.times[indices]
    curves = result.curves[:, indices]
    mean, _, low, high = mean_interval(curves)
    if bands == "quantiles":
        low, high = np.quantile(curves, (0.05, 0.95), axis=0)
    options = line_style(len(axes.lines), points=len(times)) | normalize_kwargs(
        line_options, Line2D
    )
    (line,) = axes.plot(times, mean, label=label, **options)
    if result.runs > 1:
        axes.fill_between(
            times, low, high, color=line.get_color(), alpha=0.18, linewidth=0, zorder=1.5
        )
    # Labels that the caller has set stay.
    axes.set_xlabel(axes.get_xlabel() or "round")
    axes.set_ylabel(axes.get_ylabel() or f"{result.measure} per agent")
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
        axes.set_title(_truncate(title), parse_math=False)
    if not label_ends(axes, lines):
        # Short handles would not show the line style.
        columns = -(-len(lines) // _ROWS)  # columns
        size = "medium" if columns == 1 else "x-small"
        legend = axes.legend(frameon=False, handlelength=3, ncols=columns, fontsize=size)
        legend.set_in_layout(False)  # a legend larger than the axes would shrink them to nothing
        for text in legend.get_texts():
            text.set_parse_math(False)  # dollar signs in a name are not TeX
            text.set_text(_truncate(text.get_text()))


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
        # Bands reach down to zero, and the axis would follow them.
        axes.set_ylim(bottom=bottom)


def log_bottom(heights: NDArray[np.float64]) -> float | None:
    """Give the lower end of a logarithmic axis; None where no value is positive."""
    positive = heights[heights > 0]
    return float(0.8 * max(positive.min(), positive.max() / 10**DECADES)) if positive.size else None


def is_wide(results: ArrayLike) -> bool:
    """Whether final regrets are so far apart that a linear axis would hide the smallest."""
    ends = np.asarray(results, float)
    positive = ends[ends > 0]
    return bool(positive.size and positive.max() > WIDE * positive.min())


def spread_labels(heights: ArrayLike, gap: float, low: float, high: float) -> NDArray[np.float64]:
    """Move labels as little as possible until they are a gap apart and between low and high.

    The sum of squared moves is least: isotonic regression of the heights minus their gaps. There
    must be room: (number - 1) * gap <= high - low.
    """
    from scipy.optimize import isotonic_regression

    places = np.asarray(heights, dtype=np.float64)
    order = np.argsort(places, kind="stable")
    steps = gap * np.arange(len(places))
    moved = isotonic_regression(places[order] - steps).x
    spaced = np.empty_like(places)
    spaced[order] = np.clip(moved, low, max(low, high - gap * (len(places) - 1))) + steps
    return spaced


def save_figure(figure: Figure, path: str | os.PathLike[str], dpi: float = 200) -> None:
    """Write a figure as PNG, PDF or SVG, by the suffix of the path, atomically."""
    kind = validation.validate_choice(
        "figure format", Path(path).suffix.lower().lstrip("."), FORMATS
    )
    # Without a date, equal figures are equal files.
    undated = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}.get(kind)
    with atomic_write(path) as temporary:
        figure.savefig(temporary, format=kind, dpi=dpi, metadata=undated)


def write_comparison(comparison: Comparison, title: str, paths: Sequence[Path]) -> None:
    """Write the curves of a comparison as figures, each in the format of its suffix."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    # Not a figure of pyplot, which would open a window for it, or keep it for ever.
    figure = Figure(figsize=SIZE, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    style_axes(axes)
    # On a linear axis the curves of the best algorithms would lie on the axis itself.
    wide = is_wide([result.summary().mean for result in comparison.values()])
    with warnings.catch_warnings():
        # The font may lack a script; tables have the name in full.
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
    texts = [
        f"{line.get_label()}  {format_number(y)}" for line, (_, y) in zip(lines, ends, strict=True)
    ]
    # A letter is 0.55 of the font size wide, on average; labels may take 40% of the figure.
    too_wide = max(map(len, texts)) * 0.55 * _LABEL > 0.4 * figure.get_figwidth() * 72
    if figure.get_layout_engine() is None or too_wide:
        return False
    # The layout will leave less height than there is now.
    if len(lines) * _LINE > 0.85 * box.height * points:
        return False
    # Reading the limits makes matplotlib update them to all curves.
    axes.get_ylim()
    heights = (axes.transData.transform(ends)[:, 1] - box.y0) * points
    heights = np.nan_to_num(heights, neginf=0.0)  # a regret of zero on a logarithmic axis
    places = spread_labels(heights, _LINE, 0, box.height * points)
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


def format_number(value: float) -> str:
    """Format a number with three digits, or with all digits before the point."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:#.3g}"


def format_value(value: Any) -> str:
    """Format a number of the settings: whole numbers in full, others in four digits."""
    return f"{value:.4g}" if value != int(value) else str(int(value))


def choose_points(length: int, points: int = POINTS) -> NDArray[np.intp]:
    """Choose the points to draw: all of a short curve, else some evenly and log-spaced."""
    if length <= points:
        return np.arange(length)
    even = np.linspace(0, length - 1, points)
    # Log-spaced points show the beginning of the curve on a logarithmic axis.
    decades = np.geomspace(1, length, points) - 1
    return np.unique(np.rint(np.concatenate([even, decades])).astype(np.intp))


def _truncate(text: str) -> str:
    """Truncate a text to the width of a figure."""
    return text if len(text) <= _LETTERS else f"{text[: _LETTERS - 1]}…"


def line_style(index: int, points: int) -> dict[str, Any]:
    """Give curve number `index` a colour, and a line style that distinguishes it in grey."""
    dash = DASHES[index % len(DASHES)]
    style = {"color": COLOURS[index % len(COLOURS)], "linestyle": (0, dash) if dash else "-"}
    # A single point has no line, and needs a marker.
    return style | {"linewidth": 1.8, "marker": "o" if points == 1 else "None"}
