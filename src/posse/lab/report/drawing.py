"""How algorithms are shown everywhere on the page: names, colours and glyphs, and rows of dots."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from posse.lab.pages import charts
from posse.lab.pages.charts import Dot, swatch
from posse.lab.pages.document import figure
from posse.lab.pages.markup import Html, element, named
from posse.lab.pages.scales import scale_of
from posse.lab.plots import COLOURS
from posse.randomness import FloatArray

_GLYPHS = ("circle", "square", "diamond", "star")  # 4 and 7 colours: 28 pairs before one comes back
RUG = 100  # values of which each is a line; of more, so many quantiles are


class Mark(NamedTuple):
    """The class of a colour, that of its curve, and a glyph for those who do not see it."""

    kind: str
    glyph: str


def marks(names: Iterable[str]) -> dict[str, Mark]:
    """The mark of each algorithm, in the comparison's order."""
    return {
        name: Mark(f"c{i % len(COLOURS)}", _GLYPHS[i % len(_GLYPHS)])
        for i, name in enumerate(names)
    }


def marked(name: str, mark: Mark) -> Html:
    """A name with its mark before it."""
    return element("span", swatch(mark.glyph, mark.kind), named(name), class_="marked")


def dots(title: str, rows: Sequence[Dot]) -> Html:
    """A row for each algorithm: a value with its interval, or the single values behind it."""
    values = [value for row in rows for value in (row.at, row.high, *row.rug)]
    scale = scale_of(values)
    title += ", logarithmic axis" if scale.log else ""
    meaning = f"{title}, of each algorithm; the table below has the numbers."
    return figure(Html(element("h3", title) + charts.dots(meaning, rows, scale)))


def rug(values: FloatArray) -> list[float]:
    """All values, or quantiles of many, from the lowest to the highest."""
    if len(values) > RUG:
        values = np.quantile(values, np.linspace(0, 1, RUG))
    return [float(value) for value in np.sort(values)]
