"""Results in memory: checks, immutability, summaries and tables."""

import copy
import dataclasses
import math
import pickle
import subprocess
import sys

import numpy as np
import pytest
from scipy import stats

from posse.lab.results import Result, Summary
from tests.lab.making import SETTINGS, make


def fields(result):
    return {field.name: getattr(result, field.name) for field in dataclasses.fields(result)}


def test_types_and_sizes():
    result = make()
    types = (result.times.dtype, result.regret.dtype, result.pulls.dtype)
    assert types == (np.int64, np.float64, np.int32)
    assert (result.runs, result.n_agents, result.n_arms, result.horizon) == (6, 2, 3, 20)
    assert result.settings == SETTINGS


def test_repr_and_summary_are_readable():
    result = Result([1, 8], [[1.0, 10.0], [1.0, 14.0]], np.full((2, 3, 4), 2), "compiled", {})
    assert repr(result) == (
        "Result(engine='compiled', runs=2, agents=3, arms=4, horizon=8, regret=12.0 ± 2.0)"
    )
    assert str(result.summary()) == (
        "regret per agent at round 8: 12.0 ± 2.0 (95% interval -13.4 to 37.4, 2 runs)"
    )


@pytest.mark.parametrize(
    ("mean", "error", "text"),
    [
        (12345.678, 123.4, "12346 ± 123"),
        (12.3456, 0.0123, "12.346 ± 0.012"),
        (0.00123456, 0.0000789, "0.001235 ± 0.000079"),
        (3.0, 0.0, "3 ± 0"),
    ],
)
def test_numbers_are_as_long_as_their_error_allows(mean, error, text):
    assert Summary(mean, error, mean, mean, runs=9, horizon=5).format_mean() == text


def test_summary_is_the_t_interval_at_the_horizon():
    result = make(runs=11)
    final = result.regret[:, -1]
    summary = result.summary()
    expected = stats.t.interval(0.95, 10, loc=final.mean(), scale=stats.sem(final))
    assert (summary.low, summary.high) == pytest.approx(expected)
    assert (summary.mean, summary.standard_error) == pytest.approx((final.mean(), stats.sem(final)))
    assert (summary.runs, summary.horizon) == (11, 20)
    with pytest.raises(dataclasses.FrozenInstanceError):
        summary.mean = 0.0


def test_one_run_has_no_interval():
    summary = make(runs=1).summary()
    assert math.isfinite(summary.mean)
    assert all(math.isnan(x) for x in (summary.standard_error, summary.low, summary.high))
    assert str(summary).endswith("(1 run, no interval)")
    assert "nan" not in repr(make(runs=1))


def test_results_cannot_be_changed():
    regret = np.ones((2, 3))
    settings = {"list": [1, {"deep": 2}]}
    result = Result([1, 2, 3], regret, np.ones((2, 1, 1), int), "reference", settings)
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.regret = regret
    for array in (result.times, result.regret, result.pulls):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 7
    # nor through what they were made of
    regret[:] = 7.0
    settings["list"][1]["deep"] = 7
    assert result.regret.max() == 1.0
    assert result.settings == {"list": [1, {"deep": 2}]}


def test_read_only_arrays_are_not_copied():
    regret = np.ones((2, 3))
    regret.setflags(write=False)
    result = Result([1, 2, 3], regret, np.ones((2, 1, 1), int), "reference", {})
    assert result.regret is regret


@pytest.mark.parametrize(
    "duplicate", [copy.copy, copy.deepcopy, lambda r: pickle.loads(pickle.dumps(r))]
)
def test_copies_are_equal_and_immutable_too(duplicate, comparison):
    twin = duplicate(comparison)
    assert list(twin) == list(comparison)
    for name, result in comparison.items():
        for array in (twin[name].times, twin[name].regret, twin[name].pulls):
            assert not array.flags.writeable
        np.testing.assert_equal(fields(twin[name]), fields(result))


def test_settings_become_plain_values():
    settings = {"a": (1, np.int64(2)), 3: np.array([0.5]), "b": np.float64(0.1), "c": None}
    plain = make(settings=settings).settings
    assert plain == {"a": [1, 2], "3": [0.5], "b": 0.1, "c": None}
    assert type(plain["a"][1]) is int
    assert type(plain["b"]) is float


GOOD = {
    "times": [1, 2, 5],
    "curves": np.ones((2, 3)),
    "pulls": np.ones((2, 1, 2), int),
    "engine": "reference",
    "settings": {},
}


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("times", [], "times must be a non-empty array"),
        ("times", [[1, 2, 5]], "times must be .* with 1 axes"),
        ("times", [1.0, 2.0, 5.0], "times must be .* whole numbers"),
        ("times", [0, 2, 5], "times must be rounds from 1 on"),
        ("times", [1, 2, 2], "each later than the one before"),
        ("times", [2, 1, 5], "each later than the one before"),
        ("times", [1, 2, 2**31], "times must lie between"),
        ("times", [1, 2], r"regret must have shape .* \(2, 2\), got \(2, 3\)"),
        ("curves", np.ones((3, 3)), r"regret must have shape .* \(2, 3\), got \(3, 3\)"),
        ("curves", np.ones(3), "regret must be .* with 2 axes"),
        ("curves", np.full((2, 3), np.nan), "regret must be finite"),
        ("curves", np.full((2, 3), "x"), "regret must be .* numbers"),
        ("pulls", np.ones((2, 2), int), "pulls must be .* with 3 axes"),
        ("pulls", np.ones((2, 0, 2), int), "pulls must be a non-empty array"),
        ("pulls", np.ones((2, 1, 2)), "pulls must be .* whole numbers"),
        ("pulls", np.full((2, 1, 2), -1), "pulls must lie between"),
        ("pulls", np.full((2, 1, 2), 2**32), "pulls must lie between"),
        ("engine", "", "engine must be a name"),
        ("engine", None, "engine must be a name"),
        ("settings", None, "settings must be a dict"),
    ],
)
def test_what_is_no_result_is_refused(field, value, message):
    with pytest.raises(ValueError, match=message):
        Result(**(GOOD | {field: value}))


def test_to_xarray_labels_every_axis():
    result = make()
    dataset = result.to_xarray()
    assert dataset["regret"].dims == ("run", "time")
    assert dataset["pulls"].dims == ("run", "agent", "arm")
    assert set(dataset.coords) == {"run", "time", "agent", "arm"}
    np.testing.assert_array_equal(dataset["regret"].sel(run=3, time=20), result.regret[3, 19])
    np.testing.assert_array_equal(dataset["pulls"].sel(agent=1, arm=2), result.pulls[:, 1, 2])


def test_to_dataframe_is_long():
    result = make(runs=3, length=4)
    frame = result.to_dataframe()
    assert list(frame.columns) == ["run", "time", "regret"]
    rows = [(r, t + 1, result.regret[r, t]) for r in range(3) for t in range(4)]
    assert list(frame.itertuples(index=False, name=None)) == rows


def test_frames_do_not_reach_back_into_the_result(comparison):
    for value in (comparison, comparison["alone"]):
        frame = value.to_dataframe()
        frame["regret"] *= 0.0
    assert comparison["alone"].regret.min() > 0


def test_importing_results_loads_nothing_heavy():
    code = """
import sys
from posse.lab.comparisons import Comparison
from posse.lab.results import Result
Result([1, 2], [[1.0, 2.0]], [[[1, 1]]], "reference", {}).settings
heavy = {"scipy", "pandas", "xarray", "matplotlib", "rich", "networkx", "numba"}
print(sorted(heavy & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
