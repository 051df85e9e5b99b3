"""Real agent processes under faults: short in `make test-all`, long in `make soak`."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from posse import networks
from posse.live.demo import (
    Swarm,
    agent_settings,
    create_process_sites,
    group_by_experiment,
    largest_gap,
)
from posse.live.ledger.sums import map_values, total

SHORT, LONG = 6.0, 30.0  # seconds: what is run unless asked, and from when on it is the long form
PATIENCE = 180.0  # for what must come in the end, on a machine that does much else
EXPERIMENTS = ("checkout", "banner", "prices")
MEANS = {"red": 0.7, "green": 0.5, "blue": 0.3}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--soak-seconds", type=float, default=SHORT, help="how long agents suffer")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    reports = [r for kind in ("passed", "failed") for r in terminalreporter.getreports(kind)]
    lines = [text for r in reports for key, text in r.user_properties if key == "soak"]
    if lines:
        terminalreporter.section("soak")
        for line in lines:
            terminalreporter.write_line(line)


@dataclass(frozen=True)
class Scale:
    """How much and how long, by the seconds that were asked for."""

    seconds: float

    @property
    def agents(self) -> int:
        return 8 if self.seconds >= LONG else 3

    @property
    def between_kills(self) -> float:
        return 1.0 if self.seconds >= LONG else 1.5

    @property
    def stopped(self) -> float:
        return self._part(15 / 60)

    @property
    def cut_off(self) -> float:
        return self._part(10 / 60)

    @property
    def flood(self) -> float:
        return self._part(10 / 60)

    @property
    def full(self) -> float:
        return self._part(5 / 60)

    def _part(self, share: float) -> float:
        """That share of the time, two seconds at least."""
        return max(2.0, share * self.seconds)


@pytest.fixture
def scale(request: pytest.FixtureRequest) -> Scale:
    return Scale(request.config.getoption("--soak-seconds", SHORT))


@pytest.fixture
def tell(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Say something in the summary at the end."""
    return lambda line: record_property("soak", line)


@pytest.fixture
def until() -> Callable[..., float]:
    """Wait for a condition; how long it took."""

    def wait(condition: Callable[[], Any], what: str) -> float:
        start = time.monotonic()
        while not condition():
            assert time.monotonic() < start + PATIENCE, f"in vain: {what}"
            time.sleep(0.05)
        return time.monotonic() - start

    return wait


@pytest.fixture
def swarm_of(tmp_path: Path) -> Iterator[Callable[..., Swarm]]:
    """Make swarms on cycles, started; they end with the test."""
    made: list[Swarm] = []

    def start(n_agents: int, exchange: str, folder: Path = tmp_path, **options: Any) -> Swarm:
        links = list(networks.cycle(n_agents).edges) if n_agents > 2 else [(0, 1)]
        settings = agent_settings(n_agents, list(MEANS), exchange, experiments=EXPERIMENTS)
        made.append(
            Swarm(create_process_sites(folder, links, settings, **options), MEANS, visitors=4)
        )
        made[-1].start()
        return made[-1]

    yield start
    for swarm in made:
        swarm.stop()


@pytest.fixture
def check(until: Callable[..., float]) -> Callable[[Swarm, str], str]:
    """Every acknowledged reward is counted once, by every agent and on every disk: say so."""

    def agree(swarm: Swarm, exchange: str) -> str:
        start = time.monotonic()
        swarm.end_visits()
        assert not swarm.failures
        near = _rounding(len(swarm.sites)) if exchange == "flows" else 0
        counts = swarm.wait_for_agreement(near, PATIENCE)
        took = time.monotonic() - start
        assert [c.name for c in counts if not c.is_exact] == [], [(c.name, c.lost) for c in counts]
        assert largest_gap(counts) <= near
        if exchange == "flows":
            until(lambda: _conserved(swarm), "the levels of all add up to the evidence of all")
        for site in swarm.sites:
            site.wait_until_ready()
        assert [site.name for site in swarm.sites if site.sample.refused] == []
        swarm.stop()
        for site in swarm.sites:
            assert _rewards_on_disk(site.file.with_suffix(".db")) == site.acknowledged, site.name
        return (
            f"{swarm.acknowledged:,} acknowledged = {swarm.acknowledged:,} counted by each of "
            f"{len(swarm.sites)} agents with {len(EXPERIMENTS)} experiments; settled in "
            f"{took:.1f} s, {largest_gap(counts)} quanta apart"
        )

    return agree


def _conserved(swarm: Swarm) -> bool:
    """N levels, each N times, are N times the evidence of all: exactly, once nothing moves."""
    n = len(swarm.sites)
    return all(
        total(c.network for c in counts)
        == map_values(total(c.own for c in counts), lambda value: n * value)
        for counts in group_by_experiment(swarm.collect_counts()).values()
    )


def _rewards_on_disk(file: Path) -> int:
    with closing(sqlite3.connect(file)) as store:
        (count,) = store.execute(
            "SELECT count(*) FROM decision WHERE settled IS NOT NULL"
        ).fetchone()
        return int(count)


def _rounding(n_agents: int) -> int:
    """How far apart flows may come to rest, in quanta.

    An edge rests when the gap of its levels is below 1 + the larger degree <= n; over a path of at
    most n edges, and N times, as evidence is N times the level.
    """
    return n_agents**3
