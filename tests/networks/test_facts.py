"""A network in a notebook: its facts as a table, and never an exception or a long wait."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import pytest

from posse import networks, theory
from posse.networks import Network


class Same:
    """Dynamics of one's own whose name has no place in HTML."""

    def sampler(self, network: Network, n_runs: int) -> Any:
        return lambda randomness: network.weights

    def __repr__(self) -> str:
        return "<Same & equal>"


def facts(network: Network) -> dict[str, str]:
    table = ElementTree.fromstring(network._repr_html_())
    caption, body = table
    return {"network": str(caption.text)} | {str(row[0].text): str(row[1].text) for row in body}


def test_a_table_of_what_inspect_says() -> None:
    network = networks.grid(3, 4)
    mixing = theory.mixing_time(12, network.second_eigenvalue)
    assert facts(network) == {
        "network": "grid(rows=3, columns=4)",
        "agents": "12",
        "edges": "17",
        "degree": "2 to 4, 2.833 on average",
        "second eigenvalue": f"{network.second_eigenvalue:.10g}",
        "spectral gap": f"{network.spectral_gap:.6g}",
        "mixing time": f"{mixing} rounds to spread a reward evenly, to within 1%",
        "cost": "about 0.62 pulls per agent; a cycle of 12 would cost 0.99",
    }
    assert theory.network_cost(network).total == pytest.approx(0.62, abs=0.005)
    assert theory.network_cost(networks.cycle(12)).total == pytest.approx(0.99, abs=0.005)


@pytest.mark.parametrize(
    "network",
    [
        networks.cycle(6).varying(Same()),
        networks.cycle(6).failing(0.2, normalise="realised"),
        networks.random_regular(1100, 3),
    ],
    ids=["own", "realised", "large"],
)
def test_what_is_not_known_or_takes_long_is_left_out(network: Network) -> None:
    assert list(facts(network)) == ["network", "agents", "edges", "degree"]
    assert facts(network)["network"] == repr(network)


def test_a_fresh_graph_says_so() -> None:
    shown = facts(networks.erdos_renyi(50, 0.1, seed="run"))
    assert shown["agents"] == "50"
    assert shown["graph"] == "a fresh one in every run: network.of_run(seed, run)"
    assert len(shown) == 3


def test_a_large_ring_knows_its_gap() -> None:
    assert "spectral gap" in facts(networks.cycle(5000))
