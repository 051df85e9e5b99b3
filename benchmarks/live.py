"""`make bench`, second part: what one live agent bears, beside the same writes to bare SQLite.

Three real agents in a line, mTLS between them, each with its store on the same disk. The one in the
middle is asked by clients of a process of their own (load.py), by 1, 8 and 32 at once, with one
request a step, and in batches; all take turns, because how fast a disk syncs changes from one
second to the next. With `--beside PYTHON` the agents of another checkout's environment take part in
the turns, and each figure is followed by its ratio to theirs. README.md here explains the rows.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any
from urllib.error import URLError
from urllib.request import ProxyHandler, Request, build_opener

ARMS = [f"option-{k}" for k in range(5)]
ORIGINS = 500
MANY_ARMS = 17
HELD_ORIGINS = 10_000
HELD_ENTRIES = 3  # of each of them
EXPERIMENTS = 20
VIEWERS = 20
CONTEXT: dict[str, Any] = {  # eight columns, with the intercept
    "country": ["de", "fr", "it"],
    "returning": "flag",
    "basket": {"low": 0, "high": 500},
    "hour": {"low": 0, "high": 24, "optional": True},
}
HERE = Path(__file__).resolve().parent
OPENER = build_opener(ProxyHandler({}))
AGENT = "from posse.cli import main; main()"


@dataclass(frozen=True)
class Target:
    """A figure with what it must be and what would be better still."""

    key: str
    says: str
    must: float | None = None
    stretch: float | None = None
    at_most: bool = False

    def verdict(self, value: float) -> str:
        """Which of both it reaches."""
        if self.must is None:
            return ""
        for bound, word in ((self.stretch, "stretch"), (self.must, "must")):
            if bound is not None and (value <= bound if self.at_most else value >= bound):
                return word
        return "MISSED"


TARGETS = (
    Target("sqlite", "bare SQLite, the same rows and commits, pairs/s"),
    Target("node", "a node in its process, pairs/s"),
    Target("contexts", "8 columns of context, pairs/s as a share of those without", 0.5, 0.8),
    Target("contexts cpu", "the same of processor time", 0.5, 0.8),
    Target("1 per_second", "1 client, pairs/s", 1000),
    Target("8 per_second", "8 clients, pairs/s", 1500, 3000),
    Target("8 share", "8 clients, pairs as a share of bare SQLite's", 0.6, 0.7),
    Target("32 per_second", "32 clients, pairs/s", 2000, 4000),
    Target("1 p50_ms", "1 client, half of the pairs within, ms"),
    Target("8 p50_ms", "8 clients, half of the pairs within, ms"),
    Target("8 p99_ms", "8 clients, 99% of the pairs within, ms", 15, 8, at_most=True),
    Target("32 p99_ms", "32 clients, 99% of the pairs within, ms"),
    Target("1 cpu_ms", "1 client, processor time of a pair, ms"),
    Target("8 cpu_ms", "8 clients, processor time of a pair, ms"),
    Target("32 cpu_ms", "32 clients, processor time of a pair, ms"),
    Target("32 busy", "32 clients, what they take themselves, % of a core"),
    Target("steps cpu_ms", "reward and next decision in one, processor time, ms"),
    Target("steps per_second", "8 clients, reward and next decision in one, /s", 3000, 4000),
    Target("rewards per_second", "rewards in batches of 100, /s", 15_000, 30_000),
    Target("viewed per_second", f"8 clients while {VIEWERS} pages are streamed to, pairs/s"),
    Target("viewed cpu_ms", f"8 clients, {VIEWERS} pages, processor time of a pair, ms"),
    Target("viewers", f"throughput that {VIEWERS} pages cost, %", 5, 2, at_most=True),
    Target("idle", "an agent at rest, % of a core"),
    Target("memory", "resident memory of an agent, MB", 100, 85, at_most=True),
    Target("many memory", f"{EXPERIMENTS} experiments in an agent, MB", 120, 90, at_most=True),
    Target("many start", f"{EXPERIMENTS} experiments in an agent, start, s", 5, at_most=True),
    Target("held entry", f"an entry of {MANY_ARMS} arms held, kB of memory", 1.5, at_most=True),
    Target("held memory", f"{HELD_ORIGINS} origins held after a start, MB", 300, at_most=True),
    Target("held start", f"{HELD_ORIGINS} origins, start, s", 10, at_most=True),
    Target(
        "bytes", f"one changed entry among {ORIGINS} origins, kB written", 10, at_most=True
    ),
)  # fmt: skip
LOADS = {
    "1": ("--clients", "1"),
    "8": ("--clients", "8"),
    "viewed": ("--clients", "8", "--viewers", str(VIEWERS)),
    "32": ("--clients", "32"),
    "steps": ("--clients", "8", "--mode", "steps"),
    "rewards": ("--clients", "1", "--mode", "rewards"),
}


class Line:
    """Agents as processes of one environment, the middle one to be asked."""

    def __init__(self, folder: Path, python: str, n_agents: int = 3, tables: str = "") -> None:
        from posse.live.demo import agent_settings, create_process_sites

        folder.mkdir()
        self.python = python
        links = [(i, i + 1) for i in range(n_agents - 1)]
        settings = agent_settings(n_agents, ARMS, "origins", tick_seconds=1.0)
        self.sites = create_process_sites(folder, links, settings)
        for site in self.sites:
            site.file.write_text(site.file.read_text() + tables)
        self.url = self.sites[n_agents // 2].url
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> float:
        """Start all, and wait until all answer; how long that took."""
        began = time.perf_counter()
        for site in self.sites:
            with site.file.with_suffix(".log").open("ab") as log:
                command = [self.python, "-c", AGENT, "agent", str(site.file)]
                self.processes.append(
                    subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
                )
        for site, process in zip(self.sites, self.processes, strict=True):
            while not answers(f"{site.url}/healthz"):
                if process.poll() is not None or time.perf_counter() > began + 60:
                    raise RuntimeError(site.file.with_suffix(".log").read_text()[-500:])
                time.sleep(0.02)
        return time.perf_counter() - began

    def stop(self) -> None:
        """SIGTERM, and SIGKILL for one that does not heed it."""
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(15)

    @property
    def asked(self) -> int:
        """The process id of the one that is asked."""
        return self.processes[len(self.processes) // 2].pid


def answers(url: str, body: bytes | None = None) -> bool:
    """Whether somebody answers there, and well."""
    request = Request(url, body, {"Content-Type": "application/json"})
    try:
        with OPENER.open(request, timeout=10) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False


def loaded(url: str, seconds: float, *options: str) -> dict[str, float]:
    """The figures of load.py, in a process of its own."""
    command = [sys.executable, HERE / "load.py", url, "--seconds", str(seconds), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip()[-500:])
    return dict(json.loads(done.stdout))


def memory(process: int) -> float:
    """The megabytes that a process has in memory (Linux)."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(next(row for row in status.splitlines() if row.startswith("VmRSS")).split()[1]) / 1e3


def seconds_used(process: int) -> float:
    """The seconds of processor that the threads of a process have taken (Linux).

    To the nanosecond, as its scheduler has it: /proc/PID/stat counts hundredths of seconds, and on
    many systems only by who happens to run when the clock ticks.
    """
    threads = Path(f"/proc/{process}/task").iterdir()
    return sum(int((each / "schedstat").read_text().split()[0]) for each in threads) / 1e9


@contextmanager
def bare_sqlite(folder: Path) -> Iterator[sqlite3.Connection]:
    """A table of decisions and one of evidence, as the store has them."""
    connection = sqlite3.connect(folder / "bare.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("CREATE TABLE exchange (row INTEGER PRIMARY KEY, state TEXT)")
    connection.execute(
        "CREATE TABLE decision (number INTEGER PRIMARY KEY, id TEXT UNIQUE, arm TEXT, "
        "probability REAL, time REAL, reward REAL)"
    )
    yield connection
    connection.close()


def bare_pair(connection: sqlite3.Connection) -> None:
    """The same rows and commits by hand: a decision, then its reward and a state of evidence."""
    id_ = os.urandom(16).hex()
    connection.execute("PRAGMA synchronous=NORMAL")  # as the store: the reward syncs for both
    connection.execute(
        "INSERT INTO decision (id, arm, probability, time) VALUES (?, ?, ?, ?)",
        (id_, "option-0", 0.5, time.time()),
    )
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("BEGIN")
    connection.execute("UPDATE decision SET reward = ? WHERE id = ?", (1.0, id_))
    state = json.dumps({arm: [2**20, 2**20] for arm in ARMS})
    connection.execute("REPLACE INTO exchange VALUES (1, ?)", (state,))
    connection.execute("COMMIT")


def of_contexts(folder: Path, pairs: int) -> dict[str, float]:
    """Nodes with and without contexts in turns: pairs a second, and processor time, as shares."""
    from posse import families
    from posse.live import Agent, Node, Store
    from posse.live.experiment.experiment import LiveExperiment
    from posse.live.messaging.transport.memory import MemoryNetwork

    nodes = {}
    generator = random.Random(1)
    for name, family, schema in (
        ("plain", families.Bernoulli(), None),
        ("contexts", families.Logistic(rate=0.3), CONTEXT),
    ):
        agent = Agent(ARMS, family, context=schema, seed=1)
        store = Store.open(folder / f"{name}.db", fingerprint=agent.fingerprint)
        transport = MemoryNetwork([("a", "b")]).transport("a")
        experiment = LiveExperiment("default", agent, store)
        nodes[name] = Node("a", [experiment], store, transport, neighbours=["b"])
    ratios = []
    for _ in range(max(2, pairs // 100)):
        taken = {}
        for name, node in nodes.items():
            visits = [visitor(generator) if name == "contexts" else None for _ in range(100)]
            start = time.perf_counter(), time.process_time()
            for number, context in enumerate(visits):
                node.reward(node.decide(context=context).id, float(number % 3 == 0))
            taken[name] = time.perf_counter() - start[0], time.process_time() - start[1]
        ratios.append([p / c for p, c in zip(taken["plain"], taken["contexts"], strict=True)])
    for node in nodes.values():
        node.stop()
    whole, processor = zip(*ratios[1:], strict=True)  # the first warms up
    return {"contexts": median(whole), "contexts cpu": median(processor)}


def visitor(generator: random.Random) -> dict[str, object]:
    """What is known of one."""
    return {
        "country": generator.choice(CONTEXT["country"]),
        "returning": generator.random() < 0.3,
        "basket": generator.uniform(0, 500),
        "hour": generator.uniform(0, 24),
    }


def open_node(folder: Path, name: str, arms: Sequence[str]) -> Any:
    """A node without HTTP and threads, whose neighbour b is played by the caller."""
    from posse import families
    from posse.live import Agent, Node, Store
    from posse.live.experiment.experiment import LiveExperiment
    from posse.live.messaging.transport.memory import MemoryNetwork

    agent = Agent(arms, families.Bernoulli(), seed=1)
    store = Store.open(folder / f"{name}.db", fingerprint=agent.fingerprint)
    transport = MemoryNetwork([("a", "b")]).transport("a")
    experiment = LiveExperiment("default", agent, store)
    return Node("a", [experiment], store, transport, neighbours=["b"])


def say_entries(node: Any, keys: Sequence[tuple[str, int]], seq: int) -> None:
    """Let its neighbour tell a node the entries of some origins and incarnations."""
    from posse.live.exchange.messages import Entry, OriginsMessage
    from posse.live.messaging.wire import Codec

    sums = (seq << 19, seq << 19, seq << 20, seq << 20)  # all, closed, their count, all
    ledger = dict.fromkeys(node.agent.arm_names, sums)
    entries = tuple(
        replace(
            Entry.from_ledger(key, (seq, seq, 1), ledger),
            # as long as with a certificate, which the entries of an origin have in common
            signature=random.Random(key[0]).randbytes(407) + os.urandom(64),
        )
        for key in keys
    )
    message = OriginsMessage(node.agent.fingerprint, entries, (), False)
    node.receive("b", Codec(OriginsMessage).encode(message))


def in_process(folder: Path, pairs: int) -> dict[str, float]:
    """A node without HTTP: pairs a second, and the bytes that one changed entry writes."""
    one = open_node(folder, "pairs", ARMS)
    start = time.perf_counter()
    for number in range(pairs):
        one.reward(one.decide().id, float(number % 3 == 0))
    measured = {"node": pairs / (time.perf_counter() - start)}
    one.stop()

    def written() -> int:
        lines = Path("/proc/self/io").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("wchar")).split()[1])

    one = open_node(folder, "entries", [f"option-{k}" for k in range(MANY_ARMS)])
    keys = [(f"origin-{k:04d}", k + 1) for k in range(ORIGINS)]
    for first in range(0, ORIGINS, 50):
        say_entries(one, keys[first : first + 50], 1)
    assert "'option-0'" in repr(one.evidence()), "the entries were not taken in"
    sizes = []
    for seq in range(2, 12):
        before = written()
        say_entries(one, keys[7:8], seq)
        sizes.append(written() - before)
    one.stop()
    measured["bytes"] = median(sizes) / 1e3
    return measured | of_contexts(folder, pairs)


def hold_entries(folder: Path) -> dict[str, float]:
    """Memory of an entry in a node that has heard very many, or of a node that starts with them."""
    arms = [f"option-{k}" for k in range(MANY_ARMS)]
    if (folder / "held.db").exists():
        start = time.perf_counter()
        open_node(folder, "held", arms).stop()
        return {"held start": time.perf_counter() - start, "held memory": memory(os.getpid())}
    one = open_node(folder, "held", arms)
    before = memory(os.getpid())
    for k in range(HELD_ORIGINS // 100):
        origins = [f"origin-{n:05d}" for n in range(100 * k, 100 * k + 100)]
        for incarnation in range(1, 1 + HELD_ENTRIES):
            say_entries(one, [(origin, incarnation) for origin in origins], 1)
    held = len(one.agent.exchange.replica.entries)
    assert held == HELD_ORIGINS * HELD_ENTRIES, f"{held} entries were taken in"
    one.stop()
    return {"held entry": 1e3 * (memory(os.getpid()) - before) / held}


def of_python(python: str, folder: Path, *options: str) -> dict[str, float]:
    """The same in a process of this environment or another."""
    folder.mkdir(exist_ok=True)
    command = [python, __file__, "--in-process", str(folder), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"({python}: {done.stderr.strip().splitlines()[-1]})", file=sys.stderr)
        return {}
    return dict(json.loads(done.stdout))


def many_experiments(folder: Path, python: str) -> dict[str, float]:
    """The start and the memory of one agent with many experiments, each asked once."""
    names = [f"experiment-{k}" for k in range(EXPERIMENTS)]
    line = Line(folder, python, 1, "".join(f"[experiments.{name}]\n" for name in names))
    try:
        start = line.start()
        for name in names:
            if not answers(f"{line.url}/v1/experiments/{name}/decisions", b"{}"):
                raise RuntimeError(f"{name} gave no decision")
        return {"many start": start, "many memory": memory(line.asked)}
    except RuntimeError as error:
        print(f"({python}: no {EXPERIMENTS} experiments: {str(error)[-200:]})", file=sys.stderr)
        return {}
    finally:
        line.stop()


def measure(folder: Path, pythons: dict[str, str], rounds: int, seconds: float) -> dict[str, dict]:
    """All contenders in turns, round after round: the median of each figure by contender."""
    taken: dict[str, dict[str, list[float]]] = {who: defaultdict(list) for who in pythons}
    lines = {who: Line(folder / who, python) for who, python in pythons.items()}
    refused: set[tuple[str, str]] = set()
    try:
        for line in lines.values():
            line.start()
        with bare_sqlite(folder) as bare:
            for round_ in range(rounds + 1):
                for name, options in LOADS.items():
                    start = time.perf_counter()
                    count = 0
                    while time.perf_counter() < start + seconds / len(LOADS):
                        bare_pair(bare)
                        count += 1
                    sqlite_rate = count / (time.perf_counter() - start)
                    for who, line in lines.items():
                        if round_:  # the first warms up
                            taken[who]["sqlite"].append(sqlite_rate)
                            taken[who][f"{name} sqlite"].append(sqlite_rate)
                        if (who, name) in refused:
                            continue
                        used = seconds_used(line.asked)
                        try:
                            figures = loaded(line.url, seconds, *options)
                        except RuntimeError as error:
                            print(f"({who}, {name}: {str(error)[-200:]})", file=sys.stderr)
                            refused.add((who, name))
                            continue
                        used = seconds_used(line.asked) - used
                        figures["cpu_ms"] = 1e3 * used / figures.pop("count")
                        for key, value in figures.items():
                            if round_:
                                taken[who][f"{name} {key}"].append(value)
        for who, line in lines.items():
            before = seconds_used(line.asked)
            time.sleep(5)
            taken[who]["idle"].append(100 * (seconds_used(line.asked) - before) / 5)
            taken[who]["memory"].append(memory(line.asked))
    finally:
        for line in lines.values():
            line.stop()
    for each in taken.values():  # of neighbouring turns, in which the disk was as fast
        turns = zip(each["8 per_second"], each["viewed per_second"], strict=False)
        beside_bare = zip(each["8 per_second"], each["8 sqlite"], strict=False)
        each["8 share"] = [pairs / bare_pairs for pairs, bare_pairs in beside_bare]
        each["viewers"] = [100 * (1 - viewed / plain) for plain, viewed in turns]
    measured = {who: {k: median(v) for k, v in each.items() if v} for who, each in taken.items()}
    for who, python in pythons.items():
        pairs = str(int(400 * seconds))
        measured[who] |= of_python(python, folder / f"{who}-node", "--pairs", pairs)
        for _ in ("told", "restarted"):
            measured[who] |= of_python(python, folder / f"{who}-held", "--hold")
        measured[who] |= many_experiments(folder / f"{who}-many", python)
    return measured


def show(measured: dict[str, dict]) -> None:
    """The table for people: each figure, its targets, and its ratio to the one beside."""
    beside = measured.get("beside", {})
    print(f"{'':52} {'must':>7} {'stretch':>7} {'measured':>9}  {'verdict':8} {'ratio':>6}")
    for target in TARGETS:
        if target.key not in measured["this"]:
            continue
        value = measured["this"][target.key]
        bounds = [f"{b:g}" if b is not None else "" for b in (target.must, target.stretch)]
        ratio = f"{value / beside[target.key]:6.2f}" if beside.get(target.key) else ""
        print(
            f"{target.says:52} {bounds[0]:>7} {bounds[1]:>7} {value:9.{2 if value < 10 else 1}f}  "
            f"{target.verdict(value):8} {ratio}"
        )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each load in a round")
    parser.add_argument("--quick", action="store_true", help="two rounds of a second")
    parser.add_argument("--beside", help="the python of another checkout's environment")
    parser.add_argument("--output", type=Path, default=Path("results/bench-live.json"))
    parser.add_argument("--in-process", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--pairs", type=int, default=1000, help=argparse.SUPPRESS)
    parser.add_argument("--hold", action="store_true", help=argparse.SUPPRESS)
    a = parser.parse_args()
    if a.in_process:
        measured = hold_entries(a.in_process) if a.hold else in_process(a.in_process, a.pairs)
        print(json.dumps(measured))
        return
    rounds, seconds = (2, 1.0) if a.quick else (a.rounds, a.seconds)
    pythons = {"this": sys.executable} | ({"beside": a.beside} if a.beside else {})
    with tempfile.TemporaryDirectory(dir=".", prefix=".bench-live-") as name:
        measured = measure(Path(name).resolve(), pythons, rounds, seconds)
    show(measured)
    a.output.parent.mkdir(exist_ok=True)
    measured["load"] = dict(zip(("1 min", "5 min"), os.getloadavg(), strict=False))
    print(f"(load average {measured['load']['1 min']:.1f})")
    a.output.write_text(json.dumps(measured, indent=2) + "\n")
    print(f"(written to {a.output})")


if __name__ == "__main__":
    main()
