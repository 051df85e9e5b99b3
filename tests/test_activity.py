"""Who plays: the activities themselves, their files, and the sentences that refuse mistakes."""

import numpy as np
import pytest

import posse
from posse import activity
from posse.activity import PlayMasks
from posse.randomness import create_generator

EXAMPLES = {
    "asleep": activity.Asleep(0.4),
    "rates": activity.Rates([0.0, 0.3, 1.0]),
    "shifts": activity.Shifts([1, 4, 2], leaves=[9, 6, 40]),
    "shifts that stay": activity.Shifts([1, 4, 2]),
    "custom": activity.Custom(lambda t, n_agents, generator: generator.random(n_agents) < 0.5),
}


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES)
def test_rounds_drawn_in_parts_are_the_rounds_drawn_at_once(example):
    whole = PlayMasks(example, 3, range(4, 7), 3).draw_rounds(12)
    parts = PlayMasks(example, 3, range(4, 7), 3)
    pieces = [parts.draw_rounds(n) for n in (1, 5, 6)]
    assert whole.shape == (12, 3, 3)
    np.testing.assert_array_equal(np.concatenate(pieces), whole)
    # run 5 is the same in whatever block
    np.testing.assert_array_equal(PlayMasks(example, 3, [5], 3).draw_rounds(12)[:, 0], whole[:, 1])


def test_rates_are_what_they_say():
    """4000 rounds: six standard errors of a share of 1/2 are 0.05."""
    plays = activity.Rates([0.0, 0.3, 1.0]).draw_plays(np.random.default_rng(1), 1, 4000, 3)
    np.testing.assert_allclose(plays.mean(axis=0), [0.0, 0.3, 1.0], atol=0.05)
    assert plays[:, 2].all()
    assert not plays[:, 0].any()
    asleep = activity.Asleep(0.3).draw_plays(np.random.default_rng(1), 1, 4000, 2)
    np.testing.assert_allclose(asleep.mean(axis=0), [0.7, 0.7], atol=0.05)
    # agents sleep independently of each other and of the round before
    correlation = np.corrcoef(np.column_stack([asleep[1:], asleep[:-1]]).T)
    np.testing.assert_allclose(correlation, np.eye(4), atol=0.1)


def test_shifts_play_from_their_first_to_their_last_round():
    plays = activity.Shifts([1, 4], leaves=[2, 5]).draw_plays(
        create_generator(0, 0, "activity"), 1, 6, 2
    )
    assert plays.T.astype(int).tolist() == [[1, 1, 0, 0, 0, 0], [0, 0, 0, 1, 1, 0]]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: activity.Asleep(1.0), "p must be a finite number at least 0 and below 1"),
        (lambda: activity.Asleep(0.5, relays=1), "relays must be True or False, got 1"),
        (lambda: activity.Rates(0.5), "rates must be a list with one number for each agent"),
        (
            lambda: activity.Rates([0.5, 2]),
            "rates must be a finite number at least 0 and at most 1",
        ),
        (lambda: activity.Rates([0, 0]), "rates must not all be 0"),
        (lambda: activity.Shifts([0, 1]), "joins must be a whole number at least 1"),
        (lambda: activity.Shifts([1, 5], [3, 4]), "leaves must not be before joins"),
        (lambda: activity.Shifts([1, 5], [3]), "leaves must have one number for each of the 2"),
        (lambda: activity.Shifts([1, 5], copies=True), "copies needs relays=False"),
        (lambda: activity.Custom(3), "function must be one of"),
    ],
)
def test_mistakes_are_refused_in_a_sentence(build, message):
    with pytest.raises(ValueError, match=message):
        build()


BANDIT = posse.Bandit.bernoulli([0.7, 0.4])
TS = posse.Decentralized(posse.ThompsonSampling())


def mask_of_wrong_length(t, n_agents, generator):
    return np.ones(n_agents + 1, dtype=bool)


def unseeded(t, n_agents, generator):
    return np.random.default_rng().random(n_agents) < 0.5


def failing(t, n_agents, generator):
    raise RuntimeError("no idea")


@pytest.mark.parametrize(
    ("who", "message"),
    [
        (0.5, "activity must be one such as posse.activity.Asleep"),
        (activity.Asleep, "activity must be one such as posse.activity.Asleep"),
        (activity.Rates([1, 0.5]), "rates must have one number for each of the 9 agents, got 2"),
        (activity.Custom(mask_of_wrong_length), r"must return a bool for each of the 9 agents"),
        (activity.Custom(unseeded), "must draw from the generator it is given"),
        (activity.Custom(failing), "failed: RuntimeError: no idea"),
    ],
)
def test_a_simulation_refuses_an_activity_that_does_not_fit(who, message):
    with pytest.raises(ValueError, match=message):
        posse.simulate(BANDIT, posse.networks.cycle(9), TS, horizon=5, runs=1, activity=who)
