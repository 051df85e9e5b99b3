"""Workers: a thread, a process or another machine that plays the runs of a part.

A worker must have the same versions as the caller, since they change numbers.
"""

from __future__ import annotations

import functools
import os
import pickle
import platform
import site
import socket
import sys
import sysconfig
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

import posse
from posse.lab.jobs.results_cache import hash_source
from posse.lab.simulation import Block, Simulation
from posse.lab.simulator import play_runs

PROCESSOR = "processor (NUMBA_CPU_NAME=generic makes all alike)"
_stopped: set[str] = set()  # cancelled calls of `complete_jobs`, for workers in this process


class WorkersDiffer(ValueError):
    """A worker whose versions would give other numbers."""


class PartFailed(RuntimeError):
    """An error in another process, as text: the exception itself may not be picklable."""


@dataclass(frozen=True)
class Part:
    """Some runs to play, as they are sent to a worker."""

    simulation: Simulation | bytes  # bytes for other processes, see `pack_simulation`
    runs: range
    engine: str
    work: str = ""  # the call of `complete_jobs` that it belongs to
    threads: int = 1
    versions: Mapping[str, str] = field(default_factory=dict)  # that the worker must have


def play_part(part: Part) -> tuple[Block, float]:
    """Play the runs of a part; return their arrays and the seconds they took."""
    # Workers of Dask may join after the first check, so that every part checks its worker.
    own_versions = describe_worker(PROCESSOR in part.versions) if part.versions else {}
    if differing := describe_differences(part.versions, own_versions):
        worker = f"{socket.gethostname()}, process {os.getpid()}"
        raise WorkersDiffer(f"worker {worker} would give other numbers: {differing}")
    if not isinstance(part.simulation, bytes):
        return _play_unpacked(part, part.simulation)
    try:
        return _play_unpacked(part, _unpack_simulation(part.simulation))
    except ValueError as error:
        # A subclass of ValueError may be unknown to the caller's process.
        raise ValueError(str(error)) from error
    except Exception as error:  # user-defined code may raise anything
        raise PartFailed(f"{type(error).__name__}: {error}") from error


def _play_unpacked(part: Part, simulation: Simulation) -> tuple[Block, float]:
    def go_on(steps: int) -> None:
        # Futures that run cannot be cancelled: threads leave their part here.
        if part.work in _stopped:
            raise KeyboardInterrupt

    start = time.perf_counter()
    try:
        block = play_runs(simulation, part.runs, part.threads, go_on, part.engine)
    except SystemExit as error:  # of user-defined code: it would end this worker silently
        raise PartFailed(f"SystemExit: {error}") from error
    return block, time.perf_counter() - start


def stop_work(work: str) -> None:
    """Make the threads of this process leave the parts of a cancelled call."""
    _stopped.add(work)


@functools.lru_cache(maxsize=2)  # parts of one simulation come one after another
def _unpack_simulation(packed: bytes) -> Simulation:
    simulation: Simulation = pickle.loads(packed)
    return simulation


@functools.cache
def list_versions() -> dict[str, str]:
    """List the versions that numbers depend on, except the processor."""
    return {
        "posse": posse.__version__,
        "source of posse": hash_source()[:12],
        "python": ".".join(platform.python_version_tuple()[:2]),
        **{name: metadata.version(name) for name in ("numpy", "scipy", "numba")},
    }


def describe_worker(compiled: bool) -> dict[str, str]:
    """Describe this worker by its versions, and its processor where kernels are compiled."""
    if not compiled:
        return list_versions()
    from posse.lab.compiled import cache

    return list_versions() | {PROCESSOR: cache.processor_target()}


def describe_differences(required: Mapping[str, str], reported: Mapping[str, str]) -> str:
    """Describe the versions of a worker that differ; empty if none."""
    return ", ".join(
        f"{name} is {reported.get(name, 'unknown')}, not {version}"
        for name, version in required.items()
        if reported.get(name) != version
    )


# Simulations as bytes for other processes. A user-defined algorithm is in a file that no other
# machine has, so that its module is sent by value (cloudpickle, which comes with Dask). Without
# cloudpickle it is sent by name, which suffices for processes on this machine, since they import
# from the same folders.


def pack_simulation(simulation: Simulation) -> bytes:
    """Pickle a simulation; one with a part that cannot be pickled is refused."""
    try:
        import cloudpickle
    except ModuleNotFoundError:
        dumps = pickle.dumps
    else:
        dumps = cloudpickle.dumps
        try:
            with _pickle_by_value(cloudpickle):
                return bytes(dumps(simulation))
        except Exception:  # such as a module that holds a lock: the worker may have the module
            pass
    try:
        return dumps(simulation)
    except Exception as error:  # user-defined code may raise anything
        raise ValueError(
            f"{simulation.algorithm!r} on {simulation.network!r} cannot be sent to another "
            f"process ({type(error).__name__}: {error}): define its parts in a module"
        ) from error


@contextmanager
def _pickle_by_value(cloudpickle: Any) -> Iterator[None]:
    """Pickle user-defined modules by value inside this context."""
    registered = cloudpickle.list_registry_pickle_by_value()
    modules = [module for module in find_user_modules() if module.__name__ not in registered]
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)


def find_user_modules() -> list[ModuleType]:
    """Find imported modules that are neither installed, nor Python's, nor the library's."""
    installed = _installed_folders()
    user_modules = []
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if not isinstance(file, str) or name in ("__main__", "__mp_main__"):
            continue
        if name.partition(".")[0] == "posse" or getattr(module, "__name__", "") != name:
            continue
        parents = Path(file).resolve().parents
        if not any(folder in parents for folder in installed):
            user_modules.append(module)
    return user_modules


def _installed_folders() -> set[Path]:
    """List the folders of Python and of installed packages."""
    folders = {*sysconfig.get_paths().values(), *site.getsitepackages(), site.getusersitepackages()}
    # A whole prefix such as /usr, or a home folder, would include files of users, so that only
    # folders with the name of a library folder count.
    return {
        Path(folder).resolve()
        for folder in folders
        if "python" in Path(folder).name.lower()
        or Path(folder).name in ("site-packages", "dist-packages", "Lib")
    }
