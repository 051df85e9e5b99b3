"""The page of a sweep: figures along its keys, heat maps, curves, and a table of every cell."""

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
    fold_content,
    link_files,
    render_document,
    render_facts,
    render_figure,
    render_image,
    render_paragraph,
)
from posse.lab.report.html import CellContent, Html, TableCell, render_element, render_table
from posse.lab.report.scoreboard import ScoreRow
from posse.lab.sweeps import ALGORITHM, Dimension, describe_cell, draw_plot, list_dimensions
from posse.serialization.encode import collect_versions

if TYPE_CHECKING:
    from posse.lab.sweeps.sweep import Sweep

PAGE = "index.html"
# More figures than this make a page that nobody reads and that is slow to open.
MOST_FIGURES = 12
_DOTS_PER_INCH = 100  # dots of a figure inside the page


def write_page(sweep: Sweep, folder: Path) -> Path:
    """Write figures, table and page, and return the path of the page."""
    (folder / "figures").mkdir(parents=True, exist_ok=True)
    data_files = sweep.save(folder)
    curves_section, charts = _render_curves(sweep, folder)
    sections = [
        _render_regret(sweep, folder),
        *_render_heat_maps(sweep, folder),
        curves_section,
        _render_cells(sweep),
        _render_settings(sweep, data_files),
    ]
    text = render_document(sweep.title, sections, summary=_render_summary(sweep), charts=charts)
    with atomic_write(folder / PAGE) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return folder / PAGE


def _render_summary(sweep: Sweep) -> Html:
    runs = sorted({row.runs for row in _rows_of(sweep)})
    counts = formats.count_things(runs[0], "run")
    if len(runs) > 1:
        counts = f"{runs[0]:,} to {runs[-1]:,} runs"
    engines = " and ".join(sorted({row.engine for row in _rows_of(sweep)}))
    return render_facts(
        [
            formats.count_things(len(sweep), "cell"),
            formats.count_things(len(sweep.algorithms), "algorithm"),
            f"{counts} each",
            f"seed {sweep.experiment.seed}",
            f"engine {engines}",
            ", ".join(f"{name} {version}" for name, version in collect_versions().items()),
        ]
    )


def _render_regret(sweep: Sweep, folder: Path) -> Section:
    """Render final regret along the first key with several values; the next keys are hue and row.

    Where there are several algorithms, these are the hue.
    """
    several = _sort_axes(sweep)
    # Several algorithms are the hue themselves, so one key less fits into a figure.
    used = 2 if len(sweep.algorithms) > 1 else 3
    x, *other_axes = (_axis_name(several, number) for number in range(used))
    hue, row = (None, *other_axes) if len(other_axes) == 1 else other_axes
    parts: list[str] = [
        "Regret per agent at the horizon, averaged over runs and agents, with its 95% interval."
    ]
    choices = list(_combine_labels(several[used:]))
    for number, where in enumerate(choices[:MOST_FIGURES]):
        parts.append(
            _save_figure(
                folder,
                f"regret-{number}" if len(choices) > 1 else "regret",
                draw_plot(sweep, x, hue, row, where),
                f"Final regret against {x}",
                describe_cell(where),
            )
        )
    parts += _note_omitted(len(choices), "sweep.plot(x=, hue=, row=, where=)")
    return Section("regret", "Final regret", parts)


def _render_heat_maps(sweep: Sweep, folder: Path) -> Iterator[Section]:
    """Render a heat map for each algorithm over the first two keys with several values."""
    several = _sort_axes(sweep)
    if len(several) < 2 or min(len(axis.points) for axis in several[:2]) < 2:
        return
    x = several[0].name
    y = several[1].name
    parts: list[str] = [
        "Each map has colours of its own, from its lowest value to its highest: where these are "
        "close, colours show noise. The table below has the intervals."
    ]
    choices = [(name, where) for name in sweep.algorithms for where in _combine_labels(several[2:])]
    for number, (name, where) in enumerate(choices[:MOST_FIGURES]):
        parts.append(
            _save_figure(
                folder,
                f"heat-{number}",
                sweep.heat_map(x, y, name, where=where),
                f"Final regret of {name} over {x} and {y}",
                describe_cell({ALGORITHM: name, **where}),
            )
        )
    parts += _note_omitted(len(choices), "sweep.heat_map(x=, y=, algorithm=, where=)")
    yield Section("maps", "Heat maps", parts)


def _render_curves(sweep: Sweep, folder: Path) -> tuple[Section, list[Chart]]:
    """Render regret against rounds: a chart for each cell, and its figure as files."""
    parts: list[str] = ["Regret per agent against rounds, in each cell."]
    charts = []
    for number, cell in enumerate(sweep.cells[:MOST_FIGURES]):
        name = f"curves-{number}"
        comparison = sweep[number]
        paths = [folder / "figures" / f"{name}.{suffix}" for suffix in ("png", "pdf")]
        plots.write_comparison(comparison, describe_cell(cell), paths)
        below = link_files([f"figures/{path.name}" for path in paths])
        parts.append(
            render_paragraph(Html(render_element("span", describe_cell(cell)) + below), "quiet")
        )
        chart = curves.chart_results(name, comparison)
        if chart is not None:
            charts.append(chart)
            parts.append(curves.place_chart(chart))
    parts += _note_omitted(len(sweep), "sweep[cell].plot()")
    return Section("curves", "Curves", parts), charts


def _render_cells(sweep: Sweep) -> Section:
    keys = sweep.grid.short_names()
    has_sent = any(row.numbers_sent is not None for row in _rows_of(sweep))
    headers = ["Algorithm", *keys.values(), "Runs", "Regret [95% interval]", "Standard error"]
    headers += ["Pulls of a best arm", *(["Numbers sent"] if has_sent else [])]
    rows: list[list[CellContent]] = []
    for labels, scoreboard in zip(sweep.cells, sweep.scoreboards, strict=True):
        for row in scoreboard.rows:
            mean, error, low, high = row.regret
            cells: list[CellContent] = [row.algorithm, *(_label_cell(labels[key]) for key in keys)]
            cells.append(TableCell(f"{row.runs:,}", row.runs))
            cells.append(TableCell(formats.format_interval(mean, low, high), mean))
            cells.append(TableCell(formats.format_number(error, 3), error))
            cells.append(TableCell(formats.format_share(row.best_arm_share), row.best_arm_share))
            if has_sent:
                sent = None if row.numbers_sent is None else row.numbers_sent.mean
                cells.append(TableCell(formats.format_number(sent), sent))
            rows.append(cells)
    cells_table = render_table("Every cell", headers, rows, heading=False, sortable=True)
    return Section("cells", "Every cell", [cells_table])


def _rows_of(sweep: Sweep) -> list[ScoreRow]:
    return [row for scoreboard in sweep.scoreboards for row in scoreboard.rows]


def _label_cell(label: Any) -> TableCell:
    number = isinstance(label, int | float) and not isinstance(label, bool)
    return TableCell(str(label), float(label) if number else None)


def _render_settings(sweep: Sweep, data_files: Sequence[Path]) -> Section:
    """Render the experiment and its grid, as the file that runs the sweep again if there is one."""
    # Parts of the user's own have no TOML; the page then shows their repr.
    texts = [path.read_text(encoding="utf-8") for path in data_files if path.suffix == ".toml"]
    text = texts[0] if texts else f"{sweep.experiment}\n\n{sweep.grid}"
    return Section(
        "settings",
        "Settings",
        [
            render_paragraph(
                Html(f"What was computed, and its numbers.{link_files(_file_names(data_files))}")
            ),
            fold_content("The experiment and its grid", render_element("pre", text)),
        ],
    )


def _file_names(paths: Sequence[Path]) -> list[str]:
    return [path.name for path in paths]


def _sort_axes(sweep: Sweep) -> list[Dimension]:
    """Sort the axes of the grid: those with several values first, in their order."""
    axes = list_dimensions(sweep)[:-1]
    return sorted(axes, key=lambda axis: len(axis.points) == 1)


def _axis_name(axes: Sequence[Dimension], number: int) -> str | None:
    """Give the name of an axis, if it exists and has several values."""
    few = number >= len(axes) or (number > 0 and len(axes[number].points) == 1)
    return None if few else axes[number].name


def _combine_labels(axes: Sequence[Dimension]) -> Iterator[dict[str, Any]]:
    """Combine the labels of some axes in all ways."""
    names = [axis.name for axis in axes]
    for labels in itertools.product(*(axis.labels[axis.name] for axis in axes)):
        yield dict(zip(names, labels, strict=True))


def _save_figure(folder: Path, name: str, drawing: Any, meaning: str, caption: str) -> Html:
    """Save a figure as files, and render it inside the page."""
    import matplotlib.pyplot as plt

    axes = drawing[0] if isinstance(drawing, list) else drawing
    figure_of_axes = axes.get_figure(root=True)
    links = []
    for suffix in ("png", "pdf"):
        path = folder / "figures" / f"{name}.{suffix}"
        plots.save_figure(figure_of_axes, path, dpi=_DOTS_PER_INCH)
        links.append(f"figures/{path.name}")
    # Pyplot keeps every figure until it is closed: a large sweep would fill the memory.
    plt.close(figure_of_axes)
    png = (folder / links[0]).read_bytes()
    return render_figure(
        render_image(png, meaning), Html(render_element("span", caption) + link_files(links))
    )


def _note_omitted(number: int, how: str) -> list[str]:
    return (
        [f"{number - MOST_FIGURES} more are left out here; {how} draws them."]
        if number > MOST_FIGURES
        else []
    )
