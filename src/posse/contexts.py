"""The schema of contexts: what is known of a visitor, as columns of features (one-hot, scaled).

One place for the lab and for live agents. The first column is the intercept, 1; then each field in
its order: a category has one column for each of its names, 0 or 1; a flag one, -1 or 1; a number
one, from -1 at its low end to 1 at its high end. What is optional has one column more, 1 where it
is missing, and its others are 0 there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from posse import checks
from posse.context_fields import Category as Category
from posse.context_fields import Field, check_name, field_of
from posse.context_fields import Flag as Flag
from posse.context_fields import Number as Number
from posse.randomness import FloatArray, Randomness

MOST_COLUMNS = 64


class Features(NamedTuple):
    """A context as columns, and which of its fields were not quite what the schema knows."""

    x: FloatArray  # (d,)
    unknown: tuple[str, ...]  # categories with a name that has no column
    clipped: tuple[str, ...]  # numbers outside their range


@dataclass(frozen=True)
class Contexts:
    """What is known of a visitor before an arm is chosen: categories, flags and numbers.

    fields: by name, a list of categories, "flag", a pair (low, high) for a number, or `Category`,
    `Flag`, `Number` of this module for what else there is to say; in files also a table such as
    {low = 0, high = 24, optional = true} or {categories = ["de", "fr"], shares = [0.7, 0.3]}.

    As the contexts of a bandit in the lab it draws them: every visit by itself, every field too.

    >>> contexts = posse.Contexts({"country": ["de", "fr"], "new": "flag", "basket": (0, 500)})
    >>> contexts.columns
    ('intercept', 'country=de', 'country=fr', 'new', 'basket')
    >>> contexts.features({"country": "fr", "new": True, "basket": 125}).x.tolist()
    [1.0, 0.0, 1.0, 1.0, -0.5]
    """

    fields: Any

    def __post_init__(self) -> None:
        given = self.fields
        if isinstance(given, Mapping):
            given = given.items()
        elif not isinstance(given, tuple) or not all(
            isinstance(pair, tuple) and len(pair) == 2 for pair in given
        ):
            raise ValueError(
                'contexts must be a table of fields such as {"country": ["de", "fr"], '
                f'"basket": (0, 500)}}, got {checks.shown(given)}'
            )
        object.__setattr__(
            self, "fields", tuple((_name(name), _field(name, f)) for name, f in given)
        )
        if self.n_features > MOST_COLUMNS:
            raise ValueError(
                f"contexts have {self.n_features} columns, the intercept among them, at most "
                f"{MOST_COLUMNS}: merge rare categories"
            )
        if len(set(self.columns)) < self.n_features:
            raise ValueError(f"contexts must have different columns, got {', '.join(self.columns)}")

    def __iter__(self) -> Iterator[tuple[str, Field]]:
        yield from self.fields

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns, the intercept first: (d,)."""
        named = ["intercept"]
        for name, field in self:
            named += [*field.columns(name), *([f"{name} missing"] if field.optional else [])]
        return tuple(named)

    @property
    def n_features(self) -> int:
        """d, the number of columns, the intercept among them."""
        return len(self.columns)

    def features(self, context: Mapping[str, Any]) -> Features:
        """The columns (d,) of one context, a table of values by name; None is missing.

        An unknown category is answered with zeros, a number outside its range with the end of it,
        and both are named. What is missing and not optional, or of another kind, is refused.
        """
        if not isinstance(context, Mapping):
            raise ValueError(
                f"context must be a table of names and values, got {checks.shown(context)}"
            )
        names = [name for name, _ in self]
        for key in context:
            if key not in names:
                checks.choice("context:", key, names)
        x, unknown, clipped = [1.0], [], []
        for name, field in self:
            value = context.get(name)
            if value is None:
                if not field.optional:
                    raise ValueError(f"context.{name} is missing")
                x += [0.0] * len(field.columns(name)) + [1.0]
                continue
            try:
                columns, is_unknown, is_clipped = field.features(value)
            except ValueError as error:
                raise ValueError(f"context.{name} {error}") from None
            x += [*columns, 0.0] if field.optional else columns
            unknown += [name] if is_unknown else []
            clipped += [name] if is_clipped else []
        return Features(np.array(x), tuple(unknown), tuple(clipped))

    def __call__(self, generator: Randomness, size: tuple[int, ...]) -> FloatArray:
        """Contexts of visits drawn at random: (R, N) -> (R, N, d)."""
        parts = [np.ones((*size, 1))]
        for _, field in self:
            columns = field.drawn(np.asarray(generator.random(size)))
            if field.optional:
                missing = np.asarray(generator.random(size)) < field.missing
                columns = np.where(missing[..., None], 0.0, columns)
                parts += [columns, missing[..., None].astype(float)]
            else:
                parts.append(columns)
        return np.concatenate(parts, axis=-1)

    def to_data(self) -> dict[str, Any]:
        """As an experiment file or agent.toml has it; `Contexts(data)` is this again."""
        return {name: field.to_data() for name, field in self}


def _name(name: Any) -> str:
    try:
        return check_name(name)
    except ValueError as error:
        raise ValueError(f"contexts: {error}") from None


def _field(name: str, given: Any) -> Field:
    """A field from what was given for it."""
    try:
        return field_of(given)
    except ValueError as error:
        raise ValueError(f"contexts.{name} {error}") from None
