"""Comparisons in memory: what can be compared, and their tables."""

import dataclasses
import math
from collections.abc import Mapping

import numpy as np
import pytest

from posse.lab.comparisons import Comparison
from tests.lab.making import make


def test_comparison_is_a_mapping_in_the_given_order(comparison):
    assert isinstance(comparison, Mapping)
    assert list(comparison) == ["dec-TS", "dec-Bayes-UCB", "alone"]
    assert len(comparison) == 3
    assert "alone" in comparison
    assert "dec-ts" not in comparison
    assert comparison.get("dec-ts") is None
    assert [result.regret[0, 0] for result in comparison.values()] == [
        make(seed).regret[0, 0] for seed in (1, 2, 3)
    ]
    assert comparison.engine == "reference"
    with pytest.raises(KeyError):
        comparison["dec-ts"]


def test_comparison_cannot_be_changed():
    results = {"a": make(1)}
    comparison = Comparison(results)
    results["b"] = make(2)
    assert list(comparison) == ["a"]
    with pytest.raises(TypeError):
        comparison["b"] = make(2)
    with pytest.raises(TypeError):
        comparison.results["b"] = make(2)
    with pytest.raises(dataclasses.FrozenInstanceError):
        comparison.results = results


def test_comparison_repr_shows_every_algorithm(comparison):
    lines = repr(comparison).splitlines()
    assert lines[0] == (
        "Comparison(engine='reference', runs=6, agents=2, arms=3, horizon=20), regret:"
    )
    assert lines[3] == f"  alone: {comparison['alone'].summary().format_mean()}"


@pytest.mark.parametrize(
    ("results", "message"),
    [
        ({}, "at least one result"),
        ({"a": make(), "b": 3}, "'b' must be a Result, got int"),
        ({"a": make(), "\ud800": make()}, "names must be printable text"),
        ({1: make()}, "names must be printable text"),
        ({"a\0b": make()}, "names must be printable text"),
        ({"a": make(), "b": make(length=19)}, "'a' and 'b' must have the same times"),
        ({"a": make(), "b": make(agents=3)}, "the same shape of pulls"),
        ({"a": make(), "b": make(runs=3)}, "the same shape of pulls"),
        (
            {"a": make(), "b": make(settings={"runs": {"start": 6, "stop": 12}})},
            "'a' and 'b' must have the same runs",
        ),
    ],
)
def test_what_cannot_be_compared_is_refused(results, message):
    with pytest.raises(ValueError, match=message):
        Comparison(results)


def test_table_has_a_row_for_each_algorithm(comparison):
    table = comparison.table()
    assert list(table.index) == list(comparison)
    assert table.index.name == "algorithm"
    assert list(table.columns) == ["regret", "standard_error", "low", "high", "best_arm_share"]
    for name, result in comparison.items():
        summary = result.summary()
        pulls = result.pulls.sum(axis=(0, 1))
        expected = [summary.mean, summary.standard_error, summary.low, summary.high]
        expected.append((pulls[0] + pulls[2]) / pulls.sum())  # arms 0 and 2 are both the best
        assert list(table.loc[name]) == expected


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"bandit": "gaussian"},
        {"bandit": {"means": None}},
        {"bandit": {"means": [0.1, 0.2]}},
        {"bandit": {"means": [[0.1, 0.2, 0.3]] * 3}},
        {"bandit": {"means": ["a", "b", "c"]}},
        {"bandit": {"means": [0.1, math.nan, 0.3]}},
        {"bandit": {"means": {"uniform": [0, 1]}}},
    ],
)
def test_table_leaves_out_a_share_that_it_cannot_know(settings):
    table = Comparison({"a": make(settings=settings)}).table()
    assert list(table.columns) == ["regret", "standard_error", "low", "high"]


def test_engines_may_differ_and_then_the_table_says_which_ran_what():
    mixed = Comparison({"a": make(1), "b": make(2, engine="compiled"), "c": make(3)})
    assert mixed.engine == "compiled and reference"
    assert mixed.is_mixed
    assert list(mixed.table()["engine"]) == ["reference", "compiled", "reference"]
    assert mixed.table()["regret"].dtype == float
    lines = repr(mixed).splitlines()
    assert "engine='compiled and reference'" in lines[0]
    assert lines[2].endswith("(compiled)")


def test_table_of_one_run_has_no_errors():
    table = Comparison({"a": make(runs=1)}).table()
    assert table.drop(columns=["regret", "best_arm_share"]).isna().all(axis=None)


def test_comparison_to_xarray_has_an_algorithm_dimension(comparison):
    dataset = comparison.to_xarray()
    assert dataset["regret"].dims == ("algorithm", "run", "time")
    assert dataset["pulls"].dims == ("algorithm", "run", "agent", "arm")
    for name, result in comparison.items():
        np.testing.assert_array_equal(dataset["regret"].sel(algorithm=name), result.regret)
        np.testing.assert_array_equal(dataset["pulls"].sel(algorithm=name), result.pulls)


def test_comparison_to_dataframe_is_long(comparison):
    frame = comparison.to_dataframe()
    assert list(frame.columns) == ["algorithm", "run", "time", "regret"]
    assert list(frame["algorithm"].unique()) == list(comparison)
    assert list(frame.index) == list(range(3 * 6 * 20))
    final = frame[frame["time"] == 20].groupby("algorithm")["regret"].mean()
    assert final["alone"] == pytest.approx(comparison["alone"].summary().mean)
