"""The layout of entries: its version, and the bytes of an entry that its origin signs.

A signature covers every word, and only the origin can sign anew: so whoever passes an entry on
passes it on as it is, and an entry of another layout is refused, never rewritten.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from posse.live.exchange.messages import Entry

DEFAULT = "default"  # the experiment of files without tables of experiments
LAYOUT = 1  # of entries; any other is refused
ANOTHER_LAYOUT = "layout_mismatch"  # a reason of refusal


def layout_problem(entry: Entry, experiment: str) -> str | None:
    """Return why an entry cannot be of this experiment."""
    if entry.layout != LAYOUT:
        return ANOTHER_LAYOUT
    return None if entry.experiment == experiment else "experiment_mismatch"


def signed_bytes(fingerprint: str, entry: Entry, network: str = "") -> bytes:
    """Return the bytes that an origin signs: equal for equal content, whatever the order."""
    content = [
        entry.layout,
        network,
        entry.experiment,
        fingerprint,
        entry.origin,
        entry.incarnation,
        entry.seq,
        entry.epoch,
        entry.folded,
        entry.floor,
        dict(entry.evidence),
    ]
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
