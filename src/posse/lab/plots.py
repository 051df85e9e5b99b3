"""One look for all regret curves: the mean over runs inside its 95% band."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from posse import checks
from posse.lab.files import atomic_write
from posse.lab.statistics import mean_interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from posse.lab.results import Comparison, Result

# Okabe and Ito's colours, safe for colour-blind readers (without yellow, which is lost on white).
# Seven colours and five line styles have no common factor: 35 curves before a pair comes back.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
LINES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (6, 1.5, 1, 1.5, 1, 1.5)))

# More points than a page can show only make slow and heavy figures.
POINTS = 2000

FORMATS = ("png", "pdf", "svg")


def new_axes() -> Axes:
    """Open a figure that a notebook shows and that `plt.show()` and `plt.savefig` find."""
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    # pyplot keeps its figures, and from the 21st on would warn whoever plots in a loop
    with mpl.rc_context({"figure.max_open_warning": 0}):
        axes = plt.figure(figsize=(6.4, 4.0), layout="constrained").add_subplot()
    dress(axes)
    return axes


def dress(axes: Axes) -> None:
    """Give axes the house look: no box, a faint grid, curves that start at the edge."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="0.9", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.margins(x=0)


def draw_result(axes: Axes, result: Result, label: str | None = None, **line_options: Any) -> None:
    """Add the mean regret of a result and, with two runs or more, its 95% band."""
    from matplotlib.cbook import normalize_kwargs
    from matplotlib.lines import Line2D

    shown = _shown(len(result.times))
    times = result.times[shown]
    mean, _, low, high = mean_interval(result.regret[:, shown])
    options = _look(len(axes.lines), points=len(times)) | normalize_kwargs(line_options, Line2D)
    (line,) = axes.plot(times, mean, label=label, **options)
    if result.runs > 1:
        axes.fill_between(
            times, low, high, color=line.get_color(), alpha=0.18, linewidth=0, zorder=1.5
        )
    # whoever named the axes before knows better
    axes.set_xlabel(axes.get_xlabel() or "round")
    axes.set_ylabel(axes.get_ylabel() or "regret per agent")


def draw_comparison(axes: Axes, comparison: Comparison, title: str | None = None) -> None:
    """Add the curves of all algorithms, a legend and perhaps a title."""
    for name, result in comparison.items():
        draw_result(axes, result, label=name)
    # long handles: a short one does not show which line style it is
    legend = axes.legend(frameon=False, handlelength=3)
    for text in legend.get_texts():  # a name with dollar signs is no formula
        text.set_parse_math(False)
    if title is not None:
        axes.set_title(title, parse_math=False)


def save_figure(figure: Figure, path: str | os.PathLike[str], dpi: float = 200) -> None:
    """Write a figure as PNG, PDF or SVG, by the suffix of the path: wholly or not at all."""
    kind = checks.choice("figure format", Path(path).suffix.lower().lstrip("."), FORMATS)
    # no dates inside: the same figure is the same file
    undated = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}.get(kind)
    with atomic_write(path) as temporary:
        figure.savefig(temporary, format=kind, dpi=dpi, metadata=undated)


def _shown(length: int) -> NDArray[np.intp]:
    """Choose the positions to draw: all of a short curve, else some evenly and in all decades."""
    if length <= POINTS:
        return np.arange(length)
    even = np.linspace(0, length - 1, POINTS)
    # so that the curve has its beginning on a logarithmic axis too
    decades = np.geomspace(1, length, POINTS) - 1
    return np.unique(np.rint(np.concatenate([even, decades])).astype(np.intp))


def _look(index: int, points: int) -> dict[str, Any]:
    """Give curve number `index` a colour and a line style, which tells it apart in grey too."""
    look = {"color": COLOURS[index % len(COLOURS)], "linestyle": LINES[index % len(LINES)]}
    # a single point has no line to be seen by
    return look | {"linewidth": 1.8, "marker": "o" if points == 1 else "None"}
