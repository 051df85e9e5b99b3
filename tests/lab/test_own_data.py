"""Data sets and user-defined environments against a slow plain loop, and at the door."""

import dataclasses
import sys

import numpy as np
import pytest

import posse
from posse.bandits import Dataset, Environment
from posse.families import Bernoulli, Gaussian, Linear, Logistic
from posse.randomness import create_generator

TS = posse.Isolated(posse.ThompsonSampling())
CYCLE = posse.networks.cycle(3)


def make_table(n_rows=12, n_arms=3, n_features=2):
    generator = np.random.default_rng(5)
    contexts = np.column_stack([np.ones(n_rows), generator.normal(size=(n_rows, n_features - 1))])
    labels = np.arange(n_rows) % n_arms
    return contexts, np.eye(n_arms)[labels], labels


class Cyclic:
    """Plays arm (round + agent) mod K whatever happens, and stores what it was given."""

    name = "cyclic"

    def __init__(self):
        self.given = []

    def init(self, problem):
        return problem

    def choose(self, state, t, generator, contexts=None):
        arms = (t + np.arange(state.n_agents)) % state.n_arms
        return np.tile(arms, (state.n_runs, 1))

    def learn(self, state, arms, rewards, weights, contexts=None):
        self.given.append((arms.copy(), rewards.copy(), contexts))
        return state


def simulate(bandit, algorithm=TS, network=CYCLE, **options):
    options = {"horizon": 6, "runs": 2, "seed": 3} | options
    return posse.simulate(bandit, network, algorithm, **options)


@pytest.mark.parametrize("sharded", [False, True])
def test_a_data_set_is_played_as_a_plain_loop_plays_it(sharded):
    contexts, rewards, labels = make_table()
    sites = np.array(["b", "a", "c"])[labels]
    table = Dataset(contexts, rewards, sites if sharded else None)
    player = Cyclic()
    with pytest.warns(UserWarning, match="cannot be rerun|not rerun"):
        result = simulate(table, player, runs=range(1, 2), keep=("agents", "means"))
    generator = create_generator(3, 1, "contexts")
    total = np.zeros(3)
    pulls = np.zeros((3, 3), dtype=int)
    for t in range(1, 7):
        uniforms = generator.random(3)
        arms, paid, given = player.given[t - 1]
        for agent in range(3):
            own = [i for i in range(12) if not sharded or sites[i] == "abc"[agent]]
            row = own[int(uniforms[agent] * len(own))]
            arm = (t + agent) % 3
            assert arms[0, agent] == arm
            assert paid[0, agent] == rewards[row, arm]
            assert given[0, agent].tolist() == contexts[row].tolist()
            assert result.means[0, t - 1, agent].tolist() == rewards[row].tolist()
            total[agent] += max(rewards[row]) - rewards[row, arm]
            pulls[agent, arm] += 1
        assert result.regret[0, t - 1] == pytest.approx(total.mean(), abs=1e-12)
        assert result.agent_regret[0, :, t - 1].tolist() == total.tolist()
    assert result.pulls[0].tolist() == pulls.tolist()
    assert result.arm_order.tolist() == [[0, 1, 2]]
    assert result.measure == "regret"


def test_every_row_of_a_site_is_drawn_alike_and_no_other():
    sites = np.array([2, 0, 0, 2, 2, 0, 0])
    table = Dataset(None, np.eye(2)[[0, 1, 0, 1, 0, 1, 0]], sites)
    rows = table.draw_rows(np.random.default_rng(0), (20_000, 2))
    assert set(rows[:, 0]) == {1, 2, 5, 6}
    assert set(rows[:, 1]) == {0, 3, 4}
    for agent, size in ((0, 4), (1, 3)):
        counts = np.bincount(rows[:, agent], minlength=7)
        expected = 20_000 / size
        # chi-square with at most 3 degrees of freedom: above 16.3 with probability 0.001
        statistic = ((counts[counts > 0] - expected) ** 2 / expected).sum()
        assert statistic < 16.3


@pytest.mark.parametrize(
    "family",
    [Logistic(rate=0.3), Linear(sigma=0.5), Linear(sigma=0.5, shared=True)],
    ids=["logistic", "linear", "shared"],
)
def test_contextual_families_learn_which_arm_is_right_in_which_row(family):
    rng = np.random.default_rng(1)
    sides = rng.integers(2, size=50)
    contexts = np.column_stack([np.ones(50), np.where(sides, 1.0, -1.0)])
    if family.shared:  # features of arms: the arm's number times the side
        contexts = np.stack([contexts * [1, -1], contexts * [1, 1]], axis=1)
    table = Dataset(contexts, np.eye(2)[sides], family=family)
    late = simulate(table, horizon=200, runs=4).regret
    assert (late[:, -1] - late[:, 99] < 10).all()  # uniform play: 50 more
    blind = posse.Isolated(posse.ThompsonSampling(), family=Bernoulli())
    assert (simulate(table, blind, horizon=200, runs=4).regret[:, -1] > 60).all()


@pytest.mark.parametrize("family", [None, Gaussian(sigma=0.5)], ids=["bernoulli", "gaussian"])
def test_plain_families_learn_the_best_column(family):
    rewards = np.array([[1, 0, 0], [1, 0, 1], [0, 1, 0], [1, 1, 0], [1, 0, 0]])
    table = Dataset(None, rewards, family=family)
    result = simulate(table, horizon=300, runs=4)
    assert (result.pulls[:, :, 0].sum(axis=1) > 0.7 * 900).all()


def test_runs_are_the_same_alone_and_in_a_block_and_algorithms_meet_the_same_rows():
    table = Dataset(*make_table()[:2])
    together = simulate(table, runs=3, keep="means")
    alone = simulate(table, runs=range(2, 3), keep="means")
    assert (together.regret[2] == alone.regret[0]).all()
    other = simulate(table, posse.Centralized(posse.ThompsonSampling()), runs=3, keep="means")
    assert (together.means == other.means).all()


def write_module(folder, monkeypatch):
    folder.joinpath("flowers.py").write_text(
        "import numpy as np\n"
        "import posse\n"
        "N = 8\n"
        "def table():\n"
        "    contexts = np.column_stack([np.ones(N), np.arange(N) / N])\n"
        "    rewards = np.eye(2)[np.arange(N) % 2]\n"
        "    return posse.bandits.Dataset(contexts, rewards, name='flowers:table')\n"
        "def draw(arms, t, generator):\n"
        "    return arms + generator.standard_normal(len(arms))\n"
        "def means(t):\n"
        "    return [0.0, 1.0]\n"
    )
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "flowers", raising=False)
    import flowers

    return flowers


def test_a_data_set_is_saved_by_name_and_digest(tmp_path, monkeypatch):
    flowers = write_module(tmp_path, monkeypatch)
    table = dataclasses.replace(flowers.table(), family=Logistic(rate=0.4, prior_sd=0.7))
    result = simulate(table)
    assert result.settings["bandit"]["dataset"] == "flowers:table"
    assert result.settings["bandit"]["digest"] == table.digest
    result.save(tmp_path / "r.nc")
    experiment = posse.experiment_of(posse.load(tmp_path / "r.nc"))
    assert experiment.bandit == table
    assert (experiment.run().regret == result.regret).all()
    posse.write_experiment(experiment, tmp_path / "e.toml")
    assert len((tmp_path / "e.toml").read_text()) < 1000  # the digest, not the table
    assert posse.read_experiment(tmp_path / "e.toml") == experiment
    monkeypatch.setattr(flowers, "N", 9)
    with pytest.raises(ValueError, match=r"bandit\.digest.*the data have changed"):
        posse.read_experiment(tmp_path / "e.toml")


def test_a_data_set_without_a_function_is_saved_but_not_rerun(tmp_path):
    table = Dataset(*make_table()[:2], name="lilies")
    with pytest.warns(UserWarning, match=r"Dataset\('lilies', 12 rows.*saved but not rerun"):
        result = simulate(table)
    assert result.settings["bandit"]["digest"] == table.digest
    result.save(tmp_path / "r.nc")
    with pytest.raises(ValueError, match=r"bandit\.dataset cannot be rerun.*lilies"):
        posse.experiment_of(posse.load(tmp_path / "r.nc"))


def test_digests_tell_tables_apart():
    contexts, rewards, labels = make_table()
    tables = [
        Dataset(contexts, rewards),
        Dataset(contexts, rewards, labels),
        Dataset(contexts, rewards[:, [1, 0, 2]]),
        Dataset(contexts * [1, 2], rewards),
        Dataset(None, rewards),
    ]
    assert len({table.digest for table in tables}) == len(tables)
    assert Dataset(contexts, rewards).digest == tables[0].digest
    assert Dataset(contexts, rewards) == tables[0]


@pytest.mark.parametrize(
    ("arguments", "options", "sentence"),
    [
        ((None, [[1, 0], [0, np.nan]]), {}, "rewards must be finite numbers"),
        ((None, [1, 0]), {}, r"rewards must have shape \(rows, K\)"),
        ((None, [[1], [0]]), {}, "at least 2 arms"),
        ((None, [["a", "b"]]), {}, "rewards must be numbers"),
        (([[1.0]], [[1, 0], [0, 1]]), {}, "contexts must be of the 2 rows"),
        ((None, [[1, 0], [0, 1]], ["x"]), {}, "shards must be the site of each of the 2 rows"),
        ((None, [[1, 0], [0, 1]], [0, np.nan]), {}, "shards must be the site"),
        ((None, [[3.0, 0], [0, 1]]), {}, "family must be given.*Gaussian"),
        (([[1.0]], [[3.0, 0]]), {}, "family must be given.*Linear"),
        ((None, [[3.0, 0]]), {"family": Bernoulli()}, r"rewards must lie in \[0, 1\]"),
        ((None, [[1.0, 0]]), {"family": Linear()}, "without contexts, got 'linear'"),
        (([[1.0]], [[1.0, 0]]), {"family": Bernoulli()}, "with contexts, got 'bernoulli'"),
        (([[1.0]], [[1.0, 0]]), {"family": Linear(shared=True)}, "a row for each arm"),
        (([[1.0]], [[1.0, 0]]), {"family": Linear(features=3)}, "features is 3"),
        ((None, [[1.0, 0]]), {"family": Bernoulli}, "the class Bernoulli"),
        ((None, [[1.0, 0]]), {"name": 3}, "name must be printable text"),
    ],
)
def test_a_wrong_data_set_is_refused_in_a_sentence(arguments, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        Dataset(*arguments, **options)


def test_wrong_uses_of_a_data_set_are_refused():
    _, rewards, labels = make_table()
    with pytest.raises(ValueError, match="shards have 3 sites, but the network has 4 agents"):
        simulate(Dataset(None, rewards, labels), network=posse.networks.cycle(4))
    with pytest.raises(ValueError, match="needs contexts"):
        simulate(Dataset(None, rewards), posse.Isolated(posse.ThompsonSampling(), Linear()))
    table = Dataset(None, rewards * 5, family=Gaussian(sigma=3.0))
    with pytest.raises(ValueError, match=r"learns from rewards in \[0, 1\].*lie in \[0, 5\]"):
        simulate(table, posse.Isolated(posse.ThompsonSampling(), Bernoulli()))
    with pytest.raises(ValueError, match="no kernel for bandit Dataset"):
        simulate(Dataset(None, rewards), engine="compiled")
    with pytest.raises(ValueError, match="fixed means"):
        posse.theory.predicted_regret(Dataset(None, rewards), CYCLE, horizon=10)


# ---- Environments of one's own


def draw_steps(arms, t, generator):
    return 10.0 * t + arms + generator.standard_normal(len(arms))


def step_means(t):
    return np.array([[0.0, t, 1.0], [t, 0.0, 1.0], [1.0, 1.0, 0.0]])


@pytest.mark.parametrize("known", [False, True])
def test_an_environment_is_played_as_a_plain_loop_plays_it(known):
    environment = Environment(draw_steps, 3, step_means if known else None)
    player = Cyclic()
    with pytest.warns(UserWarning, match="not rerun"):
        result = simulate(environment, player, runs=range(4, 5), horizon=5)
    generator = create_generator(3, 4, "rewards")
    total = 0.0
    for t in range(1, 6):
        arms = (t + np.arange(3)) % 3
        rewards = draw_steps(arms, t, generator)
        assert player.given[t - 1][0][0].tolist() == arms.tolist()
        assert player.given[t - 1][1][0].tolist() == rewards.tolist()
        gaps = [max(row) - row[arm] for row, arm in zip(step_means(t), arms, strict=True)]
        total += np.mean(gaps) if known else rewards.mean()
        curve = result.regret if known else result.reward
        assert curve[0, t - 1] == pytest.approx(total, rel=1e-12)
    assert result.measure == ("regret" if known else "reward")


@pytest.fixture(scope="module")
def rewarded():
    algorithms = {"alone": TS, "central": posse.Centralized(posse.ThompsonSampling())}
    environment = Environment(draw_steps, 3)
    return posse.compare(environment, CYCLE, algorithms, horizon=5, runs=3)


def test_unknown_means_are_called_reward_everywhere(rewarded, tmp_path):
    result = rewarded["alone"]
    assert "reward=" in repr(result)
    assert "reward:" in repr(rewarded)
    assert str(result.summary()).startswith("reward per agent")
    assert next(iter(rewarded.table())) == "reward"
    assert "reward" in rewarded.to_dataframe()
    assert "regret" not in rewarded.to_dataframe()
    assert "reward" in rewarded.to_xarray()
    assert "Reward per agent" in rewarded._repr_html_()
    assert "egret" not in rewarded._repr_html_() + result._repr_html_()
    assert rewarded.plot().get_ylabel() == "reward per agent"
    assert not hasattr(result, "regret")
    with pytest.raises(AttributeError, match="see reward"):
        _ = result.regret
    rewarded.save(tmp_path / "c.nc")
    loaded = posse.load(tmp_path / "c.nc")
    assert (loaded["alone"].reward == result.reward).all()
    assert (posse.concat([result]).reward == result.reward).all()
    better = posse.paired_difference(rewarded["central"], result)
    assert better.mean == pytest.approx((rewarded["central"].reward - result.reward)[:, -1].mean())
    with pytest.raises(ValueError, match="report is about regret"):
        rewarded.report(tmp_path / "report")


def test_regret_and_reward_cannot_be_compared(rewarded):
    known = simulate(Environment(draw_steps, 3, step_means), horizon=5, runs=3, seed=0)
    with pytest.raises(ValueError, match="same measure"):
        posse.Comparison({"reward": rewarded["alone"], "regret": known})
    assert not hasattr(known, "reward")


def test_an_environment_of_a_module_comes_back_from_files(tmp_path, monkeypatch):
    flowers = write_module(tmp_path, monkeypatch)
    for means in (None, flowers.means):
        environment = Environment(flowers.draw, 2, means, family=Gaussian(sigma=2.0))
        result = simulate(environment)
        result.save(tmp_path / "r.nc")
        experiment = posse.experiment_of(posse.load(tmp_path / "r.nc"))
        assert experiment.bandit == environment
        again = experiment.run()
        assert (again.curves == result.curves).all()
        posse.write_experiment(experiment, tmp_path / "e.toml")
        assert posse.read_experiment(tmp_path / "e.toml") == experiment
    experiment = dataclasses.replace(experiment, bandit=Environment(flowers.draw, 2))
    with pytest.raises(ValueError, match="the environment has no means"):
        posse.sweep(experiment, {"horizon": [3, 4]}, folder=tmp_path / "sweep")


def fail(arms, t, generator):
    raise KeyError("no such tide")


def fail_late(arms, t, generator):
    if t == 5:
        raise KeyError("no such tide")
    return np.zeros(len(arms))


@pytest.mark.parametrize(
    ("draw", "means", "sentence"),
    [
        (lambda arms, t, generator: np.zeros(2), None, "draw must return 3 rewards"),
        (lambda arms, t, generator: "high", None, "draw must return numbers"),
        (lambda arms, t, generator: arms / 0.0, None, "draw must return finite rewards"),
        (
            lambda arms, t, generator: np.random.default_rng().random(3),
            None,
            "must draw from the generator",
        ),
        (fail, None, "environment failed in round 1: KeyError"),
        (draw_steps, lambda t: np.zeros((2, 3)), "means must return finite numbers in shape"),
        (draw_steps, lambda t: [0.0, np.inf, 1.0], "means must return finite numbers"),
    ],
)
@pytest.mark.filterwarnings("ignore:(divide by zero|invalid value):RuntimeWarning")
def test_functions_that_return_something_else_are_refused(draw, means, sentence):
    with pytest.raises(ValueError, match=sentence):
        simulate(Environment(draw, 3, means))


def test_an_error_in_a_late_round_names_round_and_run():
    with pytest.raises(KeyError) as raised:
        simulate(Environment(fail_late, 3), runs=range(7, 8))
    assert "in round 5, run 7" in raised.value.__notes__[0]


@pytest.mark.parametrize(
    ("arguments", "options", "sentence"),
    [
        (("sine", 3), {}, "draw must be a function"),
        ((draw_steps, 1), {}, "n_arms must be a whole number at least 2"),
        ((draw_steps, 3, [0.1, 0.2, 0.3]), {}, "means must be a function"),
        ((draw_steps, 3), {"family": Linear()}, "family must be one without contexts"),
    ],
)
def test_a_wrong_environment_is_refused_in_a_sentence(arguments, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        Environment(*arguments, **options)


def test_what_needs_true_means_is_refused_where_they_are_unknown():
    environment = Environment(draw_steps, 3)
    for keep in ("agents", "means"):
        with pytest.raises(ValueError, match="true means"):
            simulate(environment, keep=keep)
    with pytest.raises(ValueError, match="charge_initial"):
        simulate(environment, posse.CoopUCB2(charge_initial=False))
    with pytest.raises(ValueError, match="draw must return finite rewards in"):
        simulate(Environment(draw_steps, 3, family=Bernoulli()))
    with pytest.raises(ValueError, match="fixed means"):
        posse.theory.bounds(environment, CYCLE, horizon=10)
