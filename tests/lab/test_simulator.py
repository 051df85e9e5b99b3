"""The reference engine against a slow plain version, its determinism, and its front door."""

import numpy as np
import pytest

import posse
from posse import networks
from posse.bandits import UniformMeans
from posse.families import FAMILIES, Bernoulli, Gaussian, Grid
from posse.lab.reference import engine as reference
from posse.lab.simulation import recorded_rounds
from posse.policies import POLICIES
from posse.randomness import create_generator

BANDIT = posse.Bandit.gaussian([0.2, 0.6, 0.1])
NETWORK = networks.path(4)
DEC_TS = posse.Decentralized(posse.ThompsonSampling())
DYNAMICS = {
    "static": networks.cycle(5),
    "gossip": networks.cycle(5).gossip(),
    "failing": networks.cycle(5).failing(0.3),
}


def slow_run(bandit, weights, horizon, seed, run):
    """dec-TS on Gaussian arms, one run, agent by agent and arm by arm, from the same streams."""
    n_agents, n_arms = len(weights), bandit.n_arms
    order = create_generator(seed, run, "permutation").permutation(n_arms)
    means = np.array(bandit.means)[order]
    policy, rewards = create_generator(seed, run, "policy"), create_generator(seed, run, "rewards")
    shift, precision = np.zeros((n_agents, n_arms)), np.ones((n_agents, n_arms))
    total, regret, pulls = 0.0, [], np.zeros((n_agents, n_arms), dtype=int)
    for _ in range(horizon):
        noise = policy.standard_normal((n_agents, n_arms))
        policy.random(n_agents)  # for ties, which Gaussian samples do not have
        reward_noise = rewards.standard_normal(n_agents)
        for i in range(n_agents):
            samples = [
                shift[i, k] / precision[i, k] + noise[i, k] / precision[i, k] ** 0.5
                for k in range(n_arms)
            ]
            arm = samples.index(max(samples))
            precision[i, arm] += n_agents
            shift[i, arm] += n_agents * (means[arm] + reward_noise[i])
            pulls[i, order[arm]] += 1
            total += (max(means) - means[arm]) / n_agents
        shift, precision = weights @ shift, weights @ precision
        regret.append(total)
    return np.array(regret), pulls


def test_a_run_equals_the_slow_plain_version():
    result = posse.simulate(BANDIT, NETWORK, DEC_TS, horizon=60, runs=3, seed=5, engine="reference")
    for run in range(3):
        regret, pulls = slow_run(BANDIT, np.asarray(NETWORK.weights), 60, 5, run)
        np.testing.assert_allclose(result.regret[run], regret, rtol=1e-12)
        np.testing.assert_array_equal(result.pulls[run], pulls)


@pytest.mark.parametrize("engine", ["reference", "compiled"])
@pytest.mark.parametrize("network", DYNAMICS.values(), ids=DYNAMICS)
class TestDeterminism:
    def simulate(self, network, engine, runs=9, seed=3, **options):
        return posse.simulate(
            BANDIT, network, DEC_TS, horizon=25, runs=runs, seed=seed, engine=engine, **options
        )

    def same(self, a, b):
        np.testing.assert_array_equal(a.regret, b.regret)
        np.testing.assert_array_equal(a.pulls, b.pulls)

    def test_the_same_for_any_number_of_threads_and_any_blocks(self, network, engine, monkeypatch):
        from posse.lab.compiled import engine as compiled

        whole = self.simulate(network, engine, threads=1)
        monkeypatch.setattr(reference, "_BLOCK_ELEMENTS", 40)  # 2 runs a block
        monkeypatch.setattr(compiled, "BLOCK_ROWS", 10)
        self.same(whole, self.simulate(network, engine, threads=1))
        self.same(whole, self.simulate(network, engine, threads=2))

    def test_run_r_does_not_depend_on_the_number_of_runs(self, network, engine):
        few = self.simulate(network, engine, runs=4)
        many = self.simulate(network, engine, runs=40)
        np.testing.assert_array_equal(few.regret, many.regret[:4])
        np.testing.assert_array_equal(few.pulls, many.pulls[:4])

    def test_another_seed_gives_another_result(self, network, engine):
        other = self.simulate(network, engine, seed=4)
        assert not np.array_equal(self.simulate(network, engine).regret, other.regret)


def test_runs_differ():
    result = posse.simulate(BANDIT, NETWORK, DEC_TS, horizon=20, runs=20, seed=3)
    assert len(np.unique(result.regret[:, -1])) > 10


def test_a_fresh_seed_is_remembered():
    result = posse.simulate(BANDIT, NETWORK, DEC_TS, horizon=5, runs=2, seed=None)
    again = posse.simulate(BANDIT, NETWORK, DEC_TS, horizon=5, runs=2, seed=result.settings["seed"])
    np.testing.assert_array_equal(result.regret, again.regret)


def test_compare_is_simulate_once_per_algorithm():
    alone = posse.Isolated(posse.BayesUCB())
    comparison = posse.compare(
        BANDIT, NETWORK, {"dec-TS": DEC_TS, "alone": alone}, horizon=20, runs=5, seed=2
    )
    for name, algorithm in {"dec-TS": DEC_TS, "alone": alone}.items():
        result = posse.simulate(BANDIT, NETWORK, algorithm, horizon=20, runs=5, seed=2)
        np.testing.assert_array_equal(comparison[name].regret, result.regret)
    assert comparison.engine == "compiled"


def test_algorithms_meet_the_same_means_rewards_and_order_of_arms():
    """Common random numbers: two algorithms that play alike in round 1 are paid alike."""
    bandit = posse.Bandit.gaussian(UniformMeans(6))
    results = posse.compare(
        bandit,
        NETWORK,
        {"greedy": posse.Decentralized(posse.Greedy()), "alone": posse.Isolated(posse.Greedy())},
        horizon=1,
        runs=50,
        seed=1,
    )
    np.testing.assert_array_equal(results["greedy"].pulls, results["alone"].pulls)
    np.testing.assert_array_equal(results["greedy"].regret, results["alone"].regret)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("dynamics", DYNAMICS)
@pytest.mark.parametrize("engine", ["reference", "auto"])
def test_every_combination_runs_and_its_books_balance(family, policy, dynamics, engine):
    model = FAMILIES[family]
    model = model.example() if hasattr(model, "example") else model()
    means = np.array([0.3, 0.7, 0.45])
    result = posse.simulate(
        posse.Bandit(model, means),
        DYNAMICS[dynamics],
        posse.Decentralized(POLICIES[policy]()),
        horizon=30,
        runs=3,
        seed=1,
        engine=engine,
    )
    assert (result.pulls.sum(axis=2) == 30).all()
    assert (np.diff(result.regret, axis=1) >= -1e-12).all()
    paid = (result.pulls * (means.max() - means)).sum(axis=2).mean(axis=1)
    np.testing.assert_allclose(result.regret[:, -1], paid, rtol=1e-12)


def test_pulls_are_in_the_callers_order_of_arms():
    means = [0.0, 0.0, 5.0, 0.0]
    result = posse.simulate(
        posse.Bandit.gaussian(means), NETWORK, DEC_TS, horizon=200, runs=6, seed=1
    )
    assert (result.pulls.sum(axis=(0, 1)).argmax()) == 2
    assert result.pulls[..., 2].min() > 100


def test_no_arm_is_favoured_by_its_position():
    """K identical arms, 600 runs: the first round's pulls are uniform (chi-square, 1e-4)."""
    from scipy.stats import chisquare

    for policy in POLICIES.values():
        result = posse.simulate(
            posse.Bandit.gaussian([0.1] * 5),
            networks.complete(3),
            posse.Decentralized(policy()),
            horizon=1,
            runs=600,
            seed=4,
        )
        assert chisquare(result.pulls.sum(axis=(0, 1))).pvalue > 1e-4
        # and agents of one run do not move together
        together = (result.pulls.max(axis=(1, 2)) == 1) & (result.pulls.sum(axis=1).max(1) == 3)
        assert together.mean() < 0.15  # 1/25 when independent


def test_means_per_run_and_drawn_means():
    per_run = np.array([[0.0, 9.0], [9.0, 0.0], [0.0, 9.0]])
    result = posse.simulate(
        posse.Bandit.gaussian(per_run), NETWORK, DEC_TS, horizon=50, runs=3, seed=1
    )
    np.testing.assert_array_equal(result.pulls.sum(axis=1).argmax(axis=1), [1, 0, 1])
    drawn = posse.Bandit.bernoulli(UniformMeans(4, 0.2, 0.8))
    few = posse.simulate(drawn, NETWORK, DEC_TS, horizon=20, runs=3, seed=1)
    many = posse.simulate(drawn, NETWORK, DEC_TS, horizon=20, runs=9, seed=1)
    np.testing.assert_array_equal(few.regret, many.regret[:3])


def test_more_runs_than_means_are_refused():
    bandit = posse.Bandit.gaussian([[0.0, 1.0], [1.0, 0.0]])
    with pytest.raises(ValueError, match="runs is 3, but means are given for 2 runs"):
        posse.simulate(bandit, NETWORK, DEC_TS, horizon=5, runs=3)


def test_one_agent_is_a_plain_bandit():
    for network in (networks.cycle(1), networks.complete(1)):
        result = posse.simulate(BANDIT, network, DEC_TS, horizon=30, runs=2, seed=1)
        alone = posse.simulate(
            BANDIT, network, posse.Isolated(posse.ThompsonSampling()), horizon=30, runs=2, seed=1
        )
        np.testing.assert_allclose(result.regret, alone.regret)


def test_a_misspecified_model_learns_all_the_same():
    bandit = posse.Bandit(Bernoulli(), [0.2, 0.8])
    model = posse.Decentralized(posse.ThompsonSampling(), family=Gaussian())
    result = posse.simulate(bandit, networks.cycle(5), model, horizon=200, runs=5, seed=1)
    assert result.summary().mean < 20


class TestRecord:
    def test_everything_by_default(self):
        np.testing.assert_array_equal(recorded_rounds(None, 7), np.arange(1, 8))

    @pytest.mark.parametrize("horizon", [1, 2, 10, 100, 12345, 10**6])
    @pytest.mark.parametrize("points", [1, 2, 3, 50, 99, 100])
    def test_a_number_of_points_is_distinct_and_ends_at_the_horizon(self, points, horizon):
        times = recorded_rounds(points, horizon)
        assert len(times) == min(points, horizon)
        assert times[-1] == horizon
        assert times[0] == (1 if points > 1 or horizon == 1 else horizon)
        assert (np.diff(times) > 0).all()

    def test_an_array_keeps_those_rounds_and_the_horizon(self):
        np.testing.assert_array_equal(recorded_rounds([2, 5], 9), [2, 5, 9])
        np.testing.assert_array_equal(recorded_rounds([9], 9), [9])

    @pytest.mark.parametrize(
        "bad", [0, -1, 2.5, [], [0, 3], [3, 2], [2, 2], [4, 99], [1.5], "all", [True, 5]]
    )
    def test_bad_records_are_refused(self, bad):
        with pytest.raises(ValueError, match="record"):
            recorded_rounds(bad, 9)

    def test_recording_changes_nothing_else(self):
        full = posse.simulate(BANDIT, NETWORK, DEC_TS, horizon=40, runs=3, seed=1)
        some = posse.simulate(BANDIT, NETWORK, DEC_TS, horizon=40, runs=3, seed=1, record=[3, 17])
        np.testing.assert_array_equal(some.regret, full.regret[:, [2, 16, 39]])
        np.testing.assert_array_equal(some.pulls, full.pulls)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"horizon": 0}, "horizon must be a whole number at least 1"),
        ({"horizon": 2.5}, "horizon must be a whole number"),
        ({"runs": 0}, "runs must be a whole number at least 1"),
        ({"runs": "many"}, "runs must be a whole number"),
        ({"seed": -1}, "seed must be a whole number at least 0"),
        ({"threads": 0}, "threads must be a whole number at least 1"),
        ({"engine": "referense"}, "did you mean 'reference'"),
        ({"bandit": [0.1, 0.2]}, "bandit must be a posse.Bandit"),
        ({"network": 5}, "network must be a network such as"),
        ({"algorithm": posse.ThompsonSampling()}, "algorithm must be one such as"),
        (
            {"algorithm": posse.Decentralized(posse.ThompsonSampling(), family=Bernoulli())},
            r"'bernoulli' learns from rewards in \[0, 1\]",
        ),
    ],
)
def test_bad_input_gets_one_clear_sentence(change, message):
    arguments = {"bandit": BANDIT, "network": NETWORK, "algorithm": DEC_TS, "horizon": 5, "runs": 2}
    with pytest.raises(ValueError, match=message) as error:
        posse.simulate(**{**arguments, **change})
    assert "\n" not in str(error.value)


def test_an_empty_comparison_is_refused():
    with pytest.raises(ValueError, match="algorithms must be a dict"):
        posse.compare(BANDIT, NETWORK, {}, horizon=5)


def test_a_progress_bar_reaches_the_end(capfd):
    posse.simulate(BANDIT, NETWORK, DEC_TS, horizon=50, runs=4, seed=1, progress=True)
    shown = capfd.readouterr()
    assert "100%" in shown.err
    assert shown.out == ""


def test_a_family_that_cannot_draw_is_refused_at_once():
    family = Grid(Grid.example().log_likelihood, Grid.example().mean, (0.0, 1.0))
    with pytest.raises(ValueError, match="give it draw="):
        posse.simulate(posse.Bandit(family, [0.2, 0.8]), NETWORK, DEC_TS, horizon=3, runs=1)
