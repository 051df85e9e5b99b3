"""The line-up: who plays in the arena, under which name, from which source, and who cannot."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from posse import algorithms, checks, policies
from posse.bandits import ContextualBandit
from posse.lab.arena import data
from posse.lab.arena.data import Entrant
from posse.lab.arena.suite import CONTEXTS, PLAIN, Instance
from posse.lab.rehearsal import rehearse
from posse.lab.simulation import jobs_of
from posse.lab.work.jobs import Job

REFERENCE = "dec-TS"
RECORDED = 24  # rounds of a curve
KEEP = ("means", "messages")
KEEP_WITH_CONTEXTS = ("agents", "messages")  # means would be those of every visit


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


def line_up(kind: str = PLAIN) -> dict[str, Player]:
    """All algorithms of a class of the arena by name, in the order of the legend."""
    ts, bayes_ucb, rand_ucb = policies.ThompsonSampling(), policies.BayesUCB(), policies.RandUCB()
    if kind == CONTEXTS:
        some = [
            _player(REFERENCE, algorithms.Decentralized(ts), data.PAPER),
            _player("dec-Bayes-UCB", algorithms.Decentralized(bayes_ucb), data.PAPER),
            _player("flooding TS", algorithms.Flooding(ts), data.BASELINE),
            _player("isolated TS", algorithms.Isolated(ts), data.BASELINE),
            _player("isolated LinUCB", algorithms.LinUCB(), data.MEMORY),
            _player("federated LinUCB", algorithms.FedLinUCB(), data.MEMORY),
            _player("dec-RandUCB", algorithms.Decentralized(rand_ucb), data.OURS),
            _player("Tree TS", algorithms.Tree(ts), data.OURS),
            _player("centralized TS", algorithms.Centralized(ts), data.BOUND),
            _player("centralized LinUCB", algorithms.LinUCB(data="all"), data.BOUND),
        ]
        return {player.name: player for player in some}
    some = [
        _player(REFERENCE, algorithms.Decentralized(ts), data.PAPER),
        _player("dec-Bayes-UCB", algorithms.Decentralized(bayes_ucb), data.PAPER),
        _player("flooding TS", algorithms.Flooding(ts), data.BASELINE),
        _player("isolated TS", algorithms.Isolated(ts), data.BASELINE),
        _player("coop-UCB", algorithms.CoopUCB(), data.CODE),
        _player("coop-UCB2", algorithms.CoopUCB2(), data.CODE),
        _player("coop-UCL", algorithms.CoopUCL(), data.MEMORY),
        _player("DDUCB", algorithms.DDUCB(), data.CODE),
        *_both("UCB-Network", algorithms.UCBNetwork),
        *_both("CO-UCB", algorithms.UCBNetwork, hops="diameter"),
        *_both("Follow Your Leader", algorithms.FollowYourLeader),
        *_both("ComEx", algorithms.ComEx),
        *_both("Coop-SE", algorithms.CoopSE, other="gaussian"),
        *_both("Dist-UCB", algorithms.DistUCB),
        *_both("GosInE", algorithms.GosInE),
        _player("DPE2", algorithms.DPE2()),
        _player("dec-RandUCB", algorithms.Decentralized(rand_ucb), data.OURS),
        _player("Tree TS", algorithms.Tree(ts), data.OURS),
        _player("Tree RandUCB", algorithms.Tree(rand_ucb), data.OURS),
        _player("centralized TS", algorithms.Centralized(ts), data.BOUND),
    ]
    return {player.name: player for player in some}


def _player(name: str, algorithm: Any, source: str | None = None, rival: str = "") -> Player:
    """Rivals carry their source themselves."""
    source = source or algorithm.source
    return Player(Entrant(name, source, rival or name, ranked=source != data.BOUND), algorithm)


def _both(name: str, kind: Any, other: str = "kl", **settings: Any) -> list[Player]:
    """A rival with its published index and with the other one."""
    shown = {"kl": "KL", "gaussian": "c = .5"}[other]
    return [
        _player(name, kind(index="published", **settings), rival=name),
        _player(f"{name} ({shown})", kind(index=other, **settings), rival=name),
    ]


def chosen(names: Iterable[str] | None, kind: str = PLAIN) -> dict[str, Player]:
    """Some of the line-up by name, in its order; the reference is always among them."""
    every = line_up(kind)
    if names is None:
        return every
    wanted = {REFERENCE} | {checks.choice("algorithm", name.strip(), every) for name in names}
    return {name: player for name, player in every.items() if name in wanted}


def job_of(player: Player, instance: Instance, horizon: int, runs: int, seed: int) -> Job:
    """What a player has to do on an instance; a ValueError says why it cannot."""
    algorithm = player.algorithm
    says = callable(getattr(algorithm, "numbers_sent", None))
    kept = KEEP_WITH_CONTEXTS if isinstance(instance.bandit, ContextualBandit) else KEEP
    job = jobs_of(
        instance.bandit,
        instance.network,
        {player.name: algorithm},
        horizon=horizon,
        runs=runs,
        seed=seed,
        record=RECORDED,
        keep=kept if says else tuple(name for name in kept if name != "messages"),
    )[player.name]
    if player.is_yours:  # in its first rounds too
        rehearse(player.name, job.simulation, job.runs[:2])
    else:
        algorithm.init(job.simulation.problem(1))
    return job
