"""Durations as people write them."""

import pytest

from posse.live.config.experiment_settings import parse_seconds


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("90 minutes", 5400.0),
        ("12 hours", 43200.0),
        ("14 days", 1209600.0),
        ("1 day", 86400.0),
        ("1.5 weeks", 907200.0),
        (" 30  seconds ", 30.0),
        (45, 45.0),
        (0.5, 0.5),
    ],
)
def test_a_number_and_a_unit_are_seconds(written, meant):
    assert parse_seconds("half_life", written) == meant


@pytest.mark.parametrize(
    "wrong", ["", "days", "14", "14days", "-1 days", "0 days", "nan days", "inf days", "2 moons"]
)
def test_another_text_is_refused_with_what_is_allowed(wrong):
    with pytest.raises(ValueError, match=r"half_life must be seconds, or .*14 days.*got") as error:
        parse_seconds("half_life", wrong)
    assert str(error.value).endswith(repr(wrong))


@pytest.mark.parametrize("wrong", [0, -3, True, float("nan"), None, [1]])
def test_another_value_is_refused_too(wrong):
    with pytest.raises(ValueError, match="half_life must be"):
        parse_seconds("half_life", wrong)
