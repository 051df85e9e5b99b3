"""More rewards than one agent can take, many of them repeated or contradicted."""

from __future__ import annotations

import threading
import time

import httpx
import numpy as np
import pytest

pytestmark = pytest.mark.long
THREADS = 8  # in pairs, which want to settle the same decisions differently
AT_ONCE = 20  # decisions of a batch, and as many one by one
PREFIX = "/v1/experiments/checkout"
KINDS = ("one", "batch")


class Flooder(threading.Thread):
    """Asks for decisions and rewards them all alike, twice, until told to stop."""

    def __init__(self, url: str, pair: int, reward: int, ended: threading.Event) -> None:
        super().__init__(daemon=True)
        self.acknowledged: dict[str, str] = {}  # by decision, its arm
        self.refused = 0
        self.seconds: dict[str, list[float]] = {kind: [] for kind in KINDS}
        self.error: Exception | None = None
        self._pair, self._reward, self._ended = pair, reward, ended
        self._http = httpx.Client(base_url=url, timeout=120, trust_env=False)

    def run(self) -> None:
        try:
            turn = 0
            with self._http:
                while not self._ended.is_set():
                    self._flood([f"{self._pair}-{turn}-{i}" for i in range(2 * AT_ONCE)])
                    turn += 1
        except Exception as error:
            self.error = error

    def _flood(self, ids: list[str]) -> None:
        asked = {"decisions": [{"decision": id_} for id_ in ids]}
        answer = self._http.post(f"{PREFIX}/decisions/batch", json=asked).raise_for_status().json()
        arms = {made["decision"]: made["arm"] for made in answer["decisions"]}
        body = {"rewards": [{"decision": i, "reward": self._reward} for i in ids[:AT_ONCE]] * 2}
        answers = (
            self._timed("batch", f"{PREFIX}/rewards", body).raise_for_status().json()["rewards"]
        )
        for item, given in zip(answers, body["rewards"], strict=True):
            self._note("error" not in item, given["decision"], arms)
        for id_ in ids[AT_ONCE:] * 2:
            answered = self._timed(
                "one", f"{PREFIX}/decisions/{id_}/reward", {"reward": self._reward}
            )
            assert answered.status_code in (200, 409), answered.text
            self._note(answered.status_code == 200, id_, arms)

    def _timed(self, kind: str, path: str, body: dict) -> httpx.Response:
        start = time.perf_counter()
        answered = self._http.post(path, json=body)
        self.seconds[kind].append(time.perf_counter() - start)
        return answered

    def _note(self, taken: bool, id_: str, arms: dict[str, str]) -> None:
        self.refused += not taken
        if taken:
            self.acknowledged[id_] = arms[id_]


def test_a_flood_of_rewards(scale, swarm_of, until, check, tell):
    swarm = swarm_of(3, "origins")
    flooded, neighbour = swarm.sites[:2]
    ended = threading.Event()
    flooders = [Flooder(flooded.url, k // 2, k % 2, ended) for k in range(THREADS)]
    start, health = time.monotonic(), []
    for flooder in flooders:
        flooder.start()
    spread: set[float] = set()  # what the neighbour held, while the flood lasted
    with httpx.Client(base_url=flooded.url, timeout=120, trust_env=False) as http:

        def long_enough() -> bool:
            begun = time.perf_counter()
            assert http.get("/healthz").status_code == 200
            health.append(time.perf_counter() - begun)
            if neighbour.take_sample():
                spread.add(neighbour.sample.in_network)
            return time.monotonic() > start + scale.flood and len(spread) > 4

        until(long_enough, "the neighbours hear of rewards while they flood in")
    seconds = time.monotonic() - start
    ended.set()
    for flooder in flooders:
        flooder.join(120)
        assert not flooder.is_alive()
        assert flooder.error is None
    for pair in zip(flooders[::2], flooders[1::2], strict=True):
        assert not pair[0].acknowledged.keys() & pair[1].acknowledged.keys()  # one of them was told
        for reward, flooder in enumerate(pair):
            for arm in flooder.acknowledged.values():
                flooded.add_acknowledged(arm, reward, "checkout")
    refused = sum(flooder.refused for flooder in flooders)
    assert refused > 0
    line = check(swarm, "origins")
    one, batch = (_slowest([t for f in flooders for t in f.seconds[kind]]) for kind in KINDS)
    tell(
        f"flood of {seconds:.0f} s from {THREADS} threads: {flooded.acknowledged / seconds:,.0f} "
        f"new rewards a second, as many repeated, {refused:,} refused as contradictions; p99 {one} "
        f"for one, {batch} for {2 * AT_ONCE} in a batch, "
        f"{_slowest(health)} for /healthz: {line}"
    )


def _slowest(seconds: list[float]) -> str:
    """The time that 99 of 100 did not exceed."""
    return f"{1000 * np.percentile(seconds, 99):.0f} ms"
