"""`posse new`: files that agents can be started with."""

import networkx
import pytest
import scipy.stats

from posse.cli.common import UserError
from posse.cli.new import choose_neighbours
from posse.live.config.agent_settings import read_settings
from tests.cli.calling import said


def run(capsys, *arguments):
    return said(capsys, "new", *arguments)


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_neighbours_of_each_other(capsys, tmp_path):
    code, out, err = run(capsys, "a", "b", "c", "--arms", "short, long")
    assert (code, out.split()) == (0, ["a.toml", "b.toml", "c.toml", "certs"])
    start, ask, look = err.splitlines()  # what to do next
    assert "posse agent a.toml b.toml c.toml" in start
    assert "curl http://127.0.0.1:8700/v1/decisions" in ask
    assert "posse status http://127.0.0.1:8700" in look
    assert "docs/live.md" in look
    made = {name: read_settings(tmp_path / f"{name}.toml") for name in "abc"}
    assert made["a"].experiments["default"].arms == ("short", "long")
    assert len({settings.http for settings in made.values()}) == 3
    for name, settings in made.items():
        others = {other: made[other].listen for other in made if other != name}
        assert dict(settings.neighbours) == others
        assert (tmp_path / "certs" / f"{name}.key").stat().st_mode & 0o777 == 0o600


def test_several_experiments(capsys, tmp_path):
    code, _, err = run(capsys, "a", "b", "--experiments", "checkout, banner", "--arms", "x,y")
    assert code == 0
    assert "/v1/experiments/checkout/decisions" in err
    made = read_settings(tmp_path / "a.toml")
    assert list(made.experiments) == ["checkout", "banner"]
    assert all(each.arms == ("x", "y") for each in made.experiments.values())
    assert made.experiments["banner"].default_reward == 0
    assert list(made.neighbours) == ["b"]


@pytest.mark.parametrize("rate", [0.0005, 0.03, 0.2])
def test_a_prior_for_rare_rewards(capsys, tmp_path, rate):
    """A flat prior's 95% interval leaves out 2%: it begins at 2.5%."""
    assert run(capsys, "a", "--rate", rate)[0] == 0
    family = read_settings(tmp_path / "a.toml").experiments["default"].family
    prior = scipy.stats.beta(family.alpha, family.beta)
    assert prior.mean() == pytest.approx(rate, rel=1e-3)
    low, high = prior.ppf([0.025, 0.975])
    assert low < rate / 10
    assert high > 3 * rate


@pytest.mark.parametrize("rate", [None, 0.03])
def test_a_prior_for_revenue(capsys, tmp_path, rate):
    """40 a sale on average, once in 33 visits; the prior weighs one sale."""
    options = [] if rate is None else ["--rate", rate]
    assert run(capsys, "a", "--revenue", 40, *options)[0] == 0
    experiment = read_settings(tmp_path / "a.toml").experiments["default"]
    family = experiment.family
    assert family.name == "revenue"
    assert family.posterior_mean(family.prior()) == pytest.approx(40 * (rate or 0.5), rel=1e-3)
    assert experiment.reward_range == (0, 800)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["a", "a"], "the names of agents must differ, got a a"),
        (["a b"], "a name has 1 to 64 letters"),
        (["a", "b", "--arms", "one,one"], "a.toml: arms must be one or more different names"),
        (["a", "--experiments", "b,b"], "the names of experiments must differ"),
        (["a", "--experiments", "b c"], "a name has 1 to 64 letters"),
        (["a", "--rate", "0.9"], "--rate must be 0.0001 to 0.5, got 0.9"),
        (["a", "--revenue", "-3"], "--revenue must be 0.000001 to 1e12, got -3.0"),
        ([], "Missing argument 'NAME'."),
    ],
)
def test_mistakes_leave_nothing_behind(capsys, tmp_path, arguments, sentence):
    code, out, err = run(capsys, *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"posse: {sentence}")
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_replaced(capsys, tmp_path):
    (tmp_path / "b.toml").write_text("mine")
    code, _, err = run(capsys, "a", "b")
    assert (code, err) == (2, "posse: b.toml exists already: choose another --folder\n")
    assert [path.name for path in tmp_path.iterdir()] == ["b.toml"]
    assert run(capsys, "a", "b", "--folder", "x/y")[0] == 0
    assert run(capsys, "c", "--folder", "x/y")[2].startswith("posse: x/y/certs exists")


def graph_of(folder, names):
    """The links that the files say, each from both ends."""
    links = {name: set(read_settings(folder / f"{name}.toml").neighbours) for name in names}
    graph = networkx.Graph([(name, other) for name in names for other in links[name]])
    assert all(name in links[other] for name in names for other in links[name])
    return graph


def test_many_agents_have_four_neighbours_each_in_one_network(capsys, tmp_path):
    names = [f"shop-{number}" for number in range(11)]
    assert run(capsys, *names)[0] == 0
    graph = graph_of(tmp_path, names)
    assert networkx.is_connected(graph)
    assert {degree for _, degree in graph.degree} == {4}
    listens = {name: read_settings(tmp_path / f"{name}.toml").listen for name in names}
    neighbours = read_settings(tmp_path / "shop-3.toml").neighbours
    assert all(listens[name] == address for name, address in neighbours.items())


@pytest.mark.parametrize(("count", "degree"), [(7, 4), (8, 3), (30, 2), (200, 4), (200, 6)])
def test_the_graph_hangs_on_the_names_alone(count, degree):
    names = [f"shop-{number}" for number in range(count)]
    links = choose_neighbours(names, degree)
    assert links == choose_neighbours(names[::-1], degree)
    assert {len(near) for near in links.values()} == {degree}
    assert networkx.is_connected(networkx.Graph([(a, b) for a in links for b in links[a]]))
    if count == 200:  # a few steps cross it
        graph = networkx.Graph([(a, b) for a in links for b in links[a]])
        assert networkx.diameter(graph) <= 7


def test_few_agents_are_all_neighbours_unless_a_degree_is_given():
    names = list("abcdef")
    assert all(len(near) == 5 for near in choose_neighbours(names, None).values())
    assert all(len(near) == 3 for near in choose_neighbours(names, 3).values())
    assert choose_neighbours(["a"], None) == {"a": []}
    assert choose_neighbours(["a", "b"], None) == {"a": ["b"], "b": ["a"]}


@pytest.mark.parametrize(
    ("count", "degree", "sentence"),
    [
        (8, 1, "--degree must be from 2 to 7 for 8 agents, got 1"),
        (8, 8, "--degree must be from 2 to 7 for 8 agents, got 8"),
        (7, 3, "--degree 3 is not possible for 7 agents, .*: choose 4"),
    ],
)
def test_degrees_that_are_not_possible(count, degree, sentence):
    with pytest.raises(UserError, match=sentence):
        choose_neighbours([f"a{i}" for i in range(count)], degree)
