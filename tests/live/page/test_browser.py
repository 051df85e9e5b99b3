"""The page in a real browser: what it says is what the agents know, whichever of them is asked."""

import re

import pytest

from .watching import asks, one, world

NAMES = ("berlin", "paris", "rome")  # on a line: rome is no neighbour of berlin
STOP = {"error": 0.05}


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    settings = {name: one(name, stop=STOP, seed=5) for name in NAMES}
    for each in settings.values():
        each.pop("seed")
    with world(tmp_path_factory.mktemp("three"), **settings) as made:
        for name, visits in zip(NAMES, (60, 90, 40), strict=True):
            for arm, good in (("red", visits // 3), ("green", visits // 6)):
                for i in range(visits):
                    one_visit(made.nodes[name], arm, float(i < good))
        made.nodes["berlin"].decide()  # is open
        made.tick(4)
        yield made


def one_visit(node, arm, reward):
    node.reward(node.decide(allowed=[arm]).id, reward)


def number(text):
    """The first number of a text, its thousands joined; percents as shares."""
    found = re.search(r"[−+]?\d[\d,]*(\.\d+)?", text)
    assert found, text
    value = float(found[0].replace(",", "").replace("−", "-"))
    return value / 100 if text[found.end() :].startswith("%") else value


def test_all_numbers_are_those_of_the_interface(three, watch):
    page = watch(three.urls["berlin"])
    page.is_drawn()
    said = asks(three.urls["berlin"])
    for name, arm in said["arms"].items():
        row = f'.arms tr[data-key="{name}"]'
        assert number(page.text(f"{row} .rate b")) == pytest.approx(arm["mean"], abs=6e-5)
        (sentence,) = page.run(f"[...document.querySelectorAll('{row} td.rate')].map((e) => e.dataset.tip)")
        low, high = re.findall(r"[\d.]+%", sentence)[1:]
        assert number(low) == pytest.approx(arm["low"], abs=6e-5)
        assert number(high) == pytest.approx(arm["high"], abs=6e-5)
        cells = {key: page.text(f'{row} [data-name="{key}"]') for key in
                 ("likely best", "visits here", "in the network", "open")}  # fmt: skip
        if 0.001 < arm["probability_best"] < 0.999:
            assert number(cells["likely best"]) == pytest.approx(arm["probability_best"], abs=6e-4)
        assert number(cells["visits here"]) == arm["pulls_here"]
        assert number(cells["in the network"]) == arm["pulls_in_network"]
        assert number(cells["open"]) == arm["open_in_network"]
    books = said["books"]
    assert books == {"counted": 120, "own": 120, "network": 380}
    assert (number(page.text("#counted")), number(page.text("#own"))) == (120, 120)
    assert "nothing lost" in page.text(".sum")
    assert page.text("#strip div:nth-child(4)").endswith("network 380")
    verdict = said["verdict"]
    evidence, needed = re.findall(r"[\d.]+", page.text("#strip div:nth-child(2) .big"))
    assert float(evidence) == pytest.approx(verdict["evidence"], abs=0.06)
    assert float(needed) == pytest.approx(verdict["needed"], abs=0.06)
    for site, row in said["sites"]["sites"].items():
        cells = page.run(
            "[...document.querySelectorAll(arguments[0])].map((e) => e.textContent)",
            f'.heat tr[data-key="{site}"] .box b',
        )
        counts = page.texts(f'.heat tr[data-key="{site}"] .box small.narrow-hide')
        for cell, count, arm in zip(cells, counts, row["arms"].values(), strict=True):
            assert number(cell) == pytest.approx(arm["mean"], abs=6e-5)
            assert number(count) == arm["pulls"]
        gain = page.text(f'.heat tr[data-key="{site}"] td.gain')
        assert float(gain[1:]) == pytest.approx(row["gain"], abs=0.06)
    agents = said["network"]["agents"]
    assert set(page.texts(".agents th[scope=row] bdi:first-child")) == set(agents)
    for name, agent in agents.items():
        cells = page.texts(f'.agents tr[data-key="{name}"] td')
        assert number(cells[1]) == agent["experiments"]["default"]["behind"] == 0
        assert number(cells[2]) == agent["experiments"]["default"]["counted"]
        assert number(cells[3]) == sum(agent["refused"].values())
    assert len(page.texts(".net .wire")) == len(said["network"]["links"]) == 2
