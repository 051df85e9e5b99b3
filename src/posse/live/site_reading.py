"""How an agent reads the evidence of other sites: like its own, or for what it is worth here.

How far sites differ is told from closed decisions (unequal delays would look like differing
sites), and what follows from it is applied to what agents act on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from posse import checks
from posse.families.abilities import ability
from posse.live.evidence import Evidence
from posse.live.exchange import Exchange
from posse.live.exchange.quanta import PER_UNIT
from posse.live.powers import Powers
from posse.race import fine
from posse.randomness import FloatArray
from posse.sites import SURE, Sites, check

WATCH = 10  # ticks between two looks at whether sites that are taken for alike are
SITES_IN_CONTEXT = (
    "sites = {!r} does not go with a context: make the site a category of the context instead"
)
OVER = 0.5  # the probability to be alike from which on a warning ends


def check_sites(sites: str | float) -> str | float:
    """Refuse what does not say how sites compare."""
    if isinstance(sites, str):
        return checks.choice("sites", sites, ("alike", "differ"))
    return checks.number("sites", sites, at_least=0, at_most=1e30)


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
        self._evidence, self._exchange, self._arms = evidence, exchange, list(arms)
        known = hasattr(exchange, "by_origin") and not evidence.signs  # flows have signs
        self._family, contexts = evidence.at_mean, evidence.features > 0
        variance = ability(self._family, "variance")(np.array([0.5]))
        self.able = known and steady and variance is not None and not contexts
        if self.pools:
            self.site_sd = None
        elif contexts:
            raise ValueError(SITES_IN_CONTEXT.format(sites))
        elif not known:
            raise ValueError(
                f"sites = {sites!r} needs exchange 'origins': flows do not know whose evidence it "
                "is"
            )
        elif not steady:
            raise ValueError(
                f"sites = {sites!r} does not go with half_life: "
                "means that drift cannot be told from sites that differ"
            )
        else:
            check(self._family)
            self.site_sd = None if sites == "differ" else float(sites)
        self.differences = Differences(None)
        self._others: FloatArray | None = None
        self._revision, self._ticks = -1, 0

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
        self._others, self._revision = None, -1

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
            read = sites.belief(acted=table.acted)[:, table.own] - table.acted[:, table.own]
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
        return self.of(table).belief(showing=True)[:, table.own]

    def facts(self, table: Table) -> list[dict[str, float | bool]]:
        """Of each arm the mean over sites with its 95% interval, and how far they differ."""
        if not table.several:
            return [{}] * len(self._arms)
        family, sites = self._family, self.of(table)
        network, (sd, _, _) = sites.network(), sites.sd_between()
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
        losses = [float(fine(family, each)[1].min()) for each in (alone, self.shown(table))]
        return Sharing(*losses)

    def table(self) -> Table:
        """What is known of every site now."""
        ledgers, own = self._exchange.by_origin(), self._exchange.identity
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
        alike = float(sites.all_alike())
        if alike >= (OVER if self.differences.differ else SURE):
            return Differences(alike)
        by_arm = sites.alike()
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
