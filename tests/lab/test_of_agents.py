"""Regret of some agents: `agents=` in tables, plots, reports and the arena."""

import numpy as np
import pytest

import posse

STAR = posse.networks.star(6)
ALGORITHMS = {
    "dec": posse.Decentralized(posse.ThompsonSampling()),
    "alone": posse.Isolated(posse.ThompsonSampling()),
}


def compare(network=STAR, keep=("agents", "means", "messages", "beliefs"), **options):
    bandit = posse.Bandit.bernoulli([0.7, 0.4, 0.3], site_sd=0.1)
    small = {"horizon": 30, "runs": 4, "record": 3}
    return posse.compare(bandit, network, ALGORITHMS, keep=keep, **small, **options)


@pytest.fixture(scope="module")
def comparison():
    return compare()


@pytest.mark.parametrize("agents", [None, "all", range(6), np.arange(6), [5, 3, 1, 0, 2, 4]])
def test_all_agents_are_the_comparison_itself(comparison, agents):
    assert comparison.of_agents(agents) is comparison
    assert comparison["dec"].of_agents(agents) is comparison["dec"]
    assert comparison.table(agents=agents).equals(comparison.table())


@pytest.mark.parametrize(
    ("agents", "numbers"), [([4, 1], [1, 4]), ("hubs", [0]), ("leaves", [1, 2, 3, 4, 5])]
)
def test_the_regret_is_the_mean_over_these_agents(comparison, agents, numbers):
    result = comparison["dec"]
    some = result.of_agents(agents)
    expected = result.agent_regret[:, numbers].mean(axis=1)
    np.testing.assert_array_equal(some.regret, expected)
    np.testing.assert_array_equal(some.pulls, result.pulls[:, numbers])
    np.testing.assert_array_equal(some.agent_regret, result.agent_regret[:, numbers])
    np.testing.assert_array_equal(some.means, result.means[:, numbers])
    np.testing.assert_array_equal(some.beliefs, result.beliefs[:, :, :, numbers])
    np.testing.assert_array_equal(some.numbers_sent, result.numbers_sent)
    assert some.settings["agents"] == numbers
    assert result.summary(agents=agents).mean == pytest.approx(expected[:, -1].mean())
    table = comparison.table(agents=agents)
    assert table.loc["dec", "regret"] == pytest.approx(expected[:, -1].mean())


def test_the_mean_over_all_agents_is_the_regret(comparison):
    parts = [comparison["dec"].of_agents(agents).regret for agents in ("hubs", "leaves")]
    np.testing.assert_allclose((parts[0] + 5 * parts[1]) / 6, comparison["dec"].regret, rtol=1e-12)


def test_plots_reports_and_files(comparison, tmp_path):
    axes = comparison.plot(agents="leaves")
    np.testing.assert_allclose(
        axes.lines[0].get_ydata(), comparison["dec"].of_agents("leaves").regret.mean(axis=0)
    )
    comparison["dec"].plot(agents=[0])
    page = comparison.report(tmp_path / "page", agents="leaves")
    assert page.exists()
    loaded = posse.load(tmp_path / "page" / "files" / "results.nc")
    assert loaded["dec"].n_agents == 5
    np.testing.assert_array_equal(
        loaded["dec"].regret, comparison.of_agents("leaves")["dec"].regret
    )
    comparison["dec"].report(tmp_path / "one", agents=[0, 1])


@pytest.mark.parametrize(
    ("agents", "reason"),
    [
        ([], "must be numbers"),
        ([0, 0], "different numbers"),
        ([6], "from 0 to 5"),
        ([-1], "from 0 to 5"),
        ([0.5], "must be numbers"),
        ("hub", "did you mean 'hubs'"),
    ],
)
def test_refused_agents(comparison, agents, reason):
    with pytest.raises(ValueError, match=f"agents.*{reason}"):
        comparison.table(agents=agents)


def test_what_was_not_kept_and_groups_that_do_not_exist():
    with pytest.raises(ValueError, match=r'not kept: simulate\(..., keep=\("agents",\)\)'):
        compare(keep=()).table(agents=[0])
    cycle = compare(posse.networks.cycle(6))
    with pytest.raises(ValueError, match="has no leaves: every agent has several neighbours"):
        cycle.table(agents="leaves")
    with pytest.raises(ValueError, match="has no hubs: all agents have equal degrees"):
        cycle.table(agents="hubs")
    fresh = compare(posse.networks.erdos_renyi(6, 0.6, seed="run"))
    with pytest.raises(ValueError, match="differ from run to run"):
        fresh.table(agents="hubs")
    assert fresh.table(agents=[0, 1]).shape == fresh.table().shape
    with pytest.raises(ValueError, match="is unknown here"):
        compare().of_agents([0, 1]).table(agents="hubs")


@pytest.mark.parametrize("agents", [[1, 4], "hubs", "leaves", None])
def test_a_single_result_has_the_row_of_the_comparison(comparison, agents):
    result = comparison["dec"]
    row = result.table(agents=agents)
    assert list(row.index) == ["decentralized"]
    expected = comparison.table(agents=agents).loc[["dec"]]
    np.testing.assert_array_equal(row.to_numpy(), expected.to_numpy())
    if agents is not None:
        assert row["regret"].item() != result.table()["regret"].item()
        assert comparison.to_latex(agents=agents) != comparison.to_latex()
        assert comparison.to_latex(agents=agents) == comparison.of_agents(agents).to_latex()


def test_the_plot_and_the_report_of_a_single_result_are_of_these_agents(comparison, tmp_path):
    result = comparison["dec"]
    expected = result.agent_regret[:, 1:].mean(axis=1)  # the leaves of the star
    line = result.plot(agents="leaves").lines[0]
    np.testing.assert_allclose(line.get_ydata()[-1], expected.mean(axis=0)[-1])
    result.report(tmp_path, agents="leaves")
    stored = posse.load(tmp_path / "files" / "results.nc")
    np.testing.assert_array_equal(stored.regret, expected)
