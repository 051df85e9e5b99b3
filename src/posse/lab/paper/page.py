"""The report of a reproduction as one HTML page that needs nothing but a browser."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from string import Template

from posse.lab.paper import claims, published, rates
from posse.lab.paper.data import (
    ClaimReport,
    Difference,
    Made,
    PanelReport,
    Report,
    to_json,
)

_ASSETS = Path(__file__).parent
_NOTHING = "–"
_BADGES = {
    claims.HOLDS: "good",
    claims.FAILS: "bad",
    claims.ONLY_PUBLISHED: "partly",
    claims.BELOW: "partly",
    rates.FASTER: "partly",
    "significant": "good",
    published.AGREES: "good",
    published.DIFFERS: "bad",
}


class _Html(str):
    """Text that is markup already; every other text is escaped on its way into the page."""


def render(report: Report) -> str:
    """The whole page; its tables are plain HTML, its charts are drawn from the embedded data."""
    panels = report.panels
    page = Template((_ASSETS / "page.html").read_text(encoding="utf-8"))
    return page.substitute(
        title=escape(report.title),
        style=_colours(report) + (_ASSETS / "page.css").read_text(encoding="utf-8"),
        script=(_ASSETS / "page.js").read_text(encoding="utf-8"),
        summary=_summary(report.summary, panels),
        links="\n".join(_links(panels)),
        claims=_claims(report.claims, panels),
        panels="\n".join(_panel(panel) for panel in panels),
        data=_embedded(report),
    )


def _embedded(report: Report) -> str:
    # Without a "<" nothing in the data can end the script element or open a comment.
    return to_json(report).replace("<", "\\u003c")


def _colours(report: Report) -> str:
    """The curves' colours as rules; the dark page has others for those that it would swallow."""
    return "".join(
        f".c{i} {{ --c: var(--c{i}, {escape(colour)}); }}\n"
        for i, colour in enumerate(report.colours)
    )


def _summary(made: Made, panels: Sequence[PanelReport]) -> str:
    runs = sorted({panel.runs for panel in panels})
    counts = f"{runs[0]:,}" if len(runs) == 1 else f"{runs[0]:,} to {runs[-1]:,}" if runs else "no"
    parts = [
        f"{made.mode.capitalize()} run, {made.variant}",
        f"{counts} runs per curve",
        f"seed {made.seed}",
        f"run time {_duration(made.seconds)}",
        ", ".join(f"{name} {version}" for name, version in made.versions.items()),
        made.machine,
    ]
    return f'<p class="summary">{" · ".join(f"<span>{escape(part)}</span>" for part in parts)}</p>'


def _links(panels: Sequence[PanelReport]) -> Iterable[str]:
    yield '<li><a href="#claims">Claims</a></li>'
    for panel in panels:
        target, title = escape(panel.id), escape(panel.title)
        label = escape(_heading(panel.figure))
        yield f'<li><a href="#{target}" title="{title}">{label}</a></li>'


def _claims(rows: Sequence[ClaimReport], panels: Sequence[PanelReport]) -> str:
    """What was tested, with its tally; what was not is folded away below."""
    tested = [row for row in rows if row.verdict != claims.UNTESTED]
    untested = [row for row in rows if row.verdict == claims.UNTESTED]
    verdicts = [row.verdict for row in tested]
    tally = " ".join(_badge(each, f": {verdicts.count(each)}") for each in dict.fromkeys(verdicts))
    values = [value for panel in panels for value in panel.published]
    runs = max((panel.runs for panel in panels), default=0)
    agreement = f"<p>{escape(published.sentence(values, runs))}.</p>" if values else ""
    folded = (
        f"<details><summary>{_claims_word(len(untested))} not tested here</summary>\n"
        f"{_claims_table(untested, panels)}</details>"
        if untested
        else ""
    )
    return f"""<section id="claims">
<h2>Claims</h2>
<p class="tally">{tally}</p>
{_claims_table(tested, panels)}
{agreement}
{folded}
</section>"""


def _claims_word(number: int) -> str:
    return "1 claim" if number == 1 else f"{number} claims"


def _claims_table(rows: Sequence[ClaimReport], panels: Sequence[PanelReport]) -> str:
    headers = ["Figure", "Claim of the paper", "Verdict", "What shows it"]
    cells = [
        [_figure_link(row.figure, panels), row.claim, _badge(row.verdict), row.detail]
        for row in rows
    ]
    return _table("Claims", headers, cells, "claims")


def _figure_link(figure: str, panels: Sequence[PanelReport]) -> _Html:
    """A link to the figure's first panel: figure 1 begins with panel 1a."""
    for panel in panels:
        if panel.figure.rstrip("abcdefgh") == figure or panel.figure == figure:
            return _Html(f'<a href="#{escape(panel.id)}">{escape(figure)}</a>')
    return _Html(escape(figure))


def _heading(figure: str) -> str:
    """What a panel is called: "Figure 1a", or the name of what is no figure."""
    return f"Figure {figure}" if figure[:1].isdigit() else figure.capitalize()


def _panel(panel: PanelReport) -> str:
    name = escape(panel.id)
    details = f"Settings, {panel.engine} engine, {panel.runs:,} runs"
    note = f'<p class="note">{escape(panel.note)}</p>' if panel.note else ""
    return f"""<section id="{name}">
<h2>{escape(_heading(panel.figure))}: {escape(panel.title)}</h2>
<p class="caption">{escape(panel.caption)}{_files(panel.files)}</p>
<figure data-panel="{name}"></figure>
{note}
{_finals(panel)}
{_comparisons(panel.comparisons)}
{_published(panel)}
<details><summary>{escape(details)}, {_duration(panel.seconds)}</summary>
<pre>{escape(panel.settings)}</pre></details>
</section>"""


def _files(files: Sequence[str]) -> str:
    """Links to the figure's files, each by what it is: PNG, PDF, CSV."""
    links = [
        f'<a href="{escape(file)}">{escape(Path(file).suffix.lstrip(".").upper())}</a>'
        for file in files
    ]
    return f' <span class="files">{" · ".join(links)}</span>' if links else ""


def _finals(panel: PanelReport) -> str:
    first, last = panel.slope_rounds
    headers = [
        "Curve",
        "Mean [95% interval]",
        "Standard error",
        "95th percentile run",
        "Worst agent",
        "Wrong final leader",
        f"Slope per unit of ln t, rounds {first:,} to {last:,} [95% interval]",
        "Least slope in the long run",
        "Growth",
    ]
    cells = [
        [
            row.name,
            _interval(row.mean, row.low, row.high),
            _number(row.standard_error, 3),
            _number(row.percentile_95),
            _number(row.worst_agent),
            _share(row.wrong_leader),
            _interval(row.slope, row.slope_low, row.slope_high),
            _number(row.least_slope, 3),
            _badge(row.growth),
        ]
        for row in panel.table
    ]
    below = any(row.growth == rates.BELOW for row in panel.table)
    why = f'\n<p class="quiet">{escape(rates.WHY_BELOW)}</p>' if below else ""
    return _table("Final regret per agent", headers, cells) + why


def _comparisons(rows: Sequence[Difference]) -> str:
    headers = ["First − second", "Difference [95% interval]", "p", "After Holm's correction"]
    cells = [
        [
            f"{row.first} − {row.second}",
            _interval(row.difference, row.low, row.high),
            _probability(row.p),
            _badge("significant" if row.significant else "not significant"),
        ]
        for row in rows
    ]
    return _table("Paired differences of final regret per agent", headers, cells)


def _published(panel: PanelReport) -> str:
    headers = [
        "Curve",
        "Round",
        "Published",
        f"Ours ± standard error, {panel.runs:,} runs",
        "Difference",
        "In standard errors",
        "Verdict",
    ]
    cells = [
        [
            row.curve,
            f"{row.time:,}",
            _number(row.published),
            _with_error(row.ours, row.standard_error),
            _number(row.difference, 3),
            _number(row.in_errors, 3),
            _badge(row.verdict),
        ]
        for row in panel.published
    ]
    return _table("Against the published regret per agent", headers, cells)


def _table(
    title: str, headers: Sequence[str], rows: Sequence[Sequence[str | None]], kind: str = "numbers"
) -> str:
    if not rows:
        return ""
    head = "".join(f'<th scope="col">{escape(header)}</th>' for header in headers)
    body = "\n".join(
        f'<tr><th scope="row">{_markup(first)}</th>'
        + "".join(f"<td>{_markup(cell)}</td>" for cell in rest)
        + "</tr>"
        for first, *rest in rows
    )
    heading = f"<h3>{escape(title)}</h3>\n" if kind == "numbers" else ""
    # Focusable, so that the keyboard can scroll a table that is wider than the screen.
    return (
        f'{heading}<div class="scroll" role="region" aria-label="{escape(title)}" tabindex="0">'
        f'<table class="{kind}">\n<thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{body}\n</tbody></table></div>"
    )


def _markup(text: str | None) -> str:
    return text if isinstance(text, _Html) else escape(_NOTHING if text is None else text)


def _badge(text: str, more: str = "") -> _Html:
    return _Html(f'<span class="badge {_BADGES.get(text, "plain")}">{escape(text + more)}</span>')


def _decimals(size: float, digits: int) -> int:
    return min(6, max(0, digits - 1 - math.floor(math.log10(size)))) if size else 0


def _number(value: float | None, digits: int = 4) -> str:
    if value is None or not math.isfinite(value):
        return _NOTHING
    size = abs(value)
    exponent = 0 < size < 1e-4 or size >= 1e9
    shape = f".{digits - 1}e" if exponent else f",.{_decimals(size, digits)}f"
    return format(value, shape).replace("-", "−")


def _interval(value: float | None, low: float | None, high: float | None) -> str:
    """The value and its bounds, all to the same decimal place."""
    if value is None or low is None or high is None:
        return _number(value)
    sizes = [abs(value), abs(low), abs(high)]
    if not all(map(math.isfinite, sizes)):
        return _number(value)
    places = _decimals(max(sizes), 4)
    middle, left, right = (f"{each:,.{places}f}".replace("-", "−") for each in (value, low, high))
    return f"{middle} [{left}, {right}]"


def _with_error(value: float | None, error: float | None) -> str:
    return _number(value) if error is None else f"{_number(value)} ± {_number(error, 3)}"


def _share(value: float | None) -> str:
    return _NOTHING if value is None or not math.isfinite(value) else f"{100 * value:.1f}%"


def _probability(value: float | None) -> str:
    return "< 0.0001" if value is not None and value < 1e-4 else _number(value, 3)


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
