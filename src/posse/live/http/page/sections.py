"""What the page of one experiment shows, in sections that are encoded once for all viewers.

A section is computed again when somebody looks, once a second at most and not so often that it
takes more than a small share of a core: with hundreds of sites a look at all of them takes long.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import msgspec

from posse import __version__
from posse.live.experiment import Experiment
from posse.live.http import views
from posse.live.http.traffic import traffic_of
from posse.live.node import Node
from posse.live.store import Unknown

PERIOD = 1.0  # seconds between two looks
SHARE = 0.005  # of a core, that one section may take

_encode = msgspec.json.Encoder().encode


class _Section:
    """One part of the page: how it is made, and as it last was."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make, self._cost, self._made = make, 0.0, float("-inf")
        self.version, self.encoded = 0, b"null"

    def look(self, now: float, version: int) -> bool:
        """Compute it if it is due; whether it is another, of this version then."""
        if now - self._made < max(PERIOD / 2, self._cost / SHARE):
            return False
        began = time.thread_time()
        encoded = _encode(self._make())
        self._cost, self._made = time.thread_time() - began, now
        if encoded == self.encoded and self.version:
            return False
        self.encoded, self.version = encoded, version
        return True


class Sections:
    """The sections of one experiment; any thread may look."""

    def __init__(self, node: Node, experiment: Experiment) -> None:
        self._node, self._experiment = node, experiment
        self._lock = threading.Lock()
        self._version = 0
        self._looked = float("-inf")
        self._changes: dict[int, tuple[int, bytes]] = {}  # since a version, up to another
        self._sections = {
            "agent": _Section(self._agent),
            "arms": _Section(experiment.arms),
            "experiment": _Section(lambda: views.shown(experiment)),
            "controls": _Section(experiment.controlled),
            "verdict": _Section(self._verdict),
            "books": _Section(experiment.books),
            "sites": _Section(experiment.site_map),
            "network": _Section(node.network),
            "past": _Section(experiment.past.newest),
        }

    @property
    def version(self) -> int:
        """A number that rises with every change."""
        return self._version

    def look(self) -> None:
        """Bring up to date what is due, unless another thread is at it."""
        if not self._lock.acquire(blocking=False):
            return
        try:
            now = time.monotonic()
            if now - self._looked < PERIOD / 2:
                return
            self._looked = now
            version = self._version + 1
            changed = [each.look(now, version) for each in self._sections.values()]
            if any(changed):
                self._version = version
            self._changes = {}
        finally:
            self._lock.release()

    def since(self, version: int) -> tuple[int, bytes]:
        """Up to which version, and what changed since one (0: all) in JSON, encoded once."""
        found = self._changes.get(version)
        if found is None:
            # read first: what changes meanwhile is said again, and never left out
            newest = self._version
            parts = [
                b'"%b":%b' % (name.encode(), each.encoded)
                for name, each in self._sections.items()
                if each.version > version
            ]
            head = b'{"now":%.3f,"sections":{' % self._node.clock()
            found = self._changes[version] = newest, head + b",".join(parts) + b"}}"
        return found

    def _agent(self) -> dict[str, Any]:
        node, agent = self._node, self._experiment.agent
        return {
            "name": node.name,
            "version": __version__,
            "started": traffic_of(node).started,
            "experiment": self._experiment.name,
            "experiments": list(node.experiments),
            "family": agent.family.name,
            "reward_range": agent.reward_range,
            "error": None if agent.stop is None else agent.stop.error,
        }

    def _verdict(self) -> Any:
        try:
            return self._experiment.verdict()
        except Unknown:  # it has no `stop`
            return None
