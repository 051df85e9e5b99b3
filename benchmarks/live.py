"""`make bench`, second part: what one live agent bears, beside the same writes to bare SQLite.

Three real agents in a line, mTLS between them, each with its store on the same disk. The one in the
middle is asked by one client, by eight at once and in batches; all contenders take turns, because
how fast a disk syncs changes from one second to the next. README.md here explains the rows.
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
from typing import Any

import numpy as np

from posse import families
from posse.live import Agent, Client, Node, Store
from posse.live.swarm import agent_settings, in_processes
from posse.live.swarm.processes import ProcessSite
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
    connection.execute("CREATE TABLE exchange (row INTEGER PRIMARY KEY, state TEXT)")
    connection.execute(
        "CREATE TABLE decision (number INTEGER PRIMARY KEY, id TEXT UNIQUE, arm TEXT, "
        "probability REAL, time REAL, reward REAL)"
    )
    state = json.dumps({arm: [2**20, 2**20] for arm in ARMS})
    numbers = iter(range(10**9))

    def pair() -> None:
        id_ = f"{next(numbers):032x}"
        connection.execute("PRAGMA synchronous=NORMAL")  # as the store: the reward syncs for both
        connection.execute(
            "INSERT INTO decision (id, arm, probability, time) VALUES (?, ?, ?, ?)",
            (id_, "option-0", 0.5, time.time()),
        )
        connection.execute("PRAGMA synchronous=FULL")
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
        sites = in_processes(
            folder, [(0, 1), (1, 2)], agent_settings(3, list(ARMS), "origins", tick_seconds=1.0)
        )
        try:
            for site in sites:
                site.start()
            for site in sites:
                site.wait()
            measured = measure(sites[1], folder, arguments.rounds, arguments.pairs)
        finally:
            for site in sites:
                site.stop()
    arguments.output.parent.mkdir(exist_ok=True)
    arguments.output.write_text(json.dumps(measured, indent=2) + "\n")
    print(f"(written to {arguments.output})")


def measure(site: ProcessSite, folder: Path, rounds: int, count: int) -> dict[str, object]:
    """All contenders in turns, then the agent at rest and under load."""
    assert site.process is not None
    process = site.process.pid
    taken: dict[str, list[list[float]]] = {}  # by contender and round
    together, batches = [], []
    with (
        bare_sqlite(folder) as bare,
        in_process(folder) as node,
        Client(site.url, timeout=60) as client,
    ):
        contenders = {
            "bare SQLite": bare,
            "a node in its process": node,
            "one HTTP client": asking(client),
        }
        for round_ in range(rounds + 1):
            for name, ask in contenders.items():
                each = pairs(ask, count)
                if round_:  # the first warms up
                    taken.setdefault(name, []).append(each)
            together.append(at_once(site.url, count))
            batches.append(in_batch(client))
        idle = share(process, lambda: time.sleep(5))
        load = share(process, lambda: pairs(asking(client), 5 * count))
    measured = {
        "pairs": {name: speeds(each) for name, each in taken.items()},
        "eight_clients_pairs_per_second": float(np.median(together)),
        "batched_rewards_per_second": float(np.median(batches)),
        "idle": {"core": idle[0], "megabytes": idle[1]},
        "load": {"core": load[0], "megabytes": load[1]},
    }
    show(measured)
    return measured


def asking(client: Client) -> Pair:
    """A decision and its reward over HTTP."""
    return lambda: void(client.update(client.pull(), 1.0))


def at_once(url: str, count: int) -> float:
    """Pairs a second of eight clients together."""
    with ThreadPoolExecutor(CLIENTS) as threads, Client(url, timeout=60) as client:
        start = time.perf_counter()
        done = threads.map(lambda _: pairs(asking(client), count // CLIENTS), range(CLIENTS))
        return sum(map(len, done)) / (time.perf_counter() - start)


def in_batch(client: Client) -> float:
    """Rewards a second in one request."""
    rewards = [(decision, 1.0) for decision in client.pull_all(BATCH)]
    start = time.perf_counter()
    client.update_all(rewards)
    return BATCH / (time.perf_counter() - start)


def speeds(rounds: list[list[float]]) -> dict[str, float]:
    """Pairs a second in the best and in the median round; what half and 99% of them took."""
    rates = [len(each) / sum(each) for each in rounds]
    median, slow = np.quantile(np.concatenate(rounds), [0.5, 0.99])
    return {
        "best_per_second": max(rates),
        "per_second": float(np.median(rates)),
        "p50_ms": 1e3 * float(median),
        "p99_ms": 1e3 * float(slow),
    }


def show(measured: dict[str, Any]) -> None:
    """The same for people."""
    print(
        f"{'durable decision + reward':28} {'best/s':>8} {'pairs/s':>8} {'p50 ms':>8} {'p99 ms':>8}"
    )
    for name, row in measured["pairs"].items():
        print(f"{name:28} " + " ".join(f"{value:8.2f}" for value in row.values()))
    together = measured["eight_clients_pairs_per_second"]
    print(f"{'eight HTTP clients at once':28} {'':8} {together:8.2f}")
    print("must, of one client: 300 pairs a second")
    batched = measured["batched_rewards_per_second"]
    print(f"rewards in batches of {BATCH}: {batched:.0f} a second   (must: 2000)")
    for when in ("idle", "load"):
        used = measured[when]
        print(f"an agent, {when}: {used['core']:.1%} of a core, {used['megabytes']:.0f} MB")


if __name__ == "__main__":
    main()
