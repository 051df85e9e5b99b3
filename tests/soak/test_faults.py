"""Kills, a process that hangs, one that is cut off: nothing lost, nothing counted twice."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import pytest

from posse.live.demo import AgentSite

pytestmark = pytest.mark.long


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


class Faults:
    """Kills of random agents, and meanwhile one that hangs and one that is cut off."""

    def __init__(self, swarm, around, scale, until) -> None:
        self.swarm, self.around, self.scale, self.until = swarm, around, scale, until
        self.kills = 0
        self._spared: list[AgentSite] = []  # from kills
        self._killing = threading.Lock()

    def run(self) -> None:
        end = time.monotonic() + self.scale.seconds
        with ThreadPoolExecutor(1) as pool:
            others = pool.submit(self._stop_and_cut)
            while time.monotonic() < end or not others.done():
                next_kill = time.monotonic() + self.scale.between_kills
                with self._killing:
                    self.kills += self.swarm.kill_random_agent(self._spared) is not None
                time.sleep(max(0.0, next_kill - time.monotonic()))
            others.result()

    def _stop_and_cut(self) -> None:
        time.sleep(0.2 * self.scale.seconds)
        with self._alive(self.swarm.sites[2]) as site:
            os.kill(site.process.pid, signal.SIGSTOP)
            time.sleep(self.scale.stopped)
            os.kill(site.process.pid, signal.SIGCONT)
        with self._alive(self.swarm.sites[1]) as site:
            assert site.name == self.around.name
            self.around.all(Proxy.cut)
            self.until(lambda: site.take_sample() and site.sample.connected == 0, "it is cut off")
            before = site.acknowledged
            time.sleep(self.scale.cut_off)
            self.until(lambda: site.acknowledged > before, "it answers although it is alone")
            assert site.sample.connected == 0
            self.around.all(Proxy.mend)

    @contextmanager
    def _alive(self, site):
        """Let nobody kill it, and wait until it answers."""
        with self._killing:
            self._spared.append(site)
        site.wait_until_ready()
        yield site
        self._spared.remove(site)


@pytest.mark.parametrize("exchange", ["origins", "flows"])
def test_killed_stopped_and_cut_off(exchange, scale, swarm_of, around, until, check, tell):
    swarm = swarm_of(scale.agents, exchange, route=around.route)
    assert len(around.proxies) == 4  # two neighbours, dialled and dialling
    for site in swarm.sites:
        until(
            lambda site=site: site.take_sample() and site.sample.connected == 2,
            f"links of {site.name}",
        )
    start = time.monotonic()
    swarm.send_visitors()
    faults = Faults(swarm, around, scale, until)
    faults.run()
    assert faults.kills >= 2
    seconds = time.monotonic() - start
    line = check(swarm, exchange)
    tell(
        f"{exchange}: {faults.kills} kills in {seconds:.0f} s, one agent stopped for "
        f"{scale.stopped:.0f} s, one cut off for {scale.cut_off:.0f} s: {line}"
    )
