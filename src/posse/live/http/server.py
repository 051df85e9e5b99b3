"""The HTTP server (uvicorn) in a thread: on loopback, a Unix socket, or with a token for others."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import ssl
import stat
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import uvicorn
from uvicorn.server import ServerState

from posse.live.http.access_control import Receive, Scope, Send
from posse.live.http.app import create_app, create_probe_app
from posse.live.http.health import get_traffic
from posse.live.http.listener import LimitedServer
from posse.live.http.protocol import ServerLimits, make_limited_protocol
from posse.live.node import Node

PathLike = str | os.PathLike[str]


class CertificateChain:
    """The files of a certificate and of its private key, None if it is in the same file."""

    def __init__(self, certificate: PathLike, key: PathLike | None = None) -> None:
        self.certificate = Path(certificate)
        self.key = None if key is None else Path(key)
        self._context: ssl.SSLContext | None = None
        self._served = self._read_checked()

    def set_context(self, context: ssl.SSLContext | None) -> None:
        """Set the TLS context that serves the certificate."""
        self._context = context

    def reload_files(self) -> bool:
        """Read the files again, for later connections; return whether the certificate changed."""
        content = self._read_checked()
        if content == self._served or self._context is None:
            return False
        # Later handshakes use the new certificate; connections under way keep the one that they
        # began with.
        self._context.load_cert_chain(self.certificate, self.key)
        self._served = content
        return True

    def _read_checked(self) -> bytes:
        """Read the files after a trial in a separate context, where a bad one does no harm."""
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(self.certificate, self.key)
            parts = [path.read_bytes() for path in (self.certificate, self.key) if path]
        except OSError as error:  # SSLError is one
            raise ValueError(
                f"http_certificate {self.certificate} cannot be used ({error}): it must be a PEM "
                "file, with its private key in it or in http_key"
            ) from error
        return b"".join(parts)


LOOPBACK_HOSTS = {"127.0.0.1": "127.0.0.1", "localhost": "127.0.0.1", "::1": "::1"}
# Seconds until the thread must serve, and until it must have ended. The latter is longer than the 5
# seconds that uvicorn grants to requests under way.
START_SECONDS = 10.0
STOP_SECONDS = 10.0
# bounds of the connections, and descriptors left for neighbours and the store
MAX_CONNECTIONS = 1000
RESERVED_DESCRIPTORS = 256
MIN_CONNECTIONS = 16


def serve_node(
    node: Node,
    address: str,
    hosts: Sequence[str] = (),
    *,
    origins: Sequence[str] = (),
    token: str | None = None,
    operator_token: str | None = None,
    reload: Callable[[], Any] | None = None,
    certificate: PathLike | None = None,
    key: PathLike | None = None,
    insecure: bool = False,
    limits: ServerLimits | None = None,
) -> Server:
    """Serve a node on 127.0.0.1:PORT, localhost:PORT, [::1]:PORT or unix:/PATH, in a thread.

    Other addresses need a token, and a certificate (TLS) or `insecure`. For the rest see
    `create_app`.
    """
    traffic = get_traffic(node)
    limits = replace(limits or ServerLimits(compute_max_connections()), refusals=traffic.refusals)
    chain = None if certificate is None else CertificateChain(certificate, key)
    node_app = create_app(
        node, hosts, token=token, operator_token=operator_token, reload=reload, origins=origins
    )
    server = Server(
        node_app,
        address,
        limits,
        anywhere=token is not None and (insecure or certificate is not None),
        chain=chain,
    )
    # neither closure keeps the server, or through it the node, alive
    state = server.state
    traffic.connections = lambda: len(state.connections)
    traffic.renew_certificate = (lambda: False) if chain is None else chain.reload_files
    return server


def serve_probe(node: Node, address: str) -> Server:
    """Serve /healthz, /readyz and /metrics only, at any address and for any Host."""
    return Server(
        create_probe_app(node), address, ServerLimits(compute_max_connections() // 4), anywhere=True
    )


def compute_max_connections() -> int:
    """Compute the maximal number of clients; neighbours and the store need descriptors too."""
    # The soft limit is the one that the kernel enforces. Below some 340 descriptors clients get a
    # quarter of them, so that an agent with few can still reach its neighbours.
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed == resource.RLIM_INFINITY:
        return MAX_CONNECTIONS
    return min(MAX_CONNECTIONS, max(MIN_CONNECTIONS, allowed - RESERVED_DESCRIPTORS, allowed // 4))


class EndableStreams(Protocol):
    """Streams that run until they are ended."""

    def end_streams(self) -> None:
        """End all streams, from any thread."""


class StreamingApp(Protocol):
    """An ASGI app with streams, which end before the server does."""

    @property
    def streams(self) -> EndableStreams:
        """The streams of the app."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""


class Server:
    """An app at an address or a Unix socket, which listens from construction on."""

    def __init__(
        self,
        app: StreamingApp,
        address: str,
        limits: ServerLimits,
        *,
        anywhere: bool = False,
        chain: CertificateChain | None = None,
    ) -> None:
        config = uvicorn.Config(
            app,
            http=make_limited_protocol(limits),
            log_config=None,
            access_log=False,
            lifespan="off",
            server_header=False,
            proxy_headers=False,  # the client's address does not matter
            ws="none",
            timeout_keep_alive=round(limits.idle_seconds),
            timeout_graceful_shutdown=5,
            callback_notify=self._check_clients,
            timeout_notify=0,  # every second
            ssl_certfile=None if chain is None else chain.certificate,
            ssl_keyfile=None if chain is None else chain.key,
        )
        config.load()
        if chain is not None:
            chain.set_context(config.ssl)
        # Bound before the thread starts: an address in use is then an error of the constructor, not
        # a line in the log of a thread.
        self._socket, self.url = _bind_address(address, anywhere, chain is not None)
        self._path = Path(address.removeprefix("unix:")) if address.startswith("unix:") else None
        self._server = LimitedServer(config)
        self._streams = app.streams
        self._thread = threading.Thread(
            target=self._server.run, args=([self._socket],), name="posse-http", daemon=True
        )
        self._thread.start()
        deadline = time.monotonic() + START_SECONDS
        while not self._server.started:
            if time.monotonic() > deadline or not self._thread.is_alive():
                self.stop()
                raise RuntimeError(f"the server on {address} did not start: see the log")
            time.sleep(0.005)

    @property
    def alive(self) -> bool:
        """Whether it still serves."""
        return self._thread.is_alive()

    @property
    def state(self) -> ServerState:
        """uvicorn's state of the connections."""
        return self._server.server_state

    def stop(self) -> None:
        """Finish the requests under way, close, and remove the file of a Unix socket."""
        # Streams come first: they never end by themselves, and the server waits for open responses.
        self._streams.end_streams()
        self._server.request_exit()
        self._thread.join(STOP_SECONDS)
        self._socket.close()
        if self._path is not None:
            self._path.unlink(missing_ok=True)

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    async def _check_clients(self) -> None:
        """Close the connections of clients that take too long."""
        now = asyncio.get_running_loop().time()
        for connection in list(self.state.connections):
            connection.check_deadlines(now)  # type: ignore[union-attr]


def _bind_address(address: str, anywhere: bool, secure: bool) -> tuple[socket.socket, str]:
    """Return a bound socket and its URL, or raise an error that says what to do."""
    if address.startswith("unix:"):
        return _bind_unix(address.removeprefix("unix:")), address
    try:
        parts = urlsplit(f"//{address}")
        name = parts.hostname or ""
        port = parts.port
        # A user name, path or query in the address would have no effect, so it is refused below.
        plain = parts.username is None and not (parts.path or parts.query or parts.fragment)
    except ValueError:
        name = ""
        port = None
        plain = False
    host = LOOPBACK_HOSTS.get(name) or (name if anywhere else "")
    if not host or port is None or not plain:
        raise ValueError(
            f"the HTTP address must be 127.0.0.1:PORT, localhost:PORT, [::1]:PORT or unix:/PATH, "
            f"got {address!r}: for other machines set http_token and http_certificate, or see "
            "'Behind a reverse proxy' in docs/live.md"
        )
    try:
        family, _, _, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise _bind_error(address, error) from error
    # with an explicit protocol, else asyncio leaves Nagle's delay of 40 ms on every answer
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(where)
    except OSError as error:
        bound.close()
        raise _bind_error(address, error) from error
    shown = f"[{host}]" if ":" in host else host
    return bound, f"http{'s' if secure else ''}://{shown}:{bound.getsockname()[1]}"


def _bind_unix(path: str) -> socket.socket:
    """Bind a Unix socket for this user only, replacing one that a dead process left."""
    if not path.startswith("/"):
        raise ValueError(f"the HTTP address must be unix: and a full path, got {'unix:' + path!r}")
    bound = socket.socket(socket.AF_UNIX)
    try:
        # Only a socket without a server is removed: never another file, nor the socket of a live
        # agent.
        if (
            os.path.exists(path)
            and stat.S_ISSOCK(os.stat(path).st_mode)
            and not _is_listening(path)
        ):
            os.unlink(path)
        bound.bind(path)
        os.chmod(path, 0o600)  # before it listens
    except OSError as error:
        bound.close()
        raise _bind_error(f"unix:{path}", error) from error
    return bound


def _is_listening(path: str) -> bool:
    """Return whether a server listens there."""
    with socket.socket(socket.AF_UNIX) as probe, suppress(ConnectionRefusedError):
        # The connect would block on a live server with a full backlog; the timeout is an OSError,
        # and the address counts as in use.
        probe.settimeout(1)
        probe.connect(path)
        return True
    return False


def _bind_error(address: str, error: OSError) -> ValueError:
    reason = error.strerror or str(error)
    return ValueError(
        f"{address} cannot be served ({reason}): stop the process that uses it or choose another"
    )
