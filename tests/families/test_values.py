"""Families are checked at the door and compare by value; what each refuses beyond the obvious."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from posse.families import (
    FAMILIES,
    Bernoulli,
    Bounded,
    Exponential,
    Gaussian,
    GaussianUnknownVariance,
    Interval,
    Poisson,
    Revenue,
)


def test_families_are_values(family):
    copy = dataclasses.replace(family)
    assert copy == family
    assert hash(copy) == hash(family)
    assert FAMILIES[family.name] is type(family)
    with pytest.raises(dataclasses.FrozenInstanceError):
        family.name = "other"


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, "1", True, None, [1.0]])
def test_fields_that_are_not_finite_numbers_are_refused_by_name(family, value):
    for field in dataclasses.fields(family):
        if field.type in ("float", float):
            with pytest.raises(ValueError, match=f"{field.name} must be a .*number.*got"):
                dataclasses.replace(family, **{field.name: value})


@pytest.mark.parametrize(
    ("cls", "fields"),
    [
        (Bernoulli, {"alpha": 0.0}),
        (Bernoulli, {"beta": -1.0}),
        (Bounded, {"concentration": 0.0}),
        (Bounded, {"alpha": 0.0}),
        (Gaussian, {"sigma": 0.0}),
        (Gaussian, {"prior_sd": -1.0}),
        (GaussianUnknownVariance, {"sigma": 0.0}),
        (GaussianUnknownVariance, {"prior_count": 0.0}),
        (GaussianUnknownVariance, {"shape": 0.5}),  # Student-t with 1 degree: no expectation
        (GaussianUnknownVariance, {"rate": 0.0}),
        (Poisson, {"shape": 0.0}),
        (Poisson, {"rate": 0.0}),
        (Exponential, {"shape": 1.0}),  # the expectation of the mean would be infinite
        (Exponential, {"rate": 0.0}),
    ],
)
def test_priors_that_are_not_proper_are_refused(cls, fields):
    ((name, value),) = fields.items()
    with pytest.raises(
        ValueError, match=f"{name} must be a finite number (above|at least) .*, got {value}"
    ):
        cls(**fields)


@pytest.mark.parametrize(
    ("family", "coordinates"),
    [
        (Bernoulli(2, 3), [2, 3]),
        (Bounded(2, 3, concentration=7), [2, 3]),
        (Gaussian(sigma=3, prior_mean=2, prior_sd=0.5), [8, 4]),
        (GaussianUnknownVariance(9, prior_mean=2, prior_count=3, shape=4, rate=5), [6, 3, 4, 11]),
        (Poisson(2, 3), [2, 3]),
        (Exponential(2, 3), [2, 3]),
        (Revenue(9, 2, 3, 4, 5), [2, 3, 4, 5]),
    ],
)
def test_coordinates_of_the_prior(family, coordinates):
    prior = family.prior()
    assert prior.dtype == float
    np.testing.assert_array_equal(prior, coordinates)


@pytest.mark.parametrize(
    ("family", "reward", "statistic"),
    [
        (Bernoulli(2, 3), 1.0, [1, 0]),
        (Bounded(2, 3), 0.25, [0.25, 0.75]),
        (Gaussian(sigma=2), 3.0, [0.75, 0.25]),
        (GaussianUnknownVariance(sigma=2), 3.0, [3, 1, 0.5, 4.5]),
        (Poisson(), 3.0, [3, 1]),
        (Exponential(), 3.0, [1, 3]),
        (Revenue(shape=2.0), 3.0, [1, 0, 2, 6]),
        (Revenue(shape=2.0), 0.0, [0, 1, 0, 0]),
    ],
)
def test_statistic_by_hand(family, reward, statistic):
    np.testing.assert_array_equal(family.statistic(np.asarray(reward)), statistic)


@pytest.mark.parametrize(
    ("interval", "inside", "outside", "text"),
    [
        (Interval(0.0, 1.0), [1e-300, 0.5], [0.0, 1.0, -1.0, np.nan], "(0, 1)"),
        (Interval(0.0, 1.0, closed=True), [0.0, 1.0], [-1e-9, 1.5, np.nan], "[0, 1]"),
        (Interval(0.0, np.inf), [5e-324, 1e300], [0.0, np.inf, np.nan], "(0, inf)"),
        (Interval(-np.inf, np.inf), [-1e300, 1e300], [-np.inf, np.inf, np.nan], "(-inf, inf)"),
    ],
)
def test_intervals(interval, inside, outside, text):
    assert interval.contains(np.array(inside)).all()
    assert not interval.contains(np.array(outside)).any()
    assert str(interval) == text


def test_a_half_open_interval_admits_its_finite_end_only():
    counts = Interval(0.0, np.inf, closed=True)
    assert counts.contains(np.array([0.0, 1e300])).all()
    assert not counts.contains(np.array([np.inf, -1.0])).any()


def test_which_intervals_cover_which():
    real_line, unit = Interval(-np.inf, np.inf), Interval(0.0, 1.0, closed=True)
    counts = Interval(0.0, np.inf, closed=True)
    assert real_line.covers(unit)
    assert counts.covers(unit)
    assert unit.covers(unit)
    assert not unit.covers(counts)
    assert not counts.covers(real_line)
    assert unit.covers(Interval(0.0, 1.0))
    assert not Interval(0.0, 1.0).covers(unit)  # the ends are missing
