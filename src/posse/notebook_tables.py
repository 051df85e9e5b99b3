"""Small tables in HTML, as notebooks show them; whatever is written into one is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

_CELL = 'style="text-align:{side};padding:0.15em 0.8em"'


def render_table(caption: str, headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table on its own: a caption, a row of headers unless there are none, names on the left."""
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


def _render_cell(tag: str, text: str, column: int) -> str:
    """Names begin on the left, numbers end on the right."""
    style = _CELL.format(side="right" if column else "left")
    return f"<{tag} {style}>{escape(text)}</{tag}>"
