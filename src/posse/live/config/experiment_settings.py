"""Durations in settings: seconds, or a text such as "14 days"."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime, time
from typing import Any

from posse import validation
from posse.contexts import Contexts
from posse.families import CONTEXTUAL, FAMILIES
from posse.families.family import Model, get_family_name, is_contextual
from posse.live.agent.action_selection import Shares
from posse.live.agent.agent import Agent
from posse.live.agent.factory import NO_CONTEXTS_UNDER_FLOWS, NO_WINNER_OF_CONTEXTS
from posse.live.agent.site_pooling import SITES_IN_CONTEXT, check_sites
from posse.live.agent.verdicts import Stop
from posse.live.exchange import EXCHANGES, RateCap
from posse.policies import POLICIES, Policy, ThompsonSampling
from posse.serialization.decoder import Decoder, DecodingError
from posse.stopping import explain_no_verdict

SECONDS = {"second": 1.0, "minute": 60.0, "hour": 3600.0, "day": 86400.0, "week": 604800.0}


def seconds(name: str, value: Any) -> float:
    """The seconds that a number, or a number with a unit, stands for."""
    if not isinstance(value, str):
        return float(validation.validate_number(name, value, above=0))
    number, _, unit = value.strip().partition(" ")
    unit = unit.strip()
    try:
        amount = float(number)
    except ValueError:
        amount = -1.0
    one = unit.removesuffix("s")
    if not (amount > 0 and one in SECONDS and validation.is_finite(amount)):
        raise ValueError(
            f'{name} must be seconds, or a number and a unit such as "90 minutes", "12 hours" or '
            f'"14 days", got {validation.format_value(value)}'
        )
    return amount * SECONDS[one]


# Which settings of an experiment go together: each pair is supported, or refused in a sentence.
#
# Late rewards (`reward_window`, `default_reward`), shares and either exchange go with everything
# that is not refused here.

MOST_HALF_LIVES = 10  # in a reward window: a thousandth is left of a decision by then


def check_worlds(settings: Any) -> None:
    """Refuse settings of an experiment that do not go together, in one sentence."""
    if sentence := refusal(
        settings.family,
        settings.exchange,
        sites=settings.sites,
        half_life=settings.half_life,
        stop=settings.stop,
    ):
        raise ValueError(sentence)
    half_life = settings.half_life
    window = settings.reward_window
    if half_life is not None and window is not None and window > MOST_HALF_LIVES * half_life:
        raise ValueError(
            f"reward_window must be at most {MOST_HALF_LIVES} half-lives "
            f"({MOST_HALF_LIVES * half_life:g} seconds), because later rewards are worth nothing, "
            f"got {window:g}"
        )


def refusal(
    family: Model, exchange: str, *, sites: str | float, half_life: object, stop: object
) -> str | None:
    """Why these settings do not go together; None if they do."""
    differ = sites != "alike"
    if is_contextual(family):
        if exchange == "flows":
            return NO_CONTEXTS_UNDER_FLOWS
        if differ:
            return SITES_IN_CONTEXT.format(sites)
        return None if stop is None else NO_WINNER_OF_CONTEXTS
    plain: Any = family
    if differ and exchange == "flows":
        return (
            f"sites = {sites!r} needs exchange 'origins': "
            "flows do not record the origin of evidence"
        )
    if differ and half_life is not None:
        return (
            f"sites = {sites!r} does not go with half_life: "
            "drifting means look the same as sites that differ"
        )
    if differ and len(plain.parameters) > 1:
        return (
            f"sites = {sites!r} does not go with family {get_family_name(family)!r}: "
            "this setting needs a family with a known variance of rewards"
        )
    if stop is not None and half_life is not None:
        return "stop does not go with half_life: drifting means have no final winner"
    if stop is not None and (reason := explain_no_verdict(plain)):
        return f"stop does not go with family {get_family_name(family)!r}: {reason}"
    return None


# The settings of one experiment: its arms and model, its exchange, and how long it waits.

OF_EXCHANGE = {"network_size": "flows", "rate_cap": "origins"}  # keys that only one of them takes


@dataclass(frozen=True)
class ExperimentSettings:
    """One experiment: its arms and model, its exchange, its windows.

    remember: seconds for which settled decisions are kept; None is for ever. rate_cap: how often
    an origin can have pulled, for origins. stop: when people want to stop; then agents exchange
    only if their reward_window is the same. new_arm_share: None is one in as many as there are
    arms. half_life: seconds after which evidence is worth half; all agents must have the same.
    sites: whether the evidence of other sites is read like the own ("alike"), for what it is worth
    here ("differ"), or by how far sites are known to differ (a number). context: what is known of a
    visitor, for the families "logistic" and "linear".
    """

    arms: tuple[str, ...]
    family: Model
    policy: Policy = field(default_factory=ThompsonSampling)
    exchange: str = "origins"
    reward_range: tuple[float, float] | None = None
    reward_window: float | None = None
    default_reward: float | None = None
    remember: float | None = None
    network_size: int | None = None
    rate_cap: RateCap | None = None
    stop: Stop | None = None
    min_share: float = 0.0
    new_arm_share: float | None = None
    new_arm_pulls: int = 100
    half_life: float | None = None
    sites: str | float = "alike"
    context: Contexts | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.exchange, str):
            raise ValueError(f"exchange must be text, got {validation.format_value(self.exchange)}")
        validation.validate_choice("exchange", self.exchange, EXCHANGES)
        if self.reward_window is not None:
            validation.validate_number("reward_window", self.reward_window, above=0)
        if self.default_reward is not None:
            validation.validate_number("default_reward", self.default_reward)
            if self.reward_window is None:
                raise ValueError("default_reward needs reward_window: how long to wait, in seconds")
        if self.remember is not None:
            validation.validate_number("remember", self.remember, above=0)
            if self.reward_window is None or self.remember < self.reward_window:
                raise ValueError("remember needs reward_window, and must not be shorter than it")
        if self.rate_cap is not None and self.exchange != "origins":
            raise ValueError(
                "rate_cap is for 'origins': flows do not record the origin of evidence"
            )
        check_sites(self.sites)
        check_worlds(self)
        agent = self.agent()  # so that whatever it refuses is refused now
        if self.context is None:
            agent.choose()
        else:
            agent.probabilities()
        if self.default_reward is not None:
            try:
                agent.check_reward(self.default_reward)
            except ValueError as error:
                raise ValueError(f"default_reward: {error}") from None

    @property
    def shares(self) -> Shares:
        """Its shares; that of new arms is an equal one unless it says otherwise."""
        new = 1 / max(1, len(self.arms)) if self.new_arm_share is None else self.new_arm_share
        return Shares(self.min_share, new, self.new_arm_pulls)

    @property
    def begins(self) -> bool:
        """Whether decisions count from the start: silence means the lowest reward."""
        return self.default_reward is not None and self.default_reward == self._lowest

    @property
    def _lowest(self) -> float:
        return self.family.rewards.low if self.reward_range is None else self.reward_range[0]

    def agent(
        self,
        options: Mapping[str, Any] | None = None,
        seed: int | None = None,
        begins: bool | None = None,
    ) -> Agent:
        """The agent of these settings, new, with further options of its exchange.

        begins: whether its evidence lets decisions count from the start, as its store was begun;
        None: if these settings do.
        """
        if self.exchange == "origins":
            options = {"rate_cap": self.rate_cap, **(options or {})}
        return Agent(
            self.arms,
            self.family,
            policy=self.policy,
            exchange=self.exchange,
            reward_range=self.reward_range,
            network_size=self.network_size,
            exchange_options=options,
            **asdict(self.shares),
            seed=seed,
            stop=self.stop,
            reward_window=self.reward_window,
            silent_default=self._lowest if (self.begins if begins is None else begins) else None,
            half_life=self.half_life,
            sites=self.sites,
            context=self.context,
        )


KEYS = tuple(each.name for each in fields(ExperimentSettings))


def experiment_from_data(
    data: Mapping[str, Any], defaults: Mapping[str, Any] | None = None
) -> ExperimentSettings:
    """The settings of one experiment from plain data, and from defaults for what it leaves out."""
    for key in data:
        validation.validate_choice("key", key, KEYS)
    exchange = data.get("exchange", (defaults or {}).get("exchange", "origins"))
    values = {
        key: value
        for key, value in (defaults or {}).items()
        if OF_EXCHANGE.get(key, exchange) == exchange
    } | dict(data)
    for key in ("arms", "family"):
        if key not in values:
            raise ValueError(f"{key} is missing")
    values["family"] = _family(values["family"])
    if "context" not in data and not is_contextual(values["family"]):
        values.pop("context", None)  # that of other experiments
    if "context" in values:
        values["context"] = _context(values["context"])
    if "policy" in values:
        values["policy"] = _entry("policy", POLICIES, values["policy"])
    if not isinstance(values["arms"], list):
        raise ValueError(
            f"arms must be a list of names, got {validation.format_value(values['arms'])}"
        )
    values["arms"] = tuple(values["arms"])
    if "reward_range" in values:
        if not isinstance(values["reward_range"], list):
            got = validation.format_value(values["reward_range"])
            raise ValueError(f"reward_range must be a list, got {got}")
        values["reward_range"] = tuple(values["reward_range"])
    if "rate_cap" in values:
        values["rate_cap"] = _rate_cap(values["rate_cap"])
    if "half_life" in values:
        values["half_life"] = seconds("half_life", values["half_life"])
    if "stop" in values:
        values["stop"] = _stop(values["stop"])
    return ExperimentSettings(**values)


def _rate_cap(data: Any) -> RateCap:
    """The cap of a table of a number and a date, in UTC where it does not say."""
    try:
        per_second = data["per_second"]
        since = data["since"]
        moment = since if isinstance(since, datetime) else datetime.combine(since, time())
    except (KeyError, TypeError):
        example = "{per_second = 20, since = 2026-11-01}"
        raise ValueError(
            f"rate_cap must be like {example}, got {validation.format_value(data)}"
        ) from None
    for key in data:
        validation.validate_choice("rate_cap: key", key, ("per_second", "since"))
    validation.validate_number("rate_cap: per_second", per_second, above=0)
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    if moment > datetime.now(UTC):
        raise ValueError(f"rate_cap: since lies in the future: {moment}")
    return RateCap(per_second, moment.timestamp())


def _stop(data: Any) -> Stop:
    """From a table of numbers, all of which may be left out."""
    if not isinstance(data, Mapping):
        example = "{error = 0.05, tolerance = 0.005}"
        raise ValueError(f"stop must be like {example}, got {validation.format_value(data)}")
    for key in data:
        validation.validate_choice("stop: key", key, ("error", "tolerance"))
    return Stop(**data)


def _family(data: Any) -> Any:
    """A family, plain or for contexts."""
    return _entry("family", FAMILIES | CONTEXTUAL, data)


def _context(data: Any) -> Contexts:
    """The schema of a table of fields, in sentences that name the key as the file has it."""
    if not isinstance(data, Mapping) or not data:
        example = 'country = ["de", "fr"]'
        raise ValueError(
            f"context must be a table such as {example}, got {validation.format_value(data)}"
        )
    try:
        return Contexts(data)
    except ValueError as error:
        said = str(error)
        if said.startswith("contexts."):  # the field's name follows
            raise ValueError(f"context.{said.removeprefix('contexts.')}") from None
        raise ValueError(f"context: {said}") from None


def _entry(key: str, registry: Mapping[str, Any], data: Any) -> Any:
    """One of a registry, from its name or from a table of its name and fields."""
    try:
        return Decoder().decode_entry(registry, data)
    except DecodingError as error:
        raise ValueError(error.with_parent_key(key).format_message(" ")) from None
