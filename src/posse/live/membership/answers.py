"""The answer about the network: the types that are built, sent over HTTP and documented."""

from __future__ import annotations

from typing import Literal, TypedDict

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
