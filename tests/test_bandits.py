"""Bandits: what means they take and refuse, and what they know of their arms."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from posse.bandits import Bandit, NormalMeans, UniformMeans
from posse.families import Bernoulli, Bounded, Exponential, Gaussian, Interval, Poisson
from posse.validation import FrozenArray

RUNS = [[0.1, 0.5, 0.3], [0.2, 0.1, 0.9]]


def two_arms(generator):
    return np.array([0.25, generator.uniform(0.5, 0.75)])


def test_constructors_name_their_family():
    means = [0.5, 0.25]
    assert Bandit.bernoulli(means) == Bandit(Bernoulli(), means)
    assert Bandit.bounded(means, concentration=3) == Bandit(Bounded(concentration=3), means)
    assert Bandit.gaussian(means, sigma=2) == Bandit(Gaussian(sigma=2), means)
    assert Bandit.gaussian(means) == Bandit(Gaussian(sigma=1), means)
    assert Bandit.poisson(means) == Bandit(Poisson(), means)
    assert Bandit.exponential(means) == Bandit(Exponential(), means)


@pytest.mark.parametrize("means", [[0.5, 0.25], (0.5, 0.25), np.array([0.5, 0.25])])
def test_fixed_means(means):
    bandit = Bandit.bernoulli(means)
    assert bandit.means == (0.5, 0.25)
    assert bandit.n_arms == 2
    np.testing.assert_array_equal(bandit.gaps, [0.0, 0.25])
    for run in (0, 1000):
        np.testing.assert_array_equal(bandit.means_of_run(run, np.random.default_rng(0)), means)
    bandit.check_runs(10**6)


def test_means_per_run():
    bandit = Bandit.gaussian(np.array(RUNS))
    assert bandit.n_arms == 3
    np.testing.assert_allclose(bandit.gaps, [[0.4, 0.0, 0.2], [0.7, 0.8, 0.0]])
    np.testing.assert_array_equal(bandit.means_of_run(1, np.random.default_rng(0)), RUNS[1])
    bandit.check_runs(2)
    with pytest.raises(ValueError, match="runs is 3, but means are given for 2 runs only"):
        bandit.check_runs(3)


def test_means_drawn_uniformly():
    bandit = Bandit.bounded(UniformMeans(5, 0.0, 1.0))  # the ends have probability 0
    assert bandit.n_arms == 5
    drawn = bandit.means_of_run(3, np.random.default_rng(1))
    np.testing.assert_array_equal(drawn, np.random.default_rng(1).uniform(0, 1, 5))
    many = UniformMeans(20_000, -1.0, 3.0)(np.random.default_rng(2))
    assert -1.0 <= many.min() < -0.99
    assert 2.99 < many.max() <= 3.0
    assert abs(many.mean() - 1.0) < 5.5 * (4 / 12**0.5) / 20_000**0.5
    with pytest.raises(ValueError, match="gaps differ from run to run"):
        _ = bandit.gaps
    bandit.check_runs(10**6)


def test_means_drawn_by_a_function():
    bandit = Bandit.bernoulli(two_arms)
    assert bandit.n_arms == 2
    first, second = (bandit.means_of_run(0, np.random.default_rng(seed)) for seed in (1, 2))
    assert first[0] == second[0] == 0.25
    assert first[1] != second[1]
    with pytest.raises(ValueError, match="gaps differ"):
        _ = bandit.gaps


@pytest.mark.parametrize(
    ("means", "message"),
    [
        ([0.5, np.nan], "arm 1 has mean nan, but bernoulli means must be numbers in "),
        ([0.5, np.inf], "arm 1 has mean inf"),
        ([1.5, 0.5], r"arm 0 has mean 1.5, but bernoulli means must be numbers in \[0, 1\]"),
        ([[0.5, 0.5], [0.5, -0.1]], "arm 1 of run 1 has mean -0.1"),
        ([[[0.5, 0.5], [0.5, -0.1]]], "arm 1 of agent 1 of run 0 has mean -0.1"),
        (lambda generator: [[0.5, 0.5], [2, 0.5]], "arm 0 of agent 1 has mean 2"),
        ([0.5], "at least 2 arms"),
        ([], "at least 2 arms"),
        (0.5, "at least 2 arms"),
        ([[0.5], [0.5]], "at least 2 arms"),
        (np.full((2, 2, 2, 2), 0.5), r"\(K,\), \(runs, K\) or \(runs, agents, K\)"),
        (np.empty((0, 3)), "means"),
        ("abc", "means must be numbers, got 'abc'"),
        (["a", "b"], "means must be numbers"),
        (["0.5", "0.25"], "means must be numbers"),
        (None, "means"),
        ([None, 0.5], "means"),
        ([[0.5, 0.5], [0.5]], "means must be numbers"),
        ({"a": 0.5}, "means must be numbers"),
        (lambda generator: np.array([0.5, 2.0]), "arm 1 has mean 2.0"),
        (lambda generator: np.full((2, 2, 2), 0.5), r"as \(K,\) or \(agents, K\), got shape"),
        (UniformMeans(3, 0.0, 2.0), "has mean 1.9999"),
    ],
)
def test_means_that_are_refused(means, message):
    with pytest.raises(ValueError, match=message):
        Bandit.bernoulli(means)


@pytest.mark.parametrize(
    ("make", "good", "bad"),
    [
        (Bandit.bernoulli, [0.0, 1.0], [-1e-9, 0.5]),
        (Bandit.bounded, [1e-9, 0.999], [0.0, 0.5]),
        (Bandit.bounded, [1e-9, 0.999], [1.0, 0.5]),
        (Bandit.gaussian, [-1e9, 1e9], [-np.inf, 0.0]),
        (Bandit.poisson, [1e-9, 1e9], [0.0, 1.0]),
        (Bandit.exponential, [1e-9, 1e9], [0.0, 1.0]),
    ],
)
def test_each_family_has_its_range(make, good, bad):
    assert make(good).n_arms == 2
    with pytest.raises(ValueError, match="means: arm 0 has mean"):
        make(bad)


@pytest.mark.parametrize("family", [None, "gaussian", 3])
def test_a_family_is_needed(family):
    with pytest.raises(ValueError, match=r"family must be .*, got"):
        Bandit(family, [0.1, 0.2])


@pytest.mark.parametrize(
    "fields",
    [{"n_arms": 1}, {"n_arms": 2.5}, {"low": np.nan}, {"high": 0.0}, {"low": 1.0}, {"high": "1"}],
)
def test_uniform_means_that_are_refused(fields):
    (name,) = fields
    culprit = "high" if name == "low" and fields[name] == 1.0 else name
    with pytest.raises(ValueError, match=f"{culprit} must be"):
        UniformMeans(**{"n_arms": 3, **fields})


def test_uniform_means_take_a_whole_number_written_as_a_float():
    assert UniformMeans(3.0) == UniformMeans(3)
    assert Bandit.gaussian(UniformMeans(3.0)).n_arms == 3


def test_means_drawn_from_a_normal_law():
    means = NormalMeans(20_000, 1.0, 0.5)
    drawn = Bandit.gaussian(means).means_of_run(3, np.random.default_rng(1))
    np.testing.assert_array_equal(drawn, means(np.random.default_rng(1)))
    # five and a half deviations: once in 26 million seeds
    assert abs(drawn.mean() - 1.0) < 5.5 * 0.5 / 20_000**0.5
    assert abs(drawn.std() - 0.5) < 5.5 * 0.5 / 40_000**0.5
    for fields in ({"n_arms": 1}, {"sd": 0.0}, {"mean": np.inf}):
        with pytest.raises(ValueError, match=f"{next(iter(fields))} must be"):
            NormalMeans(**{"n_arms": 3, **fields})


@pytest.mark.parametrize("means", [[0.5, 0.25], RUNS, UniformMeans(3), NormalMeans(3), two_arms])
def test_bandits_are_values(means):
    bandit, same = Bandit.gaussian(means), Bandit.gaussian(means)
    assert bandit == same
    assert hash(bandit) == hash(same)
    assert bandit != Bandit.gaussian(means, sigma=2)
    assert bandit != Bandit.gaussian([0.5, 0.3])
    assert repr(bandit).startswith("Bandit(family=Gaussian(sigma=1.0")
    assert dataclasses.replace(bandit) == bandit
    with pytest.raises(dataclasses.FrozenInstanceError):
        bandit.means = None


def test_what_the_caller_does_to_the_array_later_does_not_matter():
    means = np.array(RUNS)
    bandit = Bandit.gaussian(means)
    means[0, 0] = 99.0
    assert bandit == Bandit.gaussian(RUNS)
    assert isinstance(bandit.means, FrozenArray)
    fixed = bandit.means_of_run(0, np.random.default_rng(0))
    assert fixed[0] == 0.1


class Drawing:
    """Somebody's own rewards, and nothing else."""

    def draw_rewards(self, means, generator):
        return means + generator.standard_normal(means.shape)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, r"family <.*Drawing object.*> lacks means: see posse\.families\.Family for what"),
        (
            {"means": (0, 1)},
            r"must have means such as posse\.families\.Interval\(0, 1\), got \(0, 1",
        ),
        (
            {"means": Interval(0.0, 0.3)},
            r"arm 1 has mean 0\.5, but Drawing means must be numbers in",
        ),
    ],
)
def test_an_own_family_that_lacks_something_is_refused_in_a_sentence(fields, words):
    own = type("Drawing", (Drawing,), fields)()
    with pytest.raises(ValueError, match=words):
        Bandit(own, [0.1, 0.5])


def test_an_own_family_that_only_draws_is_a_bandit():
    own = type("Drawing", (Drawing,), {"means": Interval(0.0, 1.0)})()
    assert Bandit(own, [0.1, 0.5]).gaps.tolist() == [0.4, 0.0]
