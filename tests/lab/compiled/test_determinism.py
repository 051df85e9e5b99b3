"""The same bits whatever the threads, blocks, tiles and number of runs."""

import numpy as np
import pytest

import posse
from posse import networks
from posse.families import Bernoulli, Exponential, Gaussian, Poisson
from posse.lab.compiled import engine
from posse.lab.compiled.kernels import thompson
from posse.lab.simulation import Simulation
from tests.combinations import all_combinations

TS, UCB, GREEDY = posse.ThompsonSampling(), posse.BayesUCB(), posse.Greedy()
BANDITS = {
    "gaussian": posse.Bandit(Gaussian(), [0.1, 0.9, 0.5, 0.4, 0.2]),
    "bernoulli": posse.Bandit(Bernoulli(), [0.1, 0.9, 0.5, 0.4, 0.2]),
    "poisson, 2 arms": posse.Bandit(Poisson(0.5), [0.4, 1.0]),
    "exponential": posse.Bandit(Exponential(), [0.4, 3.0, 1.0]),
}
NETWORKS = {
    "cycle": networks.cycle(7),
    "complete": networks.complete(5),
    "one agent": networks.complete(1),
    "two agents": networks.path(2),
    "star": networks.star(33),
    "gossip": networks.cycle(6).gossip(),
    "failing": networks.grid(3, 3).failing(0.3),
}


def play(bandit, network, algorithm, *, horizon=60, runs=9, seed=3, threads=1, **options):
    result = posse.simulate(
        bandit, network, algorithm,
        horizon=horizon, runs=runs, seed=seed, threads=threads, engine="compiled", **options,
    )  # fmt: skip
    return result.regret, result.pulls


def assert_same(a, b):
    for x, y in zip(a, b, strict=True):
        np.testing.assert_array_equal(x, y)


@all_combinations(
    network=NETWORKS, bandit=BANDITS, policy={policy.name: policy for policy in (TS, UCB, GREEDY)}
)
class TestBlocks:
    def test_any_threads_and_any_block_size(self, monkeypatch, network, bandit, policy):
        problem = (bandit, network, posse.Decentralized(policy))
        whole = play(*problem, horizon=30)
        assert_same(whole, play(*problem, horizon=30, threads=2))
        for rows in (1, 3 * network.n_agents, 10_000):
            monkeypatch.setattr(engine, "BLOCK_ROWS", rows)
            monkeypatch.setattr(engine, "STEPS_PER_CALL", 7 * rows)
            assert_same(whole, play(*problem, horizon=30))
            assert_same(whole, play(*problem, horizon=30, threads=3))

    def test_run_3_of_10_is_run_3_of_200(self, network, bandit, policy):
        problem = (bandit, network, posse.Decentralized(policy))
        few, many = play(*problem, runs=10), play(*problem, runs=200, threads=2)
        assert_same(few, [x[:10] for x in many])


@pytest.mark.parametrize("algorithm", [posse.Isolated(TS), posse.Centralized(TS)])
def test_other_algorithms_too(monkeypatch, algorithm):
    problem = (BANDITS["gaussian"], NETWORKS["cycle"], algorithm)
    whole = play(*problem, runs=20)
    assert_same(whole, play(*problem, runs=20, threads=2))
    monkeypatch.setattr(engine, "BLOCK_ROWS", 14)
    assert_same(whole, play(*problem, runs=20, threads=2))
    assert_same([x[:4] for x in whole], play(*problem, runs=4))


@pytest.mark.parametrize("algorithm", [posse.DDUCB(), posse.Decentralized(UCB)])
def test_levels_of_the_choice_are_kept_within_a_bound(monkeypatch, algorithm):
    """Equal to those that every block computes; a long simulation does not keep all of them."""
    simulation = Simulation(
        BANDITS["gaussian"], NETWORKS["cycle"], algorithm, 60, 3, np.array([60])
    )
    monkeypatch.setattr(engine, "BLOCK_ROWS", 7)
    monkeypatch.setattr(engine, "STEPS_PER_CALL", 7 * 7)

    def play_with(bound):
        monkeypatch.setattr(engine, "_MOST_LEVELS", bound)
        player = engine.Engine(simulation)
        block = player.run(range(9), 1, lambda steps: None)
        return sum(map(len, player._levels.values())), block

    kept = {bound: play_with(bound) for bound in (0, 30, 100_000)}
    assert {bound: n_rounds for bound, (n_rounds, _) in kept.items()} == {0: 0, 30: 28, 100_000: 60}
    for _, block in kept.values():
        assert_same((kept[0][1].regret, kept[0][1].pulls), (block.regret, block.pulls))


def test_seeds_and_runs_differ():
    problem = (BANDITS["gaussian"], NETWORKS["cycle"], posse.Decentralized(TS))
    regret, _ = play(*problem, runs=20)
    assert len(np.unique(regret[:, -1])) > 15
    assert not np.array_equal(regret, play(*problem, runs=20, seed=4)[0])


BIG = {
    "cycle": networks.cycle(100),
    "odd": networks.cycle(101),
    "random": networks.erdos_renyi(97, 0.1, seed=1),
}
IN_TILES = {
    "decentralized-thompson": posse.Decentralized(TS),
    "isolated-thompson": posse.Isolated(TS),
    "decentralized-bayes-ucb": posse.Decentralized(UCB),
}


@all_combinations(network=BIG, bandit=BANDITS, algorithm=IN_TILES)
def test_tiles_of_a_big_network_give_what_a_block_gives(monkeypatch, network, bandit, algorithm):
    """Bit for bit, however the agents are shared out: also where threads outnumber the tiles."""
    problem = (bandit, network, algorithm)
    whole = play(*problem, runs=2)
    monkeypatch.setattr(engine, "BIG_NETWORK", 50)
    for tile, threads in ((16, 1), (32, 2), (48, 3), (64, 5), (512, 2)):
        monkeypatch.setattr(engine, "TILE_ROWS", tile)
        assert_same(whole, play(*problem, runs=2, threads=threads))


def test_tiles_with_many_arms_and_few_recorded_rounds(monkeypatch):
    """Sums over 17 arms in one order, so that even the regret is the same to the last bit."""
    means = np.random.default_rng(0).normal(size=17)
    problem = (posse.Bandit.gaussian(means), networks.cycle(100), posse.Decentralized(TS))
    whole = play(*problem, runs=3, record=7)
    monkeypatch.setattr(engine, "BIG_NETWORK", 50)
    monkeypatch.setattr(engine, "TILE_ROWS", 16)
    assert_same(whole, play(*problem, runs=3, record=7, threads=2))


def test_gossip_and_failing_links_on_big_networks_are_not_cut(monkeypatch):
    monkeypatch.setattr(engine, "BIG_NETWORK", 5)
    monkeypatch.setattr(engine, "TILE_ROWS", 16)
    for network in (networks.cycle(40).gossip(), networks.cycle(40).failing(0.3)):
        problem = (BANDITS["bernoulli"], network, posse.Decentralized(TS))
        cut = play(*problem, threads=2)
        monkeypatch.setattr(engine, "BIG_NETWORK", 1_000)
        assert_same(cut, play(*problem))
        monkeypatch.setattr(engine, "BIG_NETWORK", 5)


@pytest.mark.parametrize("bandit", BANDITS.values(), ids=BANDITS)
def test_runs_change_over_from_eager_to_lazy_and_on_their_own(monkeypatch, bandit):
    """What decides is each run's own past: the flags are alike in blocks, tiles and alone."""
    network, horizon, runs = networks.cycle(64), 200, 4
    simulation = Simulation(
        bandit, network, posse.Decentralized(TS), horizon, 1, np.array([horizon])
    )
    flags = []

    class Kept(engine.BlockState):
        def __post_init__(self):
            super().__post_init__()
            flags.append(self.eager)

    monkeypatch.setattr(engine, "BlockState", Kept)

    def final_flags(**sizes):
        flags.clear()
        for name, value in sizes.items():
            monkeypatch.setattr(engine, name, value)
        engine.Engine(simulation).run(range(runs), 1, lambda steps: None)
        return np.concatenate(flags)

    together = final_flags(BLOCK_ROWS=10_000)
    np.testing.assert_array_equal(together, final_flags(BLOCK_ROWS=64))
    np.testing.assert_array_equal(together, final_flags(BIG_NETWORK=10, TILE_ROWS=16))
    assert thompson.LAZY in together  # it does change over


def test_held_to_one_way_of_drawing():
    bandit, network = BANDITS["gaussian"], networks.cycle(8)
    simulation = Simulation(bandit, network, posse.Decentralized(TS), 30, 1, np.array([30]))
    outcomes = {
        way: engine.Engine(simulation, int(way)).run(range(5), 1, lambda steps: None)
        for way in (thompson.ALWAYS_LAZY, thompson.ALWAYS_EAGER)
    }
    lazy, eager = outcomes.values()
    assert not np.array_equal(lazy.pulls, eager.pulls)  # other random numbers, the same law
