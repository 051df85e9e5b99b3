"""Decoding of request bodies: strict JSON of a given type, or one sentence that names the field.

Well-formed bodies are decoded by msgspec in one go. Only those that it refuses are decoded again,
slowly: to explain the error, and so that one bad item does not spoil a batch.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from typing import Any, TypeVar

import msgspec

from posse.live.experiment import MAX_BATCH_ITEMS, DecisionRequest
from posse.live.http import models
from posse.live.http.models import MalformedBody

T = TypeVar("T")
NOT_JSON = "the body must be JSON"
# of which shapes the items of a list are
ITEM_TYPES: dict[type, dict[str, type]] = {
    models.DecisionsRequest: {"decisions": DecisionRequest},
    models.RewardsRequest: {"rewards": models.RewardItem},
    models.StepsRequest: {"rewards": models.RewardItem, "decide": DecisionRequest},
}
TYPE_NAMES = {
    "object": "a JSON object",
    "array": "a list",
    "str": "a string",
    "float": "a number",
    "int": "a whole number",
    "bool": "true or false",
    "null": "null",
}


class _NoValue:
    """A placeholder for values that strict JSON does not have; refused everywhere."""

    def __repr__(self) -> str:
        return "no JSON value"


NO_VALUE = _NoValue()


def decode_body(kind: type[T], content: bytes) -> T | None:
    """Decode a body; None if it is malformed: `decode_body_slowly` explains why."""
    shape: Any = kind
    try:
        body: T = _get_decoder(shape).decode(content)
    except (ValueError, RecursionError):
        return None
    return body


@cache
def _get_decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


def decode_body_slowly(kind: type[T], content: bytes) -> T:
    """Decode a body; malformed items of a batch become errors in their places."""
    try:
        # Python's decoder accepts NaN, Infinity and 1e999, which strict JSON does not have.
        # Placeholders take their place, so that the error names the field.
        data = json.loads(content.decode(), parse_constant=_no_value, parse_float=_parse_finite)
        data = _drop_half_characters(data)
    except (ValueError, RecursionError) as error:  # no JSON, or more than Python reads
        raise MalformedBody(NOT_JSON) from error
    kinds = ITEM_TYPES.get(kind, {})
    if not kinds or not isinstance(data, dict):
        return _convert_value(data, kind)
    items: dict[str, Any] = {}
    for field, item_kind in kinds.items():
        value = data.get(field)
        if isinstance(value, list):
            # Checked before the items are converted: a million bad items would become a million
            # errors.
            if len(value) > MAX_BATCH_ITEMS:
                raise MalformedBody(
                    f"{field} must have at most {MAX_BATCH_ITEMS} items, got {len(value)}"
                )
            items[field] = [_convert_item(item, item_kind) for item in value]
        elif isinstance(value, dict) and field == "decide":
            items[field] = _convert_item(value, item_kind)
    # The envelope is validated with empty lists; the items, converted one by one, follow after.
    body = _convert_value({**data, **{field: [] for field in items}}, kind)
    for field, value in items.items():
        setattr(body, field, value)
    return body


def _convert_item(value: Any, kind: type[T]) -> T | MalformedBody:
    """Convert one item of a batch; an error takes its place and does not spoil the batch."""
    try:
        return _convert_value(value, kind)
    except MalformedBody as error:
        return error


def _convert_value(value: Any, kind: type[T]) -> T:
    try:
        return msgspec.convert(value, kind)
    except (msgspec.ValidationError, RecursionError) as error:
        fields = getattr(kind, "__struct_fields__", ())
        raise MalformedBody(explain_validation_error(str(error), fields)) from error


def _no_value(_: str) -> Any:
    return NO_VALUE


def _parse_finite(text: str) -> Any:
    number = float(text)
    return number if math.isfinite(number) else NO_VALUE


def _drop_half_characters(value: Any) -> Any:
    """Replace texts with unpaired surrogates, which no file could store."""
    if isinstance(value, str):
        return value if _is_valid_unicode(value) else NO_VALUE
    if isinstance(value, list):
        return [_drop_half_characters(item) for item in value]
    if isinstance(value, Mapping):
        return {
            _replace_half_characters(key): _drop_half_characters(item)
            for key, item in value.items()
        }
    return value


def _is_valid_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _replace_half_characters(text: str) -> str:
    return text.encode(errors="replace").decode()


_AT = re.compile(r"(.*) - at `(?:key in )?\$([^`]*)`", re.DOTALL)
_FIELD = re.compile(r"Object (missing required|contains unknown) field `(.*)`", re.DOTALL)
_SIZE = re.compile(r"Expected `(array|str|object)` of length ([<>])= (\d+)")
_KIND = re.compile(r"Expected `([a-z |]+)`")


def explain_validation_error(message: str, fields: Sequence[str] = ()) -> str:
    """Turn a message of msgspec into one sentence; fields: the names to suggest for a typo."""
    located = _AT.fullmatch(message)
    problem, place = (located[1], located[2]) if located else (message, "")
    path = [part[:50] for part in re.split(r"[.\[\]]+", place) if part]
    if field := _FIELD.fullmatch(problem):
        # The name comes from the client and may end in a log: it is cut and made printable.
        name = "".join(c if c.isprintable() else "?" for c in field[2][:50])
        full_name = ".".join([*path, name])
        if field[1] == "missing required":
            return f"{full_name} is missing"
        similar = get_close_matches(name, fields, 1)
        advice = f"did you mean {similar[0]!r}?" if similar else "leave it out"
        return f"unknown field {full_name!r}: {advice}"
    full_name = ".".join(path) or "the body"
    if place.endswith("[...]"):  # some value of an object: msgspec does not say which
        full_name = f"every value of {'.'.join(path)}"
    if repr(models.NOTE) in problem:
        return f"{full_name} must be one line without control characters"
    if "matching regex" in problem:
        return (
            f"{full_name} must be 1 to 200 letters, digits or ._~:@=+- and begin with a letter, a "
            "digit, _ or -"
        )
    if size := _SIZE.match(problem):
        thing = {"array": "item", "object": "field", "str": "character"}[size[1]]
        thing += "" if size[3] == "1" else "s"
        return f"{full_name} must have at {'least' if size[2] == '>' else 'most'} {size[3]} {thing}"
    if kind := _KIND.match(problem):
        type_names = [TYPE_NAMES.get(name, name) for name in kind[1].split(" | ")]
        return f"{full_name} must be {' or '.join(type_names)}"
    return (
        f"{full_name} must be a finite number" if "range" in problem else f"{full_name}: {problem}"
    )
