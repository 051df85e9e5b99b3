"""Worlds whose means differ by agent and change by round, against a slow plain loop."""

import dataclasses
import json

import numpy as np
import pytest

import posse
from posse import networks, theory
from posse.bandits import RandomWalk, Rotation, Sines, SiteMeans, UniformMeans
from posse.lab import validation
from posse.lab.experiments import experiment_from_toml, experiment_of, experiment_to_toml
from posse.lab.reference import engine as reference
from posse.randomness import create_generator
from tests.lab.stored import assert_same

TS = posse.ThompsonSampling()
DEC_TS = posse.Decentralized(TS)
NETWORK = networks.cycle(4)
MEANS = [0.5, 0.3, 0.2]
SEED, RUNS, HORIZON = 7, 3, 12
DRIFTS = [None, Rotation(5), RandomWalk(0.2, 10), Sines(0.2, 7)]
KEEP = ("agents", "means")


@dataclasses.dataclass(frozen=True)
class InTurn:
    """Agent i plays arm (t + i) mod K, and what it heard is written down for the tests."""

    def init(self, problem):
        return problem, []

    def choose(self, state, t, generator):
        problem = state[0]
        arms = (t + np.arange(problem.n_agents)) % problem.n_arms
        return np.broadcast_to(arms, (problem.n_runs, problem.n_agents)).copy()

    def learn(self, state, arms, rewards, weights):
        HEARD.append(rewards)
        return state


@dataclasses.dataclass(frozen=True)
class Still:
    """A drift of one's own that changes nothing, but draws."""

    def means_at(self, t, means, before, generator):
        generator.standard_normal(means.shape)
        return means + 0.0


@dataclasses.dataclass(frozen=True)
class Downwards:
    """A drift of one's own, in a module: all arms pay less every round."""

    by: float = 0.25

    def means_at(self, t, means, before, generator):
        return means - self.by * (t - 1)


HEARD = []


def simulated(bandit, algorithm=DEC_TS, **options):
    asked = {"horizon": HORIZON, "runs": RUNS, "seed": SEED, "keep": KEEP} | options
    asked.setdefault("engine", "reference")
    return posse.simulate(bandit, NETWORK, algorithm, **asked)


def drifting(bandit, drift):
    return bandit if drift is None else bandit.drifting(drift)


# The oracle ----------------------------------------------------------------------------------


def plain_world(bandit, run):
    """The true means of one run, written out: a list over rounds of lists over agents of (K,)."""
    family, sd = bandit.family, bandit.means.sd
    arms = list(bandit.means.means)
    n_arms, relative = len(arms), family.means.low >= 0
    sites = create_generator(SEED, run, "sites")
    base = []
    for _ in range(NETWORK.n_agents):
        z = [sites.standard_normal() for _ in range(n_arms)]
        base.append(
            [m * np.exp(sd * x) if relative else m + sd * x for m, x in zip(arms, z, strict=True)]
        )
    low, high = family.means.low, family.means.high
    if not family.means.closed:  # just inside
        low, high = low + 1e-30, np.nextafter(high, low)
    base = [[min(max(m, low), high) for m in row] for row in base]
    walk, steps = [0.0] * n_arms, create_generator(SEED, run, "drift")
    rounds = []
    for t in range(1, HORIZON + 1):
        d = bandit.drift
        if isinstance(d, Rotation):
            turned = (t - 1) // d.every
            now = [[row[(k - turned) % n_arms] for k in range(n_arms)] for row in base]
        elif isinstance(d, RandomWalk):
            if t > 1:
                z = [steps.standard_normal() for _ in range(n_arms)]
                walk = [
                    w * (1 - 1 / d.time) + d.sd * (2 / d.time) ** 0.5 * x
                    for w, x in zip(walk, z, strict=True)
                ]
            now = [[m + w for m, w in zip(row, walk, strict=True)] for row in base]
        elif isinstance(d, Sines):
            now = [
                [
                    m + d.amplitude * np.sin(2 * np.pi * (t / d.period + k / n_arms))
                    for k, m in enumerate(row)
                ]
                for row in base
            ]
        else:
            now = base
        rounds.append([[min(max(m, low), high) for m in row] for row in now])
    return rounds


@pytest.mark.parametrize("drift", DRIFTS, ids=lambda d: type(d).__name__)
def test_a_slow_plain_loop_meets_the_same_world(drift, family):
    """Means, rewards, pulls and regret of sites that differ and drift, in every family."""
    bandit = drifting(posse.Bandit(family, SiteMeans(MEANS, 0.3)), drift)
    HEARD.clear()
    result = simulated(bandit, InTurn(), threads=1)
    n_agents, n_arms = NETWORK.n_agents, len(MEANS)
    means = np.empty((RUNS, HORIZON, n_agents, n_arms))
    regret, pulls = np.zeros((RUNS, n_agents, HORIZON)), np.zeros((RUNS, n_agents, n_arms))
    for run in range(RUNS):
        order = create_generator(SEED, run, "permutation").permutation(n_arms)
        draws = create_generator(SEED, run, "rewards")
        so_far = [0.0] * n_agents
        for t, now in enumerate(plain_world(bandit, run), start=1):
            means[run, t - 1] = now
            played = [int(order[(t + i) % n_arms]) for i in range(n_agents)]
            paid = family.draw_rewards(
                np.array([now[i][played[i]] for i in range(n_agents)]), draws
            )
            np.testing.assert_allclose(HEARD[t - 1][run], paid, rtol=1e-9, atol=1e-12)
            for i, arm in enumerate(played):
                so_far[i] += max(now[i]) - now[i][arm]
                pulls[run, i, arm] += 1
                regret[run, i, t - 1] = so_far[i]
    np.testing.assert_array_equal(result.pulls, pulls)
    np.testing.assert_allclose(result.agent_regret, regret, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(result.regret, regret.mean(axis=1), rtol=1e-12, atol=1e-12)
    shown = means if drift is not None else means[:, 0]
    np.testing.assert_allclose(result.means, shown, rtol=1e-12, atol=1e-12)


# Constant worlds are as they were ------------------------------------------------------------


@pytest.mark.parametrize("charge", [True, False])
@pytest.mark.parametrize("algorithm", [DEC_TS, posse.CoopUCB2()], ids=["dec-TS", "coop-UCB2"])
def test_a_world_that_stands_still_is_the_constant_one_bit_for_bit(algorithm, charge):
    if not charge and algorithm == DEC_TS:
        algorithm = posse.Isolated(TS)
    elif not charge:
        algorithm = posse.CoopUCB2(charge_initial=False)
    constant = simulated(posse.Bandit.gaussian(MEANS), algorithm)
    alike = simulated(posse.Bandit.gaussian(MEANS, site_sd=0.0), algorithm)
    given = simulated(posse.Bandit.gaussian(np.full((RUNS, 4, 3), MEANS)), algorithm)
    never = simulated(posse.Bandit.gaussian(MEANS).drifting(every=HORIZON), algorithm)
    still = simulated(posse.Bandit.gaussian(MEANS).drifting(Still()), algorithm)
    for other in (alike, given):
        np.testing.assert_array_equal(other.regret, constant.regret)
        np.testing.assert_array_equal(other.agent_regret, constant.agent_regret)
        np.testing.assert_array_equal(other.means[:, 2], constant.means)
    for other in (alike, given, never, still):
        np.testing.assert_array_equal(other.pulls, constant.pulls)
        # rounds that cost nothing are left out at once, not taken off at the end
        np.testing.assert_allclose(other.regret, constant.regret, rtol=0, atol=1e-13)
        np.testing.assert_allclose(other.agent_regret, constant.agent_regret, rtol=0, atol=1e-13)


# One seed, one world -------------------------------------------------------------------------

WORLDS = {
    "sites": posse.Bandit.bernoulli(MEANS, site_sd=0.5),
    "one arm differs": posse.Bandit.gaussian(MEANS, site_sd=[0.4, 0.0, 0.0]),
    "drawn and sites": posse.Bandit.gaussian(UniformMeans(3), site_sd=0.5),
    "drift": posse.Bandit.gaussian(MEANS).drifting(RandomWalk(0.2, 10)),
    "drawn and drift": posse.Bandit.gaussian(UniformMeans(3)).drifting(every=3),
    "all": posse.Bandit.poisson(MEANS, site_sd=0.5).drifting(Sines(0.2, 9)),
}


@pytest.mark.parametrize("name", [*WORLDS, "all, and late"])
def test_a_run_is_the_same_in_whatever_part_and_on_however_many_threads(name, monkeypatch):
    world = WORLDS[name] if name in WORLDS else WORLDS["all"].delayed(mean=2, never=0.1)
    whole = simulated(world, runs=7)
    monkeypatch.setattr(reference, "_BLOCK_ELEMENTS", 24)  # two runs a block
    assert_same(simulated(world, runs=7, threads=3), whole)
    parts = [simulated(world, runs=part) for part in (range(4, 7), range(4))]
    assert_same(posse.concat(parts), whole)


@pytest.mark.parametrize("name", WORLDS)
def test_all_algorithms_meet_the_same_world(name):
    algorithms = {"dec-TS": DEC_TS, "alone": posse.Isolated(TS), "coop": posse.CoopUCB2(sigma=1)}
    options = {"horizon": HORIZON, "runs": RUNS, "seed": SEED, "keep": KEEP}
    compared = posse.compare(WORLDS[name], NETWORK, algorithms, **options)
    for result in compared.values():
        np.testing.assert_array_equal(result.means, compared["alone"].means)
    other = simulated(WORLDS[name], seed=SEED + 1)
    assert not np.array_equal(other.means, compared["alone"].means)


def test_the_order_in_which_arms_are_given_does_not_matter_to_sites():
    """A site's difference belongs to the arm: an arm that nobody's differs in stays as it is."""
    means = simulated(WORLDS["one arm differs"]).means
    np.testing.assert_array_equal(means[:, :, 1:], np.broadcast_to(MEANS[1:], (RUNS, 4, 2)))
    assert len(np.unique(means[:, :, 0])) == RUNS * 4


def test_sites_differ_by_what_they_are_said_to():
    z = np.random.default_rng(1).standard_normal((1000, 3))
    for family, expected in [
        (posse.families.Gaussian(), np.array(MEANS) + 0.3 * z),
        (posse.families.Poisson(), np.array(MEANS) * np.exp(0.3 * z)),
        (posse.families.Bernoulli(), np.minimum(np.array(MEANS) * np.exp(0.3 * z), 1.0)),
    ]:
        sites = SiteMeans(MEANS, 0.3)
        drawn = sites.draw_agent_means(np.array(MEANS), 1000, family, np.random.default_rng(1))
        np.testing.assert_allclose(drawn, expected, rtol=1e-14)


def test_a_random_walk_wanders_as_far_as_it_says():
    """Its long-run standard deviation; 4000 nearly independent values, error rate 1e-5."""
    own = np.zeros((400, 1, 10))
    stream, now = np.random.default_rng(2), own
    drift = RandomWalk(0.5, 5)
    for t in range(1, 60):
        now = drift.means_at(t, own, now, stream)
    expected = 0.5 * np.sqrt((2 / 5) / (1 - 0.8**2))
    assert abs(now.std() / expected - 1) < 4.5 / np.sqrt(2 * 4000)


# Results -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "dims", "shape"),
    [
        ("sites", ("run", "agent", "arm"), (RUNS, 4, 3)),
        ("drift", ("run", "time", "arm"), (RUNS, 2, 3)),
        ("all", ("run", "time", "agent", "arm"), (RUNS, 2, 4, 3)),
    ],
)
def test_means_are_kept_labelled_saved_and_loaded(name, dims, shape, tmp_path):
    result = simulated(WORLDS[name], record=[4, HORIZON])
    assert result.means.shape == shape
    assert result.to_xarray()["means"].dims == dims
    result.save(tmp_path / "r.nc")
    assert_same(posse.load(tmp_path / "r.nc"), result)
    if "time" in dims:
        every = simulated(WORLDS[name])
        np.testing.assert_array_equal(result.means, every.means[:, [3, HORIZON - 1]])


@pytest.mark.parametrize("name", WORLDS)
def test_results_show_and_print(name, tmp_path):
    options = {"horizon": HORIZON, "runs": RUNS, "keep": KEEP}
    compared = posse.compare(
        WORLDS[name], NETWORK, {"a": DEC_TS, "b": posse.Isolated(TS)}, **options
    )
    assert compared["a"].best_arm_share() is None  # which arm is best depends
    assert "regret" in repr(compared)
    assert len(compared.table()) == 2
    assert compared._repr_html_()
    compared.plot()
    compared.save(tmp_path / "c.nc")
    assert_same(posse.load(tmp_path / "c.nc")["b"], compared["b"])
    again = experiment_of(compared).run()
    assert_same(again["a"], compared["a"])


def test_what_no_memory_holds_is_refused(monkeypatch):
    """Means of 1000 rounds, 4 agents and 3 arms take 96 kB a run; those of a run's arms 24 B."""
    monkeypatch.setattr(validation, "detect_memory", lambda: 2e-4)
    bandit = posse.Bandit.gaussian(MEANS)
    options = {"horizon": 1000, "keep": ("means",), "runs": 3}
    simulated(bandit, **options)
    with pytest.raises(ValueError, match="curves, pulls, means take"):
        simulated(posse.Bandit.gaussian(MEANS, site_sd=1).drifting(every=2), **options)


# Engines and theory --------------------------------------------------------------------------


def test_kernels_play_all_of_these_worlds():
    for bandit in WORLDS.values():
        assert simulated(bandit, engine="auto").engine == "compiled"


def test_gaps_and_bounds_of_such_bandits():
    given = posse.Bandit.gaussian(np.arange(12.0).reshape(2, 2, 3))
    np.testing.assert_array_equal(given.gaps, np.broadcast_to([2.0, 1.0, 0.0], (2, 2, 3)))
    with pytest.raises(ValueError, match=r"^gaps differ from round to round: .* drift$"):
        _ = WORLDS["drift"].gaps
    with pytest.raises(ValueError, match=r"^gaps differ from run to run: .* drawn$"):
        _ = WORLDS["sites"].gaps
    with pytest.raises(ValueError, match="stationary means"):
        theory.lai_robbins(WORLDS["drift"], 4)
    with pytest.raises(ValueError, match="means must be"):
        theory.lai_robbins(WORLDS["sites"], 4)


# What is refused -----------------------------------------------------------------------------


def test_means_for_another_number_of_agents():
    def drawn(generator):
        return generator.uniform(size=(5, 3))

    for means in (np.full((RUNS, 5, 3), 0.5), drawn):
        with pytest.raises(ValueError, match="given for 5 agents, but the network has 4 agents"):
            simulated(posse.Bandit.gaussian(means))
    five = posse.simulate(
        posse.Bandit.gaussian(drawn), networks.cycle(5), DEC_TS, horizon=2, runs=2, keep=KEEP
    )
    assert five.means.shape == (2, 5, 3)


def test_agents_that_change_in_number_from_run_to_run():
    def drawn(generator):
        return np.full((4 if generator.random() < 0.9 else 5, 3), 0.5)

    with pytest.raises(ValueError, match="every run must have 4 agents and 3 arms, as the first"):
        simulated(posse.Bandit.gaussian(drawn), runs=50)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: posse.Bandit.gaussian(MEANS, site_sd=-1), "site_sd must be a finite number at"),
        (lambda: posse.Bandit.gaussian(MEANS, site_sd="x"), "sd: a rule knows N"),
        (lambda: posse.Bandit.gaussian(MEANS, site_sd=[0.1, 0.2]), "each of the 3 arms, got 2"),
        (lambda: posse.Bandit.gaussian(MEANS, site_sd=[[0.1]]), "one number or one per arm"),
        (lambda: posse.Bandit.gaussian([[MEANS]], site_sd=0.1), "differ from agent to agent alr"),
        (lambda: SiteMeans(SiteMeans(MEANS, 0.1), 0.1), "differ from agent to agent already"),
        (lambda: posse.Bandit.bernoulli([2, 3], site_sd=0.1), "arm 0 has mean 2"),
        (lambda: posse.Bandit.gaussian(MEANS).drifting(), "drift must be given, or every"),
        (lambda: posse.Bandit.gaussian(MEANS).drifting(Still(), every=3), "drift must be given"),
        (lambda: posse.Bandit.gaussian(MEANS).drifting(every=0), "every must be a whole number at"),
        (lambda: posse.Bandit.gaussian(MEANS).drifting(3), "drift must be one such as posse.band"),
        (lambda: posse.Bandit.gaussian(MEANS).drifting(Rotation), "the class Rotation, not an obj"),
        (lambda: RandomWalk(0, 5), "sd must be a finite number above 0"),
        (lambda: RandomWalk(1, 0.5), "time must be a finite number at least 1"),
        (lambda: Sines(0, 5), "amplitude must be a finite number above 0"),
        (lambda: Sines(1, -5), "period must be a finite number above 0"),
    ],
)
def test_worlds_that_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


class Restless:
    """Draws from nowhere."""

    def means_at(self, t, means, before, generator):
        return means + np.random.default_rng().normal()


class Narrow:
    def means_at(self, t, means, before, generator):
        return means[0]


class Endless:
    def means_at(self, t, means, before, generator):
        return means / (2 - t)


class Broken:
    def means_at(self, t, means, before, generator):
        raise KeyError("no such tide")


class Greedy:
    """Changes what it was given."""

    def means_at(self, t, means, before, generator):
        means += 1
        return means


@pytest.mark.parametrize(
    ("drift", "message"),
    [
        (Restless(), "must draw from the generator it is given and keep nothing"),
        (Narrow(), r"must give finite means in shape \(1, 1, 3\) \(runs, agents, arms\)"),
        (Endless(), "must give finite means"),
        (Broken(), "failed in round 1: KeyError: 'no such tide'"),
        (Greedy(), "read-only"),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_drifts_of_ones_own_that_are_refused(drift, message):
    with pytest.raises(ValueError, match=message):
        simulated(posse.Bandit.gaussian(MEANS).drifting(drift))


# Files ---------------------------------------------------------------------------------------


def test_a_drift_of_ones_own_returns_from_a_file():
    result = simulated(posse.Bandit.gaussian(MEANS, site_sd=0.1).drifting(Downwards(0.5)))
    np.testing.assert_allclose(result.means[:, 0] - result.means[:, 2], 1.0)
    assert result.settings["bandit"]["drift"]["name"].endswith("test_true_means:Downwards")
    assert_same(experiment_of(result).run(), result)
    assert json.loads(json.dumps(result.settings)) == result.settings


@pytest.mark.parametrize("drift", DRIFTS, ids=lambda d: type(d).__name__)
@pytest.mark.parametrize("site_sd", [None, 0.2, [0.1, 0.0, 0.3]])
@pytest.mark.parametrize("means", [MEANS, [MEANS] * 2, UniformMeans(3)])
def test_worlds_return_from_toml(means, site_sd, drift):
    bandit = drifting(posse.Bandit.bernoulli(means, site_sd=site_sd), drift)
    e = posse.Experiment(bandit, NETWORK, {"a": DEC_TS}, horizon=3, runs=2)
    text = experiment_to_toml(e)
    assert experiment_from_toml(text) == e
    assert ("site_sd = " in text) == (site_sd is not None)
    assert ('drift = {name = "' in text) == (drift is not None)
    assert hash(bandit) == hash(experiment_from_toml(text).bandit)


def test_means_of_agents_return_from_toml():
    means = np.random.default_rng(0).uniform(size=(2, 4, 3))
    bandit = posse.Bandit.bernoulli(means)
    e = posse.Experiment(bandit, NETWORK, {"a": DEC_TS}, horizon=3, runs=2)
    assert experiment_from_toml(experiment_to_toml(e)) == e
    with pytest.raises(ValueError, match="given for 4 agents, but the network has 5"):
        dataclasses.replace(e, network=networks.cycle(5))
