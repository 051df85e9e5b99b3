"""Discounted and sliding-window UCB against plain sums over all past rounds, as published."""

import math

import numpy as np
import pytest

import posse
from posse import networks
from posse.bandits import Rotation
from posse.randomness import create_generator

MEANS = [0.8, 0.4, 0.0]
SEED, RUNS, HORIZON = 11, 3, 60
NETWORK = networks.path(2)
BANDIT = posse.Bandit.gaussian(MEANS, sigma=0.5).drifting(Rotation(20))
RIVALS = {
    "discount": posse.DiscountedUCB(0.9),
    "half-life": posse.DiscountedUCB(half_life=5, exploration=0.7),
    "own sigma": posse.DiscountedUCB(0.97, sigma=0.2),
    "window": posse.SlidingWindowUCB(15),
    "short window": posse.SlidingWindowUCB(4, exploration=0.6, sigma=0.3),
    "window that never ends": posse.SlidingWindowUCB(1000),
}


def weight(algorithm, age):
    """What a pull of so many rounds ago counts for."""
    if isinstance(algorithm, posse.SlidingWindowUCB):
        return 1.0 if age < algorithm.window else 0.0
    if algorithm.discount is not None:
        return algorithm.discount**age
    return 0.5 ** (age / algorithm.half_life)


def plain(algorithm, run):
    """The pulls of one run: each index from a sum over all the past, nothing of posse's."""
    order = create_generator(SEED, run, "permutation").permutation(len(MEANS))
    noise = create_generator(SEED, run, "rewards")
    bound = 2 * (algorithm.sigma or 0.5)
    past = [[] for _ in range(NETWORK.n_agents)]
    pulls = np.zeros((NETWORK.n_agents, len(MEANS)), int)
    for t in range(1, HORIZON + 1):
        played = []
        for mine in past:
            if t <= len(MEANS):
                played.append(t - 1)
                continue
            indices = []
            weights = [weight(algorithm, t - 1 - s) for s, _, _ in mine]
            for k in range(len(MEANS)):
                n = sum(w for w, (_, arm, _) in zip(weights, mine, strict=True) if arm == k)
                if n == 0:
                    indices.append(math.inf)
                    continue
                rows = zip(weights, mine, strict=True)
                mean = sum(w * reward for w, (_, arm, reward) in rows if arm == k) / n
                if isinstance(algorithm, posse.SlidingWindowUCB):
                    log, times = math.log(min(t, algorithm.window)), 1
                else:
                    log, times = math.log(sum(weights)), 2
                indices.append(mean + times * bound * math.sqrt(algorithm.exploration * log / n))
            assert sorted(indices)[-1] > sorted(indices)[-2]  # no tie, which chance would break
            played.append(int(np.argmax(indices)))
        z = noise.standard_normal(len(played))
        turned = (t - 1) // 20
        for i, k in enumerate(played):
            arm = int(order[k])
            pulls[i, arm] += 1
            past[i].append((t, k, MEANS[(arm - turned) % len(MEANS)] + 0.5 * z[i]))
    return pulls


@pytest.mark.parametrize("name", RIVALS)
def test_the_arms_of_a_plain_loop(name):
    """Written (s, arm, reward): a pull of round s is of age t - 1 - s when round t is chosen."""
    result = posse.simulate(
        BANDIT, NETWORK, RIVALS[name], horizon=HORIZON, runs=RUNS, seed=SEED, keep="messages"
    )
    for run in range(RUNS):
        np.testing.assert_array_equal(result.pulls[run], plain(RIVALS[name], run))
    assert not result.numbers_sent.any()


def test_states_are_values():
    """Learning twice from one state gives the same twice: nothing is kept beside it."""
    from posse.algorithms import Problem

    problem = Problem(2, 3, 10, posse.families.Gaussian(), NETWORK)
    arms, rewards = np.array([[0, 1]]), np.array([[1.0, 2.0]])
    for algorithm in (posse.SlidingWindowUCB(1), posse.DiscountedUCB(0.5)):
        first = algorithm.learn(algorithm.init(problem), arms, rewards, None)
        again = [algorithm.learn(first, arms + 1, rewards, None) for _ in range(2)]
        np.testing.assert_array_equal(again[0].counts, again[1].counts)
        np.testing.assert_array_equal(first.counts, [[[1, 0, 0], [0, 1, 0]]])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (posse.DiscountedUCB, "give either discount or half_life"),
        (lambda: posse.DiscountedUCB(0.9, 5), "give either discount or half_life"),
        (lambda: posse.DiscountedUCB(1), "discount must be a finite number above 0 and below 1"),
        (lambda: posse.DiscountedUCB(half_life=0), "half_life must be a finite number above 0"),
        (lambda: posse.DiscountedUCB(0.9, exploration=0), "exploration must be"),
        (lambda: posse.SlidingWindowUCB(0), "window must be a whole number at least 1, got 0"),
        (lambda: posse.SlidingWindowUCB(2.5), "window must be a whole number"),
        (lambda: posse.SlidingWindowUCB(5, exploration=-1), "exploration must be"),
        (lambda: posse.SlidingWindowUCB(5, sigma=0), "sigma must be"),
    ],
)
def test_what_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
