"""The report's numbers against those of `posse.compare`, counted the plain way."""

import json
import math

import numpy as np
import pytest

import posse
from posse.lab.arena import players as line_up
from posse.lab.arena import report_data as tables
from posse.lab.arena import standings as report
from posse.lab.arena import suite
from posse.lab.arena.tournament import (
    QUICK_HORIZON,
    QUICK_RUNS,
    QUICK_STEPS,
    Arena,
    Form,
    choose_form,
    choose_workers,
)
from posse.lab.report import scoreboard

NAMES = ["isolated TS", "DDUCB", "UCB-Network", "UCB-Network (KL)", "centralized TS"]
RUNS, ROUNDS, SEED = 12, 60, 5


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """Three instances, of which DDUCB cannot play gossip."""
    arena = Arena(
        suite.choose_instances("16,21,23"),
        line_up.choose_players(NAMES),
        Form("custom", RUNS, ROUNDS, SEED),
        tmp_path_factory.mktemp("arena"),
    )
    arena.play_missing(threads=1)
    return arena


@pytest.fixture(scope="module")
def made(played):
    return report.build_report(played, 1.5, "2 threads")


def compared(instance, players):
    return posse.compare(
        instance.bandit,
        instance.network,
        {name: player.algorithm for name, player in players.items()},
        horizon=ROUNDS,
        runs=RUNS,
        seed=SEED,
        keep=("agents", "means", "messages"),
    )


def scores_of(made, number):
    (instance,) = [each for each in made.instances if each.number == number]
    return {score.algorithm: score for score in instance.scoreboard.rows}


def test_scores_are_those_of_a_comparison(played, made):
    (instance,) = suite.choose_instances("16")
    results = compared(instance, played.players)
    scores = scores_of(made, 16)
    drawn = {curve.name: curve for curve in made.instances[0].curves}
    assert set(scores) == {"dec-TS", *NAMES}
    dec_ts = results["dec-TS"].regret[:, -1]
    for name, result in results.items():
        score, final = scores[name], result.regret[:, -1]
        assert score.regret.mean == pytest.approx(final.mean())
        assert score.regret.standard_error == pytest.approx(final.std(ddof=1) / math.sqrt(RUNS))
        assert score.engine == result.engine
        assert score.ratio == pytest.approx(final.mean() / dec_ts.mean())
        assert score.worst_agent == pytest.approx(result.agent_regret[:, :, -1].max(axis=1).mean())
        assert score.sent_per_round == pytest.approx(result.numbers_sent[:, -1].mean() / ROUNDS)
        wrong = [
            result.means[run][np.argmax(result.pulls[run].sum(axis=0))] < result.means[run].max()
            for run in range(RUNS)
        ]
        assert score.tail.wrong_leader == pytest.approx(np.mean(wrong))
        assert (score.tail.percentile_95, score.tail.percentile_99) == (None, None)  # of 12 runs
        assert drawn[name].times[-1] == ROUNDS
        assert drawn[name].mean[-1] == pytest.approx(score.regret.mean)
        if name == "dec-TS":
            assert (score.difference, score.verdict) == (None, scoreboard.REFERENCE)
        else:
            pair = score.difference
            assert (pair.first, pair.second) == (name, "dec-TS")
            assert pair.difference.mean == pytest.approx((final - dec_ts).mean())
            assert pair.difference.low <= pair.difference.mean <= pair.difference.high
            assert pair.adjusted_p >= pair.p


def test_verdicts_follow_from_what_holm_leaves(made):
    scores = [score for instance in made.instances for score in instance.scoreboard.rows]
    compared = [score for score in scores if score.difference is not None]
    assert len(compared) == 5 + 4 + 5
    smallest = min((score.difference for score in compared), key=lambda pair: pair.p)
    assert smallest.adjusted_p == pytest.approx(min(1.0, smallest.p * len(compared)))
    for score in compared:
        expected = scoreboard.UNDECIDED
        if score.difference.adjusted_p < 0.05:
            better = score.difference.difference.mean < 0
            expected = scoreboard.BETTER if better else scoreboard.WORSE
        assert score.verdict == expected
    verdicts = {score.verdict for score in compared}
    assert verdicts >= {scoreboard.WORSE, scoreboard.UNDECIDED}


def test_the_better_version_is_ranked_and_bounds_are_not(made):
    for instance in made.instances:
        rows = instance.scoreboard.rows
        scores = {score.algorithm: score for score in rows}
        means = [score.regret.mean for score in rows]
        assert means == sorted(means)
        published, kl = scores["UCB-Network"], scores["UCB-Network (KL)"]
        better, other = sorted([published, kl], key=lambda score: score.regret.mean)
        assert better.rank >= 1
        assert other.rank is None
        assert not other.on_front
        assert scores["centralized TS"].rank is None
        ranked = [score for score in rows if score.rank is not None]
        assert min(score.rank for score in ranked) == 1
        assert ranked[0].on_front  # who has least regret
        assert scores["isolated TS"].on_front  # who sends nothing


def test_refusals_are_sentences(made):
    refused = {i.number: {r.algorithm: r.why for r in i.refusals} for i in made.instances}
    assert refused[16] == refused[23] == {}
    assert set(refused[21]) == {"DDUCB"}
    assert "static network" in refused[21]["DDUCB"]


def test_standings_are_geometric_means_of_ratios(made):
    rows = {row.algorithm: row for row in made.standings}
    assert set(rows) == {"dec-TS", "isolated TS", "DDUCB", "UCB-Network", "centralized TS"}
    assert (rows["dec-TS"].ratio, rows["dec-TS"].instances) == (1.0, 3)
    for name, numbers in {"isolated TS": (16, 21, 23), "DDUCB": (16, 23)}.items():
        ratios = [scores_of(made, number)[name].ratio for number in numbers]
        row = rows[name]
        assert row.instances == len(numbers)
        assert row.ratio == pytest.approx(math.prod(ratios) ** (1 / len(ratios)))
        assert row.ratio_low < row.ratio < row.ratio_high
        assert row.worst_ratio == max(ratios)
        assert row.worst_instance == numbers[int(np.argmax(ratios))]
        assert row.better + row.worse + row.undecided == len(numbers)
    ratio = math.prod(
        min(scores_of(made, number)[name].ratio for name in ("UCB-Network", "UCB-Network (KL)"))
        for number in (16, 21, 23)
    ) ** (1 / 3)
    assert rows["UCB-Network"].ratio == pytest.approx(ratio)
    assert rows["centralized TS"].rank is None
    assert made.standings[-1].algorithm == "centralized TS"
    assert made.standings[0].rank == 1
    assert rows["isolated TS"].rank > rows["dec-TS"].rank


def test_the_lower_bound_and_the_notes_are_told(made):
    (instance,) = suite.choose_instances("23")
    slope = posse.theory.lai_robbins(instance.bandit, 4)
    (shown,) = [each for each in made.instances if each.number == 23]
    assert shown.lower_bound == pytest.approx(slope * math.log(ROUNDS))
    assert (shown.horizon, shown.full_horizon) == (ROUNDS, 3000)
    text = " ".join(made.notes)
    assert "3 of 3 instances stop early" in text
    assert "the 95th percentile of runs needs 40" in text
    assert any(each.mixed for each in made.instances) == ("less sharp" in text)


def test_report_and_table_are_files(made, tmp_path):
    tables.write_data(made, tmp_path)
    assert json.loads((tmp_path / "report.json").read_text())["reference"] == "dec-TS"
    lines = (tmp_path / "table.csv").read_text().splitlines()
    assert lines[0].startswith("instance,name,n_agents,n_arms,horizon,algorithm,engine,runs,mean,")
    assert len(lines) == 1 + 6 + 5 + 6


def test_what_was_played_is_not_played_again(played, made, monkeypatch):
    again = Arena(played.instances, played.players, played.form, played.folder)
    assert again.missing_jobs == []
    from posse.lab.jobs import workers

    monkeypatch.setattr(workers, "play_part", None)
    again.play_missing(threads=1)
    assert report.build_report(again, 1.5, "2 threads") == made
    more = Arena(played.instances, played.players, Form("custom", 14, ROUNDS, SEED), played.folder)
    assert {runs for _, runs in more.missing_jobs} == {2}


def test_two_runs_claim_nothing(played):
    few = Arena(played.instances, played.players, Form("custom", 2, ROUNDS, SEED), played.folder)
    made = report.build_report(few, 1.0, "2 threads")
    scores = [score for instance in made.instances for score in instance.scoreboard.rows]
    verdicts = {score.verdict for score in scores}
    assert verdicts == {scoreboard.UNDECIDED, scoreboard.REFERENCE}
    assert {score.rank for score in scores} == {None, 1}
    assert {row.rank for row in made.standings} == {None, 1}
    assert "2 runs decide nothing" in " ".join(made.notes)


def test_forms():
    quick, full = choose_form(False, None, None, None), choose_form(True, None, None, None)
    assert (quick.mode, quick.runs, quick.seed) == ("quick", QUICK_RUNS, suite.load_suite().seed)
    assert (full.mode, full.runs) == ("full", 200)
    for instance in suite.load_suite().instances:
        assert full.horizon(instance) == instance.horizon
        assert quick.horizon(instance) <= QUICK_HORIZON
        assert quick.horizon(instance) * instance.network.n_agents <= QUICK_STEPS
    assert (
        choose_form(False, 30, None, None).mode
        == choose_form(True, None, 900, None).mode
        == "custom"
    )
    assert choose_form(False, None, 900, 3).horizon(suite.choose_instances("6")[0]) == 900
    for wrong in ({"runs": 1}, {"horizon": 0}, {"seed": -1}):
        with pytest.raises(ValueError, match=f"{next(iter(wrong))} must be"):
            choose_form(**{"full": False, "runs": None, "horizon": None, "seed": None, **wrong})


def test_processes_are_for_much_work_in_plain_python(played):
    (job,) = [job for key, job in played.jobs.items() if key == (16, "UCB-Network")]
    if job.engine == "reference":
        assert choose_workers([(job, 1)]) is None


def test_an_even_split_changes_nothing_about_the_others(played, made):
    """It is shown with its difference, but neither ranked nor part of others' corrections."""
    with_split = Arena(
        played.instances,
        line_up.choose_players([*NAMES, line_up.EVEN_SPLIT]),
        played.form,
        played.folder,
    )
    with_split.play_missing(threads=1)
    more = report.build_report(with_split, 1.5, "2 threads")
    assert [row for row in more.standings if row.algorithm != line_up.EVEN_SPLIT] == list(
        made.standings
    )
    for before, after in zip(made.instances, more.instances, strict=True):
        rows = {row.algorithm: row for row in after.scoreboard.rows}
        split = rows.pop(line_up.EVEN_SPLIT)
        assert rows == {row.algorithm: row for row in before.scoreboard.rows}
        assert split.rank is None
        assert split.difference is not None
        assert split.regret.mean > rows["dec-TS"].regret.mean
    (row,) = [row for row in more.standings if row.algorithm == line_up.EVEN_SPLIT]
    assert (row.rank, row.better) == (None, 0)
