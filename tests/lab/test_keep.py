"""What else is kept of each run: against what a slow plain run sees, in files, and its limits."""

import dataclasses
import re

import numpy as np
import pytest

import posse
from posse import networks
from posse.algorithms.bayesian import BayesianAlgorithm
from posse.bandits import UniformMeans
from posse.families import Gaussian
from posse.lab import simulation, validation
from posse.lab.comparisons import Comparison
from posse.lab.results import Result
from posse.lab.simulation import KEEP
from posse.randomness import create_generator
from tests.lab.making import make
from tests.lab.stored import assert_same

BANDIT = posse.Bandit.gaussian(UniformMeans(3))
NETWORK = networks.path(4)
TS = posse.ThompsonSampling()
DEC_TS = posse.Decentralized(TS)
ALL = ("agents", "means", "messages", "beliefs")
OPTIONS = {"horizon": 20, "runs": 3, "seed": 4, "record": [2, 7, 20]}


def simulate(algorithm=DEC_TS, network=NETWORK, keep=ALL, engine="reference", **options):
    return posse.simulate(BANDIT, network, algorithm, keep=keep, engine=engine, **OPTIONS | options)


def slow_run(run, network, seed=4, horizon=20, times=(2, 7, 20)):
    """dec-TS on Gaussian arms, one run, agent by agent: what keep= is to give, by its names."""
    weights = np.asarray(network.weights)
    n_agents, n_arms = len(weights), 3
    order = create_generator(seed, run, "permutation").permutation(n_arms)
    callers = create_generator(seed, run, "means").uniform(0, 1, n_arms)
    means = callers[order]
    policy, rewards = create_generator(seed, run, "policy"), create_generator(seed, run, "rewards")
    shift, precision = np.zeros((n_agents, n_arms)), np.ones((n_agents, n_arms))
    regret = np.zeros(n_agents)
    kept = {"agents": [], "means": callers, "messages": [], "beliefs": []}
    links = sum(weights[i, j] > 0 for i in range(n_agents) for j in range(n_agents) if i != j)
    for t in range(1, horizon + 1):
        noise = policy.standard_normal((n_agents, n_arms))
        policy.random(n_agents)
        arms = (shift / precision + noise / precision**0.5).argmax(axis=1)
        for i, (arm, noise) in enumerate(zip(arms, rewards.standard_normal(n_agents), strict=True)):
            precision[i, arm] += n_agents
            shift[i, arm] += n_agents * (means[arm] + noise)
            regret[i] += means.max() - means[arm]
        shift, precision = weights @ shift, weights @ precision
        if t in times:
            kept["agents"].append(regret.copy())
            kept["messages"].append(t * links * 2 * n_arms / n_agents)
            own = np.empty((2, n_agents, n_arms))
            for k, arm in enumerate(order):
                own[0, :, arm], own[1, :, arm] = shift[:, k], precision[:, k]
            kept["beliefs"].append(own)
    return kept | {"agents": np.array(kept["agents"]).T}


def test_a_run_keeps_what_the_slow_plain_version_sees():
    result = simulate()
    for run in range(3):
        expected = slow_run(run, NETWORK)
        np.testing.assert_allclose(result.agent_regret[run], expected["agents"], rtol=1e-10)
        np.testing.assert_array_equal(result.means[run], expected["means"])
        np.testing.assert_allclose(result.numbers_sent[run], expected["messages"], rtol=1e-12)
        np.testing.assert_allclose(result.beliefs[run], np.array(expected["beliefs"]), rtol=1e-9)


@pytest.mark.parametrize("engine", ["reference", "auto"])
@pytest.mark.parametrize("network", [NETWORK, NETWORK.gossip(), NETWORK.failing(0.4)])
def test_keeping_changes_no_number_and_agents_average_to_the_curve(network, engine):
    result = simulate(network=network, engine=engine)
    plain = simulate(network=network, keep=(), engine=engine)
    assert result.engine == plain.engine == ("reference" if engine == "reference" else "compiled")
    np.testing.assert_array_equal(result.regret, plain.regret)
    np.testing.assert_array_equal(result.pulls, plain.pulls)
    np.testing.assert_allclose(result.agent_regret.mean(axis=1), result.regret, rtol=1e-10)
    gaps = result.means.max(axis=1, keepdims=True) - result.means
    own = (result.pulls * gaps[:, None, :]).sum(axis=2)
    np.testing.assert_allclose(result.agent_regret[:, :, -1], own, rtol=1e-10)
    # counts and sums: precision - prior is N times the number of pulls, shared out
    observed = (result.beliefs[:, -1, 1] - 1).sum(axis=(1, 2))
    np.testing.assert_allclose(observed, 4 * 20 * 4, rtol=1e-9)
    for kept in result.kept.values():
        assert not kept.flags.writeable


def test_messages_are_counted_as_they_happen():
    gossip = simulate(network=NETWORK.gossip(), keep="messages")
    np.testing.assert_allclose(gossip.numbers_sent, [[t * 2 * 6 / 4 for t in (2, 7, 20)]] * 3)
    failing = simulate(network=networks.cycle(4).failing(0.5), keep="messages", runs=200)
    per_round = failing.numbers_sent[:, -1] / 20
    # each of 8 directed links carries 6 numbers in half of the rounds; 6 standard errors
    error = 6 * 6 * 2 / 4 * np.sqrt(4 * 0.25 / (20 * 200))
    assert abs(per_round.mean() - 8 * 0.5 * 6 / 4) < error
    assert len(np.unique(per_round)) > 10
    alone = simulate(posse.Isolated(TS), keep="messages")
    assert (alone.numbers_sent == 0).all()
    coop = simulate(posse.CoopUCB(), keep="messages")
    np.testing.assert_allclose(coop.numbers_sent[0], [0, 4 * 9.0, 17 * 9.0])


def test_forced_rounds_that_are_not_charged_are_charged_to_no_agent():
    free = simulate(posse.CoopUCB(charge_initial=False), keep="agents")
    np.testing.assert_allclose(free.agent_regret.mean(axis=1), free.regret, atol=1e-12)
    assert (free.agent_regret[:, :, 0] == 0).all()


def test_blocks_and_parts_keep_the_same(monkeypatch):
    from posse.lab.reference import engine as reference

    whole = simulate()
    halves = [simulate(runs=range(1)), simulate(runs=range(1, 3))]
    assert_kept(posse.concat(halves), whole)
    monkeypatch.setattr(reference, "_BLOCK_ELEMENTS", 1)
    assert_kept(simulate(threads=2), whole)
    with pytest.raises(ValueError, match="differ in keep"):
        posse.concat([simulate(runs=range(1)), simulate(runs=range(1, 3), keep="means")])


def assert_kept(a, b):
    assert_same(a, b)
    assert list(a.kept) == list(b.kept)
    for name in a.kept:
        assert a.kept[name].tobytes() == b.kept[name].tobytes()


def test_what_was_kept_is_stored_and_rerun(tmp_path):
    result = simulate()
    comparison = posse.compare(
        BANDIT, NETWORK, {"dec-TS": DEC_TS, "alone": posse.Isolated(TS)}, keep=ALL, **OPTIONS
    )
    for value in (result, comparison):
        value.save(tmp_path / "r.nc")
        loaded = posse.load(tmp_path / "r.nc")
        again = posse.experiment_of(loaded).run()
        for other in (loaded, again):
            pairs = zip(other.values(), value.values(), strict=True) if value is comparison else [
                (other, value)
            ]  # fmt: skip
            for a, b in pairs:
                assert_kept(a, b)
                assert a.settings["keep"] == list(ALL)
    dataset = comparison.to_xarray()
    assert dataset["agent_regret"].dims == ("algorithm", "run", "agent", "time")
    assert dataset["beliefs"].dims == ("algorithm", "run", "time", "coordinate", "agent", "arm")
    assert dataset["means"].dims == ("algorithm", "run", "arm")
    assert dataset["numbers_sent"].dims == ("algorithm", "run", "time")


def test_beliefs_of_different_sizes_are_stored_side_by_side(tmp_path):
    unknown = posse.Isolated(TS, family=posse.families.GaussianUnknownVariance())
    both = {"known": DEC_TS, "unknown": unknown}
    comparison = posse.compare(BANDIT, NETWORK, both, keep="beliefs", **OPTIONS)
    sizes = [result.beliefs.shape[2] for result in comparison.values()]
    assert sizes[0] != sizes[1]
    comparison.save(tmp_path / "c.nc")
    for name, loaded in posse.load(tmp_path / "c.nc").items():
        assert_kept(loaded, comparison[name])
    assert np.isnan(comparison.to_xarray()["beliefs"].sel(algorithm="known").values).any()


def test_what_was_not_kept_is_said():
    result = simulate(keep="means")
    for name in ("agents", "messages", "beliefs"):
        attribute = KEEP[name].attribute
        sentence = f'{attribute} was not kept: simulate(..., keep=("{name}",))'
        with pytest.raises(AttributeError, match=re.escape(sentence)):
            getattr(result, attribute)
        assert not hasattr(result, attribute)


# Algorithms of one's own ---------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Mine(BayesianAlgorithm):
    """Tells one number a link in every second round."""

    def learn(self, state, arms, rewards, weights):
        return posse.Isolated(self.policy).learn(state, arms, rewards, weights)

    def numbers_sent(self, state, t, links):
        return links * float(t % 2 == 0)


@dataclasses.dataclass(frozen=True)
class Silent:
    """No beliefs, and no word on messages."""

    def init(self, problem):
        return problem

    def choose(self, state, t, generator):
        return np.zeros((state.n_runs, state.n_agents), dtype=int)

    def learn(self, state, arms, rewards, weights):
        return state


def test_an_algorithm_of_ones_own_keeps_the_same():
    result = simulate(Mine(TS))
    np.testing.assert_allclose(result.numbers_sent, [[6 / 4, 3 * 6 / 4, 10 * 6 / 4]] * 3)
    assert result.beliefs.shape == (3, 3, 2, 4, 3)
    assert (simulate(Silent(), keep=("agents", "means")).pulls.sum(axis=2) == 20).all()


@pytest.mark.parametrize(
    ("algorithm", "keep", "sentence"),
    [
        (Silent(), "messages", "does not count the numbers it sends: give Silent a method num"),
        (Silent(), "beliefs", r"a state with .belief of shape \(D, 3, 4, 3\).*Silent has none"),
        (posse.CoopUCB(), "beliefs", "CoopUCB, which has no beliefs"),
        (DEC_TS, "agnts", "keep 'agnts' is unknown: did you mean 'agents'"),
        (DEC_TS, 3, "keep must be names"),
    ],
)
def test_what_cannot_be_kept_is_refused(algorithm, keep, sentence):
    with pytest.raises(ValueError, match=sentence):
        simulate(algorithm, keep=keep)


@pytest.mark.parametrize("wrong", [np.ones(2), -np.ones(3), np.full(3, np.nan)])
def test_wrong_numbers_of_messages_are_refused(wrong):
    @dataclasses.dataclass(frozen=True)
    class Wrong(Mine):
        def numbers_sent(self, state, t, links):
            return wrong

    with pytest.raises(ValueError, match=r"Wrong.numbers_sent must give 3 numbers \(runs,\)"):
        simulate(Wrong(TS))


# Memory --------------------------------------------------------------------------------------


def test_what_memory_cannot_hold_is_refused_at_the_door(monkeypatch):
    big = {"horizon": 10**6, "runs": 10, "record": 100}
    # bytes, all that is held without keep=: the rounds, and the runs twice while they are joined
    curves = 8 * 100 + 2 * 10 * (8 * 100 + 4 * 4 * 3)
    monkeypatch.setattr(validation, "detect_memory", lambda: (curves + 8) / 1e9)
    task = {"bandit": BANDIT, "network": NETWORK, "runs": 10}
    validation.check_size(**task, points=simulation.count_recorded_rounds(100, 10**6), keep=())
    monkeypatch.setattr(validation, "detect_memory", lambda: (curves - 8) / 1e9)
    with pytest.raises(ValueError, match="whose curves, pulls take"):
        validation.check_size(**task, points=100, keep=())
    monkeypatch.setattr(validation, "detect_memory", lambda: (curves + 8) / 1e9)
    for keep in KEEP:
        sentence = f"whose curves, pulls, {keep} take .* keep less with keep="
        with pytest.raises(ValueError, match=sentence):
            simulate(keep=keep, **big)
    for record in (None, 101, np.arange(1, 102), np.int64(101)):
        with pytest.raises(ValueError, match="whose curves, pulls take"):
            simulate(keep=(), **big | {"record": record})


def test_memory_is_counted_for_every_algorithm_and_what_it_believes(monkeypatch):
    def likelihood(reward, mean):
        return -((reward - mean) ** 2)

    wide = posse.families.Grid(likelihood, lambda mean: mean, support=(-9.0, 9.0), points=300)
    grid = posse.Decentralized(TS, family=wide)
    # bytes of the bandit's own two coordinates in five rounds, and of the list of these rounds
    one = 5 * 8 * (1 + 2 * 4 * 3) + 4 * 4 * 3 + 5 * 8
    task = {"horizon": 5, "runs": 1, "record": 5, "keep": "beliefs", "engine": "reference"}
    monkeypatch.setattr(validation, "detect_memory", lambda: 1.5 * one / 1e9)
    assert posse.simulate(BANDIT, NETWORK, posse.Decentralized(TS), **task).runs == 1
    with pytest.raises(ValueError, match="whose curves, pulls, beliefs take"):
        posse.simulate(BANDIT, NETWORK, grid, **task)
    twice = {"a": posse.Decentralized(TS), "b": posse.Isolated(TS)}
    with pytest.raises(ValueError, match="whose curves, pulls, beliefs take"):
        posse.compare(BANDIT, NETWORK, twice, **task)


def test_the_rounds_recorded_are_counted_without_listing_them():
    for record, points in ((None, 10), (3, 3), (10, 10), (99, 10), ([1, 2], 2), ("all", 10)):
        assert simulation.count_recorded_rounds(record, 10) == points


# Made-up results -----------------------------------------------------------------------------


def test_results_check_what_they_are_given():
    plain = make()  # 6 runs, 20 rounds, 2 agents, 3 arms
    arrays = {"means": np.ones((6, 3)), "agents": np.ones((6, 2, 20))}
    kept = dataclasses.replace(plain, kept=arrays)
    assert list(kept.kept) == ["agents", "means"]
    with pytest.raises(TypeError):
        kept.kept["messages"] = np.ones((6, 20))
    with pytest.raises(ValueError, match=r"kept means must have shape \(run, arm\) = \(6, 3\)"):
        dataclasses.replace(plain, kept={"means": np.ones((6, 2))})
    with pytest.raises(ValueError, match="kept 'colours' is unknown"):
        dataclasses.replace(plain, kept={"colours": np.ones((6, 2))})
    with pytest.raises(ValueError, match="must have the same keep"):
        Comparison({"a": plain, "b": kept})
    assert isinstance(Result(plain.times, plain.regret, plain.pulls, "x", {}), Result)
    assert Gaussian().prior().shape == (2,)
