"""deploy/: what it names exists; files for agents are taken, metrics are those that agents have."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from posse.live.config.agent_settings import read_settings
from posse.live.http.metrics import render_metrics

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
NAMES = "berlin", "paris", "rome"


def expressions():
    """Every expression of the alerts and of the dashboard, by where it is."""
    rules = yaml.safe_load((DEPLOY / "prometheus/alerts.yaml").read_text())["groups"][0]["rules"]
    found = {rule["alert"]: [rule["expr"]] for rule in rules}
    assert len(found) == len(rules)
    dashboard = json.loads((DEPLOY / "grafana/posse.json").read_text())
    for panel in dashboard["panels"]:
        found[panel["title"]] = [target["expr"] for target in panel["targets"]]
    for variable in dashboard["templating"]["list"]:
        found[variable["name"]] = [variable.get("definition", "")]
    return found


def test_alerts_and_dashboard_name_metrics_that_exist(node):
    node.decide()
    text = render_metrics(node)
    there = {line.split("{")[0].split()[0] for line in text.splitlines() if line[0] != "#"}
    there |= set(re.findall(r"# TYPE (\w+)", text))
    there |= {f"{name}_bucket" for name in re.findall(r"# TYPE (\w+) histogram", text)}
    labels = set(re.findall(r'[{,](\w+)="', text)) | {"le", "instance", "job", "version", "route"}
    for where, each in expressions().items():
        for expression in each:
            assert set(re.findall(r"posse_\w+", expression)) <= there, where
            assert set(re.findall(r'(\w+)!?=~?"', expression)) <= labels, where
            assert expression.count("(") == expression.count(")"), where
    named = {name for each in expressions().values() for e in each for name in
             re.findall(r"posse_\w+", e)}  # fmt: skip
    assert len(named) > 20


def test_reasons_of_alerts_are_those_that_are_counted(node):
    text = render_metrics(node)
    counted = set(re.findall(r'(?:reason|doing|direction)="([^"]*)"', text))
    for where, each in expressions().items():
        labels = r'(?:reason|doing|direction)(?:=~?|!=)"([^"$.]*)"'
        for chosen in re.findall(labels, " ".join(each)):
            assert set(chosen.split("|")) <= counted, where


@pytest.mark.parametrize(
    ("rewards", "late", "fires"),
    [(290, 10, True), (2900, 100, True), (295, 5, False), (0, 0, False)],
)
def test_late_rewards_alert_by_their_share_in_rewards_not_in_decisions(rewards, late, fires):
    """At 3% conversion 10,000 decisions have 300 rewards: 10 late ones are many, 5 are not."""
    (expression,) = expressions()["PosseLateRewards"]
    increase = r"sum by \(instance, experiment\) \(increase\(posse_(\w+)_total\[1h\]\)\)"
    formula = re.sub(increase, r"\1", expression)
    counts = {"rewards": rewards, "rewards_late": late, "decisions": 10_000}
    assert eval(formula, {"__builtins__": {}}, counts) is fires


def test_the_dashboards_panels_do_not_overlap():
    panels = json.loads((DEPLOY / "grafana/posse.json").read_text())["panels"]
    taken = [
        (x, y)
        for place in (panel["gridPos"] for panel in panels)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(taken)) == len(taken)
    assert max(x for x, _ in taken) < 24


@pytest.mark.parametrize("name", NAMES)
def test_the_agents_of_the_compose_file(name):
    settings = read_settings(DEPLOY / "agents" / f"{name}.toml")
    assert settings.name == name
    assert set(settings.neighbours) == set(NAMES) - {name}
    assert settings.neighbours == {other: f"{other}:7447" for other in settings.neighbours}


def test_the_compose_file_and_what_it_mounts():
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    services = compose["services"]
    assert set(services) == {"office", *NAMES}
    assert services["office"]["command"] == ["/certs", *NAMES]
    for name, service in services.items():
        for volume in service["volumes"]:
            source, _, _ = volume.partition(":")
            assert source in compose["volumes"] or (DEPLOY / source).exists(), name
        assert (ROOT / service["build"]["dockerfile"]).exists()
        assert service.get("ulimits", {"nofile": 65536}) == {"nofile": 65536}
    ports = [port for name in NAMES for port in services[name]["ports"]]
    assert len(set(ports)) == len(ports)


@pytest.mark.skipif(shutil.which("sh") is None, reason="no shell")
def test_the_office_writes_what_agents_need_and_replaces_nothing(tmp_path):
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    (bin_ / "posse").write_text(f'#!/bin/sh\nexec {sys.executable} -m posse "$@"\n')
    (bin_ / "posse").chmod(0o700)
    (bin_ / "python").symlink_to(sys.executable)
    environment = {"PATH": f"{bin_}:/usr/bin:/bin", "PYTHONPATH": str(ROOT / "src")}
    certs = tmp_path / "certs"
    command = ["sh", str(DEPLOY / "office.sh"), str(certs), "berlin"]
    contents = []
    for _ in range(2):
        subprocess.run(command, check=True, env=environment, capture_output=True, timeout=60)
        contents.append({path.name: path.read_bytes() for path in certs.iterdir()})
    assert contents[0] == contents[1]
    assert set(contents[0]) == {"ca.pem", "ca.key", "berlin.pem", "berlin.key", "token"}
    assert len(contents[0]["token"].strip()) == 64
    for secret in ("ca.key", "berlin.key", "token"):
        assert (certs / secret).stat().st_mode & 0o077 == 0


def test_the_containerfile_copies_what_there_is_and_probes_what_is_served():
    text = (DEPLOY / "Containerfile").read_text()
    for line in re.findall(r"^COPY (?!--from)(.*)$", text, re.MULTILINE):
        *sources, _ = line.split()
        assert all((ROOT / source).exists() for source in sources)
    (port,) = set(re.findall(r"127\.0\.0\.1:(\d+)/readyz", text))
    assert f'probe = "127.0.0.1:{port}"' in text
    assert port in re.search(r"^EXPOSE (.*)$", text, re.MULTILINE)[1].split()
    assert "USER 10001" in text


def test_the_unit_is_that_of_the_page():
    unit = (DEPLOY / "posse-agent.service").read_text().split("\n", 1)[1]
    assert unit in (ROOT / "docs/live-three-machines.md").read_text()
    assert "LimitNOFILE=65536" in unit
