"""Changes without a restart: a node takes in other settings, all of them or, if bad, none."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path

from posse.live.config.agent_settings import Settings, read_settings
from posse.live.config.experiment_settings import ExperimentSettings
from posse.live.experiment.experiment import Experiment, Silence
from posse.live.messaging.transport import Transport
from posse.live.node import Node
from posse.live.node_factory import Maker, Outside

# what a running process cannot change: its identity, its files and where it answers
FIXED = (
    "name", "store", "network", "insecure", "certificates", "http", "http_hosts", "http_token",
    "http_certificate", "http_key", "insecure_http", "operator_token", "probe", "log",
)  # fmt: skip
OUTSIDE = "neighbours", "router", "listen"  # by which others are reached
CHANGING = (  # of an experiment
    "arms", "reward_window", "default_reward", "remember",
    "min_share", "new_arm_share", "new_arm_pulls", "sites",
)  # fmt: skip
PATIENCE = 10.0  # seconds for which an address that was just in use may stay so


def reload_from(file: Path, node: Node) -> str:
    """Take in the settings of a file; one line that says what changed, or a ValueError why not."""
    from posse.live.http.health import get_traffic

    settings = read_settings(file)
    renewed = ", a new HTTP certificate" if get_traffic(node).renew_certificate() else ""
    return node.reload(settings) + renewed


@dataclass
class Reloading:
    """The settings by which a node runs, and how to make what other settings need."""

    node: Node
    settings: Settings
    outside: Outside
    maker: Maker
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, new: Settings) -> str:
        """Take in other settings; what changed, in one line."""
        with self._lock:
            old = self.settings
            _check(old, new)
            keys = self.outside.keys
            fresh = None if keys is None else keys.changed()
            moved = fresh is not None or any(
                getattr(old, key) != getattr(new, key) for key in OUTSIDE
            )
            transport = self.outside.connect(new) if moved else None
            added = self._make(
                new, [name for name in new.experiments if name not in old.experiments]
            )
            # from here on nothing can be wrong with the settings
            if transport is not None:
                if keys is not None and fresh is not None:
                    before = keys.use(fresh)
                try:
                    self._swap(transport, new)
                except BaseException:
                    if keys is not None and fresh is not None:
                        keys.use(before)
                    self._swap(self.outside.connect(old), old)
                    raise
            self._apply(new, added)
            self.settings = new
            return _said(old, new, fresh is not None)

    def _make(self, new: Settings, names: Iterable[str]) -> dict[str, Experiment]:
        return {name: self.maker.beside(new, name, self.node.store) for name in names}

    def _swap(self, transport: Transport, settings: Settings) -> None:
        """Leave the network and come back at once; requests do not notice."""
        node = self.node
        node.transport.close()
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                transport.start(node.listener)
                break
            except ValueError:  # zenoh lets go of an address a moment after it was closed
                if time.monotonic() > deadline or node.stopping.wait(0.1):
                    raise
                transport = self.outside.connect(settings)
        node.transport = transport

    def _apply(self, new: Settings, added: Mapping[str, Experiment]) -> None:
        node = self.node
        kept = {**node.experiments, **added}
        for name, settings in new.experiments.items():
            each = kept[name]
            each.set_silence(Silence(settings.reward_window, settings.default_reward))
            each.remember = settings.remember
            each.set_arms(settings.arms, settings.shares)
            each.set_sites(settings.sites)
            self.maker.configure(new, each)
            each.connect(new.neighbours)
        node.take_over(
            {name: kept[name] for name in new.experiments},
            tuple(new.neighbours),
            new.tick_seconds,
            new.limits,
        )
        for experiment in added.values():
            experiment.say_silence()


def _check(old: Settings, new: Settings) -> None:
    """Refuse what a running process cannot take in."""
    for key in FIXED:
        if getattr(old, key) != getattr(new, key):
            raise ValueError(f"{key} cannot be changed while the agent runs: restart it for that")
    for name in (name for name in old.experiments if name in new.experiments):
        for key in (each.name for each in fields(ExperimentSettings)):
            before, after = (getattr(each.experiments[name], key) for each in (old, new))
            if key == "reward_window" and old.experiments[name].stop and before != after:
                raise ValueError(
                    f"reward_window of the experiment {name} cannot be changed while it has stop: "
                    "verdicts need decisions that all waited equally long; make another experiment"
                )
            if key not in CHANGING and before != after:
                raise ValueError(
                    f"{key} of the experiment {name} cannot be changed while the agent runs: "
                    "make another experiment, or restart the agent if its evidence means the same"
                )


def _said(old: Settings, new: Settings, certificates: bool) -> str:
    """What changed, in one line."""
    parts = [_difference("experiments", old.experiments, new.experiments)]
    for name in (name for name in old.experiments if name in new.experiments):
        before = old.experiments[name]
        after = new.experiments[name]
        parts.append(_difference(f"arms of {name}", before.arms, after.arms))
        changed = [k for k in CHANGING[1:] if getattr(before, k) != getattr(after, k)]
        parts += [f"{key} of {name}: {getattr(after, key)}" for key in changed]
    parts.append(_difference("neighbours", old.neighbours, new.neighbours))
    if old.neighbours != new.neighbours and old.neighbours.keys() == new.neighbours.keys():
        parts.append("other addresses of neighbours")
    parts.append(_difference("operators", old.operators, new.operators))
    for key in ("router", "listen", "limits", "tick_seconds"):
        if getattr(old, key) != getattr(new, key):
            parts.append(f"another {key}")
    parts.append("certificates read anew" if certificates else "")
    return "; ".join(part for part in parts if part) or "nothing changed"


def _difference(what: str, old: Iterable[str], new: Iterable[str]) -> str:
    before = list(old)
    after = list(new)
    signs = [f"+{each}" for each in after if each not in before]
    signs += [f"-{each}" for each in before if each not in after]
    return f"{what}: {' '.join(signs)}" if signs else ""
