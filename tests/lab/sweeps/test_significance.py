"""Significance over a sweep: one family of paired tests, and tables for LaTeX."""

import numpy as np
import pytest
from scipy import stats

import posse
from posse.lab.latex import escape_latex, format_estimate

RATE = "algorithms.dec-TS.learning_rate"
EXPERIMENT = posse.Experiment(
    posse.Bandit.gaussian([0.9, 0.1, 0.0]),
    posse.networks.cycle(4),
    {"dec-TS": posse.Decentralized(posse.ThompsonSampling())},
    horizon=30,
    runs=20,
    seed=7,
    engine="reference",
)


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    grid = {"network.agents": [4, 9], RATE: [0.1, "N", "N + 0.5"]}
    return posse.sweep(EXPERIMENT, grid, folder=tmp_path_factory.mktemp("sweep"))


def holm_plainly(p_values):
    """Holm's correction by its definition, step by step."""
    adjusted, largest = {}, 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = largest
    return adjusted


def test_all_pairs_of_the_sweep_are_one_family(sweep):
    table = sweep.significance("learning_rate")
    regrets = {
        (agents, rate): sweep[{"agents": agents, RATE: rate}]["dec-TS"].regret[:, -1]
        for agents in (4, 9)
        for rate in (0.1, "N", "N + 0.5")
    }
    pairs, p_values = [], []
    for agents in (4, 9):
        for first, second in (("N", "N + 0.5"), (0.1, "N"), (0.1, "N + 0.5")):
            pairs.append((agents, {first, second}))
            p_values.append(stats.ttest_rel(regrets[agents, first], regrets[agents, second]).pvalue)
    adjusted = holm_plainly(p_values)
    assert len(table) == 6
    for agents in (4, 9):
        rows = table[table["agents"] == agents].set_index("learning_rate")
        best = rows["regret"].idxmin()
        assert rows.loc[best, "verdict"] == "best"
        for rate, row in rows.iterrows():
            assert row["regret"] == pytest.approx(regrets[agents, rate].mean())
            if rate == best:
                continue
            p = adjusted[pairs.index((agents, {rate, best}))]
            assert row["p_holm"] == pytest.approx(p, rel=1e-9)
            expected = "worse" if p < 0.05 else "not told from the best"
            assert row["verdict"] == expected
            difference = regrets[agents, rate] - regrets[agents, best]
            assert row["difference"] == pytest.approx(difference.mean())
    assert set(table["verdict"]) == {"best", "worse", "not told from the best"}


def test_what_is_compared_by_default(sweep):
    assert "learning_rate" in sweep.significance().columns
    over_agents = sweep.significance("agents")
    assert list(over_agents.columns[:2]) == ["learning_rate", "agents"]
    with pytest.raises(ValueError, match="key 'agent' is unknown: did you mean 'agents'"):
        sweep.significance("agent")


def test_few_runs_claim_nothing(tmp_path):
    few = posse.sweep(EXPERIMENT, {RATE: [0.1, 4]}, folder=tmp_path, runs=3)
    assert sorted(few.significance()["verdict"]) == ["best", "too few runs"]
    assert few.to_latex().count(r"\mathbf") == 1


def test_the_table_has_the_best_in_bold_and_those_not_told_from_it(sweep):
    text = sweep.to_latex("learning_rate", caption="50% of_all", label="tab:rates")
    assert r"\caption{50\% of\_all}" in text
    assert r"\label{tab:rates}" in text
    lines = text.splitlines()
    assert r"agents & 0.1 & N & N + 0.5 \\" in lines
    assert lines.index(r"\toprule") < lines.index(r"\midrule") < lines.index(r"\bottomrule")
    rows = [line for line in lines if line.startswith(("4 &", "9 &"))]
    table = sweep.significance("learning_rate")
    for agents, line in zip((4, 9), rows, strict=True):
        cells = line.removesuffix(r" \\").split(" & ")[1:]
        verdicts = table[table["agents"] == agents]["verdict"]
        assert [r"\mathbf" in cell for cell in cells] == [v != "worse" for v in verdicts]


def test_a_comparison_is_a_table_too():
    algorithms = {
        "dec_TS": posse.Decentralized(posse.ThompsonSampling()),
        "uniform": posse.Isolated(posse.Uniform()),
    }
    comparison = posse.compare(
        EXPERIMENT.bandit, EXPERIMENT.network, algorithms, horizon=30, runs=20, seed=7,
        engine="reference",
    )  # fmt: skip
    text = comparison.to_latex()
    best, other = (line for line in text.splitlines() if line.startswith(("dec", "uniform")))
    assert best.startswith(r"dec\_TS & $\mathbf{")
    assert r"\mathbf" not in other
    assert other.endswith(r"\% \\")


def test_numbers_have_the_digits_that_their_error_allows():
    assert format_estimate(12.3456, 0.678) == r"$12.35 \pm 0.68$"
    assert format_estimate(117.89, 24.2, bold=True) == r"$\mathbf{118} \pm 24$"
    assert format_estimate(3.0, float("nan")) == "$3$"
    assert format_estimate(0.001234, 0.000056) == r"$0.001234 \pm 0.000056$"
    assert np.all([escape_latex(c) != c for c in "\\&%$#_{}~^"])
    assert escape_latex("a\\b_c") == r"a\textbackslash{}b\_c"


def test_values_of_different_runs_are_not_compared(tmp_path):
    sweep = posse.sweep(EXPERIMENT, {"runs": [2, 3]}, folder=tmp_path)
    with pytest.raises(ValueError, match="significance over runs needs the same runs"):
        sweep.significance("runs")
