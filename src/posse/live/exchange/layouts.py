"""Layouts of entries: how each was signed, and how it is read; old ones are kept as they are.

A signature covers every word, and only the origin can sign anew. So an entry of an older layout is
kept, relayed and verified as it was signed, and translated only when it is read.

    1   Posse 0.1: one experiment, nothing folded; its network is not part of it
    2   network, experiment, epoch, and the incarnations it absorbs
    3   as 2, with sums of closed decisions beside those of all (wide rows, see `bounds`)

Where all decisions are closed both are equal, and an entry says them once (narrow rows).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from posse.live.exchange.ledger import Ledger, from_plain, plain

if TYPE_CHECKING:
    from posse.live.exchange.messages import Entry

DEFAULT = "default"  # the one experiment of 0.1, and of files without tables of experiments
NEWEST = 3
WIDE = 3  # the first whose rows are wide


def needed(experiment: str, epoch: int, folded: object, floor: int, wide: bool = False) -> int:
    """The oldest layout that can say this, so that as many neighbours as can be understand it."""
    if wide:
        return WIDE
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


def read(entry: Entry, closed: int) -> Mapping[str, tuple[int, ...]]:
    """The evidence of an entry as it is read today, with so many closed powers."""
    return entry.evidence if entry.layout >= WIDE else widened(entry.evidence, closed)


def widened(ledger: Mapping[str, Sequence[int]], closed: int) -> Ledger:
    """Narrow rows as wide ones: all is closed."""
    if not closed:
        return {arm: tuple(row) for arm, row in ledger.items()}
    return {
        arm: (*row[:closed], *row[:closed], row[-1], *row[closed:]) for arm, row in ledger.items()
    }


def narrowed(ledger: Mapping[str, Sequence[int]], closed: int) -> Ledger | None:
    """Wide rows as narrow ones, if in all of them everything is closed."""
    if not closed:
        return {arm: tuple(row) for arm, row in ledger.items()}
    n, rows = closed, ledger.values()
    if any(row[2 * n] != row[-1] or row[:n] != row[n : 2 * n] for row in rows):
        return None
    return {arm: (*row[:n], *row[2 * n + 1 :]) for arm, row in ledger.items()}


def stored(ledger: Ledger, closed: int) -> list[Any]:
    """The last values of a durable part: narrow rows where they say all, or wide ones and WIDE."""
    narrow = narrowed(ledger, closed)
    return [plain(ledger), WIDE] if narrow is None else [plain(narrow)]


def from_stored(rows: Mapping[str, Sequence[int]], wide: Sequence[int], closed: int) -> Ledger:
    """What was stored: the rows, and WIDE if it came after them."""
    return from_plain(rows) if wide else widened(rows, closed)


def signed_bytes(fingerprint: str, entry: Entry, network: str = "") -> bytes:
    """What an origin signs: one spelling for equal content, whatever the order of the arms."""
    if entry.layout == 1:  # frozen: what 0.1 signed must be verified for ever
        content: list[Any] = [fingerprint, entry.origin, entry.incarnation, entry.seq]
    else:
        content = [entry.layout, network, entry.experiment, fingerprint, entry.origin]
        content += [entry.incarnation, entry.seq, entry.epoch, entry.folded, entry.floor]
    content.append(dict(entry.evidence))
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
