"""`posse certs`: what it writes and says, and what it says without the extra."""

import subprocess
import sys

import pytest

from posse.live.security import certificates
from tests.cli.calling import said


def run(capsys, *arguments):
    return said(capsys, "certs", *arguments)


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_an_authority_and_two_agents(capsys, tmp_path):
    paths = {name: tmp_path / "certs" / name for name in ("ca.pem", "ca.key", "b.pem", "b.key")}
    code, out, err = run(capsys, "init")
    assert (code, out.split(), err) == (0, ["certs/ca.pem", "certs/ca.key"], "")
    code, out, err = run(capsys, "issue", "b", "--host", "b.example.org", "--host", "192.0.2.1")
    assert (code, out.split(), err) == (0, ["certs/b.pem", "certs/b.key"], "")
    assert all(path.exists() for path in paths.values())
    certificate = certificates.read_certificate(paths["b.pem"])
    assert certificates.is_valid_under(certificate, certificates.read_certificate(paths["ca.pem"]))
    code, out, err = run(capsys, "issue", "b")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "b.key exists: use --force to replace it" in err
    assert run(capsys, "issue", "b", "--force", "--days", "2")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["issue", "b"], "there is no authority in certs: run posse certs init first"),
        (["issue", "a b"], "a name has 1 to 64 letters, digits, - or _, got 'a b'"),
        (["issue", "b", "--days", "0"], "a certificate must be valid for 1 day or more, got 0"),
        (["issue", "b", "--host", "b:1"], "a host is a name or an address without a port"),
        (["issue"], "Missing argument 'NAME'."),
        (["isue"], "No such command 'isue'."),
    ],
)
def test_mistakes(capsys, arguments, sentence):
    code, out, err = run(capsys, *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"posse: {sentence}")


def test_a_folder_that_is_a_file(capsys, tmp_path):
    (tmp_path / "certs").write_text("")
    code, out, err = run(capsys, "init")
    assert (code, out, err) == (2, "", "posse: certs: File exists\n")


def test_nothing_given_shows_the_help(capsys):
    code, out, err = run(capsys)
    assert code == 0
    assert "issue" in out
    assert err == ""


@pytest.mark.parametrize("arguments", [["init"], ["issue", "b"]])
def test_without_the_extra(arguments, tmp_path):
    code = f"""
import sys
sys.modules["cryptography"] = None
from posse.cli import main
main(["certs", *{arguments!r}])
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, cwd=tmp_path
    )
    expected = (
        "posse: live agents need cryptography: install Posse with the extra live, "
        'for example pip install ".[live]" in a clone\n'
    )
    assert (done.returncode, done.stdout, done.stderr) == (2, "", expected)
    assert list(tmp_path.iterdir()) == []
