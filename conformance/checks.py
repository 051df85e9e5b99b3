"""The checks: each runs one tool of other people and says what it found."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from conformance.agents import RunningAgent, free_ports, make_visits, run_agent

ROOT = Path(__file__).parents[1]
HERE = Path(__file__).parent
TOOLS = ROOT / ".venv-conformance"
NPM = TOOLS / "npm"
DEBIAN = "apt-get install prometheus"
RANGE = {"$__rate_interval": "1m", "$__range": "1m", "$__interval": "15s"}


class Skipped(Exception):
    """A tool is missing: the check did not run."""


class Failed(Exception):
    """A tool found something wrong."""


def find_tool(name: str, hint: str) -> str:
    """Return the path of a tool in its environment or on the path, or skip aloud."""
    for place in (TOOLS / "bin" / name, NPM / "node_modules" / ".bin" / name):
        if place.exists():
            return str(place)
    found = shutil.which(name)
    if found is None:
        raise Skipped(f"{name} is missing ({hint})")
    return found


def run_tool(command: Sequence[str | Path], **options: Any) -> str:
    """Run a tool; its output if it succeeds, else a failure with the end of it."""
    done = subprocess.run(
        [str(part) for part in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=options.pop("timeout", 1800),
        **options,
    )
    if done.returncode:
        raise Failed(f"{Path(command[0]).name} failed:\n{done.stdout[-6000:]}")
    return str(done.stdout)


# --- the document of the HTTP interface


def fuzz_agent(folder: Path, kind: str, cases: int) -> str:
    """schemathesis with all checks, but for those that schemathesis.toml lists with a reason."""
    tool = find_tool("st", "pip install schemathesis")
    with run_agent(folder / "fuzzed", kind) as agent:
        return send_requests(tool, agent, cases)


def send_requests(tool: str, agent: RunningAgent, cases: int) -> str:
    """Let schemathesis send its requests, and look at the agent's log afterwards."""
    output = run_tool(
        [
            *(
                tool,
                "--config-file",
                HERE / "schemathesis.toml",
                "run",
                f"{agent.url}/openapi.json",
            ),
            *("-H", f"Authorization: {agent.headers['Authorization']}"),
            *("--max-examples", str(cases), "--no-color", "--request-timeout", "30"),
            *(["--seed", "1"] if cases < 10 else []),  # a gate must not depend on luck
        ],
        cwd=agent.folder,
    )
    log = (agent.folder / "log").read_text()
    if "Traceback" in log:
        raise Failed(f"the agent logged a traceback:\n{log[-4000:]}")
    (count,) = re.findall(r"(\d+) generated", output)
    return f"{int(count):,} requests, no failure"


def fuzz_plain_agent(folder: Path, cases: int) -> str:
    """schemathesis against an agent of one experiment without contexts."""
    return fuzz_agent(folder, "plain", cases)


def fuzz_agent_with_contexts(folder: Path, cases: int) -> str:
    """schemathesis against an agent whose visitors have contexts."""
    return fuzz_agent(folder, "contexts", cases)


def fuzz_shop(folder: Path, cases: int) -> str:
    """schemathesis against an agent that learns revenue, with a holdout and a metric."""
    return fuzz_agent(folder, "shop", cases)


def check_document(folder: Path, cases: int) -> str:
    """openapi-spec-validator on the document of an agent."""
    tool = find_tool("openapi-spec-validator", "pip install openapi-spec-validator")
    with run_agent(folder / "document") as agent:
        path = agent.folder / "openapi.json"
        path.write_text(agent.ask("/openapi.json"))
        run_tool([tool, path])
    return f"{len(json.loads(path.read_text())['paths'])} paths are valid OpenAPI"


def check_types(folder: Path, cases: int) -> str:
    """openapi-typescript on the document, and tsc --strict on a client of these types."""
    generate = find_tool("openapi-typescript", "npm install openapi-typescript")
    compile_ = find_tool("tsc", "npm install typescript")
    with run_agent(folder / "types") as agent:
        (agent.folder / "openapi.json").write_text(agent.ask("/openapi.json"))
        run_tool([generate, "openapi.json", "-o", "posse.d.ts"], cwd=agent.folder)
        shutil.copy(HERE / "client.ts", agent.folder)
        run_tool([compile_, "--strict", "--noEmit", "--target", "es2022", "--module", "nodenext",
                  "client.ts"], cwd=agent.folder)  # fmt: skip
        lines = (agent.folder / "posse.d.ts").read_text().count("\n")
    return f"{lines:,} lines of types compile with --strict"


# --- Prometheus


def check_metrics(folder: Path, cases: int) -> str:
    """promtool on the metrics of an agent and on the alert rules."""
    tool = find_tool("promtool", DEBIAN)
    with run_agent(folder / "metrics", "shop") as agent:
        make_visits(agent)
        metrics = agent.ask("/metrics")
    done = subprocess.run(
        [tool, "check", "metrics"], input=metrics, capture_output=True, text=True, timeout=60
    )
    if done.returncode:
        raise Failed(f"promtool check metrics:\n{done.stdout}{done.stderr}")
    rules = run_tool([tool, "check", "rules", ROOT / "deploy" / "prometheus" / "alerts.yaml"])
    (count,) = re.findall(r"(\d+) rules found", rules)
    return f"{metrics.count('# TYPE')} metrics and {count} rules are right"


def run_prometheus(folder: Path, cases: int) -> str:
    """A real Prometheus that scrapes an agent evaluates every alert and every panel."""
    tool = find_tool("prometheus", DEBIAN)
    with run_agent(folder / "scraped", "shop") as agent:
        make_visits(agent)
        (port,) = free_ports(1)
        server = f"http://127.0.0.1:{port}"
        (agent.folder / "prometheus.yml").write_text(
            f"""global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: [{ROOT / "deploy" / "prometheus" / "alerts.yaml"}]
scrape_configs:
  - job_name: posse
    authorization: {{credentials_file: {agent.folder / "token"}}}
    static_configs: [{{targets: ["{urllib.parse.urlsplit(agent.url).netloc}"]}}]
"""
        )
        process = subprocess.Popen(
            [tool, "--config.file=prometheus.yml", "--storage.tsdb.path=tsdb",
             f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"],
            cwd=agent.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            wait_for_samples(server)
            return evaluate_queries(server)
        finally:
            process.terminate()
            process.wait(30)


def ask_prometheus(server: str, path: str, **query: str) -> Any:
    """Ask the interface of Prometheus; returns the data, or fails with its error."""
    url = f"{server}/api/v1/{path}?{urllib.parse.urlencode(query)}"
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return json.load(answer)["data"]
    except urllib.error.HTTPError as error:
        raise Failed(f"{query}: {error.read().decode()}") from None


def wait_for_samples(server: str) -> None:
    """Wait until the agent was scraped some times and every rule was evaluated."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        time.sleep(1)
        try:
            result = ask_prometheus(server, "query", query="count_over_time(up[1m])")["result"]
            rules = ask_prometheus(server, "rules")["groups"]
        except OSError:
            continue
        samples = [float(row["value"][1]) for row in result]
        evaluated = all(rule["health"] != "unknown" for group in rules for rule in group["rules"])
        if samples and min(samples) >= 5 and rules and evaluated:
            return
    raise Failed("Prometheus did not scrape the agent within a minute")


def evaluate_queries(server: str) -> str:
    """Evaluate all rules and panels; every expression must be right, most panels have data."""
    rules = [r for group in ask_prometheus(server, "rules")["groups"] for r in group["rules"]]
    if broken := [rule["name"] for rule in rules if rule["health"] != "ok"]:
        raise Failed(f"Prometheus cannot evaluate {', '.join(broken)}")
    dashboard = json.loads((ROOT / "deploy" / "grafana" / "posse.json").read_text())
    expressions = [t["expr"] for panel in dashboard["panels"] for t in panel["targets"]]
    filled = 0
    for expression in expressions:
        for name, value in RANGE.items():
            expression = expression.replace(name, value)
        expression = re.sub(r"\$\{?\w+\}?", ".*", expression)  # variables are in =~ matchers
        filled += bool(ask_prometheus(server, "query", query=expression)["result"])
    if filled < len(expressions) / 2:
        raise Failed(f"only {filled} of {len(expressions)} panels have data")
    firing = sorted({rule["name"] for rule in rules if rule.get("state") == "firing"})
    return (
        f"{len(rules)} alerts and {len(expressions)} panels evaluate, {filled} panels have data; "
        f"firing: {', '.join(firing) or 'none'}"
    )


# --- Python frameworks


def run_tests(python: Path | str, *arguments: str) -> str:
    """Run tests of this repository in an environment; skips inside are part of the answer."""
    command = [python, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", *arguments]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    output = run_tool(command, cwd=ROOT, env=environment)
    skipped = re.findall(r"SKIPPED \[\d+\] [^:]+:\d*:? ?(.*)", output)
    last = output.strip().splitlines()[-1]
    if "passed" not in last:
        raise Skipped("; ".join(dict.fromkeys(skipped)) or last)
    return last + (f" ({'; '.join(dict.fromkeys(skipped))})" if skipped else "")


def compare_with_obp(folder: Path, cases: int) -> str:
    """Open Bandit Pipeline on a log, on an export of an agent, and on its own data."""
    python = TOOLS / "bin" / "python"
    if not python.exists():
        raise Skipped(f"{TOOLS.name} is missing (make conformance makes it)")
    return run_tests(python, "tests/test_offline_obp.py")


def check_environments(folder: Path, cases: int) -> str:
    """PettingZoo's checks of an environment, and Gymnasium's spaces."""
    return run_tests(sys.executable, "tests/interop/test_pettingzoo.py")


def run_openfeature_clients(folder: Path, cases: int) -> str:
    """The stock OpenFeature clients of PyPI and npm."""
    return run_tests(sys.executable, "tests/interop/test_openfeature.py")


def build_kubernetes(folder: Path, cases: int) -> str:
    """Build deploy/kubernetes with kubectl or kustomize."""
    tool = shutil.which("kustomize") or find_tool("kubectl", "install kubectl or kustomize")
    verb = "build" if Path(tool).name == "kustomize" else "kustomize"
    for name in ("base", "monitoring"):
        run_tool([tool, verb, ROOT / "deploy" / "kubernetes" / name])
    return "both folders build"


CHECKS = {
    "openapi-spec-validator": check_document,
    "schemathesis": fuzz_plain_agent,
    "schemathesis, contexts": fuzz_agent_with_contexts,
    "schemathesis, revenue": fuzz_shop,
    "openapi-typescript, tsc": check_types,
    "promtool": check_metrics,
    "Prometheus": run_prometheus,
    "Open Bandit Pipeline": compare_with_obp,
    "PettingZoo, Gymnasium": check_environments,
    "OpenFeature clients": run_openfeature_clients,
    "kustomize": build_kubernetes,
}
