"""A page of sections in one file that needs nothing but a browser."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template

from posse import web
from posse.lab.report import curves
from posse.lab.report.curves import Chart
from posse.lab.report.html import Html, element, markup

_ASSETS = Path(__file__).parent / "assets"
_WITHOUT_SCRIPT = "The charts need JavaScript; the tables do not."


@dataclass(frozen=True)
class Section:
    """A part of the page with a link at its top.

    parts:   text becomes a paragraph of its own; markup is taken as it is
    link:    what its link says; the title where that is short enough
    tooltip: what the link says when pointed at
    """

    id: str
    title: str
    parts: Sequence[str]
    link: str | None = None
    tooltip: str | None = None


def document(
    title: str,
    sections: Sequence[Section],
    *,
    summary: Html | None = None,
    style: str = "",
    script: str = "",
    charts: Sequence[Chart] = (),
) -> str:
    """The whole page; nothing in it asks the network for anything.

    summary: markup below the title
    style:   rules after those that all pages share
    script:  what this page does beyond sorting its tables and drawing its charts
    charts:  those that its sections place, in their order
    """
    page = Template(asset(_ASSETS / "document.html"))
    styles = [web.read("tokens.css"), asset(_ASSETS / "page.css")]
    scripts = [asset(_ASSETS / "sorting.js")]
    if charts:
        styles.append(asset(_ASSETS / "curves.css"))
        scripts.append(asset(_ASSETS / "curves.js"))
    return page.substitute(
        title=markup(title),
        style="".join([*styles, style]),
        script="".join([*scripts, script]),
        summary=summary or "",
        links="\n".join(map(_link, sections)),
        without_script=element("noscript", paragraph(_WITHOUT_SCRIPT, "note")) if charts else "",
        sections="\n".join(map(_section, sections)),
        # Without a "<" nothing in the data can end the script element or open a comment.
        data=curves.embedded(charts).replace("<", "\\u003c"),
    )


def asset(path: Path) -> str:
    """A style sheet or a script that lies beside the code."""
    return path.read_text(encoding="utf-8")


def printing() -> str:
    """A script for pages that unfold everything on paper."""
    return asset(_ASSETS / "printing.js")


def facts(parts: Sequence[str]) -> Html:
    """How the page was made: short facts in one quiet line."""
    return paragraph(Html(" · ".join(element("span", part) for part in parts)), "summary")


def paragraph(text: str, kind: str | None = None) -> Html:
    """A paragraph: plain, or "note", "quiet", "caption"."""
    return element("p", text, class_=kind)


def figure(drawing: Html, caption: str = "") -> Html:
    """A drawing with what it shows below it."""
    below = element("figcaption", caption, class_="quiet") if caption else ""
    return element("figure", drawing, Html(below))


def image(png: bytes, meaning: str) -> Html:
    """A PNG inside the page; `meaning` is read to those who do not see it."""
    source = f"data:image/png;base64,{base64.b64encode(png).decode()}"
    return element("div", Html(f'<img src="{source}" alt="{markup(meaning)}">'), class_="image")


def folded(summary: str, *content: str) -> Html:
    """Content that is folded away below its summary."""
    return element("details", element("summary", summary), *content)


def files(names: Sequence[str]) -> Html:
    """Links to files beside the page, each by what it is: PNG, PDF, CSV."""
    links = [element("a", Path(name).suffix.lstrip(".").upper(), href=name) for name in names]
    return Html(f' <span class="files">{" · ".join(links)}</span>' if links else "")


def all_numbers(names: Sequence[str]) -> Html:
    """Where all numbers of a page are, for other programs."""
    return paragraph(Html(f"All numbers as files: {files(names)}"))


def _link(section: Section) -> Html:
    text = section.link or section.title
    return element("li", element("a", text, href=f"#{section.id}", title=section.tooltip))


def _section(section: Section) -> Html:
    parts = [part if isinstance(part, Html) else paragraph(part) for part in section.parts if part]
    body = "\n".join([element("h2", section.title), *parts])
    return element("section", Html(f"\n{body}\n"), id=section.id)
