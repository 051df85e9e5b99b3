"""The map of sites and arms: what each site saw, where one differs, and what sharing gained it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np

from posse.families.abilities import ability
from posse.live.evidence import Evidence
from posse.live.exchange import Exchange
from posse.live.exchange.quanta import PER_UNIT
from posse.live.site_reading import SiteReading, Table
from posse.randomness import FloatArray

MOST = 60  # sites that are shown: the agent's own, then those with the most pulls
APART = 3.0  # standard errors from the other sites, in an arm that is found to differ
FLOWS = (
    "under flows an agent knows the network's average, not whose evidence it is: "
    "exchange = 'origins' shows every site"
)


@dataclass(frozen=True)
class SiteArm:
    """Closed decisions of one site for one arm, and their mean reward (None: there are none)."""

    pulls: float
    mean: float | None


@dataclass(frozen=True)
class Site:
    """One site: what it saw of every arm, and what sharing gained it.

    gain: what it holds of the leading arm is worth so many times its own closed decisions.
    """

    arms: Mapping[str, SiteArm]
    gain: float | None


@dataclass(frozen=True)
class Apart:
    """Where a site differs from the others beyond chance."""

    site: str
    arm: str
    higher: bool
    elsewhere: float  # the mean reward at the other sites


@dataclass(frozen=True)
class SiteMap:
    """Every site, the agent's own first; why: the reason if nobody knows."""

    sites: Mapping[str, Site]
    apart: tuple[Apart, ...] = ()
    left_out: int = 0  # sites with fewer pulls than these
    why: str | None = None


def site_map(
    evidence: Evidence,
    exchange: Exchange,
    arms: Sequence[str],
    reading: SiteReading,
    lock: AbstractContextManager[Any],
) -> SiteMap:
    """What is known of every site; the lock is held while the exchange is read."""
    if evidence.signs:  # flows
        return SiteMap({}, why=FLOWS)
    with lock:
        ledgers = exchange.by_origin()
        table = reading.table() if reading.able else None
        differing = [k for k, arm in enumerate(arms) if arm in reading.differences.arms]
    ledgers.setdefault(exchange.identity, {})
    nothing = (0,) * len(evidence.bounds)
    rows = [[held.get(arm, nothing) for arm in arms] for held in ledgers.values()]
    values = np.array(rows, dtype=float).reshape(len(rows), len(arms), -1) / PER_UNIT
    sums = evidence.closed_sums  # then come the closed ones, and the count of these
    pulls, totals = values[..., 2 * sums], values[..., sums] * evidence.scale  # (N, K)
    names = list(ledgers)
    own = exchange.identity
    order = sorted(range(len(names)), key=lambda i: (names[i] != own, -pulls[i].sum()))
    gains: list[float | None] = [None] * len(names)
    if table is not None and len(names) > 1:
        gains = _gains(evidence, reading, table)
    found = {
        names[i]: Site(
            {arm: _arm(pulls[i, k], totals[i, k]) for k, arm in enumerate(arms)}, gains[i]
        )
        for i in order[:MOST]
    }
    marks = [
        each
        for k in differing
        for each in _apart(evidence, names, arms[k], pulls[:, k], totals[:, k])
    ]
    return SiteMap(found, tuple(marks), max(0, len(names) - MOST))


def _arm(pulls: float, total: float) -> SiteArm:
    return SiteArm(float(pulls), float(total / pulls) if pulls > 0 else None)


def _gains(evidence: Evidence, reading: SiteReading, table: Table) -> list[float | None]:
    """How many times its own evidence each site has of the leading arm, by posterior variance."""
    family, closed = evidence.at_mean, table.closed  # (2, N, K)
    prior = family.prior()[:, None]
    pooled = prior + closed.sum(axis=1)  # (2, K)
    leader = int(np.argmax(family.posterior_mean(pooled)))
    alone = prior + closed[:, :, leader]  # (2, N)
    if reading.pools:
        shared = np.broadcast_to(pooled[:, leader, None], alone.shape)
    else:
        shared = reading.of(table).belief(showing=True)[:, :, leader]

    def width(belief: FloatArray) -> FloatArray:
        return np.asarray(family.mean_quantile(belief, 0.975) - family.mean_quantile(belief, 0.025))

    ratio = (width(alone) / width(shared)) ** 2
    known = np.isfinite(ratio) & (np.abs(closed[:, :, leader]).sum(axis=0) > 0)
    return [float(each) if ok else None for each, ok in zip(ratio, known, strict=True)]


def _apart(
    evidence: Evidence, names: Sequence[str], arm: str, pulls: FloatArray, totals: FloatArray
) -> list[Apart]:
    """The sites that make an arm differ: the farthest from all others, then of the rest again.

    Else one site that is far off would make the others look as if they were, too.
    """
    found: list[Apart] = []
    rest = [i for i in range(len(names)) if pulls[i] > 0]
    while len(rest) > 1:
        n, total = pulls[rest], totals[rest]
        others = n.sum() - n
        elsewhere = (total.sum() - total) / others
        pooled = np.array([total.sum() / n.sum()])
        variance = float(ability(evidence.at_mean, "variance")(pooled)[0])
        if not variance > 0:
            break
        errors = (total / n - elsewhere) / np.sqrt(variance * (1 / n + 1 / others))
        farthest = int(np.argmax(np.abs(errors)))
        if abs(errors[farthest]) < APART:
            break
        higher = bool(errors[farthest] > 0)
        found.append(Apart(names[rest[farthest]], arm, higher, float(elsewhere[farthest])))
        del rest[farthest]
    return found
