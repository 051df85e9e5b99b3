"""Partial pooling: how an agent reads the evidence of other sites, and the map of sites and arms.

The heterogeneity between sites is estimated from closed decisions (unequal delays would look like
differing sites), and applied to the evidence that agents act on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np

from posse import validation
from posse.best_arm import evaluate_arms
from posse.families import get_optional
from posse.live.agent.evidence import Evidence, PowerSums
from posse.live.exchange import Exchange
from posse.live.ledger import PER_UNIT
from posse.randomness import FloatArray
from posse.sites import SURE, Sites, check_reward_variance

TICKS_BETWEEN_CHECKS = 10  # ticks between two looks at whether sites that are taken for alike are
SITES_IN_CONTEXT = (
    "sites = {!r} does not go with a context: make the site a category of the context instead"
)
WARNING_ENDS = 0.5  # the probability to be alike from which on a warning ends


def check_sites(sites: str | float) -> str | float:
    """Refuse a value that is none of the ways to read other sites."""
    if isinstance(sites, str):
        return validation.validate_choice("sites", sites, ("alike", "differ"))
    return validation.validate_number("sites", sites, at_least=0, at_most=1e30)


@dataclass(frozen=True)
class SiteDifferences:
    """Whether sites differ: the posterior probability that none does, and the estimated spread."""

    alike: float | None  # that all arms are alike at all sites; None: there is nothing to compare
    differ: bool = False  # whether a warning is shown
    arms: tuple[str, ...] = ()  # those that differ, the surest first
    sd: float = 0.0  # of the first of them, between sites
    sentence: str = ""


@dataclass(frozen=True)
class SharingGain:
    """The expected loss of choosing the best arm now: by own closed decisions, and by all."""

    loss_alone: float
    loss_shared: float


@dataclass(frozen=True)
class SiteTable:
    """The evidence of all sites at one moment: statistics (2, N, K), and the row of this site."""

    closed: FloatArray
    acted: FloatArray
    own_row: int

    @property
    def has_several_sites(self) -> bool:
        """Whether at least two sites have closed decisions."""
        return bool((np.abs(self.closed).sum(axis=(0, 2)) > 0).sum() > 1)


class SitePooling:
    """Reads the evidence of other sites once a tick; own rewards count at once, in between too."""

    def __init__(
        self,
        evidence: Evidence,
        exchange: Exchange,
        arms: Sequence[str],
        sites: str | float,
        steady: bool = True,
    ) -> None:
        """steady: whether means are constant; drift would look like heterogeneity."""
        self.sites = check_sites(sites)
        self._evidence = evidence
        self._exchange = exchange
        self._arms = list(arms)
        knows_origins = hasattr(exchange, "by_origin") and not evidence.signs  # flows have signs
        self._family = evidence.at_mean
        contexts = evidence.features > 0
        variance = get_optional(self._family, "variance")(np.array([0.5]))
        self.can_compare = knows_origins and steady and variance is not None and not contexts
        if self.pools_fully:
            self.site_sd = None
        elif contexts:
            raise ValueError(SITES_IN_CONTEXT.format(sites))
        elif not knows_origins:
            raise ValueError(
                f"sites = {sites!r} needs exchange 'origins': flows do not know evidence by site"
            )
        elif not steady:
            raise ValueError(
                f"sites = {sites!r} does not go with half_life: "
                "drifting means look like sites that differ"
            )
        else:
            check_reward_variance(self._family)
            self.site_sd = None if sites == "differ" else float(sites)
        self.differences = SiteDifferences(None)
        self._others_belief: FloatArray | None = None
        self._revision = -1
        self._ticks = 0

    @property
    def pools_fully(self) -> bool:
        """Whether evidence of other sites counts like own evidence."""
        return self.sites == "alike"

    @property
    def others_belief(self) -> FloatArray:
        """The belief without own evidence, (D, K), as of the last tick; read-only."""
        if self._others_belief is None:
            self._refresh()
        assert self._others_belief is not None
        return self._others_belief

    def reset(self) -> None:
        """Discard cached beliefs, because the evidence was replaced."""
        self._others_belief = None
        self._revision = -1

    def tick(self) -> None:
        """Read the evidence of other sites again, if it changed."""
        self._ticks += 1
        # With full pooling nothing depends on the comparison but a warning: now and then is enough.
        due = self._ticks % TICKS_BETWEEN_CHECKS == 1 if self.pools_fully else True
        if self.can_compare and due and self._exchange.revision != self._revision:
            self._refresh()

    def _refresh(self) -> None:
        self._revision = self._exchange.revision
        table = self.build_table()
        sites = self.build_sites(table)
        if not self.pools_fully:
            others_belief = (
                sites.site_beliefs(acting_evidence=table.acted)[:, table.own_row]
                - table.acted[:, table.own_row]
            )
            others_belief.setflags(write=False)
            self._others_belief = others_belief
        self.differences = (
            self._describe_differences(sites) if table.has_several_sites else SiteDifferences(None)
        )

    def build_sites(self, table: SiteTable) -> Sites:
        """Build the hierarchical model of a table of sites, as this agent reads them."""
        return Sites(self._family, table.closed, self.site_sd)

    def reported_belief(self, table: SiteTable) -> FloatArray:
        """Return the belief here that is reported, from closed decisions: (2, K)."""
        if self.pools_fully:
            return np.asarray(self._family.prior()[:, None] + table.closed.sum(axis=1))
        return self.build_sites(table).site_beliefs(for_display=True)[:, table.own_row]

    def describe_arms(self, table: SiteTable) -> list[dict[str, float | bool]]:
        """Return for each arm the mean over sites, its 95% interval, and the spread."""
        if not table.has_several_sites:
            return [{}] * len(self._arms)
        family = self._family
        sites = self.build_sites(table)
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

    def measure_sharing(self, table: SiteTable) -> SharingGain:
        """Return the expected loss of choosing the best arm now, without and with other sites."""
        family = self._family
        alone = family.prior()[:, None] + table.closed[:, table.own_row]
        losses = [
            float(evaluate_arms(family, belief)[1].min())
            for belief in (alone, self.reported_belief(table))
        ]
        return SharingGain(*losses)

    def build_table(self) -> SiteTable:
        """Collect the evidence of every site now."""
        ledgers = self._exchange.by_origin()
        identity = self._exchange.identity
        ledgers.setdefault(identity, {})
        nothing = (0,) * len(self._evidence.bounds)
        rows = [[ledger.get(arm, nothing) for arm in self._arms] for ledger in ledgers.values()]
        # (N, K, coordinates): the reward's sum, then that of closed ones, their count, the count
        values = np.array(rows, dtype=float) / PER_UNIT
        return SiteTable(
            closed=self._sum_statistics(values[..., 1], values[..., 2]),
            acted=self._sum_statistics(values[..., 0], values[..., 3]),
            own_row=list(ledgers).index(identity),
        )

    def _sum_statistics(self, total: FloatArray, count: FloatArray) -> FloatArray:
        """Return sums of the family's statistics, clipped: (N, K) -> (2, N, K)."""
        count = np.maximum(count, 0.0)
        sums = self._evidence.sums
        assert isinstance(sums, PowerSums)
        low, high = sums.reward_range
        total = np.clip(total * sums.scale, low * count, high * count)
        return np.tensordot(sums.linear, np.stack([count, total]), axes=1)

    def _describe_differences(self, sites: Sites) -> SiteDifferences:
        """Decide whether to warn; a warning stays until it is as likely as not to be wrong."""
        alike = float(sites.probability_all_alike())
        if alike >= (WARNING_ENDS if self.differences.differ else SURE):
            return SiteDifferences(alike)
        by_arm = sites.probability_alike()
        order = np.argsort(by_arm, kind="stable")
        arms = [self._arms[k] for k in order if by_arm[k] < SURE] or [self._arms[order[0]]]
        # Estimated even where the spread was given: the warning is about the data.
        sd = float(Sites(sites.family, sites.evidence).sd_between()[0][order[0]])
        advice = (
            "pooling their evidence may harm: set sites = 'differ'"
            if self.pools_fully
            else "evidence of other sites is discounted accordingly"
        )
        sentence = f"sites differ by about {sd:.2g} (arm {arms[0]}); {advice}"
        return SiteDifferences(alike, True, tuple(arms), sd, sentence)


# ---- The map of sites and arms

MOST_SITES = 60  # sites that are shown: the agent's own, then those with the most pulls
OUTLIER_ERRORS = 3.0  # standard errors from the other sites, in an arm that is found to differ
NO_SITES_UNDER_FLOWS = (
    "flows know the network's average, not the evidence of each site: "
    "exchange = 'origins' shows every site"
)


@dataclass(frozen=True)
class SiteArm:
    """Closed decisions of one site for one arm, and their mean reward (None: there are none)."""

    pulls: float
    mean: float | None


@dataclass(frozen=True)
class Site:
    """One site: its evidence for every arm, and what sharing gained it.

    gain: its evidence for the leading arm is worth this many times its own closed decisions.
    """

    arms: Mapping[str, SiteArm]
    gain: float | None


@dataclass(frozen=True)
class SiteOutlier:
    """A site that differs from the other sites in one arm beyond chance."""

    site: str
    arm: str
    higher: bool
    elsewhere: float  # the mean reward at the other sites


@dataclass(frozen=True)
class SiteMap:
    """Every site, this agent's own first; why: the reason if sites are not known."""

    sites: Mapping[str, Site]
    apart: tuple[SiteOutlier, ...] = ()
    left_out: int = 0  # sites with fewer pulls than these
    why: str | None = None


def build_site_map(
    evidence: Evidence,
    exchange: Exchange,
    arms: Sequence[str],
    pooling: SitePooling,
    lock: AbstractContextManager[Any],
) -> SiteMap:
    """Build the map of sites; the lock is held while the exchange is read."""
    if evidence.signs:  # flows
        return SiteMap({}, why=NO_SITES_UNDER_FLOWS)
    with lock:
        ledgers = exchange.by_origin()
        table = pooling.build_table() if pooling.can_compare else None
        differing = [k for k, arm in enumerate(arms) if arm in pooling.differences.arms]
    ledgers.setdefault(exchange.identity, {})
    nothing = (0,) * len(evidence.bounds)
    rows = [[ledger.get(arm, nothing) for arm in arms] for ledger in ledgers.values()]
    values = np.array(rows, dtype=float).reshape(len(rows), len(arms), -1) / PER_UNIT
    sums = evidence.closed_sums  # then come the closed ones, and the count of these
    # (N, K)
    pulls = values[..., 2 * sums]
    totals = values[..., sums] * evidence.scale
    names = list(ledgers)
    identity = exchange.identity
    order = sorted(range(len(names)), key=lambda i: (names[i] != identity, -pulls[i].sum()))
    gains: list[float | None] = [None] * len(names)
    if table is not None and len(names) > 1:
        gains = _sharing_gains(evidence, pooling, table)
    sites = {
        names[i]: Site(
            {arm: _site_arm(pulls[i, k], totals[i, k]) for k, arm in enumerate(arms)}, gains[i]
        )
        for i in order[:MOST_SITES]
    }
    outliers = [
        outlier
        for k in differing
        for outlier in _find_outliers(evidence, names, arms[k], pulls[:, k], totals[:, k])
    ]
    return SiteMap(sites, tuple(outliers), max(0, len(names) - MOST_SITES))


def _site_arm(pulls: float, total: float) -> SiteArm:
    return SiteArm(float(pulls), float(total / pulls) if pulls > 0 else None)


def _sharing_gains(
    evidence: Evidence, pooling: SitePooling, table: SiteTable
) -> list[float | None]:
    """Return how many times its own evidence each site has for the leading arm, by variance."""
    # (2, N, K)
    family = evidence.at_mean
    closed = table.closed
    prior = family.prior()[:, None]
    pooled = prior + closed.sum(axis=1)  # (2, K)
    leader = int(np.argmax(family.posterior_mean(pooled)))
    alone = prior + closed[:, :, leader]  # (2, N)
    if pooling.pools_fully:
        shared = np.broadcast_to(pooled[:, leader, None], alone.shape)
    else:
        shared = pooling.build_sites(table).site_beliefs(for_display=True)[:, :, leader]

    def interval_width(belief: FloatArray) -> FloatArray:
        return np.asarray(family.mean_quantile(belief, 0.975) - family.mean_quantile(belief, 0.025))

    ratio = (interval_width(alone) / interval_width(shared)) ** 2
    has_evidence = np.isfinite(ratio) & (np.abs(closed[:, :, leader]).sum(axis=0) > 0)
    return [float(gain) if ok else None for gain, ok in zip(ratio, has_evidence, strict=True)]


def _find_outliers(
    evidence: Evidence, names: Sequence[str], arm: str, pulls: FloatArray, totals: FloatArray
) -> list[SiteOutlier]:
    """Find the sites that make an arm differ: the farthest from all others, then of the rest again.

    Otherwise one site that is far off would make the other sites look like outliers, too.
    """
    outliers: list[SiteOutlier] = []
    remaining = [i for i in range(len(names)) if pulls[i] > 0]
    while len(remaining) > 1:
        n = pulls[remaining]
        total = totals[remaining]
        pulls_elsewhere = n.sum() - n
        elsewhere = (total.sum() - total) / pulls_elsewhere
        pooled = np.array([total.sum() / n.sum()])
        variance = float(get_optional(evidence.at_mean, "variance")(pooled)[0])
        if not variance > 0:
            break
        errors = (total / n - elsewhere) / np.sqrt(variance * (1 / n + 1 / pulls_elsewhere))
        farthest = int(np.argmax(np.abs(errors)))
        if abs(errors[farthest]) < OUTLIER_ERRORS:
            break
        higher = bool(errors[farthest] > 0)
        outliers.append(
            SiteOutlier(names[remaining[farthest]], arm, higher, float(elsewhere[farthest]))
        )
        del remaining[farthest]
    return outliers
