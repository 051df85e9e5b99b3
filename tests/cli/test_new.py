"""`posse new`: files that agents can be started with."""

import pytest
import scipy.stats

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


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["a", "a"], "the names of agents must differ, got a a"),
        (["a b"], "a name has 1 to 64 letters"),
        (["a", "b", "--arms", "one,one"], "a.toml: arms must be one or more different names"),
        (["a", "--experiments", "b,b"], "the names of experiments must differ"),
        (["a", "--experiments", "b c"], "a name has 1 to 64 letters"),
        (["a", "--rate", "0.9"], "--rate must be 0.0001 to 0.5, got 0.9"),
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
