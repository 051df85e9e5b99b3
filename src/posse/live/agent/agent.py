"""One agent without I/O (sans-I/O): it chooses, learns, and exchanges evidence with neighbours."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from operator import neg
from typing import Any

import numpy as np

from posse import validation
from posse.contexts import Contexts, Features
from posse.families import Model
from posse.live.agent.action_selection import Choice, Chooser, Shares
from posse.live.agent.arm_status import ArmStatus as ArmStatus
from posse.live.agent.arm_status import ArmSummaries, Linearizer, encode_context, make_schema
from posse.live.agent.context_evidence import ExpansionPoint
from posse.live.agent.factory import (
    NO_WINNER_OF_CONTEXTS,
    check_measures,
    check_message_size,
    fingerprint_agent,
    make_evidence,
    make_exchange,
    validate_arm_names,
    validate_options,
)
from posse.live.agent.measures import Measures
from posse.live.agent.posterior import ArmSubset, Posteriors
from posse.live.agent.rendezvous_hashing import VisitorHash, validate_visitor
from posse.live.agent.side_sums import SideSums
from posse.live.agent.site_pooling import (
    SharingGain,
    SiteDifferences,
    SiteMap,
    SitePooling,
    build_site_map,
)
from posse.live.agent.verdicts import Judge, Judgement, NamedVerdict, Stop
from posse.live.exchange import DEFAULT, Outgoing
from posse.live.ledger import Ledger
from posse.policies import Policy, ThompsonSampling
from posse.randomness import FloatArray
from posse.stopping import validate_tolerance
from posse.summary import Lift

MOST_DECISIONS = 100_000  # decisions, of which the oldest is forgotten first


@dataclass(frozen=True)
class Decision:
    """An arm to play and its propensity, the probability with which it was chosen."""

    id: str
    arm: str
    probability: float
    recorded: bool = True  # False: a client's fallback, which no agent knows of


class Agent:
    """A live agent: it plays by a policy and learns from own rewards and its neighbours' evidence.

    arms: names. family: the reward model with its prior. exchange: "origins" or "flows", and
    exchange_options: its further arguments. min_share: the least probability of an allowed arm.
    new_arm_share: the largest total probability of new arms, those with fewer than new_arm_pulls
    closed decisions, while other arms are allowed. stop: the stopping rule; then neighbours must
    have the same attribution window for rewards, `reward_window` seconds. half_life: seconds after
    which evidence weighs half (for non-stationary rewards); the time is that of `tick`, before the
    first tick that of the option `clock`. There are no files and no network: `tick` and `receive`
    exchange messages, so a loop over some agents in memory is the simplest network.

    silent_default: the reward of a decision that is never rewarded, if decisions count from the
    start (`count_decision`). sites: "alike": evidence of other sites counts like own evidence;
    "differ": it is discounted by the heterogeneity between sites, which is estimated (empirical
    Bayes); a number: the known standard deviation between sites (`posse.sites`). The evidence of
    other sites is read once a tick.

    context: the schema of visitors' features, a `posse.Contexts` or its table of fields, for the
    families `Logistic` and `Linear`; then every decision is made at a context. measures: a holdout
    and metrics, which the caller observes through `side`.
    """

    def __init__(
        self,
        arms: Sequence[str],
        family: Model,
        *,
        policy: Policy | None = None,
        exchange: str = "origins",
        reward_range: tuple[float, float] | None = None,
        network_size: int | None = None,
        exchange_options: Mapping[str, Any] | None = None,
        horizon: int | None = None,
        min_share: float = 0.0,
        new_arm_share: float | None = None,
        new_arm_pulls: int = 100,
        seed: int | None = None,
        stop: Stop | None = None,
        reward_window: float | None = None,
        silent_default: float | None = None,
        sites: str | float = "alike",
        half_life: float | None = None,
        context: Contexts | Mapping[str, Any] | None = None,
        measures: Measures = Measures(),  # noqa: B008 (frozen)
    ) -> None:
        names = validate_arm_names(arms)
        self.policy = policy or ThompsonSampling()
        self.stop = stop
        self.half_life = half_life
        self.context = make_schema(context)
        shares = Shares(min_share, new_arm_share, new_arm_pulls)
        shares.check_arm_count(len(names))
        options = validate_options(exchange, exchange_options, network_size, half_life)
        self._evidence = make_evidence(exchange, family, reward_range, silent_default, self.context)
        self.family = self._evidence.family
        self.visitor_hash = VisitorHash(
            options.get("network", ""), options.get("experiment", DEFAULT)
        )
        self._chooser = Chooser(
            self.policy, self._evidence.at_mean, horizon, shares, self.visitor_hash
        )
        self._chooser.check_policy(len(names), self.context is not None)
        if stop is not None and self.context is not None:
            raise ValueError(NO_WINNER_OF_CONTEXTS)
        if stop is not None:
            validate_tolerance(stop.tolerance, self._evidence.at_mean)
        # Verdicts compare rewards, which is fair only if all had the same attribution window:
        # agents with another window get another fingerprint and do not exchange.
        terms: dict[str, float | str | None] = measures.fingerprint_terms()
        if stop is not None:
            terms["reward_window"] = reward_window
        if half_life is not None:
            terms["half_life"] = half_life
        self.measures = measures
        measures.check_arms(names)
        check_message_size(self._evidence, names, measures)
        if measures:
            check_measures(exchange, half_life)
            options["side"] = SideSums.largest_observation(self._evidence)
        self.fingerprint = fingerprint_agent(exchange, self._evidence, options, terms)
        self.exchange = make_exchange(exchange, self._evidence, options, self.fingerprint)
        self.side = (  # None: nothing is measured beside rewards
            SideSums(measures, self.exchange, self._evidence, self.visitor_hash)
            if measures
            else None
        )
        self._judge = Judge(stop, self._evidence, self.exchange, self.policy)
        self._rebuild(names, sites)
        self._generator = np.random.default_rng(seed)
        # id -> (arm, reward, features); a node stores decisions on disk instead
        self._decisions: dict[str, tuple[str, float | None, FloatArray | None]] = {}
        self._rounds: int | None = None  # decisions so far; None: as many as own rewards

    def pull(
        self,
        allowed: Sequence[str] | None = None,
        context: Mapping[str, Any] | None = None,
        visitor: str | None = None,
    ) -> Decision:
        """Decide which arm to play now, of all arms or of those allowed, at a context.

        visitor: gets the same arm at every agent, as long as the probabilities are the same.
        """
        visit = self.encode_context(context)
        (choice,) = self.draw_choices([allowed], [visit], [visitor])
        decision = Decision(secrets.token_hex(16), choice.arm, choice.probability)
        self._remember_decision(decision.id, choice.arm, None, None if visit is None else visit.x)
        return decision

    def choose(
        self, allowed: Sequence[str] | None = None, context: Mapping[str, Any] | None = None
    ) -> tuple[str, float]:
        """Choose an arm and return it with its propensity; the caller stores the decision."""
        (choice,) = self.draw_choices([allowed], [self.encode_context(context)])
        return choice.arm, choice.probability

    def encode_context(self, context: Mapping[str, Any] | None) -> Features | None:
        """Return the validated features of a context; None if there is no schema."""
        return encode_context(self.context, context)

    def choose_many(self, allowed_sets: Sequence[Sequence[str] | None]) -> list[tuple[str, float]]:
        """Choose a batch of arms by the present belief, one for each allowed set (None: all).

        Choices between the same arms are drawn at once, unless the policy depends on the round.
        """
        return [(choice.arm, choice.probability) for choice in self.draw_choices(allowed_sets)]

    def draw_choices(
        self,
        allowed_sets: Sequence[Sequence[str] | None],
        visits: Sequence[Features | None] | None = None,
        visitors: Sequence[str | None] | None = None,
    ) -> list[Choice]:
        """Choose a batch of arms, with the propensities of all allowed arms.

        visits: features; visitors: ids, None for those without.
        """
        every = self._find_subset(None)  # once: most requests of a batch allow all arms
        subsets = [
            every if allowed is None else self._find_subset(allowed) for allowed in allowed_sets
        ]
        visitors = visitors or [None] * len(subsets)
        for visitor in visitors:
            if visitor is not None:
                validate_visitor(visitor)
        self.count_rounds()
        if self.context is not None:
            places = visits or [self.encode_context(None)] * len(allowed_sets)  # which refuses
            x = [visit.x for visit in places if visit is not None]
            return self._choose_arms_at(subsets, x, visitors)
        # Index policies depend on the round: they must choose one by one.
        if len(subsets) == 1 or not self._chooser.timeless:
            return [
                self._choose_arms(subset, [visitor])[0]
                for subset, visitor in zip(subsets, visitors, strict=True)
            ]
        visitors_by_subset: dict[ArmSubset, list[str | None]] = {}
        for subset, visitor in zip(subsets, visitors, strict=True):
            visitors_by_subset.setdefault(subset, []).append(visitor)
        choices = {
            subset: iter(self._choose_arms(subset, group))
            for subset, group in visitors_by_subset.items()
        }
        return [next(choices[subset]) for subset in subsets]

    def probabilities(self) -> dict[str, float]:
        """Return the probability (propensity) of each arm in the next decision; nothing is drawn.

        With contexts, that at the average features.
        """
        subset = self._find_subset(None)
        t = self.count_rounds() + 1
        if self.context is None:
            chances = self._chooser.probabilities(self._posteriors, subset, t)
        else:
            at = self.average_features()[None]
            (chances,) = self._chooser.probabilities_at(self._posteriors, subset, at, t)
        return dict(zip(subset.names, chances.tolist(), strict=True))

    def count_rounds(self) -> int:
        """Count the decisions so far: an index policy must not start again with every process."""
        if self._rounds is None:
            rows = self.exchange.own().values()
            self._rounds = int(sum(self._evidence.count_pulls(quanta) for quanta in rows))
        return self._rounds

    def _choose_arms(self, subset: ArmSubset, visitors: Sequence[str | None]) -> list[Choice]:
        """Choose between the same arms for each of some visitors."""
        assert self._rounds is not None
        self._rounds += len(visitors)
        return self._chooser.choose_arms(
            self._posteriors, subset, self._rounds, visitors, self._generator
        )

    def _choose_arms_at(
        self,
        subsets: Sequence[ArmSubset],
        places: Sequence[FloatArray],
        visitors: Sequence[str | None],
    ) -> list[Choice]:
        """Choose at each of some contexts."""
        first = self.count_rounds() + 1
        self._rounds = self.count_rounds() + len(subsets)
        return self._chooser.choose_all_at(
            self._posteriors, subsets, places, first, visitors, self._generator
        )

    @property
    def shares(self) -> Shares:
        """The least share of every arm and the largest total share of new arms."""
        return self._chooser.shares

    def set_arms(self, names: Sequence[str], shares: Shares | None = None) -> None:
        """Play these arms from now on; evidence of removed arms is kept and still exchanged.

        shares: the shares from now on, if they change too.
        """
        names = validate_arm_names(names)
        shares = shares or self.shares
        shares.check_arm_count(len(names))
        self._chooser.check_policy(len(names), self.context is not None)
        self.measures.check_arms(names)
        check_message_size(self._evidence, names, self.measures)
        self._chooser.shares = shares
        self._rebuild(names, self.sites)

    @property
    def sites(self) -> str | float:
        """How evidence of other sites is read: "alike", "differ", or a known standard deviation."""
        return self._pooling.sites

    def set_sites(self, sites: str | float) -> None:
        """Read the evidence of other sites in another way from now on."""
        self._rebuild(self.arm_names, sites)
        # A named winner stays named; only cached judgements are dropped.
        named_verdict = self._judge.named
        self._judge = Judge(self.stop, self._evidence, self.exchange, self.policy)
        self._judge.named = named_verdict

    def measure_sharing(
        self, lock: AbstractContextManager[Any] | None = None
    ) -> SharingGain | None:
        """Return the expected loss of stopping now, by own evidence and by all; None under flows.

        lock: as in `arms`.
        """
        with nullcontext() if lock is None else lock:
            if not self._pooling.can_compare:
                return None
            reading = self._pooling
            table = self._pooling.build_table()
        return reading.measure_sharing(table)

    def build_site_map(self, lock: AbstractContextManager[Any] | None = None) -> SiteMap:
        """Return the evidence of each site for every arm, and the outliers; lock: as in `arms`."""
        lock = nullcontext() if lock is None else lock
        return build_site_map(self._evidence, self.exchange, self.arm_names, self._pooling, lock)

    @property
    def differences(self) -> SiteDifferences:
        """Whether sites differ, as of the last check."""
        return self._pooling.differences

    def update(self, decision: Decision | str, reward: float) -> bool:
        """Learn the reward of a decision; idempotent: a repetition returns False."""
        id_ = decision.id if isinstance(decision, Decision) else decision
        if id_ not in self._decisions:
            raise ValueError(f"decision {id_!r} is unknown or was forgotten")
        arm, before, x = self._decisions[id_]
        if before is not None:
            if before == reward:
                return False
            raise ValueError(f"decision {id_!r} already has the reward {before}, got {reward}")
        self.learn(arm, reward, x=x)
        self._remember_decision(id_, arm, float(reward), x)
        return True

    def expansion_point(self, arm: str, x: FloatArray | None) -> ExpansionPoint | None:
        """Return the point at which a reward of an arm is linearised now; None without features."""
        return self._linearizer(arm, x)

    def learn(
        self,
        arm: str,
        reward: float,
        incarnation: int = 0,
        at: float | None = None,
        x: FloatArray | None = None,
    ) -> None:
        """Add the reward of an arm, played by this agent, to its own evidence.

        incarnation: that of the decision, from `exchange.begin_decision` (0: the present one);
        at: its time; x: its features.
        """
        quanta = self._evidence.quantize_reward(
            reward, self._generator, self.expansion_point(arm, x)
        )
        self.exchange.observe(arm, quanta, incarnation, at)

    def count_decision(
        self,
        arm: str,
        assumed: float,
        incarnation: int = 0,
        at: float | None = None,
        point: ExpansionPoint | None = None,
    ) -> None:
        """Count a decision from its start with an assumed reward.

        point: its `expansion_point`, which the caller must store with the decision.
        """
        quanta = self._evidence.quantize_decision(assumed, point)
        self.exchange.observe(arm, quanta, incarnation, at)

    def cancel_decision(
        self,
        arm: str,
        assumed: float,
        incarnation: int,
        at: float | None = None,
        point: ExpansionPoint | None = None,
    ) -> None:
        """Take back what `count_decision` has counted with the same arguments."""
        quanta = self._evidence.quantize_decision(assumed, point)
        self.exchange.observe(arm, tuple(map(neg, quanta)), incarnation, at)

    def correct_reward(
        self,
        arm: str,
        assumed: float,
        reward: float,
        incarnation: int,
        at: float | None = None,
        point: ExpansionPoint | None = None,
    ) -> None:
        """Replace the reward assumed at the start of a decision by its real (delayed) reward."""
        quanta = self._evidence.quantize_correction(assumed, reward, point)
        self.exchange.observe(arm, quanta, incarnation, at)

    def close_decision(
        self,
        arm: str,
        reward: float,
        incarnation: int,
        at: float | None = None,
        point: ExpansionPoint | None = None,
    ) -> None:
        """Mark the reward of a counted decision as final, so that reports include it."""
        closing_point = point
        if point is not None and point.log_odds is not None:
            # Linearise again at what is known now: the estimate has moved since the decision.
            closing_point = self.expansion_point(arm, point.x)
        quanta = self._evidence.quantize_closing(reward, self._generator, point, closing_point)
        self.exchange.observe(arm, quanta, incarnation, at)

    @property
    def belief(self) -> FloatArray:
        """The posterior that the agent acts on, (D, K); tempered under flows."""
        return self._posteriors.current

    def arms(
        self,
        lock: AbstractContextManager[Any] | None = None,
        context: Mapping[str, Any] | None = None,
    ) -> dict[str, ArmStatus]:
        """Summarize every arm: mean, interval, P(best), expected loss, pulls.

        lock: held while evidence is read, not while the belief is summarized, which is slow.
        context: the known fields of a visitor; the others are at their averages so far.
        """
        if context is not None and self.context is None:
            self.encode_context(context)  # which refuses
        return self._summaries.summarize_arms(nullcontext() if lock is None else lock, context)

    def estimate_lift(
        self, first: str, second: str, lock: AbstractContextManager[Any] | None = None
    ) -> Lift | None:
        """Estimate by how much the mean of one arm exceeds that of another; lock: as in `arms`."""
        return self._summaries.estimate_lift(nullcontext() if lock is None else lock, first, second)

    def average_features(self) -> FloatArray:
        """Return the average features of closed decisions, (d,); needs a `context`."""
        return self._summaries.average_features(self.exchange.evidence())

    def verdict(
        self, lock: AbstractContextManager[Any] | None = None, now: float | None = None
    ) -> Judgement:
        """Judge by closed decisions whether the experiment may stop; needs `stop`.

        Nothing stops by itself. Where sites differ, the verdict is about this site. A winner stays
        one until the arms change. lock: as in `arms`; now: the time, to report since when it is so.
        """
        lock = nullcontext() if lock is None else lock
        return self._judge.judge_arms(self.arm_names, self.sites != "alike", lock, now)

    @property
    def named_verdict(self) -> NamedVerdict | None:
        """The winner, or "no difference", named so far: part of the durable state."""
        return self._judge.named

    @named_verdict.setter
    def named_verdict(self, named: NamedVerdict | None) -> None:
        self._judge.named = named

    @property
    def reward_range(self) -> tuple[float, float]:
        """The lowest and the highest possible reward."""
        return self._evidence.reward_range

    @property
    def can_count_open(self) -> bool:
        """Whether decisions can count before their reward (flows: with `silent_default`)."""
        return self._evidence.closed

    def check_reward(self, reward: float) -> None:
        """Refuse an impossible reward with one sentence."""
        self._evidence.check_reward(reward)

    def count_pulls(self, ledger: Ledger) -> float:
        """Count the pulls, open ones included, in the evidence of all arms."""
        return sum(map(self._evidence.count_pulls, ledger.values()))

    def summarize_pulls(self, quanta: Sequence[int]) -> tuple[float, float, float]:
        """Return pulls, closed pulls and the sum of their rewards; empty quanta are no pulls."""
        if not quanta:
            return 0.0, 0.0, 0.0
        evidence = self._evidence
        return evidence.count_pulls(quanta), evidence.closed_count(quanta), self.reward_sum(quanta)

    def reward_sum(self, quanta: Sequence[int]) -> float:
        """Return the sum of the rewards of the closed decisions in these quanta."""
        return self._evidence.reward_sum(self._evidence.closed_part(quanta))

    def own_pulls(self) -> tuple[int, int]:
        """Count the own pulls, and the open ones among them."""
        rows = self.exchange.own().values()
        pulls = map(self._evidence.count_pulls, rows)
        open_pulls = map(self._evidence.open_count, rows)
        return round(sum(pulls)), round(sum(open_pulls))

    def connect(self, peer: str) -> None:
        """Begin to exchange with a neighbour."""
        self.exchange.connect(peer)

    def disconnect(self, peer: str) -> None:
        """Stop exchanging with a neighbour; nothing is forgotten."""
        self.exchange.disconnect(peer)

    def tick(self, now: float) -> Outgoing:
        """Return the messages that are due, as (neighbour, message)."""
        self._pooling.tick()
        return self.exchange.tick(now)

    def receive(self, peer: str, message: object, now: float) -> Outgoing:
        """Process a message of a neighbour and return the answers to send."""
        return self.exchange.receive(peer, message, now)

    def state(self) -> dict[str, Any]:
        """Return the durable state as plain JSON values."""
        return {"fingerprint": self.fingerprint, "exchange": self.exchange.state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        if state.get("fingerprint") != self.fingerprint:
            raise ValueError(
                "the state belongs to an agent with another exchange, family or prior: give one "
                "of this agent"
            )
        self.exchange.restore(state["exchange"])
        self._pooling.reset()

    def _rebuild(self, names: list[str], sites: str | float) -> None:
        """Build posteriors and summaries for these arms; no cache of other arms is of use."""
        sums = (self._evidence, self.exchange, names)
        steady = self.half_life is None
        self.arm_names = names
        self._pooling = SitePooling(*sums, sites, steady)
        self._posteriors = Posteriors(*sums, pooling=self._pooling)
        self.closed_posteriors = Posteriors(*sums, closed_only=True)
        self._linearizer = Linearizer(*sums, self._posteriors, self.closed_posteriors)
        self._summaries = ArmSummaries(*sums, self._pooling, self.closed_posteriors)

    def _find_subset(self, allowed: Sequence[str] | None) -> ArmSubset:
        """Return the cached subset of the allowed arms; a new subset is validated."""
        if isinstance(allowed, str) or (allowed is not None and not allowed):
            raise ValueError(f"allowed must be a list of arms, at least one, got {allowed!r}")
        key = () if allowed is None else tuple(allowed)
        try:
            subset = self._posteriors.find_subset(key)
        except TypeError:  # a list in place of a name
            subset = None
        if subset is None:
            names = [validation.validate_choice("arm", name, self.arm_names) for name in key]
            subset = self._posteriors.add_subset(key, list(dict.fromkeys(names)) or self.arm_names)
        return subset

    def _remember_decision(
        self, id_: str, arm: str, reward: float | None, x: FloatArray | None = None
    ) -> None:
        self._decisions.pop(id_, None)
        self._decisions[id_] = arm, reward, x
        if len(self._decisions) > MOST_DECISIONS:
            self._decisions.pop(next(iter(self._decisions)))
