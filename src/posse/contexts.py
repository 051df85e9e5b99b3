"""Schemas of contexts: visitor features as columns (one-hot categories, flags, scaled numbers).

The lab and live agents share them. The first column is the intercept, 1; then the fields follow in
their order: a category has one column per name, 0 or 1; a flag one column, -1 or 1; a number one
column, from -1 at its low end to 1 at its high end. An optional field has one more column, 1 where
it is missing, and its other columns are 0 there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from posse import validation
from posse.randomness import FloatArray, Randomness

LONGEST_NAME = 200  # characters, the same limit as for arms


@dataclass(frozen=True)
class Category:
    """A categorical field, such as a country.

    names:    the categories with a column; any other is unknown, and all columns are 0
    shares:   the relative frequencies in the lab; None: equal
    optional: whether it may be missing
    missing:  the share of visits in which it is missing, in the lab
    """

    names: tuple[str, ...]
    shares: tuple[float, ...] | None = None
    optional: bool = False
    missing: float = 0.1

    def __post_init__(self) -> None:
        raw_names: Any = self.names
        names = () if isinstance(raw_names, str) else tuple(raw_names)
        if not names or len(set(names)) < len(names):
            raise ValueError(f"must be different names, got {validation.format_value(self.names)}")
        for name in names:
            validate_name(name)
        object.__setattr__(self, "names", names)
        if self.shares is not None:
            shares = validation.validate_array("shares", self.shares, 0)
            if shares.shape != (len(names),) or not shares.sum() > 0:
                raise ValueError(
                    f"shares must be one for each of {len(names)} names, got "
                    f"{validation.format_value(self.shares)}"
                )
            object.__setattr__(self, "shares", tuple(shares.tolist()))
        _validate_optional(self)

    def column_names(self, name: str) -> list[str]:
        """Return the column names, one per category."""
        return [f"{name}={category}" for category in self.names]

    def encode_value(self, value: Any) -> tuple[list[float], bool, bool]:
        """Return the columns of a value, whether it is unknown, whether it is clipped."""
        if not isinstance(value, str):
            raise ValueError(f"must be text, got {validation.format_value(value)}")
        if len(value) > LONGEST_NAME:
            raise ValueError(f"must have at most {LONGEST_NAME} characters, got {len(value)}")
        return [float(value == name) for name in self.names], value not in self.names, False

    def draw(self, uniform: FloatArray) -> FloatArray:
        """Draw columns by inversion of uniforms: (...) -> (..., columns)."""
        shares = np.ones(len(self.names)) if self.shares is None else np.array(self.shares)
        ends = np.cumsum(shares / shares.sum())[:-1]
        return np.eye(len(self.names))[np.searchsorted(ends, uniform, side="right")]

    def to_data(self) -> Any:
        """Encode the field as in an experiment file or agent.toml."""
        options = _encode_options(self)
        return list(self.names) if not options else {"categories": list(self.names), **options}


@dataclass(frozen=True)
class Flag:
    """A boolean field, as 1 or -1.

    share:    the share of visits in which it is true, in the lab
    optional: whether it may be missing
    missing:  the share of visits in which it is missing, in the lab
    """

    share: float = 0.5
    optional: bool = False
    missing: float = 0.1

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "share", validation.validate_number("share", self.share, at_least=0, at_most=1)
        )
        _validate_optional(self)

    def column_names(self, name: str) -> list[str]:
        """Return the one column name."""
        return [name]

    def encode_value(self, value: Any) -> tuple[list[float], bool, bool]:
        """Return the columns of a value, whether it is unknown, whether it is clipped."""
        if not isinstance(value, bool | np.bool_):
            raise ValueError(f"must be true or false, got {validation.format_value(value)}")
        return [1.0 if value else -1.0], False, False

    def draw(self, uniform: FloatArray) -> FloatArray:
        """Draw columns by inversion of uniforms: (...) -> (..., 1)."""
        return np.where(uniform < self.share, 1.0, -1.0)[..., None]

    def to_data(self) -> Any:
        """Encode the field as in an experiment file or agent.toml."""
        options = _encode_options(self)
        return "flag" if not options else {"flag": True, **options}


@dataclass(frozen=True)
class Number:
    """A numeric field, as (value - middle) / half the range; values outside are clipped.

    low, high: the range; in the lab values are uniform on it
    optional:  whether it may be missing
    missing:   the share of visits in which it is missing, in the lab
    """

    low: float
    high: float
    optional: bool = False
    missing: float = 0.1

    def __post_init__(self) -> None:
        low = validation.validate_number("low", self.low, at_least=-1e30, at_most=1e30)
        high = validation.validate_number("high", self.high, above=low, at_most=1e30)
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)
        _validate_optional(self)

    def column_names(self, name: str) -> list[str]:
        """Return the one column name."""
        return [name]

    def encode_value(self, value: Any) -> tuple[list[float], bool, bool]:
        """Return the columns of a value, whether it is unknown, whether it is clipped."""
        if isinstance(value, bool | np.bool_) or not isinstance(
            value, int | float | np.integer | np.floating
        ):
            raise ValueError(f"must be a number, got {validation.format_value(value)}")
        if not validation.is_finite(value):
            raise ValueError(f"must be a finite number, got {validation.format_value(value)}")
        middle = (self.low + self.high) / 2
        half = (self.high - self.low) / 2
        clipped = not self.low <= value <= self.high
        return [min(max((float(value) - middle) / half, -1.0), 1.0)], False, clipped

    def draw(self, uniform: FloatArray) -> FloatArray:
        """Draw columns by inversion of uniforms: (...) -> (..., 1)."""
        return (2.0 * uniform - 1.0)[..., None]

    def to_data(self) -> Any:
        """Encode the field as in an experiment file or agent.toml."""
        return {"low": self.low, "high": self.high, **_encode_options(self)}


Field = Category | Flag | Number


def parse_field(value: Any) -> Field:
    """Parse a field: a Category, Flag or Number, a list, "flag", a pair or a table."""
    if isinstance(value, Category | Flag | Number):
        return value
    if value == "flag":
        return Flag()
    if isinstance(value, Mapping):
        return _parse_table(dict(value))
    # A pair of numbers is a range; a pair of texts is a list of categories.
    if isinstance(value, tuple) and len(value) == 2 and not any(isinstance(e, str) for e in value):
        return Number(*value)
    if isinstance(value, Iterable) and not isinstance(value, str):
        return Category(tuple(value))
    raise ValueError(
        'must be a list of categories, "flag", or a range such as {low = 0, high = 500}, '
        f"got {validation.format_value(value)}"
    )


def _parse_table(table: dict[str, Any]) -> Field:
    """Parse a field from a table; the keys `categories`, `flag` or `low` tell its kind."""
    kinds: dict[str, Any] = {"categories": Category, "flag": Flag, "low": Number}
    kind = next((kind for kind in kinds if kind in table), None)
    if kind is None:
        raise ValueError(
            'must have a kind: {categories = ["de", "fr"]}, {flag = true} or '
            f"{{low = 0, high = 500}}, got {validation.format_value(table)}"
        )
    first = {}
    if kind == "categories":
        names = table.pop("categories")
        if not isinstance(names, list | tuple):
            raise ValueError(
                f"categories must be a list of names, got {validation.format_value(names)}"
            )
        first["names"] = tuple(names)
    elif kind == "flag" and table.pop("flag") is not True:
        raise ValueError("flag must be true as a key: set its frequency by share = 0.5")
    allowed = [f.name for f in dataclasses.fields(kinds[kind]) if f.name != "names"]
    for key in table:
        validation.validate_choice("key", key, allowed)
    if kind == "low" and "high" not in table:
        raise ValueError("high is missing")
    if isinstance(table.get("shares"), list):
        table["shares"] = tuple(table["shares"])
    field: Field = kinds[kind](**first, **table)
    return field


def validate_name(name: Any) -> str:
    """Return a name of printable text of limited length, or raise a ValueError."""
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        raise ValueError(f"names must be printable text, got {validation.format_value(name)}")
    if len(name) > LONGEST_NAME:
        raise ValueError(
            f"names must have at most {LONGEST_NAME} characters, "
            f"got {validation.format_value(name)}"
        )
    return name


def _validate_optional(field: Any) -> None:
    if not isinstance(field.optional, bool):
        raise ValueError(
            f"optional must be true or false, got {validation.format_value(field.optional)}"
        )
    share = validation.validate_number("missing", field.missing, at_least=0, at_most=1)
    object.__setattr__(field, "missing", share)


def _encode_options(field: Any) -> dict[str, Any]:
    """Encode the settings of a field that differ from their defaults."""
    required = {"names", "low", "high"}
    return {
        f.name: list(value) if isinstance(value, tuple) else value
        for f in dataclasses.fields(field)
        if f.name not in required and (value := getattr(field, f.name)) != f.default
    }


# A belief has d (d + 1) / 2 + d numbers per arm, which agents also exchange.
MOST_COLUMNS = 64


class Features(NamedTuple):
    """A context as columns, with the fields that had unknown categories or were clipped."""

    x: FloatArray  # (d,)
    unknown: tuple[str, ...]  # fields with a category that has no column
    clipped: tuple[str, ...]  # fields with a number outside their range


@dataclass(frozen=True)
class Contexts:
    """The schema of visitor features: categories, flags and numbers.

    fields: by name, a list of categories, "flag", a pair (low, high) for a number, or `Category`,
    `Flag`, `Number` of this module with further settings; in files also a table such as
    {low = 0, high = 24, optional = true} or {categories = ["de", "fr"], shares = [0.7, 0.3]}.

    As the contexts of a bandit in the lab it draws visits and fields independently.

    >>> contexts = posse.Contexts({"country": ["de", "fr"], "new": "flag", "basket": (0, 500)})
    >>> contexts.columns
    ('intercept', 'country=de', 'country=fr', 'new', 'basket')
    >>> contexts.features({"country": "fr", "new": True, "basket": 125}).x.tolist()
    [1.0, 0.0, 1.0, 1.0, -0.5]
    """

    fields: Any

    def __post_init__(self) -> None:
        pairs = self.fields
        if isinstance(pairs, Mapping):
            pairs = pairs.items()
        elif not isinstance(pairs, tuple) or not all(
            isinstance(pair, tuple) and len(pair) == 2 for pair in pairs
        ):
            raise ValueError(
                'contexts must be a table of fields such as {"country": ["de", "fr"], '
                f'"basket": (0, 500)}}, got {validation.format_value(pairs)}'
            )
        object.__setattr__(
            self,
            "fields",
            tuple((_validate_field_name(name), _parse_named_field(name, f)) for name, f in pairs),
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
        columns = ["intercept"]
        for name, field in self:
            columns += [*field.column_names(name), *([f"{name} missing"] if field.optional else [])]
        return tuple(columns)

    @property
    def n_features(self) -> int:
        """d, the number of columns, the intercept among them."""
        return len(self.columns)

    def features(self, context: Mapping[str, Any]) -> Features:
        """Return the columns (d,) of one context, a table of values by name; None is missing.

        An unknown category becomes zeros, a number outside its range is clipped, and the result
        names both. A missing field that is not optional, or one of another type, is refused.
        """
        if not isinstance(context, Mapping):
            raise ValueError(
                f"context must be a table of names and values, "
                f"got {validation.format_value(context)}"
            )
        names = [name for name, _ in self]
        for key in context:
            if key not in names:
                validation.validate_choice("context:", key, names)
        x = [1.0]  # the intercept
        unknown = []
        clipped = []
        for name, field in self:
            value = context.get(name)
            if value is None:
                if not field.optional:
                    raise ValueError(f"context.{name} is missing")
                x += [0.0] * len(field.column_names(name)) + [1.0]
                continue
            try:
                columns, is_unknown, is_clipped = field.encode_value(value)
            except ValueError as error:
                raise ValueError(f"context.{name} {error}") from None
            x += [*columns, 0.0] if field.optional else columns
            unknown += [name] if is_unknown else []
            clipped += [name] if is_clipped else []
        return Features(np.array(x), tuple(unknown), tuple(clipped))

    def __call__(self, generator: Randomness, size: tuple[int, ...]) -> FloatArray:
        """Draw the contexts of random visits: (R, N) -> (R, N, d)."""
        x = np.empty((*size, self.n_features))
        x[..., 0] = 1.0
        fields = [field for _, field in self]
        # Two uniforms per optional field, whether it is missing or not: streams stay aligned.
        n_uniforms = len(fields) + sum(field.optional for field in fields)
        uniforms = _draw_uniforms(generator, n_uniforms, size)
        # Numbers, which are drawn alike, all at once: one by one they took a tenth of a simulation.
        if fields and all(type(field) is Number and not field.optional for field in fields):
            columns = fields[0].draw(uniforms)[..., 0]  # (d - 1, R, N)
            x[..., 1:] = columns.transpose(*range(1, columns.ndim), 0)
            return x
        remaining = iter(uniforms)
        end = 1
        for field in fields:
            columns = field.draw(next(remaining))
            start = end
            end = start + columns.shape[-1]
            x[..., start:end] = columns
            if field.optional:
                missing = next(remaining) < field.missing
                x[missing, start:end] = 0.0
                x[..., end] = missing
                end += 1
        return x

    def to_data(self) -> dict[str, Any]:
        """Encode the schema as in an experiment file or agent.toml; `Contexts(data)` decodes it."""
        return {name: field.to_data() for name, field in self}


def _draw_uniforms(generator: Randomness, n_arrays: int, size: tuple[int, ...]) -> FloatArray:
    """Draw arrays of uniforms, the same ones as one array after the other: (n_arrays, *size)."""
    if isinstance(generator, np.random.Generator):
        return generator.random((n_arrays, *size))
    # every run has a stream of its own, so the arrays of a run follow each other
    uniforms = np.asarray(generator.random((size[0], n_arrays, *size[1:])))
    return uniforms.swapaxes(0, 1)


def _validate_field_name(name: Any) -> str:
    try:
        return validate_name(name)
    except ValueError as error:
        raise ValueError(f"contexts: {error}") from None


def _parse_named_field(name: str, value: Any) -> Field:
    """Parse the field of this name; the error names its key."""
    try:
        return parse_field(value)
    except ValueError as error:
        raise ValueError(f"contexts.{name} {error}") from None
