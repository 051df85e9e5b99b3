"""Kills, a process that hangs, one that is cut off: nothing lost, nothing counted twice."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from contextlib import suppress

import pytest


class Proxy:
    """Passes TCP connections on to a port of this machine, or cuts them all."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._cut = False
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Close what is open, and what comes until `mend`."""
        with self._lock:
            self._cut = True
            for each in self._open:
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        self._cut = False

    def close(self) -> None:
        self.cut()
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                caller, _ = self._listener.accept()
                threading.Thread(target=self._join, args=(caller,), daemon=True).start()

    def _join(self, caller: socket.socket) -> None:
        with caller, suppress(OSError), socket.create_connection(("127.0.0.1", self._target)) as to:
            ends = {caller, to}
            with self._lock:
                if self._cut:
                    return
                self._open |= ends
            back = threading.Thread(target=_pass_on, args=(to, caller), daemon=True)
            back.start()
            _pass_on(caller, to)
            back.join()
            with self._lock:
                self._open -= ends


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    for each in (source, target):
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


class Around:
    """Proxies on all links of one agent, whoever dials."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.proxies: list[Proxy] = []

    def route(self, source: str, target: str, port: int) -> int:
        if self.name not in (source, target):
            return port
        self.proxies.append(Proxy(port))
        return self.proxies[-1].port

    def all(self, do) -> None:
        for proxy in self.proxies:
            do(proxy)


@pytest.fixture
def around():
    made = Around("agent-1")
    yield made
    made.all(Proxy.close)


@pytest.mark.parametrize("exchange", ["origins", "flows"])
def test_killed_stopped_and_cut_off(exchange, scale, swarm_of, around, until, check, tell):
    swarm = swarm_of(scale.agents, exchange, route=around.route)
    assert len(around.proxies) == 4  # two neighbours, dialled and dialling
    cut_off, stopped = swarm.sites[1], swarm.sites[2]
    for site in swarm.sites:
        until(lambda site=site: site.look() and site.sample.connected == 2, f"links of {site.name}")
    swarm.visit()
    start, kills, isolated = time.monotonic(), 0, False
    stop = start + 0.2 * scale.seconds, start + 0.2 * scale.seconds + scale.part(15 / 60)
    cut = stop[1] + 1.0, stop[1] + 1.0 + scale.part(10 / 60)
    events = [
        (stop[0], lambda: os.kill(stopped.process.pid, signal.SIGSTOP)),
        (stop[1], lambda: os.kill(stopped.process.pid, signal.SIGCONT)),
        (cut[0], lambda: around.all(Proxy.cut)),
        (cut[1], lambda: around.all(Proxy.mend)),
    ]
    due = start
    while events or time.monotonic() < start + scale.seconds:
        now = time.monotonic()
        spared = [s for s, (a, b) in ((stopped, stop), (cut_off, cut)) if a - 1 <= now < b]
        if events and now >= events[0][0]:
            events.pop(0)[1]()
        elif now >= due:
            due = now + scale.between_kills
            kills += swarm.kill_one(spared) is not None
        isolated |= cut[0] < now < cut[1] and cut_off.answers and not cut_off.sample.connected
        time.sleep(0.02)
    assert isolated, "the proxies did not cut it off"
    assert kills >= 2
    line = check(swarm, exchange)
    tell(
        f"{exchange}: {kills} kills in {time.monotonic() - start:.0f} s with settling, one agent "
        f"stopped for {stop[1] - stop[0]:.0f} s, one cut off for {cut[1] - cut[0]:.0f} s: {line}"
    )
