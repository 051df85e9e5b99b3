"""Names beside points: as many as do not run into each other, the first ones first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from posse.lab.pages.markup import isolated

_LETTER, _LINE, _MARK = 7.2, 15.0, 7.0  # pixels: a letter's width, a line, half a mark
_LONGEST = 24  # letters


@dataclass(frozen=True)
class Spot:
    """A label's text and where it stands from its point: pixels and the side it is anchored."""

    text: str
    dx: float
    dy: float
    anchor: str


Box = tuple[float, float, float, float]  # left, top, right, bottom


def placed(
    names: Sequence[str],
    places: Sequence[tuple[float, float]],
    width: float,
    heights: tuple[float, float],
) -> dict[int, Spot]:
    """The spots of those names that find room beside their points, by number."""
    marks = [(x - _MARK, y - _MARK, x + _MARK, y + _MARK) for x, y in places]
    taken: list[Box] = []
    found = {}
    for i, (name, place) in enumerate(zip(names, places, strict=True)):
        others = marks[:i] + marks[i + 1 :] + taken
        for spot in _spots(name):
            box = _box(spot, place)
            inside = box[0] >= 0 and box[2] <= width
            inside = inside and box[1] >= heights[0] and box[3] <= heights[1] + _LINE
            if inside and not any(_meet(box, other) for other in others):
                taken.append(box)
                found[i] = spot
                break
    return found


def shortened(name: str, most: int = _LONGEST) -> str:
    """A name that a chart or a sentence has room for, set apart from what is around it."""
    return isolated(name if len(name) <= most else f"{name[: most - 1]}…")


def _spots(name: str) -> list[Spot]:
    text = shortened(name)
    return [
        Spot(text, 10, 4, "start"),
        Spot(text, -10, 4, "end"),
        Spot(text, 0, -11, "middle"),
        Spot(text, 0, 19, "middle"),
        Spot(text, 8, -8, "start"),
        Spot(text, 8, 16, "start"),
        Spot(text, -8, -8, "end"),
        Spot(text, -8, 16, "end"),
    ]


def _box(spot: Spot, place: tuple[float, float]) -> Box:
    wide = _LETTER * len(spot.text)
    left = place[0] + spot.dx - {"start": 0.0, "middle": wide / 2, "end": wide}[spot.anchor]
    bottom = place[1] + spot.dy + 3
    return (left, bottom - _LINE, left + wide, bottom)


def _meet(one: Box, two: Box) -> bool:
    return one[0] < two[2] and two[0] < one[2] and one[1] < two[3] and two[1] < one[3]
