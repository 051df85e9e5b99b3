"""A fleet: nodes with real stores on one network in memory, with one clock.

The swarm in memory, the page of the demonstration, the screenshots and many tests drive whole nodes
without sockets or threads; they all build them here.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from posse.live.config import AgentSettings, settings_from_data
from posse.live.messaging import MemoryNetwork, Transport
from posse.live.node import Node
from posse.live.node_factory import AgentKeys, NetworkAccess
from posse.live.process import assemble_node
from posse.live.security import CertificateFiles

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
