"""OpenFeature: stock clients of PyPI and npm, and Posse's provider, against a served node."""

import importlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from posse.live import Client
from posse.live.http import serve_node
from tests.live.loopback import free_addresses
from tests.live.several import Several, table
from tests.package_managers import install_from_npm, install_from_pypi

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
TOKEN = "a-token-of-some-length"
ARMS = ["red", "green"]
COLOURS = {"red": {"colour": "#f00"}, "green": {"colour": "#0f0"}}
EXPERIMENTS = {
    "checkout": {"payload": COLOURS},
    "switch": {"payload": {"red": True, "green": False}},
    "price": {"payload": {"red": 9.5, "green": 10}},
    "banner": {},
    "shop": {"family": {"name": "logistic", "rate": 0.1}, "context": {"country": ["de", "fr"]}},
}


def test_without_the_extra_an_error_says_what_to_install(monkeypatch):
    for name in ("openfeature", "openfeature.contrib.provider.ofrep"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "posse.interop.openfeature", raising=False)
    with pytest.raises(ModuleNotFoundError, match=r"needs .*: install Posse with the extra openf"):
        importlib.import_module("posse.interop.openfeature")


@pytest.fixture
def node(tmp_path):
    fleet = Several(tmp_path)
    fleet.network.link("a", "b")  # a neighbour that never answers
    fleet.start(a=table("a", EXPERIMENTS, arms=ARMS))
    yield fleet.nodes["a"]
    fleet.close()


@pytest.fixture
def url(node):
    with serve_node(node, "127.0.0.1:0", token=TOKEN) as server:
        yield server.url


@pytest.fixture(scope="session")
def python_packages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("openfeature") / "pypi"
    return install_from_pypi(folder, "openfeature-sdk", "openfeature-provider-ofrep")


@pytest.fixture(scope="session")
def node_packages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("openfeature") / "npm"
    return install_from_npm(folder, "@openfeature/server-sdk", "@openfeature/ofrep-provider")


def run(command, **environment):
    done = subprocess.run(
        command, env=os.environ | environment, text=True, capture_output=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def check_flags(answers, node):
    """What every client gets, and what is stored of it."""
    flag = answers["object"]
    record = node.experiment("checkout").store.find_decision(flag["metadata"]["decision"])
    assert flag["value"] == COLOURS[record.arm]
    assert flag["variant"] == record.arm
    assert flag["reason"].endswith("SPLIT")
    assert flag["metadata"]["probability"] == record.probability
    assert record.visitor == "u-17"
    assert answers["again"] == flag
    assert answers["boolean"]["value"] is (answers["boolean"]["variant"] == "red")
    assert answers["string"]["value"] == answers["string"]["variant"] in ARMS
    assert answers["float"]["value"] == {"red": 9.5, "green": 10}[answers["float"]["variant"]]
    assert answers["context"]["value"] in ARMS
    stored = node.experiment("shop").store.find_newest_decision("u-17")
    assert json.loads(stored.context) == {"country": "de"}
    errors = {name: answers[name]["error"] for name in answers if name != "log"}
    assert {name: code for name, code in errors.items() if code is not None} == {
        "mismatch": "TYPE_MISMATCH",
        "unknown": "FLAG_NOT_FOUND",
        "nobody": "TARGETING_KEY_MISSING",
        "invalid": "INVALID_CONTEXT",
        "token": "GENERAL",
        "away": "GENERAL",
    }
    for name in ("unknown", "nobody", "invalid", "token", "away"):
        assert answers[name]["value"] == "none"
    assert "context.country is missing" in answers["invalid"]["message"]


@pytest.mark.long
@pytest.mark.parametrize("which", ["stock", "posse"])
def test_python(which, python_packages, node, url):
    (away,) = free_addresses(1)
    path = f"{ROOT / 'src'}{os.pathsep}{python_packages}"
    script = HERE / "openfeature_application.py"
    answers = run([sys.executable, script, url, which, TOKEN, f"http://{away}"], PYTHONPATH=path)
    check_flags(answers, node)
    rewards = {
        name: node.experiment(name).store.find_newest_decision("u-17").reward
        for name in ("checkout", "switch", "banner")
    }
    if which == "stock":  # whose provider has no tracking
        assert set(rewards.values()) == {None}
        return
    assert rewards == {"checkout": 1.0, "switch": 1.0, "banner": None}
    *sentences, last = [line for line in answers["log"] if "event" in line]
    assert "event 'banner' was not sent" in last  # of the agent that is away
    assert len(sentences) == 3, sentences
    assert sum("no decision of the visitor" in line for line in sentences) == 2
    assert sum("no targeting_key" in line for line in sentences) == 1


@pytest.mark.long
def test_node(node_packages, node, url):
    (away,) = free_addresses(1)
    script = Path(shutil.copy(HERE / "openfeature_application.mjs", node_packages))
    check_flags(run(["node", script, url, TOKEN, f"http://{away}"]), node)


@pytest.mark.long
def test_pages(tmp_path, node, url):
    """Clients of browsers evaluate all flags and poll: 304, and no further decision."""
    packages = "@openfeature/web-sdk", "@openfeature/ofrep-web-provider"
    folder = install_from_npm(tmp_path / "npm", *packages)
    script = shutil.copy(HERE / "openfeature_page.mjs", folder)
    answers = run(["node", script, url, TOKEN])
    first = answers["first"]
    store = node.experiment("checkout").store
    record = store.find_decision(first["metadata"]["decision"])
    assert (record.arm, record.visitor, record.inactive) == (first["variant"], "u-17", True)
    assert first["value"] == COLOURS[record.arm]
    assert answers["polled"] == first
    assert answers["statuses"][:4] == [200, 304, 304, 304]
    assert answers["unknown"]["error"] == "FLAG_NOT_FOUND"
    assert answers["last"] in (200, 304)
    assert answers["other"]["metadata"] != first["metadata"]
    assert (store.count_inactive_decisions(), store.count_open_decisions()) == (2, 0)


PAGE = (ROOT / "docs" / "howto" / "openfeature.md").read_text()


def blocks():
    """The files of the page, by the name in their first line."""
    found = re.findall(r"```(?:toml|python|js)\n(?:#|//) ([\w.]+)\n(.*?)```", PAGE, re.DOTALL)
    return dict(found)


@pytest.mark.long
def test_every_file_and_command_of_the_page(tmp_path, python_packages, node_packages):
    """As on the page, with two changes: a free port, and packages that are installed already."""
    (address,) = free_addresses(1)
    files = blocks()
    assert set(files) == {"berlin.toml", "shop.py", "shop.mjs"}
    for name, text in files.items():
        (tmp_path / name).write_text(text.replace("127.0.0.1:8700", address))
    file = tmp_path / "berlin.toml"
    file.write_text(f'http = "{address}"\n' + file.read_text())
    (tmp_path / "node_modules").symlink_to(node_packages / "node_modules")
    prose = re.sub(r"```.*?```", "", PAGE, flags=re.DOTALL)
    commands = re.findall(r"^    (\S.*)$", prose, re.MULTILINE)
    installing = [line for line in commands if line.startswith(("pip install", "npm install"))]
    assert installing[1] == "npm install @openfeature/server-sdk @openfeature/ofrep-provider"
    start, evaluate, track, python, node, everything = [
        shlex.split(line.replace("127.0.0.1:8700", address))
        for line in commands
        if line not in installing
    ]
    path = f"{ROOT / 'src'}{os.pathsep}{python_packages}"
    environment = os.environ | {"PYTHONPATH": path}

    def run_command(command):
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, text=True, capture_output=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert start == ["posse", "agent", "berlin.toml"]
    agent = subprocess.Popen(
        [sys.executable, "-m", *start], cwd=tmp_path, env=environment, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        with Client(f"http://{address}", experiment="banner", patience=60) as client:
            client.arms()
            flag = json.loads(run_command(evaluate))
            assert flag["value"]["text"] in ("Spring is here", "SALE!")
            assert json.loads(run_command(track))["decision"] == flag["metadata"]["decision"]
            assert python == ["python", "shop.py"]
            shown = run_command([sys.executable, "shop.py"])
            assert shown.splitlines()[-1] == flag["value"]["text"]
            shown = run_command(node).splitlines()
            assert shown[0] in ("true", "false")
            assert "repeated: false" in shown[-3] + shown[-2]
            answer = run_command(everything)
            assert "etag:" in answer.lower()
            body = json.loads(answer.splitlines()[-1])
            assert {item["key"] for item in body["flags"]} == {"new-checkout", "banner"}
            assert client.decision(flag["metadata"]["decision"])["reward"] == 1
        with Client(f"http://{address}", experiment="new-checkout") as client:
            arms = client.arms()
            # the rewards of u-17 and u-18; u-19 has seen nothing
            assert sum(arm["open_here"] for arm in arms.values()) == 2
    finally:
        agent.terminate()
        agent.communicate(timeout=60)
