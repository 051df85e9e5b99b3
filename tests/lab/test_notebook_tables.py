"""Results and networks in a notebook: small tables on their own, with every name escaped."""

import html
import re
from xml.etree import ElementTree

import numpy as np
import pytest

import posse
from posse import notebook_tables
from posse.lab.comparisons import Comparison
from tests.lab.making import make

NASTY = "<script>alert('x')</script> & \"co\""


def cells(text):
    """The caption and the texts of a table's rows, which must be well formed."""
    root = ElementTree.fromstring(text)
    assert root.tag == "table"
    tags = {"table", "caption", "thead", "tbody", "tr", "th", "td"}
    assert {each.tag for each in root.iter()} <= tags
    rows = [[cell.text or "" for cell in row] for row in root.iter("tr")]
    return root.find("caption").text, rows


def test_a_result():
    result = make(runs=30)
    caption, (headers, row) = cells(result._repr_html_())
    assert caption == "Regret per agent at round 20: 30 runs, 2 agents, 3 arms, engine reference"
    assert headers == ["regret", "standard error", "95% interval"]
    summary = result.summary()
    numbers = [float(number) for number in re.findall(r"[\d.]+", " ".join(row))]
    expected = [summary.mean, summary.standard_error, summary.low, summary.high]
    assert numbers == pytest.approx(expected, abs=summary.standard_error / 10)


def test_one_run_has_no_interval():
    _, (_, row) = cells(make(runs=1)._repr_html_())
    assert row[1:] == ["", ""]


def test_a_comparison_has_a_row_for_each_and_escapes_names():
    names = ["dec-TS", NASTY]
    text = Comparison({name: make(i) for i, name in enumerate(names)})._repr_html_()
    assert NASTY not in text
    assert html.escape(NASTY) in text
    _, (headers, *rows) = cells(text)
    assert headers[0] == "algorithm"
    assert [row[0] for row in rows] == names
    assert "engine" not in headers


def test_a_comparison_over_two_engines_says_which_ran_what():
    mixed = Comparison({"a": make(), "b": make(engine="compiled")})
    caption, (headers, *rows) = cells(mixed._repr_html_())
    assert headers[-1] == "engine"
    assert [row[-1] for row in rows] == ["reference", "compiled"]
    assert caption.endswith("engine compiled and reference")


def test_a_table_without_headers_has_none():
    assert "<thead>" not in notebook_tables.render_table("facts", (), [("a", "1")])
    assert "<thead>" in notebook_tables.render_table("facts", ("x", "y"), [("a", "1")])


def test_what_describes_an_experiment_is_a_table_too():
    bandit = posse.Bandit.bernoulli([0.3, 0.2])
    network = posse.networks.cycle(4)
    algorithms = {"<dec>": posse.Decentralized(posse.ThompsonSampling())}
    experiment = posse.Experiment(bandit, network, algorithms, horizon=7, title="a & b")
    caption, rows = cells(experiment._repr_html_())
    assert caption == "a & b"
    assert dict(rows)["horizon"] == "7"
    assert dict(rows)["algorithm <dec>"] == repr(algorithms["<dec>"])
    caption, rows = cells(bandit._repr_html_())
    assert caption == "Bandit with 2 arms"
    assert dict(rows) == {"family": repr(bandit.family), "means": repr(bandit.means)}
    terms = posse.theory.theorem_1([0.3, 0.2], 4, 0.5, 100, 0.1)
    assert dict(cells(terms._repr_html_())[1])["explicit"] == f"{terms.explicit:.4g}"
    belief = np.array([[3.0, 1.0], [1.0, 3.0]])
    _, (headers, first, _) = cells(posse.summarise(bandit.family, belief)._repr_html_())
    assert headers == ["arm", "mean", "low", "high", "probability best", "expected loss"]
    assert first[:2] == ["0", "0.75"]
    wide = posse.Bandit.bernoulli(np.linspace(0.1, 0.9, 500))
    assert all(len(value) < 300 for _, value in cells(wide._repr_html_())[1])


def test_a_bandit_with_contexts():
    contexts = posse.bandits.UnitFeatures(3, 2)
    bandit = posse.ContextualBandit(posse.families.Linear(), contexts, posse.NormalWeights(3))
    caption, rows = cells(bandit._repr_html_())
    assert caption == "Bandit with 3 arms and contexts"
    assert [row[0] for row in rows] == ["family", "contexts", "theta"]


def test_a_summary_is_a_table_with_four_digits():
    summary = make(runs=3).summary()
    caption, rows = cells(summary._repr_html_())
    assert "3 runs" in caption
    assert dict(rows)["mean"] == f"{summary.mean:.4g}"
