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


def simulate(algorithm, network, engine, bandit=BANDIT, **options):
    return posse.simulate(
        bandit, network, algorithm, engine=engine, **{"horizon": 30, "runs": 4, "seed": 3} | options
    )


def wait_two_rounds(generator, size):
    return np.full(size, 2.0)


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


def count_evidence(algorithm, network, masks, engine, **options):
    """Evidence in every agent's belief after each round, over all arms: (rounds, runs, agents)."""
    n_rounds, n_runs, _ = masks.shape
    result = simulate(algorithm, network, engine, horizon=n_rounds, runs=n_runs, keep="beliefs",
                      **options)  # fmt: skip
    # alpha + beta of three arms is 6 at the prior and grows by the weight of every reward
    return result.beliefs.sum(axis=(2, 4)).swapaxes(0, 1) - 6.0


PATH = posse.networks.path(4)
HOPS = np.abs(np.subtract.outer(np.arange(4), np.arange(4)))


@pytest.mark.parametrize("engine", ENGINES)
def test_evidence_is_that_of_those_who_play_wherever_it_has_travelled(engine):
    """Per algorithm an exact count: flooded and tree's by distance, the others' by recursion."""
    who = activity.Custom(some_play)
    masks = PlayMasks(who, 3, range(3), 4).draw_rounds(15).astype(float)
    so_far = np.cumsum(masks, axis=0)

    def expect_flooded(t):  # what agent j played up to d - 1 rounds ago, d its distance
        past = t - np.maximum(HOPS, 1) + 1
        counts = [
            [so_far[past[i, j], :, j] * (past[i, j] >= 0) for j in range(4)] for i in range(4)
        ]
        return np.sum(counts, axis=1).T

    pushed = np.zeros((3, 4))
    mass = np.ones(4)
    merged = np.zeros((3, 4))
    got = {
        name: count_evidence(ALGORITHMS[name], PATH, masks, engine, activity=who)
        for name in ("dec-TS", "isolated", "centralized", "flooding", "tree", "push-sum")
    }
    for t in range(15):
        merged = (merged + 4 * masks[t]) @ PATH.weights.T
        pushed = (pushed + masks[t]) @ PATH.shares.T
        mass = PATH.shares @ mass
        expected = {
            "dec-TS": merged,
            "isolated": so_far[t],
            "centralized": np.broadcast_to(so_far[t].sum(axis=1, keepdims=True), (3, 4)),
            "flooding": expect_flooded(t),
            "tree": expect_flooded(t),
            "push-sum": 4 * pushed / mass,
        }
        for name, evidence in expected.items():
            np.testing.assert_allclose(got[name][t], evidence, rtol=1e-10, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", [name for name in ALGORITHMS if "push-sum" not in name])
def test_a_delay_of_two_rounds_shifts_the_evidence_of_those_who_play_by_two(name, engine):
    """Also where an agent sleeps when its reward arrives, and where several agents pass it on.

    Not under push-sum, where what a reward counts depends on the masses of the round.
    """
    masks = np.ones((15, 3, 4))
    options = {"activity": activity.Custom(some_play)}
    prompt = count_evidence(ALGORITHMS[name], PATH, masks, engine, **options)
    late = count_evidence(
        ALGORITHMS[name], PATH, masks, engine, bandit=BANDIT.delayed(wait_two_rounds), **options
    )
    np.testing.assert_allclose(late[:2], 0.0, atol=1e-12)
    np.testing.assert_allclose(late[2:], prompt[:-2], rtol=1e-10, atol=1e-9)


def weigh_among_awake(network, awake):
    """W(t) among those awake, entry by entry, with max-degree or Metropolis weights."""
    n_agents = network.n_agents
    links = [(i, j) for i, j in network.edges if awake[i] and awake[j]]
    degree = np.zeros(n_agents)
    for i, j in links:
        degree[i] += 1
        degree[j] += 1
    weights = np.eye(n_agents)
    for i, j in links:
        d = max(degree[i], degree[j]) if network.rule == "metropolis" else degree.max()
        for a, b in ((i, j), (j, i)):
            weights[a, b] += 1 / (1 + d)
            weights[a, a] -= 1 / (1 + d)
    return weights


SHIFTS = ([1, 1, 5, 8, 1], [20, 11, 20, 20, 3])
CUT_OFF = {
    "asleep": activity.Asleep(0.4, relays=False),
    "shifts": activity.Shifts(*SHIFTS, relays=False),
    "shifts with copies": activity.Shifts(*SHIFTS, relays=False, copies=True),
}


@pytest.mark.parametrize("delay", [0, 2])
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("who", CUT_OFF.values(), ids=CUT_OFF)
@pytest.mark.parametrize(
    "network",
    [posse.networks.star(5), posse.networks.star(5).weighted("metropolis"),
     posse.networks.complete(5)],
    ids=str,
)  # fmt: skip
def test_sleepers_are_cut_off_and_joiners_start_from_the_prior_or_a_copy(
    network, who, engine, delay
):
    masks = PlayMasks(who, 3, range(2), 5).draw_rounds(20)
    bandit = BANDIT.delayed(wait_two_rounds) if delay else BANDIT
    got = count_evidence(ALGORITHMS["dec-TS"], network, masks, engine, bandit=bandit, activity=who)
    for run in range(2):
        evidence = np.zeros(5)
        for t in range(20):
            joins = getattr(who, "joins", ())
            joiners = [agent for agent, first in enumerate(joins) if first == t + 1 > 1]
            if getattr(who, "copies", False) and joiners:
                # on a star a leaf copies the hub; on a complete graph all agents know as much,
                # but for those who have left
                assert network.graph == "complete" or 0 not in joiners
                evidence[joiners] = evidence[0]
            weights = weigh_among_awake(network, masks[t, run])
            np.testing.assert_allclose(weights.sum(axis=0), 1.0, rtol=1e-12)
            if t >= delay:  # a reward reaches its agent even if that is down
                evidence = evidence + 5.0 * masks[t - delay, run]
            evidence = weights @ evidence
            np.testing.assert_allclose(got[t, run], evidence, rtol=1e-10, atol=1e-9)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_tree_sends_nothing_over_a_link_with_a_sleeper(engine):
    """Agent 1 of a path leaves: what others learn later does not cross it."""
    who = activity.Shifts([1, 1, 1, 1], [30, 5, 30, 30], relays=False)
    masks = np.ones((30, 1, 4))
    for name in ("tree", "flooding"):
        if (name, engine) == ("flooding", "compiled"):
            continue  # it has no kernel there
        evidence = count_evidence(ALGORITHMS[name], PATH, masks, engine, activity=who)[-1, 0]
        # agent 0: its own 30 and, from before round 6, 5 of agent 1, 4 of agent 2, 3 of agent 3
        assert evidence[0] == pytest.approx(30 + 5 + 4 + 3)
        # agents 2 and 3: their own 60 but one in transit, 5 of agent 1, 4 or 4 + 0 of agent 0
        assert evidence[2] == pytest.approx(60 + 5 + 4)
        assert evidence[1] == pytest.approx(5 + 5 + 5 + 4)


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
    copies = activity.Shifts([1, 1, 1, 1, 9], relays=False, copies=True)
    with pytest.raises(ValueError, match="which counts every observation once: use copies=False"):
        simulate(posse.Tree(TS), NETWORKS["star"], "auto", activity=copies)
    directed = posse.networks.from_edges([(0, 1), (1, 2), (2, 0)], directed=True)
    with pytest.raises(ValueError, match="relays=False needs links in both directions"):
        simulate(posse.PushSum(TS), directed, "auto", activity=activity.Asleep(0.5, relays=False))
    liars = posse.Liars(posse.Decentralized(TS), agents=[1])
    with pytest.raises(ValueError, match="is Liars, which is defined for agents that play"):
        simulate(liars, NETWORKS["star"], "auto", activity=activity.Asleep(0.5))
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
        activity.Shifts([1, 1, 9, 1, 1], relays=False, copies=True),
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


@pytest.mark.parametrize("relays", [True, False])
@pytest.mark.parametrize("engine", ENGINES)
def test_other_numbers_for_the_agents_change_nothing_but_the_numbers(engine, relays):
    """Agent by agent, the mean regret is the same in law: 5 standard errors, 1e-6 by chance."""
    rates = np.array([0.2, 0.5, 0.9, 1.0])
    order = np.array([2, 0, 3, 1])  # agent i is called order[i]
    renamed_rates = np.empty(4)
    renamed_rates[order] = rates
    chain = [(0, 1), (1, 2), (2, 3)]
    renamed_chain = [(int(order[i]), int(order[j])) for i, j in chain]
    regret = [
        simulate(
            posse.Decentralized(TS),
            posse.networks.from_edges(edges),
            engine,
            runs=600,
            seed=seed,
            keep="agents",
            activity=activity.Rates(tuple(own_rates), relays=relays),
        ).agent_regret[..., -1]
        for edges, own_rates, seed in ((chain, rates, 1), (renamed_chain, renamed_rates, 2))
    ]
    first, second = regret[0], regret[1][:, order]
    error = np.sqrt((first.var(axis=0) + second.var(axis=0)) / len(first))
    assert (abs(first.mean(axis=0) - second.mean(axis=0)) < 5 * error).all()
    assert (abs(first.mean(axis=0) - regret[1].mean(axis=0)) > 5 * error).any()  # it would show
