"""The decoder of plain data: what each annotation takes, and one sentence with the key else."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from posse.serialization.decoder import Decoder, DecodingError, import_object


@dataclass(frozen=True)
class Inner:
    sigma: float = 1.0
    sizes: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.sigma <= 0:
            raise ValueError(f"sigma must be above 0, got {self.sigma}")


@dataclass(frozen=True)
class Outer:
    name: str
    inner: Inner
    kind: Literal["slow", "fast"] = "slow"
    pair: tuple[float, float] = (0.0, 1.0)
    each: Mapping[str, Inner] = field(default_factory=dict)
    draw: Callable[[Any], Any] | None = None
    limit: int | None = None
    either: int | str = 0
    flag: bool = False
    made: int = field(default=3, init=False)


GOOD = {"name": "x", "inner": {}}


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, Outer("x", Inner())),
        ({"inner": {"sigma": 2, "sizes": [1, 2]}}, Outer("x", Inner(2.0, (1, 2)))),
        ({"kind": "fast", "pair": [1, 2.5]}, Outer("x", Inner(), "fast", (1.0, 2.5))),
        ({"each": {"a.b": {"sigma": 0.5}}}, Outer("x", Inner(), each={"a.b": Inner(0.5)})),
        ({"draw": "math:sqrt", "limit": 3}, Outer("x", Inner(), draw=math.sqrt, limit=3)),
        ({"limit": None, "either": "many"}, Outer("x", Inner(), either="many")),
        ({"flag": True}, Outer("x", Inner(), flag=True)),
    ],
)
def test_values(more, expected):
    made = Decoder().decode_value(Outer, GOOD | more)
    assert made == expected
    assert type(made.inner.sigma) is float
    assert all(type(end) is float for end in made.pair)


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"name": 3}, "name: must be text, got 3"),
        ({"inner": 3}, "inner: must be a table of names and values, got 3"),
        ({"inner": {"sigma": True}}, "inner.sigma: must be a number, got True"),
        ({"inner": {"sigma": 10**400}}, "inner.sigma: must be a number, got 1"),
        ({"inner": {"sigma": -1}}, "inner.sigma: must be above 0, got -1.0"),
        ({"inner": {"sigm": 1}}, "inner: key 'sigm' is unknown: did you mean 'sigma'? allowed"),
        ({"inner": {"sizes": [1, 2.0]}}, "inner.sizes.1: must be a whole number, got 2.0"),
        ({"inner": {"sizes": "12"}}, "inner.sizes: must be a list, got '12'"),
        ({"kind": "medium"}, "kind: must be 'slow' or 'fast', got 'medium'"),
        ({"kind": []}, "kind: must be 'slow' or 'fast', got []"),
        ({"pair": [1.0]}, "pair: must be a list of 2, got [1.0]"),
        ({"each": {"a.b": {"sigma": "x"}}}, "each.\"a.b\".sigma: must be a number, got 'x'"),
        ({"each": []}, "each: must be a table of names and values, got []"),
        ({"draw": "sqrt"}, "draw: a function is named 'module:function', got 'sqrt'"),
        ({"draw": "math:sqroot"}, "draw: 'math:sqroot' is unknown: module 'math' has no 'sqroot'"),
        ({"draw": "maths:sqrt"}, "draw: 'maths:sqrt' cannot be imported: No module named 'maths'"),
        ({"draw": "math:pi"}, "draw: 'math:pi' must be a function, got 3.14"),
        ({"limit": "3"}, "limit: must be a whole number, got '3'"),
        ({"flag": 1}, "flag: must be true or false, got 1"),
        ({"made": 4}, "key 'made' is unknown"),
    ],
)
def test_mistakes(more, sentence):
    with pytest.raises(DecodingError) as caught:
        Decoder().decode_value(Outer, GOOD | more)
    assert str(caught.value).startswith(sentence)
    assert "\n" not in str(caught.value)


def test_a_missing_field_is_named_and_the_joint_is_the_readers():
    with pytest.raises(DecodingError, match=r"^inner: is missing$") as caught:
        Decoder().decode_value(Outer, {"name": "x"})
    assert caught.value.with_parent_key("here").format_message(" ") == "here.inner is missing"


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (3, "must be a name or a table with a name, got 3"),
        ("iner", "'iner' is unknown: did you mean 'inner'? allowed are inner"),
        ({"name": "iner"}, "name: 'iner' is unknown"),
        ({"name": ["inner"]}, "name: ['inner'] is unknown"),
        ({}, "name: is missing: allowed are inner"),
        ("math:sqrt", "must be that of a frozen dataclass, got 'math:sqrt'"),
        ({"name": "inner", "sigma": "2"}, "sigma: must be a number, got '2'"),
    ],
)
def test_entries_of_a_registry(data, sentence):
    assert Decoder().decode_entry({"inner": Inner}, {"name": "inner", "sigma": 2}) == Inner(2.0)
    assert Decoder().decode_entry({"inner": Inner}, "inner") == Inner()
    with pytest.raises(DecodingError) as caught:
        Decoder().decode_entry({"inner": Inner}, data)
    assert str(caught.value).startswith(sentence)


def test_builders_are_for_annotations_and_for_fields():
    decoder = Decoder({Inner: lambda data: Inner(float(data)), (Outer, "limit"): len})
    assert decoder.decode_value(Outer, {"name": "x", "inner": "2.5", "limit": "abc"}) == Outer(
        "x", Inner(2.5), limit=3
    )
    with pytest.raises(DecodingError, match=r"^inner: could not convert string to float"):
        decoder.decode_value(Outer, {"name": "x", "inner": "y"})


def test_classes_are_found_by_name():
    assert import_object("posse.families:Gaussian").__name__ == "Gaussian"
    family = Decoder().decode_entry({}, {"name": "posse.families:Gaussian", "sigma": 2})
    assert repr(family) == "Gaussian(sigma=2.0, prior_mean=0.0, prior_sd=1.0)"
