"""What a node is made of: keys, experiments and the way to others, at its start and later."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from posse.live.agent.agent import Agent
from posse.live.config.agent_settings import Settings
from posse.live.controls.controls import Controls
from posse.live.exchange.epochs import lasting_clock
from posse.live.exchange.examine import Sign, Verify
from posse.live.experiment.experiment import Experiment, Silence
from posse.live.messaging.transport import Transport
from posse.live.security.certificates import Files, check_files
from posse.live.security.signatures import Vouch, signer, verifier, voucher
from posse.live.store import Store


@dataclass(frozen=True)
class Read:
    """What the files of a certificate held at one moment."""

    contents: tuple[bytes, ...]
    sign: Sign
    verify: Verify
    vouch: Vouch


class Keys:
    """Signs and verifies by the files of a certificate, which may change while a process runs."""

    def __init__(self, name: str, files: Files) -> None:
        self.name = name
        self.files = files
        self._read = self._now()

    def changed(self) -> Read | None:
        """What the files hold now, checked, if it is not what is in use."""
        fresh = self._now()
        return None if fresh.contents == self._read.contents else fresh

    def use(self, fresh: Read) -> Read:
        """Sign and verify by this from now on; what was used before."""
        before = self._read
        self._read = fresh
        return before

    def sign(self, content: bytes) -> bytes:
        """A signature of this agent."""
        return self._read.sign(content)

    def verify(self, origin: str, content: bytes, signature: bytes) -> bool:
        """Whether the agent of this name signed."""
        return self._read.verify(origin, content, signature)

    def vouch(self, name: str, content: bytes, signature: bytes) -> tuple[float, float] | None:
        """From when to when the certificate of a signer is valid; None if it did not sign."""
        return self._read.vouch(name, content, signature)

    def _now(self) -> Read:
        check_files(self.name, self.files)
        places = self.files.authority, self.files.certificate, self.files.key
        return Read(
            tuple(place.read_bytes() for place in places),
            signer(self.files),
            verifier(self.files),
            voucher(self.files),
        )


@dataclass(frozen=True)
class Outside:
    """What joins a node to others: how a transport is made, and the keys, if it has any."""

    connect: Callable[[Settings], Transport]
    keys: Keys | None = None


@dataclass(frozen=True)
class Maker:
    """Makes the experiments of a node, at its start and later."""

    name: str
    keys: Keys | None
    clock: Callable[[], float]
    draw: Callable[[int], int]
    monotonic: Callable[[], float] = time.monotonic

    def first(self, settings: Settings, name: str, path: Path) -> Experiment:
        """The first experiment of a process, which opens the store."""
        agents = self._agents(settings, name)
        store = Store.open(
            path,
            fingerprint=agents[0].fingerprint,
            accepted_fingerprints=_equal(agents),
            experiment=name,
            owner=self.name,
            monotonic=self.monotonic,
        )
        try:
            return self._experiment(settings, name, _of(agents, store), store)
        except BaseException:
            store.close()
            raise

    def beside(self, settings: Settings, name: str, store: Store) -> Experiment:
        """Another experiment in the same store."""
        agents = self._agents(settings, name)
        view = store.open_experiment(name, agents[0].fingerprint, _equal(agents))
        return self._experiment(settings, name, _of(agents, view), view)

    def configure(self, settings: Settings, experiment: Experiment) -> None:
        """Take other operators and keys."""
        sign, vouch = (self.keys.sign, self.keys.vouch) if self.keys else (None, None)
        experiment.configure(settings.operators, sign, vouch)

    def _agents(self, settings: Settings, experiment: str) -> list[Agent]:
        """The agent that settings ask for, and what its store may hold in its place.

        Under flows neighbours must agree whether decisions can count from the start; as a store
        was begun, so is its network, and it goes on like that, whatever silence means by now.
        """
        sign, verify = (self.keys.sign, self.keys.verify) if self.keys else (None, None)
        own = self.monotonic is not time.monotonic
        # a clock that is not the machine's need not go as its other one does
        steady = self.monotonic if own else lasting_clock if self.clock is time.time else None
        asked = settings.experiments[experiment]
        ways = [asked.begins, not asked.begins] if asked.exchange == "flows" else [asked.begins]
        return [
            settings.agent(sign, verify, experiment, self.draw, self.clock, begins, steady)
            for begins in ways
        ]

    def _experiment(self, settings: Settings, name: str, agent: Agent, store: Store) -> Experiment:
        s = settings.experiments[name]
        made = Experiment(
            name,
            agent,
            store,
            silence=Silence(s.reward_window, s.default_reward),
            remember=s.remember,
            clock=self.clock,
            draw=self.draw,
            controls=Controls(settings.network, name, self.name),
        )
        self.configure(settings, made)
        if s.exchange == "origins" and agent.exchange.identity != self.name:
            # its certificate would not vouch for what it says
            raise ValueError(
                f"{settings.store} is the store of {agent.exchange.identity}: set name back to "
                f"it, or give {self.name} a new store"
            )
        return made


def _equal(agents: Sequence[Agent]) -> list[str]:
    """The fingerprints of a store that fits one of these, but for the first of them."""
    return [agent.fingerprint for agent in agents[1:]]


def _of(agents: Sequence[Agent], store: Store) -> Agent:
    """Whose evidence a store holds."""
    return next(agent for agent in agents if agent.fingerprint == store.fingerprint)
