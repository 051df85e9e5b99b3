"""One agent without I/O, and some of them in a loop: the simplest network."""

import gc
import json

import numpy as np
import pytest
from scipy import stats

import posse
from posse import families
from posse.live.agent.agent import Agent
from posse.live.agent.posterior import MOST_SUBSETS, ArmSubset
from posse.summary import probability_best

ARMS = ["red", "green", "blue"]
MEANS = {"red": 0.7, "green": 0.5, "blue": 0.2}


def agent(exchange="origins", seed=0, **options):
    return Agent(ARMS, families.Bernoulli(), exchange=exchange, seed=seed, **options)


def linked(n_agents, exchange, **options):
    """Agents on a cycle, by name; who owns an edge is the same each time, so that all else is."""
    agents = {
        str(i): agent(exchange, seed=i, exchange_options={"identity": f"agent {i}"}, **options)
        for i in range(n_agents)
    }
    for i in range(n_agents):
        for j in {(i - 1) % n_agents, (i + 1) % n_agents} - {i}:
            agents[str(i)].connect(str(j))
    return agents


def deliver(agents, now):
    """One tick of everybody, and all messages until nobody answers any more."""
    waiting = [
        (name, peer, message)
        for name, each in agents.items()
        for peer, message in each.tick(now)
    ]  # fmt: skip
    while waiting:
        sender, receiver, message = waiting.pop(0)
        answers = agents[receiver].receive(sender, message, now)
        waiting += [(receiver, peer, answer) for peer, answer in answers]


@pytest.mark.parametrize("exchange", ["origins", "flows"])
def test_agents_teach_each_other(exchange):
    """Eight on a cycle find the best arm together, and count the same pulls."""
    agents = linked(8, exchange)
    generator = np.random.default_rng(3)
    for now in range(150):
        for each in agents.values():
            decision = each.pull()
            each.update(decision, float(generator.random() < MEANS[decision.arm]))
        deliver(agents, float(now))
    for now in range(150, 400):
        deliver(agents, float(now))
    for each in agents.values():
        assert not each.exchange.refusals
        status = each.arms()
        pulls = sum(arm.pulls_in_network for arm in status.values())
        assert pulls == pytest.approx(8 * 150, rel=1e-4)
        assert status["red"].probability_best > 0.95
        assert max(status, key=lambda name: status[name].pulls_here) == "red"


def test_origins_hold_the_central_posterior():
    agents = linked(4, "origins")
    generator = np.random.default_rng(4)
    successes, pulls = dict.fromkeys(ARMS, 0.0), dict.fromkeys(ARMS, 0)
    for now in range(20):
        for each in agents.values():
            decision = each.pull()
            reward = float(generator.random() < MEANS[decision.arm])
            each.update(decision, reward)
            successes[decision.arm] += reward
            pulls[decision.arm] += 1
        deliver(agents, float(now))
    for now in range(20, 30):
        deliver(agents, float(now))
    expected = [
        [1 + successes[arm] for arm in ARMS],
        [1 + pulls[arm] - successes[arm] for arm in ARMS],
    ]
    for each in agents.values():
        np.testing.assert_allclose(each.belief, expected)


def test_the_probability_of_a_decision_is_that_of_choosing_it():
    """Frequencies of 4000 pulls against quadrature, within 5 standard errors."""
    one = agent()
    for arm, rewards in {"red": [1, 1, 0], "green": [1, 0], "blue": [0]}.items():
        for reward in rewards:
            one.learn(arm, reward)
    expected = probability_best(families.Bernoulli(), one.belief)
    decisions = [one.pull() for _ in range(4000)]
    for k, arm in enumerate(ARMS):
        share = np.mean([decision.arm == arm for decision in decisions])
        assert abs(share - expected[k]) < 5 * np.sqrt(expected[k] * (1 - expected[k]) / 4000)
        told = {decision.probability for decision in decisions if decision.arm == arm}
        assert list(told) == [pytest.approx(expected[k])]


class Saying(posse.Greedy):
    """Says of its probabilities what it is told to."""

    def __init__(self, said):
        object.__setattr__(self, "said", said)

    def probabilities(self, belief, family, t, horizon):
        return self.said


class Silent:
    scores = posse.ThompsonSampling.scores


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (Silent(), "cannot decide for a live agent, which logs the propensity of every choice"),
        (Saying(None), r"give it a method probabilities\(belief, family, t, horizon\)"),
        (Saying([0.5, 0.5]), "must return one probability for each of the 3 arms, with sum 1, got"),
        (Saying([0.5, 0.5, 0.5]), "must return one probability"),
        (Saying([1.5, -0.5, 0.0]), "must return one probability"),
        (Saying([np.nan, 0.5, 0.5]), "must return one probability"),
        (Saying(["a", "b", "c"]), "must return one probability"),
    ],
)
def test_a_policy_that_cannot_say_its_probabilities_is_refused_at_the_start(policy, words):
    """A random policy used to be taken for a deterministic one, and logged 1.0."""
    with pytest.raises(ValueError, match=words):
        agent(policy=policy)


def test_a_mixture_logs_its_probability():
    class EpsilonGreedy(posse.Greedy):
        def scores(self, belief, family, t, horizon, generator):
            if generator.random() < 0.3:
                return generator.random(belief.shape[1])
            return super().scores(belief, family, t, horizon, generator)

        def probabilities(self, belief, family, t, horizon):
            best = super().probabilities(belief, family, t, horizon)
            return 0.7 * best + 0.3 / belief.shape[1]

    one = agent(policy=EpsilonGreedy())
    one.update(one.pull(allowed=["green"]), 1)
    told = {(each.arm, round(each.probability, 12)) for each in (one.pull() for _ in range(200))}
    assert told == {("green", 0.8), ("red", 0.1), ("blue", 0.1)}


def test_policies_without_chance_say_so():
    greedy = agent(policy=posse.Greedy())
    assert greedy.pull().probability == pytest.approx(1 / 3)
    greedy.update(greedy.pull(allowed=["green"]), 1)
    decision = greedy.pull()
    assert decision.arm == "green"
    assert decision.probability == 1.0
    assert agent(policy=posse.BayesUCB()).pull().arm in ARMS


def test_only_allowed_arms_are_played():
    one = agent()
    assert {one.pull(allowed=["green", "blue"]).arm for _ in range(50)} == {"green", "blue"}
    for bad in ([], "red", ["purple"]):
        with pytest.raises(ValueError, match=r"allowed|arm"):
            one.pull(allowed=bad)


def test_a_reward_counts_once():
    one = agent()
    decision = one.pull()
    assert one.update(decision, 1) is True
    assert one.update(decision.id, 1) is False
    with pytest.raises(ValueError, match="already"):
        one.update(decision, 0)
    with pytest.raises(ValueError, match="unknown"):
        one.update("nobody", 1)
    with pytest.raises(ValueError, match="reward"):
        one.update(one.pull(), 2)
    assert sum(arm.pulls_here for arm in one.arms().values()) == 1


def test_a_reward_that_was_refused_can_be_put_right():
    one = agent()
    decision = one.pull()
    with pytest.raises(ValueError, match="reward"):
        one.update(decision, float("nan"))
    assert one.update(decision, 1.0)


@pytest.mark.parametrize("exchange", ["origins", "flows"])
def test_state_survives(exchange):
    one = agent(exchange)
    for _ in range(5):
        one.update(one.pull(), 1)
    again = agent(exchange, seed=9)
    again.restore(json.loads(json.dumps(one.state())))
    np.testing.assert_array_equal(again.belief, one.belief)
    other = Agent(ARMS, families.Bernoulli(2, 2), exchange=exchange)
    with pytest.raises(ValueError, match="another"):
        other.restore(one.state())


def test_agents_with_other_models_do_not_mix():
    """Their messages are refused and counted."""
    agents = {"a": agent(), "b": Agent(ARMS, families.Bernoulli(5, 5), seed=1)}
    agents["a"].connect("b")
    agents["b"].connect("a")
    agents["a"].update(agents["a"].pull(), 1)
    for now in range(5):
        deliver(agents, float(now))
    assert agents["b"].exchange.refusals
    assert agents["b"].exchange.evidence() == {}


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        (([], families.Bernoulli()), {}, "arms must be one or more"),
        ((["a", "a"], families.Bernoulli()), {}, "arms must be"),
        (("ab", families.Bernoulli()), {}, "arms must be"),
        ((["a", "b"], families.Gaussian()), {}, "reward_range"),
        ((["a", "b"], families.Bernoulli()), {"exchange": "origin"}, "origins"),
        ((["a", "b"], families.Bernoulli()), {"policy": "thompson"}, "policy"),
        ((["a", "b"], families.Bernoulli()), {"network_size": 5}, "flows"),
        (([f"{n:0200}" for n in range(900)], families.Bernoulli()), {}, "900 arms take .* shorten"),
    ],
)
def test_mistakes(arguments, options, words):
    with pytest.raises(ValueError, match=words):
        posse.Agent(*arguments, **options)


@pytest.mark.parametrize("exchange", ["origins", "flows"])
def test_rounds_are_counted_across_processes(exchange):
    """Bayes-UCB plays the quantile 1 - 1/t: it must not begin anew after a restart."""
    rounds = []

    class Noting(posse.BayesUCB):
        def probabilities(self, belief, family, t, horizon):
            rounds.append(t)
            return super().probabilities(belief, family, t, horizon)

    def make():
        return posse.Agent(
            ["a", "b"], posse.families.Bernoulli(), policy=Noting(), exchange=exchange
        )

    first, second = make(), make()
    rounds.clear()  # of the trial of a policy
    for _ in range(5):
        first.update(first.pull(), 1.0)
    second.restore(first.state())
    second.pull()
    second.pull()
    assert rounds == [1, 2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize("policy", [posse.ThompsonSampling(), posse.BayesUCB(), posse.Greedy()])
def test_one_arm_is_chosen_for_sure(policy):
    """One arm used to be refused, so that an experiment could not end with its winner."""
    one = Agent(["only"], families.Bernoulli(), policy=policy, seed=1)
    assert one.choose_many([None, ["only"]]) == [("only", 1.0)] * 2
    one.learn("only", 1.0)
    assert one.arms()["only"].probability_best == pytest.approx(1.0)


def test_arms_can_be_changed_and_their_evidence_stays():
    one = agent()
    for arm, reward in (("red", 1.0), ("green", 0.0), ("green", 0.0)):
        one.learn(arm, reward)
    one.choose()
    one.set_arms(["green", "violet"])
    np.testing.assert_array_equal(one.belief, [[1, 1], [3, 1]])
    assert {one.choose()[0] for _ in range(100)} == {"green", "violet"}
    assert list(one.arms()) == ["green", "violet"]
    with pytest.raises(ValueError, match="red"):
        one.choose(["red"])
    for bad in ([], "ab", ["a", "a"], [""], [1]):
        with pytest.raises(ValueError, match="arms must be"):
            one.set_arms(bad)
    assert one.arm_names == ["green", "violet"]
    one.set_arms(ARMS)
    np.testing.assert_array_equal(one.belief, [[2, 1, 1], [1, 3, 1]])


def test_evidence_of_arms_that_come_and_go_is_never_refused():
    """Seen: of 1,200 rewards, each acknowledged, 1,000 were held."""
    one = agent()
    for wave in range(12):
        arms = [f"{wave}-{nth}" for nth in range(100)]
        one.set_arms(arms)
        for arm in arms:
            assert one.update(one.pull([arm]), 1.0)
    assert len(one.exchange.evidence()) == 1200
    assert not one.exchange.refusals


def taught(policy=None, exchange="origins", rewards=12):
    """An agent that has learnt a little of every arm."""
    one, generator = agent(exchange, policy=policy), np.random.default_rng(8)
    for number in range(rewards):
        arm = ARMS[number % 3]
        one.learn(arm, float(generator.random() < MEANS[arm]))
    return one


@pytest.mark.parametrize("allowed", [None, ["blue", "red"]])
def test_a_batch_is_drawn_with_the_probabilities_it_says(allowed):
    """Chi-square of 6000 decisions, drawn a hundred at a time; error rate 1e-6, fixed seeds."""
    one, names = taught(), allowed or ARMS
    places = [ARMS.index(name) for name in names]
    expected = probability_best(families.Bernoulli(), one.belief[:, places])
    drawn = [each for _ in range(60) for each in one.choose_many([allowed] * 100)]
    for name, chance in zip(names, expected, strict=True):
        told = {probability for arm, probability in drawn if arm == name}
        assert list(told) == [pytest.approx(chance, abs=1e-7)]
    counts = [sum(arm == name for arm, _ in drawn) for name in names]
    assert stats.chisquare(counts, 6000 * expected / expected.sum()).pvalue > 1e-6
    first, second = ([arm for arm, _ in drawn[k::2]] for k in (0, 1))
    assert first != second  # not one draw for all


def test_wishes_of_one_batch_are_answered_in_their_order():
    one = taught()
    wishes = [["red"], None, ["blue", "green"], ["green"], None, ["green", "blue"]] * 20
    for allowed, (arm, probability) in zip(wishes, one.choose_many(wishes), strict=True):
        assert arm in (allowed or ARMS)
        assert (probability == 1.0) == (allowed is not None and len(allowed) == 1)
    assert one.choose_many([]) == []
    with pytest.raises(ValueError, match="purple"):
        one.choose_many([None, ["purple"]])
    with pytest.raises(ValueError, match="arm"):
        one.choose([["red"]])


def test_every_decision_of_a_batch_is_a_round():
    """Bayes-UCB plays the quantile 1 - 1/t, whether asked one by one or in a batch."""
    rounds = []

    class Noting(posse.BayesUCB):
        def probabilities(self, belief, family, t, horizon):
            rounds.append(t)
            return super().probabilities(belief, family, t, horizon)

    one = agent(policy=Noting())
    rounds.clear()  # of the trial of a policy
    one.choose()
    one.choose_many([None, ["red", "blue"], None])
    assert rounds == [1, 2, 3, 4]
    with_batches = taught()
    with_batches.choose_many([None] * 5)
    assert with_batches.count_rounds() == 12 + 5  # 12 own rewards, and the batch


def test_a_policy_of_ones_own_is_asked_at_every_round():
    """Scores that are not marked as timeless may depend on the round, and so the probabilities."""
    rounds = []

    class Own(posse.ThompsonSampling):
        def scores(self, belief, family, t, horizon, generator):
            return super().scores(belief, family, t, horizon, generator)

        def probabilities(self, belief, family, t, horizon):
            rounds.append(t)
            return super().probabilities(belief, family, t, horizon)

    one = agent(policy=Own())
    rounds.clear()  # of the trial of a policy
    assert len(one.choose_many([None] * 7)) == 7
    assert rounds == [1, 2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize("exchange", ["origins", "flows"])
def test_what_is_kept_is_given_up_when_evidence_changes(exchange):
    """By rewards, by a neighbour's message and by a state restored, for all arms and for some."""
    agents = linked(2, exchange)
    one, other = agents["0"], agents["1"]
    two = ["red", "blue"]

    def check():
        fresh = agent(exchange)
        fresh.restore(one.state())
        np.testing.assert_array_equal(one.belief, fresh.belief)
        assert one.arms() == fresh.arms()
        for allowed in (None, two):
            places = [ARMS.index(name) for name in allowed or ARMS]
            chances = probability_best(families.Bernoulli(), one.belief[:, places])
            for _ in range(5):
                arm, probability = one.choose(allowed)
                expected = chances[(allowed or ARMS).index(arm)]
                assert probability == pytest.approx(expected, abs=1e-7)

    check()
    empty = one.state()
    for arm, reward in (("red", 1.0), ("blue", 0.0), ("green", 1.0), ("red", 1.0)):
        one.learn(arm, reward)
        check()
    before = one.state()
    for _ in range(10):
        other.learn("blue", 1.0)
    for now in range(30):
        deliver(agents, float(now))
    check()
    held = one.belief
    assert held is one.belief  # kept, and nobody can change it
    assert not held.flags.writeable
    one.restore(before)
    assert one.belief.sum() < held.sum()
    check()
    one.restore(empty)
    np.testing.assert_array_equal(one.belief, 1.0)
    check()


def count_subsets():
    """Count the sets of arms in memory, of all agents."""
    gc.collect()
    return sum(isinstance(item, ArmSubset) for item in gc.get_objects())


@pytest.mark.long
def test_few_subsets_are_kept():
    """A caller that allows another set of arms each time does not fill the memory."""
    names = [f"arm {k}" for k in range(9)]
    before = count_subsets()
    one = Agent(names, families.Bernoulli(), seed=2)
    subsets = [[n for k, n in enumerate(names) if mask >> k & 1] for mask in range(1, 512)]
    assert all(one.choose(subset)[0] in subset for subset in subsets)
    assert count_subsets() - before == MOST_SUBSETS
    assert one.choose(subsets[0]) == ("arm 0", 1.0)
    many = [f"arm {k}" for k in range(1000)]
    before = count_subsets()
    large = Agent(many, families.Gaussian(), reward_range=(0, 1), seed=3)
    for first in range(4):
        large.choose(many[first:])
    assert count_subsets() - before == 2


def test_it_says_with_which_probability_it_plays_each_arm_and_draws_nothing():
    agent, twin = (Agent(["red", "green"], families.Bernoulli(), seed=3) for _ in range(2))
    for arm, reward in [("red", 1.0), ("red", 1.0), ("green", 0.0)]:
        agent.learn(arm, reward)
        twin.learn(arm, reward)
    said = agent.probabilities()
    assert said["red"] > 0.8
    assert sum(said.values()) == pytest.approx(1)
    (choice,), (other,) = agent.draw_choices([None]), twin.draw_choices([None])
    assert dict(zip(choice.allowed, choice.probabilities, strict=True)) == said
    assert choice.arm == other.arm
    agent.set_arms(["blue"])
    assert agent.probabilities() == {"blue": 1.0}
