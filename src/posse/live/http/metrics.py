"""The counters of a node in the text format of Prometheus."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from posse.live.node import Node

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SERIES = 100  # of one metric at most
DOINGS = "tick", "receive", "send", "request"
REASONS = (
    "another fingerprint",
    "bad signature",
    "more pulls than the rate allows",
    "more evidence than its pulls allow",
    "more evidence than the network can have",
    "a version it cannot have",
    "our own identity",
    "the identity of another name",
    "too many identities",
    "too many entries",
    "too many entries of one origin",
    "too large an entry",
    "malformed",
    "too large",
    "too short",
    "another version",
    "another kind of message",
    "no message of origins",
    "no message of flows",
)

Samples = Iterable[tuple[Mapping[str, str], float]]


def metrics(node: Node) -> str:
    """All that is counted, as text."""
    network, arms = node.network(), node.arms()
    here = [({"arm": name}, status["pulls_here"]) for name, status in arms.items()]
    everywhere = [({"arm": name}, status["pulls_in_network"]) for name, status in arms.items()]
    # from 0 on: of a series that begins with 1, Prometheus sees no increase
    refusals = dict.fromkeys(REASONS, 0) | network["refused"]
    failures = dict.fromkeys(DOINGS, 0) | node.failures.copy()
    refused = [({"reason": reason}, n) for reason, n in refusals.items()]
    failed = [({"doing": doing}, n) for doing, n in failures.items()]
    near = [({"neighbour": n}, s["connected"]) for n, s in network["neighbours"].items()]
    counts = node.counts.copy()
    messages = [({"direction": way}, counts[way]) for way in ("sent", "received")]
    return "".join(
        [
            _metric("decisions_total", "Decisions made.", [({}, counts["decisions"])]),
            _metric("rewards_total", "Rewards taken in.", [({}, counts["rewards"])]),
            _metric("messages_total", "Messages of the exchange.", messages),
            _metric("refusals_total", "Messages refused, by reason.", refused),
            _metric("failures_total", "Failures of the store or of sending.", failed),
            _metric("pulls_here", "Rewarded pulls of an arm at this agent.", here),
            _metric("pulls_in_network", "Rewarded pulls of an arm that are known.", everywhere),
            _metric(
                "agents_known",
                "Agents whose evidence is here (flows: heard of).",
                [({}, network["agents_known"])],
            ),
            _metric("neighbour_connected", "Whether a neighbour is connected.", near),
        ]
    )


def _metric(name: str, help_: str, samples: Samples) -> str:
    kind = "counter" if name.endswith("_total") else "gauge"
    lines = [f"# HELP posse_{name} {help_}", f"# TYPE posse_{name} {kind}"]
    for labels, value in list(samples)[:SERIES]:
        inner = ",".join(f'{key}="{_escape(text)}"' for key, text in labels.items())
        number = repr(float(value)) if isinstance(value, float) else str(int(value))
        lines.append(f"posse_{name}{{{inner}}} {number}" if inner else f"posse_{name} {number}")
    return "\n".join(lines) + "\n"


def _escape(text: str) -> str:
    """A label's value, on one line whatever it holds."""
    safe = text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n").replace("\r", " ")
    return safe.encode(errors="backslashreplace").decode()
