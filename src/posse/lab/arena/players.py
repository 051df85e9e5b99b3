"""The line-up: who plays in the arena, under which name, from which source, and who cannot."""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from posse import algorithms, policies, validation
from posse.bandits import ContextualBandit
from posse.lab.arena import report_data as data
from posse.lab.arena.report_data import Entrant
from posse.lab.arena.suite import CONTEXTS, PLAIN, Instance
from posse.lab.simulation import Job
from posse.lab.simulator import plan_jobs
from posse.lab.validation import dry_run
from posse.serialization import encode
from posse.serialization.encode import find_repr_only

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
    ts = policies.ThompsonSampling()
    bayes_ucb = policies.BayesUCB()
    rand_ucb = policies.RandUCB()
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
    wanted = {REFERENCE} | {
        validation.validate_choice("algorithm", name.strip(), every) for name in names
    }
    return {name: player for name, player in every.items() if name in wanted}


def job_of(player: Player, instance: Instance, horizon: int, runs: int, seed: int) -> Job:
    """What a player has to do on an instance; a ValueError says why it cannot."""
    algorithm = player.algorithm
    says = callable(getattr(algorithm, "numbers_sent", None))
    kept = KEEP_WITH_CONTEXTS if isinstance(instance.bandit, ContextualBandit) else KEEP
    job = plan_jobs(
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
        dry_run(player.name, job)
    else:
        algorithm.init(job.simulation.build_problem(1))
    return job


# Algorithms of one's own for the arena: `mine.py:MyAlgorithm`, a class or an instance.

_EXAMPLE = "an own algorithm is named as in mine.py:MyAlgorithm, or module:MyAlgorithm"


@dataclass(frozen=True)
class Own:
    """An algorithm that is no frozen dataclass, by the name of its class or instance.

    Results are stored by what made them, so it needs a name that tells it from others; with the
    source of its module this one does.
    """

    where: str  # 'module:name'

    def __post_init__(self) -> None:
        module, _, path = self.where.partition(":")
        found = _algorithm(self.where, importlib.import_module(module), path)
        object.__setattr__(self, "_algorithm", found)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # copies ask for these before there is anything to ask
            raise AttributeError(name)
        return getattr(self._algorithm, name)


def own(names: Iterable[str], taken: Iterable[str]) -> dict[str, Player]:
    """The players that 'mine.py:MyAlgorithm' and the like name; no two share a name."""
    players: dict[str, Player] = {}
    for text in names:
        place, _, path = text.rpartition(":")
        if not place or not path:
            raise ValueError(f"{_EXAMPLE}, got {text!r}")
        module = _imported(text, place)
        algorithm = _algorithm(text, module, path)
        validation.validate_methods(
            text, algorithm, ["init", "choose", "learn"], "a class with these"
        )
        if find_repr_only(encode.encode_algorithm(algorithm)):
            algorithm = Own(f"{module.__name__}:{path}")
        name = path
        while name in {*taken, *players}:
            name += " (yours)"
        players[name] = Player(Entrant(name, data.YOURS, name), algorithm)
    return players


def _imported(text: str, place: str) -> Any:
    """The module of a file or a dotted name; it stays importable, since workers need it too."""
    file = Path(place)
    if file.suffix == ".py":
        if not file.is_file():
            raise ValueError(f"{text}: there is no file {file}")
        if not file.stem.isidentifier():
            raise ValueError(f"{text}: {file.name} cannot be imported, rename it as in mine.py")
        folder = str(file.resolve().parent)
        module = file.stem
    else:
        folder = str(Path.cwd())
        module = place
    if folder not in sys.path:
        sys.path.append(folder)  # last, so that no file of it hides a library
    importlib.invalidate_caches()
    try:
        found = importlib.import_module(module)
    except (Exception, SystemExit) as error:  # whatever a module may raise
        raise ValueError(f"{text} cannot be imported: {_said(error)}") from error
    if file.suffix == ".py" and Path(found.__file__ or "").resolve() != file.resolve():
        raise ValueError(f"{text}: another module is called {module!r} already, rename {file.name}")
    return found


def _algorithm(text: str, module: Any, path: str) -> Any:
    try:
        found = functools.reduce(getattr, path.split("."), module)
    except AttributeError:
        raise ValueError(f"{text}: module {module.__name__!r} has no {path!r}") from None
    if not isinstance(found, type):
        return found
    try:
        return found()
    except (Exception, SystemExit) as error:  # whatever its constructor may raise
        raise ValueError(
            f"{text} cannot be made without arguments: {_said(error)}; name an instance instead"
        ) from error


def _said(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
