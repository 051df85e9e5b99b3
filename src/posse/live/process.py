"""Wiring of an agent process, from agent.toml: store, transport, signatures, node."""

from __future__ import annotations

from pathlib import Path

from posse.live.certificates import Files, check_files
from posse.live.node import Node, Silence
from posse.live.settings import Settings
from posse.live.signatures import signer, verifier
from posse.live.store import Store, StoreError
from posse.live.transport.zenoh import ZenohTransport


def make_node(settings: Settings, folder: Path) -> Node:
    """A node that is ready to start; paths are relative to the folder of its agent.toml."""
    s = settings
    files = None if s.insecure else Files.of(folder / s.certificates, s.name)
    if files is not None:
        check_files(s.name, files)
    transport = ZenohTransport(
        s.name,
        {name: address or None for name, address in s.neighbours.items()},
        listen=s.listen or (),
        files=files,
        network=s.network,
        insecure=s.insecure,
        router=next(iter(s.router.items()), None),
    )
    agent = s.agent(signer(files), verifier(files)) if files else s.agent()
    try:
        store = Store.open(
            folder / s.store, fingerprint=agent.fingerprint, equal=agent.equal_fingerprints
        )
        try:
            node = Node(
                agent,
                store,
                transport,
                neighbours=list(s.neighbours),
                tick_seconds=s.tick_seconds,
                silence=Silence(s.reward_window, s.default_reward),
                remember=s.remember,
            )
            if s.exchange == "origins" and agent.exchange.identity != s.name:
                # its certificate would not vouch for what it says
                raise ValueError(
                    f"{s.store} is the store of {agent.exchange.identity}: set name back to it, "
                    f"or give {s.name} a new store"
                )
            return node
        except BaseException:
            store.close()
            raise
    except StoreError as error:  # at the start, somebody can see to it
        raise ValueError(f"{s.name} cannot start: {error}") from error
