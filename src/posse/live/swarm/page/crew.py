"""The seam between the buttons of the page and what they do, in memory or to processes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from posse.live.swarm.faulty import Faults
from posse.live.swarm.glances import Glance
from posse.live.swarm.site import Site


class Crew(Protocol):
    """Starts, kills and looks at agents by name; one thread calls it, and is not held up."""

    stepped: bool  # whether time goes on by `advance` only, so that it can be paused

    @property
    def now(self) -> float:
        """Seconds since the beginning."""

    def begin(
        self, names: Sequence[str], links: Sequence[tuple[str, str]], arms: Sequence[str]
    ) -> list[Site]:
        """Start agents that play these arms."""

    def join(self, name: str, neighbours: Sequence[str]) -> Site:
        """Start one more agent, and let its neighbours know it."""

    def start(self, name: str) -> None:
        """Start an agent that was killed, from what is on its disk."""

    def kill(self, name: str) -> None:
        """End it as a power failure would."""

    def stop(self, name: str) -> None:
        """Let it stand still: it neither ticks nor answers (SIGSTOP)."""

    def go_on(self, name: str) -> None:
        """Let it go on as if nothing had been (SIGCONT)."""

    def interfere(self, name: str, faults: Faults) -> None:
        """Let these faults befall its messages, now and after every start."""

    def set_arms(self, arms: Sequence[str]) -> None:
        """Let all agents play these arms, by a reload."""

    def look(self, names: Iterable[str]) -> dict[str, Glance]:
        """What those of these agents hold that answer in time."""

    def problem(self, name: str) -> str | None:
        """Why an agent that should run does not, if so."""

    def advance(self, visits: bool) -> None:
        """Let one step of time pass, with visitors or without; nothing where time is real."""
