"""`posse new`: files that agents can be started with."""

import pytest

from posse.live.settings import read_settings

from .calling import said


def run(capsys, *arguments):
    return said(capsys, "new", *arguments)


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_neighbours_of_each_other(capsys, tmp_path):
    code, out, err = run(capsys, "a", "b", "c", "--arms", "short, long")
    assert (code, out.split(), err) == (0, ["a.toml", "b.toml", "c.toml", "certs"], "")
    made = {name: read_settings(tmp_path / f"{name}.toml") for name in "abc"}
    assert made["a"].experiments["default"].arms == ("short", "long")
    assert len({settings.http for settings in made.values()}) == 3
    for name, settings in made.items():
        others = {other: made[other].listen for other in made if other != name}
        assert dict(settings.neighbours) == others
        assert (tmp_path / "certs" / f"{name}.key").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["a", "a"], "every agent needs a name of its own, got a a"),
        (["a b"], "a name has 1 to 64 letters"),
        (["a", "b", "--arms", "one,one"], "a.toml: arms must be one or more different names"),
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
    assert (code, err) == (2, "posse: b.toml exists: name another with --folder\n")
    assert [path.name for path in tmp_path.iterdir()] == ["b.toml"]
    assert run(capsys, "a", "b", "--folder", "x/y")[0] == 0
    assert run(capsys, "c", "--folder", "x/y")[2].startswith("posse: x/y/certs exists")
