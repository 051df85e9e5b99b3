"""The wire format: round trips, and nothing but WireError for whatever a stranger sends."""

import math
import random
import struct
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posse.live.messaging.wire import VERSION, Codec, Parcel, WireError


@dataclass(frozen=True)
class Part:
    name: str
    counts: Mapping[str, tuple[int, ...]]
    signature: bytes = b""


@dataclass(frozen=True)
class Report:
    parts: tuple[Part, ...]
    seen: tuple[tuple[str, int], ...]
    weight: int
    final: bool
    note: str | None = None


@dataclass(frozen=True)
class Ping:
    number: int


CODEC = Codec(Report, Ping, max_bytes=10_000)

INTEGERS = st.integers(-(2**63), 2**63 - 1)
PARTS = st.builds(
    Part,
    st.text(max_size=8),
    st.dictionaries(st.text(max_size=5), st.lists(INTEGERS, max_size=3).map(tuple), max_size=3),
    st.binary(max_size=64),
)
REPORTS = st.builds(
    Report,
    st.lists(PARTS, max_size=3).map(tuple),
    st.lists(st.tuples(st.text(max_size=5), INTEGERS), max_size=3).map(tuple),
    INTEGERS,
    st.booleans(),
    st.none() | st.text(max_size=9),
)
MESSAGES = REPORTS | st.builds(Ping, INTEGERS)


def packed(tag=None, *values, version=VERSION):
    """A message as it is on the wire, of the experiment "default"."""
    items = [] if tag is None else [tag, "default", *values]
    return bytes([version]) + msgspec.msgpack.encode(items)


@settings(deadline=None)
@given(MESSAGES)
def test_round_trip(message):
    parcel = CODEC.decode(CODEC.encode(message, "banner"))
    assert parcel == Parcel("banner", message)
    assert type(parcel.message) is type(message)


def test_lone_surrogates_are_refused_when_encoded():
    with pytest.raises(WireError, match="cannot be encoded"):
        CODEC.encode(Report((), (("\ud800", 1),), 0, True))


GOOD = packed("Ping", 7)


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"", "too short"),
        (bytes([VERSION]), "too short"),
        (packed("Ping", 7, version=4), "version 4, but this Posse reads version 3: run the same"),
        (packed("Ping", 7, version=1), "version 1, but this Posse reads version 3: run the same"),
        (packed("Pong", 7), "tag 'Pong' is unknown"),
        (packed(""), "tag '' is unknown"),
        (packed(), "an array of 0 items"),
        (bytes([VERSION]) + msgspec.msgpack.encode(["Ping", 7, 7]), "malformed"),
        (packed("Ping", *range(14)), "malformed"),
        (packed("Ping", *range(15)), "an array of 17 items"),
        (packed("Ping" * 17, 7), "no tag"),
        (bytes([VERSION]) + b"\xdc", "no short array"),
        (bytes([VERSION]) + b"\x92\xd9", "no tag"),
        (bytes([VERSION]) + b"\x92", "no tag"),
        (bytes([VERSION]) + b"\xdd\x00\x00\x20\x00" + b"\xc0" * 0x2000, "no short array"),
        (packed(7, 7), "malformed"),
        (packed("Ping"), "malformed"),
        (packed("Ping", 7, 8), "malformed"),
        (packed("Ping", "7"), "malformed"),
        (packed("Ping", 7.5), "malformed"),
        (packed("Ping", True), "malformed"),
        (packed("Ping", None), "malformed"),
        (GOOD + b"\x00", "malformed"),
        (GOOD[:-1], "malformed"),
        (GOOD[:1] + b"\x93\xa4P\xffng\xa0\x07", "malformed"),  # the tag is not UTF-8
        (GOOD[:1] + b"\xdd\xff\xff\xff\xff", "malformed"),  # four billion items to come
        (GOOD[:1] + b"\x91" * 5000, "malformed|nested"),
        (packed("Report", [], [], math.nan, True, None), "malformed"),
        (packed("Report", [], [], math.inf, True, None), "malformed"),
        (packed("Report", [], [], -math.inf, True, None), "malformed"),
        (packed("Report", [], [["a"]], 0, True, None), "malformed"),
        (packed("Report", [], [], 0, 1, None), "malformed"),
        (packed("Report", [{"name": "x"}], [], 0, True, None), "malformed"),
        (GOOD + b"\x00" * 10_000, "a message of 10016 bytes is above 10000"),
    ],
)
def test_what_is_malformed_is_refused_in_one_sentence(payload, reason):
    with pytest.raises(WireError, match=reason) as caught:
        CODEC.decode(payload)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


def test_bad_utf8_within_a_message():
    payload = CODEC.encode(Report((), (("abc", 1),), 0, True))
    with pytest.raises(WireError, match="malformed"):
        CODEC.decode(payload.replace(b"abc", b"a\xffc"))


def test_every_truncation_is_refused():
    payload = CODEC.encode(Report((Part("x", {"a": (1, 2)}, b"s"),), (("y", 3),), 5, True, "n"))
    for length in range(len(payload)):
        with pytest.raises(WireError):
            CODEC.decode(payload[:length])


@dataclass(frozen=True)
class Deep:
    values: tuple[dict[str, list[float | None]], ...]


@dataclass(frozen=True)
class Anything:
    value: object


@dataclass(frozen=True)
class Within:
    parts: tuple[Part | Deep, ...]


@pytest.mark.parametrize("kind", [Deep, Anything, Within])
def test_messages_that_may_hold_floats_are_refused(kind):
    """What is no number would get in."""
    with pytest.raises(TypeError, match="whole numbers only"):
        Codec(kind)


@pytest.mark.parametrize("message", [Ping(2**70), Ping(object()), Part("x", {}), "text"])
def test_what_cannot_be_a_message_is_not_sent(message):
    with pytest.raises(WireError):
        CODEC.encode(message)


def test_too_large_a_message_is_not_sent():
    with pytest.raises(WireError, match="above 10000"):
        CODEC.encode(Report((), (), 0, True, "x" * 10_000))


def test_a_messages_own_checks_become_wire_errors():
    @dataclass(frozen=True)
    class Positive:
        number: int

        def __post_init__(self):
            if self.number <= 0:
                raise ValueError("number must be positive")

    codec = Codec(Positive)
    assert codec.decode(packed("Positive", 1)).message == Positive(1)
    with pytest.raises(WireError, match="number must be positive"):
        codec.decode(packed("Positive", 0))


def test_only_frozen_dataclasses_of_different_names_are_messages():
    @dataclass
    class Loose:
        number: int

    with pytest.raises(TypeError, match="a message is a frozen dataclass, got Loose"):
        Codec(Loose)
    with pytest.raises(ValueError, match="two message classes are called Ping"):
        Codec(Ping, Ping)


def refused_or_decoded(payload):
    """Whether the payload was a message; anything but a WireError fails the test."""
    try:
        message = CODEC.decode(payload)
    except WireError:
        return False
    CODEC.encode(message.message)  # and what was let in can go on
    return True


@settings(max_examples=2000, deadline=None)
@given(st.binary(max_size=200))
def test_random_bytes(payload):
    refused_or_decoded(payload)
    refused_or_decoded(bytes([VERSION]) + payload)
    refused_or_decoded(bytes([VERSION]) + b"\x97\xa6Report\xa0" + payload)


@settings(max_examples=400, deadline=None)
@given(MESSAGES, st.randoms(use_true_random=False))
def test_mutated_messages(message, dice):
    original = CODEC.encode(message)
    for _ in range(5):
        payload = bytearray(original)
        for _ in range(dice.randint(1, 3)):
            at = dice.randrange(len(payload) + 1)
            what = dice.randrange(4)
            if what == 0 and at < len(payload):
                payload[at] = dice.randrange(256)
            elif what == 1:
                payload[at:at] = dice.randbytes(dice.randint(1, 4))
            elif what == 2:
                del payload[at : at + dice.randint(1, 4)]
            else:  # a double that is nearly always nonsense
                payload[at:at] = b"\xcb" + struct.pack(">d", dice.choice([math.nan, math.inf, 1.5]))
        refused_or_decoded(bytes(payload[: CODEC.max_bytes]))


def test_ten_thousand_mutations_of_one_message():
    original = CODEC.encode(Report((Part("x", {"a": (1, 2)}, b"s"),), (("y", 3),), 5, True, "note"))
    dice = random.Random(20)
    let_in = 0
    for _ in range(10_000):
        payload = bytearray(original)
        payload[dice.randrange(1, len(payload))] = dice.randrange(256)
        let_in += refused_or_decoded(bytes(payload))
    assert 0 < let_in < 10_000  # a different number is still a message
