"""Evidence: what a reward becomes, and what a sum of it says of a family's arms."""

import numpy as np
import pytest

from posse import beliefs, families
from posse.effective_samples import effective_pulls
from posse.families import FAMILIES, VARIATIONAL, Interval
from posse.live.agent.agent import Agent
from posse.live.agent.evidence import CAUTION, REQUIRED_METHODS, SIGNS, Evidence
from posse.live.ledger.sums import PER_UNIT, to_quanta

LIVE = [name for name in FAMILIES if getattr(FAMILIES[name], "powers", ())]


@pytest.fixture(params=LIVE)
def live(request, with_random_prior):
    """Every registered family that is for live agents, with another prior, in turn."""
    return with_random_prior(FAMILIES[request.param](), np.random.default_rng(9))


@pytest.fixture
def rewards(live, typical_means):
    """Some rewards of it."""
    generator = np.random.default_rng(10)
    return live.draw_rewards(typical_means(live, generator, 30), generator).tolist()


def range_of(family, rewards):
    """The family's own range, or one in which the rewards lie at the ends too."""
    own = family.rewards
    return None if np.isfinite([own.low, own.high]).all() else (min(rewards), max(rewards))


def posterior(family, rewards):
    """The core's belief after these rewards of one arm: (D,)."""
    belief = beliefs.prior(family, 1, 1)
    for reward in rewards:
        belief = beliefs.observe(belief, np.array([0]), np.array([reward]), family, 1.0)
    return belief[:, 0, 0]


def assert_posterior(family, reward_range, rewards, signs):
    """The belief from whole quanta is the core's belief, to a quantum a reward."""
    evidence = Evidence.for_family(family, reward_range, signs)
    generator = np.random.default_rng(0)
    pulls = [np.array(evidence.quantize_reward(y, generator), dtype=object) for y in rewards]
    for quanta in pulls:
        assert all(
            abs(q) <= bound * PER_UNIT for q, bound in zip(quanta, evidence.bounds, strict=True)
        )
    total = tuple(sum(pulls))
    got = family.prior() + evidence.statistic(total)
    np.testing.assert_allclose(got, posterior(family, rewards), rtol=1e-4)
    assert evidence.count_pulls(total) == len(rewards)
    assert len(total) == len(evidence.bounds)


@pytest.mark.parametrize("signs", [0, SIGNS])
def test_a_sum_of_evidence_is_the_posterior(live, rewards, signs):
    assert_posterior(live, range_of(live, rewards), rewards, signs)


@pytest.mark.parametrize(
    ("family", "reward_range", "rewards"),
    [
        (families.Bernoulli(2.0, 3.0), None, [0.0, 1.0, 1.0]),
        (families.Gaussian(0.5, 0.3, 2.0), (-10, 10), [-1.5, 0.25, 9.0]),
        (families.Poisson(), (0, 50), [0.0, 3.0, 50.0]),
        (families.Exponential(), (0, 1e-6), [1e-9, 2e-7, 1e-6]),
        (families.Gaussian(), (500, 501), [500.0, 500.25, 501.0]),
        (families.GaussianUnknownVariance(), (-4, 4), [-4.0, 0.5, 1.25]),
    ],
)
def test_ranges_of_many_sizes(family, reward_range, rewards):
    assert_posterior(family, reward_range, rewards, signs=0)


@pytest.mark.parametrize("exchange", ["origins", "flows"])
def test_agents_of_every_family_pool_their_rewards(live, rewards, exchange):
    """Two neighbours come to hold the posterior of all rewards."""
    size = {"network_size": 2} if exchange == "flows" else {}
    agents = {
        name: Agent(["x", "y"], live, exchange=exchange, reward_range=range_of(live, rewards),
                    seed=1, **size)
        for name in "ab"
    }  # fmt: skip
    agents["a"].connect("b")
    agents["b"].connect("a")
    for name, seen in (("a", rewards[:20]), ("b", rewards[20:])):
        for reward in seen:
            agents[name].learn("x", reward)
    for now in range(20):
        for name in agents:
            waiting = [(name, *sent) for sent in agents[name].tick(now)]
            while waiting:
                source, target, message = waiting.pop(0)
                waiting += [
                    (target, *answer) for answer in agents[target].receive(source, message, now)
                ]
    for agent in agents.values():
        np.testing.assert_allclose(agent.belief[:, 0], posterior(live, rewards), rtol=1e-3)
        np.testing.assert_array_equal(agent.belief[:, 1], live.prior())


@pytest.mark.parametrize("name", VARIATIONAL)
def test_a_variational_family_is_refused_with_its_reason(name, example_of):
    with pytest.raises(ValueError, match=f"^family '{name}' is for the lab only, because live "):
        Evidence.for_family(example_of(VARIATIONAL[name]), (0, 1))


@pytest.mark.parametrize("name", [name for name in FAMILIES if name not in LIVE])
def test_a_family_that_does_not_say_its_powers_is_refused(name, example_of):
    with pytest.raises(ValueError, match=r"family must be one for live agents, got .*powers = "):
        Evidence.for_family(example_of(FAMILIES[name]), (0, 1))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "lacks means and rewards: see"),
        ({"prior": None}, "lacks prior and means and rewards: see"),
        ({"rewards": (0, 1), "means": Interval(0, 1)}, "must have rewards such as"),
    ],
)
def test_an_own_family_that_lacks_something_is_refused_in_a_sentence(fields, words):
    said = dict.fromkeys(REQUIRED_METHODS, len) | {"powers": (1,)} | fields
    with pytest.raises(ValueError, match=f"^family <.*{words}"):
        Evidence.for_family(type("Own", (), said)(), (0, 1))


def test_a_family_in_place_of_an_example_is_refused():
    for thing in (families.Bernoulli, 3, None):
        with pytest.raises(ValueError, match="family must be one for live agents, got"):
            Evidence.for_family(thing, (0, 1))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"powers": 1}, "^powers must be different whole numbers from 0, got 1$"),
        ({"powers": "12"}, "^powers must be different whole numbers from 0"),
        ({"unit": 0.0}, "^unit of family 'poisson' must be a finite number above 0, got 0.0"),
        ({"unit": -2.0}, "^unit of family 'poisson' must be a finite number above 0, got -2.0"),
        ({"unit": "km"}, "^unit of family 'poisson' must be a number, got 'km'"),
        (
            {"statistic": lambda self, rewards: np.asarray(rewards, dtype=float)},
            r"^statistic of family 'poisson' must have shape \(2, \d+\) .* got \(\d+,\)$",
        ),
    ],
)
def test_an_own_family_that_says_something_wrong_is_refused_in_a_sentence(fields, words):
    """A unit below zero used to refuse every reward, a flat statistic to fill all coordinates."""
    with pytest.raises(ValueError, match=words):
        Evidence.for_family(type("Own", (families.Poisson,), fields)(), (0, 50))


def test_a_level_below_zero_is_no_evidence():
    evidence = Evidence.for_family(families.Bernoulli())
    np.testing.assert_array_equal(evidence.statistic((5, -3)), 0)
    assert evidence.count_pulls((5, -3)) == 0
    # more successes than pulls, as levels may have for a while: all successes
    np.testing.assert_allclose(evidence.statistic((3 * PER_UNIT, 2 * PER_UNIT)), [2, 0])
    np.testing.assert_allclose(evidence.statistic((-PER_UNIT, 2 * PER_UNIT)), [0, 2])


def test_signs_tell_what_a_belief_is_worth():
    """One pull counted N times is worth one; N pulls of N agents are worth N; less for caution."""
    evidence = Evidence.for_family(families.Bernoulli(), signs=SIGNS)
    generator = np.random.default_rng(1)
    one = np.array(evidence.quantize_reward(1.0, generator), dtype=object)
    assert evidence.effective_count(tuple(100 * one)) == pytest.approx(1.0 / CAUTION)
    for weight, sign in ((40.0, 8.0), (3.0, 1.5), (0.5, 0.01), (7.0, 0.0)):
        held = to_quanta([1.0, *[sign] * SIGNS, weight])
        lab = effective_pulls(weight, sign**2)
        assert evidence.effective_count(held) == pytest.approx(float(lab), rel=1e-6)
    worth = []
    for _ in range(200):
        pulls = [evidence.quantize_reward(1.0, generator) for _ in range(50)]
        total = tuple(np.array(pulls, dtype=object).sum(axis=0))
        assert evidence.count_pulls(total) == 50
        worth.append(evidence.effective_count(total))
    # 50^2 / (1.4 * 50 chi^2_16/16), capped at 50: 37.5 on average, with a standard error of 0.7
    assert 35.4 < np.mean(worth) < 39.6
    assert max(worth) == 50


@pytest.mark.parametrize(
    ("family", "reward_range", "words"),
    [
        (families.Gaussian(), None, "reward_range must be given"),
        (families.Poisson(), None, "reward_range must be given"),
        (families.Gaussian(), (1, 1), "rising"),
        (families.Bernoulli(), (-1, 1), "within"),
        (families.Gaussian(), (0, np.inf), "reward_range"),
    ],
)
def test_ranges(family, reward_range, words):
    with pytest.raises(ValueError, match=words):
        Evidence.for_family(family, reward_range)


@pytest.mark.parametrize("reward", [-0.1, 1.1, np.nan, np.inf, "1", None, True])
def test_rewards_that_cannot_be_are_refused(reward):
    with pytest.raises(ValueError, match="reward"):
        Evidence.for_family(families.Bernoulli()).quantize_reward(reward, np.random.default_rng(0))


class Open(families.Bernoulli):
    """Rewards between 0 and 1, these excluded."""

    rewards = Interval(0.0, 1.0)


class Halves(Interval):
    """Multiples of a half only."""

    def contains(self, values):
        return super().contains(values) & (values * 2 % 1 == 0)


class Halved(families.Bernoulli):
    """Rewards of its own kind, which no two ends describe."""

    rewards = Halves(0.0, 1.0, closed=True)


@pytest.mark.parametrize(
    ("family", "taken", "refused"),
    [
        (families.Bernoulli(), [0, 1, 0.0, 1.0, 0.3, np.float64(0.5), np.int64(1)], [1 + 1e-15]),
        (Open(), [5e-324, 0.5, 1 - 1e-16], [0, 1, 0.0, 1.0, -1e-300]),
        (Halved(), [0, 0.5, 1.0], [0.25, 0.75, 1.5]),
    ],
)
def test_ends_and_own_intervals_of_rewards(family, taken, refused):
    """The quick check of a reward takes and refuses what the family's interval does."""
    evidence = Evidence.for_family(family)
    generator = np.random.default_rng(0)
    for reward in taken:
        assert evidence.quantize_reward(reward, generator) == (int(reward * PER_UNIT), PER_UNIT)
    for reward in refused:
        with pytest.raises(ValueError, match="reward must"):
            evidence.quantize_reward(reward, generator)


def test_signs_are_fair_and_independent():
    """Frequencies of 4000 draws of each sign and each pair, within 5 standard errors."""
    evidence, generator = (
        Evidence.for_family(families.Bernoulli(), signs=SIGNS),
        np.random.default_rng(3),
    )
    drawn = (
        np.array([evidence.quantize_reward(1.0, generator)[1:-1] for _ in range(4000)]) // PER_UNIT
    )
    assert set(drawn.ravel().tolist()) == {-1, 1}
    together = drawn.T @ drawn / 4000
    assert (np.abs(drawn.mean(axis=0)) < 5 / np.sqrt(4000)).all()
    assert (np.abs(together - np.eye(SIGNS)) < 5 / np.sqrt(4000)).all()


@pytest.mark.parametrize("signs", [0, SIGNS])
def test_the_parts_of_a_decision_are_the_whole(live, rewards, signs):
    """Begun with any reward, corrected and closed, it is what it is when it counts at once."""
    evidence = Evidence.for_family(live, range_of(live, rewards), signs, closed=True)
    assumed = rewards[0]
    total = np.zeros(len(evidence.bounds), dtype=object)
    begun = np.array(evidence.quantize_decision(assumed), dtype=object) * len(rewards)
    assert evidence.open_count(begun) == evidence.count_pulls(begun) == len(rewards)
    assert evidence.count_pulls(evidence.closed_part(begun)) == 0
    whole = sum(
        np.array(evidence.quantize_reward(y, np.random.default_rng(nth)), dtype=object)
        for nth, y in enumerate(rewards)
    )
    total = begun
    for y in rewards:
        correction = evidence.quantize_correction(assumed, y)
        assert correction[-1] == 0
        total = total + np.array(correction, dtype=object)
    # acted on as if all were known, and shown as if none were
    np.testing.assert_array_equal(
        evidence.statistic(tuple(total)), evidence.statistic(tuple(whole))
    )
    assert not np.any(evidence.statistic(evidence.closed_part(total)))
    for nth, y in enumerate(rewards):
        closing = evidence.quantize_closing(y, np.random.default_rng(nth))
        assert closing[-1] == 0
        total = total + np.array(closing, dtype=object)
    assert tuple(total) == tuple(whole)
    assert evidence.open_count(total) == 0
    plain = Evidence.for_family(live, range_of(live, rewards), signs)
    closed = evidence.closed_part(tuple(total))
    assert len(closed) == len(plain.bounds)
    alone = sum(
        np.array(plain.quantize_reward(y, np.random.default_rng(nth)), dtype=object)
        for nth, y in enumerate(rewards)
    )
    assert closed == tuple(alone)
    assert plain.closed_part(closed) == closed


def test_signs_come_with_the_closed_count():
    """Under flows what closed decisions are worth is told by their count, not by open ones."""
    evidence = Evidence.for_family(families.Bernoulli(), None, SIGNS, closed=True)
    generator = np.random.default_rng(1)
    total = 400 * np.array(evidence.quantize_decision(0.0), dtype=object)
    for _ in range(100):
        total = total + np.array(evidence.quantize_closing(0.0, generator), dtype=object)
    closed = evidence.closed_part(tuple(total))
    signs = np.array(closed[1:-1], dtype=float) / PER_UNIT
    expected = effective_pulls(np.array(100.0), np.mean(signs**2))
    assert evidence.effective_count(closed) == pytest.approx(float(expected))
    assert evidence.open_count(total) == 300


def test_flows_need_to_know_that_silence_counts():
    agent = Agent(["a"], families.Bernoulli(), exchange="flows")
    for call in (lambda: agent.count_decision("a", 0.0), lambda: agent.close_decision("a", 0.0, 0)):
        with pytest.raises(ValueError, match="silent_default must be given under flows"):
            call()
    with pytest.raises(ValueError, match="reward"):
        Agent(["a"], families.Bernoulli(), silent_default=-0.5)


@pytest.mark.parametrize("exchange", ["origins", "flows"])
def test_people_are_shown_closed_decisions_and_how_many_are_open(exchange):
    agent = Agent(["a", "b"], families.Bernoulli(), exchange=exchange, silent_default=0.0, seed=1)
    made = [agent.count_decision("a", 0.0) for _ in range(10)]
    for each in made[:4]:
        agent.correct_reward("a", 0.0, 1.0, each)
    for each in made[:2]:
        agent.close_decision("a", 1.0, each)
    shown = agent.arms()["a"]
    assert (shown.pulls_here, shown.pulls_in_network) == (2.0, 2.0)
    assert (shown.open_here, shown.open_in_network) == (8.0, 8.0)
    np.testing.assert_allclose(agent.belief[:, 0], [5.0, 7.0])
    assert agent.reward_sum(agent.exchange.own()["a"]) == 2.0
    if exchange == "origins":
        assert shown.mean == pytest.approx(3 / 4)
    unlike = Agent(["a"], families.Bernoulli(), exchange=exchange)
    assert (unlike.fingerprint == agent.fingerprint) == (exchange == "origins")
