"""Parts of a node: its keys, experiments and access to the network, at start and at reload."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from posse.live.agent import Agent
from posse.live.config import AgentSettings
from posse.live.controls import Controls
from posse.live.exchange import Sign, Verify
from posse.live.experiment import LiveExperiment, RewardWindow
from posse.live.messaging import Transport
from posse.live.security import (
    CertificateFiles,
    Vouch,
    check_files,
    make_signer,
    make_verifier,
    make_voucher,
    read_certificate,
)
from posse.live.store import Store


def lasting_clock() -> float:
    """Return seconds of a clock that nobody sets, and that runs on during sleep if it can."""
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot is None else time.clock_gettime(boot)


@dataclass(frozen=True)
class KeyMaterial:
    """The files of a certificate as they were at one moment."""

    contents: tuple[bytes, ...]
    sign: Sign
    verify: Verify
    vouch: Vouch
    expires: float  # the end of the certificate, in Unix time


class AgentKeys:
    """Signs and verifies by the files of a certificate, which may change while a process runs."""

    def __init__(self, name: str, files: CertificateFiles) -> None:
        self.name = name
        self.files = files
        self._material = self._read_files()

    def read_changed(self) -> KeyMaterial | None:
        """Return what the files contain now, validated, if it changed."""
        fresh = self._read_files()
        return None if fresh.contents == self._material.contents else fresh

    def switch_to(self, fresh: KeyMaterial) -> KeyMaterial:
        """Sign and verify by this from now on; returns what was used before."""
        before = self._material
        self._material = fresh
        return before

    @property
    def expires(self) -> float:
        """When the certificate that is used expires, in Unix time."""
        return self._material.expires

    def sign(self, content: bytes) -> bytes:
        """Sign as this agent."""
        return self._material.sign(content)

    def verify(self, origin: str, content: bytes, signature: bytes) -> bool:
        """Whether the agent of this name signed."""
        return self._material.verify(origin, content, signature)

    def vouch(self, name: str, content: bytes, signature: bytes) -> tuple[float, float] | None:
        """Return when the certificate of a signer is valid; None if it did not sign."""
        return self._material.vouch(name, content, signature)

    def _read_files(self) -> KeyMaterial:
        check_files(self.name, self.files)
        places = self.files.authority, self.files.certificate, self.files.key
        return KeyMaterial(
            tuple(place.read_bytes() for place in places),
            make_signer(self.files),
            make_verifier(self.files),
            make_voucher(self.files),
            read_certificate(self.files.certificate).not_valid_after_utc.timestamp(),
        )


@dataclass(frozen=True)
class NetworkAccess:
    """A node's access to other agents: how a transport is opened, and the keys, if any."""

    connect: Callable[[AgentSettings], Transport]
    keys: AgentKeys | None = None


@dataclass(frozen=True)
class ExperimentFactory:
    """Builds the experiments of a node, at start and at reload."""

    name: str
    keys: AgentKeys | None
    clock: Callable[[], float]
    draw: Callable[[int], int]
    monotonic: Callable[[], float] = time.monotonic

    def open_first(self, settings: AgentSettings, name: str, path: Path) -> LiveExperiment:
        """Build the first experiment of a process, which opens the store."""
        agents = self._candidate_agents(settings, name)
        store = Store.open(
            path,
            fingerprint=agents[0].fingerprint,
            accepted_fingerprints=_other_fingerprints(agents),
            experiment=name,
            owner=self.name,
            monotonic=self.monotonic,
        )
        try:
            # The store decides which variant continues; the other agent is dropped.
            return self._make_experiment(settings, name, _matching_agent(agents, store), store)
        except BaseException:
            store.close()
            raise

    def check_another(self, settings: AgentSettings, name: str, store: Store) -> None:
        """Refuse another experiment whose evidence in the store has another meaning."""
        agents = self._candidate_agents(settings, name)
        store.check_experiment(name, agents[0].fingerprint, _other_fingerprints(agents))

    def open_another(self, settings: AgentSettings, name: str, store: Store) -> LiveExperiment:
        """Build another experiment in the same store."""
        agents = self._candidate_agents(settings, name)
        view = store.open_experiment(name, agents[0].fingerprint, _other_fingerprints(agents))
        return self._make_experiment(settings, name, _matching_agent(agents, view), view)

    def configure_controls(self, settings: AgentSettings, experiment: LiveExperiment) -> None:
        """Give an experiment its operators and keys."""
        sign, vouch = (self.keys.sign, self.keys.vouch) if self.keys else (None, None)
        # Operators and keys may change at a reload, the experiment stays.
        experiment.configure_operators(settings.operators, sign, vouch)

    def _candidate_agents(self, settings: AgentSettings, experiment: str) -> list[Agent]:
        """Return the agent of these settings, and the one that its store may need instead.

        Under flows neighbours must agree whether decisions can count from the start; a network
        keeps the mode in which its stores began, even if the meaning of a missing reward changed.
        """
        sign, verify = (self.keys.sign, self.keys.verify) if self.keys else (None, None)
        is_custom = self.monotonic is not time.monotonic
        # a clock that is not the machine's need not go as its other one does
        steady = self.monotonic if is_custom else lasting_clock if self.clock is time.time else None
        experiment_settings = settings.experiments[experiment]
        variants = (
            [experiment_settings.counts_from_start, not experiment_settings.counts_from_start]
            if experiment_settings.exchange == "flows"
            else [experiment_settings.counts_from_start]
        )
        return [
            settings.make_agent(
                sign, verify, experiment, self.draw, self.clock, counts_from_start, steady
            )
            for counts_from_start in variants
        ]

    def _make_experiment(
        self, settings: AgentSettings, name: str, agent: Agent, store: Store
    ) -> LiveExperiment:
        s = settings.experiments[name]
        experiment = LiveExperiment(
            name,
            agent,
            store,
            reward_window=RewardWindow(s.reward_window, s.default_reward),
            remember=s.remember,
            payload=s.payload,
            clock=self.clock,
            draw=self.draw,
            controls=Controls(settings.network, name, self.name),
        )
        self.configure_controls(settings, experiment)
        if s.exchange == "origins" and agent.exchange.identity != self.name:
            # its certificate would not vouch for what it says
            raise ValueError(
                f"{settings.store} belongs to {agent.exchange.identity}: set name back to "
                f"that, or give {self.name} a new store"
            )
        return experiment


def _other_fingerprints(agents: Sequence[Agent]) -> list[str]:
    """Return the further fingerprints of a store that fits one of these agents."""
    return [agent.fingerprint for agent in agents[1:]]


def _matching_agent(agents: Sequence[Agent], store: Store) -> Agent:
    """Return the agent whose evidence a store has."""
    return next(agent for agent in agents if agent.fingerprint == store.fingerprint)
