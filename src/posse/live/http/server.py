"""An HTTP server (uvicorn) in a thread, bound to loopback or a Unix socket."""

from __future__ import annotations

import os
import socket
import stat
import threading
import time
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import uvicorn
from starlette.types import ASGIApp

from posse.live.http.protocol import Protocol

HOSTS = {"127.0.0.1": "127.0.0.1", "localhost": "127.0.0.1", "::1": "::1"}
START, STOP = 10.0, 10.0  # seconds


class Server:
    """An app at a loopback address or a Unix socket, which listens once this is made."""

    def __init__(self, app: ASGIApp, address: str) -> None:
        self._socket, self.url = _bind(address)
        self._path = Path(address.removeprefix("unix:")) if address.startswith("unix:") else None
        config = uvicorn.Config(
            app,
            http=Protocol,
            log_config=None,
            access_log=False,
            lifespan="off",
            server_header=False,
            proxy_headers=False,  # who asks is all the same
            ws="none",
            timeout_graceful_shutdown=5,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, args=([self._socket],), name="posse-http", daemon=True
        )
        self._thread.start()
        deadline = time.monotonic() + START
        while not self._server.started:
            if time.monotonic() > deadline or not self._thread.is_alive():
                self.stop()
                raise RuntimeError(f"the server on {address} did not start: see the log")
            time.sleep(0.005)

    @property
    def alive(self) -> bool:
        """Whether it still serves."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """End it: finish what is asked, close, remove a Unix socket's file."""
        self._server.should_exit = True
        self._thread.join(STOP)
        self._socket.close()
        if self._path is not None:
            self._path.unlink(missing_ok=True)

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()


def _bind(address: str) -> tuple[socket.socket, str]:
    """A bound socket and its URL, or an error that says what to do."""
    if address.startswith("unix:"):
        return _bind_unix(address.removeprefix("unix:")), address
    try:
        parts = urlsplit(f"//{address}")
        host, port = HOSTS.get(parts.hostname or ""), parts.port
        plain = parts.username is None and not (parts.path or parts.query or parts.fragment)
    except ValueError:
        host, port, plain = None, None, False
    if host is None or port is None or not plain:
        raise ValueError(
            f"the HTTP address must be 127.0.0.1:PORT, localhost:PORT, [::1]:PORT or unix:/PATH, "
            f"got {address!r}: for other machines see 'Behind a reverse proxy' in docs/live.md"
        )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # the protocol said, else asyncio leaves Nagle's delay of 40 ms on every answer
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        raise _unavailable(address, error) from error
    shown = f"[{host}]" if ":" in host else host
    return bound, f"http://{shown}:{bound.getsockname()[1]}"


def _bind_unix(path: str) -> socket.socket:
    """A Unix socket for this user alone, in place of one that a dead process left."""
    if not path.startswith("/"):
        raise ValueError(f"the HTTP address must be unix: and a full path, got {'unix:' + path!r}")
    bound = socket.socket(socket.AF_UNIX)
    try:
        if os.path.exists(path) and stat.S_ISSOCK(os.stat(path).st_mode) and not _answers(path):
            os.unlink(path)
        bound.bind(path)
        os.chmod(path, 0o600)  # before it listens
    except OSError as error:
        bound.close()
        raise _unavailable(f"unix:{path}", error) from error
    return bound


def _answers(path: str) -> bool:
    """Whether a server listens there."""
    with socket.socket(socket.AF_UNIX) as probe, suppress(ConnectionRefusedError):
        probe.settimeout(1)
        probe.connect(path)
        return True
    return False


def _unavailable(address: str, error: OSError) -> ValueError:
    reason = error.strerror or str(error)
    return ValueError(f"{address} cannot be served ({reason}): stop who uses it or choose another")
