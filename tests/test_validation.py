"""Checks at the door: what passes, what is refused, and the sentence one reads."""

from __future__ import annotations

import math

import numpy as np
import pytest

from posse import validation


@pytest.mark.parametrize("value", [2, 2.5, np.float32(2.5), np.int8(3), np.float64(2.5)])
def test_numbers_pass_as_floats(value):
    result = validation.validate_number("sigma", value, above=0)
    assert type(result) is float
    assert result == value


@pytest.mark.parametrize("value", ["1", None, True, np.True_, [1.0], np.array([1.0]), 1j])
def test_what_is_not_a_number(value):
    with pytest.raises(ValueError, match=r"^sigma must be a number, got "):
        validation.validate_number("sigma", value)
    with pytest.raises(ValueError, match=r"^points must be a whole number at least 2, got "):
        validation.validate_integer("points", value, at_least=2)


@pytest.mark.parametrize(
    ("bounds", "good", "bad", "message"),
    [
        ({"above": 0}, [1e-300, 5], [0, -1, math.inf, math.nan], "a finite number above 0, got"),
        ({"at_least": 0}, [0, 5], [-1e-9, math.inf], "a finite number at least 0, got"),
        ({"below": 1}, [0.9, -5], [1, -math.inf], "a finite number below 1, got"),
        ({"at_most": 1}, [1, -5], [1.1], "a finite number at most 1, got"),
        ({"above": 0, "at_most": 1}, [1], [0, 2], "a finite number above 0 and at most 1, got"),
        ({}, [-1e300, 0], [math.nan, math.inf, -math.inf], "a finite number, got"),
    ],
)
def test_bounds_of_numbers(bounds, good, bad, message):
    for value in good:
        assert validation.validate_number("p", value, **bounds) == value
    for value in bad:
        with pytest.raises(ValueError, match=f"^p must be {message} {value!r}$"):
            validation.validate_number("p", value, **bounds)


def test_whole_numbers():
    for value in (2, 2.0, np.int64(2), np.float64(2.0), 10**30):
        result = validation.validate_integer("n", value, at_least=2)
        assert type(result) is int
        assert result == value
    for value in (1, 2.5, -3, math.nan, math.inf, -math.inf):
        with pytest.raises(ValueError, match=r"^n must be a whole number at least 2, got"):
            validation.validate_integer("n", value, at_least=2)
    assert validation.validate_integer("n", 5, at_least=2, at_most=5) == 5
    with pytest.raises(
        ValueError, match="n must be a whole number at least 2 and at most 5, got 6"
    ):
        validation.validate_integer("n", 6, at_least=2, at_most=5)


def test_choices():
    allowed = ["max-degree", "metropolis", "lazy"]
    assert validation.validate_choice("weights", "lazy", allowed) == "lazy"
    with pytest.raises(ValueError, match="weights 'metropolys' is unknown: did you mean 'metro"):
        validation.validate_choice("weights", "metropolys", allowed)
    with pytest.raises(
        ValueError, match=r"^weights 'zzz' is unknown: allowed are max-degree, metropolis, lazy$"
    ):
        validation.validate_choice("weights", "zzz", iter(allowed))
    with pytest.raises(ValueError, match="weights None is unknown"):
        validation.validate_choice("weights", None, allowed)


def test_frozen_arrays_compare_by_content():
    values = np.array([[0.1, 0.2], [0.3, 0.4]])
    frozen = validation.FrozenArray(values)
    assert frozen == validation.FrozenArray(values.tolist())
    assert hash(frozen) == hash(validation.FrozenArray(values.copy()))
    assert frozen == validation.FrozenArray(np.asfortranarray(values))
    others = [values + 1e-9, values.ravel(), values.T, values.astype(np.float32)]
    assert all(frozen != validation.FrozenArray(other) for other in others)
    assert frozen != values.tolist()
    assert "shape=(2, 2)" in repr(frozen)


def test_frozen_arrays_cannot_be_changed_from_inside_or_outside():
    values = np.array([0.1, 0.2])
    frozen = validation.FrozenArray(values)
    values[0] = 9.0
    assert frozen.values[0] == 0.1
    with pytest.raises(ValueError, match="read-only"):
        frozen.values[0] = 9.0
