"""`posse agent` of several files: one that dies is named and started again, the others go on."""

import os
import re
import signal
import time
from pathlib import Path

import httpx
import pytest

from posse.cli.agent import LONGEST_DELAY, STEADY_SECONDS, Supervisor

TIMEOUT = 60  # seconds, on a machine that does much else
AGENT = """
name = "{name}"
arms = ["red", "green"]
family = "bernoulli"
http = "127.0.0.1:0"
store = "{name}.db"
insecure = true
"""


class Fake:
    """A process that ends when the test says so."""

    def __init__(self, file):
        self.file, self.code, self.signals = file, None, []

    def poll(self):
        return self.code

    def send_signal(self, number):
        self.signals.append(number)

    def wait(self):
        assert signal.SIGTERM in self.signals
        return 0


class World:
    def __init__(self, *names, refuse=0):
        self.now, self.started, self.refuse = 0.0, [], refuse
        self.supervisor = Supervisor([Path(name) for name in names], self.start, lambda: self.now)

    def start(self, file):
        if self.refuse:
            self.refuse -= 1
            raise BlockingIOError("no more processes")
        self.started.append(Fake(file))
        return self.started[-1]

    def running(self):
        return [str(each.file) for each in self.started if each.code is None]

    def pause_before_the_next(self):
        """Seconds until one more is started."""
        count, begun = len(self.started), self.now
        while len(self.started) == count:
            assert self.supervisor.check_children()
            self.now += 0.5
        return self.now - 0.5 - begun


def test_one_that_dies_is_started_again_and_the_others_go_on(caplog):
    world = World("a.toml", "b.toml")
    assert world.supervisor.check_children()
    first, other = world.started
    first.code = -signal.SIGKILL
    assert world.supervisor.check_children()
    assert "agent a was killed (SIGKILL); restarting in 1 s" in caplog.text
    assert world.running() == ["b.toml"]
    assert world.pause_before_the_next() == 1
    assert world.running() == ["b.toml", "a.toml"]
    assert other.signals == []


def test_the_pause_grows_up_to_a_limit_and_is_forgotten_after_a_sound_time(caplog):
    world = World("a.toml", "b.toml")
    world.supervisor.check_children()
    pauses = []
    for _ in range(9):
        world.started[-1].code = 3
        world.supervisor.check_children()
        pauses.append(world.pause_before_the_next())
    assert pauses == [1, 2, 4, 8, 16, 32, LONGEST_DELAY, LONGEST_DELAY, LONGEST_DELAY]
    assert "agent b ended (exit code 3)" in caplog.text
    world.now += STEADY_SECONDS
    world.started[-1].code = 3
    world.supervisor.check_children()
    assert world.pause_before_the_next() == 1


def test_one_that_cannot_be_started_is_tried_again(caplog):
    world = World("a.toml", "b.toml", refuse=1)
    assert world.supervisor.check_children()
    assert world.running() == ["b.toml"]
    assert "agent a could not be started (no more processes)" in caplog.text
    world.pause_before_the_next()
    assert world.running() == ["b.toml", "a.toml"]


def test_one_that_was_stopped_stays_so(caplog):
    world = World("a.toml", "b.toml")
    world.supervisor.check_children()
    world.started[0].code = 0
    assert world.supervisor.check_children()
    assert "agent a was stopped; it is not restarted" in caplog.text
    world.now += 1000
    assert world.supervisor.check_children()
    world.started[1].code = 0
    assert not world.supervisor.check_children()
    assert len(world.started) == 2


def test_signals_are_passed_on_and_all_are_awaited():
    world = World("a.toml", "b.toml")
    world.supervisor.check_children()
    world.supervisor.send_signal(signal.SIGHUP)
    world.supervisor.stop_all()
    assert [each.signals for each in world.started] == [[signal.SIGHUP, signal.SIGTERM]] * 2


def test_a_mistake_in_one_file_is_said_before_any_is_started(start, tmp_path):
    (tmp_path / "berlin.toml").write_text(AGENT.format(name="berlin"))
    process = start("agent", "berlin.toml", "no.toml")
    out, err = process.communicate(timeout=TIMEOUT)
    assert (process.returncode, out, err) == (2, "", "posse: there is no file no.toml\n")


def children(process):
    """The process ids of agents by their files."""
    found = {}
    for each in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(each.read_text().rpartition(")")[2].split()[1])
            command = each.with_name("cmdline").read_bytes().split(b"\0")
        except (OSError, ValueError, IndexError):
            continue
        if parent == process.pid and len(command) > 2:
            found[command[-2].decode()] = int(each.parent.name)
    return found


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_real_agents_killed_reloaded_and_ended(start, tmp_path):
    """kill -9 of one ended all of them, without a line that said why."""
    for name in ("berlin", "paris"):
        (tmp_path / f"{name}.toml").write_text(AGENT.format(name=name))
    process = start("agent", "berlin.toml", "paris.toml")
    answers = r"(\w+) answers at (\S+)\n"
    urls = dict(re.fullmatch(answers, process.stdout.readline()).groups() for _ in range(2))
    os.kill(children(process)["berlin.toml"], signal.SIGKILL)
    line = process.stderr.readline()
    assert re.fullmatch(
        r"\S+Z ERROR posse agent: agent berlin was killed \(SIGKILL\); restarting in 1 s\n",
        line,
    )
    assert httpx.get(f"{urls['paris']}/readyz", trust_env=False).status_code == 200
    name, url = re.fullmatch(answers, process.stdout.readline()).groups()
    assert name == "berlin"
    file = tmp_path / "berlin.toml"
    file.write_text(file.read_text().replace('"green"', '"green", "blue"'))
    process.send_signal(signal.SIGHUP)
    deadline = time.monotonic() + TIMEOUT
    while "blue" not in httpx.get(f"{url}/v1/arms", trust_env=False).json():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 0, err
    assert sorted(out.splitlines()) == ["berlin stopped", "paris stopped"]
    assert re.search(
        r"Z WARNING berlin: berlin reloaded its settings: arms of default: \+blue", err
    )
    assert children(process) == {}


def test_a_bad_file_changes_nothing_and_the_log_says_why(start, tmp_path):
    """By SIGHUP, and over HTTP, where who asked is told the same."""
    token, file = tmp_path / "operator.token", tmp_path / "agent.toml"
    token.write_text("0123456789abcdef")
    token.chmod(0o600)
    file.write_text('operator_token = "operator.token"\n' + AGENT.format(name="berlin"))
    process = start("agent", "agent.toml")
    url = process.stdout.readline().split()[-1]
    file.write_text(file.read_text().replace("berlin", "paris"))
    process.send_signal(signal.SIGHUP)
    said = "ERROR berlin: agent.toml rejected, still running with the old settings: name cannot"
    assert said in process.stderr.readline()
    order = {"url": f"{url}/v1/reload", "json": {}, "trust_env": False}
    answer = httpx.post(**order, headers={"Authorization": "Bearer 0123456789abcdef"})
    assert answer.status_code == 422
    assert answer.json()["error"].startswith("name cannot")
    assert httpx.get(f"{url}/readyz", trust_env=False).status_code == 200
    process.send_signal(signal.SIGTERM)
    assert said in process.communicate(timeout=TIMEOUT)[1]
