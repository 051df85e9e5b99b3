"""The page of a sweep: the best, figures along its keys, heat maps, curves, every cell."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
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
from posse.lab.sweeps import (
    ALGORITHM,
    Dimension,
    choose_dimension,
    compute_significance,
    describe_cell,
    draw_plot,
    list_dimensions,
)
from posse.serialization.encode import collect_versions

if TYPE_CHECKING:
    from posse.lab.sweeps.sweep import Sweep

PAGE = "index.html"
# More figures than this make a page that nobody reads and that is slow to open.
MOST_FIGURES = 12
MOST_COLUMNS = 4  # plots side by side
MOST_ROWS = 40  # of a table that is not folded
_DOTS_PER_INCH = 100  # dots of a figure inside the page


def write_page(sweep: Sweep, folder: Path) -> Path:
    """Write figures, table and page, and return the path of the page."""
    (folder / "figures").mkdir(parents=True, exist_ok=True)
    data_files = sweep.save(folder)
    curves_section, charts = _render_curves(sweep, folder)
    sections = [
        _render_regret(sweep, folder),
        *_render_best(sweep),
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


def _render_best(sweep: Sweep) -> Iterator[Section]:
    """Render regrets as a matrix: a row for each problem, the best and those like it in bold."""
    if len(sweep) * len(sweep.algorithms) < 2:
        return
    try:
        contests = compute_significance(sweep, None)
    except ValueError:  # such as cells of different runs, which cannot be paired
        return
    if not contests.pairs:
        return
    names = list(contests.contests[0].problem)
    headers = [*(names or ["Problem"]), *map(str, contests.labels)]
    rows: list[list[CellContent]] = []
    for contest in contests.contests:
        cells: list[CellContent] = [_label_cell(value) for value in contest.problem.values()]
        by_label = {competitor.label: competitor for competitor in contest.competitors}
        for label in contests.labels:
            competitor = by_label.get(label)
            if competitor is None:
                cells.append(TableCell(None))
                continue
            mean, error, *_ = competitor.regret
            text = formats.format_number(mean, 3)
            if error > 0:
                text += f" ± {formats.format_number(error, 2)}"
            shown = render_element("strong", text) if competitor.is_leading else text
            cells.append(TableCell(shown, mean))
        rows.append(cells if names else ["all", *cells])
    note = (
        f"Regret with its standard error, by {contests.over}. Bold: the best of its row, and those "
        "not told from it by paired t tests (Holm's correction over all "
        f"{contests.pairs:,} pairs of the sweep, 5%)."
    )
    table = render_table("The best", headers, rows, heading=False, sortable=True)
    if len(rows) > MOST_ROWS:
        table = fold_content(f"All {len(rows):,} rows", table)
    yield Section("best", "The best, and those like it", [note, table], link="The best")


def _render_regret(sweep: Sweep, folder: Path) -> Section:
    """Render final regret in as few figures as show every cell: x, hue, column and row."""
    roles = _assign_roles(sweep)
    parts: list[str] = [
        "Regret per agent at the horizon, averaged over runs and agents, with its 95% interval."
    ]
    choices = list(_combine_labels(_find_unused(sweep, roles)))
    for number, where in enumerate(choices[:MOST_FIGURES]):
        parts.append(
            _save_figure(
                folder,
                f"regret-{number}" if len(choices) > 1 else "regret",
                draw_plot(
                    sweep, roles.get("x"), roles.get("hue"), roles.get("row"), where,
                    roles.get("column"),
                ),
                f"Final regret against {roles.get('x')}",
                describe_cell(where),
            )
        )  # fmt: skip
    parts += _note_omitted(len(choices), "sweep.plot(x=, hue=, row=, column=, where=)")
    return Section("regret", "Final regret", parts)


def _assign_roles(sweep: Sweep) -> dict[str, str]:
    """Give every dimension of several values a role of a figure, as long as there are roles.

    Numbers go along x, since curves show how regret depends on them; what is compared is the hue;
    of the others the one with the fewest values is side by side, for there is little width.
    """
    dimensions = list_dimensions(sweep)
    several = [dimension for dimension in dimensions if len(dimension.points) > 1]
    if not several:
        return {"x": dimensions[0].name}
    hue = choose_dimension(sweep)
    others = [dimension for dimension in several if dimension.name != hue]
    if not others:
        return {"x": hue} if hue != ALGORITHM else {"x": dimensions[0].name, "hue": hue}
    numeric = [
        dimension
        for dimension in others
        if all(isinstance(label, int | float) for label in dimension.labels[dimension.name])
    ]
    x = (numeric or others)[0].name
    rest = sorted(
        (dimension for dimension in others if dimension.name != x),
        key=lambda dimension: len(dimension.points),
    )
    roles = {"x": x, "hue": hue}
    for role, dimension in zip(("column", "row"), rest, strict=False):
        # More plots side by side than this would be too narrow to read.
        fits = role == "row" or len(dimension.points) <= MOST_COLUMNS
        roles[role if fits or "row" in roles else "row"] = dimension.name
    return roles


def _find_unused(sweep: Sweep, roles: Mapping[str, str]) -> list[Dimension]:
    """Find the dimensions without a role, of which a figure shows one value."""
    return [
        dimension for dimension in list_dimensions(sweep) if dimension.name not in roles.values()
    ]


def _render_heat_maps(sweep: Sweep, folder: Path) -> Iterator[Section]:
    """Render all maps of two dimensions as a matrix on one scale of colours."""
    roles = _assign_roles(sweep)
    if "hue" not in roles or len(list_dimensions(sweep)) < 2:
        return
    x = roles["hue"]
    y = roles["x"]
    points = {dimension.name: len(dimension.points) for dimension in list_dimensions(sweep)}
    if min(points[x], points[y]) < 2:
        return
    parts: list[str] = [
        "All maps of a figure have one scale of colours: where values are close, colours show "
        "noise. The tables have the intervals."
    ]
    choices = list(_combine_labels(_find_unused(sweep, roles)))
    for number, where in enumerate(choices[:MOST_FIGURES]):
        parts.append(
            _save_figure(
                folder,
                f"heat-{number}",
                sweep.heat_map(x, y, row=roles.get("row"), column=roles.get("column"), where=where),
                f"Final regret over {x} and {y}",
                describe_cell(where),
            )
        )
    parts += _note_omitted(len(choices), "sweep.heat_map(x=, y=, row=, column=, where=)")
    yield Section("maps", "Heat maps", parts)


def _render_curves(sweep: Sweep, folder: Path) -> tuple[Section, list[Chart]]:
    """Render regret against rounds: a chart for each cell, and its figure as files."""
    parts: list[str] = ["Regret per agent against rounds, in each cell."]
    names = sweep.grid.short_names()
    charts = []
    for number, cell in enumerate(sweep.plan[:MOST_FIGURES]):
        name = f"curves-{number}"
        described = cell.describe(names)
        comparison = sweep[number]
        paths = [folder / "figures" / f"{name}.{suffix}" for suffix in ("png", "pdf")]
        plots.write_comparison(comparison, described, paths)
        below = link_files([f"figures/{path.name}" for path in paths])
        parts.append(render_paragraph(Html(render_element("span", described) + below), "quiet"))
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
    for cell, scoreboard in zip(sweep.plan, sweep.scoreboards, strict=True):
        for row in scoreboard.rows:
            mean, error, low, high = row.regret
            cells: list[CellContent] = [row.algorithm]
            cells += [_label_cell(cell.labels[key], cell.played.get(key)) for key in keys]
            cells.append(TableCell(f"{row.runs:,}", row.runs))
            cells.append(TableCell(formats.format_interval(mean, low, high), mean))
            cells.append(TableCell(formats.format_number(error, 3), error))
            cells.append(TableCell(formats.format_share(row.best_arm_share), row.best_arm_share))
            if has_sent:
                sent = None if row.numbers_sent is None else row.numbers_sent.mean
                cells.append(TableCell(formats.format_number(sent), sent))
            rows.append(cells)
    cells_table = render_table("Every cell", headers, rows, heading=False, sortable=True)
    # A long table would hide that there is something below it.
    folded = len(rows) > MOST_ROWS
    summary = f"All {len(rows):,} rows"
    return Section(
        "cells", "Every cell", [fold_content(summary, cells_table) if folded else cells_table]
    )


def _rows_of(sweep: Sweep) -> list[ScoreRow]:
    return [row for scoreboard in sweep.scoreboards for row in scoreboard.rows]


def _label_cell(label: Any, played: Any = None) -> TableCell:
    """Render a label; a rule is shown with the number that was played, and sorted by it."""
    if isinstance(label, str) and isinstance(played, int | float):
        return TableCell(f"{label} = {plots.format_value(played)}", float(played))
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
