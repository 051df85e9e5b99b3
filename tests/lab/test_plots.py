"""Plots of results and comparisons, and the files they are saved in."""

from itertools import pairwise

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.text import Text
from scipy import optimize, stats

from posse.lab import plots
from posse.lab.comparisons import Comparison
from posse.lab.results import Result
from tests.lab.making import make


@pytest.fixture(autouse=True)
def _headless():
    before = dict(mpl.rcParams)
    plt.switch_backend("Agg")
    yield
    plt.close("all")
    changed = {key for key, value in mpl.rcParams.items() if value != before[key]}
    assert changed <= {"backend"}, "plotting changed the global style"


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
    assert axes.get_legend() is None
    assert [text.get_text().split("  ")[0] for text in axes.texts] == list(comparison)
    assert axes.get_title() == "three"
    for line, filled, result in zip(axes.lines, axes.collections, comparison.values(), strict=True):
        np.testing.assert_allclose(line.get_ydata(), result.regret.mean(axis=0))
        colour = mpl.colors.to_rgb(line.get_color())
        assert tuple(filled.get_facecolor()[0][:3]) == pytest.approx(colour)
    given = mpl.figure.Figure().add_subplot()
    assert comparison.plot(given) is given
    assert given.get_title() == ""
    # nobody makes room beside these axes for labels
    assert [text.get_text() for text in given.get_legend().get_texts()] == list(comparison)
    assert not given.texts


def ending(*ends, names=None):
    """A comparison of curves that end at given regrets."""
    times, pulls = np.arange(1, 101), np.ones((3, 1, 2), int)
    names = names or [f"curve {i}" for i in range(len(ends))]
    curves = [np.outer([0.99, 1.0, 1.01], end * np.sqrt(times / 100)) for end in ends]
    results = [Result(times, regret, pulls, "reference", {}) for regret in curves]
    return Comparison(dict(zip(names, results, strict=True)))


@pytest.mark.parametrize("log", [False, "x", "y", True])
def test_labels_stand_at_the_ends_in_their_order_without_overlap(log):
    ends = (500, 9.0, 9.1, 500.5, 8.9, 9.05, 120)
    axes = ending(*ends, names=[*"abcdef", "a $name$ with dollars"]).plot(log=log)
    assert axes.get_legend() is None
    figure = axes.figure
    figure.canvas.draw()
    boxes = [Text.get_window_extent(text) for text in axes.texts]  # without the lines to them
    heights = [(box.y0 + box.y1) / 2 for box in boxes]
    assert list(np.argsort(heights)) == list(np.argsort(ends))
    boxes.sort(key=lambda box: box.y0)
    for lower, upper in pairwise(boxes):
        assert upper.y0 >= lower.y1 - 1  # pixels
    frame = axes.get_window_extent()
    for box in boxes:
        assert frame.x1 < box.x0 < box.x1 <= figure.bbox.x1 + 1
        assert figure.bbox.y0 <= box.y0 < box.y1 <= figure.bbox.y1
    assert axes.texts[-1].get_text() == "a $name$ with dollars  120"
    assert not axes.texts[-1].get_parse_math()
    assert axes.texts[1].get_text() == "b  9.00"


@pytest.mark.parametrize(
    "crowded",
    [ending(*range(1, 41)), ending(1.0, 2.0, names=["short", "a very long name" * 5])],
    ids=["many", "long"],
)
def test_a_legend_where_labels_do_not_fit(crowded):
    axes = crowded.plot()
    assert not axes.texts
    assert [text.get_text() for text in axes.get_legend().get_texts()] == list(crowded)


def test_a_figure_has_room_for_its_curves_whatever_their_names(tmp_path):
    """Matplotlib would warn that its axes collapsed, or that it lacks a letter."""
    long = ending(1.0, 2.0, names=["x" * 200, "\N{CJK UNIFIED IDEOGRAPH-7B97}"])
    many = ending(*range(1, 41), names=[f"{i} " * 40 for i in range(40)])
    for crowded in (long, many):
        plots.write_comparison(crowded, "y" * 300, [tmp_path / "crowded.pdf"])
        assert (tmp_path / "crowded.pdf").stat().st_size > 0
    axes = long.plot(title="y" * 300)
    told = [axes.get_title(), axes.get_legend().get_texts()[0].get_text()]
    assert told == ["y" * 79 + "…", "x" * 79 + "…"]


def test_spread_moves_as_little_as_need_be():
    """Against a general solver of the same least squares."""
    rng = np.random.default_rng(5)
    for size in (1, 2, 5, 9):
        wanted = np.sort(rng.uniform(0, 60, size))
        gaps = optimize.LinearConstraint(np.diff(np.eye(size), axis=0), 10, np.inf)
        solved = optimize.minimize(
            lambda x, y=wanted: ((x - y) ** 2).sum(),
            10.0 * np.arange(size),
            constraints=[gaps] if size > 1 else [],
            bounds=[(0, 100)] * size,
            method="SLSQP",
        )
        np.testing.assert_allclose(plots.spread_labels(wanted, 10, 0, 100), solved.x, atol=1e-3)
        order = rng.permutation(size)
        np.testing.assert_allclose(
            plots.spread_labels(wanted[order], 10, 0, 100),
            plots.spread_labels(wanted, 10, 0, 100)[order],
        )


@pytest.mark.parametrize(
    ("log", "scales"),
    [
        (False, ("linear", "linear")),
        ("x", ("log", "linear")),
        ("y", ("linear", "log")),
        ("xy", ("log", "log")),
        (True, ("log", "log")),
    ],
)
def test_logarithmic_axes(log, scales, comparison):
    for axes in (make().plot(log=log), comparison.plot(log=log)):
        assert (axes.get_xscale(), axes.get_yscale()) == scales


def test_a_logarithmic_axis_shows_the_lowest_curve_and_no_more_than_four_decades():
    axes = ending(1e6, 1e3, 0.0).plot(log="y")
    bottom, top = axes.get_ylim()
    assert 50 < bottom < 100
    assert top > 1e6
    assert ending(0.0, 0.0).plot(log="y").get_yscale() == "linear"


@pytest.mark.parametrize("log", ["z", 1.5, None, ["x"]])
def test_other_axes_are_refused(log):
    with pytest.raises(ValueError, match=r"log must be False, True, 'x', 'y' or 'xy', got"):
        make().plot(log=log)


def test_quantile_bands_hold_the_middle_of_the_runs():
    result = make(runs=40)
    axes = result.plot(bands="quantiles")
    edges = band(axes.collections[0])
    expected = np.quantile(result.regret, [0.05, 0.95], axis=0)
    np.testing.assert_allclose([edges[t] for t in result.times], expected.T)
    with pytest.raises(ValueError, match=r"bands .* allowed are interval, quantiles"):
        result.plot(bands="sd")


def test_a_script_that_saves_its_plot_gets_a_crisp_one(comparison, tmp_path):
    comparison.plot()
    plt.savefig(tmp_path / "plot.png")
    height, width = plt.imread(tmp_path / "plot.png").shape[:2]
    assert width >= 1000
    assert height >= 600


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
