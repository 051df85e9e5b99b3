"""Two weeks of a shop with five sites, played fast: real agents on a made-up clock.

`python -m screenshots.shop` serves the agent of berlin until Ctrl-C.
"""

from __future__ import annotations

import math
import random
import sys
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path

from posse.live.config.agent_settings import Settings, from_data
from posse.live.experiment.experiment import Wish
from posse.live.http import serve_node
from posse.live.http.server import Server
from posse.live.messaging.transport.memory import MemoryNetwork
from posse.live.node import Node
from posse.live.node_factory import Keys, Outside
from posse.live.process import assemble
from posse.live.security import certificates
from posse.live.security.certificates import Files

SITES = {"berlin": 27, "paris": 31, "rome": 22, "lyon": 13, "oslo": 21}  # visits an hour
LINKS = (
    *(("berlin", "paris"), ("paris", "rome"), ("rome", "lyon"), ("lyon", "oslo")),
    *(("oslo", "berlin"), ("paris", "lyon"), ("berlin", "rome")),
)
RATES = {"control": 0.13, "big-photo": 0.15, "free-shipping": 0.178, "urgency": 0.11}
LATER = {"video": 0.1}  # an arm that comes in the second week
ROME = {"big-photo": 0.215}  # where it works better than elsewhere
HOURS, HOUR, WINDOW = 14 * 24, 3600.0, 3600.0
TOKEN = "an operator's secret"


class Shop:
    """Five agents on their network, and their visitors."""

    def __init__(self, folder: Path, seed: int = 92) -> None:
        self._folder, self._random = folder, random.Random(seed)
        self.now = time.time()  # from today on: certificates were not valid before
        self._network = MemoryNetwork(LINKS, seed=seed)
        self._arms = list(RATES)
        self._turn = threading.RLock()
        self._over = threading.Event()
        certificates.create_authority(folder / "certs")
        for name in SITES:
            certificates.issue(folder / "certs", name, ["127.0.0.1"])
        self.nodes: dict[str, Node] = {}
        for name in SITES:
            self.open(name)

    def open(self, name: str) -> None:
        """Start an agent, for the first time or again."""
        keys = Keys(name, Files.of(self._folder / "certs", name))
        outside = Outside(lambda _: self._network.transport(name), keys)
        clock = lambda: self.now  # noqa: E731
        draw = self._random.getrandbits  # the same story whenever it is played
        node = assemble(
            self._settings(name), self._folder, outside, clock=clock, monotonic=clock, draw=draw
        )
        node.transport.start(node.receive)
        self.nodes[name] = node

    def close(self, name: str) -> None:
        """End an agent."""
        self.nodes.pop(name).stop()

    def _settings(self, name: str) -> Settings:
        near = {a if b == name else b: "" for a, b in LINKS if name in (a, b)}
        common = {"family": "bernoulli", "reward_window": WINDOW, "default_reward": 0.0}
        tables = {
            "checkout": {**common, "arms": self._arms, "stop": {"error": 0.05}, "min_share": 0.02,
                         "policy": "top-two"},
            "newsletter": {**common, "arms": ["short", "long"]},
        }  # fmt: skip
        tables["checkout"] |= {"new_arm_share": 0.06, "new_arm_pulls": 2500}
        data = {"name": name, "store": f"{name}.db", "neighbours": near, "experiments": tables}
        return from_data({**data, "operators": ["paris"]})

    def play(self, hours: int = HOURS) -> None:
        """Two weeks, or their beginning: an hour at a time, the last day in steps of 3 minutes."""
        for hour in range(hours):
            self._story(hour)
            steps = 20 if hour >= HOURS - 24 else 1
            for _ in range(steps):
                self._pass(HOUR / steps)

    def _story(self, hour: int) -> None:
        if hour == 38:
            self.close("oslo")
        if hour == 39:
            self.open("oslo")
        if hour == 121:
            self._network.partition(["rome"])
        if hour == 124:
            self._network.heal()
        if hour == 212:
            self.nodes["paris"].pause("checkout", "urgency")
        if hour == 264:
            self._arms = [*RATES, *LATER]
            for name, node in self.nodes.items():
                node.reload(replace(self._settings(name)))
        if hour == HOURS - 18:
            self.close("berlin")
            self.open("berlin")

    def _pass(self, seconds: float) -> None:
        """Some time: visitors of all sites, ticks, messages."""
        with self._turn:
            self.now += seconds
            busy = 1 + 0.75 * math.sin((self.now / HOUR % 24 - 9) / 3.82)
            for name, traffic in SITES.items():
                if name in self.nodes:
                    mean = traffic * busy * seconds / HOUR
                    visits = int(mean) + (self._random.random() < mean % 1)
                    self._visits(name, "checkout", visits)
                    self._visits(name, "newsletter", visits // 8)
            for node in list(self.nodes.values()):
                node.tick()
            for _ in range(4):
                self._network.step()

    def _visits(self, name: str, experiment: str, visits: int) -> None:
        one = self.nodes[name].experiment(experiment)
        with one.store.transaction(durable=False):
            made = one.choose_many([Wish()] * visits)
            good = [each for each in made if not isinstance(each, ValueError)]
            one.store.insert_decisions(good)
            one.counts.add("decisions", len(good))
            rewards = [
                (each.id, 1.0)
                for each in good
                if self._random.random() < self._rate(name, each.arm)
            ]
            one.count_rewards(one.store.add_rewards(rewards, self.now))

    def _rate(self, name: str, arm: str) -> float:
        rates = {**RATES, **LATER, **(ROME if name == "rome" else {}), "short": 0.3, "long": 0.28}
        return rates[arm]

    def go_on(self) -> None:
        """From now on time passes as it does, a tick a second, until `end`."""

        def run() -> None:
            while not self._over.wait(1.0):
                self._pass(1.0)

        threading.Thread(target=run, daemon=True).start()

    def end(self) -> None:
        """Stop everything."""
        self._over.set()
        with self._turn:
            for name in list(self.nodes):
                self.close(name)

    def serve(self, name: str, address: str = "127.0.0.1:0") -> Server:
        """The interface of one of them."""
        return serve_node(self.nodes[name], address, operator_token=TOKEN)


def main() -> None:
    """Play and serve."""
    with tempfile.TemporaryDirectory() as place:
        began = time.monotonic()
        shop = Shop(Path(place))
        shop.play()
        print(f"two weeks in {time.monotonic() - began:.0f} s", file=sys.stderr)
        shop.go_on()
        with shop.serve("berlin", "127.0.0.1:8790") as server:
            print(server.url, flush=True)
            try:
                threading.Event().wait()
            except KeyboardInterrupt:
                shop.end()


if __name__ == "__main__":
    main()
