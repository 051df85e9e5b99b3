"""A closed loop of clients on keep-alive connections, lean enough to leave the core to the agent.

    python load.py http://127.0.0.1:8700 --clients 8 --seconds 3 --mode pairs

prints what was done a second and how long it took, as JSON. Modes: pairs (a decision, then its
reward), steps (a reward and the next decision in one request), rewards (in batches of 100). With
--viewers 20 as many pages are streamed to meanwhile.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import selectors
import socket
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

MEANS = {f"option-{k}": 0.7 - 0.1 * k for k in range(5)}
BATCH = 100
Visit = Iterator[bytes]  # requests; the answer to each is in `Visitor.answer`


class Visitor:
    """One connection, and what its visitor has done."""

    def __init__(self, url: str, mode: str, ids: Iterator[str]) -> None:
        place = urlsplit(url)
        self.host = f"{place.hostname}:{place.port}"
        self.socket = socket.create_connection((place.hostname, place.port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.ids = ids
        self.dice = random.Random(0)
        self.answer: dict = {}
        self.taken: list[float] = []
        self._requests: Visit = getattr(self, mode)()
        self._got = b""
        self.ask()

    def ask(self) -> None:
        """Send the next request."""
        self.socket.sendall(next(self._requests))

    def hear(self) -> bool:
        """Read what came; whether the answer is complete."""
        came = self.socket.recv(1 << 20)
        if not came:
            raise ConnectionError("the agent closed the connection")
        self._got += came
        head, end, body = self._got.partition(b"\r\n\r\n")
        if not end:
            return False
        fields = dict(line.split(b":", 1) for line in head.lower().split(b"\r\n")[1:])
        if len(body) < int(fields[b"content-length"]):
            return False
        if not head.startswith(b"HTTP/1.1 200"):
            raise ValueError(f"{head[:40]!r}: {body[:200]!r}")
        self._got, self.answer = b"", json.loads(body)
        return True

    def post(self, path: str, body: object) -> bytes:
        """A request, as it goes over the wire."""
        content = json.dumps(body)
        return (
            f"POST {path} HTTP/1.1\r\nHost: {self.host}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(content)}\r\n\r\n{content}"
        ).encode()

    def reward_of(self, decision: dict) -> float:
        """1 with the probability of its arm, else 0."""
        return float(self.dice.random() < MEANS[decision["arm"]])

    def pairs(self) -> Visit:
        """A decision, then its reward."""
        while True:
            start = time.perf_counter()
            yield self.post("/v1/decisions", {"decision": next(self.ids)})
            path = f"/v1/decisions/{self.answer['decision']}/reward"
            yield self.post(path, {"reward": self.reward_of(self.answer)})
            self.taken.append(time.perf_counter() - start)

    def steps(self) -> Visit:
        """The reward of one decision with the wish for the next."""
        yield self.post("/v1/decisions", {"decision": next(self.ids)})
        decision = self.answer
        while True:
            start = time.perf_counter()
            rewards = [{"decision": decision["decision"], "reward": self.reward_of(decision)}]
            yield self.post(
                "/v1/steps", {"rewards": rewards, "decide": {"decision": next(self.ids)}}
            )
            decision = self.answer["decision"]
            self.taken.append(time.perf_counter() - start)

    def rewards(self) -> Visit:
        """Only the requests with rewards are timed."""
        while True:
            yield self.post("/v1/decisions/batch", {"decisions": [{}] * BATCH})
            each = [
                {"decision": d["decision"], "reward": self.reward_of(d)}
                for d in self.answer["decisions"]
            ]
            start = time.perf_counter()
            yield self.post("/v1/rewards", {"rewards": each})
            self.taken.append(time.perf_counter() - start)


class Viewer:
    """One page that is streamed to, and read by nobody."""

    def __init__(self, url: str) -> None:
        place = urlsplit(url)
        self.socket = socket.create_connection((place.hostname, place.port))
        ask = f"GET /v1/page/stream HTTP/1.1\r\nHost: {place.hostname}:{place.port}\r\n\r\n"
        self.socket.sendall(ask.encode())

    def hear(self) -> bool:
        """Take what came."""
        if not self.socket.recv(1 << 20):
            raise ConnectionError("the agent closed a stream")
        return False


def run(url: str, clients: int, seconds: float, mode: str, viewers: int = 0) -> list[Visitor]:
    """Let so many visitors ask for so long, each as soon as it is answered."""
    stem = os.urandom(8).hex()
    ids = (f"{stem}{number:012x}" for number in itertools.count())
    with selectors.DefaultSelector() as waiting:
        visitors = [Visitor(url, mode, ids) for _ in range(clients)]
        pages = [Viewer(url) for _ in range(viewers)]
        for each in (*visitors, *pages):
            waiting.register(each.socket, selectors.EVENT_READ, each)
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            for key, _ in waiting.select(seconds):
                if key.data.hear():
                    key.data.ask()
    for each in (*visitors, *pages):
        each.socket.close()
    return visitors


def main() -> None:
    """Ask, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--clients", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--mode", choices=["pairs", "steps", "rewards"], default="pairs")
    parser.add_argument("--viewers", type=int, default=0)
    a = parser.parse_args()
    used = time.process_time()
    visitors = run(a.url, a.clients, a.seconds, a.mode, a.viewers)
    taken = sorted(t for each in visitors for t in each.taken)
    busy = 100 * (time.process_time() - used) / a.seconds  # % of a core: near 100 it is the limit
    if not taken:
        raise SystemExit("nothing was answered")
    half, most = (1e3 * taken[int(level * (len(taken) - 1))] for level in (0.5, 0.99))
    per_second = BATCH * len(taken) / sum(taken) if a.mode == "rewards" else len(taken) / a.seconds
    count = len(taken) * (BATCH if a.mode == "rewards" else 1)
    figures = {"per_second": per_second, "p50_ms": half, "p99_ms": most}
    print(json.dumps({**figures, "count": count, "busy": busy}))


if __name__ == "__main__":
    main()
