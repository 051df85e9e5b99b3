"""How an algorithm is shown everywhere on the page: its name, its mark and where it comes from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from posse.lab.arena.data import (
    ABSTRACT,
    BASELINE,
    BOUND,
    CODE,
    MARKS,
    MEMORY,
    OURS,
    PAPER,
    YOURS,
    ArenaReport,
)
from posse.lab.pages import markup
from posse.lab.pages.charts import swatch
from posse.lab.pages.labels import shortened
from posse.lab.pages.markup import Html, element

LONGEST = 60  # letters of a name in a sentence


@dataclass(frozen=True)
class Look:
    """The glyph of a source in charts, its class, and the sign after names if there is one."""

    glyph: str
    kind: str
    sign: str = ""


LOOKS = {
    PAPER: Look("circle", "paper"),
    BASELINE: Look("circle", "baseline"),
    OURS: Look("diamond", "ours"),
    CODE: Look("square", "rival"),
    ABSTRACT: Look("square", "rival", "‡"),
    MEMORY: Look("square", "rival", "†"),
    BOUND: Look("circle", "floor"),
    YOURS: Look("star", "yours"),
}


def look(source: str) -> Look:
    """The look of a source."""
    return LOOKS.get(source, Look("square", "rival"))


def sources(report: ArenaReport) -> dict[str, str]:
    """Where each algorithm and each rival comes from, by name."""
    by_rival = {each.algorithm: each.source for each in report.standings}
    return by_rival | {each.name: each.source for each in report.entrants}


def plain(name: str, source: str) -> str:
    """The name with its sign, as text for sentences and what is pointed at."""
    return shortened(name, LONGEST) + look(source).sign


def named(name: str, source: str, link: str | None = None) -> Html:
    """The name with its sign."""
    sign = look(source).sign
    mark = element("sup", sign, title=MARKS[source], class_="sign") if sign else ""
    return markup.named(name, link, mark)


def legend(used: Iterable[str]) -> Html:
    """Every source that is used: its glyph, its sign and its words."""
    seen = set(used)
    items = [
        element(
            "li",
            swatch(look(source).glyph, look(source).kind),
            f" {look(source).sign} {words}" if look(source).sign else f" {words}",
        )
        for source, words in MARKS.items()
        if source in seen
    ]
    return element("ul", *items, class_="marks", aria_label="Marks")
