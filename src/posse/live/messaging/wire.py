"""The wire format of messages: a version, a tag and msgpack; untrusted bytes are validated.

    byte 0       the version of this format
    bytes 1...   msgpack: [tag, experiment, field, field, ...]

The tag is the message's class name, and the fields come in the order of the class.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Final, get_args, get_type_hints

import msgspec

from posse.live.exchange import DEFAULT
from posse.live.messaging.transport import MAX_BYTES

VERSION: Final = 3  # of messages; any other is refused
MOST_FIELDS = 16  # of a message, with its tag
LONGEST_TAG = 64  # bytes


class WireError(ValueError):
    """Bytes that are no valid message: a sentence, and a refusal reason without untrusted text."""

    def __init__(self, sentence: str, kind: str = "malformed") -> None:
        super().__init__(sentence)
        self.kind = kind


@dataclass(frozen=True)
class Parcel:
    """A message, and the experiment it is for."""

    experiment: str
    message: Any


class Codec:
    """Encodes and decodes messages of the given frozen dataclasses, and no others."""

    def __init__(self, *classes: type, max_bytes: int = MAX_BYTES) -> None:
        self.max_bytes = max_bytes
        self._encoder = msgspec.msgpack.Encoder()
        self._fields: dict[type, list[str]] = {}
        self._classes: dict[str, type] = {}
        self._shapes: dict[str, msgspec.msgpack.Decoder[Any]] = {}
        for cls in classes:
            if not (is_dataclass(cls) and cls.__dataclass_params__.frozen):  # type: ignore[attr-defined]
                raise TypeError(f"a message is a frozen dataclass, got {cls.__name__}")
            if cls.__name__ in self._classes:
                raise ValueError(f"two message classes are called {cls.__name__}")
            if _may_hold_floats(cls):  # NaN and infinity would compare and add up to nonsense
                raise TypeError(f"a message holds whole numbers only, {cls.__name__} does not")
            hints = get_type_hints(cls, include_extras=True)
            names = [field.name for field in fields(cls) if field.init]
            self._classes[cls.__name__] = cls
            self._fields[cls] = names
            shape = (str, str, *(hints[name] for name in names))
            # strict: no number from a string, no truth from a number
            self._shapes[cls.__name__] = msgspec.msgpack.Decoder(tuple.__class_getitem__(shape))

    def encode(self, message: object, experiment: str = DEFAULT) -> bytes:
        """Return the bytes of a message."""
        cls = type(message)
        if cls not in self._fields:
            raise WireError(f"{cls.__name__} is not a message of this codec")
        try:
            values = [experiment, *(getattr(message, name) for name in self._fields[cls])]
            payload = bytes([VERSION]) + self._encoder.encode([cls.__name__, *values])
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise WireError(f"a {cls.__name__} cannot be encoded: {_one_line(error)}") from None
        if len(payload) > self.max_bytes:
            raise WireError(f"a message of {len(payload)} bytes is above {self.max_bytes}")
        return payload

    def decode(self, payload: bytes) -> Parcel:
        """Return the message in the bytes; WireError if there is none."""
        size = len(payload)
        if size > self.max_bytes:
            raise WireError(
                f"a message of {size} bytes is above {self.max_bytes}", "message_too_large"
            )
        if size < 2:
            raise WireError(f"a message of {size} bytes is too short", "message_too_short")
        if payload[0] != VERSION:
            raise WireError(
                f"message version {payload[0]}, but this Posse reads version {VERSION}: run the "
                "same Posse at both ends",
                "wire_version_mismatch",
            )
        try:
            # the tag alone first: which fields are right depends on it, and a stranger's million
            # of them need not be made
            tag = _read_tag(payload)
            shape = self._shapes.get(tag)
            if shape is None:
                raise WireError(f"tag {tag[:40]!r} is unknown", "unknown_message_type")
            _, experiment, *values = shape.decode(memoryview(payload)[1:])
            return Parcel(experiment, self._classes[tag](*values))
        except WireError:
            raise
        # bad UTF-8 and nesting too deep have errors of their own, and a message's own checks
        # raise what they like
        except (msgspec.MsgspecError, ValueError, TypeError, ArithmeticError) as error:
            raise WireError(f"the message is malformed: {_one_line(error)}") from None
        except RecursionError:
            raise WireError("the message is nested too deeply") from None


def _read_tag(payload: bytes) -> str:
    """Return the text at the start of a short array; anything else is malformed."""
    head = payload[1]
    at = 2
    if head & 0xF0 == 0x90:
        length = head & 0x0F
    elif head == 0xDC and len(payload) >= 4:
        length = int.from_bytes(payload[2:4], "big")
        at = 4
    else:
        raise WireError("the message is malformed: it is no short array")
    if not 2 <= length <= MOST_FIELDS:
        raise WireError(f"the message is malformed: an array of {length} items")
    kind = payload[at] if at < len(payload) else 0
    if kind & 0xE0 == 0xA0:
        longest = kind & 0x1F
        at = at + 1
    elif kind == 0xD9 and at + 1 < len(payload) and payload[at + 1] <= LONGEST_TAG:
        longest = payload[at + 1]
        at = at + 2
    else:
        raise WireError("the message is malformed: it has no tag")
    return payload[at : at + longest].decode()


def _may_hold_floats(hint: Any) -> bool:
    """Whether a value of this type could hold a float; if in doubt, it could."""
    if is_dataclass(hint):
        hints = get_type_hints(hint, include_extras=True)
        return any(_may_hold_floats(hints[field.name]) for field in fields(hint))
    if arguments := get_args(hint):
        return any(_may_hold_floats(argument) for argument in arguments)
    return hint not in (int, str, bytes, bool, type(None), ...)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
