"""HTML elements and tables: every text is escaped once, markup never twice.

`Html` marks text that is markup already. All functions accept both kinds, so that no caller has to
escape anything and no name of an algorithm can become markup.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

# Unicode's bidirectional classes of letters, and of marks, that turn the direction of writing: a
# name with one of them would reorder the sentence around it, and could fake another result.
_BIDIRECTIONAL_CLASSES = {"R", "AL", "RLE", "RLO", "LRE", "LRO", "RLI", "LRI", "FSI", "PDF", "PDI"}
DASH = "–"


class Html(str):
    """Text that is markup already; every other text is escaped."""

    __slots__ = ()


def escape_text(text: str | None) -> Html:
    """Escape text unless it is markup already; None becomes a dash."""
    return text if isinstance(text, Html) else Html(escape(DASH if text is None else text))


def render_element(tag: str, *content: str | None, **attributes: str | float | bool | None) -> Html:
    """Render an element: content and attributes are escaped.

    An attribute None or False is left out, True is written without a value; an underscore at the
    end of a name is dropped (class_), any other is a hyphen (aria_label).
    """
    attribute_text = "".join(
        f" {_attribute_name(name)}"
        if value is True
        else f' {_attribute_name(name)}="{escape(_attribute_value(value))}"'
        for name, value in attributes.items()
        if value is not None and value is not False
    )
    return Html(f"<{tag}{attribute_text}>{''.join(map(escape_text, content))}</{tag}>")


def render_name(name: str, link: str | None = None, sign: str = "") -> Html:
    """Render the name of an algorithm, isolated from the writing direction around it.

    sign: markup after it
    """
    # <bdi> isolates the direction of writing in markup, as `isolate_name` does in plain text.
    content = render_element("bdi", name)
    if link:
        content = render_element("a", content, href=link)
    return render_element("span", Html(content + sign), class_="algorithm", title=name)


def isolate_name(name: str) -> str:
    """Isolate a name that is written from right to left, for the middle of a sentence."""
    if not any(unicodedata.bidirectional(letter) in _BIDIRECTIONAL_CLASSES for letter in name):
        return name
    return f"\N{FIRST STRONG ISOLATE}{name}\N{POP DIRECTIONAL ISOLATE}"


def _attribute_name(name: str) -> str:
    return name.removesuffix("_").replace("_", "-")


def _attribute_value(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:.6g}"


# Tables: they scroll inside themselves, and sort by a click or a key.


@dataclass(frozen=True)
class TableCell:
    """A cell of a table, and the number that it is sorted by if that is not its text."""

    text: str | None
    sort_key: float | None = None


CellContent = str | TableCell | None


def render_table(
    title: str,
    headers: Sequence[str],
    rows: Sequence[Sequence[CellContent]],
    kind: str = "numbers",
    *,
    heading: bool = True,
    sortable: bool = False,
    marked: Sequence[bool] = (),
) -> Html:
    """Render a table under its heading; the first cell of a row names it. No rows, no table.

    rows:     texts are escaped, None is a dash; a TableCell sorts by its number
    kind:     its style class: "numbers" aligns them on the right
    sortable: headers become buttons (a script of the page sorts)
    marked:   the rows of the reader's own algorithms
    """
    if not rows:
        return Html()
    head = "".join(_render_header(header, sortable) for header in headers)
    # The wrapper scrolls, not the page: a wide table must not move everything else sideways.
    marks = marked or [False] * len(rows)
    body = "\n".join(_render_row(row, mark) for row, mark in zip(rows, marks, strict=True))
    above = render_element("h3", title) + "\n" if heading else ""
    kinds = f"{kind} sortable" if sortable else kind
    inner = f"\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>"
    return Html(above + wrap_scrolling(title, render_element("table", Html(inner), class_=kinds)))


def wrap_scrolling(title: str, content: Html) -> Html:
    """Wrap content that may be wider than the screen; it has focus, so the keyboard scrolls it."""
    return render_element(
        "div", content, class_="scroll", role="region", aria_label=title, tabindex="0"
    )


def render_badge(text: str, kind: str = "plain") -> Html:
    """Render a word in a coloured field: good, bad, partly or plain."""
    return render_element("span", text, class_=f"badge {kind}")


def _render_header(text: str, sortable: bool) -> Html:
    content = render_element("button", text, type="button") if sortable else escape_text(text)
    return render_element("th", content, scope="col", aria_sort="none" if sortable else None)


def _render_row(cells: Sequence[CellContent], mark: bool) -> Html:
    first, *others = (
        content if isinstance(content, TableCell) else TableCell(content) for content in cells
    )
    return render_element(
        "tr",
        render_element("th", first.text, scope="row", data_by=first.sort_key),
        *(render_element("td", cell.text, data_by=cell.sort_key) for cell in others),
        class_="own" if mark else None,
    )
