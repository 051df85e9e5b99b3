"""The scoreboard: one row of numbers for every report, against their definitions."""

import numpy as np
import pytest

from posse.lab.comparisons import Comparison
from posse.lab.report import scoreboard
from posse.lab.report.scoreboard import (
    PairedDifference,
    adjust_scoreboards,
    build_scoreboard,
    compare_pairs,
    score_comparison,
)
from posse.lab.results import Result
from posse.lab.statistics import Estimate, holm

RUNS = 30


def comparison_of(seed, means=(5.0, 5.1, 9.0)):
    rng = np.random.default_rng(seed)
    results = {}
    for i, mean in enumerate(means):
        regret = np.maximum(mean + rng.normal(size=(RUNS, 1)), 0)
        results[f"A{i}"] = Result([9], regret, np.ones((RUNS, 1, 2), int), "e", {})
    return Comparison(results)


def test_a_row_has_the_numbers_of_its_result():
    comparison = comparison_of(1)
    for row, (name, result) in zip(
        score_comparison(comparison).rows, comparison.items(), strict=True
    ):
        summary = result.summary()
        regret = result.regret[:, -1]
        assert row.algorithm == name
        assert row.regret == (summary.mean, summary.standard_error, summary.low, summary.high)
        assert comparison.table().loc[name, "regret"] == row.regret.mean
        assert row.tail.median_run == np.median(regret)
        assert regret[row.tail.worst_run_number] == row.tail.worst_run == regret.max()
        assert row.ratio == pytest.approx(regret.mean() / comparison["A0"].regret[:, -1].mean())


def test_rows_are_compared_with_the_lowest_and_ties_share_a_rank():
    board = score_comparison(comparison_of(2))
    assert board.reference == "A0"
    assert board.reference_row is board.row_of("A0")
    assert [row.verdict for row in board.rows] == ["reference", "undecided", "worse"]
    assert [row.rank for row in board.rows] == [1, 1, 3]
    assert [row.shared_rank for row in board.rows] == [1.5, 1.5, 3.0]
    pair = board.row_of("A2").difference
    assert (pair.first, pair.second) == ("A2", "A0")
    assert pair.reverse() in board.pairs
    assert pair.reverse().verdict == scoreboard.BETTER


def test_a_reversed_difference_keeps_its_interval_around_it():
    pair = PairedDifference("a", "b", Estimate(1.0, 0.5, -0.5, 2.5), 0.1, 0.2)
    turned = pair.reverse()
    assert turned.difference == (-1.0, 0.5, -2.5, 0.5)
    assert (turned.first, turned.second, turned.p, turned.adjusted_p) == ("b", "a", 0.1, 0.2)
    assert turned.reverse() == pair


def test_holms_correction_is_over_all_scoreboards_of_a_report():
    boards = []
    for seed in (3, 4):
        comparison = comparison_of(seed)
        regrets = {name: result.regret[:, -1] for name, result in comparison.items()}
        boards.append(
            build_scoreboard(
                comparison,
                reference="A0",
                differences=compare_pairs(regrets, [("A1", "A0"), ("A2", "A0")]),
                pairs=compare_pairs(regrets, [("A1", "A2")]),
            )
        )
    adjusted = adjust_scoreboards(boards)
    differences = [row.difference for board in adjusted for row in board.rows if row.difference]
    assert [pair.first for pair in differences] == ["A1", "A2", "A1", "A2"]
    expected = holm([pair.p for pair in differences])
    assert [pair.adjusted_p for pair in differences] == pytest.approx(list(expected))
    for board in adjusted:
        assert [row.verdict for row in board.rows] == ["reference", "undecided", "worse"]
    pairs = [pair for board in adjusted for pair in board.pairs]  # a family of their own
    assert [pair.adjusted_p for pair in pairs] == pytest.approx(
        list(holm([pair.p for pair in pairs]))
    )


def test_few_runs_claim_nothing():
    regrets = {"a": np.arange(9.0), "b": np.arange(9.0) + 5}
    (pair,) = compare_pairs(regrets, [("a", "b")])
    assert (pair.p, pair.is_significant, pair.verdict) == (None, False, scoreboard.UNDECIDED)
    (pair,) = compare_pairs(regrets, [("a", "b")], fewest_runs=2)
    assert pair.p == 0.0
