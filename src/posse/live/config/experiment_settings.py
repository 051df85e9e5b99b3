"""Settings of one experiment: arms, model, exchange, reward window, and what combines."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime, time
from typing import Any

from posse import validation
from posse.contexts import Contexts
from posse.families import (
    CONTEXTUAL,
    FAMILIES,
    VARIATIONAL,
    Model,
    get_family_name,
    is_contextual,
)
from posse.live.agent import (
    NO_CONTEXTS_UNDER_FLOWS,
    NO_WINNER_OF_CONTEXTS,
    SITES_IN_CONTEXT,
    Agent,
    Measures,
    Metric,
    Shares,
    Stop,
    check_sites,
    read_metrics,
)
from posse.live.exchange import EXCHANGES, RateCap
from posse.policies import POLICIES, Policy, ThompsonSampling
from posse.serialization.decoder import Decoder, DecodingError
from posse.stopping import explain_no_verdict

SECONDS = {"second": 1.0, "minute": 60.0, "hour": 3600.0, "day": 86400.0, "week": 604800.0}


def parse_seconds(name: str, value: Any) -> float:
    """Parse a duration: seconds, or a number with a unit such as "14 days"."""
    if not isinstance(value, str):
        return float(validation.validate_number(name, value, above=0))
    number, _, unit = value.strip().partition(" ")
    unit = unit.strip()
    try:
        amount = float(number)
    except ValueError:
        amount = -1.0
    singular = unit.removesuffix("s")
    if not (amount > 0 and singular in SECONDS and validation.is_finite(amount)):
        raise ValueError(
            f'{name} must be seconds, or a number and a unit such as "90 minutes", "12 hours" or '
            f'"14 days", got {validation.format_value(value)}'
        )
    return amount * SECONDS[singular]


# ---- Combinations: each pair of settings is supported, or refused with a sentence
#
# Delayed rewards (`reward_window`, `default_reward`), shares and both exchanges combine with
# everything that is not refused here.

MOST_HALF_LIVES = 10  # in a reward window: a thousandth is left of a decision by then


def check_combination(settings: Any) -> None:
    """Refuse settings of an experiment that do not go together, with one sentence."""
    if sentence := find_conflict(
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
            f"reward_window must be at most {MOST_HALF_LIVES} half-lives, "
            f"{MOST_HALF_LIVES * half_life:g} seconds, because later rewards weigh nothing, "
            f"got {window:g}"
        )


def find_conflict(
    family: Model, exchange: str, *, sites: str | float, half_life: object, stop: object
) -> str | None:
    """Return why these settings do not go together; None if they do."""
    differ = sites != "alike"
    if is_contextual(family):
        if exchange == "flows":
            return NO_CONTEXTS_UNDER_FLOWS
        if differ:
            return SITES_IN_CONTEXT.format(sites)
        return None if stop is None else NO_WINNER_OF_CONTEXTS
    plain: Any = family
    if differ and exchange == "flows":
        return f"sites = {sites!r} needs exchange 'origins': flows do not know evidence by site"
    if differ and half_life is not None:
        return (
            f"sites = {sites!r} does not go with half_life: "
            "drifting means look like sites that differ"
        )
    if differ and len(plain.parameters) > 1:
        return (
            f"sites = {sites!r} does not go with family {get_family_name(family)!r}: "
            "this setting needs a family with a known variance of rewards"
        )
    if stop is not None and half_life is not None:
        return "stop does not go with half_life: drifting means have no lasting winner"
    if stop is not None and (reason := explain_no_verdict(plain)):
        return f"stop does not go with family {get_family_name(family)!r}: {reason}"
    return None


# ---- Payloads: what an arm means to the application, as the value of an OpenFeature flag

MAX_PAYLOAD_BYTES = 10_000  # of an arm, as JSON
KINDS = {bool: "true or false", str: "text", int: "a number", float: "a number", dict: "a table"}
EXAMPLE_PAYLOAD = "{on = true, off = false}"


def validate_payload(arms: Sequence[str], payload: Any) -> dict[str, Any]:
    """Return the value of each arm, all of one kind, as an OpenFeature flag has one type."""
    if not isinstance(payload, Mapping):
        raise ValueError(
            f"payload must be a table with a value for each arm, such as {EXAMPLE_PAYLOAD}, "
            f"got {validation.format_value(payload)}"
        )
    for arm in payload:
        validation.validate_choice("payload: arm", arm, arms)
    if missing := [arm for arm in arms if arm not in payload]:
        raise ValueError(f"payload must have a value for each arm: {missing[0]!r} has none")
    kinds = {}
    for arm in arms:
        kinds[arm] = KINDS.get(type(payload[arm]))
        try:
            size = len(json.dumps(payload[arm], allow_nan=False).encode())
        except (TypeError, ValueError):
            size = -1
        if kinds[arm] is None or size < 0:
            raise ValueError(
                f"payload of {arm!r} must be true or false, text, a finite number or a table of "
                f"such values, got {validation.format_value(payload[arm])}"
            )
        if size > MAX_PAYLOAD_BYTES:
            raise ValueError(
                f"payload of {arm!r} must have at most {MAX_PAYLOAD_BYTES} bytes as JSON, "
                f"got {size}"
            )
        if kinds[arm] != kinds[arms[0]]:
            raise ValueError(
                f"payload must be of one kind for all arms: {arms[0]!r} has {kinds[arms[0]]}, "
                f"{arm!r} has {kinds[arm]}"
            )
    # Of numbers with and without a fraction, all become the former: a flag has one type.
    if any(type(value) is float for value in payload.values()):
        return {arm: float(payload[arm]) for arm in arms}
    return {arm: payload[arm] for arm in arms}


# ---- The settings

EXCHANGE_KEYS = {"network_size": "flows", "rate_cap": "origins"}  # keys that only one of them takes


@dataclass(frozen=True)
class ExperimentSettings:
    """One experiment: its arms and model, its exchange, its windows.

    remember: seconds for which finished decisions are stored; None is for ever. rate_cap: the
    largest rate of decisions of an origin, for origins. stop: the stopping rule; then agents
    exchange only if their reward_window is the same. new_arm_share: None is one in as many as there
    are arms. half_life: seconds after which evidence weighs half; all agents must have the same.
    sites: whether evidence of other sites counts like own evidence ("alike"), is discounted by the
    estimated heterogeneity ("differ"), or by a known one (a number). context: the schema of
    visitors' features, for the families "logistic" and "linear". holdout: the share of visitors who
    get control_arm; metrics: further numbers of decisions, perhaps with limits. payload: the value
    of each arm as an OpenFeature flag; None: its name.
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
    holdout: float | None = None
    control_arm: str | None = None
    metrics: tuple[Metric, ...] = ()
    payload: Mapping[str, Any] | None = field(default=None, hash=False)

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
                "rate_cap needs exchange 'origins': flows do not know evidence by origin"
            )
        check_sites(self.sites)
        check_combination(self)
        if self.payload is not None:
            object.__setattr__(self, "payload", validate_payload(self.arms, self.payload))
        # The agent validates most settings itself: build one to find errors at start.
        agent = self.make_agent()
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
    def measures(self) -> Measures:
        """What it measures beside rewards."""
        return Measures(self.control_arm, self.holdout, self.metrics)

    @property
    def shares(self) -> Shares:
        """Its shares; new arms get an equal share unless new_arm_share is set."""
        new = 1 / max(1, len(self.arms)) if self.new_arm_share is None else self.new_arm_share
        return Shares(self.min_share, new, self.new_arm_pulls)

    @property
    def counts_from_start(self) -> bool:
        """Whether decisions count from the start: a missing reward means the lowest one."""
        return self.default_reward is not None and self.default_reward == self._lowest_reward

    @property
    def _lowest_reward(self) -> float:
        return self.family.rewards.low if self.reward_range is None else self.reward_range[0]

    def make_agent(
        self,
        options: Mapping[str, Any] | None = None,
        seed: int | None = None,
        counts_from_start: bool | None = None,
    ) -> Agent:
        """Build a new agent of these settings, with further options of its exchange.

        counts_from_start: whether its evidence lets decisions count from the start, as its store
        does; None: if these settings do.
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
            silent_default=self._lowest_reward
            if (self.counts_from_start if counts_from_start is None else counts_from_start)
            else None,
            half_life=self.half_life,
            sites=self.sites,
            context=self.context,
            measures=self.measures,
        )


KEYS = tuple(each.name for each in fields(ExperimentSettings))


def experiment_from_data(
    data: Mapping[str, Any], defaults: Mapping[str, Any] | None = None
) -> ExperimentSettings:
    """Build the settings of one experiment from plain data, with defaults for missing keys."""
    for key in data:
        validation.validate_choice("key", key, KEYS)
    exchange = data.get("exchange", (defaults or {}).get("exchange", "origins"))
    values = {
        key: value
        for key, value in (defaults or {}).items()
        if EXCHANGE_KEYS.get(key, exchange) == exchange
    } | dict(data)
    for key in ("arms", "family"):
        if key not in values:
            raise ValueError(f"{key} is missing")
    values["family"] = _read_family(values["family"])
    if "context" not in data and not is_contextual(values["family"]):
        # Inherited from the defaults of the file, for other experiments.
        values.pop("context", None)
    if "context" in values:
        values["context"] = _read_context(values["context"])
    if "policy" in values:
        values["policy"] = _read_entry("policy", POLICIES, values["policy"])
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
        values["rate_cap"] = _read_rate_cap(values["rate_cap"])
    if "metrics" in values:
        values["metrics"] = read_metrics(values["metrics"])
    if "control_arm" in values and not isinstance(values["control_arm"], str):
        got = validation.format_value(values["control_arm"])
        raise ValueError(f"control_arm must be the name of an arm, got {got}")
    if "half_life" in values:
        values["half_life"] = parse_seconds("half_life", values["half_life"])
    if "stop" in values:
        values["stop"] = _read_stop(values["stop"])
    return ExperimentSettings(**values)


def _read_rate_cap(data: Any) -> RateCap:
    """Read a cap from a table of a number and a date, in UTC without a time zone."""
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
    # TOML dates have no time zone: UTC, so that all agents read the same cap.
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    if moment > datetime.now(UTC):
        raise ValueError(f"rate_cap: since lies in the future: {moment}")
    return RateCap(per_second, moment.timestamp())


def _read_stop(data: Any) -> Stop:
    """Read a stopping rule from a table of numbers, all optional."""
    if not isinstance(data, Mapping):
        example = "{error = 0.05, tolerance = 0.005}"
        raise ValueError(f"stop must be like {example}, got {validation.format_value(data)}")
    for key in data:
        validation.validate_choice("stop: key", key, ("error", "tolerance"))
    return Stop(**data)


def _read_family(data: Any) -> Any:
    """Read a family, plain or for contexts; those of the lab only are refused by name."""
    return _read_entry("family", FAMILIES | CONTEXTUAL | VARIATIONAL, data)


def _read_context(data: Any) -> Contexts:
    """Read the schema of a table of fields; errors name the key as the file has it."""
    if not isinstance(data, Mapping) or not data:
        example = 'country = ["de", "fr"]'
        raise ValueError(
            f"context must be a table such as {example}, got {validation.format_value(data)}"
        )
    try:
        return Contexts(data)
    except ValueError as error:
        sentence = str(error)
        if sentence.startswith("contexts."):  # the field's name follows
            raise ValueError(f"context.{sentence.removeprefix('contexts.')}") from None
        raise ValueError(f"context: {sentence}") from None


def _read_entry(key: str, registry: Mapping[str, Any], data: Any) -> Any:
    """Read an entry of a registry, from its name or from a table of its name and fields."""
    try:
        return Decoder().decode_entry(registry, data)
    except DecodingError as error:
        raise ValueError(error.with_parent_key(key).format_message(" ")) from None
