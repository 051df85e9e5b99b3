"""Any agent.toml, and any trouble around it: one line, exit code 2, never a traceback."""

import random
import shutil
import signal
import socket
from pathlib import Path

import pytest

from posse.cli import main
from posse.live.config.agent_settings import read_settings
from posse.live.process import make_node
from posse.live.security import certificates
from tests.live.loopback import certified

GOOD = {
    "name": '"a"', "arms": '["x", "y"]', "family": '"bernoulli"', "policy": '"greedy"',
    "exchange": '"flows"', "reward_range": "[0, 1]", "reward_window": "10", "default_reward": "0",
    "network_size": "3", "store": '"a.db"', "http": '"127.0.0.1:0"', "http_hosts": '["h"]',
    "listen": '"127.0.0.1:0"', "neighbours": '{b = ""}', "network": '"n"',
    "certificates": '"certs"', "insecure": "true", "tick_seconds": "1",
}  # fmt: skip
VALUES = [
    '""', '"x"', r'"\u0000"', '"a/b"', '"../x"', '"' + "x" * 5000 + '"', "0", "-1", "1", "1.5",
    "nan", "inf", "-inf", "1e308", "9" * 400, "9" * 5000, "true", "[]", "[[]]", '["x"]', "[0]",
    '["x", "x"]', '["x", 1]', "{}", '{name = "x"}', '{name = "bernoulli", a = -1}', "{name = [1]}",
    '{name = "bernoulli", alpha = nan}', '{name = "gaussian", sigma = 0}', '{a = "b"}', "{a = 1}",
    '{b = "127.0.0.1:99999"}', '{"a b" = "x:1"}', "{b = {c = 1}}", "1979-05-27", "07:32:00",
    '"127.0.0.1:99999"', '"127.0.0.1"', '"0.0.0.0:1"', '"unix:"', '"unix:x"', '"/"', '"."',
    '"/nonexistent/x.db"', '"poisson"', '"grid"', r'["a", "\n"]', "[1, 0]", '[0, "x"]', "[nan, 1]",
    "[0, 1, 2]", "[-1e308, 1e308]", "[" * 5000, "{a=" * 5000, '["' + "x" * 300 + '", "y"]',
    "18446744073709551616", "2.0",
]  # fmt: skip
NOT_TOML = [b"\xff", b"a=1\na=2", b"", b"[" * 5000, b"x" * 10**5, b"\x00", b"a.b.c=1"]


def written(folder, changes=()):
    """An agent.toml, good but for some changes; a value of None leaves the key out."""
    file = folder / "agent.toml"
    values = {**GOOD, **dict(changes)}
    file.write_text("\n".join(f"{key} = {value}" for key, value in values.items() if value))
    return file


def test_the_file_of_these_tests_is_good(tmp_path):
    make_node(read_settings(written(tmp_path)), tmp_path).stop()


def test_every_wrong_value_is_refused_in_one_line(tmp_path):
    """Hundreds of files; what is not refused makes a node that can be stopped."""
    chance = random.Random(8)
    refusals = []
    for _ in range(500):
        keys = chance.sample(list(GOOD), chance.choice([1, 1, 1, 2]))
        file = written(tmp_path, {key: chance.choice(VALUES) for key in keys})
        try:
            make_node(read_settings(file), tmp_path).stop()
        except ValueError as error:
            refusals.append(str(error))
        except OSError as error:
            refusals.append(error.strerror)
        for left in tmp_path.glob("*.db*"):
            left.unlink()
    assert len(refusals) > 350
    assert max(map(len, refusals)) < 500
    assert not any("\n" in line for line in refusals)


def test_what_is_no_toml(tmp_path):
    file = tmp_path / "agent.toml"
    for content in NOT_TOML:
        file.write_bytes(content)
        with pytest.raises(ValueError, match=r"agent\.toml"):
            read_settings(file)


@pytest.mark.parametrize("key", ["default_reward", "network_size"])
def test_numbers_that_would_only_fail_later(tmp_path, key):
    """A default reward that no arm can give, a network of half an agent."""
    for value in ("1.5", "-1", "1e300"):
        with pytest.raises(ValueError, match=key):
            read_settings(written(tmp_path, {key: value}))


@pytest.fixture
def refusal(monkeypatch, capsys):
    """Run a command that must be refused, and return its one line."""
    monkeypatch.setattr(signal, "signal", lambda *_: None)

    def run(*arguments):
        with pytest.raises(SystemExit) as done:
            main([*map(str, arguments)])
        out, err = capsys.readouterr()
        assert done.value.code == 2, out + err
        (line,) = err.splitlines()
        assert line.startswith("posse: ")
        return line

    return run


@pytest.fixture(scope="module")
def certs(tmp_path_factory):
    return certified(tmp_path_factory.mktemp("certs"), "a", "b")


def test_certificates_in_trouble(refusal, tmp_path, certs):
    secure = {"insecure": "false"}
    file = written(tmp_path, secure)
    assert "posse certs init" in refusal("agent", file)
    ours = tmp_path / "certs"
    shutil.copytree(certs, ours)
    for spoil, words in {
        "a.key": "not a private key",
        "a.pem": "not a certificate",
        "ca.pem": "not a certificate",
    }.items():
        (ours / spoil).write_text("spoilt")
        assert words in refusal("agent", file)
        shutil.copy(certs / spoil, ours / spoil)
    shutil.copy(certs / "b.pem", ours / "a.pem")
    assert "not the certificate of a" in refusal("agent", file)
    shutil.copy(certs / "a.pem", ours / "a.pem")
    shutil.copy(certs / "b.key", ours / "a.key")
    assert "not the key of" in refusal("agent", file)
    (ours / "a.key").unlink()
    (ours / "a.key").mkdir()
    assert "a.key" in refusal("agent", file)


def test_places_in_trouble(refusal, tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        for key in ("http", "listen"):
            line = refusal("agent", written(tmp_path, {key: f'"{address}"'}))
            assert address.rpartition(":")[2] in line
    assert "no folder" in refusal("agent", written(tmp_path, {"store": '"none/a.db"'}))
    (tmp_path / "folder").mkdir()
    assert "is a folder" in refusal("agent", written(tmp_path, {"store": '"folder"'}))
    (tmp_path / "text").write_text("mine")
    assert "damaged" in refusal("agent", written(tmp_path, {"store": '"text"'}))
    assert (tmp_path / "text").read_text() == "mine"
    assert "there is no file" in refusal("agent", tmp_path / "nothing.toml")
    assert "cannot be read" in refusal("agent", tmp_path)


def test_one_port_for_two_things(refusal, tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f'"127.0.0.1:{free.getsockname()[1]}"'
    assert "cannot be served" in refusal(
        "agent", written(tmp_path, {"http": address, "listen": address})
    )


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="a folder that nobody can write")
def test_folders_that_cannot_be_written(refusal, tmp_path):
    assert "/proc/a.db" in refusal("agent", written(tmp_path, {"store": '"/proc/a.db"'}))
    assert "/proc" in refusal("certs", "init", "--folder", "/proc/posse")


def test_a_name_that_changed(refusal, tmp_path):
    """The certificate would not vouch for what the store says."""
    origins = {"exchange": '"origins"', "network_size": None}
    make_node(read_settings(written(tmp_path, origins)), tmp_path).stop()
    assert "store of a" in refusal("agent", written(tmp_path, {**origins, "name": '"z"'}))


def test_a_store_that_fits_no_more(refusal, tmp_path):
    make_node(read_settings(written(tmp_path)), tmp_path).stop()
    line = refusal("agent", written(tmp_path, {"family": '{name = "bernoulli", alpha = 2}'}))
    assert "new store" in line
    with (tmp_path / "a.db").open("r+b") as file:
        file.truncate(5000)
    assert "damaged" in refusal("agent", written(tmp_path))


def test_certs_in_trouble(refusal, tmp_path):
    folder = tmp_path / "certs"
    assert "posse certs init" in refusal("certs", "issue", "a", "--folder", folder)
    certificates.create_authority(folder)
    assert "exists" in refusal("certs", "init", "--folder", folder)
    for name in ("", "a b", "../a", "ca", "x" * 65, "a\x00b", "é"):
        assert "name" in refusal("certs", "issue", name, "--folder", folder)
    for host in ("", "a b", "a:1", "http://x", "x" * 300, "\x00", "*"):
        assert "host" in refusal("certs", "issue", "a", "--host", host, "--folder", folder)
    for days in ("0", "-1", "x"):
        refusal("certs", "issue", "a", "--days", days, "--folder", folder)
    certificates.issue_certificate(folder, "a", days=10**30)  # no longer than its authority
    (folder / "ca.key").write_text("spoilt")
    assert "not a private key" in refusal("certs", "issue", "a", "--folder", folder)
    (tmp_path / "file").write_text("")
    refusal("certs", "init", "--folder", tmp_path / "file")
    refusal("certs", "init", "--folder", tmp_path / "file" / "below")
