"""Small HTML tables for notebooks; all text is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

MOST_CHARACTERS = 200  # of a value in a table
_CELL = 'style="text-align:{side};padding:0.15em 0.8em"'


def render_table(caption: str, headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Render a table: a caption, a row of headers if any, and names in the first column."""
    head = "".join(_render_cell("th", header, i) for i, header in enumerate(headers))
    lines = [
        "".join(_render_cell("td" if i else "th", text, i) for i, text in enumerate(row))
        for row in rows
    ]
    return "\n".join(
        [
            "<table>",
            '<caption style="text-align:left;caption-side:top;padding:0.3em 0.8em">'
            f"{escape(caption)}</caption>",
            *([f"<thead><tr>{head}</tr></thead>"] if headers else []),
            "<tbody>",
            *(f"<tr>{line}</tr>" for line in lines),
            "</tbody></table>",
        ]
    )


def render_fields(caption: str, values: Mapping[str, object]) -> str:
    """Render names and values, one row each; long values are cut."""
    rows = ([name, _shorten_text(_render_value(value))] for name, value in values.items())
    return render_table(caption, (), rows)


def _render_value(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return value if isinstance(value, str) else repr(value)


def _shorten_text(text: str) -> str:
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]} ..."


def _render_cell(tag: str, text: str, column: int) -> str:
    """Render a cell: names are aligned left, numbers right."""
    style = _CELL.format(side="right" if column else "left")
    return f"<{tag} {style}>{escape(text)}</{tag}>"
