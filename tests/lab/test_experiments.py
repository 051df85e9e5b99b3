"""Experiments as data: there and back for everything registered, and an error for every mistake."""

import dataclasses
import pickle
import tomllib
import uuid
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import posse
from posse import networks
from posse.algorithms import ALGORITHMS
from posse.bandits import UniformMeans
from posse.families import Gaussian
from posse.lab.comparisons import Comparison
from posse.lab.experiments import (
    Experiment,
    experiment_from_toml,
    experiment_of,
    experiment_to_toml,
    read_experiment,
    write_experiment,
)
from posse.policies import POLICIES
from posse.serialization import toml

EVERY = sorted((Path(__file__).parents[2] / "experiments").glob("*.toml"))
FILES = [path for path in EVERY if "[sweep]" not in path.read_text()]
TEXT = st.text(st.characters(codec="utf-8"))  # whatever a file can hold
TS = posse.ThompsonSampling()
SMALL = Experiment(
    posse.Bandit.gaussian([0.5, 0.1]),
    networks.cycle(3),
    {"dec-TS": posse.Decentralized(TS)},
    horizon=5,
    runs=2,
)


def returns(experiment):
    return experiment_from_toml(experiment_to_toml(experiment)) == experiment


def replaced(**fields):
    return dataclasses.replace(SMALL, **fields)


# There and back ------------------------------------------------------------------------------


def test_every_family_returns(family, typical_means):
    means = typical_means(family, np.random.default_rng(0), 3)
    assert returns(replaced(bandit=posse.Bandit(family, means)))
    assert returns(replaced(algorithms={"own": posse.Decentralized(TS, family, 2.5)}))


def test_every_policy_returns(policy):
    assert returns(replaced(algorithms={"it": posse.Isolated(policy)}))


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_returns(name, example_of):
    assert returns(replaced(algorithms={name: example_of(ALGORITHMS[name])}))


@pytest.mark.parametrize("name", networks.GRAPHS)
def test_every_graph_returns(name):
    network = networks.Network(name, tuple(networks.EXAMPLES[name].items()))
    assert returns(replaced(network=network))
    weighted = network if network.is_directed else network.weighted("metropolis")
    assert returns(replaced(network=weighted.failing(0.3)))
    assert returns(replaced(network=network.gossip()))


def test_a_matrix_of_weights_returns():
    matrix = [[0.5, 0.5, 0.0], [0.5, 0.25, 0.25], [0.0, 0.25, 0.75]]
    assert returns(replaced(network=networks.from_matrix(matrix)))


@pytest.mark.parametrize(
    "means",
    [
        UniformMeans(4, -1.0, 2.0),
        [[0.1, 0.2], [0.3, 0.4]],
        np.array([1, 2, 3]),
        np.array([1e-300, 0.1 + 0.2, 1e30]),
    ],
)
def test_every_kind_of_means_returns(means):
    assert returns(replaced(bandit=posse.Bandit(Gaussian(), means)))


@given(
    title=TEXT,
    label=st.text(min_size=1).filter(lambda s: s.strip() and s.isprintable()),
    seed=st.integers(0, 2**80),
    horizon=st.integers(1, 10**9),
    sigma=st.floats(1e-30, 1e30),
)
def test_any_words_and_numbers_return(title, label, seed, horizon, sigma):
    algorithm = posse.Centralized(TS, Gaussian(sigma=sigma))
    e = replaced(title=title, algorithms={label: algorithm}, seed=seed, horizon=horizon, record=9)
    assert returns(e)


PLAIN = st.recursive(
    st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=10,
)


@given(st.dictionaries(TEXT, PLAIN, max_size=5))
def test_toml_is_what_tomllib_reads(data):
    assert tomllib.loads(toml.format_section((), data)) == data
    assert tomllib.loads(toml.format_section(("a", "b c"), data)) == {"a": {"b c": data}}


@pytest.mark.parametrize(
    "fields",
    [
        {"runs": range(5, 9)},
        {"engine": "reference"},
        {"engine": {"b": "reference"}},
        {"engine": {"a": "compiled", "b": "compiled"}},
        {"keep": ("means", "agents")},
        {"algorithms": {"a": posse.Isolated(TS)}, "single": True},
    ],
)
def test_runs_engines_and_what_is_kept_return(fields):
    algorithms = {"a": posse.Isolated(TS), "b": posse.Decentralized(TS)}
    e = replaced(**{"algorithms": algorithms, **fields})
    assert returns(e)
    assert pickle.loads(pickle.dumps(e)) == e
    assert hash(e) == hash(dataclasses.replace(e))


def test_the_order_of_algorithms_is_kept():
    e = replaced(algorithms={name: posse.Isolated(TS) for name in "zay"})
    assert list(experiment_from_toml(experiment_to_toml(e)).algorithms) == ["z", "a", "y"]


def test_values_without_fields_are_written_by_name():
    assert 'policy = "thompson-sampling"' in experiment_to_toml(SMALL)


def test_a_new_entry_of_a_registry_needs_nothing_else(monkeypatch):
    @dataclasses.dataclass(frozen=True)
    class Patient(posse.Greedy):
        name: ClassVar[str] = "patient"
        rounds: int = 3
        mood: str | None = None
        scale: tuple[float, ...] = (1.0, 2.0)

    monkeypatch.setitem(POLICIES, "patient", Patient)
    e = replaced(algorithms={"p": posse.Isolated(Patient(rounds=7, mood="calm", scale=(0.5,)))})
    assert returns(e)
    text = experiment_to_toml(e).replace("rounds = 7", "rounds = 7.5")
    with pytest.raises(ValueError, match=r"^algorithms\.p\.policy\.rounds: must be a whole number"):
        experiment_from_toml(text)


def test_a_saved_result_gives_its_experiment_back(tmp_path):
    e = replaced(
        bandit=posse.Bandit.gaussian(UniformMeans(3)),
        network=networks.cycle(4).failing(0.3),
        algorithms={"a": posse.Decentralized(posse.BayesUCB(1.0)), "b": posse.Isolated(TS)},
        record=(2, 5),
    )
    comparison = e.run()
    comparison.save(tmp_path / "r.nc")
    ran = dataclasses.replace(e, engine="compiled")
    assert experiment_of(posse.load(tmp_path / "r.nc")) == ran
    assert list(experiment_of(comparison["b"]).algorithms.values()) == [posse.Isolated(TS)]
    assert experiment_of(SMALL.run()) == replaced(engine="compiled")
    again = experiment_of(comparison).run()
    np.testing.assert_array_equal(again["a"].regret, comparison["a"].regret)


def test_results_of_several_problems_are_no_experiment():
    results = [SMALL.run(), replaced(network=networks.star(SMALL.network.n_agents), seed=9).run()]
    mixed = Comparison({name: each["dec-TS"] for name, each in zip("ab", results, strict=True)})
    with pytest.raises(ValueError, match="as one experiment: they differ in network and seed"):
        experiment_of(mixed)


def test_run_is_compare():
    alone = posse.simulate(SMALL.bandit, SMALL.network, posse.Decentralized(TS), horizon=5, runs=2)
    np.testing.assert_array_equal(SMALL.run()["dec-TS"].regret, alone.regret)


def test_experiments_are_values():
    assert pickle.loads(pickle.dumps(SMALL)) == SMALL
    assert hash(SMALL) == hash(replaced())
    assert replaced(seed=1) != SMALL
    assert replaced(record=np.array([1, 5])) == replaced(record=[1, 5])
    with pytest.raises(TypeError):
        SMALL.algorithms["other"] = posse.Isolated(TS)


# Functions -----------------------------------------------------------------------------------

MODEL = """
from dataclasses import dataclass
from posse.policies import Greedy
import numpy as np

def log_likelihood(reward, theta): return -(reward - theta) ** 2
def mean(theta): return theta
def draw(mean, uniform): return mean + uniform - 0.5
def means(generator): return generator.uniform(0.2, 0.8, 3)
number = 3

@dataclass(frozen=True)
class Mine(Greedy):
    patience: int = 1
"""


@pytest.fixture
def beside(tmp_path):
    """A file of functions beside the experiment, under a name no other test has imported."""
    module = f"model_{uuid.uuid4().hex}"
    (tmp_path / f"{module}.py").write_text(MODEL)
    return module


def test_functions_beside_the_file_are_found(tmp_path, beside):
    path = tmp_path / "e.toml"
    path.write_text(f"""
        horizon = 4
        runs = 2
        [bandit]
        means = "{beside}:means"
        [bandit.family]
        name = "grid"
        support = [0, 1]
        log_likelihood = "{beside}:log_likelihood"
        mean = "{beside}:mean"
        draw = "{beside}:draw"
        [network]
        graph = "cycle"
        agents = 3
        [algorithms.mine]
        name = "isolated"
        policy = {{name = "{beside}:Mine", patience = 2}}
    """)
    e = read_experiment(path)
    assert e.bandit.n_arms == 3
    assert e.algorithms["mine"].policy.patience == 2
    assert returns(e)
    assert experiment_of(e.run()) == dataclasses.replace(e, engine="reference")


@pytest.mark.parametrize(
    ("means", "sentence"),
    [
        ("MODULE:nothing", "bandit.means: 'MODULE:nothing' is unknown: module 'MODULE' has no"),
        ("MODULE:number", "bandit.means: 'MODULE:number' must be a function, got 3"),
        ("no_such_module:f", "bandit.means: 'no_such_module:f' cannot be imported: No module"),
        ("..up:f", "bandit.means: a function is named 'module:function', got '..up:f'"),
        (":f", "bandit.means: a function is named 'module:function', got ':f'"),
    ],
)
def test_functions_that_are_not_there(tmp_path, beside, means, sentence):
    path = tmp_path / "e.toml"
    text = experiment_to_toml(SMALL).replace("[0.5, 0.1]", f'"{means}"')
    path.write_text(text.replace("MODULE", beside))
    with pytest.raises(ValueError, match="means") as error:
        read_experiment(path)
    assert str(error.value).startswith(f"{path}: {sentence.replace('MODULE', beside)}")


def drawn(generator):
    return generator.uniform(0, 1, 2)


def test_functions_without_a_name_are_refused(tmp_path, monkeypatch):
    @dataclasses.dataclass(frozen=True)
    class Local(posse.Greedy):
        pass

    local = replaced(algorithms={"x": posse.Isolated(Local())})
    unnamed = replaced(bandit=posse.Bandit(Gaussian(), lambda g: g.uniform(0, 1, 2)))
    for path, e in (("algorithms.x", local), ("bandit", unnamed)):
        with pytest.raises(ValueError, match=f"^{path}: .*<locals>.* cannot be written to a file"):
            write_experiment(e, tmp_path / "e.toml")
    monkeypatch.setattr(drawn, "__module__", "__main__")
    scripted = replaced(bandit=posse.Bandit(Gaussian(), drawn))
    with pytest.raises(ValueError, match=r"^bandit: <function drawn> cannot be written to a file"):
        write_experiment(scripted, tmp_path / "e.toml")
    assert list(tmp_path.iterdir()) == []


# The files that come with the library --------------------------------------------------------


def test_there_are_experiments():
    worlds = {"sites", "drift", "late", "stopping"}
    assert {"demo", "drawn-means", "link-failure", *worlds} <= {path.stem for path in FILES}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_file_runs_and_returns(path):
    e = read_experiment(path)
    assert e.title
    assert returns(e)
    assert f"posse run experiments/{path.name}" in path.read_text()
    comparison = dataclasses.replace(e, horizon=3, runs=2).run()
    assert list(comparison) == list(e.algorithms)


def test_the_demo_is_the_papers_first_figure():
    demo = read_experiment(next(path for path in FILES if path.stem == "demo"))
    assert demo.bandit == posse.Bandit.gaussian([0.5] + [0.1] * 16)
    assert demo.network == networks.cycle(100)
    assert demo.algorithms["dec-TS"] == posse.Decentralized(TS)
