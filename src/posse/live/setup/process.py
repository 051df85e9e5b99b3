"""Wiring of an agent process, from agent.toml: store, transport, signatures, experiments, node."""

from __future__ import annotations

import secrets
import sys
import time
from collections.abc import Callable
from pathlib import Path

from posse.live.certificates import Files
from posse.live.node import Node
from posse.live.presence.presence import Presence
from posse.live.setup.making import Keys, Maker, Outside
from posse.live.setup.reloading import Reloading
from posse.live.setup.settings import Settings
from posse.live.store import StoreError
from posse.live.transport import Transport
from posse.live.transport.zenoh import ZenohTransport

SWITCH = 0.0005  # seconds after which a thread gives way, so that no request waits for long


def make_node(
    settings: Settings,
    folder: Path,
    around: Callable[[Transport], Transport] = lambda transport: transport,
) -> Node:
    """A node that is ready to start; paths are relative to the folder of its agent.toml.

    around: what is put around every transport it opens, such as faults for a demonstration.
    """
    sys.setswitchinterval(SWITCH)
    files = None if settings.insecure else Files.of(folder / settings.certificates, settings.name)
    keys = None if files is None else Keys(settings.name, files)
    outside = Outside(lambda new: around(_transport(new, files)), keys)
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
    monotonic: Callable[[], float] = time.monotonic,
) -> Node:
    """A node of these settings with a store in a folder, joined to others in any way."""
    transport = outside.connect(settings)
    maker = Maker(settings.name, outside.keys, clock, draw, monotonic)
    name, *others = settings.experiments
    first = maker.first(settings, name, folder / settings.store)
    try:
        beside = [maker.beside(settings, other, first.store) for other in others]
        node = Node.of(
            settings.name,
            [first, *beside],
            first.store,
            transport,
            neighbours=list(settings.neighbours),
            tick_seconds=settings.tick_seconds,
            clock=clock,
            limits=settings.limits,
            presence=_presence(settings, outside.keys, clock()),
        )
    except BaseException:
        first.store.close()
        raise
    node.reloading = Reloading(node, settings, outside, maker)
    return node


def _presence(settings: Settings, keys: Keys | None, now: float) -> Presence:
    sign, verify = (keys.sign, keys.verify) if keys is not None else (None, None)
    return Presence(settings.name, settings.network, now=now, sign=sign, verify=verify)


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
