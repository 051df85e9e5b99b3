"""Layouts of entries: how each was signed, and how it is read; old ones are kept as they are.

A signature covers every word, and only the origin can sign anew. So an entry of an older layout is
kept, relayed and verified as it was signed, and translated only when it is read.

    1   Posse 0.1: one experiment, nothing folded; its network is not part of it
    2   network, experiment, epoch, and the incarnations it absorbs
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from posse.live.exchange.messages import Entry

DEFAULT = "default"  # the one experiment of 0.1, and of files without tables of experiments
NEWEST = 2


def needed(experiment: str, epoch: int, folded: object, floor: int) -> int:
    """The oldest layout that can say this, so that as many neighbours as can be understand it."""
    return 1 if experiment == DEFAULT and not (epoch or folded or floor) else 2


def problem(entry: Entry, experiment: str) -> str | None:
    """Why an entry cannot be of this experiment."""
    if entry.experiment != experiment:
        return "another experiment"
    if entry.layout > NEWEST:
        return "needs a newer Posse"
    if entry.layout < needed(experiment, entry.epoch, entry.folded, entry.floor):
        return "malformed"
    return None


def read(entry: Entry) -> Entry:
    """An entry as it is read today; the evidence of both layouts means the same."""
    return entry


def signed_bytes(fingerprint: str, entry: Entry, network: str = "") -> bytes:
    """What an origin signs: one spelling for equal content, whatever the order of the arms."""
    if entry.layout == 1:  # frozen: what 0.1 signed must be verified for ever
        content: list[Any] = [fingerprint, entry.origin, entry.incarnation, entry.seq]
    else:
        content = [entry.layout, network, entry.experiment, fingerprint, entry.origin]
        content += [entry.incarnation, entry.seq, entry.epoch, entry.folded, entry.floor]
    content.append(dict(entry.evidence))
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
