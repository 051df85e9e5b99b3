"""Plots of results and comparisons, and the files they are saved in."""

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from scipy import stats

from posse.lab import plots
from posse.lab.results import Comparison, Result

from .making import make


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
