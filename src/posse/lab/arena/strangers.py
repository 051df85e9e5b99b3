"""Algorithms of one's own for the arena: `mine.py:MyAlgorithm`, a class or an instance."""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from posse import checks
from posse.lab import described
from posse.lab.arena import data
from posse.lab.arena.data import Entrant
from posse.lab.arena.line_up import Player
from posse.lab.settings import not_rerunnable

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
        checks.capable(text, algorithm, ["init", "choose", "learn"], "a class with these")
        if not_rerunnable(described.algorithm(algorithm)):
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
        folder, module = str(file.resolve().parent), file.stem
    else:
        folder, module = str(Path.cwd()), place
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
