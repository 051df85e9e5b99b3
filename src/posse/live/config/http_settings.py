"""HTTP settings of an agent, from agent.toml: tokens, certificate and host names, all validated."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from posse.live.config.agent_settings import AgentSettings
from posse.live.security import check_private

# characters
SHORTEST_TOKEN = 16
LONGEST_TOKEN = 4096


@dataclass(frozen=True)
class HttpSettings:
    """The HTTP address of an agent, and the tokens and certificates it uses."""

    address: str
    hosts: tuple[str, ...] = ()
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
        s.http, s.http_hosts, tokens["http_token"], tokens["operator_token"], certificate, key
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
