"""Two weeks of a shop with five sites, played fast: real agents on a simulated clock.

`python -m screenshots.shop` serves the agent of berlin until Ctrl-C.
"""

from __future__ import annotations

import math
import random
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from posse.live.demo.fleet import Fleet
from posse.live.experiment.decision_request import DecisionRequest
from posse.live.http import serve_node
from posse.live.http.server import Server
from posse.live.security import certificates

SITES = {"berlin": 27, "paris": 31, "rome": 22, "lyon": 13, "oslo": 21}  # visits an hour
LINKS = (
    *(("berlin", "paris"), ("paris", "rome"), ("rome", "lyon"), ("lyon", "oslo")),
    *(("oslo", "berlin"), ("paris", "lyon"), ("berlin", "rome")),
)
RATES = {"control": 0.13, "big-photo": 0.15, "free-shipping": 0.178, "urgency": 0.11}
LATER = {"video": 0.1}  # an arm that is added in the second week
ROME = {"big-photo": 0.215}  # converts better there than elsewhere
LOADING = {"urgency": 2.9, "big-photo": 1.9}  # seconds until the page is there, on average
USUAL_LOADING = 1.2
METRICS = {
    "loading": {"range": [0, 10], "worse": "higher", "limit": 2.5},
    "returns": {"range": [0, 1], "worse": "higher", "limit": "+20%"},
}
RETURNS = 0.08  # of sales
HOURS = 14 * 24
HOUR = 3600.0  # seconds
WINDOW = 3600.0  # seconds
TOKEN = "an operator's secret"


class Shop(Fleet):
    """Five agents on their network, and their visitors."""

    def __init__(self, folder: Path, seed: int = 92) -> None:
        # from today on: the certificates are not valid before
        super().__init__(folder, LINKS, seed=seed, now=time.time(), certificates=folder / "certs")
        self._random = random.Random(seed)
        self._arms = list(RATES)
        self._lock = threading.RLock()
        self._over = threading.Event()
        certificates.create_authority(folder / "certs")
        for name in SITES:
            certificates.issue_certificate(folder / "certs", name, ["127.0.0.1"])
        for name in SITES:
            self.start_agent(name)

    def start_agent(self, name: str) -> None:
        """Start an agent, for the first time or again."""
        settings = self.read_settings(self._agent_data(name))
        # one generator for all: the same story whenever it is played
        self.add_node(self.create_node(settings, draw=self._random.getrandbits))

    def _agent_data(self, name: str) -> dict[str, Any]:
        common = {"family": "bernoulli", "reward_window": WINDOW, "default_reward": 0.0}
        checkout = {
            **common,
            "arms": self._arms,
            "stop": {"error": 0.05},
            "min_share": 0.02,
            "policy": "top-two",
            "control_arm": "control",
            "holdout": 0.05,
            "metrics": METRICS,
            "new_arm_share": 0.06,
            "new_arm_pulls": 2500,
        }
        newsletter = {**common, "arms": ["short", "long"]}
        tables = {"checkout": checkout, "newsletter": newsletter}
        return {"name": name, "experiments": tables, "operators": ["paris"]}

    def play_story(self, hours: int = HOURS) -> None:
        """Play two weeks or their beginning: hour by hour, the last day in steps of 3 minutes."""
        for hour in range(hours):
            self._apply_events(hour)
            steps = 20 if hour >= HOURS - 24 else 1
            for _ in range(steps):
                self._pass_time(HOUR / steps)

    def _apply_events(self, hour: int) -> None:
        if hour == 38:
            self.close_node("oslo")
        if hour == 39:
            self.start_agent("oslo")
        if hour == 121:
            self.network.partition(["rome"])
        if hour == 124:
            self.network.heal()
        if hour == 212:
            self.nodes["paris"].pause("checkout", "urgency", "Ada", "loads too slowly")
        if hour == 264:
            self._arms = [*RATES, *LATER]
            for name, node in self.nodes.items():
                node.reload(self.read_settings(self._agent_data(name)))
        if hour == HOURS - 18:
            self.close_node("berlin")
            self.start_agent("berlin")

    def _pass_time(self, seconds: float) -> None:
        """Let time pass: visitors of all sites, ticks, messages."""
        with self._lock:
            self.now += seconds
            busy = 1 + 0.75 * math.sin((self.now / HOUR % 24 - 9) / 3.82)
            for name, traffic in SITES.items():
                if name in self.nodes:
                    mean = traffic * busy * seconds / HOUR
                    visits = int(mean) + (self._random.random() < mean % 1)
                    self._visit_site(name, "checkout", visits)
                    self._visit_site(name, "newsletter", visits // 8)
            for node in list(self.nodes.values()):
                node.tick()
            for _ in range(4):
                self.network.step()

    def _visit_site(self, name: str, experiment_name: str, visits: int) -> None:
        experiment = self.nodes[name].experiment(experiment_name)
        # one commit for all visits of a step: thousands of them would take minutes
        with experiment.store.transaction(durable=False):
            choices = experiment.draw_decisions([DecisionRequest()] * visits)
            decisions = [record for record in choices if not isinstance(record, ValueError)]
            experiment.store.insert_decisions(decisions)
            experiment.counts.add("decisions", len(decisions))
            rewards = [
                (decision.id, 1.0)
                for decision in decisions
                if self._random.random() < self._true_rate(name, decision.arm)
            ]
            experiment.count_rewards(experiment.store.add_rewards(rewards, self.now))
            if experiment.agent.measures.metrics:
                measured = [(decision.id, self._measure(decision.arm)) for decision in decisions]
                sold = [(id_, {"returns": self._draw_return()}) for id_, _ in rewards]
                experiment.store.add_metrics([*measured, *sold], self.now)

    def _measure(self, arm: str) -> dict[str, float]:
        mean = LOADING.get(arm, USUAL_LOADING)
        return {"loading": min(10.0, self._random.gammavariate(4, mean / 4))}

    def _draw_return(self) -> float:
        return float(self._random.random() < RETURNS)

    def _true_rate(self, name: str, arm: str) -> float:
        rates = {**RATES, **LATER, **(ROME if name == "rome" else {}), "short": 0.3, "long": 0.28}
        return rates[arm]

    def run_in_background(self) -> None:
        """Let time pass as it does, a tick a second, until `close`."""

        def pass_seconds() -> None:
            while not self._over.wait(1.0):
                self._pass_time(1.0)

        threading.Thread(target=pass_seconds, daemon=True).start()

    def close(self) -> None:
        """Stop everything."""
        self._over.set()
        with self._lock:
            super().close()

    def serve_agent(self, name: str, address: str = "127.0.0.1:0") -> Server:
        """Serve the HTTP interface of an agent."""
        return serve_node(self.nodes[name], address, operator_token=TOKEN)


def main() -> None:
    """Play the story and serve the agent of berlin."""
    with tempfile.TemporaryDirectory() as folder:
        started = time.monotonic()
        shop = Shop(Path(folder))
        shop.play_story()
        print(f"two weeks in {time.monotonic() - started:.0f} s", file=sys.stderr)
        shop.run_in_background()
        with shop.serve_agent("berlin", "127.0.0.1:8790") as server:
            print(server.url, flush=True)
            try:
                threading.Event().wait()
            except KeyboardInterrupt:
                shop.close()


if __name__ == "__main__":
    main()
