"""Results and comparisons in memory: checks, immutability, tables and plots."""

import copy
import dataclasses
import math
import pickle
import subprocess
import sys
from collections.abc import Mapping

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from scipy import stats

from posse.lab import plots
from posse.lab.results import Comparison, Result, Summary

SETTINGS = {"bandit": {"family": "gaussian", "means": [0.5, 0.1, 0.5]}, "seed": 7}


def make(seed=0, runs=6, length=20, agents=2, arms=3, settings=SETTINGS, engine="reference"):
    rng = np.random.default_rng(seed)
    regret = rng.exponential(size=(runs, length)).cumsum(axis=1)
    pulls = rng.multinomial(length, np.ones(arms) / arms, size=(runs, agents))
    return Result(np.arange(1, length + 1), regret, pulls, engine, settings)


def fields(result):
    return {field.name: getattr(result, field.name) for field in dataclasses.fields(result)}


@pytest.fixture
def comparison():
    return Comparison({"dec-TS": make(1), "dec-Bayes-UCB": make(2), "alone": make(3)})


@pytest.fixture(autouse=True)
def _headless():
    before = dict(mpl.rcParams)
    plt.switch_backend("Agg")
    yield
    plt.close("all")
    changed = {key for key, value in mpl.rcParams.items() if value != before[key]}
    assert changed <= {"backend"}, "plotting changed the global style"


# --- Result ---------------------------------------------------------------------------------


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
    assert Summary(mean, error, mean, mean, runs=9, horizon=5).pair() == text


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
    "regret": np.ones((2, 3)),
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
        ("regret", np.ones((3, 3)), r"regret must have shape .* \(2, 3\), got \(3, 3\)"),
        ("regret", np.ones(3), "regret must be .* with 2 axes"),
        ("regret", np.full((2, 3), np.nan), "regret must be finite"),
        ("regret", np.full((2, 3), "x"), "regret must be .* numbers"),
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


# --- Comparison -----------------------------------------------------------------------------


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
    assert lines[3] == f"  alone: {comparison['alone'].summary().pair()}"


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
        ({"a": make(), "b": make(engine="compiled")}, "the same engine"),
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


# --- plots ----------------------------------------------------------------------------------


def band(collection):
    """The lower and upper edge of a fill_between, {time: (low, high)}."""
    (path,) = collection.get_paths()
    ends = {}
    for time, height in path.vertices:
        ends.setdefault(time, set()).add(height)
    return {time: (min(heights), max(heights)) for time, heights in ends.items()}


def test_plot_is_the_mean_in_its_95_percent_band():
    result = make()
    axes = result.plot(label="dec-TS")
    (line,) = axes.lines
    np.testing.assert_array_equal(line.get_xdata(), result.times)
    np.testing.assert_allclose(line.get_ydata(), result.regret.mean(axis=0))
    assert line.get_label() == "dec-TS"
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("round", "regret per agent")
    (filled,) = axes.collections
    edges = band(filled)
    assert sorted(edges) == list(result.times)
    scale = stats.sem(result.regret)
    low, high = stats.t.interval(0.95, result.runs - 1, loc=result.regret.mean(axis=0), scale=scale)
    np.testing.assert_allclose([edges[t] for t in result.times], np.transpose([low, high]))


def test_plot_of_one_run_has_no_band():
    assert not make(runs=1).plot().collections


def test_plot_of_one_round_can_be_seen():
    (line,) = make(length=1).plot().lines
    assert line.get_marker() == "o"


def test_plot_draws_on_the_axes_given_and_keeps_their_names():
    axes = mpl.figure.Figure().add_subplot()
    axes.set_xlabel("t")
    before = plt.get_fignums()
    assert make(1).plot(ax=axes) is axes
    assert make(2).plot(axes, "other", c="red", ls=":", lw=3) is axes
    first, second = axes.lines
    assert first.get_color() == plots.COLOURS[0]
    assert (second.get_color(), second.get_linestyle(), second.get_linewidth()) == ("red", ":", 3)
    assert axes.get_xlabel() == "t"
    assert plt.get_fignums() == before


def test_plots_in_a_loop_do_not_warn():
    result = make()
    figures = {result.plot().figure.number for _ in range(25)}
    assert len(figures) == 25


def test_pyplot_finds_the_last_plot():
    assert make().plot() is plt.gca()


def test_long_curves_are_thinned_but_keep_their_ends_and_their_beginning():
    length = 100_000
    regret = np.tile(np.sqrt(np.arange(1.0, length + 1)), (2, 1))
    result = Result(np.arange(1, length + 1), regret, np.ones((2, 1, 1), int), "reference", {})
    (line,) = result.plot().lines
    times = line.get_xdata()
    assert len(times) <= 2 * plots.POINTS
    assert list(times[:10]) == list(range(1, 11))
    assert times[-1] == length
    assert np.diff(times).max() <= length / (plots.POINTS - 1) + 1
    np.testing.assert_allclose(line.get_ydata(), np.sqrt(times))


def test_comparison_plot_shows_and_names_every_curve(comparison):
    axes = comparison.plot(title="three")
    assert len(axes.lines) == len(axes.collections) == 3
    assert [text.get_text() for text in axes.get_legend().get_texts()] == list(comparison)
    assert axes.get_title() == "three"
    for line, filled, result in zip(axes.lines, axes.collections, comparison.values(), strict=True):
        np.testing.assert_allclose(line.get_ydata(), result.regret.mean(axis=0))
        colour = mpl.colors.to_rgb(line.get_color())
        assert tuple(filled.get_facecolor()[0][:3]) == pytest.approx(colour)
    given = mpl.figure.Figure().add_subplot()
    assert comparison.plot(given) is given
    assert given.get_title() == ""


def test_curves_differ_in_grey_as_in_colour():
    result = make(length=3)
    axes = Comparison({str(i): result for i in range(35)}).plot()
    looks = [(line.get_color(), str(line._dash_pattern)) for line in axes.lines]
    assert len(set(looks)) == 35
    assert len({dashes for _, dashes in looks[:5]}) == 5
    assert len({colour for colour, _ in looks[:7]}) == 7


@pytest.mark.parametrize(
    ("name", "magic"), [("a.png", b"\x89PNG"), ("a.PDF", b"%PDF"), ("a.svg", b"<?xml")]
)
def test_figures_are_saved_by_their_suffix(comparison, tmp_path, name, magic):
    plots.save_figure(comparison.plot().figure, tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(magic)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_the_same_figure_is_the_same_file(comparison, tmp_path):
    for name in ("a.pdf", "b.pdf"):
        plots.save_figure(comparison.plot().figure, tmp_path / name)
    assert b"CreationDate" not in (tmp_path / "a.pdf").read_bytes()
    assert (tmp_path / "a.pdf").read_bytes() == (tmp_path / "b.pdf").read_bytes()


@pytest.mark.parametrize("name", ["figure", "figure.docx"])
def test_unknown_figure_formats_are_refused(tmp_path, name):
    with pytest.raises(ValueError, match=r"figure format .* allowed are png, pdf, svg"):
        plots.save_figure(make().plot().figure, tmp_path / name)
    assert not list(tmp_path.iterdir())


# --- imports --------------------------------------------------------------------------------


def test_importing_results_loads_nothing_heavy():
    code = """
import sys
from posse.lab.results import Comparison, Result
Result([1, 2], [[1.0, 2.0]], [[[1, 1]]], "reference", {}).settings
heavy = {"scipy", "pandas", "xarray", "matplotlib", "rich", "networkx", "numba"}
print(sorted(heavy & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
