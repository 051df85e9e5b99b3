"""What three real agents show whose applications report successes only, and late.

Processes with TLS and HTTP on loopback, in real time (two minutes); an experiment is a replication.
"""

from __future__ import annotations

import heapq
import itertools
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from posse.live import Client
from posse.live.demo import agent_settings, create_process_sites
from posse.live.store import LateReward

RATES = {"a": 0.02, "b": 0.025, "c": 0.03, "d": 0.04}
# a success comes after up to LONGEST seconds
WINDOW = 20.0
LONGEST = 16.0
SECONDS = 90.0
VISITS = 10  # a second, at each agent, of each experiment
CLOSED = 100  # decisions from which on an arm's interval is looked at
MOST = 0.08  # of shown intervals may exclude the truth
LINKS = [(0, 1), (1, 2), (0, 2)]


class Shop:
    """The application beside one agent: visits of all experiments, and what it is shown."""

    def __init__(self, url, experiments, seed):
        self.clients = {name: Client(url, experiment=name) for name in experiments}
        self.due = {name: [] for name in experiments}  # (when, decision) of successes
        self.random = np.random.default_rng(seed)
        self.visits = self.late = 0
        self.seen = {name: [] for name in experiments}  # (excluded, looked at) of each moment

    def run(self, start, end):
        """A turn of all experiments every second."""
        for second in itertools.count():
            now = start + second
            if now >= end:
                return
            time.sleep(max(0.0, now - time.monotonic()))
            for name, client in self.clients.items():
                self.turn(name, client)
                self.look(name, client)

    def turn(self, name, client):
        """Report the successes that are due, and let new visitors in."""
        due = self.due[name]
        now = time.monotonic()
        rewards = []
        while due and due[0][0] <= now:
            rewards.append((heapq.heappop(due)[1], 1.0))
        made, told = client.step_all(rewards, VISITS)
        self.visits += VISITS
        self.late += sum(isinstance(each, LateReward) or "by default" in str(each) for each in told)
        for each in made:
            if self.random.random() < RATES[each.arm]:
                heapq.heappush(due, (now + self.random.uniform(0, LONGEST), each.id))

    def look(self, name, client):
        """Whether the truth is in what is shown."""
        shown = [
            (not arm["low"] <= RATES[key] <= arm["high"])
            for key, arm in client.arms().items()
            if arm["pulls_in_network"] >= CLOSED
        ]
        if shown:
            self.seen[name].append((sum(shown), len(shown)))


def measure(exchange, experiments, folder):
    """By experiment the share of shown intervals that excluded the truth; visits and late ones."""
    names = [f"e{k}" for k in range(experiments)]
    settings = agent_settings(3, list(RATES), exchange, 1.0, names)
    for each in settings:
        each |= {"reward_window": WINDOW, "default_reward": 0}
    sites = create_process_sites(Path(folder), LINKS, settings)
    try:
        for site in sites:
            site.start()
        for site in sites:
            site.wait_until_ready()
        shops = [Shop(site.url, names, seed) for seed, site in enumerate(sites)]
        start = time.monotonic() + 0.1
        threads = [
            threading.Thread(target=shop.run, args=(start + k / 3, start + SECONDS))
            for k, shop in enumerate(shops)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        for site in sites:
            site.stop()
    seen = [np.sum([each for shop in shops for each in shop.seen[name]], axis=0) for name in names]
    shares = np.array([excluded / looked for excluded, looked in seen])
    visits, late = (sum(getattr(shop, what) for shop in shops) for what in ("visits", "late"))
    return shares, visits, late


def study(runs=24):
    """The table of docs/calibration.md, and the rows that exclude the truth too often."""
    lines = [
        "| exchange | experiments | visits | shown intervals without the truth | late rewards |",
        "|---|---|---|---|---|",
    ]
    wrong = []
    for exchange in ("origins", "flows"):
        with tempfile.TemporaryDirectory() as folder:
            shares, visits, late = measure(exchange, runs, folder)
        mean = shares.mean()
        error = shares.std(ddof=1) / len(shares) ** 0.5
        cells = f"{len(shares)} | {visits:,} | {mean:.1%} ± {error:.1%} | {late}"
        lines.append(f"| {exchange} | {cells} |")
        if mean > MOST:
            wrong.append(f"{lines[-1]}: more than {MOST:.0%}")
    return "\n".join(lines), wrong
