"""Text that is markup already, and text that is not: only the second is escaped."""

from __future__ import annotations

import unicodedata
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
