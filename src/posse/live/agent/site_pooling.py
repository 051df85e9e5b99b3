"""How an agent reads the evidence of other sites: like its own, or for what it is worth here.

How far sites differ is told from closed decisions (unequal delays would look like differing
sites), and what follows from it is applied to what agents act on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np

from posse import validation
from posse.best_arm import evaluate_arms
from posse.families.optional_methods import get_optional
from posse.live.agent.evidence import Evidence, Powers
from posse.live.exchange import Exchange
from posse.live.exchange.quanta import PER_UNIT
from posse.randomness import FloatArray
from posse.sites import SURE, Sites, check_reward_variance

WATCH = 10  # ticks between two looks at whether sites that are taken for alike are
SITES_IN_CONTEXT = (
    "sites = {!r} does not go with a context: make the site a category of the context instead"
)
OVER = 0.5  # the probability to be alike from which on a warning ends


def check_sites(sites: str | float) -> str | float:
    """Refuse what does not say how sites compare."""
    if isinstance(sites, str):
        return validation.validate_choice("sites", sites, ("alike", "differ"))
    return validation.validate_number("sites", sites, at_least=0, at_most=1e30)


@dataclass(frozen=True)
class Differences:
    """Whether sites differ, as far as is known: the probability that none does, and how far."""

    alike: float | None  # that all arms are alike at all sites; None: there is nothing to compare
    differ: bool = False  # whether people are told so
    arms: tuple[str, ...] = ()  # those that differ, the surest first
    sd: float = 0.0  # of the first of them, between sites
    sentence: str = ""


@dataclass(frozen=True)
class Sharing:
    """What settling for the best arm now would give up, on average: alone, and as it is shared.

    Each by its own posterior: of the own closed decisions, and of all as they are read here.
    """

    loss_alone: float
    loss_shared: float


@dataclass(frozen=True)
class Table:
    """The evidence of all sites at one moment: statistics (2, N, K), and the place of the own."""

    closed: FloatArray
    acted: FloatArray
    own: int

    @property
    def several(self) -> bool:
        """Whether at least two sites have closed decisions."""
        return bool((np.abs(self.closed).sum(axis=(0, 2)) > 0).sum() > 1)


class SiteReading:
    """Reads the evidence of others once a tick; own rewards count at once, in between too."""

    def __init__(
        self,
        evidence: Evidence,
        exchange: Exchange,
        arms: Sequence[str],
        sites: str | float,
        steady: bool = True,
    ) -> None:
        """steady: whether means do not drift, which cannot be told from sites that differ."""
        self.sites = check_sites(sites)
        self._evidence = evidence
        self._exchange = exchange
        self._arms = list(arms)
        known = hasattr(exchange, "by_origin") and not evidence.signs  # flows have signs
        self._family = evidence.at_mean
        contexts = evidence.features > 0
        variance = get_optional(self._family, "variance")(np.array([0.5]))
        self.able = known and steady and variance is not None and not contexts
        if self.pools:
            self.site_sd = None
        elif contexts:
            raise ValueError(SITES_IN_CONTEXT.format(sites))
        elif not known:
            raise ValueError(
                f"sites = {sites!r} needs exchange 'origins': flows do not record the origin "
                "of evidence"
            )
        elif not steady:
            raise ValueError(
                f"sites = {sites!r} does not go with half_life: "
                "drifting means look the same as sites that differ"
            )
        else:
            check_reward_variance(self._family)
            self.site_sd = None if sites == "differ" else float(sites)
        self.differences = Differences(None)
        self._others: FloatArray | None = None
        self._revision = -1
        self._ticks = 0

    @property
    def pools(self) -> bool:
        """Whether the evidence of others is read like the own."""
        return self.sites == "alike"

    @property
    def others(self) -> FloatArray:
        """The belief but for the own evidence, (D, K), as of the last tick; read-only."""
        if self._others is None:
            self._look()
        assert self._others is not None
        return self._others

    def forget(self) -> None:
        """The evidence is another: read all anew when it is needed."""
        self._others = None
        self._revision = -1

    def tick(self) -> None:
        """Read the evidence of others again, if there is any new; or only look now and then."""
        self._ticks += 1
        due = self._ticks % WATCH == 1 if self.pools else True
        if self.able and due and self._exchange.revision != self._revision:
            self._look()

    def _look(self) -> None:
        self._revision = self._exchange.revision
        table = self.table()
        sites = self.of(table)
        if not self.pools:
            read = (
                sites.site_beliefs(acting_evidence=table.acted)[:, table.own]
                - table.acted[:, table.own]
            )
            read.setflags(write=False)
            self._others = read
        self.differences = self._differences(sites) if table.several else Differences(None)

    def of(self, table: Table) -> Sites:
        """The sites of a table, as this agent reads them."""
        return Sites(self._family, table.closed, self.site_sd)

    def shown(self, table: Table) -> FloatArray:
        """What people are shown as the belief here, from closed decisions: (2, K)."""
        if self.pools:
            return np.asarray(self._family.prior()[:, None] + table.closed.sum(axis=1))
        return self.of(table).site_beliefs(for_display=True)[:, table.own]

    def facts(self, table: Table) -> list[dict[str, float | bool]]:
        """Of each arm the mean over sites with its 95% interval, and how far they differ."""
        if not table.several:
            return [{}] * len(self._arms)
        family = self._family
        sites = self.of(table)
        network = sites.network_belief()
        (sd, _, _) = sites.sd_between()
        columns = {
            "network_mean": family.posterior_mean(network),
            "network_low": family.mean_quantile(network, 0.025),
            "network_high": family.mean_quantile(network, 0.975),
            "sd_between_sites": sd,
        }
        return [
            {key: float(values[k]) for key, values in columns.items()}
            | {"sites_differ": arm in self.differences.arms}
            for k, arm in enumerate(self._arms)
        ]

    def sharing(self, table: Table) -> Sharing:
        """What is given up by settling for the best arm now, with and without the others."""
        family = self._family
        alone = family.prior()[:, None] + table.closed[:, table.own]
        losses = [
            float(evaluate_arms(family, each)[1].min()) for each in (alone, self.shown(table))
        ]
        return Sharing(*losses)

    def table(self) -> Table:
        """What is known of every site now."""
        ledgers = self._exchange.by_origin()
        own = self._exchange.identity
        ledgers.setdefault(own, {})
        nothing = (0,) * len(self._evidence.bounds)
        rows = [[held.get(arm, nothing) for arm in self._arms] for held in ledgers.values()]
        # (N, K, coordinates): the reward's sum, then that of closed ones, their count, the count
        values = np.array(rows, dtype=float) / PER_UNIT
        return Table(
            closed=self._statistics(values[..., 1], values[..., 2]),
            acted=self._statistics(values[..., 0], values[..., 3]),
            own=list(ledgers).index(own),
        )

    def _statistics(self, total: FloatArray, count: FloatArray) -> FloatArray:
        """Sums of the family's statistics: (N, K) each -> (2, N, K), clipped to what can be."""
        count = np.maximum(count, 0.0)
        sums = self._evidence.sums
        assert isinstance(sums, Powers)
        low, high = sums.reward_range
        total = np.clip(total * sums.scale, low * count, high * count)
        return np.tensordot(sums.linear, np.stack([count, total]), axes=1)

    def _differences(self, sites: Sites) -> Differences:
        """What is to be said now; a warning stays until it is as likely as not to be wrong."""
        alike = float(sites.probability_all_alike())
        if alike >= (OVER if self.differences.differ else SURE):
            return Differences(alike)
        by_arm = sites.probability_alike()
        order = np.argsort(by_arm, kind="stable")
        arms = [self._arms[k] for k in order if by_arm[k] < SURE] or [self._arms[order[0]]]
        sd = float(Sites(sites.family, sites.evidence).sd_between()[0][order[0]])
        advice = (
            "pooling their evidence may harm: see sites = 'differ'"
            if self.pools
            else "the evidence of others counts for what it is worth here"
        )
        sentence = f"sites differ by about {sd:.2g} (arm {arms[0]}); {advice}"
        return Differences(alike, True, tuple(arms), sd, sentence)


# The map of sites and arms: what each site saw, where one differs, and what sharing gained it.

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
    # (N, K)
    pulls = values[..., 2 * sums]
    totals = values[..., sums] * evidence.scale
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
    # (2, N, K)
    family = evidence.at_mean
    closed = table.closed
    prior = family.prior()[:, None]
    pooled = prior + closed.sum(axis=1)  # (2, K)
    leader = int(np.argmax(family.posterior_mean(pooled)))
    alone = prior + closed[:, :, leader]  # (2, N)
    if reading.pools:
        shared = np.broadcast_to(pooled[:, leader, None], alone.shape)
    else:
        shared = reading.of(table).site_beliefs(for_display=True)[:, :, leader]

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
        n = pulls[rest]
        total = totals[rest]
        others = n.sum() - n
        elsewhere = (total.sum() - total) / others
        pooled = np.array([total.sum() / n.sum()])
        variance = float(get_optional(evidence.at_mean, "variance")(pooled)[0])
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
