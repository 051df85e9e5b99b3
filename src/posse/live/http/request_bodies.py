"""Reading of request bodies: strict JSON of a given shape, or one sentence that names the field.

Well-formed bodies are read by msgspec in one go. Only what it refuses is read once more, slowly:
to say what is wrong, and so that one bad item does not spoil a batch.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar

import msgspec

from posse.live.http import models
from posse.live.http.models import ITEMS, Refused

T = TypeVar("T")
NO_JSON = "the body must be JSON"
# of which shapes the items of a list are
ITEM_TYPES: dict[type, dict[str, type]] = {
    models.DecisionsRequest: {"decisions": models.DecisionRequest},
    models.RewardsRequest: {"rewards": models.RewardItem},
    models.StepsRequest: {"rewards": models.RewardItem, "decide": models.DecisionRequest},
}
NAMES = {
    "object": "a JSON object",
    "array": "a list",
    "str": "a string",
    "float": "a number",
    "int": "a whole number",
    "bool": "true or false",
    "null": "null",
}


class _NoValue:
    """In place of what strict JSON does not have: refused wherever it stands."""

    def __repr__(self) -> str:
        return "no JSON value"


NO_VALUE = _NoValue()


def read(kind: type[T], content: bytes) -> T | None:
    """A body of a shape; None if it is not well formed: `read_slowly` says why."""
    shape: Any = kind
    try:
        made: T = _decoder(shape).decode(content)
    except (ValueError, RecursionError):
        return None
    return made


@cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


def read_slowly(kind: type[T], content: bytes) -> T:
    """The same; items of a batch that are not well formed are errors in their places."""
    try:
        given = json.loads(content.decode(), parse_constant=_no_value, parse_float=_finite)
        given = _cleaned(given)
    except (ValueError, RecursionError) as error:  # no JSON, or more than Python reads
        raise Refused(NO_JSON) from error
    kinds = ITEM_TYPES.get(kind, {})
    if not kinds or not isinstance(given, dict):
        return _converted(given, kind)
    items: dict[str, Any] = {}
    for field, item_kind in kinds.items():
        value = given.get(field)
        if isinstance(value, list):
            if len(value) > ITEMS:
                raise Refused(f"{field} must have at most {ITEMS} items, got {len(value)}")
            items[field] = [_attempt(each, item_kind) for each in value]
        elif isinstance(value, dict) and field == "decide":
            items[field] = _attempt(value, item_kind)
    body = _converted({**given, **{field: [] for field in items}}, kind)
    for field, value in items.items():
        setattr(body, field, value)
    return body


def _attempt(value: Any, kind: type[T]) -> T | Refused:
    """One bad item must not spoil the batch: its error takes its place."""
    try:
        return _converted(value, kind)
    except Refused as error:
        return error


def _converted(value: Any, kind: type[T]) -> T:
    try:
        return msgspec.convert(value, kind)
    except (msgspec.ValidationError, RecursionError) as error:
        raise Refused(sentence(str(error))) from error


def _no_value(_: str) -> Any:
    return NO_VALUE


def _finite(text: str) -> Any:
    number = float(text)
    return number if math.isfinite(number) else NO_VALUE


def _cleaned(value: Any) -> Any:
    """Without half characters, which no file could hold."""
    if isinstance(value, str):
        return value if _is_whole(value) else NO_VALUE
    if isinstance(value, list):
        return [_cleaned(each) for each in value]
    if isinstance(value, Mapping):
        return {_printable(key): _cleaned(each) for key, each in value.items()}
    return value


def _is_whole(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _printable(text: str) -> str:
    return text.encode(errors="replace").decode()


_AT = re.compile(r"(.*) - at `(?:key in )?\$([^`]*)`", re.DOTALL)
_FIELD = re.compile(r"Object (missing required|contains unknown) field `(.*)`", re.DOTALL)
_SIZE = re.compile(r"Expected `(array|str)` of length ([<>])= (\d+)")
_KIND = re.compile(r"Expected `([a-z |]+)`")


def sentence(message: str) -> str:
    """What msgspec says, in one sentence that begins with the field."""
    found = _AT.fullmatch(message)
    what, place = (found[1], found[2]) if found else (message, "")
    path = [part[:50] for part in re.split(r"[.\[\]]+", place) if part]
    if field := _FIELD.fullmatch(what):
        name = "".join(c if c.isprintable() else "?" for c in field[2][:50])
        named = ".".join([*path, name])
        if field[1] == "missing required":
            return f"{named} is missing"
        return f"{named or 'an empty name'} is no field here: leave it out"
    named = ".".join(path) or "the body"
    if "matching regex" in what:
        return (
            f"{named} must be 1 to 200 letters, digits or ._~:@=+- and begin with a letter, a "
            "digit, _ or -"
        )
    if size := _SIZE.match(what):
        thing = "item" if size[1] == "array" else "character"
        thing += "" if size[3] == "1" else "s"
        return f"{named} must have at {'least' if size[2] == '>' else 'most'} {size[3]} {thing}"
    if kind := _KIND.match(what):
        wanted = [NAMES.get(name, name) for name in kind[1].split(" | ")]
        return f"{named} must be {' or '.join(wanted)}"
    return f"{named} must be a finite number" if "range" in what else f"{named}: {what}"
