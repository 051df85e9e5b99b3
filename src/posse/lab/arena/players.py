"""Players of the arena: the line-up of built-in algorithms, and user-defined ones by import.

A user-defined algorithm is a plugin: `mine.py:MyAlgorithm`, a class or an instance.
"""

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
EVEN_SPLIT = "uniform"  # learns nothing; no algorithm should be worse
RECORDED_ROUNDS = 24  # of a curve
KEEP = ("means", "messages")
KEEP_WITH_CONTEXTS = (
    "agents",
    "messages",
)  # means would be those of every visit, too many to store


# Rivals with tuned constants: the best of the grids of `studies/lab_tuned_rivals.py` on instances
# that the arena does not rank.
TUNED_RIVALS: dict[str, Any] = {
    "coop-UCB": algorithms.CoopUCB(exploration=0.003),
    "coop-UCB2": algorithms.CoopUCB2(exploration=0.1),
    "coop-UCL": algorithms.CoopUCL(level=0.3),
    "DDUCB": algorithms.DDUCB(exploration=0.05, variant="practical"),
    "UCB-Network": algorithms.UCBNetwork(index="kl", level=0.003),
    "CO-UCB": algorithms.UCBNetwork("diameter", index="kl", level=0.3),
    "Follow Your Leader": algorithms.FollowYourLeader(level=0.02),
    "ComEx": algorithms.ComEx(level=0.1),
    "Coop-SE": algorithms.CoopSE(index="gaussian", exploration=0.2),
    "Dist-UCB": algorithms.DistUCB(index="kl", level=0.01),
    "GosInE": algorithms.GosInE(level=0.05),
    "DPE2": algorithms.DPE2(level=0.1),
}


@dataclass(frozen=True)
class Player:
    """An algorithm and its entry in the report."""

    entrant: Entrant
    algorithm: Any

    @property
    def name(self) -> str:
        """The name in tables."""
        return self.entrant.name

    @property
    def is_yours(self) -> bool:
        """Whether it is user-defined."""
        return self.entrant.source == data.YOURS


def list_players(kind: str = PLAIN) -> dict[str, Player]:
    """List all algorithms of a suite by name, in the order of the legend."""
    # The order is that of legends and tables: the paper's, baselines, rivals, tuned ones, ours,
    # bounds.
    ts = policies.ThompsonSampling()
    bayes_ucb = policies.BayesUCB()
    rand_ucb = policies.RandUCB()
    even_split = _make_player(EVEN_SPLIT, algorithms.Isolated(policies.Uniform()), data.BOUND)
    if kind == CONTEXTS:
        players = [
            _make_player(REFERENCE, algorithms.Decentralized(ts), data.PAPER),
            _make_player("dec-Bayes-UCB", algorithms.Decentralized(bayes_ucb), data.PAPER),
            _make_player("flooding TS", algorithms.Flooding(ts), data.BASELINE),
            _make_player("isolated TS", algorithms.Isolated(ts), data.BASELINE),
            _make_player("isolated LinUCB", algorithms.LinUCB(), data.MEMORY),
            _make_player("federated LinUCB", algorithms.FedLinUCB(), data.MEMORY),
            _make_player("dec-RandUCB", algorithms.Decentralized(rand_ucb), data.OURS),
            _make_player("Tree TS", algorithms.Tree(ts), data.OURS),
            _make_player("PushSum TS", algorithms.PushSum(ts), data.OURS),
            _make_player("event-triggered TS", algorithms.EventTriggered(ts), data.OURS),
            _make_player("centralized TS", algorithms.Centralized(ts), data.BOUND),
            _make_player("centralized LinUCB", algorithms.LinUCB(data="all"), data.BOUND),
            even_split,
        ]
        return {player.name: player for player in players}
    players = [
        _make_player(REFERENCE, algorithms.Decentralized(ts), data.PAPER),
        _make_player("dec-Bayes-UCB", algorithms.Decentralized(bayes_ucb), data.PAPER),
        _make_player("flooding TS", algorithms.Flooding(ts), data.BASELINE),
        _make_player("isolated TS", algorithms.Isolated(ts), data.BASELINE),
        _make_player("coop-UCB", algorithms.CoopUCB(), data.CODE),
        _make_player("coop-UCB2", algorithms.CoopUCB2(), data.CODE),
        _make_player("coop-UCL", algorithms.CoopUCL(), data.MEMORY),
        _make_player("DDUCB", algorithms.DDUCB(), data.CODE),
        *_make_versions("UCB-Network", algorithms.UCBNetwork),
        *_make_versions("CO-UCB", algorithms.UCBNetwork, hops="diameter"),
        *_make_versions("Follow Your Leader", algorithms.FollowYourLeader),
        *_make_versions("ComEx", algorithms.ComEx),
        *_make_versions("Coop-SE", algorithms.CoopSE, second_index="gaussian"),
        *_make_versions("Dist-UCB", algorithms.DistUCB),
        *_make_versions("GosInE", algorithms.GosInE),
        _make_player("DPE2", algorithms.DPE2()),
        *(
            _make_player(f"{name} (tuned)", rival, data.TUNED)
            for name, rival in TUNED_RIVALS.items()
        ),
        _make_player("dec-RandUCB", algorithms.Decentralized(rand_ucb), data.OURS),
        _make_player("Tree TS", algorithms.Tree(ts), data.OURS),
        _make_player("Tree RandUCB", algorithms.Tree(rand_ucb), data.OURS),
        _make_player("PushSum TS", algorithms.PushSum(ts), data.OURS),
        _make_player("event-triggered TS", algorithms.EventTriggered(ts), data.OURS),
        _make_player("centralized TS", algorithms.Centralized(ts), data.BOUND),
        even_split,
    ]
    return {player.name: player for player in players}


def _make_player(name: str, algorithm: Any, source: str | None = None, rival: str = "") -> Player:
    """Make a player; rivals carry their source themselves."""
    source = source or algorithm.source
    return Player(Entrant(name, source, rival or name, ranked=source != data.BOUND), algorithm)


def _make_versions(name: str, kind: Any, second_index: str = "kl", **settings: Any) -> list[Player]:
    """Make two versions of a rival: with its published index, and with a sharper one."""
    index_name = {"kl": "KL", "gaussian": "c = .5"}[second_index]
    return [
        _make_player(name, kind(index="published", **settings), rival=name),
        _make_player(f"{name} ({index_name})", kind(index=second_index, **settings), rival=name),
    ]


def choose_players(names: Iterable[str] | None, kind: str = PLAIN) -> dict[str, Player]:
    """Choose players by name, in the order of the line-up; the reference is always among them."""
    players = list_players(kind)
    if names is None:
        return players
    chosen_names = {REFERENCE} | {
        validation.validate_choice("algorithm", name.strip(), players) for name in names
    }
    return {name: player for name, player in players.items() if name in chosen_names}


def build_job(
    player: Player,
    instance: Instance,
    horizon: int,
    runs: int,
    seed: int,
    keep_agents: bool = False,
) -> Job:
    """Build the job of a player on an instance; a ValueError gives the reason if it cannot play.

    keep_agents: whether to record the regret of each agent
    """
    algorithm = player.algorithm
    counts_messages = callable(getattr(algorithm, "numbers_sent", None))
    contextual = isinstance(instance.bandit, ContextualBandit)
    keep: tuple[str, ...] = KEEP_WITH_CONTEXTS if contextual else KEEP
    keep = keep if not keep_agents or "agents" in keep else (*keep, "agents")
    job = plan_jobs(
        instance.bandit,
        instance.network,
        {player.name: algorithm},
        horizon=horizon,
        runs=runs,
        seed=seed,
        record=RECORDED_ROUNDS,
        keep=keep if counts_messages else tuple(name for name in keep if name != "messages"),
    )[player.name]
    # A user-defined algorithm is tried for a few rounds, so that mistakes show before the arena.
    if player.is_yours:
        dry_run(player.name, job)
    else:
        algorithm.init(job.simulation.build_problem(1))
    return job


# User-defined algorithms: `mine.py:MyAlgorithm`, a class or an instance.

_EXAMPLE = "an own algorithm is named as in mine.py:MyAlgorithm, or module:MyAlgorithm"


@dataclass(frozen=True)
class ImportedAlgorithm:
    """A user-defined algorithm that is no frozen dataclass, by its import string.

    Results are stored by what made them, so it needs a name that tells it from others; with the
    source of its module this one does.
    """

    where: str  # 'module:name'

    def __post_init__(self) -> None:
        module, _, path = self.where.partition(":")
        algorithm = _load_algorithm(self.where, importlib.import_module(module), path)
        object.__setattr__(self, "_algorithm", algorithm)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # copy and pickle ask for these before __post_init__ has run
            raise AttributeError(name)
        return getattr(self._algorithm, name)


def load_players(names: Iterable[str], used_names: Iterable[str]) -> dict[str, Player]:
    """Load user-defined players by import strings such as 'mine.py:MyAlgorithm'."""
    players: dict[str, Player] = {}
    for text in names:
        place, _, path = text.rpartition(":")
        if not place or not path:
            raise ValueError(f"{_EXAMPLE}, got {text!r}")
        module = _import_module(text, place)
        algorithm = _load_algorithm(text, module, path)
        validation.validate_methods(
            text, algorithm, ["init", "choose", "learn"], "a class with these"
        )
        # Stored results are found by the settings of an algorithm. An object without settings is
        # found by its import string and the source of its module instead.
        if find_repr_only(encode.encode_algorithm(algorithm)):
            algorithm = ImportedAlgorithm(f"{module.__name__}:{path}")
        # No two players share a name: tables and stored results go by it.
        name = path
        while name in {*used_names, *players}:
            name += " (yours)"
        players[name] = Player(Entrant(name, data.YOURS, name), algorithm)
    return players


def _import_module(text: str, place: str) -> Any:
    """Import a module by file or dotted name; it stays importable for worker processes."""
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
    # The file may have been written a moment ago, after Python last looked at the folder.
    importlib.invalidate_caches()
    try:
        imported = importlib.import_module(module)
    except (Exception, SystemExit) as error:  # a module may raise anything
        raise ValueError(f"{text} cannot be imported: {_describe_error(error)}") from error
    if file.suffix == ".py" and Path(imported.__file__ or "").resolve() != file.resolve():
        raise ValueError(f"{text}: another module is called {module!r} already, rename {file.name}")
    return imported


def _load_algorithm(text: str, module: Any, path: str) -> Any:
    try:
        value = functools.reduce(getattr, path.split("."), module)
    except AttributeError:
        raise ValueError(f"{text}: module {module.__name__!r} has no {path!r}") from None
    if not isinstance(value, type):
        return value
    try:
        return value()
    except (Exception, SystemExit) as error:  # a constructor may raise anything
        raise ValueError(
            f"{text} cannot be created without arguments: {_describe_error(error)}; "
            "name an instance instead"
        ) from error


def _describe_error(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
