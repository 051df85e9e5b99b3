"""A bandit as an environment and policies as algorithms: both see what the lab's streams draw."""

import dataclasses
import sys

import numpy as np
import pytest
from pettingzoo.test import parallel_api_test, parallel_seed_test

import posse
from posse.algorithms import Algorithm
from posse.algorithms.algorithm import Problem
from posse.families import FAMILIES
from posse.interop.pettingzoo import FixedPolicy, LearningPolicy, parallel_env
from posse.networks import as_matrix
from posse.randomness import Streams
from posse.serialization import encode
from posse.serialization.decode import from_data

GAUSSIAN = posse.Bandit.gaussian([0.5, 0.1, 0.3])
CYCLE = posse.networks.cycle(5)


class Curious:
    """Counts what it hears of each arm, itself and from others; explores now and then."""

    def __init__(self, problem):
        agents = [f"agent_{i}" for i in range(problem.n_agents)]
        self.sums = {agent: np.zeros(problem.n_arms) for agent in agents}
        self.counts = {agent: np.full(problem.n_arms, 0.1) for agent in agents}

    def __call__(self, agent, observation, generator):
        sums, counts = self.sums[agent], self.counts[agent]
        if observation["round"][0] > 0:
            sums[observation["arm"]] += observation["reward"][0]
            counts[observation["arm"]] += 1
        up = observation["heard"] == 1
        np.add.at(sums, observation["arms"][up], observation["rewards"][up])
        np.add.at(counts, observation["arms"][up], 1)
        if generator.random() < 0.2:
            return generator.integers(len(sums))
        return int(np.argmax(sums / counts))


def wander(agent, observation, generator):
    """No state: another arm where the last one paid little."""
    return generator.integers(3) if observation["reward"][0] < 0.5 else observation["arm"]


@dataclasses.dataclass(frozen=True)
class Threshold:
    """The same with a parameter, as something trained would be."""

    least: float

    def __call__(self, agent, observation, generator):
        stay = observation["reward"][0] >= self.least
        return observation["arm"] if stay else generator.integers(3)


def play(env, policy):
    """An episode of what is left of it: the regret of each agent."""
    observations, infos = env.reset(seed=7, options={"run": 3})
    while env.agents:
        actions = {a: policy(a, observations[a], env.generator) for a in env.agents}
        observations, _, _, _, infos = env.step(actions)
    return [info["regret"] for info in infos.values()]


WORLDS = {
    **{
        name: (posse.Bandit(family(), [0.7, 0.4, 0.2]), CYCLE)
        for name, family in FAMILIES.items()
        if name != "grid"
    },
    "drift": (GAUSSIAN.drifting(every=7), CYCLE),
    "walk": (GAUSSIAN.drifting(posse.bandits.RandomWalk(0.3, 10)), CYCLE),
    "sites": (posse.Bandit.gaussian([0.5, 0.1, 0.3], site_sd=0.5), posse.networks.star(6)),
    "drawn": (posse.Bandit.bernoulli(posse.bandits.UniformMeans(3)), CYCLE),
    "failing": (GAUSSIAN, posse.networks.grid(2, 3).failing(0.4)),
    "gossip": (GAUSSIAN, posse.networks.complete(5).gossip()),
    "alone": (GAUSSIAN, posse.networks.complete(1)),
}


@pytest.mark.parametrize("world", WORLDS)
def test_a_policy_has_the_same_regret_in_an_environment_and_in_the_lab(world):
    bandit, network = WORLDS[world]
    env = parallel_env(bandit, network, horizon=25)
    result = posse.simulate(
        bandit,
        network,
        LearningPolicy(Curious),
        horizon=25,
        runs=range(2, 5),
        seed=7,
        keep=["agents"],
    )
    problem = Problem(network.n_agents, bandit.n_arms, 25, bandit.family, network)
    assert play(env, Curious(problem)) == result.agent_regret[1, :, -1].tolist()


def test_an_algorithm_of_posse_stepped_by_hand_has_the_regret_that_simulate_gives():
    env = parallel_env(GAUSSIAN, CYCLE, horizon=30)
    env.reset(seed=7, options={"run": 3})
    dec_ts = posse.Decentralized(posse.ThompsonSampling())
    state = dec_ts.init(Problem(5, 3, 30, GAUSSIAN.family, CYCLE))
    stream = Streams.for_runs(7, [3], "policy")
    for t in range(1, 31):
        arms = dec_ts.choose(state, t, stream)
        _, rewards, _, truncated, infos = env.step(dict(zip(env.agents, arms[0], strict=True)))
        state = dec_ts.learn(state, arms, np.array([[*rewards.values()]]), CYCLE.weights)
    assert all(truncated.values())
    result = posse.simulate(
        GAUSSIAN, CYCLE, dec_ts, horizon=30, runs=range(3, 4), seed=7, engine="reference"
    )
    assert np.mean([info["regret"] for info in infos.values()]) == pytest.approx(
        result.regret[0, -1], rel=1e-12
    )


def test_the_order_of_arms_and_the_means_are_those_of_the_run():
    bandit = posse.Bandit.bernoulli(posse.bandits.UniformMeans(4))
    env = parallel_env(bandit, CYCLE, horizon=5)
    env.reset(seed=7, options={"run": 3})
    result = posse.simulate(
        bandit,
        CYCLE,
        FixedPolicy(lambda *_: 0),
        horizon=5,
        runs=range(3, 4),
        seed=7,
        keep=["means"],
    )
    assert env.arm_order.tolist() == result.arm_order[0].tolist()
    assert (env.means == result.means[0][env.arm_order]).all()
    assert env.means.shape == (5, 4)


def test_episodes_are_runs():
    env = parallel_env(GAUSSIAN, CYCLE, horizon=5)

    def rewards():
        return env.step(dict.fromkeys(env.agents, 1))[1]

    env.reset(seed=7)
    first = rewards()
    env.reset()
    second = rewards()
    assert env.run == 1
    assert first != second
    env.reset(seed=7, options={"run": 1})
    assert rewards() == second
    env.reset(seed=7)
    assert rewards() == first


@pytest.mark.parametrize(
    "network",
    [
        posse.networks.star(6),
        posse.networks.grid(3, 3).failing(0.5),
        posse.networks.cycle(6).gossip(),
        posse.networks.complete(4),
        posse.networks.from_matrix(np.roll(np.eye(4), 1, axis=1) / 2 + np.eye(4) / 2),
    ],
    ids=repr,
)
def test_agents_hear_whom_the_weights_of_the_round_let_them_hear(network):
    env = parallel_env(GAUSSIAN, network, horizon=10)
    env.reset(seed=2)
    draw, stream, n = network.sampler(1), Streams.for_runs(2, [0], "network"), network.n_agents
    for t in range(1, 11):
        arms = [(t + i) % 3 for i in range(n)]
        seen, rewards, *_ = env.step(dict(zip(env.agents, arms, strict=True)))
        weights = as_matrix(draw(stream, t), n).reshape(n, n)
        for i in range(n):
            mine = seen[f"agent_{i}"]
            assert (mine["arm"], mine["reward"][0]) == (arms[i], rewards[f"agent_{i}"])
            slots = [*network.neighbours(i)]
            for slot in range(len(mine["heard"])):
                j = slots[slot] if slot < len(slots) else None
                up = j is not None and weights[i, j] != 0
                told = (1, arms[j], rewards[f"agent_{j}"]) if up else (0, 3, 0.0)
                assert tuple(mine[key][slot] for key in ("heard", "arms", "rewards")) == told


@pytest.mark.parametrize("world", ["failing", "sites", "drift", "bernoulli", "alone"])
def test_petting_zoos_own_tests_pass(world):
    bandit, network = WORLDS[world]
    parallel_api_test(parallel_env(bandit, network, horizon=12), num_cycles=20)
    parallel_seed_test(lambda: parallel_env(bandit, network, horizon=12), num_cycles=5)


@pytest.mark.parametrize("world", WORLDS)
def test_observations_and_actions_are_in_their_spaces(world):
    env = parallel_env(*WORLDS[world], horizon=4)
    observations, _ = env.reset(seed=1)
    while True:
        for agent, observation in observations.items():
            assert env.observation_space(agent).contains(observation)
        if not env.agents:
            break
        observations, *_ = env.step({a: env.action_space(a).sample() for a in env.agents})


def test_a_graph_of_every_run_needs_slots_and_has_its_own_links():
    fresh = posse.networks.erdos_renyi(8, 0.4, seed="run")
    with pytest.raises(ValueError, match=r"slots must be given"):
        parallel_env(GAUSSIAN, fresh, horizon=5)
    env = parallel_env(GAUSSIAN, fresh, horizon=5, slots=7)
    for run in range(3):
        env.reset(seed=1, options={"run": run})
        seen, *_ = env.step(dict.fromkeys(env.agents, 0))
        degrees = fresh.of_run(1, run).degrees
        assert [each["heard"].sum() for each in seen.values()] == degrees.tolist()
    played = FixedPolicy(wander, slots=7)
    assert posse.simulate(GAUSSIAN, fresh, played, horizon=5, runs=3).runs == 3


def test_dynamics_of_ones_own_may_link_anybody():
    class Across:
        def sampler(self, network, n_runs):
            return lambda randomness: np.full((4, 4), 0.25)

    env = parallel_env(GAUSSIAN, posse.networks.path(4).varying(Across()), horizon=5)
    env.reset(seed=1)
    seen, *_ = env.step(dict(zip(env.agents, [0, 1, 2, 0], strict=True)))
    assert seen["agent_1"]["arms"].tolist() == [0, 2, 0]


def test_policies_stand_beside_algorithms_in_a_comparison():
    comparison = posse.compare(
        GAUSSIAN,
        CYCLE,
        {
            "dec-TS": posse.Decentralized(posse.ThompsonSampling()),
            "wander": FixedPolicy(wander),
            "curious": LearningPolicy(Curious),
        },
        horizon=40,
        runs=4,
        keep=["messages"],
    )
    assert comparison["curious"].engine == "reference"
    assert comparison["wander"].numbers_sent[0, -1] == 2 * 2 * 40  # arm and reward, two links
    again = posse.simulate(
        GAUSSIAN, CYCLE, LearningPolicy(Curious), horizon=40, runs=range(2, 4), keep=["messages"]
    )
    assert (again.regret == comparison["curious"].regret[2:]).all()  # every run begins anew


@pytest.mark.parametrize("algorithm", ["function", "parameters", "learning"])
def test_policies_of_a_module_come_back_from_a_file(algorithm, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "mine_in_a_zoo.py").write_text(
        "from dataclasses import dataclass\n"
        "def stay(agent, observation, generator):\n    return 0\n"
        "def fresh(problem):\n    return stay\n"
        "@dataclass(frozen=True)\nclass Trained:\n    bias: float = 0.0\n"
        "    def __call__(self, agent, observation, generator):\n        return 0\n"
    )
    import mine_in_a_zoo as mine

    made = {
        "function": FixedPolicy(mine.stay, slots=4),
        "parameters": FixedPolicy(mine.Trained(0.5)),
        "learning": LearningPolicy(mine.fresh),
    }[algorithm]
    assert from_data(Algorithm, encode.encode_algorithm(made)) == made
    del sys.modules["mine_in_a_zoo"]


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (
            lambda: FixedPolicy(Curious),
            "policy must be a function .* use LearningPolicy.*, got .*Curious",
        ),
        (lambda: FixedPolicy(3), "policy must be a function"),
        (lambda: FixedPolicy(wander, slots=0), "slots must be a whole number at least 1, got 0"),
        (lambda: LearningPolicy(3), "make must be a function or class"),
        (
            lambda: posse.simulate(GAUSSIAN, CYCLE, LearningPolicy(lambda problem: 3), horizon=5),
            "make must return functions of agent, observation and generator, got 3",
        ),
        (
            lambda: posse.simulate(GAUSSIAN, CYCLE, FixedPolicy(lambda *_: 3), horizon=5),
            "agent_0 must play a whole number from 0 to 2, got 3",
        ),
        (
            lambda: posse.simulate(GAUSSIAN, CYCLE, FixedPolicy(wander, slots=1), horizon=5),
            "slots must be at least 2, the neighbours of an agent of cycle.*got 1",
        ),
        (lambda: parallel_env(GAUSSIAN, CYCLE, horizon=0), "horizon must be a whole number"),
        (lambda: parallel_env(GAUSSIAN, "cycle", horizon=5), "network must be a network"),
        (
            lambda: parallel_env(GAUSSIAN.delayed(mean=2), CYCLE, horizon=5),
            "an environment does not support delayed rewards",
        ),
        (
            lambda: parallel_env(GAUSSIAN, CYCLE, horizon=5).step({}),
            "no run has begun: call reset",
        ),
    ],
)
def test_what_cannot_be_played_is_refused_in_a_sentence(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


@pytest.mark.parametrize("action", [3, -1, 0.5, True, None])
def test_actions_that_are_no_arms_are_refused(action):
    env = parallel_env(GAUSSIAN, CYCLE, horizon=5)
    env.reset(seed=1)
    with pytest.raises(ValueError, match="agent_2 must play a whole number from 0 to 2, got"):
        env.step(dict.fromkeys(env.agents, 1) | {"agent_2": action})


def test_every_agent_must_act():
    env = parallel_env(GAUSSIAN, CYCLE, horizon=5)
    env.reset(seed=1)
    with pytest.raises(ValueError, match="exactly one arm per agent: wrong at 'agent_1'"):
        env.step({"agent_0": 1})


@pytest.mark.parametrize("actions", [None, [0] * 5, 3])
def test_actions_that_are_no_dict_are_refused(actions):
    env = parallel_env(GAUSSIAN, CYCLE, horizon=3)
    env.reset(seed=1)
    with pytest.raises(ValueError, match="actions must be a dict from agents to arms, got"):
        env.step(actions)


def test_means_for_some_runs_only_are_not_played_beyond_them():
    env = parallel_env(posse.Bandit.gaussian([[0.5, 0.1], [0.2, 0.3]]), CYCLE, horizon=5)
    env.reset(seed=1)
    env.reset()
    with pytest.raises(ValueError, match="means are given for 2 runs only"):
        env.reset()


def test_without_petting_zoo_a_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pettingzoo", None)
    monkeypatch.delitem(sys.modules, "posse.interop.environment", raising=False)
    with pytest.raises(ModuleNotFoundError, match=r"needs pettingzoo: .*\.\[pettingzoo\]"):
        parallel_env(GAUSSIAN, CYCLE, horizon=5)
    assert posse.simulate(GAUSSIAN, CYCLE, FixedPolicy(wander), horizon=5, runs=1).runs == 1


def test_contexts_are_refused_in_a_sentence():
    bandit = posse.ContextualBandit(
        posse.families.Linear(), posse.Contexts({"new": "flag"}), posse.NormalWeights(3)
    )
    with pytest.raises(ValueError, match="PettingZoo does not support contexts"):
        parallel_env(bandit, posse.networks.cycle(3), horizon=5)
