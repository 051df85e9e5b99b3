"""How an agent answers over HTTP, from its settings: tokens, certificate, names, all checked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from posse.live.config.agent_settings import Settings
from posse.live.security.certificates import check_private

# characters
SHORTEST_TOKEN = 16
LONGEST_TOKEN = 4096


@dataclass(frozen=True)
class Door:
    """What is served where, and to whom."""

    address: str
    hosts: tuple[str, ...] = ()
    token: str | None = None  # None: nobody is asked for one
    operator_token: str | None = None  # None: nobody is an operator over HTTP
    certificate: Path | None = None
    key: Path | None = None


def door(settings: Settings, folder: Path) -> Door:
    """The door of an agent; paths are relative to the folder of its agent.toml."""
    s = settings
    tokens = {
        key: _token(key, folder / getattr(s, key)) if getattr(s, key) else None
        for key in ("http_token", "operator_token")
    }
    if tokens["http_token"] is not None and tokens["http_token"] == tokens["operator_token"]:
        raise ValueError("operator_token must hold another token than http_token")
    certificate = folder / s.http_certificate if s.http_certificate else None
    key = None
    if certificate is not None:
        key = folder / s.http_key if s.http_key else certificate.with_suffix(".key")
        _readable("http_certificate", certificate)
        _private("http_key", key)
    return Door(
        s.http, s.http_hosts, tokens["http_token"], tokens["operator_token"], certificate, key
    )


def _token(key: str, path: Path) -> str:
    """The token in a file that others cannot read."""
    text = _private(key, path)
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


def _private(key: str, path: Path) -> str:
    text = _readable(key, path)
    try:
        check_private(path)
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from None
    return text


def _readable(key: str, path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ValueError(f"{key}: {path} cannot be read: {error.strerror}") from None
    except ValueError:
        raise ValueError(f"{key}: {path} is not text") from None
