"""The class of instances with contexts: ranked by itself, by who knows contexts."""

from pathlib import Path

import numpy as np
import pytest

import posse
from posse.bandits import ContextualBandit
from posse.lab.arena import players as line_up
from posse.lab.arena import report_data as data
from posse.lab.arena import standings as report
from posse.lab.arena import suite
from posse.lab.arena.tournament import Arena, Form
from posse.lab.report.pages import arena as page
from posse.lab.report.pages.arena import write_command

RUNS, ROUNDS, SEED = 3, 20, 5
INSTANCES = suite.load_suite().contextual


def arena_of(instances, folder):
    """All players, for a few rounds."""
    players = line_up.list_players(suite.CONTEXTS)
    return Arena(instances, players, Form("custom", RUNS, ROUNDS, SEED), folder)


def test_instances_are_numbered_by_themselves_and_have_contexts():
    assert [each.number for each in INSTANCES] == list(range(1, len(INSTANCES) + 1))
    assert len({each.name for each in INSTANCES}) == len(INSTANCES)
    assert all(isinstance(each.bandit, ContextualBandit) for each in INSTANCES)
    assert all(len(each.name) <= 24 for each in INSTANCES)
    assert not any(
        isinstance(each.bandit, ContextualBandit) for each in suite.load_suite().instances
    )
    assert [each.number for each in suite.choose_instances("2-3", suite.CONTEXTS)] == [2, 3]
    with pytest.raises(ValueError, match="suite 'context' is unknown: did you mean 'contexts'"):
        suite.choose_instances(None, "context")
    text = (Path(__file__).parents[3] / "docs" / "arena.md").read_text("utf-8")
    for each in INSTANCES:
        row = each.number, each.name, each.arms, each.graph, each.horizon, each.why
        assert f"| {' | '.join(map(str, row))} |" in text


def test_everybody_can_play_everything_but_a_tree_under_gossip(tmp_path):
    arena = arena_of(INSTANCES, tmp_path)
    assert next(iter(arena.players)) == line_up.REFERENCE
    assert all(player.entrant.source in data.MARKS for player in arena.players.values())
    assert list(arena.refusals) == [(7, "Tree TS")]


def test_scores_are_those_of_a_comparison(tmp_path):
    (instance,) = suite.choose_instances("6", suite.CONTEXTS)
    played = arena_of([instance], tmp_path)
    played.play_missing(threads=1)
    made = report.build_report(played, 1.0, "1 thread")
    compared = posse.compare(
        instance.bandit,
        instance.network,
        {name: player.algorithm for name, player in played.players.items()},
        horizon=ROUNDS,
        runs=RUNS,
        seed=SEED,
        keep=("agents", "messages"),
    )
    (shown,) = made.instances
    assert shown.lower_bound is None
    assert {score.algorithm for score in shown.scoreboard.rows} == set(compared)
    for score in shown.scoreboard.rows:
        result = compared[score.algorithm]
        assert score.regret.mean == pytest.approx(result.regret[:, -1].mean())
        worst = result.agent_regret[:, :, -1].max(axis=1).mean()
        assert score.worst_agent == pytest.approx(worst)
        assert score.tail.wrong_leader is None
        sent = result.numbers_sent[:, -1].mean() / ROUNDS
        assert score.sent_per_round == pytest.approx(sent)
    np.testing.assert_allclose(
        [row.ratio for row in made.standings if row.algorithm == line_up.REFERENCE], 1
    )
    told = f"--suite contexts --horizon {ROUNDS} --runs {RUNS} --seed {SEED} --instances 6"
    assert write_command(made) == f"posse arena {told}"
    written = page.render(made)
    assert "with contexts, ranked" in written
    assert "no lower bound is shown" in written
