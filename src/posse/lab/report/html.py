"""Text that is markup already, and text that is not: only the second is escaped."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

_RIGHT_TO_LEFT = {"R", "AL", "RLE", "RLO", "LRE", "LRO", "RLI", "LRI", "FSI", "PDF", "PDI"}
NOTHING = "–"


class Html(str):
    """Text that is markup already; every other text is escaped on its way into the page."""

    __slots__ = ()


def markup(text: str | None) -> Html:
    """The text as markup: escaped unless it is markup already, a dash for None."""
    return text if isinstance(text, Html) else Html(escape(NOTHING if text is None else text))


def element(tag: str, *content: str | None, **attributes: str | float | bool | None) -> Html:
    """An element: its content as `markup`, its attributes escaped.

    An attribute None or False is left out, True is written without a value; an underscore at the
    end of a name is dropped (class_), any other is a hyphen (aria_label).
    """
    written = "".join(
        f" {_name(name)}" if value is True else f' {_name(name)}="{escape(_value(value))}"'
        for name, value in attributes.items()
        if value is not None and value is not False
    )
    return Html(f"<{tag}{written}>{''.join(map(markup, content))}</{tag}>")


def named(name: str, link: str | None = None, sign: str = "") -> Html:
    """The name of an algorithm; in another script it does not disturb what is around it.

    sign: markup after it
    """
    shown = element("bdi", name)
    if link:
        shown = element("a", shown, href=link)
    return element("span", Html(shown + sign), class_="algorithm", title=name)


def isolated(name: str) -> str:
    """A name for the middle of a sentence: one to the left leaves the rest as it is."""
    if not any(unicodedata.bidirectional(letter) in _RIGHT_TO_LEFT for letter in name):
        return name
    return f"\N{FIRST STRONG ISOLATE}{name}\N{POP DIRECTIONAL ISOLATE}"


def _name(name: str) -> str:
    return name.removesuffix("_").replace("_", "-")


def _value(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:.6g}"


# Tables of a page: they scroll inside themselves and, where asked, sort by a click or a key.


@dataclass(frozen=True)
class Cell:
    """A cell with what it is sorted by, where that is not its text."""

    text: str | None
    by: float | None = None


Content = str | Cell | None


def table(
    title: str,
    headers: Sequence[str],
    rows: Sequence[Sequence[Content]],
    kind: str = "numbers",
    *,
    heading: bool = True,
    sortable: bool = False,
    marked: Sequence[bool] = (),
) -> Html:
    """A table under its heading, the first cell of a row naming it; nothing where no row is.

    rows:     texts are escaped, None is a dash; a Cell sorts by its number
    kind:     the class of its look: "numbers" ends them on the right
    sortable: each header becomes a button (the page's own script does the rest)
    marked:   the rows to be seen first: the reader's own
    """
    if not rows:
        return Html()
    head = "".join(_header(header, sortable) for header in headers)
    marks = marked or [False] * len(rows)
    body = "\n".join(_row(row, mark) for row, mark in zip(rows, marks, strict=True))
    above = element("h3", title) + "\n" if heading else ""
    kinds = f"{kind} sortable" if sortable else kind
    inner = f"\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>"
    return Html(above + scrolling(title, element("table", Html(inner), class_=kinds)))


def scrolling(title: str, content: Html) -> Html:
    """Content that may be wider than the screen; focusable, so that the keyboard scrolls it."""
    return element("div", content, class_="scroll", role="region", aria_label=title, tabindex="0")


def badge(text: str, kind: str = "plain") -> Html:
    """A word in a coloured field: good, bad, partly or plain."""
    return element("span", text, class_=f"badge {kind}")


def _header(text: str, sortable: bool) -> Html:
    content = element("button", text, type="button") if sortable else markup(text)
    return element("th", content, scope="col", aria_sort="none" if sortable else None)


def _row(cells: Sequence[Content], mark: bool) -> Html:
    first, *rest = (each if isinstance(each, Cell) else Cell(each) for each in cells)
    return element(
        "tr",
        element("th", first.text, scope="row", data_by=first.by),
        *(element("td", cell.text, data_by=cell.by) for cell in rest),
        class_="own" if mark else None,
    )
