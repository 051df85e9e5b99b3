"""deploy/kubernetes: ports, paths, names and probes are those of the code and of agent.toml.

No cluster runs here: the files are parsed, and what can be run without one is run.
"""

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

from posse.live.config.agent_settings import read_settings
from posse.live.http.routes import PROBES
from posse.live.security import CertificateFiles, check_files, create_authority, issue_certificate

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "kubernetes"
KINDS = {
    "StatefulSet": "base/statefulset.yaml",
    "Service": "base/service.yaml",
    "PodDisruptionBudget": "base/disruption-budget.yaml",
    "NetworkPolicy": "base/network-policy.yaml",
    "ServiceMonitor": "monitoring/service-monitor.yaml",
}


def parse(path):
    return yaml.safe_load((FOLDER / path).read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def kinds():
    parsed = {kind: parse(path) for kind, path in KINDS.items()}
    assert {kind: each["kind"] for kind, each in parsed.items()} == {kind: kind for kind in KINDS}
    return parsed


@pytest.fixture(scope="module")
def pod(kinds):
    return kinds["StatefulSet"]["spec"]["template"]["spec"]


@pytest.fixture(scope="module")
def agents(kinds):
    """The settings of every replica, by the name of its pod."""
    name, count = kinds["StatefulSet"]["metadata"]["name"], kinds["StatefulSet"]["spec"]["replicas"]
    files = {f"{name}-{i}": FOLDER / "base" / "agents" / f"{name}-{i}.toml" for i in range(count)}
    assert set(files.values()) == set((FOLDER / "base" / "agents").iterdir())
    return {name: read_settings(path) for name, path in files.items()}


def container(pod):
    (agent,) = pod["containers"]
    return agent


def port_of(address):
    return int(address.rpartition(":")[2])


def test_every_file_is_used_and_every_used_file_exists():
    base, monitoring = parse("base/kustomization.yaml"), parse("monitoring/kustomization.yaml")
    (generated,) = base["configMapGenerator"]
    used = {FOLDER / "base" / name for name in (*base["resources"], *generated["files"])}
    used |= {FOLDER / "monitoring" / name for name in monitoring["resources"] if name[0] != "."}
    used |= set(FOLDER.glob("*/kustomization.yaml"))
    assert used == {path for path in FOLDER.rglob("*") if path.is_file()}
    assert (FOLDER / "monitoring" / monitoring["resources"][0]).resolve() == FOLDER / "base"


def test_agents_are_named_like_their_pods_and_are_each_others_neighbours(kinds, agents):
    service = kinds["StatefulSet"]["spec"]["serviceName"]
    assert service == kinds["Service"]["metadata"]["name"]
    for name, settings in agents.items():
        assert settings.name == name
        assert dict(settings.neighbours) == {
            other: f"{other}.{service}:{port_of(agents[other].listen)}"
            for other in agents
            if other != name
        }
        assert f"{name}.{service}" in settings.http_hosts
    # neighbours must agree on all but what names them
    data = [tomllib.loads((FOLDER / f"base/agents/{name}.toml").read_text()) for name in agents]
    own = {"name", "store", "http_certificate", "http_hosts", "neighbours"}
    shared = [{key: value for key, value in each.items() if key not in own} for each in data]
    assert all(each == shared[0] for each in shared)


def test_ports_are_those_of_the_settings_everywhere(kinds, pod, agents):
    named = {port["name"]: port["containerPort"] for port in container(pod)["ports"]}
    for settings in agents.values():
        addresses = {"http": settings.http, "neighbours": settings.listen, "probe": settings.probe}
        assert {name: port_of(address) for name, address in addresses.items()} == named
        # other pods connect to all three
        assert all(address.startswith("0.0.0.0:") for address in addresses.values())
    service = kinds["Service"]["spec"]
    assert {port["name"]: port["port"] for port in service["ports"]} == named
    assert all(port["targetPort"] == port["name"] for port in service["ports"])
    policy = kinds["NetworkPolicy"]["spec"]
    ingress = [port["port"] for rule in policy["ingress"] for port in rule["ports"]]
    assert sorted(ingress) == sorted(named)
    egress = {port["port"] for rule in policy["egress"] for port in rule["ports"]}
    assert egress == {"neighbours", 53}
    exposed = re.search(r"^EXPOSE (.*)$", (ROOT / "deploy/Containerfile").read_text(), re.M)[1]
    assert set(map(int, exposed.split())) == set(named.values())


def test_probes_are_routes_that_need_no_token(pod):
    paths = {route.path for route in PROBES if route.method == "GET"}
    probes = {
        kind: container(pod)[f"{kind}Probe"]["httpGet"]
        for kind in ("startup", "liveness", "readiness")
    }
    assert {kind: get["path"] for kind, get in probes.items()} == {
        "startup": "/readyz",
        "liveness": "/healthz",  # a full disk is no reason to restart
        "readiness": "/readyz",
    }
    assert {get["path"] for get in probes.values()} <= paths
    assert {get["port"] for get in probes.values()} == {"probe"}


def test_prometheus_reads_the_metrics_as_the_job_of_the_alerts(kinds):
    monitor = kinds["ServiceMonitor"]["spec"]
    (endpoint,) = monitor["endpoints"]
    assert endpoint["path"] in {route.path for route in PROBES}
    assert endpoint["port"] == "probe"
    job = kinds["Service"]["metadata"]["labels"][monitor["jobLabel"]]
    alerts = (ROOT / "deploy" / "prometheus" / "alerts.yaml").read_text()
    assert set(re.findall(r'job="(\w+)"', alerts)) == {job}


def test_selectors_select_the_pods(kinds):
    labels = kinds["StatefulSet"]["spec"]["template"]["metadata"]["labels"]
    chosen = [
        kinds["StatefulSet"]["spec"]["selector"]["matchLabels"],
        kinds["Service"]["spec"]["selector"],
        kinds["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
        kinds["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"],
    ]
    assert all(selector and selector.items() <= labels.items() for selector in chosen)
    monitored = kinds["ServiceMonitor"]["spec"]["selector"]["matchLabels"]
    assert monitored.items() <= kinds["Service"]["metadata"]["labels"].items()


def test_the_agent_reads_its_file_and_writes_to_its_volume(kinds, pod, agents):
    agent = container(pod)
    mounts = {mount["mountPath"]: mount for mount in agent["volumeMounts"]}
    command, path = agent["args"]
    assert command == "agent"  # after the image's entry point, which is posse
    assert 'ENTRYPOINT ["posse"]' in (ROOT / "deploy" / "Containerfile").read_text()
    (generated,) = parse("base/kustomization.yaml")["configMapGenerator"]
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    for name, settings in agents.items():
        place = Path(path.replace("$(POD_NAME)", name))
        assert f"agents/{place.name}" in generated["files"]
        assert volumes[mounts[str(place.parent)]["name"]]["configMap"]["name"] == generated["name"]
        store = Path(settings.store)
        (claim,) = kinds["StatefulSet"]["spec"]["volumeClaimTemplates"]
        assert mounts[str(store.parent)]["name"] == claim["metadata"]["name"]
        assert not mounts[str(store.parent)].get("readOnly")
        certs = Path(settings.certificates)
        assert volumes[mounts[str(certs)]["name"]]["emptyDir"]["medium"] == "Memory"
        assert Path(settings.http_token).parent == Path(settings.http_certificate).parent == certs
    # only the container that copies sees the keys of all agents
    assert "secrets" not in {mount["name"] for mount in agent["volumeMounts"]}


def test_nobody_runs_as_root_or_writes_outside_of_volumes(pod):
    user = re.search(r"^USER (\d+)$", (ROOT / "deploy/Containerfile").read_text(), re.M)[1]
    assert pod["securityContext"]["runAsUser"] == int(user)
    assert pod["securityContext"]["runAsNonRoot"] is True
    for each in (*pod["initContainers"], *pod["containers"]):
        assert each["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert each["resources"]["limits"]["memory"]


@pytest.mark.skipif(shutil.which("install") is None, reason="no install")
def test_the_first_container_copies_the_files_that_an_agent_needs(pod, tmp_path):
    secrets, certs = tmp_path / "secrets", tmp_path / "certs"
    create_authority(secrets)
    for name in ("posse-0", "posse-1"):
        issue_certificate(secrets, name, hosts=[f"{name}.posse"])
    (secrets / "token").write_text("t")
    certs.mkdir()
    (copier,) = pod["initContainers"]
    mounts = {mount["mountPath"] for mount in copier["volumeMounts"]}
    assert mounts == {"/secrets", "/certs"}
    shell, option, script = copier["command"]
    script = script.replace("/secrets/", f"{secrets}/").replace("/certs/", f"{certs}/")
    environment = {**os.environ, "POD_NAME": "posse-1"}
    subprocess.run([shell, option, script], check=True, env=environment, timeout=60)
    assert {path.name for path in certs.iterdir()} == {
        "ca.pem", "posse-1.pem", "posse-1.key", "token",
    }  # fmt: skip
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in certs.iterdir())
    check_files("posse-1", CertificateFiles.in_folder(certs, "posse-1"))  # as an agent does
    (secrets / "posse-0.key").unlink()
    environment["POD_NAME"] = "posse-0"  # whose key is missing: the pod must not start
    failed = subprocess.run([shell, option, script], env=environment, capture_output=True)
    assert failed.returncode != 0


@pytest.mark.parametrize("folder", ["base", "monitoring"])
def test_kustomize_builds_it(folder):
    tool = shutil.which("kustomize") or shutil.which("kubectl")
    if tool is None:
        pytest.skip("neither kustomize nor kubectl is here: deploy/kubernetes is not built")
    command = [tool, "build" if tool.endswith("kustomize") else "kustomize", str(FOLDER / folder)]
    built = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
    kinds = [each["kind"] for each in yaml.safe_load_all(built)]
    assert {"StatefulSet", "Service", "ConfigMap"} <= set(kinds)


def test_the_pages_commands_create_what_the_pods_mount(pod):
    page = (ROOT / "docs" / "kubernetes.md").read_text()
    (secret,) = [v["secret"]["secretName"] for v in pod["volumes"] if "secret" in v]
    assert f"kubectl create secret generic {secret} " in page
    for path in re.findall(r"deploy/kubernetes/\w+", page):
        assert (ROOT / path / "kustomization.yaml").exists()
