"""Access control of the HTTP interface (middleware): hosts, tokens, JSON only, sizes."""

from __future__ import annotations

import asyncio
import hmac
import re
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

from posse.live.http.responses import RequestRefused, Response, error_response

Scope = dict[str, Any]
Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

TRANSPORT_EXTENSION = "posse.transport"  # in scope["extensions"]: the transport of the connection

MAX_BODY_BYTES = 1_000_000  # the largest body
TOO_LARGE = f"the body is larger than {MAX_BODY_BYTES} bytes: send less at once"
NOT_JSON = "the body must be JSON, with Content-Type: application/json"
HOST_NOT_ALLOWED = (
    "Host header not allowed: use 127.0.0.1, or add the name to http_hosts in agent.toml"
)
TOKEN_NEEDED = "token missing or wrong: send Authorization: Bearer with the content of http_token"
OPERATOR_TOKEN_NEEDED = (
    "not the operators' token: send Authorization: Bearer with that of operator_token"
)
OPERATORS_DISABLED = "this agent accepts no commands over HTTP: set operator_token in agent.toml"
# how many bytes and seconds of a refused request are read before the connection is closed
MAX_DRAINED_BYTES = 8_000_000
LINGER_SECONDS = 1.0

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
LOOPBACK_PREFIXES = ("127.", "::1")  # of addresses of this machine
MAX_CACHED_HOSTS = 100  # bounded: a client could send many spellings
_HOST = re.compile(r"(\[[^]]*\]|[^:]*)(:[0-9]*)?", re.ASCII)


class AccessControl:
    """Refuses requests by their headers, before their bodies are read.

    hosts: names allowed in the Host header besides those of this machine; None: any.
    """

    def __init__(
        self,
        hosts: Sequence[str] | None = (),
        token: str | None = None,
        operator_token: str | None = None,
    ) -> None:
        for name, value in (("http_token", token), ("operator_token", operator_token)):
            if value is not None and not (value.strip() and value.isprintable()):
                raise ValueError(f"{name} must be one line that is not empty")
        # One token for both would give the rights of an operator to every application.
        if token is not None and token == operator_token:
            raise ValueError("operator_token must differ from http_token")
        names = None if hosts is None else (*LOOPBACK, *hosts)
        self._hosts = None if names is None else frozenset(name.lower() for name in names)
        self._accepted_hosts: set[bytes] = set()
        self._token = None if token is None else token.encode()
        self._operator_token = None if operator_token is None else operator_token.encode()

    async def read_admitted_body(
        self, scope: Scope, receive: Receive, public: bool = False, json_only: bool = True
    ) -> bytes | None:
        """Read the body of an admitted request; None if the client has disconnected.

        public: the resource needs no token. json_only: False where the path has no such route,
        which the caller then refuses.
        """
        host = length = kind = None
        n_hosts = 0
        for name, value in scope["headers"]:
            if name == b"host":
                host = value
                n_hosts = n_hosts + 1
            elif name == b"content-length":
                length = value
            elif name == b"content-type":
                kind = value
        # Two Host headers count as none: a proxy may have checked the other one. The cache of
        # accepted spellings spares most requests the regular expression.
        if n_hosts != 1 or host not in self._accepted_hosts:
            self.check_host(scope, host if n_hosts == 1 else None)
        if self._token is not None and not public:
            self._check_token(scope)
        # At most 12 digits: int() takes quadratic time in the length of a text.
        if length is not None and (
            not length.isdigit() or len(length) > 12 or int(length) > MAX_BODY_BYTES
        ):
            raise RequestRefused(413, "body_too_large", TOO_LARGE)
        # Browsers send other types across sites without a preflight, but not this one: so a foreign
        # page cannot post here (CSRF).
        if json_only and scope["method"] == "POST" and kind != b"application/json":
            media_type = (kind or b"").partition(b";")[0].strip().lower()
            if media_type != b"application/json":
                raise RequestRefused(415, "not_json", NOT_JSON)
        message = await receive()
        body: bytes = message.get("body", b"")
        if not message.get("more_body", False):
            if message["type"] != "http.request":
                return None
            return body  # nearly always
        parts = [body]
        size = len(body)
        while message.get("more_body", False):
            # A chunked body has no length in its head, so it is counted while it arrives.
            if size > MAX_BODY_BYTES:
                raise RequestRefused(413, "body_too_large", TOO_LARGE)
            message = await receive()
            if message["type"] != "http.request":
                return None
            parts.append(message.get("body", b""))
            size += len(parts[-1])
        if size > MAX_BODY_BYTES:
            raise RequestRefused(413, "body_too_large", TOO_LARGE)
        return b"".join(parts)

    def has_valid_token(self, scope: Scope) -> bool:
        """Return whether a request has a token that is accepted here."""
        try:
            if self._token is not None:
                self._check_token(scope)
        except RequestRefused:
            return False
        return True

    def knows_token(self, scope: Scope) -> bool:
        """Return whether a request has the application's token or the operators'."""
        tokens = (self._token, self._operator_token)
        bearer = _read_bearer_token(scope)
        return any(token is not None and _tokens_equal(bearer, token) for token in tokens)

    def is_operator(self, scope: Scope) -> bool:
        """Return whether a request has the operators' token; the application's does not suffice."""
        token = self._operator_token
        return token is not None and _tokens_equal(_read_bearer_token(scope), token)

    def require_operator(self, scope: Scope) -> None:
        """Refuse a request without the operators' token."""
        if self._operator_token is None:
            raise RequestRefused(403, "operators_only", OPERATORS_DISABLED)
        if not self.is_operator(scope):
            raise RequestRefused(401, "operators_only", OPERATOR_TOKEN_NEEDED, _AUTHENTICATE)

    def check_host(self, scope: Scope, host: bytes | None) -> None:
        """Refuse a Host header that is not one of ours, against DNS rebinding.

        Unix sockets need none, nor does an address for other machines where a token is required.
        """
        server = scope.get("server")
        if self._hosts is None or (server is not None and server[1] is None):
            return
        # A page that rebinds a DNS name does not know the token, so any name is harmless there.
        if host is not None and self._token is not None and not _is_loopback(server):
            return
        name = None if host is None else _HOST.fullmatch(host.decode("latin-1"))
        if host is None or name is None or name[1].lower() not in self._hosts:
            raise RequestRefused(403, "host_not_allowed", HOST_NOT_ALLOWED)
        if len(self._accepted_hosts) < MAX_CACHED_HOSTS:
            self._accepted_hosts.add(host)

    def _check_token(self, scope: Scope) -> None:
        """Refuse a request with neither the application's token nor the operators'."""
        assert self._token is not None
        bearer = _read_bearer_token(scope)
        is_valid = _tokens_equal(bearer, self._token)
        if not is_valid and self._operator_token is not None:
            is_valid = _tokens_equal(bearer, self._operator_token)
        if not is_valid:
            raise RequestRefused(401, "token_invalid", TOKEN_NEEDED, _AUTHENTICATE)


_AUTHENTICATE = ((b"www-authenticate", b"Bearer"),)


def _read_bearer_token(scope: Scope) -> bytes:
    # Two Authorization headers are ambiguous and count as none.
    authorizations = [value for name, value in scope["headers"] if name == b"authorization"]
    scheme, _, token = (authorizations[0] if len(authorizations) == 1 else b"").partition(b" ")
    return token.strip() if scheme.lower() == b"bearer" else b""


def _tokens_equal(presented: bytes, token: bytes) -> bool:
    """Compare in constant time, so that nobody finds a token letter by letter."""
    return hmac.compare_digest(presented, token)


def _is_loopback(server: Any) -> bool:
    return server is None or str(server[0]).startswith(LOOPBACK_PREFIXES)


async def send_response(
    send: Send, response: Response, more_follows: bool = False, head_only: bool = False
) -> None:
    """Send a response; head_only: without its body but with its length, as HEAD asks."""
    body = response.body
    headers = []
    if response.status not in (204, 304):  # which have no content
        headers += [
            (b"content-type", response.content_type),
            (b"content-length", b"%d" % len(body)),
        ]
    if response.headers:
        headers += response.headers
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    sent = b"" if head_only else body
    await send({"type": "http.response.body", "body": sent, "more_body": more_follows})


async def refuse_request(receive: Receive, send: Send, refusal: RequestRefused) -> None:
    """Answer at once, then drain: a client that is cut off while sending would miss the answer."""
    headers = ((b"connection", b"close"), *refusal.headers)
    await send_response(
        send, error_response(refusal.status, str(refusal), headers), more_follows=True
    )
    dropped = 0
    more_body = True
    with suppress(TimeoutError):
        async with asyncio.timeout(LINGER_SECONDS):
            while more_body and dropped < MAX_DRAINED_BYTES:
                message = await receive()
                more_body = message.get("more_body", False)
                dropped += len(message.get("body", b""))
    await send({"type": "http.response.body", "body": b""})
