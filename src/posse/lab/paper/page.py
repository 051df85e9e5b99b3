"""The report of a reproduction as one HTML page that needs nothing but a browser."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import Any

_ASSETS = Path(__file__).parent
_NOTHING = "–"
_BADGES = {
    "holds": "good",
    "does not hold": "bad",
    "holds only as published": "partly",
    "faster than logarithmic": "partly",
    "significant": "good",
    "yes": "good",
    "no": "bad",
}


class _Html(str):
    """Text that is markup already; every other text is escaped on its way into the page."""


def render(report: Mapping[str, Any]) -> str:
    """The whole page; its tables are plain HTML, its charts are drawn from the embedded data."""
    panels = report["panels"]
    page = Template((_ASSETS / "page.html").read_text(encoding="utf-8"))
    return page.substitute(
        title=escape(report["title"]),
        style=(_ASSETS / "page.css").read_text(encoding="utf-8"),
        script=(_ASSETS / "page.js").read_text(encoding="utf-8"),
        summary=_summary(report["summary"], panels),
        links="\n".join(_links(panels)),
        claims=_claims(report["claims"], panels),
        panels="\n".join(_panel(panel) for panel in panels),
        data=_embedded(report),
    )


def _embedded(report: Mapping[str, Any]) -> str:
    # Without a "<" nothing in the data can end the script element or open a comment.
    return json.dumps(_plain(report), allow_nan=False).replace("<", "\\u003c")


def _plain(value: Any) -> Any:
    """The same in JSON's terms, to seven digits: the screen shows fewer, the file halves."""
    if isinstance(value, float):
        return float(f"{value:.7g}") if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _summary(summary: Mapping[str, Any], panels: Sequence[Mapping[str, Any]]) -> str:
    runs = sorted({panel["runs"] for panel in panels})
    counts = f"{runs[0]:,}" if len(runs) == 1 else f"{runs[0]:,} to {runs[-1]:,}" if runs else "no"
    made = [
        f"{summary['mode'].capitalize()} run, {summary['variant']}",
        f"{counts} runs per curve",
        f"seed {summary['seed']}",
        f"run time {_duration(summary['seconds'])}",
        ", ".join(f"{name} {version}" for name, version in summary["versions"].items()),
        summary["machine"],
    ]
    return f'<p class="summary">{" · ".join(f"<span>{escape(part)}</span>" for part in made)}</p>'


def _links(panels: Sequence[Mapping[str, Any]]) -> Iterable[str]:
    yield '<li><a href="#claims">Claims</a></li>'
    for panel in panels:
        target, title = escape(panel["id"]), escape(panel["title"])
        label = escape(_heading(panel["figure"]))
        yield f'<li><a href="#{target}" title="{title}">{label}</a></li>'


def _claims(claims: Sequence[Mapping[str, Any]], panels: Sequence[Mapping[str, Any]]) -> str:
    verdicts = [claim["verdict"] for claim in claims]
    tally = " ".join(_badge(each, f": {verdicts.count(each)}") for each in dict.fromkeys(verdicts))
    rows = [
        [
            _figure_link(claim["figure"], panels),
            claim["claim"],
            _badge(claim["verdict"]),
            claim["detail"],
        ]
        for claim in claims
    ]
    headers = ["Figure", "Claim of the paper", "Verdict", "What shows it"]
    table = _table("Claims", headers, rows, "claims")
    return (
        f'<section id="claims">\n<h2>Claims</h2>\n<p class="tally">{tally}</p>\n{table}\n</section>'
    )


def _figure_link(figure: str, panels: Sequence[Mapping[str, Any]]) -> _Html:
    """A link to the figure's first panel: figure 1 begins with panel 1a."""
    for panel in panels:
        if panel["figure"].rstrip("abcdefgh") == figure or panel["figure"] == figure:
            return _Html(f'<a href="#{escape(panel["id"])}">{escape(figure)}</a>')
    return _Html(escape(figure))


def _heading(figure: str) -> str:
    """What a panel is called: "Figure 1a", or the name of what is no figure."""
    return f"Figure {figure}" if figure[:1].isdigit() else figure.capitalize()


def _panel(panel: Mapping[str, Any]) -> str:
    name = escape(panel["id"])
    details = f"Settings, {panel['engine']} engine, {panel['runs']:,} runs"
    note = f'<p class="note">{escape(panel["note"])}</p>' if panel["note"] else ""
    return f"""<section id="{name}">
<h2>{escape(_heading(panel["figure"]))}: {escape(panel["title"])}</h2>
<p class="caption">{escape(panel["caption"])}</p>
<figure data-panel="{name}"></figure>
{note}
{_finals(panel["table"])}
{_comparisons(panel["comparisons"])}
{_published(panel["published"])}
<details><summary>{escape(details)}, {_duration(panel["seconds"])}</summary>
<pre>{escape(panel["settings"])}</pre></details>
</section>"""


def _finals(rows: Sequence[Mapping[str, Any]]) -> str:
    headers = [
        "Curve",
        "Mean [95% interval]",
        "Standard error",
        "95th percentile run",
        "Worst agent",
        "Wrong final leader",
        "Slope per unit of ln t [95% interval]",
        "Growth",
    ]
    cells = [
        [
            row["name"],
            _interval(row["mean"], row["low"], row["high"]),
            _number(row["standard_error"], 3),
            _number(row["percentile_95"]),
            _number(row["worst_agent"]),
            _share(row["wrong_leader"]),
            _interval(row["slope"], row["slope_low"], row["slope_high"]),
            _badge(row["growth"]),
        ]
        for row in rows
    ]
    return _table("Final regret per agent", headers, cells)


def _comparisons(rows: Sequence[Mapping[str, Any]]) -> str:
    headers = ["First − second", "Difference [95% interval]", "p", "After Holm's correction"]
    cells = [
        [
            f"{row['first']} − {row['second']}",
            _interval(row["difference"], row["low"], row["high"]),
            _probability(row["p"]),
            _badge("significant" if row["significant"] else "not significant"),
        ]
        for row in rows
    ]
    return _table("Paired differences of final regret per agent", headers, cells)


def _published(rows: Sequence[Mapping[str, Any]]) -> str:
    headers = [
        "Curve",
        "Round",
        "Published",
        "Ours ± standard error",
        "Difference",
        "In standard errors",
        "Agrees",
    ]
    cells = [
        [
            row["curve"],
            _NOTHING if row["time"] is None else f"{row['time']:,}",
            _number(row["published"]),
            _with_error(row["ours"], row["standard_error"]),
            _number(row["difference"], 3),
            _number(row["in_errors"], 3),
            _badge(_NOTHING if row["agrees"] is None else "yes" if row["agrees"] else "no"),
        ]
        for row in rows
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


def _badge(text: str | None, more: str = "") -> _Html:
    if text is None or text == _NOTHING:
        return _Html(_NOTHING)
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
