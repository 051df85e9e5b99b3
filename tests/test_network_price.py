"""The study of regret against the cost of a network: its costs, its verdicts and its small form."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest

from posse import networks

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "studies"))

import lab_network_price  # noqa: E402
import network_price_cells as cells  # noqa: E402
from network_price_hypotheses import HYPOTHESES, Row, judge  # noqa: E402

BY_NAME = {hypothesis.name: hypothesis for hypothesis in HYPOTHESES}


def create_rows(table, penalty):
    """Rows of a table whose mean penalty is a function of the cost, with noise of 1% over runs."""
    generator = np.random.default_rng(1)
    rows = []
    for number, cell in enumerate(table):
        cost = 1.0 + number
        noise = 0.01 * generator.standard_normal(50)
        rows.append(Row(cell, cost, 1 / cost, penalty(cost) + noise))
    return rows


def test_cost_of_flooding_and_tree_by_counting_rounds():
    """Sum over rounds of the squares of 1/N at agents that an observation has not reached yet."""
    network = networks.grid(3, 3)
    for tree in (False, True):
        links = networks.spanning_tree(network) if tree else network.edges
        total = 0.0
        for origin in range(9):
            # a message takes a round a link, and the first merge brings it to the neighbours
            reached = {origin}
            for _ in range(20):
                reached |= {
                    b for i, j in links.tolist() for a, b in ((i, j), (j, i)) if a in reached
                }
                total += (9 - len(reached)) / 9**2
        assert cells.distance_cost(network, tree) == pytest.approx(total / 9)


@pytest.mark.parametrize("name", ["H1", "H2", "H10"])
def test_a_law_that_holds_is_confirmed_and_its_opposite_is_not(name):
    hypothesis = BY_NAME[name]
    table = cells.list_policies()
    assert judge(hypothesis, create_rows(table, lambda cost: cost)).holds
    verdict = judge(hypothesis, create_rows(table, lambda cost: 100 - 5 * cost))
    assert not verdict.holds
    assert verdict.agreement == 1


def test_a_verdict_within_noise_is_close():
    rows = create_rows(cells.list_policies(), lambda cost: 0.6 * cost)
    verdict = judge(BY_NAME["H2"], rows)
    assert 0.2 < verdict.agreement < 0.9
    assert verdict.is_close


def test_every_hypothesis_of_the_files_is_judged():
    words = "".join(
        path.read_text() for path in (ROOT / "studies").glob("network_price_hypotheses*.md")
    )
    written = set(re.findall(r"\bH\d+(?=:)", words))
    assert written == set(BY_NAME)
    tables = {hypothesis.table for hypothesis in HYPOTHESES}
    assert tables == set(lab_network_price.TABLES)


@pytest.mark.long
def test_all_cells_of_a_table_differ():
    for list_table, _ in lab_network_price.TABLES.values():
        seen = [(cell.graph, cell.merge, repr(cell.bandit), cell.horizon) for cell in list_table()]
        assert len(set(seen)) == len(seen)


def test_interval_of_a_share():
    low, high = lab_network_price.find_share_interval(15, 18)
    assert (low, high) == pytest.approx((0.586, 0.964), abs=1e-3)
    assert lab_network_price.find_share_interval(0, 4)[0] == 0
    assert lab_network_price.find_share_interval(4, 4)[1] == 1


@pytest.mark.long
def test_small_form_of_a_table(tmp_path, monkeypatch):
    monkeypatch.setattr(lab_network_price, "RESULTS", tmp_path)
    text, broken = lab_network_price.study(runs=3, only="horizons")
    assert broken == []
    assert "| H9 | horizons |" in text
    graphs = [line for line in text.splitlines() if line.startswith(("| cycle 100", "| star 36"))]
    assert len(graphs) == 2
    again, _ = lab_network_price.study(runs=3, only="horizons")  # from stored parts
    assert again == text
    assert len((tmp_path / "cells.csv").read_text().splitlines()) == 21
    # the penalty of a long network is far above S2 at T = 50: 3.4 with a standard error of 0.07
    (cycle,) = (line for line in graphs if line.startswith("| cycle 100"))
    assert float(re.search(r"\| (-?[\d.]+) ±", cycle)[1]) > 1
