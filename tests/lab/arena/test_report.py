"""The report's numbers against those of `posse.compare`, counted the plain way."""

import json
import math

import numpy as np
import pytest

import posse
from posse.lab.arena import players as line_up
from posse.lab.arena import report_data as data
from posse.lab.arena import report_data as tables
from posse.lab.arena import standings as report
from posse.lab.arena import suite
from posse.lab.arena.tournament import (
    QUICK_HORIZON,
    QUICK_RUNS,
    QUICK_STEPS,
    Arena,
    Form,
    form,
    workers_for,
)

NAMES = ["isolated TS", "DDUCB", "UCB-Network", "UCB-Network (KL)", "centralized TS"]
RUNS, ROUNDS, SEED = 12, 60, 5


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """Three instances, of which DDUCB cannot play gossip."""
    arena = Arena(
        suite.chosen("16,21,23"),
        line_up.chosen(NAMES),
        Form("custom", RUNS, ROUNDS, SEED),
        tmp_path_factory.mktemp("arena"),
    )
    arena.play(threads=1)
    return arena


@pytest.fixture(scope="module")
def made(played):
    return report.report_of(played, 1.5, "2 threads")


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
    return {score.algorithm: score for score in instance.scores}


def test_scores_are_those_of_a_comparison(played, made):
    (instance,) = suite.chosen("16")
    results = compared(instance, played.players)
    scores = scores_of(made, 16)
    assert set(scores) == {"dec-TS", *NAMES}
    dec_ts = results["dec-TS"].regret[:, -1]
    for name, result in results.items():
        score, final = scores[name], result.regret[:, -1]
        assert score.mean == pytest.approx(final.mean())
        assert score.standard_error == pytest.approx(final.std(ddof=1) / math.sqrt(RUNS))
        assert score.engine == result.engine
        assert score.ratio == pytest.approx(final.mean() / dec_ts.mean())
        assert score.worst_agent == pytest.approx(result.agent_regret[:, :, -1].max(axis=1).mean())
        assert score.numbers_sent == pytest.approx(result.numbers_sent[:, -1].mean() / ROUNDS)
        wrong = [
            result.means[run][np.argmax(result.pulls[run].sum(axis=0))] < result.means[run].max()
            for run in range(RUNS)
        ]
        assert score.wrong_share == pytest.approx(np.mean(wrong))
        assert (score.percentile_95, score.percentile_99) == (None, None)  # of 12 runs
        assert score.curve.times[-1] == ROUNDS
        assert score.curve.mean[-1] == pytest.approx(score.mean)
        if name == "dec-TS":
            assert (score.difference, score.p, score.verdict) == (None, None, data.REFERENCE)
        else:
            assert score.difference == pytest.approx((final - dec_ts).mean())
            assert score.difference_low <= score.difference <= score.difference_high
            assert score.adjusted_p >= score.p


def test_verdicts_follow_from_what_holm_leaves(made):
    scores = [score for instance in made.instances for score in instance.scores]
    known = [score for score in scores if score.p is not None]
    assert len(known) == 5 + 4 + 5
    smallest = min(known, key=lambda score: score.p)
    assert smallest.adjusted_p == pytest.approx(min(1.0, smallest.p * len(known)))
    for score in known:
        expected = data.UNDECIDED
        if score.adjusted_p < 0.05:
            expected = data.BETTER if score.difference < 0 else data.WORSE
        assert score.verdict == expected
    assert {score.verdict for score in known} >= {data.WORSE, data.UNDECIDED}


def test_the_better_version_is_ranked_and_bounds_are_not(made):
    for instance in made.instances:
        scores = {score.algorithm: score for score in instance.scores}
        means = [score.mean for score in instance.scores]
        assert means == sorted(means)
        published, kl = scores["UCB-Network"], scores["UCB-Network (KL)"]
        better, other = sorted([published, kl], key=lambda score: score.mean)
        assert better.rank >= 1
        assert other.rank is None
        assert not other.on_front
        assert scores["centralized TS"].rank is None
        ranked = [score for score in instance.scores if score.rank is not None]
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
    (instance,) = suite.chosen("23")
    slope = posse.theory.lai_robbins(instance.bandit, 4)
    (shown,) = [each for each in made.instances if each.number == 23]
    assert shown.lower_bound == pytest.approx(slope * math.log(ROUNDS))
    assert (shown.horizon, shown.full_horizon) == (ROUNDS, 3000)
    text = " ".join(made.notes)
    assert "3 of 3 instances stop early" in text
    assert "the 95th percentile of runs needs 40" in text
    assert any(each.mixed for each in made.instances) == ("less sharp" in text)


def test_report_and_table_are_files(made, tmp_path):
    tables.write(made, tmp_path)
    assert json.loads((tmp_path / "report.json").read_text())["reference"] == "dec-TS"
    lines = (tmp_path / "table.csv").read_text().splitlines()
    assert lines[0].startswith("instance,name,n_agents,n_arms,horizon,algorithm,engine,runs,mean,")
    assert len(lines) == 1 + 6 + 5 + 6


def test_what_was_played_is_not_played_again(played, made, monkeypatch):
    again = Arena(played.instances, played.players, played.form, played.folder)
    assert again.missing == []
    from posse.lab.jobs import workers

    monkeypatch.setattr(workers, "play_part", None)
    again.play(threads=1)
    assert report.report_of(again, 1.5, "2 threads") == made
    more = Arena(played.instances, played.players, Form("custom", 14, ROUNDS, SEED), played.folder)
    assert {runs for _, runs in more.missing} == {2}


def test_two_runs_claim_nothing(played):
    few = Arena(played.instances, played.players, Form("custom", 2, ROUNDS, SEED), played.folder)
    made = report.report_of(few, 1.0, "2 threads")
    scores = [score for instance in made.instances for score in instance.scores]
    assert {score.verdict for score in scores} == {data.UNDECIDED, data.REFERENCE}
    assert {score.rank for score in scores} == {None, 1}
    assert {row.rank for row in made.standings} == {None, 1}
    assert "2 runs decide nothing" in " ".join(made.notes)


def test_forms():
    quick, full = form(False, None, None, None), form(True, None, None, None)
    assert (quick.mode, quick.runs, quick.seed) == ("quick", QUICK_RUNS, suite.suite().seed)
    assert (full.mode, full.runs) == ("full", 200)
    for instance in suite.suite().instances:
        assert full.horizon(instance) == instance.horizon
        assert quick.horizon(instance) <= QUICK_HORIZON
        assert quick.horizon(instance) * instance.network.n_agents <= QUICK_STEPS
    assert form(False, 30, None, None).mode == form(True, None, 900, None).mode == "custom"
    assert form(False, None, 900, 3).horizon(suite.chosen("6")[0]) == 900
    for wrong in ({"runs": 1}, {"horizon": 0}, {"seed": -1}):
        with pytest.raises(ValueError, match=f"{next(iter(wrong))} must be"):
            form(**{"full": False, "runs": None, "horizon": None, "seed": None, **wrong})


def test_processes_are_for_much_work_in_plain_python(played):
    (job,) = [job for key, job in played.jobs.items() if key == (16, "UCB-Network")]
    if job.engine == "reference":
        assert workers_for([(job, 1)]) is None
