"""The report of a sweep: one page that needs nothing but a browser, and its figures and tables."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posse.lab import plots
from posse.lab.atomic_files import atomic_write
from posse.lab.report import curves
from posse.lab.report import text as formats
from posse.lab.report.curves import Chart
from posse.lab.report.document import (
    Section,
    document,
    facts,
    figure,
    files,
    folded,
    image,
    paragraph,
)
from posse.lab.report.html import Cell, Html, element, table
from posse.lab.sweeps import figures as views
from posse.lab.sweeps.figures import ALGORITHM, Dimension, list_dimensions
from posse.lab.sweeps.grid import describe_cell
from posse.serialization.encode import collect_versions

if TYPE_CHECKING:
    from posse.lab.sweeps.sweep import Sweep

PAGE = "index.html"
# More figures than this make a page that nobody reads and that is slow to open.
_MOST = 12
_INCH = 100  # dots of a figure inside the page


def write(sweep: Sweep, folder: Path) -> Path:
    """Write figures, table and page; the path of the page."""
    (folder / "figures").mkdir(parents=True, exist_ok=True)
    written = sweep.save(folder)
    drawn, charts = _curves(sweep, folder)
    sections = [
        _along(sweep, folder),
        *_heat_maps(sweep, folder),
        drawn,
        _cells(sweep),
        _settings(sweep, written),
    ]
    text = document(sweep.title, sections, summary=_summary(sweep), charts=charts)
    with atomic_write(folder / PAGE) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return folder / PAGE


def _summary(sweep: Sweep) -> Html:
    runs = sorted({row["runs"] for row in sweep.rows})
    counts = formats.counted(runs[0], "run")
    if len(runs) > 1:
        counts = f"{runs[0]:,} to {runs[-1]:,} runs"
    engines = " and ".join(sorted({row["engine"] for row in sweep.rows}))
    return facts(
        [
            formats.counted(len(sweep), "cell"),
            formats.counted(len(sweep.algorithms), "algorithm"),
            f"{counts} each",
            f"seed {sweep.experiment.seed}",
            f"engine {engines}",
            ", ".join(f"{name} {version}" for name, version in collect_versions().items()),
        ]
    )


def _along(sweep: Sweep, folder: Path) -> Section:
    """Final regret along the first key of several values; then hue and row, figures of the rest.

    Where there are several algorithms, these are the hue.
    """
    several = _several(sweep)
    used = 2 if len(sweep.algorithms) > 1 else 3
    x, *others = (_named(several, number) for number in range(used))
    hue, row = (None, *others) if len(others) == 1 else others
    parts: list[str] = [
        "Regret per agent at the horizon, averaged over runs and agents, with its 95% interval."
    ]
    choices = list(_choices(several[used:]))
    for number, where in enumerate(choices[:_MOST]):
        parts.append(
            _figure(
                folder,
                f"regret-{number}" if len(choices) > 1 else "regret",
                views.draw_plot(sweep, x, hue, row, where),
                f"Final regret against {x}",
                describe_cell(where),
            )
        )
    parts += _left_out(len(choices), "sweep.plot(x=, hue=, row=, where=)")
    return Section("regret", "Final regret", parts)


def _heat_maps(sweep: Sweep, folder: Path) -> Iterator[Section]:
    """One algorithm each over the first two keys of several values."""
    several = _several(sweep)
    if len(several) < 2 or min(len(each.points) for each in several[:2]) < 2:
        return
    x = several[0].name
    y = several[1].name
    parts: list[str] = [
        "Each map has colours of its own, from its lowest value to its highest: where these are "
        "close, colours show noise. The table below has the intervals."
    ]
    choices = [(name, where) for name in sweep.algorithms for where in _choices(several[2:])]
    for number, (name, where) in enumerate(choices[:_MOST]):
        parts.append(
            _figure(
                folder,
                f"heat-{number}",
                sweep.heat_map(x, y, name, where=where),
                f"Final regret of {name} over {x} and {y}",
                describe_cell({ALGORITHM: name, **where}),
            )
        )
    parts += _left_out(len(choices), "sweep.heat_map(x=, y=, algorithm=, where=)")
    yield Section("maps", "Heat maps", parts)


def _curves(sweep: Sweep, folder: Path) -> tuple[Section, list[Chart]]:
    """Regret against rounds, a chart for each cell, with its figure beside it."""
    parts: list[str] = ["Regret per agent against rounds, in each cell."]
    charts = []
    for number, cell in enumerate(sweep.cells[:_MOST]):
        name = f"curves-{number}"
        comparison = sweep[number]
        paths = [folder / "figures" / f"{name}.{suffix}" for suffix in ("png", "pdf")]
        plots.write_comparison(comparison, describe_cell(cell), paths)
        below = files([f"figures/{path.name}" for path in paths])
        parts.append(paragraph(Html(element("span", describe_cell(cell)) + below), "quiet"))
        chart = curves.of_results(name, comparison)
        if chart is not None:
            charts.append(chart)
            parts.append(curves.place(chart))
    parts += _left_out(len(sweep), "sweep[cell].plot()")
    return Section("curves", "Curves", parts), charts


def _cells(sweep: Sweep) -> Section:
    keys = sweep.grid.short_names()
    sent = any("numbers_sent" in row for row in sweep.rows)
    headers = ["Algorithm", *keys.values(), "Runs", "Regret [95% interval]", "Standard error"]
    headers += ["Pulls of a best arm", *(["Numbers sent"] if sent else [])]
    rows = []
    for row in sweep.rows:
        shown: list[Any] = [row[ALGORITHM], *(_cell(row[key]) for key in keys)]
        shown.append(Cell(f"{row['runs']:,}", row["runs"]))
        shown.append(Cell(formats.interval(row["regret"], row["low"], row["high"]), row["regret"]))
        shown.append(Cell(formats.number(row["standard_error"], 3), row["standard_error"]))
        shown.append(Cell(formats.share(row.get("best_arm_share")), row.get("best_arm_share")))
        if sent:
            shown.append(Cell(formats.number(row.get("numbers_sent")), row.get("numbers_sent")))
        rows.append(shown)
    return Section(
        "cells",
        "Every cell",
        [
            table("Every cell", headers, rows, heading=False, sortable=True),
        ],
    )


def _cell(label: Any) -> Cell:
    number = isinstance(label, int | float) and not isinstance(label, bool)
    return Cell(str(label), float(label) if number else None)


def _settings(sweep: Sweep, written: Sequence[Path]) -> Section:
    """The experiment and its grid as a file that runs the sweep again, where there is one."""
    texts = [path.read_text(encoding="utf-8") for path in written if path.suffix == ".toml"]
    text = texts[0] if texts else f"{sweep.experiment}\n\n{sweep.grid}"
    return Section(
        "settings",
        "Settings",
        [
            paragraph(Html(f"What was computed, and its numbers.{files(_names(written))}")),
            folded("The experiment and its grid", element("pre", text)),
        ],
    )


def _names(written: Sequence[Path]) -> list[str]:
    return [path.name for path in written]


def _several(sweep: Sweep) -> list[Dimension]:
    """The axes of the grid, those of several values first, in their order."""
    axes = list_dimensions(sweep)[:-1]
    return sorted(axes, key=lambda axis: len(axis.points) == 1)


def _named(axes: Sequence[Dimension], number: int) -> str | None:
    """The name of an axis, if it is there and has several values."""
    few = number >= len(axes) or (number > 0 and len(axes[number].points) == 1)
    return None if few else axes[number].name


def _choices(axes: Sequence[Dimension]) -> Iterator[dict[str, Any]]:
    """A value for each of some axes, in all combinations."""
    names = [axis.name for axis in axes]
    for labels in itertools.product(*(axis.labels[axis.name] for axis in axes)):
        yield dict(zip(names, labels, strict=True))


def _figure(folder: Path, name: str, drawn: Any, meaning: str, caption: str) -> Html:
    """A figure inside the page, with its files beside it."""
    import matplotlib.pyplot as plt

    axes = drawn[0] if isinstance(drawn, list) else drawn
    shown = axes.get_figure(root=True)
    written = []
    for suffix in ("png", "pdf"):
        path = folder / "figures" / f"{name}.{suffix}"
        plots.save_figure(shown, path, dpi=_INCH)
        written.append(f"figures/{path.name}")
    plt.close(shown)
    png = (folder / written[0]).read_bytes()
    return figure(image(png, meaning), Html(element("span", caption) + files(written)))


def _left_out(number: int, how: str) -> list[str]:
    return [f"{number - _MOST} more are left out here; {how} draws them."] if number > _MOST else []
