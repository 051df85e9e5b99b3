"""The figures for print: regret against time and against its logarithm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from posse.lab.paper.analysis import lai_robbins
from posse.lab.paper.runs import Outcome
from posse.lab.plots import draw_result, dress, is_wide, save_figure, set_logarithmic


def draw(outcome: Outcome, path: Path) -> list[Path]:
    """Write a panel as PNG and PDF beside each other; returns their paths.

    Where final regrets differ more than tenfold, the left axis of regret is logarithmic: on a
    linear one, which the right side then has, the lowest curves lie on the axis.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    wide = is_wide([result.summary().mean for result in outcome.results.values()])
    figure = Figure(figsize=(9.6, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2, sharey=not wide)
    for axes in (left, right):
        dress(axes)
        for name, result in outcome.results.items():
            draw_result(axes, result, label=name)
    if wide:
        set_logarithmic(left, "y")
        left.set_ylabel("regret per agent, logarithmic")
    right.set_xscale("log")
    right.set_xlabel("round, logarithmic")
    right.set_ylabel("regret per agent" if wide else "")
    slope = _least_slope(right, outcome)
    handles, labels = left.get_legend_handles_labels()
    if slope is not None:
        handles, labels = [*handles, slope], [*labels, slope.get_label()]
    figure.legend(
        handles, labels, loc="outside lower center", ncols=3, frameon=False, handlelength=3
    )
    figure.suptitle(f"{outcome.panel.title} ({outcome.runs} runs, 95% bands)", fontsize=11)
    written = []
    for suffix in (".png", ".pdf"):
        save_figure(figure, path.with_suffix(suffix))
        written.append(path.with_suffix(suffix))
    return written


def _least_slope(axes: Any, outcome: Outcome) -> Any:
    """The Lai-Robbins slope as a dashed line that ends where the lowest curve does."""
    least = lai_robbins(outcome)
    if least is None:
        return None
    lowest = min(outcome.results.values(), key=lambda result: result.summary().mean)
    end, horizon = lowest.summary().mean, lowest.horizon
    times = np.geomspace(max(1.0, horizon / 100), horizon, 50)
    line = end + least.slope * np.log(times / horizon)
    label = f"Lai-Robbins slope, {least.slope:.3g} ln t"
    look = {"color": "0.35", "linestyle": (0, (2, 2)), "linewidth": 1.4}
    return axes.plot(times, line, label=label, **look)[0]
