"""The network as an agent knows it, and the answer about it that is sent over HTTP.

The types of the answer come first: they are what is built, sent and documented.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple, TypedDict

from posse.live.membership.heartbeats import Link, Presence, ReceivedStatus
from posse.live.membership.records import Status

if TYPE_CHECKING:
    from posse.live.experiment import LiveExperiment

AgentState = Literal["here", "up", "down", "silent", "known"]
LinkState = Literal["up", "down", "half"]


class NeighbourAnswer(TypedDict):
    """One neighbour, over all experiments.

    lag: entries or versions that it is not known to have.
    """

    identity: str | None
    active: bool
    last_heard: float | None
    lag: int | None
    connected: bool


class LinkEndAnswer(TypedDict):
    """A link as reported by one end of it."""

    up: bool
    lag: float | None


class CountAnswer(TypedDict):
    """The decisions that an agent counted in an experiment, by its own report, and those here.

    counted: decisions in its own evidence, open ones included. late: rewards refused as late since
    its start. held: decisions of it that are known here. behind: counted, and not known here yet.
    null: unknown, as under flows, of an experiment that is not run here, or of an agent without a
    status; behind also where evidence fades.
    """

    counted: int | None
    open: int | None
    late: int | None
    held: int | None
    behind: int | None


class AgentAnswer(TypedDict):
    """An agent of the network, as it is known here.

    state: here, this agent itself; up, connected or received from within 120 seconds; down, a
    neighbour that is not connected, and of which nothing was received by any path since it was
    lost; silent, nothing for 120 seconds; known, only its evidence is. heard: the time of its last
    status, by this agent's clock; via: the neighbour that forwarded it. lag: seconds that a message
    of a neighbour takes, of others those that their status took. The rest is its own report.
    """

    state: AgentState
    heard: float | None
    lag: float | None
    via: str | None
    version: str | None
    started: float | None
    neighbours: dict[str, LinkEndAnswer]
    refused: dict[str, int]
    experiments: dict[str, CountAnswer]


class LinkAnswer(TypedDict):
    """A link between two agents, listed once; half: its ends disagree whether it is up."""

    a: str
    b: str
    state: LinkState
    lag: float | None


class NetworkAnswer(TypedDict):
    """The neighbours, all known agents and links, and refusals by reason."""

    neighbours: dict[str, NeighbourAnswer]
    refused: dict[str, int]
    agents_known: int
    agents: dict[str, AgentAnswer]
    links: list[LinkAnswer]


# --- every known agent, its state, and the links ("half" where both ends disagree)

SILENT_SECONDS = 120.0  # without a sign of an agent: two heartbeats are missing
UNSURE_SECONDS = 5.0  # around a loss, when a status may be from before or after it
ALIVE_STATES = "here", "up"

Pulls = Mapping[str, Mapping[str, int]]  # of experiments under origins: held here, by origin


@dataclass(frozen=True)
class NetworkView:
    """The network at one moment.

    own_status: this agent's status now; fading: experiments whose counts decrease with time.
    """

    statuses: Mapping[str, ReceivedStatus]
    links: Mapping[str, Link]
    own_status: Status
    pulls: Pulls
    fading: Collection[str]
    now: float
    forgotten: Mapping[str, int] = field(default_factory=dict)  # agent -> its last status, ms

    @classmethod
    def from_presence(
        cls,
        presence: Presence,
        own_status: Status,
        pulls: Pulls,
        fading: Collection[str],
        now: float,
        forgotten: Mapping[str, int] | None = None,
    ) -> NetworkView:
        """Build the view of an agent."""
        statuses = {
            **presence.statuses(),
            own_status.origin: ReceivedStatus(own_status, now, now, None),
        }
        return cls(statuses, presence.links(), own_status, pulls, fading, now, forgotten or {})

    def describe_agents(self) -> dict[str, AgentAnswer]:
        """Describe this agent, all neighbours, and every origin with a status or evidence."""
        origins = {origin for pulls in self.pulls.values() for origin in pulls}
        return {
            name: self._describe_agent(name)
            for name in sorted({*self.statuses, *self.links, *origins})
            if not self.is_forgotten(name)
        }

    def is_forgotten(self, name: str) -> bool:
        """Whether an operator said that this agent left, and it has not come back since."""
        if name not in self.forgotten:
            return False
        link = self.links.get(name)
        received = self.statuses.get(name)
        return not (link is not None and link.up) and (
            received is None or received.status.time <= self.forgotten[name]
        )

    def describe_links(self, agents: Mapping[str, AgentAnswer]) -> list[LinkAnswer]:
        """Describe every link between these agents once: own links as seen, others as reported."""
        own_name = self.own_status.origin
        links: dict[tuple[str, str], tuple[LinkState, float | None]] = {
            _sorted_pair(own_name, name): ("up", link.lag) if link.up else ("down", None)
            for name, link in self.links.items()
            if name in agents
        }
        reports_by_pair: dict[tuple[str, str], list[_LinkReport]] = {}
        for report in self._reported_links():
            pair = _sorted_pair(report.origin, report.name)
            if pair not in links and report.name in agents and report.origin in agents:
                reports_by_pair.setdefault(pair, []).append(report)
        reached = self._find_reachable()
        for pair, reports in reports_by_pair.items():
            reports.sort(key=lambda report: -report.made_at)  # the newest first
            # what a dead end said last is of no use beside the other's word
            trusted = [
                report
                for report in reports
                if report.origin in reached and agents[report.origin]["state"] in ALIVE_STATES
            ] or reports[:1]
            # Both ends alive and of different opinion: a one-way link or a partition (split brain).
            states = {report.up for report in trusted}
            state: LinkState = "half" if len(states) > 1 else "up" if states.pop() else "down"
            lags = [report.lag for report in trusted if report.lag is not None]
            links[pair] = state, lags[0] if lags else None
        return [
            {"a": a, "b": b, "state": state, "lag": lag}
            for (a, b), (state, lag) in sorted(links.items(), key=lambda item: item[0])
        ]

    def _find_reachable(self) -> set[str]:
        """Find the agents reached over links that the nearer end of each reports as up."""
        reached = {self.own_status.origin}
        waiting = [self.own_status.origin]
        while waiting:
            received = self.statuses.get(waiting.pop())
            near = () if received is None else received.status.neighbours
            fresh = {name for name, up, _ in near if up} - reached
            reached |= fresh
            waiting += fresh
        return reached

    def _describe_agent(self, name: str) -> AgentAnswer:
        received = self.statuses.get(name)
        link = self.links.get(name)
        status = None if received is None else received.status
        times = [] if received is None else [received.made_at]
        if link is not None and link.last_message_at is not None:
            times.append(link.last_message_at)
        lag = link.lag if link is not None and link.up else None
        if lag is None and received is not None and received.via is not None:
            lag = max(0.0, received.lag)
        return {
            "state": self._agent_state(name, received, link),
            "heard": max(times, default=None),
            "lag": lag,
            "via": None if received is None else received.via,
            "version": None if status is None else status.version,
            "started": None if status is None else status.started / 1000,
            "neighbours": {} if status is None else dict(_describe_reported(status)),
            "refused": {} if status is None else dict(status.refused),
            "experiments": self._describe_experiments(name, status),
        }

    def _agent_state(
        self, name: str, received: ReceivedStatus | None, link: Link | None
    ) -> AgentState:
        if name == self.own_status.origin:
            return "here"
        if link is not None:
            if link.up:
                return "up"
            if received is None or not self._is_after_loss(received, link):
                return "down"
        if received is None:
            return "known"
        return "up" if self.now - received.made_at < SILENT_SECONDS else "silent"

    def _is_after_loss(self, received: ReceivedStatus, link: Link) -> bool:
        """Whether a status was made after its agent was lost.

        A status that reports the link as down was; else it may have been under way at the loss.
        """
        calls_link_up = next(
            (up for name, up, _ in received.status.neighbours if name == self.own_status.origin),
            True,
        )
        return received.made_at > link.since + (
            UNSURE_SECONDS if calls_link_up else -UNSURE_SECONDS
        )

    def _describe_experiments(self, name: str, status: Status | None) -> dict[str, CountAnswer]:
        """Describe what an agent reports as counted, and what of it is here; null: unknown."""
        tallies = (
            {experiment: numbers for experiment, *numbers in status.experiments}
            if status is not None
            else {}
        )
        received = {
            experiment: origins[name]
            for experiment, origins in self.pulls.items()
            if name in origins
        }
        return {
            experiment: self._describe_experiment(experiment, tallies, received)
            for experiment in sorted({*tallies, *received})
        }

    def _describe_experiment(
        self, name: str, tallies: Mapping[str, list[int]], received: Mapping[str, int]
    ) -> CountAnswer:
        pulls, open_, late = tallies.get(name, (None, None, None))
        here = received.get(name, 0) if name in self.pulls else None
        behind = None
        if pulls is not None and here is not None and name not in self.fading:
            # A restored agent may report less than is stored here: never below zero.
            behind = max(0, pulls - here)
        return {"counted": pulls, "open": open_, "late": late, "held": here, "behind": behind}

    def _reported_links(self) -> Iterator[_LinkReport]:
        for origin, received in self.statuses.items():
            if origin != self.own_status.origin:
                for name, up, lag in received.status.neighbours:
                    if name != origin:
                        yield _LinkReport(
                            origin, name, received.made_at, up, None if lag < 0 else lag / 1000
                        )


class _LinkReport(NamedTuple):
    """What one end reports of a link."""

    origin: str
    name: str
    made_at: float
    up: bool
    lag: float | None


def _sorted_pair(first: str, second: str) -> tuple[str, str]:
    return (first, second) if first < second else (second, first)


def _describe_reported(status: Status) -> Iterator[tuple[str, LinkEndAnswer]]:
    for name, up, lag in status.neighbours:
        yield name, {"up": up, "lag": None if lag < 0 else lag / 1000}


# ---- The description of the network that a node serves


def describe_network(
    experiments: Mapping[str, LiveExperiment],
    presence: Presence,
    own_status: Status,  # what this agent says of itself now
    connected: Mapping[str, bool],
    refused: Mapping[str, int],
    now: float,
) -> NetworkAnswer:
    """Describe neighbours over all experiments, agents, links and refusals."""
    pulls = {
        e: experiment.pulls_by_origin()
        for e, experiment in experiments.items()
        if experiment.knows_origins
    }
    fading = {e for e, experiment in experiments.items() if experiment.agent.half_life is not None}
    forgotten: dict[str, int] = {}
    for experiment in experiments.values():
        for name, last_status in experiment.forgotten_agents().items():
            forgotten[name] = max(last_status, forgotten.get(name, 0))
    view = NetworkView.from_presence(presence, own_status, pulls, fading, now, forgotten)
    agents = view.describe_agents()
    known = {name for experiment in experiments.values() for name in experiment.known_agents()}
    return {
        "neighbours": _describe_neighbours(experiments, connected),
        "refused": dict(refused),
        "agents_known": sum(not view.is_forgotten(name) for name in known),
        "agents": agents,
        "links": view.describe_links(agents),
    }


def _describe_neighbours(
    experiments: Mapping[str, LiveExperiment], connected: Mapping[str, bool]
) -> dict[str, NeighbourAnswer]:
    neighbours: dict[str, NeighbourAnswer] = {}
    for experiment in experiments.values():
        for name, status in experiment.neighbours().items():
            fields: NeighbourAnswer = {
                "identity": status.identity,
                "active": status.active,
                "last_heard": status.last_heard,
                "lag": status.lag,
                "connected": connected.get(name, False),
            }
            neighbours[name] = (
                _merge_statuses(neighbours[name], fields) if name in neighbours else fields
            )
    return neighbours


def _merge_statuses(first: NeighbourAnswer, second: NeighbourAnswer) -> NeighbourAnswer:
    """Merge the status of one neighbour over two experiments: the last message, the sum of lags."""
    times = [at for status in (first, second) if (at := status["last_heard"]) is not None]
    lags = [lag for status in (first, second) if (lag := status["lag"]) is not None]
    return {
        "identity": first["identity"] or second["identity"],
        "active": first["active"] or second["active"],
        "last_heard": max(times, default=None),
        "lag": sum(lags) if lags else None,
        "connected": first["connected"],
    }
