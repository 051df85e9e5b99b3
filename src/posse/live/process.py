"""Wiring of an agent process, from agent.toml: store, transport, signatures, experiments, node."""

from __future__ import annotations

import logging
import secrets
import sys
import time
from collections.abc import Callable
from pathlib import Path

from posse.live.config import AgentSettings
from posse.live.membership import Presence
from posse.live.messaging import Transport
from posse.live.messaging.transport.zenoh import ZenohTransport
from posse.live.node import Node
from posse.live.node_factory import AgentKeys, ExperimentFactory, NetworkAccess
from posse.live.reload import Reloader
from posse.live.security import CertificateFiles
from posse.live.store import StoreError

log = logging.getLogger(__name__)

# bytes of a number on the wire, and of all in a second
NUMBER_BYTES = 5
MUCH_TRAFFIC = 1e6
SWITCH_SECONDS = 0.0005  # seconds after which a thread gives way, so that no request waits for long


def make_node(
    settings: AgentSettings,
    folder: Path,
    around: Callable[[Transport], Transport] = lambda transport: transport,
) -> Node:
    """Build a node that is ready to start; paths are relative to the folder of its agent.toml.

    around: a wrapper of every transport it opens (middleware), such as faults for a demonstration.
    """
    # The default of 5 ms would let one busy thread add 5 ms to every request.
    sys.setswitchinterval(SWITCH_SECONDS)
    files = (
        None
        if settings.insecure
        else CertificateFiles.in_folder(folder / settings.certificates, settings.name)
    )
    keys = None if files is None else AgentKeys(settings.name, files)
    network = NetworkAccess(lambda new: around(_make_transport(new, files)), keys)
    try:
        return assemble_node(settings, folder, network)
    except StoreError as error:  # at the start, somebody can see to it
        raise ValueError(f"{settings.name} cannot start: {error}") from error


def assemble_node(
    settings: AgentSettings,
    folder: Path,
    network: NetworkAccess,
    *,
    clock: Callable[[], float] = time.time,
    draw: Callable[[int], int] = secrets.randbits,  # all that is random comes from here
    monotonic: Callable[[], float] = time.monotonic,
) -> Node:
    """Build a node of these settings with a store in a folder and any access to a network."""
    transport = network.connect(settings)
    maker = ExperimentFactory(settings.name, network.keys, clock, draw, monotonic)
    name, *further = settings.experiments
    # The first experiment opens the store file; the others are views of it.
    first = maker.open_first(settings, name, folder / settings.store)
    try:
        beside = [
            maker.open_another(settings, further_name, first.store) for further_name in further
        ]
        node = Node(
            settings.name,
            [first, *beside],
            first.store,
            transport,
            neighbours=list(settings.neighbours),
            tick_seconds=settings.tick_seconds,
            clock=clock,
            limits=settings.limits,
            presence=_make_presence(settings, network.keys, clock()),
        )
    except BaseException:
        first.store.close()
        raise
    node.reloader = Reloader(node, settings, network, maker)
    _warn_of_traffic(settings)
    return node


def _warn_of_traffic(settings: AgentSettings) -> None:
    """Warn if contexts of many columns send too many bytes a second to neighbours.

    The estimate assumes that every known agent learns, and sends each entry once a tick.
    """
    near = len(settings.neighbours)
    for name, experiment in settings.experiments.items():
        d = 0 if experiment.context is None else experiment.context.n_features
        numbers = len(experiment.arms) * (1 + d * (d + 3) // 2)
        rate = NUMBER_BYTES * numbers * (1 + near) * near / settings.tick_seconds
        if d and rate > MUCH_TRAFFIC:
            log.warning(
                "%d columns of context and %d arms send about %.1f MB a second to neighbours: "
                "raise tick_seconds",
                *(d, len(experiment.arms), rate / 1e6),
                extra={"experiment": name},
            )


def _make_presence(settings: AgentSettings, keys: AgentKeys | None, now: float) -> Presence:
    sign, verify = (keys.sign, keys.verify) if keys is not None else (None, None)
    return Presence(settings.name, settings.network, now=now, sign=sign, verify=verify)


def _make_transport(settings: AgentSettings, files: CertificateFiles | None) -> ZenohTransport:
    return ZenohTransport(
        settings.name,
        {name: address or None for name, address in settings.neighbours.items()},
        listen=settings.listen or (),
        files=files,
        network=settings.network,
        insecure=settings.insecure,
        router=next(iter(settings.router.items()), None),
    )
