"""The page on offline evaluation, run on exports of a simulated agent whose true values are known.

Seeds are fixed; a right estimator fails a test with probability below 1e-6 (5 standard errors).
"""

from __future__ import annotations

import io
import re
from pathlib import Path

import numpy as np
import pytest

from posse import families
from posse.live.agent.agent import Agent
from posse.live.experiment.decision_request import DecisionRequest
from posse.live.experiment.experiment import LiveExperiment
from posse.live.experiment.reward_window import RewardWindow
from posse.live.store import Store, export_decisions

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "offline.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
RATES = {"red": 0.30, "green": 0.2, "blue": 0.1}
WINDOW = 50.0


def world(path, name, seed, decisions, **options):
    """An agent whose successes come within the window, some visitors may not see red; the export.

    Twenty visitors a second; all of it is one transaction, so that it takes no time on disk.
    """
    now = [1e6]
    agent = Agent(
        list(RATES), families.Bernoulli(), seed=seed, silent_default=0.0, **options,
        exchange_options={"identity": name},
    )  # fmt: skip
    generator = np.random.default_rng(seed)
    store = Store.open(path, fingerprint=agent.fingerprint, owner=name)
    one = LiveExperiment(
        "default", agent, store, reward_window=RewardWindow(WINDOW, 0.0), clock=lambda: now[0]
    )
    due = []
    with store, store.transaction():
        for _ in range(decisions // 20):
            now[0] += 1.0
            few = (u < 0.3 for u in generator.random(20))
            made = one.draw_decisions(
                [DecisionRequest(None, ["blue", "green"] if f else None) for f in few]
            )
            store.add_decisions(made)
            wins = generator.random(20) < [RATES[each.arm] for each in made]
            waits = generator.uniform(0, 0.9 * WINDOW, 20)
            due += [(now[0] + w, d.id) for d, won, w in zip(made, wins, waits, strict=True) if won]
            ready = [(id_, 1.0) for when, id_ in due if when <= now[0]]
            due = [each for each in due if each[0] > now[0]]
            store.add_rewards(ready, now[0])
            one.close_windows(now[0])
    file = io.StringIO()
    export_decisions(path, file)
    return file.getvalue()


@pytest.fixture
def session(tmp_path, monkeypatch):
    """What the blocks of the page leave behind, after they read this log."""

    def run(text):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "decisions.jsonl").write_text(text, encoding="utf-8")
        names = {"__name__": "offline"}
        for block in BLOCKS:
            block = block.replace("window = 0.0", f"window = {WINDOW}")
            exec(compile(block, str(PAGE), "exec"), names)
        return names

    return run


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """Of two agents that give every arm a tenth at least."""
    folder = tmp_path_factory.mktemp("logs")
    return [
        world(folder / f"{name}.db", name, seed, 3000, min_share=0.1, new_arm_share=1 / 3)
        for seed, name in enumerate(["berlin", "paris"])
    ]


def values(arm):
    """What the policy `only(arm)` earns a decision, where 30% may not see red."""
    full, few = RATES[arm], RATES[arm] if arm != "red" else (RATES["green"] + RATES["blue"]) / 2
    return 0.7 * full + 0.3 * few


@pytest.mark.filterwarnings("error")
def test_the_page_finds_the_true_values(session, logs, capsys):
    """By all three estimators, of every arm and of an even choice, within 5 standard errors."""
    names = session("".join(logs))
    log, evaluate, only = names["log"], names["evaluate"], names["only"]
    assert set(log.site) == {"berlin", "paris"}
    assert set(log.experiment) == {"default"}
    assert log.probability.min() >= 0.1
    for _, row in log.iloc[::50].iterrows():
        assert sum(row.probabilities) == pytest.approx(1.0, abs=1e-6)
        assert row.probabilities[row.allowed.index(row.arm)] == row.probability
    for arm in RATES:
        table = evaluate(log, only(arm))
        errors = (table["value"] - values(arm)) / table["standard error"]
        assert (errors.abs() < 5).all(), (arm, table)
        assert (table["standard error"] < 0.03).all()
    even = evaluate(log, lambda arms: dict.fromkeys(arms, 1 / len(arms)))
    truth = 0.7 * np.mean(list(RATES.values())) + 0.3 * (0.2 + 0.1) / 2
    assert ((even["value"] - truth).abs() < 5 * even["standard error"]).all()
    # rewards of the young ones are successes nearly all, which the page leaves out
    settled = names["pd"].DataFrame(map(names["json"].loads, "".join(logs).splitlines()))
    young = settled[(settled.time > settled.time.max() - WINDOW) & settled.reward.notna()]
    assert young.reward.mean() > 0.9
    assert "blue" in capsys.readouterr().out


def test_a_least_share_keeps_losers_in_the_log(session, logs, tmp_path):
    """Without one a decision for the worst arm would come to weigh as much as hundreds."""
    last = {}
    without = world(tmp_path / "without.db", "a", 3, 3000, min_share=0.0)
    for share, text in {0.0: without, 0.1: logs[0]}.items():
        names = session(text)
        log = names["log"][names["log"].allowed.str.len() == 3]
        last[share] = [each[2] for each in log.probabilities.iloc[-100:]]
        table = names["evaluate"](names["log"], names["only"]("red"))
        assert ((table["value"] - values("red")).abs() < 5 * table["standard error"]).all()
    assert max(last[0.0]) < 0.01
    assert min(last[0.1]) >= 0.1
    assert table["weight"].iloc[0] == pytest.approx(1.0, abs=0.2)
