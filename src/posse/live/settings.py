"""agent.toml: what an agent is, checked at start with errors that name the key."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, time
from pathlib import Path
from typing import Any

from posse import checks
from posse.decoding import Decoder, DecodingError
from posse.families import FAMILIES, Family
from posse.live.agent import Agent
from posse.live.exchange import EXCHANGES, RateCap
from posse.live.exchange.examine import Sign, Verify
from posse.policies import POLICIES, Policy, ThompsonSampling


@dataclass(frozen=True)
class Settings:
    """One agent: its arms and model, its store, its address and its neighbours.

    neighbours: name -> "host:port", or "" for one that only dials us. router: one of the same kind,
    by way of which all neighbours are reached. remember: seconds for which settled decisions are
    kept; None is for ever. http_hosts: names under which a reverse proxy passes requests on.
    rate_cap: how often an origin can have pulled, for origins.
    """

    name: str
    arms: tuple[str, ...]
    family: Family
    policy: Policy = field(default_factory=ThompsonSampling)
    exchange: str = "origins"
    reward_range: tuple[float, float] | None = None
    reward_window: float | None = None
    default_reward: float | None = None
    remember: float | None = None
    network_size: int | None = None
    rate_cap: RateCap | None = None
    store: str = "agent.db"
    http: str = "127.0.0.1:8700"
    http_hosts: tuple[str, ...] = ()
    listen: str = ""
    neighbours: Mapping[str, str] = field(default_factory=dict, hash=False)
    router: Mapping[str, str] = field(default_factory=dict, hash=False)
    network: str = "default"
    certificates: str = "certs"
    insecure: bool = False
    tick_seconds: float = 1.0

    def __post_init__(self) -> None:
        for key in ("name", "exchange", "store", "http", "listen", "network", "certificates"):
            if not isinstance(getattr(self, key), str):
                raise ValueError(f"{key} must be text, got {checks.shown(getattr(self, key))}")
        checks.choice("exchange", self.exchange, EXCHANGES)
        checks.number("tick_seconds", self.tick_seconds, at_least=0.01, at_most=3600)
        if self.reward_window is not None:
            checks.number("reward_window", self.reward_window, above=0)
        if self.default_reward is not None:
            checks.number("default_reward", self.default_reward)
            if self.reward_window is None:
                raise ValueError("default_reward needs reward_window: how long to wait, in seconds")
        if self.remember is not None:
            checks.number("remember", self.remember, above=0)
            if self.reward_window is None or self.remember < self.reward_window:
                raise ValueError("remember needs reward_window, and must not be shorter than it")
        for key, table in (("neighbours", self.neighbours), ("router", self.router)):
            if not isinstance(table, Mapping) or not all(
                isinstance(address, str) for address in table.values()
            ):
                raise ValueError(f'{key} must be a table such as {{berlin = "192.0.2.7:7447"}}')
        if len(self.router) > 1:
            raise ValueError(f"there is one router at most, got {', '.join(self.router)}")
        if not all(isinstance(host, str) and host for host in self.http_hosts):
            raise ValueError('http_hosts must be a list of names, such as ["agent.example.org"]')
        if self.rate_cap is not None and self.exchange != "origins":
            raise ValueError("rate_cap is for 'origins': flows do not know whose evidence it is")
        if not isinstance(self.insecure, bool):
            raise ValueError(f"insecure must be true or false, got {checks.shown(self.insecure)}")
        agent = self.agent()  # so that whatever it refuses is refused now
        agent.choose()
        if self.default_reward is not None:
            try:
                agent.learn(self.arms[0], self.default_reward)
            except ValueError as error:
                raise ValueError(f"default_reward: {error}") from None

    def agent(self, sign: Sign | None = None, verify: Verify | None = None) -> Agent:
        """The agent of these settings, new; entries are signed where they are told how."""
        # an origin goes by the name that its certificate vouches for
        origins = {"identity": self.name, "sign": sign, "verify": verify, "rate_cap": self.rate_cap}
        return Agent(
            self.arms,
            self.family,
            policy=self.policy,
            exchange=self.exchange,
            reward_range=self.reward_range,
            network_size=self.network_size,
            exchange_options=origins if self.exchange == "origins" else None,
        )


def read_settings(path: Path) -> Settings:
    """Read an agent.toml; what is wrong with it is said in one sentence that names the key."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"there is no file {path}") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not TOML: {error}") from None
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None
    try:
        return from_data(data)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: {error}") from None


def from_data(data: Mapping[str, Any]) -> Settings:
    """Settings from plain data."""
    known = [each.name for each in fields(Settings)]
    for key in data:
        checks.choice("key", key, known)
    for key in ("name", "arms", "family"):
        if key not in data:
            raise ValueError(f"{key} is missing")
    values = dict(data)
    values["family"] = _entry("family", FAMILIES, data["family"])
    if "policy" in data:
        values["policy"] = _entry("policy", POLICIES, data["policy"])
    if not isinstance(data["arms"], list):
        raise ValueError(f"arms must be a list of names, got {checks.shown(data['arms'])}")
    values["arms"] = tuple(data["arms"])
    for key in ("reward_range", "http_hosts"):
        if key in data:
            if not isinstance(data[key], list):
                raise ValueError(f"{key} must be a list, got {checks.shown(data[key])}")
            values[key] = tuple(data[key])
    if "rate_cap" in data:
        values["rate_cap"] = _rate_cap(data["rate_cap"])
    return Settings(**values)


def _rate_cap(data: Any) -> RateCap:
    """The cap of a table of a number and a date, in UTC where it does not say."""
    try:
        per_second, since = data["per_second"], data["since"]
        moment = since if isinstance(since, datetime) else datetime.combine(since, time())
    except (KeyError, TypeError):
        example = "{per_second = 20, since = 2026-11-01}"
        raise ValueError(f"rate_cap must be like {example}, got {checks.shown(data)}") from None
    for key in data:
        checks.choice("rate_cap: key", key, ("per_second", "since"))
    checks.number("rate_cap: per_second", per_second, above=0)
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    if moment > datetime.now(UTC):
        raise ValueError(f"rate_cap: since lies in the future: {moment}")
    return RateCap(per_second, moment.timestamp())


def _entry(key: str, registry: Mapping[str, Any], data: Any) -> Any:
    """One of a registry, from its name or from a table of its name and fields."""
    try:
        return Decoder().entry(registry, data)
    except DecodingError as error:
        raise ValueError(error.under(key).sentence(" ")) from None
