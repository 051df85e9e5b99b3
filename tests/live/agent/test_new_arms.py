"""New arms beside settled ones, in simulated time with a real store: rewards come late.

The true rates are 4% and 3%, and 1% of the new arm; five visitors a second, and a reward takes up
to the window. Seeds are fixed; bounds are 5 standard deviations, an error rate of 1e-6.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from posse.families import Bernoulli
from posse.live.config.experiment_settings import ExperimentSettings
from posse.live.experiment.decision_request import DecisionRequest
from posse.live.experiment.experiment import LiveExperiment
from posse.live.experiment.reward_window import RewardWindow
from posse.live.store import Store

RATES = {"red": 0.04, "green": 0.03, "new": 0.01}
WINDOW = 60.0
VISITORS = 5  # a second
SETTLED = ("red", "green")


def play(path, seconds, default, **options):
    """The decisions of so many seconds after a new arm came, and what is then known of all."""
    now, rows, due = [1e6], [], []
    settings = ExperimentSettings(
        SETTLED, Bernoulli(), reward_window=WINDOW, default_reward=default, **options
    )
    later = replace(settings, arms=(*SETTLED, "new"))
    agent, generator = settings.make_agent(seed=1), np.random.default_rng(2)
    with Store.open(path, fingerprint=agent.fingerprint) as store:
        one = LiveExperiment(
            "shop", agent, store, reward_window=RewardWindow(WINDOW, default), clock=lambda: now[0]
        )
        with store.transaction():
            for arm in SETTLED:
                for index in range(3000):
                    agent.learn(arm, float(index % 100 < 100 * RATES[arm]))
        one.set_arms(later.arms, later.shares)  # as by a reload
        with store.transaction():
            for _ in range(seconds):
                now[0] += 1.0
                made = one.draw_decisions([DecisionRequest()] * VISITORS)
                rows += store.add_decisions(made)
                for each in made:
                    won = generator.random() < RATES[each.arm]
                    if won or default is None:
                        due.append((now[0] + generator.uniform(0, WINDOW), each.id, float(won)))
                store.add_rewards([(id_, y) for when, id_, y in due if when <= now[0]], now[0])
                due = [each for each in due if each[0] > now[0]]
                one.close_windows(now[0])
        return rows, one.arms()


def visits_of(rows, arm="new"):
    """How many of the decisions were for an arm."""
    return sum(each.arm == arm for each in rows)


def most(count, share):
    """As many of so many visits as a share can be without doubt."""
    return count * share + 5 * np.sqrt(count * share * (1 - share))


@pytest.mark.parametrize("default", [0.0, None], ids=["successes reported", "all reported"])
@pytest.mark.parametrize("options", [{}, {"new_arm_share": 0.1, "min_share": 0.02}], ids=repr)
def test_a_new_arm_gets_at_most_its_share(tmp_path, default, options):
    """In its first window, whatever is heard of it meanwhile; every arm gets the least share."""
    rows, status = play(tmp_path / "agent.db", int(WINDOW), default, **options)
    floor, cap = options.get("min_share", 0.0), options.get("new_arm_share", 1 / 3)
    share = (1 - 3 * floor) * cap + floor
    assert len(rows) == 300
    assert status["new"]["pulls_here"] < 100  # it is new throughout
    assert visits_of(rows) <= most(300, share)
    said = np.array([np.frombuffer(each.probabilities, "<f4") for each in rows])
    assert (said[:, 2] <= share + 1e-6).all()
    assert (said >= floor - 1e-6).all()
    for each, probabilities in zip(rows, said, strict=True):
        rounded = probabilities[list(RATES).index(each.arm)]
        assert each.probability == pytest.approx(rounded, rel=1e-6)
    if default is None:  # nothing tells that it is bad, and the cap has to
        assert visits_of(rows) >= 300 * share - 5 * np.sqrt(300 * share)


def test_without_the_cap_it_gets_most(tmp_path):
    """As it was: little is known of it until the first rewards come."""
    rows, _ = play(tmp_path / "agent.db", 20, None, new_arm_share=1.0)
    assert visits_of(rows) > most(len(rows), 1 / 3)


def test_in_the_end_it_is_judged_by_its_rewards(tmp_path):
    """After five windows the policy knows it, and it is played less than its share."""
    rows, status = play(tmp_path / "agent.db", int(5 * WINDOW), 0.0, min_share=0.02)
    assert visits_of(rows) <= most(len(rows), 0.94 / 3 + 0.02)
    assert visits_of(rows[-300:]) < 0.2 * 300
    assert status["new"]["high"] < 0.5
