"""The charts of the pages: where numbers stand, which are named, what is off an axis."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posse.lab.report import charts
from posse.lab.report.charts import (
    AxisScale,
    DotRow,
    HeatMapField,
    PlanePoint,
    ReferenceLine,
    _boxes_overlap,
    _label_box,
    centre_scale,
    draw_heat_map,
    fit_scale,
    place_labels,
    shorten_name,
)
from posse.lab.report.html import Html, isolate_name

POSITIVE = st.floats(1e-3, 1e6)


@given(
    st.lists(POSITIVE | st.just(0.0) | st.none(), max_size=8), st.sampled_from([None, True, False])
)
def test_an_axis_holds_its_numbers_in_their_order(values, log):
    """All but what a logarithmic axis leaves below its four decades."""
    scale = fit_scale(values, log=log)
    known = sorted(value for value in values if value is not None)
    places = [scale.position_of(value) for value in known]
    assert places == sorted(places)
    assert all(0 <= place <= 100 for place in places)
    for value in known:
        assert scale.contains(value) or (scale.log and value < scale.low < max(known) / 9_000)
    ticks = scale.choose_ticks()
    assert ticks == sorted(set(ticks))
    assert 1 <= len(ticks) <= 8
    assert all(map(scale.contains, ticks))


def test_numbers_far_apart_take_a_logarithm_and_zero_a_place_of_its_own():
    assert not fit_scale([1.0, 9.0]).log
    far = fit_scale([0.0, 0.01, 34.0])
    assert far.log
    assert far.zero
    assert far.choose_ticks() == [0, 0.01, 0.1, 1, 10]
    assert far.position_of(0.0) < far.position_of(0.01) - 5
    assert far.position_of(0.1) - far.position_of(0.01) == pytest.approx(
        far.position_of(10) - far.position_of(1)
    )


def test_a_centred_axis_leaves_out_what_is_beyond_the_most():
    assert centre_scale([-1.0, 3.0], 10.0).high == pytest.approx(3.15)
    cut = centre_scale([-1.0, 300.0, None], 10.0)
    assert (cut.low, cut.high) == pytest.approx((-10.5, 10.5))
    assert centre_scale([], 0.0).high > 0


def test_what_is_off_an_axis_is_an_arrow_at_its_end():
    rows = [
        DotRow(Html("a"), 1.0, 0.5, 1.5, "inside"),
        DotRow(Html("b"), 30.0, 29.0, 31.0, "above"),
        DotRow(Html("c"), -30.0, None, None, "below"),
        DotRow(Html("d"), None, None, None, "unknown"),
    ]
    drawn = charts.draw_dots(
        "meaning",
        rows,
        AxisScale(-2.0, 2.0),
        [ReferenceLine(0.0, "zero"), ReferenceLine(9.0, "off")],
    )
    assert drawn.count("<use") == 1
    assert [text in drawn for text in ("▸", "◂", "zero", "off", "unknown")] == [
        *(True, True, True, False, False)
    ]
    assert drawn.count("<li ") == len(rows)


def test_the_front_is_a_staircase_of_its_points():
    points = [
        PlanePoint(name, x, y, "")
        for name, x, y in [("a", 0.0, 9.0), ("b", 1.0, 5.0), ("c", 9.0, 1.0)]
    ]
    drawn = charts.draw_plane(
        "meaning", points, AxisScale(0, 10), AxisScale(0, 10), ("x", "y"), front=points
    )
    assert drawn.count('class="front"') == 2 * (len(points) - 1)
    assert all(f">{point.name}</text>" in drawn for point in points)


@given(st.lists(st.tuples(st.floats(0, 300), st.floats(20, 300)), min_size=1, max_size=12))
def test_labels_never_run_into_each_other(places):
    names = [f"algorithm {i}" for i in range(len(places))]
    found = place_labels(names, places, 330, (16, 310))
    boxes = [_label_box(spot, places[i]) for i, spot in found.items()]
    assert not any(_boxes_overlap(one, two) for one, two in itertools.combinations(boxes, 2))
    assert all(left >= 0 and right <= 330 for left, _, right, _ in boxes)


def test_the_first_point_has_its_label_where_only_one_has_room():
    found = place_labels(["first", "second"], [(50.0, 50.0), (51.0, 51.0)], 120, (30, 60))
    assert 0 in found


def test_long_names_end_and_names_to_the_left_are_set_apart():
    assert shorten_name("x" * 200) == "x" * 23 + "…"
    assert isolate_name("plain, (KL)") == "plain, (KL)"
    turned = "\N{RIGHT-TO-LEFT OVERRIDE}abc"
    assert isolate_name(turned) == f"\N{FIRST STRONG ISOLATE}{turned}\N{POP DIRECTIONAL ISOLATE}"


def test_a_heat_map_says_its_numbers():
    rows = [
        (
            "one",
            [HeatMapField("0.50", -0.5, "half", strong=True), HeatMapField("", None, "could not")],
        )
    ]
    drawn = draw_heat_map("Ratios", "Instance", ["<a>", "b"], rows, [False, True])
    assert '<td class="cold" style="--s: 30%" title="half"><b>0.50</b></td>' in drawn
    assert "&lt;a&gt;" in drawn
    assert 'class="none"' in drawn
