"""One agent without I/O (sans-I/O): it chooses, learns, and exchanges evidence with neighbours."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from posse import validation
from posse.contexts import Contexts, Features
from posse.families.family import Model
from posse.live.agent.action_selection import Choice, Chooser, Shares
from posse.live.agent.arm_status import ArmStatus as ArmStatus
from posse.live.agent.arm_status import Showing
from posse.live.agent.context_evidence import Met
from posse.live.agent.factory import (
    NO_WINNER_OF_CONTEXTS,
    arm_names,
    check_room,
    checked_options,
    evidence_of,
    exchange_of,
    spelled,
)
from posse.live.agent.posterior import Beliefs, Subset
from posse.live.agent.site_pooling import Differences, Sharing, SiteMap, SiteReading, site_map
from posse.live.agent.verdicts import Judge, Judgement, NamedVerdict, Stop
from posse.live.agent.visitor_features import Meeting, features_of, schema_of
from posse.live.exchange.ledger import Ledger
from posse.live.exchange.seam import Outgoing
from posse.policies.policy import Policy
from posse.policies.thompson import ThompsonSampling
from posse.randomness import FloatArray

REMEMBERED = 100_000  # decisions, of which the oldest is forgotten first


@dataclass(frozen=True)
class Decision:
    """An arm to play, and the probability with which it was chosen."""

    id: str
    arm: str
    probability: float
    recorded: bool = True  # False: a client's fallback, which no agent knows of


class Agent:
    """Plays by a policy, learns from its own rewards and from its neighbours' evidence.

    arms: names; family: the reward model with its prior; exchange: "origins" or "flows", and
    exchange_options: its further arguments. min_share: the least probability of an allowed arm;
    new_arm_share: the most that arms of fewer than new_arm_pulls closed decisions get together,
    while others are allowed. stop: when people want to stop; then neighbours must wait as long for
    rewards, `reward_window` seconds. half_life: seconds after which evidence is worth half; time is
    that of `tick`, and before the first that of the option `clock`. No files, no network: `tick`
    and `receive` pass messages, and a loop over some agents in memory is the simplest network.

    silent_default: the reward that silence means, if decisions count from the start (`begin`).
    sites: "alike": the evidence of others counts like the own; "differ": for what it is worth here,
    as learnt from how far sites differ; a number: their standard deviation (`posse.sites`), if it
    is known. Others are read once a tick.

    context: what is known of a visitor, a `posse.Contexts` or its table of fields, for the families
    `Logistic` and `Linear`; then every decision is made at a context.
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
    ) -> None:
        names = arm_names(arms)
        self.policy = policy or ThompsonSampling()
        self.stop = stop
        self.half_life = half_life
        self.context = schema_of(context)
        shares = Shares(min_share, new_arm_share, new_arm_pulls)
        shares.check(len(names))
        options = checked_options(exchange, exchange_options, network_size, half_life)
        self._evidence = evidence_of(exchange, family, reward_range, silent_default, self.context)
        self.family = self._evidence.family
        self._chooser = Chooser(self.policy, self._evidence.at_mean, horizon, shares)
        self._chooser.check(len(names), self.context is not None)
        check_room(self._evidence, names)
        if stop is not None and self.context is not None:
            raise ValueError(NO_WINNER_OF_CONTEXTS)
        # rewards that were waited for differently are none to compare
        terms = {} if stop is None else {"reward_window": reward_window}
        if half_life is not None:
            terms["half_life"] = half_life
        self.fingerprint = spelled(exchange, self._evidence, options, terms)
        self.exchange = exchange_of(exchange, self._evidence, options, self.fingerprint)
        self._judge = Judge(stop, self._evidence, self.exchange, self.policy)
        self._use(names, sites)
        self._generator = np.random.default_rng(seed)
        # arm, reward, features
        self._decisions: dict[str, tuple[str, float | None, FloatArray | None]] = {}
        self._rounds: int | None = None  # decisions so far; None: as many as own rewards

    def pull(
        self, allowed: Sequence[str] | None = None, context: Mapping[str, Any] | None = None
    ) -> Decision:
        """A decision: which arm to play now, of all or of those allowed, at a context."""
        visit = self.features(context)
        (choice,) = self.choices([allowed], [visit])
        decision = Decision(secrets.token_hex(16), choice.arm, choice.probability)
        self._remember(decision.id, choice.arm, None, None if visit is None else visit.x)
        return decision

    def choose(
        self, allowed: Sequence[str] | None = None, context: Mapping[str, Any] | None = None
    ) -> tuple[str, float]:
        """An arm and the probability with which it is chosen, for who remembers it elsewhere."""
        (choice,) = self.choices([allowed], [self.features(context)])
        return choice.arm, choice.probability

    def features(self, context: Mapping[str, Any] | None) -> Features | None:
        """A context as features, checked; None where there is no schema, and must be none."""
        return features_of(self.context, context)

    def choose_many(self, wishes: Sequence[Sequence[str] | None]) -> list[tuple[str, float]]:
        """A batch of decisions on the present belief, for each of its allowed arms (None: all).

        Wishes for the same arms are drawn at once, unless the policy's scores depend on the round.
        """
        return [(choice.arm, choice.probability) for choice in self.choices(wishes)]

    def choices(
        self,
        wishes: Sequence[Sequence[str] | None],
        visits: Sequence[Features | None] | None = None,
    ) -> list[Choice]:
        """The same with the probabilities of all allowed arms; visits: where each is made."""
        subsets = [self._subset(allowed) for allowed in wishes]
        self._count_rounds()
        if self.context is not None:
            places = visits or [self.features(None)] * len(wishes)  # which refuses
            return self._choose_at(subsets, [each.x for each in places if each is not None])
        if len(subsets) == 1 or not self._chooser.timeless:
            return [self._choose(subset, 1)[0] for subset in subsets]
        drawn = {
            subset: iter(self._choose(subset, count)) for subset, count in Counter(subsets).items()
        }
        return [next(drawn[subset]) for subset in subsets]

    def probabilities(self) -> dict[str, float]:
        """With which probability the next decision plays each arm; nothing is drawn.

        With contexts, that of the average visit.
        """
        subset = self._subset(None)
        t = self._count_rounds() + 1
        if self.context is None:
            chances = self._chooser.probabilities(self._beliefs, subset, t)
        else:
            at = self.average()[None]
            (chances,) = self._chooser.probabilities_at(self._beliefs, subset, at, t)
        return dict(zip(subset.names, chances.tolist(), strict=True))

    def _count_rounds(self) -> int:
        """Decisions so far: an index policy must not begin anew with every process."""
        if self._rounds is None:
            own = self.exchange.own().values()
            self._rounds = int(sum(self._evidence.count(quanta) for quanta in own))
        return self._rounds

    def _choose(self, subset: Subset, count: int) -> list[Choice]:
        """So many decisions between the same arms."""
        assert self._rounds is not None
        self._rounds += count
        return self._chooser.choose(self._beliefs, subset, self._rounds, count, self._generator)

    def _choose_at(self, subsets: Sequence[Subset], places: Sequence[FloatArray]) -> list[Choice]:
        """Decisions at contexts."""
        first = self._count_rounds() + 1
        self._rounds = self._count_rounds() + len(subsets)
        return self._chooser.choose_all_at(self._beliefs, subsets, places, first, self._generator)

    @property
    def shares(self) -> Shares:
        """The least share of every arm, and the most that new ones get together."""
        return self._chooser.shares

    def set_arms(self, names: Sequence[str], shares: Shares | None = None) -> None:
        """Play these arms from now on; evidence of the others is kept, and travels as before.

        shares: other ones from now on, too.
        """
        names = arm_names(names)
        shares = shares or self.shares
        shares.check(len(names))
        self._chooser.check(len(names), self.context is not None)
        check_room(self._evidence, names)
        self._chooser.shares = shares
        self._use(names, self.sites)

    @property
    def sites(self) -> str | float:
        """How sites compare: "alike", "differ", or by a known standard deviation."""
        return self._reading.sites

    def set_sites(self, sites: str | float) -> None:
        """Read the evidence of others in another way from now on."""
        self._use(self.arm_names, sites)
        named = self._judge.named
        self._judge = Judge(self.stop, self._evidence, self.exchange, self.policy)
        self._judge.named = named

    def sharing(self, lock: AbstractContextManager[Any] | None = None) -> Sharing | None:
        """What settling now would give up by own closed decisions, and with others'; None: flows.

        lock: as in `arms`.
        """
        with nullcontext() if lock is None else lock:
            if not self._reading.able:
                return None
            reading = self._reading
            table = self._reading.table()
        return reading.sharing(table)

    def site_map(self, lock: AbstractContextManager[Any] | None = None) -> SiteMap:
        """What each site saw of every arm, and where one differs; lock: as in `arms`."""
        lock = nullcontext() if lock is None else lock
        return site_map(self._evidence, self.exchange, self.arm_names, self._reading, lock)

    @property
    def differences(self) -> Differences:
        """Whether sites differ, as of some ticks ago."""
        return self._reading.differences

    def update(self, decision: Decision | str, reward: float) -> bool:
        """Learn the reward of a decision; idempotent: a repetition changes nothing and is False."""
        id_ = decision.id if isinstance(decision, Decision) else decision
        if id_ not in self._decisions:
            raise ValueError(f"decision {id_!r} is unknown, or too old to be remembered")
        arm, before, x = self._decisions[id_]
        if before is not None:
            if before == reward:
                return False
            raise ValueError(
                f"decision {id_!r} already has the reward {before}: "
                f"it cannot get the reward {reward}"
            )
        self.learn(arm, reward, x=x)
        self._remember(id_, arm, float(reward), x)
        return True

    def meet(self, arm: str, x: FloatArray | None) -> Met | None:
        """Where a reward of an arm is counted now; None without features. See `Meeting`."""
        return self._meeting(arm, x)

    def learn(
        self,
        arm: str,
        reward: float,
        made: int = 0,
        at: float | None = None,
        x: FloatArray | None = None,
    ) -> None:
        """Add the reward of an arm, played by this agent, to its own evidence.

        made: what `exchange.incarnation()` was, at: the time, and x: the features, when its
        decision was made.
        """
        quanta = self._evidence.of_reward(reward, self._generator, self.meet(arm, x))
        self.exchange.observe(arm, quanta, made=made, at=at)

    def begin(
        self, arm: str, assumed: float, at: float | None = None, met: Met | None = None
    ) -> int:
        """Count a decision from its start, with the reward that silence means; its `made`.

        met: where, see `meet`; to be kept with it.
        """
        return self.exchange.observe(arm, self._evidence.of_decision(assumed, met), at=at)

    def correct(
        self,
        arm: str,
        assumed: float,
        reward: float,
        made: int,
        at: float | None = None,
        met: Met | None = None,
    ) -> None:
        """Put the reward of a decision in place of the one assumed when it began."""
        quanta = self._evidence.of_correction(assumed, reward, met)
        self.exchange.observe(arm, quanta, made=made, at=at)

    def close(
        self,
        arm: str,
        reward: float,
        made: int,
        at: float | None = None,
        met: Met | None = None,
    ) -> None:
        """The reward of a decision that began is final: from now on people are shown it."""
        closed = met
        if met is not None and met.log_odds is not None:
            closed = self.meet(arm, met.x)  # by what is known now
        quanta = self._evidence.of_closing(reward, self._generator, met, closed)
        self.exchange.observe(arm, quanta, made=made, at=at)

    @property
    def belief(self) -> FloatArray:
        """The posterior the agent acts on, (D, K): prior and evidence, tempered under flows."""
        return self._beliefs.now

    def arms(
        self,
        lock: AbstractContextManager[Any] | None = None,
        context: Mapping[str, Any] | None = None,
    ) -> dict[str, ArmStatus]:
        """Every arm: mean, interval, chance of being the best, loss, pulls here and everywhere.

        lock: held while the agent is read, but not while its belief is summed up, which takes long.
        context: for visitors of whom this is known; all else is as in the average visit so far.
        """
        if context is not None and self.context is None:
            self.features(context)  # which refuses
        return self._showing.arms(nullcontext() if lock is None else lock, context)

    def average(self) -> FloatArray:
        """The average features of closed decisions in the network, (d,); needs a `context`."""
        return self._showing.average(self.exchange.evidence())

    def verdict(
        self, lock: AbstractContextManager[Any] | None = None, now: float | None = None
    ) -> Judgement:
        """Whether the experiment may stop, by closed decisions; needs `stop`.

        Nothing stops by itself. Where sites differ it is about this one only. A winner stays one
        until the arms change. lock: as of `arms`; now: the time, to say since when.
        """
        lock = nullcontext() if lock is None else lock
        return self._judge.of(self.arm_names, self.sites != "alike", lock, now)

    @property
    def named_verdict(self) -> NamedVerdict | None:
        """The winner, or "no difference", that was named so far: part of the durable state."""
        return self._judge.named

    @named_verdict.setter
    def named_verdict(self, named: NamedVerdict | None) -> None:
        self._judge.named = named

    @property
    def reward_range(self) -> tuple[float, float]:
        """The lowest and the highest reward that there can be."""
        return self._evidence.reward_range

    @property
    def can_begin(self) -> bool:
        """Whether decisions can count from the start; under flows only with `silent_default`."""
        return self._evidence.closed

    def check_reward(self, reward: float) -> None:
        """Refuse what cannot be a reward, in one sentence."""
        self._evidence.check_reward(reward)

    def pulls(self, ledger: Ledger) -> float:
        """How many pulls, open ones included, the evidence of all arms counts."""
        return sum(map(self._evidence.count, ledger.values()))

    def tally(self, quanta: Sequence[int]) -> tuple[float, float, float]:
        """Pulls, of which closed, and the sum of the rewards of these; no quanta: of no pull."""
        if not quanta:
            return 0.0, 0.0, 0.0
        evidence = self._evidence
        return evidence.count(quanta), evidence.closed_count(quanta), self.reward_sum(quanta)

    def reward_sum(self, quanta: Sequence[int]) -> float:
        """The sum of the rewards of closed decisions of which these quanta are the evidence."""
        return self._evidence.reward_sum(self._evidence.closed_part(quanta))

    def own_pulls(self) -> tuple[int, int]:
        """How many own pulls count, and how many of these are open."""
        rows = self.exchange.own().values()
        counted = map(self._evidence.count, rows)
        waiting = map(self._evidence.open_count, rows)
        return round(sum(counted)), round(sum(waiting))

    def connect(self, peer: str) -> None:
        """Begin to exchange with a neighbour."""
        self.exchange.connect(peer)

    def disconnect(self, peer: str) -> None:
        """Stop exchanging with a neighbour; nothing is forgotten."""
        self.exchange.disconnect(peer)

    def tick(self, now: float) -> Outgoing:
        """What to send now, as (neighbour, message); reads the evidence of others anew."""
        self._reading.tick()
        return self.exchange.tick(now)

    def receive(self, peer: str, message: object, now: float) -> Outgoing:
        """Take in a message; what comes back is to be sent."""
        return self.exchange.receive(peer, message, now)

    def state(self) -> dict[str, Any]:
        """The durable state, as plain JSON values."""
        return {"fingerprint": self.fingerprint, "exchange": self.exchange.state()}

    def restore(self, state: Mapping[str, Any], clean: bool = False) -> None:
        """Continue from a saved state; `clean` if nothing was observed after it was saved."""
        if state.get("fingerprint") != self.fingerprint:
            raise ValueError("this state is of an agent with another exchange, family or prior")
        self.exchange.restore(state["exchange"], clean)
        self._reading.forget()

    def _use(self, names: list[str], sites: str | float) -> None:
        """Begin with these arms: nothing that was kept of others is of use."""
        sums = (self._evidence, self.exchange, names)
        steady = self.half_life is None
        self.arm_names = names
        self._reading = SiteReading(*sums, sites, steady)
        self._beliefs = Beliefs(*sums, reading=self._reading)
        self._closed = Beliefs(*sums, honest=True)
        self._meeting = Meeting(*sums, self._beliefs, self._closed)
        self._showing = Showing(*sums, self._reading, self._closed)

    def _subset(self, allowed: Sequence[str] | None) -> Subset:
        """The allowed arms, checked when they are first asked for."""
        if isinstance(allowed, str) or (allowed is not None and not allowed):
            raise ValueError(f"allowed must be a list of arms, at least one, got {allowed!r}")
        key = () if allowed is None else tuple(allowed)
        try:
            subset = self._beliefs.of(key)
        except TypeError:  # a list in place of a name
            subset = None
        if subset is None:
            names = [validation.validate_choice("arm", name, self.arm_names) for name in key]
            subset = self._beliefs.add(key, list(dict.fromkeys(names)) or self.arm_names)
        return subset

    def _remember(
        self, id_: str, arm: str, reward: float | None, x: FloatArray | None = None
    ) -> None:
        self._decisions.pop(id_, None)
        self._decisions[id_] = arm, reward, x
        if len(self._decisions) > REMEMBERED:
            self._decisions.pop(next(iter(self._decisions)))
