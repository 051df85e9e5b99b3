"""Simulations as bytes for other processes, with the source of modules that only we have.

A stranger's algorithm lies in a file beside the user's, which no other machine has: its module is
sent by value (cloudpickle, which comes with Dask). Without cloudpickle it is sent by name, which
does for processes on this machine, as they look for modules where we do.
"""

from __future__ import annotations

import pickle
import site
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from posse.lab.blocks import Simulation


def pack(simulation: Simulation) -> bytes:
    """A simulation as bytes; refused in a sentence if one of its parts cannot be sent."""
    try:
        import cloudpickle
    except ModuleNotFoundError:
        dumps = pickle.dumps
    else:
        dumps = cloudpickle.dumps
        try:
            with _by_value(cloudpickle):
                return bytes(dumps(simulation))
        except Exception:  # such as a module that holds a lock: perhaps the worker has the module
            pass
    try:
        return dumps(simulation)
    except Exception as error:  # whatever a user's part may raise
        raise ValueError(
            f"{simulation.algorithm!r} on {simulation.network!r} cannot be sent to another "
            f"process ({type(error).__name__}: {error}): define its parts in a module"
        ) from error


@contextmanager
def _by_value(cloudpickle: Any) -> Iterator[None]:
    """While modules of the user's own are pickled with all that they define."""
    listed = cloudpickle.list_registry_pickle_by_value()
    ours = [module for module in own_modules() if module.__name__ not in listed]
    for module in ours:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in ours:
            cloudpickle.unregister_pickle_by_value(module)


def own_modules() -> list[ModuleType]:
    """The modules that are nobody's package: neither installed nor of Python itself nor ours."""
    installed = _installed()
    found = []
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if not isinstance(file, str) or name in ("__main__", "__mp_main__"):
            continue
        if name.partition(".")[0] == "posse" or getattr(module, "__name__", "") != name:
            continue
        parents = Path(file).resolve().parents
        if not any(folder in parents for folder in installed):
            found.append(module)
    return found


def _installed() -> set[Path]:
    """The folders of Python and of what is installed beside it."""
    folders = {*sysconfig.get_paths().values(), *site.getsitepackages(), site.getusersitepackages()}
    # the standard library of a virtual environment lies elsewhere; a whole prefix such as /usr
    # would be too much, as it may hold people's files
    return {
        Path(folder).resolve()
        for folder in folders
        if "python" in Path(folder).name.lower()
        or Path(folder).name in ("site-packages", "dist-packages", "Lib")
    }
