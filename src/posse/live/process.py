"""Wiring of an agent process, from agent.toml: store, transport, signatures, experiments, node."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from posse.live.agent import Agent
from posse.live.certificates import Files, check_files
from posse.live.experiment import Experiment, Silence
from posse.live.node import Node
from posse.live.settings import Settings
from posse.live.signatures import signer, verifier
from posse.live.store import Store, StoreError
from posse.live.transport import Transport
from posse.live.transport.zenoh import ZenohTransport


class Keys:
    """Signs and verifies by the files of a certificate, which may be read anew as they change."""

    def __init__(self, name: str, files: Files) -> None:
        self.name, self.files = name, files
        self.read()

    def read(self) -> bool:
        """Read the files, all or, if one is bad, none; whether they changed."""
        check_files(self.name, self.files)
        places = (self.files.authority, self.files.certificate, self.files.key)
        contents = tuple(place.read_bytes() for place in places)
        changed = contents != getattr(self, "_contents", None)
        if changed:
            self._sign, self._verify = signer(self.files), verifier(self.files)
            self._contents = contents
        return changed

    def sign(self, content: bytes) -> bytes:
        """A signature of this agent."""
        return self._sign(content)

    def verify(self, origin: str, content: bytes, signature: bytes) -> bool:
        """Whether the agent of this name signed."""
        return self._verify(origin, content, signature)


@dataclass(frozen=True)
class Outside:
    """What joins a node to others: how a transport is made, and the keys, if it has any."""

    connect: Callable[[Settings], Transport]
    keys: Keys | None = None


@dataclass(frozen=True)
class Maker:
    """Makes the experiments of a node, at its start and later."""

    name: str
    keys: Keys | None
    clock: Callable[[], float]
    draw: Callable[[int], int]

    def agent(self, settings: Settings, experiment: str) -> Agent:
        """A new agent of an experiment."""
        keys = self.keys
        return settings.agent(
            keys.sign if keys else None,
            keys.verify if keys else None,
            experiment,
            draw=self.draw,
        )

    def experiment(self, settings: Settings, name: str, agent: Agent, store: Store) -> Experiment:
        """An experiment that goes on from what its store holds."""
        s = settings.experiments[name]
        made = Experiment(
            name,
            agent,
            store,
            silence=Silence(s.reward_window, s.default_reward),
            remember=s.remember,
            clock=self.clock,
            draw=self.draw,
        )
        if s.exchange == "origins" and agent.exchange.identity != self.name:
            # its certificate would not vouch for what it says
            raise ValueError(
                f"{settings.store} is the store of {agent.exchange.identity}: set name back to "
                f"it, or give {self.name} a new store"
            )
        return made


def make_node(settings: Settings, folder: Path) -> Node:
    """A node that is ready to start; paths are relative to the folder of its agent.toml."""
    files = None if settings.insecure else Files.of(folder / settings.certificates, settings.name)
    keys = None if files is None else Keys(settings.name, files)
    outside = Outside(lambda new: _transport(new, files), keys)
    try:
        return assemble(settings, folder, outside)
    except StoreError as error:  # at the start, somebody can see to it
        raise ValueError(f"{settings.name} cannot start: {error}") from error


def assemble(
    settings: Settings,
    folder: Path,
    outside: Outside,
    *,
    clock: Callable[[], float] = time.time,
    draw: Callable[[int], int] = secrets.randbits,  # all that is random comes from here
) -> Node:
    """A node of these settings with a store in a folder, joined to others in any way."""
    s = settings
    transport = outside.connect(s)
    maker = Maker(s.name, outside.keys, clock, draw)
    store: Store | None = None
    experiments = []
    try:
        for name in s.experiments:
            agent = maker.agent(s, name)
            if store is None:
                store = Store.open(
                    folder / s.store, fingerprint=agent.fingerprint, equal=agent.equal_fingerprints
                )
                view = store
            else:
                view = store.beside(name, agent.fingerprint, agent.equal_fingerprints)
            experiments.append(maker.experiment(s, name, agent, view))
        assert store is not None  # there is an experiment in all settings
        return Node.of(
            s.name,
            experiments,
            store,
            transport,
            neighbours=list(s.neighbours),
            tick_seconds=s.tick_seconds,
            clock=clock,
            limits=s.limits,
        )
    except BaseException:
        if store is not None:
            store.close()
        transport.close()
        raise


def _transport(settings: Settings, files: Files | None) -> ZenohTransport:
    return ZenohTransport(
        settings.name,
        {name: address or None for name, address in settings.neighbours.items()},
        listen=settings.listen or (),
        files=files,
        network=settings.network,
        insecure=settings.insecure,
        router=next(iter(settings.router.items()), None),
    )
