"""Laws of activity in both engines: who does not play learns nothing of its own."""

import dataclasses

import numpy as np
import pytest

import posse
from posse import activity, beliefs
from posse.activity import PlayMasks
from posse.algorithms import IDLE
from posse.families import Gaussian

ENGINES = ("reference", "compiled")
TS = posse.ThompsonSampling()
ALGORITHMS = {
    "dec-TS": posse.Decentralized(TS),
    "dec-Bayes-UCB": posse.Decentralized(posse.BayesUCB()),
    "isolated": posse.Isolated(TS),
    "centralized": posse.Centralized(TS),
    "flooding": posse.Flooding(TS),
    "tree": posse.Tree(TS),
    "push-sum": posse.PushSum(TS),
    "push-sum that learns N": posse.PushSum(TS, learning_rate="learnt"),
}
NETWORKS = {
    "star": posse.networks.star(5),
    "complete": posse.networks.complete(5),
    "failing": posse.networks.cycle(5).failing(0.3),
    "gossip": posse.networks.cycle(5).gossip(),
}
BANDIT = posse.Bandit.bernoulli([0.7, 0.5, 0.2])


def simulate(algorithm, network, engine, **options):
    return posse.simulate(
        BANDIT, network, algorithm, engine=engine, **{"horizon": 30, "runs": 4, "seed": 3} | options
    )


def some_play(t, n_agents, generator):
    """Agent 0 sleeps in odd rounds, the others by chance."""
    plays = generator.random(n_agents) < 0.6
    plays[0] = t % 2 == 0
    return plays


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("algorithm", ALGORITHMS.values(), ids=ALGORITHMS)
def test_nobody_asleep_is_the_simulation_without_activity_bit_for_bit(algorithm, engine):
    for network in NETWORKS.values():
        if isinstance(algorithm, posse.Tree) and network == NETWORKS["gossip"]:
            continue
        if isinstance(algorithm, posse.Flooding) and engine == "compiled":
            network = NETWORKS["star"]
        without = simulate(algorithm, network, engine, keep="beliefs")
        with_all = simulate(
            algorithm, network, engine, keep="beliefs", activity=activity.Asleep(0.0)
        )
        np.testing.assert_array_equal(with_all.regret, without.regret)
        np.testing.assert_array_equal(with_all.pulls, without.pulls)
        np.testing.assert_array_equal(with_all.beliefs, without.beliefs)
        np.testing.assert_array_equal(with_all.plays, without.plays)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("algorithm", ALGORITHMS.values(), ids=ALGORITHMS)
def test_only_those_who_play_pull_and_pay(algorithm, engine):
    """Pulls are those of the masks; the regret is the gaps of these pulls, over all agents."""
    network = NETWORKS["star"]
    who = activity.Custom(some_play)
    result = simulate(algorithm, network, engine, activity=who, keep=("agents", "means"))
    masks = PlayMasks(who, 3, range(4), 5).draw_rounds(30)
    np.testing.assert_array_equal(result.pulls.sum(axis=2), masks.sum(axis=0))
    np.testing.assert_allclose(result.plays, np.cumsum(masks, axis=0).mean(axis=2).T, rtol=1e-15)
    gaps = 0.7 - result.means  # (runs, arms)
    by_agent = np.einsum("rnk,rk->rn", result.pulls, gaps)
    np.testing.assert_allclose(result.agent_regret[:, :, -1], by_agent, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(result.regret[:, -1], by_agent.mean(axis=1), rtol=1e-12)


@pytest.mark.parametrize("engine", ENGINES)
def test_runs_do_not_depend_on_their_blocks_nor_on_the_rounds_recorded(engine, tmp_path):
    options = {"activity": activity.Asleep(0.5), "keep": "beliefs"}
    whole = simulate(ALGORITHMS["dec-TS"], NETWORKS["star"], engine, **options)
    parts = [
        simulate(ALGORITHMS["dec-TS"], NETWORKS["star"], engine, runs=runs, **options)
        for runs in (range(1), range(1, 4))
    ]
    joined = posse.concat(parts)
    few = simulate(ALGORITHMS["dec-TS"], NETWORKS["star"], engine, record=[7, 30], **options)
    whole.save(tmp_path / "result.nc")
    loaded = posse.load(tmp_path / "result.nc")
    for other in (joined, loaded):
        for name in ("regret", "pulls", "plays", "beliefs"):
            np.testing.assert_array_equal(getattr(other, name), getattr(whole, name))
        assert other.settings == whole.settings
    np.testing.assert_array_equal(few.plays, whole.plays[:, [6, 29]])
    np.testing.assert_array_equal(few.regret, whole.regret[:, [6, 29]])


def test_both_engines_let_the_same_agents_play():
    results = [
        simulate(ALGORITHMS["dec-TS"], NETWORKS["star"], engine, activity=activity.Asleep(0.5))
        for engine in ENGINES
    ]
    np.testing.assert_array_equal(results[0].plays, results[1].plays)


@dataclasses.dataclass(frozen=True)
class Recorded(posse.Decentralized):
    """Algorithm 1 that remembers arms and rewards of every round."""

    log: list = dataclasses.field(default_factory=list, compare=False)

    def learn(self, state, arms, rewards, weights, contexts=None):
        raise AssertionError("agents sleep here")

    def learn_delayed(self, state, arms, arrivals, weights):
        after = super().learn_delayed(state, arms, arrivals, weights)
        self.log.append((arms, arrivals, after.belief))
        return after


def test_the_running_consensus_identity_holds_with_the_statistics_of_those_who_play():
    """Precision = 1/prior_sd^2 + N n/sigma^2, (n, s) the consensus pair started at 0."""
    family = Gaussian(sigma=0.5, prior_mean=0.2, prior_sd=2.0)
    network = posse.networks.star(5).weighted("metropolis")
    algorithm = Recorded(TS)
    who = activity.Custom(some_play)
    posse.simulate(
        posse.Bandit(family, [0.6, 0.1]), network, algorithm, horizon=25, runs=2, seed=1,
        engine="reference", activity=who,
    )  # fmt: skip
    masks = PlayMasks(who, 1, range(2), 5).draw_rounds(25)
    counts = sums = np.zeros((2, 5, 2))
    for t, (arms, arrivals, belief) in enumerate(algorithm.log):
        np.testing.assert_array_equal(arms == IDLE, ~masks[t])
        played = np.arange(2) == arms[..., None]
        rewards = np.zeros((2, 5))
        rewards[arrivals.run, arrivals.agent] = arrivals.reward
        counts = network.weights @ (counts + played)
        sums = network.weights @ (sums + played * rewards[..., None])
        precision = 1 / 2.0**2 + 5 * counts / 0.5**2
        mean_times_precision = 0.2 / 2.0**2 + 5 * sums / 0.5**2
        np.testing.assert_allclose(belief, [mean_times_precision, precision], rtol=1e-12)
    assert len(algorithm.log) == 25


@pytest.mark.parametrize("engine", ENGINES)
def test_half_the_pulls_cost_the_same_in_both_engines(engine):
    """Regrets agree with a slow plain loop within four standard errors (1 in 16,000)."""
    bandit = posse.Bandit.gaussian([0.5, 0.0])
    network = posse.networks.cycle(4)
    result = posse.simulate(
        bandit, network, posse.Decentralized(TS), horizon=40, runs=400, seed=1, engine=engine,
        activity=activity.Asleep(0.5),
    )  # fmt: skip
    plain = [play_plainly(network.weights, 40, np.random.default_rng(run)) for run in range(400)]
    error = np.hypot(result.summary().standard_error, np.std(plain) / 20)
    assert abs(result.summary().mean - np.mean(plain)) < 4 * error


def play_plainly(weights, horizon, generator):
    """Dec-TS for Gaussian rewards with sleeping agents, as one would write it down."""
    family = Gaussian()
    belief = beliefs.prior(family, 4, 2)
    regret = 0.0
    for _ in range(horizon):
        arms = family.sample_mean(belief, generator).argmax(axis=-1)
        for agent in np.flatnonzero(generator.random(4) < 0.5):
            reward = [0.5, 0.0][arms[agent]] + generator.standard_normal()
            belief[:, agent, arms[agent]] += 4 * family.statistic(np.array(reward))
            regret += 0.5 * arms[agent] / 4
        belief = weights @ belief
    return regret


def test_an_algorithm_that_is_not_defined_for_sleepers_is_refused():
    with pytest.raises(ValueError, match="is CoopUCB, which is defined for agents that play"):
        simulate(posse.CoopUCB(), NETWORKS["star"], "auto", activity=activity.Asleep(0.5))
    for keep in ("messages", "signs"):
        with pytest.raises(ValueError, match="where agents sleep"):
            simulate(
                ALGORITHMS["flooding" if keep == "messages" else "dec-TS"], NETWORKS["star"],
                "auto", activity=activity.Asleep(0.5), keep=keep,
            )  # fmt: skip


def test_files_and_results_give_the_experiment_back(tmp_path):
    for who in (
        activity.Asleep(0.25),
        activity.Rates([1, 0.5, 0.5, 0, 1]),
        activity.Shifts([1, 1, 9, 1, 1], [30, 4, 30, 30, 30]),
        activity.Shifts([1, 1, 9, 1, 1]),
        activity.Custom(some_play),
    ):
        experiment = posse.Experiment(
            BANDIT, NETWORKS["star"], {"a": posse.Decentralized(TS)}, horizon=10, runs=2,
            activity=who, engine="compiled",
        )  # fmt: skip
        posse.write_experiment(experiment, tmp_path / "e.toml")
        assert posse.read_experiment(tmp_path / "e.toml") == experiment
        comparison = experiment.run()
        again = posse.experiment_of(comparison)
        assert again == experiment
        np.testing.assert_array_equal(again.run()["a"].regret, comparison["a"].regret)


def test_a_sweep_over_sleep_has_a_column_of_it(tmp_path):
    experiment = posse.Experiment(
        BANDIT, NETWORKS["star"], {"a": posse.Decentralized(TS)}, horizon=10, runs=3,
        activity=activity.Asleep(0.0),
    )  # fmt: skip
    grid = {"activity.p": [0.0, 0.9]}
    sweep = posse.sweep(experiment, grid, folder=tmp_path)
    regrets = sweep.table().set_index("activity.p")["regret"]
    assert regrets[0.9] < regrets[0.0]  # fewer plays, less regret
    again = posse.sweep(experiment, grid, folder=tmp_path)
    np.testing.assert_array_equal(again.table()["regret"], sweep.table()["regret"])
