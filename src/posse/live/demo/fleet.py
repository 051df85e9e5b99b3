"""A fleet: nodes with real stores on one network in memory, with one clock.

The swarm in memory, the page of the demonstration, the screenshots and many tests drive whole nodes
without sockets or threads; they all build them here.
"""

from __future__ import annotations

import random
import shutil
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from posse.live.agent import Decision
from posse.live.config import AgentSettings, settings_from_data
from posse.live.demo.site import AgentSite, Visitor
from posse.live.exchange import DEFAULT
from posse.live.http.metrics import render_metrics
from posse.live.ledger import Ledger
from posse.live.messaging import MemoryNetwork, Transport
from posse.live.node import Node
from posse.live.node_factory import AgentKeys, NetworkAccess
from posse.live.process import assemble_node
from posse.live.security import CertificateFiles
from posse.live.store import RewardOutcome

# steps of the network in a tick: a message, its answer, and the answer to that
STEPS_PER_TICK = 4


class Fleet:
    """Nodes by name, with stores in one folder, on links that may lose and delay messages.

    Time passes only in `tick`, so that a run is reproducible from its seed; with `real_time` the
    nodes use the machine's clocks and randomness instead.

    seed: of the network, and with a node's name of that node. now: Unix time at the start.
    monotonic: the clock that never jumps; `now` by default. certificates: the folder of the keys
    with which nodes sign; None: they sign nothing. faults: options of MemoryNetwork, for example
    loss=0.2.
    """

    def __init__(
        self,
        folder: Path,
        links: Iterable[tuple[str, str]] = (),
        *,
        seed: int = 0,
        now: float = 0.0,
        real_time: bool = False,
        monotonic: Callable[[], float] | None = None,
        certificates: Path | None = None,
        **faults: Any,
    ) -> None:
        self.folder = folder
        self.seed = seed
        self.now = now
        self.real_time = real_time
        self.monotonic = monotonic or self.read_clock
        self.certificates = certificates
        self.network = MemoryNetwork(links, seed=seed, **faults)
        self.nodes: dict[str, Node] = {}

    def read_clock(self) -> float:
        """Return the time of all nodes."""
        return self.now

    def read_settings(self, data: Mapping[str, Any]) -> AgentSettings:
        """Return the settings of an agent.toml's data; neighbours are those of the network."""
        name = str(data["name"])
        neighbours = dict.fromkeys(self.network.neighbours(name), "")
        return settings_from_data({"store": f"{name}.db", "neighbours": neighbours, **data})

    def create_node(
        self,
        settings: AgentSettings,
        *,
        draw: Callable[[int], int] | None = None,
        wrap_transport: Callable[[Transport], Transport] | None = None,
    ) -> Node:
        """Create a node that does not receive messages yet.

        draw: the source of its random bits; by default one of the seed and its name.
        wrap_transport: puts faults around its transport.
        """
        name = settings.name

        def connect(_: AgentSettings) -> Transport:
            transport = self.network.transport(name)
            return transport if wrap_transport is None else wrap_transport(transport)

        keys = None
        if self.certificates is not None and not settings.insecure:
            keys = AgentKeys(name, CertificateFiles.in_folder(self.certificates, name))
        outside = NetworkAccess(connect, keys)
        if self.real_time:
            return assemble_node(settings, self.folder, outside)
        return assemble_node(
            settings,
            self.folder,
            outside,
            clock=self.read_clock,
            draw=draw or random.Random(f"{self.seed} {name}").getrandbits,
            monotonic=self.monotonic,
        )

    def open_node(self, data: Mapping[str, Any]) -> Node:
        """Start the node of an agent.toml's data, for the first time or again."""
        return self.add_node(self.create_node(self.read_settings(data)))

    def add_node(self, node: Node, name: str | None = None) -> Node:
        """Let a node receive messages and take part in ticks, under its name or another one."""
        node.transport.start(node.receive)
        self.nodes[name or node.name] = node
        return node

    def close_node(self, name: str) -> None:
        """Stop a node cleanly."""
        self.nodes.pop(name).stop()

    def tick(self, times: int = 1, *, names: Iterable[str] | None = None) -> None:
        """Let seconds pass: every node (or those of these names) ticks, messages arrive."""
        for _ in range(times):
            self.now += 1
            # All nodes tick before any message moves, so that the order of the nodes does not
            # decide which of them learns first.
            for name in list(self.nodes) if names is None else names:
                self.nodes[name].tick()
            for _ in range(STEPS_PER_TICK):
                self.network.step()

    def close(self) -> None:
        """Stop all nodes."""
        for name in list(self.nodes):
            self.close_node(name)


# Sites in this process: nodes of a fleet that can be killed and restarted like processes.

T = TypeVar("T")


class MemorySite(AgentSite):
    """A node of a fleet that ticks in its own thread, or by hand.

    A crash is simulated by a copy of the store's files between two commits: the next life opens
    the copy, and every answer of the dead node after that moment counts as lost.

    network_lock: held by whoever uses the network. draw, wrap_transport: see Fleet.create_node.
    """

    def __init__(
        self,
        settings: AgentSettings,
        fleet: Fleet,
        network_lock: threading.Lock,
        *,
        by_hand: bool = False,
        draw: Callable[[int], int] | None = None,
        wrap_transport: Callable[[Transport], Transport] | None = None,
    ) -> None:
        super().__init__(settings.name, list(settings.experiments))
        self._settings = settings
        self._fleet = fleet
        self._network_lock = network_lock
        self._by_hand = by_hand
        self._draw = draw
        self._wrap_transport = wrap_transport
        self._lives = 0
        self._node: Node | None = None

    def start(self) -> None:
        """Open the store that the last life left, and tick."""
        node = self._fleet.create_node(
            self._current_settings(), draw=self._draw, wrap_transport=self._wrap_transport
        )
        # Another thread may be delivering messages at this moment.
        with self._network_lock:
            node.transport.start(node.receive)
        self._node = node
        if not self._by_hand:
            threading.Thread(target=self._tick_repeatedly, args=(node,), daemon=True).start()

    def kill(self) -> None:
        """End the node as a power failure would: the next life starts from a copy of the files."""
        node = self._require_node()
        before = self._store_path
        # The transaction excludes commits during the copy; the lock excludes messages.
        with self._network_lock, node.store.transaction():
            self._node = None
            node.transport.close()
            self._lives += 1
            # Both files: the newest commits may be in the write-ahead log only.
            for end in ("", "-wal"):
                if (file := before.with_name(before.name + end)).exists():
                    shutil.copyfile(file, self._store_path.with_name(self._store_path.name + end))
        # After the copy, so that what a clean stop writes is not in the next life.
        node.stop()

    def stop(self) -> None:
        """Stop the node cleanly."""
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
        """Tick once, if the site is driven by hand."""
        if self._node is not None:
            self._node.tick()

    def change_settings(self, settings: AgentSettings) -> None:
        """Apply other settings and the present neighbours, at once or at the next start."""
        self._settings = settings
        if self._node is not None:
            self._node.reload(self._current_settings())

    def open_visitor(self, experiment: str) -> AbstractContextManager[Visitor]:
        """Return a visitor in this process."""
        return nullcontext(_Visitor(self, experiment))

    def pull(self, experiment: str = DEFAULT) -> Decision:
        """Request a decision."""
        node = self._require_node()
        decision = node.experiment(experiment).decide()
        return self._check_alive(node, Decision(decision.id, decision.arm, decision.probability))

    def update(self, decision: Decision, reward: float, experiment: str = DEFAULT) -> bool:
        """Report the reward of a decision."""
        node = self._require_node()
        outcome = node.experiment(experiment).reward(decision.id, reward)
        return self._check_alive(node, outcome is RewardOutcome.NEW)

    def read_evidence(self, experiment: str = DEFAULT) -> dict[str, Ledger]:
        """Return the evidence of the node."""
        return self._require_node().experiment(experiment).evidence()

    def read_metrics(self) -> str:
        """Return the metrics of the node."""
        return render_metrics(self._require_node())

    def _current_settings(self) -> AgentSettings:
        near = dict.fromkeys(self._fleet.network.neighbours(self.name), "")
        return replace(self._settings, store=self._store_path.name, neighbours=near)

    @property
    def _store_path(self) -> Path:
        return self._fleet.folder / f"{self.name}.{self._lives}.db"

    def _require_node(self) -> Node:
        if self._node is None:
            raise ConnectionError(f"{self.name} is down")
        return self._node

    def _check_alive(self, node: Node, answer: T) -> T:
        # The answer was computed but never arrived: the visitor has to retry, as after a real
        # crash.
        if self._node is not node:
            raise ConnectionError(f"{self.name} died before it answered")
        return answer

    def _tick_repeatedly(self, node: Node) -> None:
        pause = threading.Event()
        while not pause.wait(self._settings.tick_seconds):
            with self._network_lock:
                # Killed while this thread waited for the lock.
                if self._node is not node:
                    return
                node.tick()
                self._fleet.network.step()


@dataclass(frozen=True)
class _Visitor:
    """A visitor of one experiment."""

    site: MemorySite
    experiment: str

    def pull(self) -> Decision:
        """Request a decision."""
        return self.site.pull(self.experiment)

    def update(self, decision: Decision, reward: float) -> bool:
        """Report the reward of a decision."""
        return self.site.update(decision, reward, self.experiment)


def create_memory_sites(
    folder: Path,
    links: Sequence[tuple[int, int]],
    agents: Sequence[Mapping[str, Any]],
    loss: float = 0.2,
    seed: int = 0,
) -> list[MemorySite]:
    """Create sites with stores in a folder, on links that lose, delay and reorder messages."""
    names = [str(agent["name"]) for agent in agents]
    fleet = Fleet(
        folder,
        [(names[a], names[b]) for a, b in links],
        seed=seed,
        real_time=True,
        loss=loss,
        delay=(0, 2 * len(agents)),  # every agent's tick is a step: two ticks
        reorder=True,
    )
    network_lock = threading.Lock()
    return [MemorySite(settings_from_data(agent), fleet, network_lock) for agent in agents]
