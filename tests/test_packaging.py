"""What the wheel holds and requires: all that the package reads and imports beside its code."""

import json
import re
import subprocess
import sys
import tomllib
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions
from pathlib import Path

from hatchling.builders.wheel import WheelBuilder
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]

# An agent and a call of both clients, where nothing undeclared can be imported.
BOTH_CLIENTS = """
import asyncio, json, sys, tempfile

undeclared = frozenset(json.loads(sys.argv[1]))

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in undeclared:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Refuse())

from posse import families
from posse.live import Agent, AsyncClient, Client
from posse.live.http import serve_node
from posse.live.experiment.experiment import LiveExperiment
from posse.live.node import Node
from posse.live.store import Store
from posse.live.messaging.transport.memory import MemoryNetwork

async def ask(url):
    async with AsyncClient(url) as client:
        return await client.update(await client.pull(), 1.0)

with tempfile.TemporaryDirectory() as folder:
    agent = Agent(["red", "green"], families.Bernoulli(), seed=1)
    store = Store.open(f"{folder}/agent.db", fingerprint=agent.fingerprint)
    transport = MemoryNetwork([("a", "b")]).transport("a")
    node = Node("a", [LiveExperiment("default", agent, store)], store, transport, neighbours=["b"])
    with serve_node(node, "127.0.0.1:0") as server:
        with Client(server.url) as client:
            assert client.update(client.pull(), 1.0)
        assert asyncio.run(ask(server.url))
    node.stop()
"""


def declared_distributions(*extras):
    """The names of all distributions that Posse requires with these extras, by pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = list(project["dependencies"])
    for extra in extras:
        lines += project["optional-dependencies"][extra]
    waiting = [(line, "") for line in lines]
    resolved, names = set(), set()
    while waiting:
        line, extra = waiting.pop()
        requirement = Requirement(line)
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
            continue
        name = re.sub(r"[-_.]+", "-", requirement.name).lower()
        names.add(name)
        for wanted in ("", *requirement.extras):
            if (name, wanted) in resolved:
                continue
            resolved.add((name, wanted))
            with suppress(PackageNotFoundError):  # such as a wheel for another platform
                waiting += [(each, wanted) for each in distribution(name).requires or ()]
    return names


def test_both_clients_run_with_the_declared_dependencies_of_the_extra_live_alone():
    declared = declared_distributions("live") | {"posse"}
    owners = {
        module: {re.sub(r"[-_.]+", "-", owner).lower() for owner in names}
        for module, names in packages_distributions().items()
    }
    undeclared = [module for module, names in owners.items() if not names & declared]
    assert "pytest" in undeclared
    assert "numpy" not in undeclared
    ran = subprocess.run(
        [sys.executable, "-c", BOTH_CLIENTS, json.dumps(undeclared)],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr


def test_every_page_style_script_and_suite_is_in_the_wheel():
    found = {each.distribution_path for each in WheelBuilder(str(ROOT)).recurse_included_files()}
    lying = {
        path.relative_to(ROOT / "src").as_posix()
        for path in (ROOT / "src" / "posse").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {"posse/web/tokens.css", "posse/lab/report/assets/document.html"} <= lying
    assert lying <= found
