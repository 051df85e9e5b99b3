"""A machine's memory set aside and put back: all of a process but its files, locks and sockets.

So a virtual machine goes back to a snapshot: its process does not start again, it goes on as if
nothing had happened.
"""

from __future__ import annotations

import io
import pickle
import random
import sqlite3
import threading
import types
from collections.abc import Callable
from typing import Any

from posse.live.messaging.wire import Codec
from posse.live.node import Node
from posse.live.store.file_lock import FileLock
from simulation import disk as disks
from simulation.agents import FakeKeys
from simulation.disk import Connection, Disk
from simulation.post import Post

NEW: dict[type, Callable[[], Any]] = {
    type(threading.Lock()): threading.Lock,
    type(threading.RLock()): threading.RLock,
    threading.Condition: threading.Condition,
    threading.Event: threading.Event,
}
OUTSIDE = (Disk, Post, FakeKeys, Codec, random.Random)


class FrozenProcess:
    """The memory of a process at one moment."""

    def __init__(self, node: Node) -> None:
        self.shared: list[Any] = []
        buffer = io.BytesIO()
        _Pickler(buffer, self.shared).dump(node)
        self.content = buffer.getvalue()

    def thaw_process(self, disk: Disk) -> Node:
        """The process, on the files that are there now."""
        node: Node = _Unpickler(io.BytesIO(self.content), self.shared, disk).load()
        return node


class _Pickler(pickle.Pickler):
    def __init__(self, buffer: io.BytesIO, shared: list[Any]) -> None:
        super().__init__(buffer)
        self.shared = shared

    def persistent_id(self, thing: Any) -> Any:
        """What is not memory: files are opened again, locks are new, the world stays outside."""
        if isinstance(thing, sqlite3.Connection):
            assert isinstance(thing, Connection)
            return "connection", id(thing), thing.writes
        if isinstance(thing, FileLock):
            return "place", id(thing), True
        if type(thing) in NEW:
            self.shared.append(NEW[type(thing)])
            return "new", id(thing), len(self.shared) - 1
        local = isinstance(thing, types.FunctionType) and "<" in thing.__qualname__
        drawn = isinstance(thing, types.BuiltinMethodType) and isinstance(
            thing.__self__, random.Random
        )
        if local or drawn or isinstance(thing, OUTSIDE):
            self.shared.append(thing)
            return "shared", id(thing), len(self.shared) - 1
        return None


class _Unpickler(pickle.Unpickler):
    def __init__(self, buffer: io.BytesIO, shared: list[Any], disk: Disk) -> None:
        super().__init__(buffer)
        self.shared = shared
        self.disk = disk
        self.made: dict[int, Any] = {}

    def persistent_load(self, token: Any) -> Any:
        """One thing again for what was one thing."""
        kind, identity, number = token
        if kind == "shared":
            return self.shared[number]
        if identity not in self.made:
            self.made[identity] = self._create_object(kind, number)
        return self.made[identity]

    def _create_object(self, kind: str, number: Any) -> Any:
        if kind == "connection":
            return disks.open_connection(self.disk.path, readonly=not number)
        if kind == "place":
            place = FileLock(self.disk.path)
            place.lock_database()
            return place
        return self.shared[number]()
