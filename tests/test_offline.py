"""Off-policy estimators against plain loops, closed forms, and logs whose true values are known.

Seeds are fixed; a right estimator fails a statistical test with probability below 1e-6.
"""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from posse import offline

RATES = {"red": 0.30, "green": 0.2, "blue": 0.1}
ARMS = sorted(RATES)


def make_rows(seed, n, probabilities=(0.2, 0.5, 0.3), window=0.0, **fields):
    """Exported decisions of a policy with these probabilities of blue, green and red."""
    generator = np.random.default_rng(seed)
    rows = []
    for i in range(n):
        k = int(generator.choice(3, p=probabilities))
        reward = float(generator.random() < RATES[ARMS[k]])
        rows.append(
            {
                "experiment": "default", "site": "berlin", "id": f"d{i}", "arm": ARMS[k],
                "probability": probabilities[k], "allowed": ARMS,
                "probabilities": list(probabilities), "time": float(i), "reward": reward,
                "settled": float(i), "silent": False, "closed": i + window, "assumed": None,
                "superseded": False, "context": None, "visitor": None, **fields,
            }
        )  # fmt: skip
    return rows


# The estimators ---------------------------------------------------------------------------


def plain_estimates(rewards, propensities, target, predicted, baseline):
    """The three estimates by loops, from their definitions (Dudik, Langford and Li 2011)."""
    n = len(rewards)
    weights = [t / p for t, p in zip(target, propensities, strict=True)]
    ips = sum(w * y for w, y in zip(weights, rewards, strict=True)) / n
    snips = ips / (sum(weights) / n)
    robust = 0.0
    for w, y, q, b in zip(weights, rewards, predicted, baseline, strict=True):
        robust += b + w * (y - q)
    return ips, snips, robust / n


def random_problem(seed, n=500):
    generator = np.random.default_rng(seed)
    return (
        generator.normal(size=n),
        generator.uniform(0.05, 1.0, n),
        generator.uniform(0.0, 1.0, n),
        generator.normal(size=n),
        generator.normal(size=n),
    )


@pytest.mark.parametrize("seed", range(5))
def test_the_estimates_are_those_of_plain_loops(seed):
    problem = random_problem(seed)
    expected = plain_estimates(*problem)
    assert offline.ips(*problem[:3]).value == pytest.approx(expected[0], rel=1e-12)
    assert offline.snips(*problem[:3]).value == pytest.approx(expected[1], rel=1e-12)
    assert offline.doubly_robust(*problem).value == pytest.approx(expected[2], rel=1e-12)


def test_the_errors_are_those_of_the_bootstrap():
    """Of 2,000 resamples, within 12%: five standard errors of a bootstrap's own spread."""
    problem = np.array(random_problem(7, 400))
    generator = np.random.default_rng(8)
    samples = [problem[:, generator.integers(400, size=400)] for _ in range(2000)]
    for estimate, rows in ((offline.ips, 3), (offline.snips, 3), (offline.doubly_robust, 5)):
        spread = np.std([estimate(*sample[:rows]).value for sample in samples])
        assert estimate(*problem[:rows]).error == pytest.approx(spread, rel=0.12)


def test_effective_samples_and_the_mean_weight():
    """Three weights of 2 are worth three decisions, and a weight of 0 is worth none."""
    estimate = offline.ips([1, 1, 1, 1], [0.5] * 4, [1, 1, 1, 0])
    assert estimate.effective_samples == pytest.approx(3.0)
    assert estimate.weight == 1.5
    assert (estimate.low + estimate.high) / 2 == pytest.approx(estimate.value)
    assert estimate.high - estimate.low == pytest.approx(2 * 1.959964 * estimate.error, rel=1e-6)


def test_a_log_without_any_choice_of_the_policy_has_no_snips():
    assert math.isnan(offline.snips([1.0], [0.5], [0.0]).value)
    assert offline.ips([1.0, 2.0], [0.5, 0.5], [0.0, 0.0]).effective_samples == 0.0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (([], [], []), "one length"),
        (([1.0, 2.0], [0.5], [0.5]), "one length"),
        (([math.nan], [0.5], [0.5]), "rewards must be finite"),
        (([1.0], [0.0], [0.5]), "propensities must be above 0"),
        (([1.0], [0.5], [1.5]), "target must be probabilities"),
    ],
)
def test_wrong_arrays_are_refused(arguments, sentence):
    for estimate in (offline.ips, offline.snips):
        with pytest.raises(ValueError, match=sentence):
            estimate(*arguments)
    with pytest.raises(ValueError, match="predicted must be 1 finite numbers"):
        offline.doubly_robust([1.0], [0.5], [0.5], [1.0, 2.0], [1.0])


# Logs ---------------------------------------------------------------------------------------


def test_true_values_lie_in_the_intervals():
    """Of every arm, of an even split and of greedy, which is red: within 5 standard errors."""
    log = offline.build_log(make_rows(1, 6000))
    truths = {f"arm={arm}": rate for arm, rate in RATES.items()}
    truths |= {"uniform": 0.2, "greedy": 0.3}
    for policy, truth in truths.items():
        evaluation = offline.evaluate(log, policy)
        for estimate in evaluation.estimates.values():
            assert abs(estimate.value - truth) < 5 * estimate.error, policy
            assert estimate.error < 0.02
        assert evaluation.warnings == ()
    logged = offline.evaluate_logged(log)
    assert logged.value == pytest.approx(log.rewards.mean())
    assert logged.weight == 1.0


def test_greedy_is_not_judged_by_the_rewards_that_chose_it():
    """Arms that are all alike: the best of the same rewards would look better than it is."""
    generator = np.random.default_rng(2)
    names = [f"arm {k:02}" for k in range(20)]
    values = []
    for _ in range(40):
        arms = generator.integers(20, size=400)
        log = offline.Log(
            tuple(names), arms, (generator.random(400) < 0.3).astype(float),
            np.full((400, 20), 0.05), np.ones((400, 20), dtype=bool), {},
        )  # fmt: skip
        values.append(offline.evaluate(log, "greedy").estimates["SNIPS"].value)
    assert abs(np.mean(values) - 0.3) < 5 * np.std(values) / np.sqrt(40)


def test_arms_that_were_not_allowed_are_not_chosen():
    rows = make_rows(3, 300)
    for row in rows[::2]:
        row["allowed"], row["probabilities"] = ["blue", "green"], [0.4, 0.6]
        row["arm"], row["probability"] = "blue", 0.4
    log = offline.build_log(rows)
    assert not log.probabilities[::2, 2].any()
    estimate = offline.evaluate(log, "arm=red").estimates["IPS"]
    weights = np.where(log.allowed[:, 2], (log.played == 2) / 0.3, 0.5 / 0.4)
    assert estimate.weight == pytest.approx(weights.mean())


def test_decisions_that_must_not_be_used_are_left_out():
    rows = make_rows(4, 100, window=20.0)
    rows[0]["superseded"] = True
    rows[1]["reward"] = None
    rows[2]["allowed"] = rows[2]["probabilities"] = None
    rows[3]["holdout"] = True
    rows[4]["cancelled"] = True
    rows[5]["inactive"] = True
    for row in rows[:50]:
        row["silent"] = True
    for row in rows[80:]:
        row["closed"] = None
    log = offline.build_log(rows)
    assert len(log.played) == 100 - 20 - 6
    assert dict(log.left_out) == {
        "younger than the reward window of 20 s": 20,
        "without a reward": 1,
        "superseded": 1,
        "cancelled or never shown": 2,
        "of a holdout": 1,
        "without propensities": 1,
    }
    assert len(offline.build_log(rows, window=0.0).played) == 94


def test_a_site_whose_windows_have_all_closed_loses_only_its_youngest_decisions():
    """What one site knows when it exports says nothing of a site that exported before."""
    closed = [{**row, "site": "rome", "silent": True} for row in make_rows(4, 100, window=20.0)]
    early = [{**row, "site": "oslo", "closed": None} for row in make_rows(5, 100)]
    log = offline.build_log(closed)
    assert log.left_out["younger than the reward window of 20 s"] == 0  # the last closed at 119
    both = offline.build_log([*closed, *early], window=30.0)
    assert both.left_out["younger than the reward window of 30 s"] == 10 + 30


def test_the_log_says_where_it_does_not_know():
    rows = make_rows(5, 2000, probabilities=(0.0, 0.999, 0.001))
    log = offline.build_log(rows)
    (unplayed, uncovered) = offline.evaluate(log, "arm=blue").warnings
    assert unplayed == "the log has no decision for blue"
    assert uncovered.startswith("100% of this policy's choices had a probability below one in")
    (few,) = offline.evaluate(log, "arm=red").warnings
    assert "worth only" in few
    assert offline.evaluate(log, "arm=green").warnings == ()
    wrong = offline.build_log([{**row, "probability": 0.5} for row in make_rows(6, 2000)])
    (weight,) = offline.evaluate(wrong, "arm=blue").warnings
    assert "the mean weight is 0." in weight


def test_mistakes_are_sentences(tmp_path):
    log = offline.build_log(make_rows(7, 10))
    with pytest.raises(ValueError, match="no arm 'pink': it has blue, green, red"):
        offline.evaluate(log, "arm=pink")
    with pytest.raises(ValueError, match="policy must be greedy, uniform or arm=NAME, got 'best'"):
        offline.evaluate(log, "best")
    with pytest.raises(ValueError, match="no decisions of experiment 'x'"):
        offline.build_log(make_rows(7, 10), experiment="x")
    with pytest.raises(ValueError, match="several experiments, choose one of: banner, default"):
        offline.build_log([*make_rows(7, 5), *make_rows(8, 5, experiment="banner")])
    with pytest.raises(ValueError, match="no decision that can be used: 10 superseded"):
        offline.build_log(make_rows(7, 10, superseded=True))
    with pytest.raises(ValueError, match="there is no file"):
        offline.read_log([tmp_path / "nothing.jsonl"])
    (tmp_path / "bad.jsonl").write_text("{}\n[1]\n")
    with pytest.raises(ValueError, match="line 2 is no decision"):
        list(offline.read_rows(tmp_path / "bad.jsonl"))
    (tmp_path / "bad.csv").write_text("id,reward\nx,pear\n")
    with pytest.raises(ValueError, match="column reward must be JSON"):
        list(offline.read_rows(tmp_path / "bad.csv"))


def test_a_file_of_json_lines_is_read_back(tmp_path):
    rows = make_rows(9, 50)
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)) + "\n\n", encoding="utf-8")
    assert list(offline.read_rows(path)) == rows
    log = offline.read_log([path], window=0.0)
    assert log.arms == ("blue", "green", "red")
    np.testing.assert_array_equal(log.propensities, [row["probability"] for row in rows])
