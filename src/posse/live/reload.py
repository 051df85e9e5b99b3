"""Reload: a running node adopts other settings without a restart, all of them or, if bad, none."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path

from posse.live.config import AgentSettings, ExperimentSettings, read_settings
from posse.live.experiment import LiveExperiment, RewardWindow
from posse.live.messaging import Transport
from posse.live.node import Node
from posse.live.node_factory import ExperimentFactory, NetworkAccess

# what a running process cannot change: its identity, its files and where it answers
FIXED_KEYS = (
    "name", "store", "network", "insecure", "certificates", "http", "http_hosts", "http_origins",
    "http_token", "http_certificate", "http_key", "insecure_http", "operator_token", "probe", "log",
)  # fmt: skip
TRANSPORT_KEYS = "neighbours", "router", "listen"  # by which others are reached
CHANGEABLE_KEYS = (  # of an experiment
    "arms", "reward_window", "default_reward", "remember",
    "min_share", "new_arm_share", "new_arm_pulls", "sites", "payload",
)  # fmt: skip
PATIENCE = 10.0  # seconds for which an address that was just in use may stay so


def reload_from(file: Path, node: Node) -> str:
    """Adopt the settings of a file; returns one line of changes, or raises a ValueError."""
    from posse.live.http.health import get_traffic

    settings = read_settings(file)
    changes = node.reload(settings)
    # the certificate last: a file that is refused must change nothing
    renewed = ", a new HTTP certificate" if get_traffic(node).renew_certificate() else ""
    return changes + renewed


@dataclass
class Reloader:
    """The settings by which a node runs, and the means to adopt other ones."""

    node: Node
    settings: AgentSettings
    network: NetworkAccess
    factory: ExperimentFactory
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def apply_settings(self, new: AgentSettings) -> SettingsChanges:
        """Adopt other settings; returns the changes."""
        with self._lock:
            old = self.settings
            _check_changes(old, new)
            keys = self.network.keys
            fresh = None if keys is None else keys.read_changed()
            moved = fresh is not None or any(
                getattr(old, key) != getattr(new, key) for key in TRANSPORT_KEYS
            )
            # Everything that can be refused comes first: nothing has changed yet if it raises.
            names = [name for name in new.experiments if name not in old.experiments]
            for name in names:
                self.factory.check_another(new, name, self.node.store)
            transport = self.network.connect(new) if moved else None
            # from here on nothing can be wrong with the settings
            before = None if keys is None or fresh is None else keys.switch_to(fresh)
            try:
                if transport is not None:
                    self._swap_transport(transport, new)
                # last, because the store keeps what was opened once
                added = self._make_experiments(new, names)
            except BaseException:
                if keys is not None and before is not None:
                    keys.switch_to(before)
                # The transport did not start, or the disk failed: return to the old address.
                if transport is not None:
                    self._swap_transport(self.network.connect(old), old)
                raise
            self._apply_to_node(new, added)
            self.settings = new
            return _list_changes(old, new, fresh is not None)

    def _make_experiments(
        self, new: AgentSettings, names: Iterable[str]
    ) -> dict[str, LiveExperiment]:
        return {name: self.factory.open_another(new, name, self.node.store) for name in names}

    def _swap_transport(self, transport: Transport, settings: AgentSettings) -> None:
        """Leave the network and join it again at once; requests do not notice."""
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
                transport = self.network.connect(settings)
        node.transport = transport

    def _apply_to_node(self, new: AgentSettings, added: Mapping[str, LiveExperiment]) -> None:
        node = self.node
        experiments = {**node.experiments, **added}
        for name, settings in new.experiments.items():
            experiment_ = experiments[name]
            experiment_.set_reward_window(
                RewardWindow(settings.reward_window, settings.default_reward)
            )
            experiment_.remember = settings.remember
            experiment_.payload = settings.payload
            experiment_.set_arms(settings.arms, settings.shares)
            experiment_.set_sites(settings.sites)
            self.factory.configure_controls(new, experiment_)
            experiment_.connect(new.neighbours)
        node.replace_experiments(
            {name: experiments[name] for name in new.experiments},
            tuple(new.neighbours),
            new.tick_seconds,
            new.limits,
        )
        for experiment in added.values():
            experiment.log_reward_window()


def _check_changes(old: AgentSettings, new: AgentSettings) -> None:
    """Refuse changes that a running process cannot adopt."""
    for key in FIXED_KEYS:
        if getattr(old, key) != getattr(new, key):
            raise ValueError(f"{key} cannot change while the agent runs: restart it")
    for name in (name for name in old.experiments if name in new.experiments):
        for key in (source.name for source in fields(ExperimentSettings)):
            before, after = (getattr(source.experiments[name], key) for source in (old, new))
            if key == "reward_window" and old.experiments[name].stop and before != after:
                raise ValueError(
                    f"reward_window of the experiment {name} cannot change while it has a stopping "
                    "rule: verdicts need equal windows for all decisions; start another experiment"
                )
            if key not in CHANGEABLE_KEYS and before != after:
                raise ValueError(
                    f"{key} of the experiment {name} cannot change while the agent runs: "
                    "start another experiment, or restart the agent if its evidence means the same"
                )


@dataclass(frozen=True)
class SettingsChanges:
    """What a reload changed: the list of experiments, each of them, and the whole agent."""

    experiments: str
    by_experiment: Mapping[str, list[str]]
    agent: list[str]

    def describe(self) -> str:
        """Describe all changes in one line."""
        parts = [part for parts in self.by_experiment.values() for part in parts]
        return "; ".join(filter(None, [self.experiments, *parts, *self.agent])) or "nothing changed"

    def describe_for(self, experiment: str) -> str:
        """Describe the changes that concern one experiment; empty if none does."""
        return "; ".join([*self.by_experiment.get(experiment, ()), *self.agent])


def _list_changes(old: AgentSettings, new: AgentSettings, certificates: bool) -> SettingsChanges:
    """List the changes between two settings."""
    by_experiment: dict[str, list[str]] = {}
    for name in (name for name in old.experiments if name in new.experiments):
        before = old.experiments[name]
        after = new.experiments[name]
        changed = [k for k in CHANGEABLE_KEYS[1:] if getattr(before, k) != getattr(after, k)]
        parts = [
            _describe_difference(f"arms of {name}", before.arms, after.arms),
            *(
                f"new payload of {name}"
                if key == "payload"
                else f"{key} of {name}: {getattr(after, key)}"
                for key in changed
            ),
        ]
        by_experiment[name] = [part for part in parts if part]
    agent = [_describe_difference("neighbours", old.neighbours, new.neighbours)]
    if old.neighbours != new.neighbours and old.neighbours.keys() == new.neighbours.keys():
        agent.append("new addresses of neighbours")
    agent.append(_describe_difference("operators", old.operators, new.operators))
    for key in ("router", "listen", "limits", "tick_seconds"):
        if getattr(old, key) != getattr(new, key):
            agent.append(f"new {key}")
    agent.append("certificates reloaded" if certificates else "")
    experiments = _describe_difference("experiments", old.experiments, new.experiments)
    return SettingsChanges(experiments, by_experiment, [part for part in agent if part])


def _describe_difference(label: str, old: Iterable[str], new: Iterable[str]) -> str:
    before = list(old)
    after = list(new)
    signs = [f"+{name}" for name in after if name not in before]
    signs += [f"-{name}" for name in before if name not in after]
    return f"{label}: {' '.join(signs)}" if signs else ""
