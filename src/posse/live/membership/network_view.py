"""What people are shown of the network: every agent that is known, how it is, and the links."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from posse.live.membership.answers import (
    AgentAnswer,
    AgentState,
    CountAnswer,
    LinkAnswer,
    LinkEndAnswer,
    LinkState,
    NeighbourAnswer,
    NetworkAnswer,
)
from posse.live.membership.heartbeats import Held, Link, Presence
from posse.live.membership.records import Status

if TYPE_CHECKING:
    from posse.live.experiment.experiment import Experiment

SILENT = 120.0  # seconds without news of an agent: two heartbeats that did not come
AROUND = 5.0  # seconds of a loss, in which news may be of before or after it
ALIVE = "here", "up"

Pulls = Mapping[str, Mapping[str, int]]  # of experiments under origins: held here, by origin


@dataclass(frozen=True)
class View:
    """The network at one moment.

    own: what we say of ourselves now; fading: experiments whose counts grow smaller with time.
    """

    held: Mapping[str, Held]
    links: Mapping[str, Link]
    own: Status
    pulls: Pulls
    fading: Collection[str]
    now: float

    @classmethod
    def of(
        cls, presence: Presence, own: Status, pulls: Pulls, fading: Collection[str], now: float
    ) -> View:
        """As an agent knows it."""
        held = {**presence.held(), own.origin: Held(own, now, now, None)}
        return cls(held, presence.links(), own, pulls, fading, now)

    def agents(self) -> dict[str, AgentAnswer]:
        """Itself, all neighbours, and every origin with a status or evidence."""
        origins = {origin for each in self.pulls.values() for origin in each}
        return {name: self._agent(name) for name in sorted({*self.held, *self.links, *origins})}

    def edges(self, agents: Mapping[str, AgentAnswer]) -> list[LinkAnswer]:
        """Every link between these agents once: our own as we see them, others as they say."""
        own = self.own.origin
        found: dict[tuple[str, str], tuple[LinkState, float | None]] = {
            _pair(own, name): ("up", link.lag) if link.up else ("down", None)
            for name, link in self.links.items()
        }
        words: dict[tuple[str, str], list[_Word]] = {}
        for word in self._words():
            pair = _pair(word.origin, word.name)
            if pair not in found and word.name in agents:
                words.setdefault(pair, []).append(word)
        reached = self._reached()
        for pair, said in words.items():
            said.sort(key=lambda word: -word.made)  # the newest first
            # what a dead end said last is of no use beside the other's word
            told = [
                word
                for word in said
                if word.origin in reached and agents[word.origin]["state"] in ALIVE
            ] or said[:1]
            states = {word.up for word in told}
            state: LinkState = "half" if len(states) > 1 else "up" if states.pop() else "down"
            lags = [word.lag for word in told if word.lag is not None]
            found[pair] = state, lags[0] if lags else None
        return [
            {"a": a, "b": b, "state": state, "lag": lag}
            for (a, b), (state, lag) in sorted(found.items(), key=lambda item: item[0])
        ]

    def _reached(self) -> set[str]:
        """The agents that we reach over links which the nearer end of each calls up."""
        reached = {self.own.origin}
        waiting = [self.own.origin]
        while waiting:
            held = self.held.get(waiting.pop())
            near = () if held is None else held.status.neighbours
            fresh = {name for name, up, _ in near if up} - reached
            reached |= fresh
            waiting += fresh
        return reached

    def _agent(self, name: str) -> AgentAnswer:
        held = self.held.get(name)
        link = self.links.get(name)
        status = None if held is None else held.status
        news = [] if held is None else [held.made]
        if link is not None and link.heard is not None:
            news.append(link.heard)
        lag = link.lag if link is not None and link.up else None
        if lag is None and held is not None and held.via is not None:
            lag = max(0.0, held.lag)
        return {
            "state": self._state(name, held, link),
            "heard": max(news, default=None),
            "lag": lag,
            "via": None if held is None else held.via,
            "version": None if status is None else status.version,
            "started": None if status is None else status.started / 1000,
            "neighbours": {} if status is None else dict(_neighbours(status)),
            "refused": {} if status is None else dict(status.refused),
            "experiments": self._experiments(name, status),
        }

    def _state(self, name: str, held: Held | None, link: Link | None) -> AgentState:
        if name == self.own.origin:
            return "here"
        if link is not None:
            if link.up:
                return "up"
            if held is None or not self._is_since(held, link):
                return "down"
        if held is None:
            return "known"
        return "up" if self.now - held.made < SILENT else "silent"

    def _is_since(self, held: Held, link: Link) -> bool:
        """Whether a status was made after its agent was lost.

        One that calls the link down was; else it may be a last word that was under way.
        """
        word = next((up for name, up, _ in held.status.neighbours if name == self.own.origin), True)
        return held.made > link.since + (AROUND if word else -AROUND)

    def _experiments(self, name: str, status: Status | None) -> dict[str, CountAnswer]:
        """What it has counted by its own word, and what of it is held here; null: unknown."""
        said = {each: rest for each, *rest in status.experiments} if status is not None else {}
        held = {each: origins[name] for each, origins in self.pulls.items() if name in origins}
        return {each: self._experiment(each, said, held) for each in sorted({*said, *held})}

    def _experiment(
        self, name: str, said: Mapping[str, list[int]], held: Mapping[str, int]
    ) -> CountAnswer:
        counted, open_, late = said.get(name, (None, None, None))
        here = held.get(name, 0) if name in self.pulls else None
        behind = None
        if counted is not None and here is not None and name not in self.fading:
            behind = max(0, counted - here)
        return {"counted": counted, "open": open_, "late": late, "held": here, "behind": behind}

    def _words(self) -> Iterator[_Word]:
        for origin, held in self.held.items():
            if origin != self.own.origin:
                for name, up, lag in held.status.neighbours:
                    if name != origin:
                        yield _Word(origin, name, held.made, up, None if lag < 0 else lag / 1000)


class _Word(NamedTuple):
    """What one end says of a link."""

    origin: str
    name: str
    made: float
    up: bool
    lag: float | None


def _pair(one: str, other: str) -> tuple[str, str]:
    return (one, other) if one < other else (other, one)


def _neighbours(status: Status) -> Iterator[tuple[str, LinkEndAnswer]]:
    for name, up, lag in status.neighbours:
        yield name, {"up": up, "lag": None if lag < 0 else lag / 1000}


# The answer to who is there: neighbours over all experiments, agents, links, and refusals.


def network(
    experiments: Mapping[str, Experiment],
    presence: Presence,
    own: Status,  # what this agent says of itself now
    connected: Mapping[str, bool],
    refused: Mapping[str, int],
    now: float,
) -> NetworkAnswer:
    """What a node answers."""
    pulls = {e: each.pulls_by_origin() for e, each in experiments.items() if each.knows_origins}
    fading = {e for e, each in experiments.items() if each.agent.half_life is not None}
    view = View.of(presence, own, pulls, fading, now)
    agents = view.agents()
    return {
        "neighbours": _describe_neighbours(experiments, connected),
        "refused": dict(refused),
        "agents_known": len({name for each in experiments.values() for name in each.known()}),
        "agents": agents,
        "links": view.edges(agents),
    }


def _describe_neighbours(
    experiments: Mapping[str, Experiment], connected: Mapping[str, bool]
) -> dict[str, NeighbourAnswer]:
    neighbours: dict[str, NeighbourAnswer] = {}
    for each in experiments.values():
        for name, status in each.neighbours().items():
            said: NeighbourAnswer = {
                "identity": status.identity,
                "active": status.active,
                "last_heard": status.last_heard,
                "lag": status.lag,
                "connected": connected.get(name, False),
            }
            neighbours[name] = _both(neighbours[name], said) if name in neighbours else said
    return neighbours


def _both(one: NeighbourAnswer, other: NeighbourAnswer) -> NeighbourAnswer:
    """One neighbour's status over two experiments: heard last, lagging in both."""
    heard = [at for each in (one, other) if (at := each["last_heard"]) is not None]
    lags = [lag for each in (one, other) if (lag := each["lag"]) is not None]
    return {
        "identity": one["identity"] or other["identity"],
        "active": one["active"] or other["active"],
        "last_heard": max(heard, default=None),
        "lag": sum(lags) if lags else None,
        "connected": one["connected"],
    }
