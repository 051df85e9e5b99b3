"""Agents in this process: real nodes with real stores, on a network that loses messages."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from posse.live.agent.agent import Decision
from posse.live.config.agent_settings import Settings, from_data
from posse.live.demo.site import AgentSite, Visitor
from posse.live.exchange.ledger import Ledger
from posse.live.experiment.experiment import DEFAULT
from posse.live.http.metrics import render_metrics
from posse.live.messaging.transport.memory import MemoryNetwork
from posse.live.node import Node
from posse.live.node_factory import Outside
from posse.live.process import assemble
from posse.live.store import RewardOutcome

T = TypeVar("T")

Make = Callable[[Settings, Path], Node]


class MemorySite(AgentSite):
    """A node that ticks in a thread of its own, or by hand.

    What a crash leaves is a copy of its files, taken between two commits; what the dead node says
    after that is an answer that got lost.
    """

    def __init__(
        self,
        settings: Settings,
        folder: Path,
        network: MemoryNetwork,
        network_lock: threading.Lock,
        make: Make | None = None,
        by_hand: bool = False,
    ) -> None:
        """make: a node of settings and a folder, if not a plain one; by_hand: `tick` is called."""
        super().__init__(settings.name, list(settings.experiments))
        self._settings = settings
        self._folder = folder
        # whose turn it is to use the network
        self._network = network
        self._network_lock = network_lock
        self._make = make or self._make_plain_node
        self._by_hand = by_hand
        self._lives = 0
        self._node: Node | None = None

    def start(self) -> None:
        """Open the store that its last life left, and tick."""
        node = self._make(self._current_settings(), self._folder)
        with self._network_lock:
            node.transport.start(node.receive)
        self._node = node
        if not self._by_hand:
            threading.Thread(target=self._tick_repeatedly, args=(node,), daemon=True).start()

    def kill(self) -> None:
        """Go on from what is on disk at this moment."""
        node = self._require_node()
        before = self._store_path
        with self._network_lock, node.store.transaction():
            self._node = None
            node.transport.close()
            self._lives += 1
            for end in ("", "-wal"):
                if (file := before.with_name(before.name + end)).exists():
                    shutil.copyfile(file, self._store_path.with_name(self._store_path.name + end))
        node.stop()

    def stop(self) -> None:
        """End it cleanly."""
        with self._network_lock:
            node = self._node
            self._node = None
            if node is not None:
                node.stop()

    @property
    def node(self) -> Node | None:
        """The node, unless it is down."""
        return self._node

    def tick(self) -> None:
        """One round of a node that ticks by hand."""
        if self._node is not None:
            self._node.tick()

    def change_settings(self, settings: Settings) -> None:
        """Go on by other settings and the neighbours of now, at once or at the next start."""
        self._settings = settings
        if self._node is not None:
            self._node.reload(self._current_settings())

    def open_visitor(self, experiment: str) -> AbstractContextManager[Visitor]:
        """Somebody in this process."""
        return nullcontext(_Visitor(self, experiment))

    def pull(self, experiment: str = DEFAULT) -> Decision:
        """Ask for a decision."""
        node = self._require_node()
        decision = node.experiment(experiment).decide()
        return self._check_alive(node, Decision(decision.id, decision.arm, decision.probability))

    def update(self, decision: Decision, reward: float, experiment: str = DEFAULT) -> bool:
        """Say how it went."""
        node = self._require_node()
        outcome = node.experiment(experiment).reward(decision.id, reward)
        return self._check_alive(node, outcome is RewardOutcome.NEW)

    def read_evidence(self, experiment: str = DEFAULT) -> dict[str, Ledger]:
        """As the node has it."""
        return self._require_node().experiment(experiment).evidence()

    def read_metrics(self) -> str:
        """As the node counts."""
        return render_metrics(self._require_node())

    def _current_settings(self) -> Settings:
        near = dict.fromkeys(self._network.neighbours(self.name), "")
        return replace(self._settings, store=self._store_path.name, neighbours=near)

    def _make_plain_node(self, settings: Settings, folder: Path) -> Node:
        return assemble(settings, folder, Outside(lambda _: self._network.transport(self.name)))

    @property
    def _store_path(self) -> Path:
        return self._folder / f"{self.name}.{self._lives}.db"

    def _require_node(self) -> Node:
        if self._node is None:
            raise ConnectionError(f"{self.name} is down")
        return self._node

    def _check_alive(self, node: Node, answer: T) -> T:
        if self._node is not node:
            raise ConnectionError(f"{self.name} died before it answered")
        return answer

    def _tick_repeatedly(self, node: Node) -> None:
        pause = threading.Event()
        while not pause.wait(self._settings.tick_seconds):
            with self._network_lock:
                if self._node is not node:
                    return
                node.tick()
                self._network.step()


@dataclass(frozen=True)
class _Visitor:
    """Somebody who visits one experiment."""

    site: MemorySite
    experiment: str

    def pull(self) -> Decision:
        """Ask which arm to play."""
        return self.site.pull(self.experiment)

    def update(self, decision: Decision, reward: float) -> bool:
        """Say how it went."""
        return self.site.update(decision, reward, self.experiment)


def create_memory_sites(
    folder: Path,
    links: Sequence[tuple[int, int]],
    agents: Sequence[Mapping[str, Any]],
    loss: float = 0.2,
    seed: int = 0,
) -> list[MemorySite]:
    """Nodes with stores in a folder, on links that lose, delay and reorder messages."""
    names = [str(agent["name"]) for agent in agents]
    network = MemoryNetwork(
        [(names[a], names[b]) for a, b in links],
        seed=seed,
        loss=loss,
        delay=(0, 2 * len(agents)),  # every agent's tick is a step: two ticks
        reorder=True,
    )
    turn = threading.Lock()
    return [MemorySite(from_data(agent), folder, network, turn) for agent in agents]
