"""Results and networks in a notebook: small tables on their own, with every name escaped."""

import html
import re
from xml.etree import ElementTree

import pytest

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
