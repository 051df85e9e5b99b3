"""The pages on live agents: their commands run, and what they list is what there is."""

import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
import tomllib
import venv
from dataclasses import fields
from pathlib import Path

import httpx
import pytest

from posse.families import FAMILIES, get_optional
from posse.live.config.agent_settings import AgentSettings, settings_from_data
from posse.live.config.experiment_settings import KEYS

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "live.md").read_text()
SETTINGS_PAGE = (ROOT / "docs" / "live-settings.md").read_text()
CONTROLS_PAGE = (ROOT / "docs" / "live-controls.md").read_text()
MONITORING = (ROOT / "docs" / "live-monitoring.md").read_text()
TOKEN, OPERATORS = 'operator_token = "operator.token"', 'operators = ["berlin"]'
SOON = 60.0  # seconds, on a machine that does much else
EXPERIMENT = {"name": "berlin", "arms": ["red", "green"], "family": "bernoulli"}
PORTS = (8700, 8701, 8702, 7447, 7448, 7449)


def commands(heading, page=PAGE):
    """The indented lines of a section."""
    section = page.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return re.findall(r"^    ((?:posse|curl|openssl|chmod) .*)$", section, re.MULTILINE)


def free_ports():
    """Others on this machine may use the ports of the page; these are the only thing changed."""
    sockets = [socket.socket() for _ in PORTS]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    found = {str(port): str(s.getsockname()[1]) for port, s in zip(PORTS, sockets, strict=True)}
    for each in sockets:
        each.close()
    return found


def wait_until(true, message):
    deadline = time.monotonic() + SOON
    while not true():
        assert time.monotonic() < deadline, message
        time.sleep(0.1)


class Stranger:
    """Somebody in an empty folder, who types what the page says.

    python: an interpreter in whose environment Posse is installed; None: this one, and the clone.
    """

    def __init__(self, folder, python=None):
        self.folder = folder
        self.ports = free_ports()
        self.python = python or sys.executable
        self.environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
        if python is not None:
            del self.environment["PYTHONPATH"]
        self.started = []

    def changed(self, text):
        return re.sub(r"\b(" + "|".join(self.ports) + r")\b", lambda m: self.ports[m[0]], text)

    def start(self, command):
        name, *arguments = shlex.split(self.changed(command))
        words = [self.python, "-m", "posse"] if name == "posse" else [name]
        process = subprocess.Popen(
            [*words, *arguments], cwd=self.folder, env=self.environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self.started.append(process)
        return process

    def run(self, command):
        process = self.start(command)
        out, err = process.communicate(timeout=SOON)
        assert process.returncode == 0, (command, out, err)
        return out

    def get(self, port, path):
        return httpx.get(f"http://127.0.0.1:{self.ports[port]}{path}", trust_env=False, timeout=10)

    def answers(self, port):
        try:
            return self.get(port, "/readyz").status_code == 200
        except httpx.TransportError:
            return False

    def leave(self):
        for process in self.started:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            process.communicate(timeout=SOON)


@pytest.fixture(scope="session")
def live_extra_alone(tmp_path_factory):
    """The Python of a fresh environment after `pip install ".[live]"`: no tool of a developer."""
    folder = tmp_path_factory.mktemp("live-extra")
    tree = folder / "posse"  # a build in the clone would leave files there
    shutil.copytree(ROOT / "src", tree / "src", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    venv.create(folder / "environment", with_pip=True)
    python = folder / "environment" / "bin" / "python"
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    pip = subprocess.run([*install, ".[live]"], cwd=tree, text=True, capture_output=True)
    assert pip.returncode == 0, pip.stderr
    return str(python)


@pytest.fixture(params=["clone", pytest.param("live extra alone", marks=pytest.mark.long)])
def stranger(tmp_path, request):
    alone = request.param == "live extra alone"
    python = request.getfixturevalue("live_extra_alone") if alone else None
    stranger = Stranger(tmp_path, python)
    yield stranger
    stranger.leave()


@pytest.mark.long
def test_three_commands_give_three_agents_that_agree(stranger):
    first, second, third = commands("Three commands")
    stranger.run(first)
    make_token, protect, *controls = commands("Pins and pauses", CONTROLS_PAGE)
    stranger.run(f"sh -c {shlex.quote(make_token)}")
    stranger.run(protect)
    for file in stranger.folder.glob("*.toml"):
        text = stranger.changed(file.read_text())
        assert "insecure" not in text
        file.write_text(f"{TOKEN}\n{OPERATORS}\n{text}")
    agents = stranger.start(second)
    urls = ("8700", "8701", "8702")
    wait_until(lambda: all(map(stranger.answers, urls)), "not all agents answer")
    shown = stranger.run(third)
    assert all(word in shown for word in ("red", "green", "blue", "paris", "rome"))

    asking = commands("Ask for a decision and report its reward")
    for command in asking:
        assert "error" not in stranger.run(command)
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        process = stranger.start(f"{stranger.python} -c {shlex.quote(block)}")
        _, err = process.communicate(timeout=SOON)
        assert process.returncode == 0, err

    def evidence():
        return [stranger.get(port, "/v1/evidence").json() for port in urls]

    def agree():
        held = [each["held"] for each in evidence()]
        return held[0] == held[1] == held[2] and _pulls(held[0]) == 4

    wait_until(agree, f"they do not agree: {evidence()}")
    # one of them has no reward: it counts from the start
    assert [_pulls(each["own"]) for each in evidence()] == [3, 1, 0]
    (arms,) = [command for command in asking if "/v1/arms" in command]
    assert '"pulls_in_network"' in stranger.run(arms)

    pause, pin, resume_one, resume_all = controls
    assert "red is paused in the whole network (version 1, by berlin)" in stranger.run(pause)
    assert "green is pinned in the whole network (version 2, by berlin)" in stranger.run(pin)

    def controlled(port):
        return stranger.get(port, "/v1/controls").json()

    wait_until(lambda: controlled("8702")["pinned"] == "green", "the pin did not come to rome")
    assert "red" not in stranger.run(resume_one)
    assert "no arm is pinned or paused" in stranger.run(resume_all)
    wait_until(lambda: controlled("8701")["network"]["version"] == 4, "it was not resumed in paris")

    (reload,) = commands("Changes without a restart", CONTROLS_PAGE)
    assert "nothing changed" in stranger.run(reload)
    berlin = stranger.folder / "berlin.toml"
    berlin.write_text(berlin.read_text().replace('"blue"', '"blue", "pink"'))
    assert "+pink" in stranger.run(reload)
    assert "pink" in stranger.get("8700", "/v1/arms").json()

    names = set(re.findall(r"^# TYPE (\w+)", stranger.get("8700", "/metrics").text, re.MULTILINE))
    cells = re.findall(r"^\| (`posse_.*?) \|", MONITORING, re.MULTILINE)
    assert names == set(re.findall(r"`(posse_\w+)", " ".join(cells)))

    agents.send_signal(signal.SIGTERM)
    out, err = agents.communicate(timeout=SOON)
    assert agents.returncode == 0, err
    logged = [line.split(" ", 2)[2] for line in err.splitlines()]
    for name in ("berlin", "paris", "rome"):
        assert any(f"{name}/default: 'green' is pinned" in line for line in logged), err
    assert all("/default: " in line or "berlin reloaded" in line for line in logged), err
    assert all(f"{name} stopped" in out for name in ("berlin", "paris", "rome"))


def _pulls(ledger):
    return sum(values[-1] for values in ledger.values()) / 2**20


def test_what_is_to_be_written_for_operators_is_on_the_page():
    assert f"`{TOKEN}`" in CONTROLS_PAGE
    assert f"`{OPERATORS}`" in CONTROLS_PAGE


def test_the_file_of_several_experiments_can_be_read():
    (block,) = re.findall(r"```toml\n(.*?)```", SETTINGS_PAGE, re.DOTALL)
    settings = settings_from_data(tomllib.loads(block))
    assert list(settings.experiments) == ["checkout", "banner", "basket"]
    assert {each.default_reward for each in settings.experiments.values()} == {0}


def test_settings_on_the_page_of_choices_can_be_read():
    page = (ROOT / "docs" / "which-world.md").read_text()
    blocks = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    assert blocks
    for block in blocks:
        said = tomllib.loads(block)
        (settings,) = settings_from_data(EXPERIMENT | said).experiments.values()
        (bare,) = settings_from_data(EXPERIMENT).experiments.values()
        assert all(getattr(settings, key) != getattr(bare, key) for key in said)


def test_what_is_refused_together_is_on_the_page_in_its_own_words():
    page = (ROOT / "docs" / "which-world.md").read_text()
    drift, stop = {"half_life": "14 days"}, {"stop": {"error": 0.05}}
    for wish in (
        {"sites": "differ"} | drift, stop | drift, {"sites": "differ", "exchange": "flows"}
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"does not go with|needs exchange") as refused:
            settings_from_data(EXPERIMENT | wish)
        sentence = str(refused.value).removeprefix("experiment default: ")
        assert f". {sentence}\n" in page


def test_every_setting_is_on_the_page():
    section = SETTINGS_PAGE.split("\n## agent.toml\n")[1].split("\n## ")[0]
    named = re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)
    assert {field.name for field in fields(AgentSettings)} | set(KEYS) == set(named)


def test_every_family_for_live_agents_is_on_the_page_with_its_prior():
    section = SETTINGS_PAGE.split("\n## Families and priors\n")[1].split("\n## ")[0]
    rows = dict(re.findall(r"^\| `([\w-]+)` \|(.*)$", section, re.MULTILINE))
    live = {name: cls for name, cls in FAMILIES.items() if get_optional(cls, "powers")}
    assert set(rows) == set(live)
    for name, cls in live.items():
        said = re.findall(r"`(\w+) = ([\d.]+)`", rows[name])
        defaults = {field.name: field.default for field in fields(cls)}
        assert "the same" in rows[name] or said
        assert {key: float(value) for key, value in said}.items() <= defaults.items()
