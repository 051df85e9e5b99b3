"""Log lines for neighbours that stay disconnected: one for each absence, with what to look at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

PATIENCE = 20.0  # seconds


class Absences:
    """How long each neighbour has been disconnected, and whether it was logged."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}
        self._said: set[str] = set()

    def look(self, connected: Mapping[str, bool], now: float) -> Iterator[tuple[str, str]]:
        """The sentences to log now, each with what else may help ("": nothing)."""
        for name, here in connected.items():
            if here:
                self._since.pop(name, None)
                if name in self._said:
                    self._said.remove(name)
                    yield f"{name} is connected again", ""
            elif now - self._since.setdefault(name, now) >= PATIENCE and name not in self._said:
                self._said.add(name)
                yield (
                    f"{name} has not been connected for {PATIENCE:.0f} seconds",
                    ": does it run, and answer at the address given here? does its certificate "
                    "have that name and that host? has it this agent among its neighbours?",
                )
