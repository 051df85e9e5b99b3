"""The settings of an agent's zenoh session: what is off, what is allowed, and to whom."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from posse.live.certificates import Files
from posse.live.transport import MAX_BYTES

LEASE = 4000  # milliseconds of silence after which a link counts as dead
HANDSHAKE = 3000  # milliseconds a link may take to open; closing waits for those that do
RETRY = {"period_init_ms": 100, "period_max_ms": 2000, "period_increase_factor": 2.0}
OVERHEAD = 1000  # bytes that a message's key and headers may take, generously
QUEUE = 16  # batches of 48 kB, the most zenoh allows, so that most messages go out without waiting
LONGEST_WAIT = 20_000  # microseconds that sending a large message may take when the queue is full


def settings(
    name: str,
    neighbours: Sequence[str],
    network: str,
    listen: Sequence[str],
    connect: Sequence[str],
    files: Files | None,
    max_bytes: int = MAX_BYTES,
) -> dict[str, Any]:
    """The settings of an agent's session, in zenoh's words."""
    protocol = "tcp" if files is None else "tls"
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
        certificate, key = str(files.certificate), str(files.key)
        link["tls"] = {
            "root_ca_certificate": str(files.authority),
            "listen_certificate": certificate,
            "listen_private_key": key,
            "connect_certificate": certificate,
            "connect_private_key": key,
            "enable_mtls": True,
            "verify_name_on_connect": True,
            "close_link_on_expiration": True,
        }
    # a neighbour that is not there yet is dialled for ever, and nobody waits for it
    dial = {"timeout_ms": -1, "exit_on_failure": False, "retry": RETRY}
    return {
        "mode": "peer",
        "listen": {
            "endpoints": [f"{protocol}/{address}" for address in listen],
            "timeout_ms": 0,
            "exit_on_failure": True,
        },
        "connect": {"endpoints": [f"{protocol}/{address}" for address in connect], **dial},
        # with gossip, the neighbours of neighbours would connect to each other
        "scouting": {"multicast": {"enabled": False}, "gossip": {"enabled": False}},
        "open": {"return_conditions": {"connect_scouted": False, "declares": False}},
        "adminspace": {"enabled": False},
        "transport": {
            "unicast": {"open_timeout": HANDSHAKE, "accept_timeout": HANDSHAKE},
            "shared_memory": {"enabled": False},
            "link": link,
        },
        "access_control": _access(name, neighbours, network) if files else {"enabled": False},
    }


def _access(name: str, neighbours: Sequence[str], network: str) -> dict[str, Any]:
    """Deny all but what each neighbour's certificate says to us and hears from us."""
    rules, policies = [], []
    for peer in neighbours:
        ours, theirs = f"posse/{network}/{name}/{peer}", f"posse/{network}/{peer}/{name}"
        allowed = {
            f"{peer} speaks": ("ingress", "put", theirs),
            f"{peer} listens": ("ingress", "declare_subscriber", ours),
            f"we speak to {peer}": ("egress", "put", ours),
            f"we listen to {peer}": ("egress", "declare_subscriber", theirs),
        }
        for rule, (flow, message, key) in allowed.items():
            rules.append(
                {
                    "id": rule,
                    "permission": "allow",
                    "flows": [flow],
                    "messages": [message],
                    "key_exprs": [key],
                }
            )
        policies.append({"rules": list(allowed), "subjects": [peer]})
    return {
        "enabled": True,
        "default_permission": "deny",
        "rules": rules,
        "subjects": [{"id": peer, "cert_common_names": [peer]} for peer in neighbours],
        "policies": policies,
    }
