"""agent.toml: the settings of an agent process, validated with errors that name the key."""

from __future__ import annotations

import ipaddress
import re
import secrets
import time
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from posse import validation
from posse.live.agent import Agent
from posse.live.config.experiment_settings import KEYS, ExperimentSettings, experiment_from_data
from posse.live.exchange import DEFAULT, Sign, Verify
from posse.live.ledger import LEAST_TICKS
from posse.live.messaging import MessageLimits
from posse.live.security import check_private

LOG_FORMATS = "text", "json"
MOST_EXPERIMENTS = 1000
_TEXTS = (
    "name", "store", "http", "http_token", "http_certificate", "http_key", "operator_token",
    "probe", "listen", "network", "certificates", "log",
)  # fmt: skip
_LISTS = {
    "http_hosts": '["agent.example.org"]',
    "http_origins": '["https://shop.example.org"]',
    "operators": '["berlin", "paris"]',
}


# scheme, host and perhaps a port, in lower case and without a path; no `*`: every page would do
_ORIGIN = re.compile(r"https?://([a-z0-9._-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?", re.ASCII)


@dataclass(frozen=True)
class AgentSettings:
    """One agent process: its experiments, its store, its addresses and its neighbours.

    neighbours: name -> "host:port", or "" for one that only dials us. router: one of the same kind,
    through which all neighbours are reached. http_hosts: names under which a reverse proxy passes
    requests on. http_origins: origins whose pages may ask from a browser (CORS). http_token,
    operator_token: files with one line, the token of the application and that of operators, who may
    pin, pause and reload. operators: agents whose controls are accepted. probe: an address for
    health and metrics alone.
    """

    name: str
    experiments: Mapping[str, ExperimentSettings] = field(hash=False)
    store: str = "agent.db"
    http: str = "127.0.0.1:8700"
    http_hosts: tuple[str, ...] = ()
    http_origins: tuple[str, ...] = ()
    http_token: str = ""
    http_certificate: str = ""
    http_key: str = ""
    insecure_http: bool = False
    operator_token: str = ""
    operators: tuple[str, ...] = ()
    probe: str = ""
    listen: str = ""
    neighbours: Mapping[str, str] = field(default_factory=dict, hash=False)
    router: Mapping[str, str] = field(default_factory=dict, hash=False)
    network: str = "default"
    certificates: str = "certs"
    insecure: bool = False
    tick_seconds: float = 1.0
    log: str = "text"
    limits: MessageLimits = MessageLimits()  # noqa: RUF009 (frozen)

    def __post_init__(self) -> None:
        for key in _TEXTS:
            if not isinstance(getattr(self, key), str):
                raise ValueError(
                    f"{key} must be text, got {validation.format_value(getattr(self, key))}"
                )
        validation.validate_choice("log", self.log, LOG_FORMATS)
        validation.validate_number("tick_seconds", self.tick_seconds, at_least=0.01, at_most=3600)
        for key, table in (("neighbours", self.neighbours), ("router", self.router)):
            if not isinstance(table, Mapping) or not all(
                isinstance(address, str) for address in table.values()
            ):
                raise ValueError(f'{key} must be a table such as {{berlin = "192.0.2.7:7447"}}')
        if len(self.router) > 1:
            raise ValueError(f"there is one router at most, got {', '.join(self.router)}")
        for key, example in _LISTS.items():
            if not all(isinstance(value, str) and value for value in getattr(self, key)):
                raise ValueError(f"{key} must be a list of names, such as {example}")
        for key in ("insecure", "insecure_http"):
            if not isinstance(getattr(self, key), bool):
                got = validation.format_value(getattr(self, key))
                raise ValueError(f"{key} must be true or false, got {got}")
        if not 0 < len(self.experiments) <= MOST_EXPERIMENTS:
            raise ValueError(
                f"there must be 1 to {MOST_EXPERIMENTS} experiments, got {len(self.experiments)}"
            )
        # Epochs must be long beside a tick, or agents would disagree about the present one.
        for name, value in self.experiments.items():
            if value.half_life is not None and value.half_life < LEAST_TICKS * self.tick_seconds:
                raise ValueError(
                    f"half_life of the experiment {name} must be at least {LEAST_TICKS} times "
                    f"tick_seconds, {LEAST_TICKS * self.tick_seconds:g} seconds, got "
                    f"{value.half_life:g}"
                )
        self._check_http()

    def make_agent(
        self,
        sign: Sign | None = None,
        verify: Verify | None = None,
        experiment: str | None = None,
        draw: Callable[[int], int] = secrets.randbits,
        clock: Callable[[], float] = time.time,
        counts_from_start: bool | None = None,
        monotonic: Callable[[], float] | None = None,  # by which a clock that jumps is known
    ) -> Agent:
        """Build the agent of an experiment, or of the first; signed if `sign` is given.

        counts_from_start: see `ExperimentSettings.make_agent`.
        """
        (first, *_) = self.experiments
        name = experiment or first
        options: dict[str, Any] = {
            "network": self.network, "experiment": name, "draw": draw,
        }  # fmt: skip
        if self.experiments[name].exchange == "origins":
            # an origin goes by the name that its certificate vouches for
            options |= {"identity": self.name, "sign": sign, "verify": verify}
        if self.experiments[name].exchange == "origins" or (
            self.experiments[name].half_life is not None
        ):
            options |= {"clock": clock, "monotonic": monotonic}
        return self.experiments[name].make_agent(options, draw(128), counts_from_start)

    def _check_http(self) -> None:
        """Refuse HTTP for other machines without a token, or unencrypted unless it is allowed."""
        for origin in self.http_origins:
            if not _ORIGIN.fullmatch(origin):
                raise ValueError(
                    "http_origins must be origins as browsers send them, such as "
                    f'"https://shop.example.org", got {validation.format_value(origin)}'
                )
        if self.http_key and not self.http_certificate:
            raise ValueError("http_key needs http_certificate: the certificate that it belongs to")
        if self.http_certificate and self.insecure_http:
            raise ValueError("give http_certificate or insecure_http = true, and not both")
        if self.operator_token and self.operator_token == self.http_token:
            raise ValueError("operator_token must be another file than http_token")
        # Other users of this machine are trusted, other machines are not.
        if _is_local(self.http):
            return
        if not self.http_token:
            raise ValueError(
                f"http {validation.format_value(self.http)} "
                "is open to other machines: it needs http_token, "
                "a file with the token that requests must bring"
            )
        if not (self.http_certificate or self.insecure_http):
            raise ValueError(
                f"http {validation.format_value(self.http)} is open to other machines: it needs "
                "http_certificate, or insecure_http = true where something else encrypts"
            )


def read_settings(path: Path) -> AgentSettings:
    """Read an agent.toml; an error is one sentence that names the key."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"there is no file {path}") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not TOML: {error}") from None
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None
    try:
        return settings_from_data(data)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: {error}") from None


def settings_from_data(data: Mapping[str, Any]) -> AgentSettings:
    """Build settings from plain data."""
    known_keys = [*(field_.name for field_ in fields(AgentSettings)), *KEYS]
    for key in data:
        validation.validate_choice("key", key, known_keys)
    if "name" not in data:
        raise ValueError("name is missing")
    values = {key: value for key, value in data.items() if key not in KEYS}
    values["experiments"] = _read_experiments(data)
    for key in _LISTS:
        if key in data:
            if not isinstance(data[key], list):
                raise ValueError(f"{key} must be a list, got {validation.format_value(data[key])}")
            values[key] = tuple(data[key])
    if "limits" in data:
        values["limits"] = _read_limits(data["limits"])
    return AgentSettings(**values)


def _read_experiments(data: Mapping[str, Any]) -> dict[str, ExperimentSettings]:
    """Build the experiments of a file, with its top-level keys as defaults; or the only one."""
    defaults = {key: value for key, value in data.items() if key in KEYS}
    if "experiments" not in data:
        return {DEFAULT: experiment_from_data(defaults)}
    tables = data["experiments"]
    if not isinstance(tables, Mapping) or not all(isinstance(t, Mapping) for t in tables.values()):
        raise ValueError(
            f"experiments must be tables such as [experiments.checkout], "
            f"got {validation.format_value(tables)}"
        )
    # Imported late: cryptography takes long to import.
    from posse.live.security import validate_name

    experiments = {}
    for name, table in tables.items():
        try:
            experiments[validate_name(name)] = experiment_from_data(table, defaults)
        except (ValueError, TypeError) as error:
            raise ValueError(f"experiments.{name[:70]}: {error}") from None
    return experiments


def _read_limits(data: Any) -> MessageLimits:
    if not isinstance(data, Mapping):
        example = "{messages_per_second = 50, bytes_per_second = 2000000}"
        raise ValueError(f"limits must be like {example}, got {validation.format_value(data)}")
    for key in data:
        validation.validate_choice(
            "limits: key", key, [field_.name for field_ in fields(MessageLimits)]
        )
    return MessageLimits(**data)


def _is_local(address: str) -> bool:
    """Whether an HTTP address is of this machine alone; invalid ones are refused elsewhere."""
    if address.startswith("unix:"):
        return True
    host = address.rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host in ("localhost", "")


# HTTP settings of an agent, from agent.toml: tokens, certificate and host names, all validated.

# characters
SHORTEST_TOKEN = 16
LONGEST_TOKEN = 4096


@dataclass(frozen=True)
class HttpSettings:
    """The HTTP address of an agent, and the tokens and certificates it uses."""

    address: str
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    token: str | None = None  # None: nobody is asked for one
    operator_token: str | None = None  # None: nobody is an operator over HTTP
    certificate: Path | None = None
    key: Path | None = None


def read_http_settings(settings: AgentSettings, folder: Path) -> HttpSettings:
    """Read the HTTP settings of an agent; paths are relative to the folder of its agent.toml."""
    s = settings
    tokens = {
        key: _read_token(key, folder / getattr(s, key)) if getattr(s, key) else None
        for key in ("http_token", "operator_token")
    }
    # Equal tokens would make every application an operator.
    if tokens["http_token"] is not None and tokens["http_token"] == tokens["operator_token"]:
        raise ValueError("operator_token must hold another token than http_token")
    certificate = folder / s.http_certificate if s.http_certificate else None
    key = None
    if certificate is not None:
        key = folder / s.http_key if s.http_key else certificate.with_suffix(".key")
        _read_text("http_certificate", certificate)
        _read_private("http_key", key)
    return HttpSettings(
        s.http,
        s.http_hosts,
        s.http_origins,
        tokens["http_token"],
        tokens["operator_token"],
        certificate,
        key,
    )


def _read_token(key: str, path: Path) -> str:
    """Read the token in a file that other users cannot read."""
    text = _read_private(key, path)
    lines = text.split("\n")
    token = lines[0].strip()
    if len(lines) > 2 or (len(lines) == 2 and lines[1]):
        raise ValueError(f"{key}: {path} must hold one line, the token, and nothing else")
    if not SHORTEST_TOKEN <= len(token) <= LONGEST_TOKEN:
        raise ValueError(
            f"{key}: the token in {path} must have {SHORTEST_TOKEN} to {LONGEST_TOKEN} characters, "
            f"got {len(token)}: python -c 'import secrets; print(secrets.token_hex())' makes one"
        )
    if not (token.isascii() and token.isprintable() and " " not in token):
        raise ValueError(f"{key}: the token in {path} must be letters, digits and signs, no spaces")
    return token


def _read_private(key: str, path: Path) -> str:
    text = _read_text(key, path)
    try:
        check_private(path)
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from None
    return text


def _read_text(key: str, path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ValueError(f"{key}: {path} cannot be read: {error.strerror}") from None
    except ValueError:
        raise ValueError(f"{key}: {path} is not text") from None
