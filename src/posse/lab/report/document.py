"""Pages of sections in one HTML file that needs nothing but a browser.

A page is made of sections, a section of parts; a part is text, which is escaped and becomes a
paragraph, or `Html` from one of the functions here and in `html`, `charts` and `curves`. Nothing
on a page makes a request: styles, scripts, images and data are inside it.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template

from posse import web
from posse.lab.report import curves
from posse.lab.report.curves import Chart
from posse.lab.report.html import Html, escape_text, render_element

_ASSETS = Path(__file__).parent / "assets"
_WITHOUT_SCRIPT = "The charts need JavaScript; the tables do not."


@dataclass(frozen=True)
class Section:
    """A part of the page with a link at the top of the page.

    parts:   text becomes a paragraph of its own; Html stays as it is
    link:    the text of its link; the title, if None
    tooltip: of its link
    """

    id: str
    title: str
    parts: Sequence[str]
    link: str | None = None
    tooltip: str | None = None


def render_document(
    title: str,
    sections: Sequence[Section],
    *,
    summary: Html | None = None,
    style: str = "",
    script: str = "",
    charts: Sequence[Chart] = (),
) -> str:
    """Render the whole page; nothing in it makes a request.

    summary: markup below the title
    style:   rules after those that all pages share
    script:  of this page alone; tables are sorted and charts drawn by shared scripts
    charts:  those that its sections place, in their order
    """
    page = Template(read_asset(_ASSETS / "document.html"))
    # All pages share one look: colours from the live pages, then the report's own style.
    styles = [web.read("tokens.css"), read_asset(_ASSETS / "page.css")]
    scripts = [read_asset(_ASSETS / "sorting.js")]
    if charts:
        styles.append(read_asset(_ASSETS / "curves.css"))
        scripts.append(read_asset(_ASSETS / "curves.js"))
    return page.substitute(
        title=escape_text(title),
        style="".join([*styles, style]),
        script="".join([*scripts, script]),
        summary=summary or "",
        links="\n".join(map(_render_link, sections)),
        without_script=render_element("noscript", render_paragraph(_WITHOUT_SCRIPT, "note"))
        if charts
        else "",
        sections="\n".join(map(_render_section, sections)),
        # Without a "<" nothing in the data can end the script element or open a comment.
        data=curves.embed_charts(charts).replace("<", "\\u003c"),
    )


def read_asset(path: Path) -> str:
    """Read a style sheet, a script or a template that lies beside the code."""
    return path.read_text(encoding="utf-8")


def printing_script() -> str:
    """Read the script that unfolds everything for printing."""
    return read_asset(_ASSETS / "printing.js")


def render_facts(parts: Sequence[str]) -> Html:
    """Render short facts about the page in one quiet line."""
    return render_paragraph(
        Html(" · ".join(render_element("span", part) for part in parts)), "summary"
    )


def render_paragraph(text: str, kind: str | None = None) -> Html:
    """Render a paragraph: plain, or "note", "quiet", "caption"."""
    return render_element("p", text, class_=kind)


def render_figure(drawing: Html, caption: str = "") -> Html:
    """Render a drawing with its caption below it."""
    below = render_element("figcaption", caption, class_="quiet") if caption else ""
    return render_element("figure", drawing, Html(below))


def render_image(png: bytes, meaning: str) -> Html:
    """Render a PNG inside the page; `meaning` is its text for screen readers."""
    # Inside the page, since a page is one file that may be mailed.
    source = f"data:image/png;base64,{base64.b64encode(png).decode()}"
    return render_element(
        "div",
        Html(f'<img src="{source}" alt="{escape_text(meaning)}">'),
        class_="image",
        role="region",
        aria_label=meaning,
        tabindex="0",  # it scrolls on narrow screens, also by the keyboard
    )


def fold_content(summary: str, *content: str) -> Html:
    """Fold content away below its summary."""
    return render_element("details", render_element("summary", summary), *content)


def link_files(names: Sequence[str]) -> Html:
    """Link files beside the page, each by its kind: PNG, PDF, CSV."""
    links = [
        render_element("a", Path(name).suffix.lstrip(".").upper(), href=name) for name in names
    ]
    return Html(f' <span class="files">{" · ".join(links)}</span>' if links else "")


def link_data_files(names: Sequence[str]) -> Html:
    """Link the files that hold all numbers of a page, for other programs."""
    return render_paragraph(Html(f"All numbers as files: {link_files(names)}"))


def _render_link(section: Section) -> Html:
    text = section.link or section.title
    return render_element(
        "li", render_element("a", text, href=f"#{section.id}", title=section.tooltip)
    )


def _render_section(section: Section) -> Html:
    parts = [
        part if isinstance(part, Html) else render_paragraph(part) for part in section.parts if part
    ]
    body = "\n".join([render_element("h2", section.title), *parts])
    return render_element("section", Html(f"\n{body}\n"), id=section.id)
