"""The line-up: who plays in the arena, under which name, from which source, and who cannot."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from posse import algorithms, checks, policies
from posse.lab.arena import data
from posse.lab.arena.data import Entrant
from posse.lab.arena.suite import Instance
from posse.lab.jobs import Job
from posse.lab.rehearsal import rehearse
from posse.lab.simulation import jobs_of

REFERENCE = "dec-TS"
RECORDED = 24  # rounds of a curve
KEEP = ("means", "messages")


@dataclass(frozen=True)
class Player:
    """An algorithm and how the report speaks of it."""

    entrant: Entrant
    algorithm: Any

    @property
    def name(self) -> str:
        """The name in tables."""
        return self.entrant.name

    @property
    def is_yours(self) -> bool:
        """Whether it is a stranger's."""
        return self.entrant.source == data.YOURS


def line_up() -> dict[str, Player]:
    """All algorithms of the arena by name, in the order of the legend."""
    ts, bayes_ucb = policies.ThompsonSampling(), policies.BayesUCB()
    some = [
        _player(REFERENCE, algorithms.Decentralized(ts), data.PAPER),
        _player("dec-Bayes-UCB", algorithms.Decentralized(bayes_ucb), data.PAPER),
        _player("flooding TS", algorithms.Flooding(ts), data.BASELINE),
        _player("isolated TS", algorithms.Isolated(ts), data.BASELINE),
        _player("coop-UCB", algorithms.CoopUCB(), data.CODE),
        _player("coop-UCB2", algorithms.CoopUCB2(), data.CODE),
        _player("coop-UCL", algorithms.CoopUCL(), data.MEMORY),
        _player("DDUCB", algorithms.DDUCB(), data.CODE),
        _player("centralized TS", algorithms.Centralized(ts), data.BOUND),
    ]
    return {player.name: player for player in some}


def _player(name: str, algorithm: Any, source: str | None = None, rival: str = "") -> Player:
    """Rivals carry their source themselves."""
    source = source or algorithm.source
    return Player(Entrant(name, source, rival or name, ranked=source != data.BOUND), algorithm)


def chosen(names: Iterable[str] | None) -> dict[str, Player]:
    """Some of the line-up by name, in its order; the reference is always among them."""
    every = line_up()
    if names is None:
        return every
    wanted = {REFERENCE} | {checks.choice("algorithms", name.strip(), every) for name in names}
    return {name: player for name, player in every.items() if name in wanted}


def job_of(player: Player, instance: Instance, horizon: int, runs: int, seed: int) -> Job:
    """What a player has to do on an instance; a ValueError says why it cannot."""
    algorithm = player.algorithm
    says = callable(getattr(algorithm, "numbers_sent", None))
    job = jobs_of(
        instance.bandit,
        instance.network,
        {player.name: algorithm},
        horizon=horizon,
        runs=runs,
        seed=seed,
        record=RECORDED,
        keep=KEEP if says else tuple(name for name in KEEP if name != "messages"),
    )[player.name]
    if player.is_yours:  # in its first rounds too
        rehearse(player.name, job.simulation, job.runs[:2])
    else:
        algorithm.init(job.simulation.problem(1))
    return job
