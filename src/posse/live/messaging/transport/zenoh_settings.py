"""The settings of an agent's zenoh session: what is off, what is allowed, and for whom."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from posse.live.messaging.transport import MAX_BYTES
from posse.live.security import CertificateFiles

LEASE = 4000  # milliseconds of silence after which a link counts as dead
HANDSHAKE = 3000  # milliseconds a link may take to open; closing waits for those that do
PENDING = 1000  # links that may be opening at a time, of those that have a certificate
# milliseconds that TLS may take at our door: zenoh takes a tenth of a second over each that fails
# or runs out of time, and nobody else enters meanwhile. After the usual 10 seconds some 100 idle
# strangers, reopened when closed, kept every neighbour out; after an hour it takes 36,000
TLS_WAIT = 3_600_000
RETRY = {"period_init_ms": 100, "period_max_ms": 2000, "period_increase_factor": 2.0}
ROUTER_WAIT = 1000  # milliseconds of one attempt to reach a router
OVERHEAD = 1000  # bytes that a message's key and headers may take, generously
QUEUE = 16  # batches of 48 kB, the most zenoh allows, so that most messages go out without waiting
LONGEST_WAIT = 20_000  # microseconds that sending a large message may take when the queue is full


def session_settings(
    name: str,
    neighbours: Sequence[str],
    network: str,
    listen: Sequence[str],
    connect: Sequence[str],
    files: CertificateFiles | None,
    max_bytes: int = MAX_BYTES,
    router: str | None = None,
) -> dict[str, Any]:
    """Return the settings of an agent's session, in zenoh's words; behind a router, a client's.

    (Between peers a router does not pass on anything: they would have to find each other.)
    """
    settings = _base_settings(listen, connect, files, max_bytes)
    if files is not None:
        settings["access_control"] = _access_rules(
            # a neighbour speaks itself, or by way of the router
            (router or peer, message_key(network, peer, name), message_key(network, name, peer))
            for peer in neighbours
        )
    if router is not None:
        settings["mode"] = "client"
        settings["connect"] |= {"timeout_ms": ROUTER_WAIT, "exit_on_failure": True}
    return settings


def router_settings(
    agents: Sequence[str], network: str, listen: Sequence[str], files: CertificateFiles
) -> dict[str, Any]:
    """The settings of a router, which binds keys to certificates on behalf of all agents."""
    return _base_settings(listen, (), files, MAX_BYTES) | {
        "mode": "router",
        "access_control": _access_rules(
            (name, message_key(network, name, "*"), message_key(network, "*", name))
            for name in agents
        ),
    }


def message_key(network: str, source: str, target: str) -> str:
    """Return the key of messages from source to target; * is any agent."""
    return f"posse/{network}/{source}/{target}"


def _base_settings(
    listen: Sequence[str], connect: Sequence[str], files: CertificateFiles | None, max_bytes: int
) -> dict[str, Any]:
    """Return the settings that every session has."""
    protocol = "tcp" if files is None else "tls"
    patience = "" if files is None else f"#tls_handshake_timeout_ms={TLS_WAIT}"
    link: dict[str, Any] = {
        "protocols": [protocol],
        "rx": {"max_message_size": max_bytes + OVERHEAD},
        "tx": {
            "lease": LEASE,
            "queue": {
                "size": {"data": QUEUE},
                "congestion_control": {"drop": {"max_wait_before_drop_fragments": LONGEST_WAIT}},
            },
        },
    }
    if files is not None:
        link["tls"] = {
            "root_ca_certificate": str(files.authority),
            "listen_certificate": str(files.certificate),
            "listen_private_key": str(files.key),
            "connect_certificate": str(files.certificate),
            "connect_private_key": str(files.key),
            "enable_mtls": True,
            "verify_name_on_connect": True,
            "close_link_on_expiration": True,
        }
    # a neighbour that is not there yet is dialled for ever, and nobody waits for it
    dial = {"timeout_ms": -1, "exit_on_failure": False, "retry": RETRY}
    return {
        "mode": "peer",
        "listen": {
            "endpoints": [f"{protocol}/{address}{patience}" for address in listen],
            "timeout_ms": 0,
            "exit_on_failure": True,
        },
        "connect": {"endpoints": [f"{protocol}/{address}" for address in connect], **dial},
        # with gossip, the neighbours of neighbours would connect to each other
        "scouting": {"multicast": {"enabled": False}, "gossip": {"enabled": False}},
        "open": {"return_conditions": {"connect_scouted": False, "declares": False}},
        "adminspace": {"enabled": False},
        "transport": {
            "unicast": {
                "open_timeout": HANDSHAKE,
                "accept_timeout": HANDSHAKE,
                "accept_pending": PENDING,
            },
            "shared_memory": {"enabled": False},
            "link": link,
        },
        "access_control": {"enabled": False},
    }


def _access_rules(allowed: Iterable[tuple[str, str, str]]) -> dict[str, Any]:
    """Deny all but these: (holder of a certificate, key it sends under, key it receives under)."""
    rules = []
    by_name: dict[str, list[str]] = {}
    for holder, sends_under, receives_under in allowed:
        for flow, message, under in (
            ("ingress", "put", sends_under),
            ("ingress", "declare_subscriber", receives_under),
            ("egress", "put", receives_under),
            ("egress", "declare_subscriber", sends_under),
        ):
            rule = f"{holder} {flow} {message} {under}"
            by_name.setdefault(holder, []).append(rule)
            rules.append(
                {
                    "id": rule,
                    "permission": "allow",
                    "flows": [flow],
                    "messages": [message],
                    "key_exprs": [under],
                }
            )
    return {
        "enabled": True,
        "default_permission": "deny",
        "rules": rules,
        "subjects": [{"id": holder, "cert_common_names": [holder]} for holder in by_name],
        "policies": [{"rules": ids, "subjects": [holder]} for holder, ids in by_name.items()],
    }
