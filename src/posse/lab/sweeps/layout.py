"""Which part of a sweep a figure shows, and along which of its dimensions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from posse import checks
from posse.lab.sweeps.grid import Axis, Label, label_of

if TYPE_CHECKING:
    from posse.lab.sweeps.sweep import Sweep

ALGORITHM = "algorithm"
Row = Mapping[str, Any]  # of the sweep's table


@dataclass(frozen=True)
class Dimension:
    """An axis of the grid, or the algorithms.

    points: where it is shown
    labels: of all its points, by each of its names: its keys in short, and for a paired list all
            of them in one
    """

    points: tuple[int, ...]
    labels: Mapping[str, tuple[Label, ...]]

    @classmethod
    def of_axis(cls, axis: Axis, names: Mapping[str, str]) -> Dimension:
        """The dimension of an axis of the grid, whose keys have these short names."""
        short = [names[key] for key in axis.keys]
        columns = dict(zip(short, zip(*axis.labels, strict=True), strict=True))
        joint = tuple(" & ".join(map(str, labels)) for labels in axis.labels)
        paired = {" & ".join(short): joint} if len(short) > 1 else {}
        return cls(tuple(range(len(axis))), columns | paired)

    @property
    def name(self) -> str:
        """The name that tells all its points apart."""
        return list(self.labels)[-1]


@dataclass(frozen=True)
class Shown:
    """A dimension as a figure shows it: its name and the labels of its points, no two alike."""

    name: str
    labels: tuple[Label, ...]

    @property
    def is_numeric(self) -> bool:
        """Whether its labels are numbers, to be placed as such."""
        return all(isinstance(x, int | float) and not isinstance(x, bool) for x in self.labels)


@dataclass(frozen=True)
class Layout:
    """The rows of a sweep's table by their places along the dimensions shown.

    shown: by role, such as x and hue; None where a role was given nothing
    rows:  by the place on each of them, 0 where there is none
    fixed: what was chosen elsewhere, in words; empty if all is shown
    """

    shown: Mapping[str, Shown | None]
    rows: Mapping[tuple[int, ...], Row]
    fixed: str

    def labels(self, role: str) -> tuple[Label, ...]:
        """The labels along a role's dimension."""
        shown = self.shown[role]
        return ("",) if shown is None else shown.labels


def lay_out(
    sweep: Sweep, roles: Mapping[str, str | None], where: Mapping[str, Any] | None
) -> Layout:
    """What a figure shows, where each role (x, hue, ...) has the name of a dimension.

    A dimension of several values that no role has must be chosen from by `where`: an average
    over settings would be an answer to a question that nobody asked.
    """
    given, whole = chosen(sweep, where), dimensions(sweep)
    roles = {role: None if name is None else known(sweep, name) for role, name in roles.items()}
    numbers = {role: None if name is None else _number(given, name) for role, name in roles.items()}
    for role, other in _pairs(list(numbers)):
        if numbers[role] is not None and numbers[role] == numbers[other]:
            raise ValueError(f"{role} and {other} must be different, got {roles[role]!r} for both")
    for number, dimension in enumerate(given):
        if number not in numbers.values() and len(dimension.points) > 1:
            _refuse_unnamed(dimension, [role for role, name in roles.items() if name is None])
    shown = {
        role: None if number is None else _shown(given[number], str(roles[role]))
        for role, number in numbers.items()
    }
    fixed = [
        f"{dimension.name} = {dimension.labels[dimension.name][dimension.points[0]]}"
        for number, dimension in [(len(given) - 1, given[-1]), *enumerate(given[:-1])]
        if number not in numbers.values() and len(whole[number].points) > 1
    ]
    rows = {}
    for point, row in _rows(sweep):
        places = [
            d.points.index(i) if i in d.points else None for d, i in zip(given, point, strict=True)
        ]
        if None not in places:
            rows[tuple(0 if n is None else places[n] or 0 for n in numbers.values())] = row
    return Layout(shown, rows, ", ".join(fixed))


def dimensions(sweep: Sweep) -> list[Dimension]:
    """All dimensions: the axes of the grid, then the algorithms."""
    names = sweep.algorithms
    algorithms = Dimension(tuple(range(len(names))), {ALGORITHM: tuple(names)})
    short = sweep.grid.short_names()
    return [*(Dimension.of_axis(axis, short) for axis in sweep.grid.axes), algorithms]


def known(sweep: Sweep, name: Any) -> str:
    """The name of a dimension in short: keys may be written in full, too."""
    names = [each for dimension in dimensions(sweep) for each in dimension.labels]
    short = sweep.grid.short_names()
    return short.get(name) or checks.choice("key", name, names)


def chosen(sweep: Sweep, where: Mapping[str, Any] | None) -> list[Dimension]:
    """All dimensions with the points that `where` leaves of them."""
    found = dimensions(sweep)
    if where is not None and not isinstance(where, Mapping):
        raise ValueError(f"where must be a dict of key to value, got {checks.shown(where)}")
    for full, value in (where or {}).items():
        key = known(sweep, full)
        number = _number(found, key)
        dimension, labels = found[number], found[number].labels[key]
        wanted = [label_of(each) for each in (value if isinstance(value, list) else [value])]
        for each in wanted:
            if each not in labels:
                there = ", ".join(map(repr, dict.fromkeys(labels)))
                raise ValueError(
                    f"where: {key} = {checks.shown(each)} is not in the sweep: it has {there}"
                )
        left = tuple(point for point in dimension.points if labels[point] in wanted)
        if not left:
            raise ValueError(f"where leaves nothing of {dimension.name}")
        found[number] = Dimension(left, dimension.labels)
    return found


def _number(given: Sequence[Dimension], name: str) -> int:
    """Which dimension goes by a name."""
    return next(i for i, dimension in enumerate(given) if name in dimension.labels)


def _shown(dimension: Dimension, name: str) -> Shown:
    """A dimension by one of its names; by that of the whole where it does not tell all apart."""
    labels = [dimension.labels[name][point] for point in dimension.points]
    if len(set(labels)) < len(labels):
        name = dimension.name
        labels = [dimension.labels[name][point] for point in dimension.points]
    return Shown(name, tuple(labels))


def _rows(sweep: Sweep) -> list[tuple[tuple[int, ...], Row]]:
    """Each row of the table with its place on all dimensions."""
    names = sweep.algorithms
    points = [(*cell.point, names.index(name)) for cell in sweep.plan for name in cell.jobs]
    return list(zip(points, sweep._rows, strict=True))


def _refuse_unnamed(dimension: Dimension, free: Sequence[str]) -> None:
    labels = dimension.labels[dimension.name]
    roles = f"name it as {' or '.join(free)}, or " if free else ""
    raise ValueError(
        f"{dimension.name} has {len(dimension.points)} values: {roles}"
        f"choose one by where={{{dimension.name!r}: {labels[dimension.points[0]]!r}}}"
    )


def _pairs(names: Sequence[str]) -> list[tuple[str, str]]:
    return [(one, two) for i, one in enumerate(names) for two in names[i + 1 :]]
