"""The panels as data: what the paper states, what was published, and names that are understood."""

import dataclasses

import numpy as np
import pytest

import posse
from posse import networks
from posse.lab.compiled.registry import missing_kernel as missing
from posse.lab.paper import panels
from posse.lab.paper.panels import build_simulation, recorded_rounds

ALL = {id_: panels.load_panel(id_) for id_ in panels.IDS}
VARIANTS = [*ALL.values(), *(panel.as_published_panel() for panel in ALL.values())]
SEVENTEEN = (0.5, *[0.1] * 16)


@pytest.mark.parametrize("id_", panels.IDS)
def test_every_panel_runs_on_the_compiled_engine(id_):
    for panel in (ALL[id_], ALL[id_].as_published_panel()):
        for curve in panel.curves.values():
            assert missing(build_simulation(panel, curve, 1, panel.horizon)) is None


@pytest.mark.parametrize("id_", panels.IDS)
def test_every_panel_compares_curves_that_it_has(id_):
    for panel in (ALL[id_], ALL[id_].as_published_panel()):
        assert panel.pairs_to_compare()
        assert {name for pair in panel.pairs_to_compare() for name in pair} <= set(panel.curves)
        assert panel.title
        assert panel.caption.endswith(".")


def test_the_bandits_are_those_of_the_paper():
    for id_ in ("fig1a", "fig1b", "fig5a", "fig5b", "published"):
        assert ALL[id_].bandit == posse.Bandit.gaussian(SEVENTEEN)
    for id_ in ("fig3", "fig4a", "fig4b"):
        assert ALL[id_].bandit == posse.Bandit.bernoulli(SEVENTEEN)
        assert ALL[id_].as_published_panel().bandit == posse.Bandit.gaussian(SEVENTEEN)
    assert [ALL[i].bandit.n_arms for i in ("fig2a", "fig2b")] == [20, 10]


def test_the_networks_are_those_of_the_paper():
    def of(id_, published=False):
        panel = ALL[id_].as_published_panel() if published else ALL[id_]
        return [curve.network for curve in panel.curves.values()]

    assert set(of("fig1a")) == {networks.cycle(100)}
    assert set(of("fig1b")) == {networks.grid(10, 10)}
    assert set(of("fig2a")) == {networks.cycle(20)}
    assert set(of("fig2b")) == {networks.cycle(200)}
    rings = [networks.regular_ring(64, 5), networks.regular_ring(64, 3)]
    assert of("fig3") == [networks.complete(64), *rings, networks.grid(8, 8)]
    sizes = (36, 64, 81, 100, 144)
    assert of("fig4a") == [networks.complete(n) for n in sizes]
    assert of("fig4b") == [networks.cycle(n) for n in sizes]
    assert networks.complete(64).gossip() in of("fig5a")
    failing = [networks.complete(64).failing(p) for p in (0.3, 0.8, 0.9)]
    assert of("fig5b") == [networks.complete(64), *failing]
    twice = [networks.complete(64).failing(1 - (1 - p) ** 2, "realised") for p in (0.3, 0.8, 0.9)]
    got = of("fig5b", published=True)[1:]
    assert [n.dynamics.normalise for n in got] == ["realised"] * 3
    np.testing.assert_allclose([n.dynamics.p for n in got], [n.dynamics.p for n in twice])


def test_baselines_go_uncharged_as_published():
    for id_ in ("fig1a", "fig1b", "fig2a", "fig2b"):
        for name, curve in ALL[id_].curves.items():
            published = ALL[id_].as_published_panel().curves[name]
            if hasattr(curve.algorithm, "charge_initial"):
                assert curve.algorithm.charge_initial
                expected = dataclasses.replace(curve.algorithm, charge_initial=False)
                assert published.algorithm == expected


def test_the_published_grid_matrix():
    """I - D^-1 (D - A) D^-1 / 5: rows that sum to 0.967 to 1.008, inner links of 1/80."""
    matrix = panels.published_grid(networks.grid(8, 8)).weights.toarray()
    sums = matrix.sum(axis=1)
    assert sums.min() == pytest.approx(0.967, abs=5e-4)
    assert sums.max() == pytest.approx(1.008, abs=5e-4)
    inner = 3 * 8 + 3
    assert matrix[inner, inner + 1] == pytest.approx(1 / 80)
    np.testing.assert_allclose(matrix, matrix.T, rtol=1e-14)


@pytest.mark.parametrize(
    ("names", "ids"),
    [
        ([], list(panels.IDS)),
        (["fig1a"], ["fig1a"]),
        (["5b", "fig1"], ["fig1a", "fig1b", "fig5b"]),
        (["Figure4"], ["fig4a", "fig4b"]),
        (["3", "published"], ["fig3", "published"]),
    ],
)
def test_figures_by_name(names, ids):
    assert panels.choose_panels(names) == ids


def test_an_unknown_figure_suggests_the_nearest():
    with pytest.raises(ValueError, match=r"fig5b"):
        panels.choose_panels(["fig5c"])


def test_recorded_rounds():
    for horizon in (1, 30, 800, 5000):
        rounds = recorded_rounds(horizon)
        assert rounds[0] == 1
        assert rounds[-1] == horizon
        assert (np.diff(rounds) > 0).all()
        assert len(rounds) < 400
    assert {25, 50, 100, 200, 400, 800} <= set(recorded_rounds(800))
