"""`make bench`, second part: what one live agent bears, beside the same writes to bare SQLite.

Three real agents in a line, mTLS between them, each with its store on the same disk. The one in the
middle is asked by one client, by eight at once and in batches; all contenders take turns, because
how fast a disk syncs changes from one second to the next. README.md in this folder explains the rows.
"""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from posse import families
from posse.live import Agent, Client, Node, Store
from posse.live.swarm import Swarm
from posse.live.transport.memory import MemoryNetwork

ARMS = {f"option-{k}": 0.7 - 0.1 * k for k in range(5)}
CLIENTS, BATCH = 8, 100
TICKS = os.sysconf("SC_CLK_TCK")
Pair = Callable[[], None]


@contextmanager
def bare_sqlite(folder: Path) -> Iterator[Pair]:
    """The same rows and commits by hand: a decision, then its reward and a state of evidence."""
    connection = sqlite3.connect(folder / "bare.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE exchange (row INTEGER PRIMARY KEY, state TEXT)")
    connection.execute(
        "CREATE TABLE decision (number INTEGER PRIMARY KEY, id TEXT UNIQUE, arm TEXT, "
        "probability REAL, time REAL, reward REAL)"
    )
    state = json.dumps({arm: [2**20, 2**20] for arm in ARMS})
    numbers = iter(range(10**9))

    def pair() -> None:
        id_ = f"{next(numbers):032x}"
        connection.execute(
            "INSERT INTO decision (id, arm, probability, time) VALUES (?, ?, ?, ?)",
            (id_, "option-0", 0.5, time.time()),
        )
        connection.execute("BEGIN")
        connection.execute("UPDATE decision SET reward = ? WHERE id = ?", (1.0, id_))
        connection.execute("REPLACE INTO exchange VALUES (1, ?)", (state,))
        connection.execute("COMMIT")

    yield pair
    connection.close()


@contextmanager
def in_process(folder: Path) -> Iterator[Pair]:
    """A node without HTTP: what the decision, the books and the commits cost."""
    agent = Agent(list(ARMS), families.Bernoulli(), seed=1)
    store = Store.open(folder / "node.db", fingerprint=agent.fingerprint)
    network = MemoryNetwork([("a", "b")])
    node = Node(agent, store, network.transport("a"), neighbours=["b"])
    yield lambda: void(node.reward(node.decide().id, 1.0))
    node.stop()


def void(_: object) -> None:
    """Forget an answer."""


def pairs(ask: Pair, count: int) -> list[float]:
    """How long each of so many decisions with their rewards took, in seconds."""
    taken = []
    for _ in range(count):
        start = time.perf_counter()
        ask()
        taken.append(time.perf_counter() - start)
    return taken


def usage(process: int) -> tuple[float, float]:
    """The seconds of processor and the megabytes of memory that a process has taken (Linux)."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    status = Path(f"/proc/{process}/status").read_text()
    kilobytes = next(row for row in status.splitlines() if row.startswith("VmRSS")).split()[1]
    return (int(fields[11]) + int(fields[12])) / TICKS, int(kilobytes) / 1000


def share(process: int, during: Callable[[], object]) -> tuple[float, float]:
    """The share of one core and the memory of a process while something happens."""
    start, before = time.perf_counter(), usage(process)[0]
    during()
    after, memory = usage(process)
    return (after - before) / (time.perf_counter() - start), memory


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--pairs", type=int, default=100, help="of each contender in a round")
    parser.add_argument("--output", type=Path, default=Path("results/bench-live.json"))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=".", prefix=".bench-live-") as name:
        folder = Path(name).resolve()
        swarm = Swarm(folder, [(0, 1), (1, 2)], 3, ARMS, tick_seconds=1.0)
        try:
            swarm.start()
            measured = measure(swarm, folder, arguments.rounds, arguments.pairs)
        finally:
            swarm.stop()
    arguments.output.parent.mkdir(exist_ok=True)
    arguments.output.write_text(json.dumps(measured, indent=2) + "\n")
    print(f"(written to {arguments.output})")


def measure(swarm: Swarm, folder: Path, rounds: int, count: int) -> dict[str, object]:
    """All contenders in turns, then the agent at rest and under load."""
    site = swarm.sites[1]
    assert site.process is not None
    process = site.process.pid
    taken: dict[str, list[float]] = {}
    together, batches = [], []
    with (
        bare_sqlite(folder) as bare,
        in_process(folder) as node,
        Client(site.url, timeout=60) as client,
        ThreadPoolExecutor(CLIENTS) as threads,
    ):
        contenders = {
            "bare SQLite": bare,
            "a node in its process": node,
            "one HTTP client": lambda: void(client.update(client.pull(), 1.0)),
        }
        for round_ in range(rounds + 1):
            for name, ask in contenders.items():
                each = pairs(ask, count)
                taken.setdefault(name, []).extend(each if round_ else [])  # the first warms up
            start = time.perf_counter()
            each_ = count // CLIENTS
            list(threads.map(lambda _: pairs(contenders["one HTTP client"], each_), range(CLIENTS)))
            together.append(each_ * CLIENTS / (time.perf_counter() - start))
            rewards = [(decision, 1.0) for decision in client.pull_all(BATCH)]
            start = time.perf_counter()
            client.update_all(rewards)
            batches.append(BATCH / (time.perf_counter() - start))
        rows = {
            name: {
                "pairs_per_second": len(all_) / sum(all_),
                "p50_ms": 1e3 * float(np.quantile(all_, 0.5)),
                "p99_ms": 1e3 * float(np.quantile(all_, 0.99)),
            }
            for name, all_ in taken.items()
        }
        idle = share(process, lambda: time.sleep(5))
        busy = share(process, lambda: pairs(contenders["one HTTP client"], 5 * count))
    print(f"{'durable decision + reward':28} {'pairs/s':>8} {'p50 ms':>8} {'p99 ms':>8}")
    for name, row in rows.items():
        print(f"{name:28} " + " ".join(f"{value:8.2f}" for value in row.values()))
    print(f"{'eight HTTP clients at once':28} {np.median(together):8.0f}")
    print(f"rewards in batches of {BATCH}: {np.median(batches):.0f} a second")
    for when, (core, memory) in (("idle", idle), ("under one client's load", busy)):
        print(f"an agent {when}: {core:.1%} of a core, {memory:.0f} MB")
    return {
        "rows": rows,
        "eight_clients_pairs_per_second": float(np.median(together)),
        "batched_rewards_per_second": float(np.median(batches)),
        "idle": {"core": idle[0], "megabytes": idle[1]},
        "load": {"core": busy[0], "megabytes": busy[1]},
    }


if __name__ == "__main__":
    main()
