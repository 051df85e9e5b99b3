"""A swarm: visitors at many agents, random kills, and an audit of exactly-once counting."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, TypeVar

from posse.live.demo.site import AgentSite, Count
from posse.live.demo.visitors import Audience, UniformAudience
from posse.live.ledger import PER_UNIT, minus, total

ANSWER_SECONDS = 120.0  # visitors give up after this time
AGREEMENT_SECONDS = 120.0
SAMPLE_SECONDS = 1.0
HALF_A_PULL = PER_UNIT // 2  # in quanta

T = TypeVar("T")


def agent_settings(
    n_agents: int,
    arms: Sequence[str],
    exchange: str,
    tick_seconds: float = 0.1,
    experiments: Sequence[str] = (),
) -> list[dict[str, Any]]:
    """Return the data of agents that differ only in their names, with one experiment or several."""
    common: dict[str, Any] = {
        "arms": list(arms),
        "family": "bernoulli",
        "exchange": exchange,
        "tick_seconds": tick_seconds,
    }
    if exchange == "flows":
        common["network_size"] = n_agents
    if experiments:
        common["experiments"] = {name: {} for name in experiments}
    return [{"name": f"agent-{i}", **common} for i in range(n_agents)]


class Swarm:
    """Agents with visitors in threads; agents can be killed, and counted at the end."""

    def __init__(
        self,
        sites: Sequence[AgentSite],
        means: Mapping[str, float],
        *,
        visitors: int = 1,  # at the same time, at each site
        visits_per_second: float = 20.0,  # of each visitor
        seed: int = 0,
        audience: Audience | None = None,  # None: the same means at every site
        patience: float = ANSWER_SECONDS,
    ) -> None:
        self.sites = list(sites)
        self.means = dict(means)
        self._audience = audience or UniformAudience(self.means)
        self._patience = patience
        self._at_once = visitors
        self._pause = 1.0 / visits_per_second
        self._random = random.Random(seed)
        self._no_more = threading.Event()  # no further visits
        self._over = threading.Event()
        self.threads: list[threading.Thread] = []
        self.failures: list[str] = []  # of visitors, which should never happen

    def start(self) -> None:
        """Start all agents and wait until all answer."""
        # All start before the first one is awaited: start-ups take seconds, and they overlap.
        for site in self.sites:
            site.start()
        for site in self.sites:
            site.wait_until_ready()
        threading.Thread(target=self._sample_sites, daemon=True).start()

    def send_visitors(self) -> None:
        """Send visitors to all sites until `end_visits`."""
        for site in self.sites * self._at_once:
            self.send_visitors_to(site)

    def send_visitors_to(self, site: AgentSite) -> None:
        """Send one visitor after the other to a site."""
        # One for each thread: a shared generator would be used in an order that differs between
        # runs.
        generator = random.Random(self._random.random())
        thread = threading.Thread(target=self._visit_site, args=(site, generator), daemon=True)
        thread.start()
        self.threads.append(thread)

    def end_visits(self) -> None:
        """Send no more visitors, and wait for those under way."""
        self._no_more.set()
        for thread in self.threads:
            thread.join()

    def kill_random_agent(self, spared: Sequence[AgentSite] = ()) -> AgentSite | None:
        """Kill and restart a random agent of those that answer; None if there is none."""
        # An agent that does not answer is starting after an earlier kill: it is not killed again
        # before it serves.
        for site in self._random.sample(self.sites, len(self.sites)):
            if site not in spared and site.take_sample():
                site.kill()
                site.restarts += 1
                site.start()
                return site
        return None

    def stop(self) -> None:
        """Stop everything."""
        self._no_more.set()
        self._over.set()
        # All are asked before the first one is awaited, so that they stop at the same time.
        for site in self.sites:
            site.request_stop()
        for site in self.sites:
            site.stop()

    def collect_counts(self) -> list[Count]:
        """Return acknowledged rewards and evidence of every agent; all must answer."""
        for site in self.sites:
            site.wait_until_ready()
        return [count for site in self.sites for count in site.collect_counts()]

    def wait_for_agreement(
        self, tolerance: int = 0, seconds: float = AGREEMENT_SECONDS
    ) -> list[Count]:
        """Return the counts once all agents agree within a tolerance in quanta, or time is up."""
        deadline = time.monotonic() + seconds
        while True:
            counts = self.collect_counts()
            if largest_gap(counts) <= tolerance or time.monotonic() > deadline:
                return counts
            time.sleep(0.2)

    @property
    def acknowledged(self) -> int:
        """Number of rewards that were acknowledged to visitors."""
        return sum(site.acknowledged for site in self.sites)

    def _sample_sites(self) -> None:
        while not self._over.wait(SAMPLE_SECONDS):
            for site in self.sites:
                site.take_sample()

    def _visit_site(self, site: AgentSite, generator: random.Random) -> None:
        try:
            with ExitStack() as stack:
                visitors = {e: stack.enter_context(site.open_visitor(e)) for e in site.experiments}
                while not self._no_more.wait(self._pause):
                    experiment = generator.choice(site.experiments)
                    self._audience.visit(
                        site,
                        experiment,
                        visitors[experiment],
                        generator,
                        self._retry_until_answered,
                    )
        except Exception as error:
            # At the end agents are stopped under their visitors, and errors are expected.
            if not self._over.is_set():
                self.failures.append(f"a visitor of {site.name} failed: {error!r}")

    def _retry_until_answered(self, ask: Callable[[], T]) -> T:
        """Retry while the agent is down: requests are idempotent."""
        deadline = time.monotonic() + self._patience
        while True:
            try:
                return ask()
            except ValueError:  # the agent answered with a refusal
                raise
            except Exception:
                if self._over.is_set() or time.monotonic() > deadline:
                    raise
                time.sleep(0.05)


def largest_gap(counts: Sequence[Count]) -> int:
    """Return the largest difference in quanta between one agent's view and the sum of all."""
    return max(
        (_largest_gap_of_one(group) for group in group_by_experiment(counts).values()), default=0
    )


def group_by_experiment(counts: Sequence[Count]) -> dict[str, list[Count]]:
    """Group counts by experiment."""
    groups: dict[str, list[Count]] = {}
    for count in counts:
        groups.setdefault(count.experiment, []).append(count)
    return groups


def _largest_gap_of_one(counts: Sequence[Count]) -> int:
    # The truth is what each agent counted itself: every view of the network must equal the sum.
    everything = total(count.own for count in counts)
    gaps = [minus(count.network, everything) for count in counts]
    return max((abs(q) for gap in gaps for values in gap.values() for q in values), default=0)
