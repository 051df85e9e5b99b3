"""Uplift and guardrails in a real browser: shown where configured, as the interface says."""

import re

import pytest

from tests.browsing import until
from tests.live.http.page.watching import one, world

MEASURES = {
    "control_arm": "red",
    "holdout": 0.5,
    "metrics": {"latency": {"range": [0, 1000], "worse": "higher", "limit": 300}},
}


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    settings = {name: one(name, **MEASURES) for name in ("berlin", "paris")}
    with world(tmp_path_factory.mktemp("measures"), **settings) as made:
        yield made


def play(experiment, visits, latency):
    """Green is better and slow."""
    for nth in range(visits):
        decision = experiment.decide(visitor=f"{latency} {nth}")
        green = decision.arm == "green"
        experiment.measure(decision.id, {"latency": latency if green else 100.0})
        experiment.reward(decision.id, float(green or nth % 4 == 0))


def read_numbers(text):
    """Numbers with a sign, as the page writes them."""
    return [float(number.replace("−", "-")) for number in re.findall(r"[+−][\d.]+", text)]


def test_before_and_after_there_is_enough_to_compare(pair, watch):
    page = watch(pair.urls["berlin"])
    page.is_drawn()
    page.shows("#strip", "Earned by choosing arms", "Not known yet")
    assert page.texts(".guards tbody .quiet") == ["no values yet"] * 2
    experiment = pair.nodes["berlin"].experiment()
    play(experiment, 700, 800.0)
    pair.tick(3)
    uplift = experiment.uplift()
    box = "#strip > div:nth-child(3)"
    page.shows(box, "conversions per 100 visits", "between", "compared with red for everybody")
    wanted = [100 * value for value in (uplift.uplift, uplift.low, uplift.high)]
    # while visits are played the page shows numbers of fewer visits: wait for the last ones
    until(
        lambda: read_numbers(page.text(box)) == pytest.approx(wanted, abs=0.006),
        lambda: f"{wanted} not in: {page.text(box)}",
    )
    tip = page.tip(f"{box} .big")
    assert f"({uplift.control.decisions} closed visits)" in tip
    for each in experiment.metrics():
        row = f'.guards tr[data-key="{each.metric} {each.arm}"]'
        state = "beyond its limit" if each.breached else "within its limit"
        page.shows(row, f"{each.mean:.3g}", "300", state)
    page.shows('.guards tr[data-key="latency green"]', "beyond its limit")
    page.shows("#notes .bad", "Latency of green is 800, between", "above its limit of 300. ")
    assert page.tip('.guards tr[data-key="latency green"] td:nth-child(6)').startswith("A number")


def test_without_settings_nothing_is_shown(tmp_path, watch):
    with world(tmp_path, berlin=one("berlin"), paris=one("paris")) as made:
        made.visit("berlin", "default", 3)
        made.tick(2)
        page = watch(made.urls["berlin"])
        page.is_drawn()
        assert len(page.texts("#strip > div")) == 4
        assert page.run("document.getElementById('guards').hidden")
        assert "Earned" not in page.text("main")
