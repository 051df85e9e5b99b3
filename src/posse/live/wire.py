"""Serialisation of messages: a version, a tag and msgpack; untrusted bytes are validated.

    byte 0       the version of this format
    bytes 1...   msgpack: [tag, field, field, ...]

The tag is the message's class name, and the fields come in the order of the class.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any, Final, get_args, get_type_hints

import msgspec

from posse.live.transport import MAX_BYTES

VERSION: Final = 1


class WireError(ValueError):
    """Bytes that are no valid message: a sentence, and a kind without any untrusted text."""

    def __init__(self, sentence: str, kind: str = "malformed") -> None:
        super().__init__(sentence)
        self.kind = kind


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
                raise ValueError(f"two classes of messages are called {cls.__name__}")
            if _may_hold_floats(cls):  # NaN and infinity would compare and add up to nonsense
                raise TypeError(f"a message holds whole numbers only, {cls.__name__} does not")
            hints = get_type_hints(cls, include_extras=True)
            names = [field.name for field in fields(cls) if field.init]
            self._classes[cls.__name__] = cls
            self._fields[cls] = names
            # strict: no number from a string, no truth from a number
            shape: Any = tuple.__class_getitem__((str, *(hints[name] for name in names)))
            self._shapes[cls.__name__] = msgspec.msgpack.Decoder(shape, strict=True)
        self._tagged = msgspec.msgpack.Decoder(list[msgspec.Raw])
        self._text = msgspec.msgpack.Decoder(str)

    def encode(self, message: object) -> bytes:
        """The bytes of a message."""
        cls = type(message)
        if cls not in self._fields:
            raise WireError(f"{cls.__name__} is not a message of this codec")
        values = [getattr(message, name) for name in self._fields[cls]]
        try:
            payload = bytes([VERSION]) + self._encoder.encode([cls.__name__, *values])
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise WireError(f"a {cls.__name__} cannot be encoded: {_line(error)}") from None
        if len(payload) > self.max_bytes:
            raise WireError(f"a message of {len(payload)} bytes is above {self.max_bytes}")
        return payload

    def decode(self, payload: bytes) -> Any:
        """The message that the bytes hold; WireError if they hold none."""
        size = len(payload)
        if size > self.max_bytes:
            raise WireError(f"a message of {size} bytes is above {self.max_bytes}", "too large")
        if size < 2:
            raise WireError(f"a message of {size} bytes is too short", "too short")
        if payload[0] != VERSION:
            sentence = f"version {payload[0]} is unknown, this is {VERSION}"
            raise WireError(sentence, "another version")
        try:
            # the tag alone first: which fields are right depends on it
            body = memoryview(payload)[1:]
            parts = self._tagged.decode(body)
            tag = self._text.decode(parts[0]) if parts else ""
            shape = self._shapes.get(tag)
            if shape is None:
                raise WireError(f"tag {tag[:40]!r} is unknown", "another kind of message")
            _, *values = shape.decode(body)
            return self._classes[tag](*values)
        except WireError:
            raise
        # bad UTF-8 and nesting too deep have errors of their own, and a message's own checks
        # raise what they like
        except (msgspec.MsgspecError, ValueError, TypeError, ArithmeticError) as error:
            raise WireError(f"the message is malformed: {_line(error)}") from None
        except RecursionError:
            raise WireError("the message is nested too deeply") from None


def _may_hold_floats(hint: Any) -> bool:
    """Whether a value of this type could hold a float; if in doubt, it could."""
    if is_dataclass(hint):
        hints = get_type_hints(hint, include_extras=True)
        return any(_may_hold_floats(hints[field.name]) for field in fields(hint))
    if arguments := get_args(hint):
        return any(_may_hold_floats(argument) for argument in arguments)
    return hint not in (int, str, bytes, bool, type(None), ...)


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
