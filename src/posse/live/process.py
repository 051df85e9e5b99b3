"""Wiring of an agent process, from agent.toml: store, transport, signatures, experiments, node."""

from __future__ import annotations

import logging
import secrets
import sys
import time
from collections.abc import Callable
from pathlib import Path

from posse.live.config.agent_settings import Settings
from posse.live.config.reload import Reloading
from posse.live.membership.heartbeats import Presence
from posse.live.messaging.transport import Transport
from posse.live.messaging.transport.zenoh import ZenohTransport
from posse.live.node import Node
from posse.live.node_factory import Keys, Maker, Outside
from posse.live.security.certificates import Files
from posse.live.store import StoreError

log = logging.getLogger(__name__)

# bytes of a number on the wire, and of all in a second
NUMBER = 5
MUCH = 1e6
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
    _say_volume(settings)
    return node


def _say_volume(settings: Settings) -> None:
    """Warn of more bytes a second to neighbours than contexts of many columns are worth.

    With as many agents that learn as are known here, each entry to each neighbour once a tick.
    """
    near = len(settings.neighbours)
    for name, each in settings.experiments.items():
        d = 0 if each.context is None else each.context.n_features
        numbers = len(each.arms) * (1 + d * (d + 3) // 2)
        rate = NUMBER * numbers * (1 + near) * near / settings.tick_seconds
        if d and rate > MUCH:
            log.warning(
                "%d columns of context and %d arms are some %.1f MB a second to neighbours: "
                "raise tick_seconds",
                *(d, len(each.arms), rate / 1e6),
                extra={"experiment": name},
            )


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
