"""A snapshot of an agent for the page of a swarm: whose evidence it holds, what it plays."""

from __future__ import annotations

from msgspec import Struct

from posse.live.node import Node
from posse.live.swarm.faulty import Interference


class Glance(Struct, frozen=True):
    """What an agent holds and does at one moment."""

    held: dict[str, int]  # pulls of each agent, its own included
    shares: dict[str, float]  # with which probability its next decision plays each arm
    sent: list[tuple[str, bool]]  # messages since the last glance: to whom, and whether let through


def glance(node: Node, interference: Interference) -> Glance:
    """Look at an agent."""
    experiment = node.experiment()
    return Glance(
        experiment.pulls_by_origin(),
        experiment.probabilities(),
        interference.sent(),
    )
