"""A heat map as a table: every field says its number, the colour only helps to find it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from posse.lab.pages.markup import Html, element
from posse.lab.pages.tables import scrolling


@dataclass(frozen=True)
class Field:
    """A field of the map.

    shade:  from -1 (cold) over 0 (paper) to 1 (warm); None for a field without a value
    title:  what is said when it is pointed at
    strong: whether its text is in bold type
    """

    text: str
    shade: float | None
    title: str = ""
    strong: bool = False


def heat_map(
    title: str,
    corner: str,
    columns: Sequence[str],
    rows: Sequence[tuple[str, Sequence[Field]]],
    own: Sequence[bool] = (),
) -> Html:
    """A row of fields for each name, the columns' names upright; `own` marks columns."""
    marks = own or [False] * len(columns)
    head = [
        element("th", element("span", name), scope="col", class_="own" if mark else None)
        for name, mark in zip(columns, marks, strict=True)
    ]
    body = "\n".join(
        element("tr", element("th", name, scope="row"), *map(_field, fields))
        for name, fields in rows
    )
    top = element("tr", element("th", corner, scope="col"), *head)
    inner = Html(f"\n<thead>{top}</thead>\n<tbody>\n{body}\n</tbody>")
    return scrolling(title, element("table", inner, class_="heat"))


def _field(field: Field) -> Html:
    text = element("b", field.text) if field.strong else field.text
    if field.shade is None:
        return element("td", text, class_="none", title=field.title or None)
    share = min(1.0, abs(field.shade))
    kind = "warm" if field.shade > 0 else "cold"
    style = f"--s: {60 * share:.0f}%"  # of the colour: at most so much that text is read on it
    return element("td", text, class_=kind, style=style, title=field.title or None)
