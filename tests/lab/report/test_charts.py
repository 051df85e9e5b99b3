"""The charts of the pages: where numbers stand, which are named, what is off an axis."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posse.lab.report import charts
from posse.lab.report.charts import (
    Dot,
    Field,
    Line,
    Point,
    Scale,
    _box,
    _meet,
    centred,
    heat_map,
    placed,
    scale_of,
    shortened,
)
from posse.lab.report.html import Html, isolated

POSITIVE = st.floats(1e-3, 1e6)


@given(
    st.lists(POSITIVE | st.just(0.0) | st.none(), max_size=8), st.sampled_from([None, True, False])
)
def test_an_axis_holds_its_numbers_in_their_order(values, log):
    """All but what a logarithmic axis leaves below its four decades."""
    scale = scale_of(values, log=log)
    known = sorted(value for value in values if value is not None)
    places = [scale.place(value) for value in known]
    assert places == sorted(places)
    assert all(0 <= place <= 100 for place in places)
    for value in known:
        assert scale.holds(value) or (scale.log and value < scale.low < max(known) / 9_000)
    ticks = scale.ticks()
    assert ticks == sorted(set(ticks))
    assert 1 <= len(ticks) <= 8
    assert all(map(scale.holds, ticks))


def test_numbers_far_apart_take_a_logarithm_and_zero_a_place_of_its_own():
    assert not scale_of([1.0, 9.0]).log
    far = scale_of([0.0, 0.01, 34.0])
    assert far.log
    assert far.zero
    assert far.ticks() == [0, 0.01, 0.1, 1, 10]
    assert far.place(0.0) < far.place(0.01) - 5
    assert far.place(0.1) - far.place(0.01) == pytest.approx(far.place(10) - far.place(1))


def test_a_centred_axis_leaves_out_what_is_beyond_the_most():
    assert centred([-1.0, 3.0], 10.0).high == pytest.approx(3.15)
    cut = centred([-1.0, 300.0, None], 10.0)
    assert (cut.low, cut.high) == pytest.approx((-10.5, 10.5))
    assert centred([], 0.0).high > 0


def test_what_is_off_an_axis_is_an_arrow_at_its_end():
    rows = [
        Dot(Html("a"), 1.0, 0.5, 1.5, "inside"),
        Dot(Html("b"), 30.0, 29.0, 31.0, "above"),
        Dot(Html("c"), -30.0, None, None, "below"),
        Dot(Html("d"), None, None, None, "unknown"),
    ]
    drawn = charts.dots("meaning", rows, Scale(-2.0, 2.0), [Line(0.0, "zero"), Line(9.0, "off")])
    assert drawn.count("<use") == 1
    assert [text in drawn for text in ("▸", "◂", "zero", "off", "unknown")] == [
        *(True, True, True, False, False)
    ]
    assert drawn.count("<li ") == len(rows)


def test_the_front_is_a_staircase_of_its_points():
    points = [
        Point(name, x, y, "") for name, x, y in [("a", 0.0, 9.0), ("b", 1.0, 5.0), ("c", 9.0, 1.0)]
    ]
    drawn = charts.plane("meaning", points, Scale(0, 10), Scale(0, 10), ("x", "y"), front=points)
    assert drawn.count('class="front"') == 2 * (len(points) - 1)
    assert all(f">{point.name}</text>" in drawn for point in points)


@given(st.lists(st.tuples(st.floats(0, 300), st.floats(20, 300)), min_size=1, max_size=12))
def test_labels_never_run_into_each_other(places):
    names = [f"algorithm {i}" for i in range(len(places))]
    found = placed(names, places, 330, (16, 310))
    boxes = [_box(spot, places[i]) for i, spot in found.items()]
    assert not any(_meet(one, two) for one, two in itertools.combinations(boxes, 2))
    assert all(left >= 0 and right <= 330 for left, _, right, _ in boxes)


def test_the_first_point_has_its_label_where_only_one_has_room():
    found = placed(["first", "second"], [(50.0, 50.0), (51.0, 51.0)], 120, (30, 60))
    assert 0 in found


def test_long_names_end_and_names_to_the_left_are_set_apart():
    assert shortened("x" * 200) == "x" * 23 + "…"
    assert isolated("plain, (KL)") == "plain, (KL)"
    turned = "\N{RIGHT-TO-LEFT OVERRIDE}abc"
    assert isolated(turned) == f"\N{FIRST STRONG ISOLATE}{turned}\N{POP DIRECTIONAL ISOLATE}"


def test_a_heat_map_says_its_numbers():
    rows = [("one", [Field("0.50", -0.5, "half", strong=True), Field("", None, "could not")])]
    drawn = heat_map("Ratios", "Instance", ["<a>", "b"], rows, [False, True])
    assert '<td class="cold" style="--s: 30%" title="half"><b>0.50</b></td>' in drawn
    assert "&lt;a&gt;" in drawn
    assert 'class="none"' in drawn
