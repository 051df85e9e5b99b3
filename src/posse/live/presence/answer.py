"""The answer to who is there: neighbours over all experiments, agents, links, and refusals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from posse.live.presence.view import View

if TYPE_CHECKING:
    from posse.live.experiment import Experiment
    from posse.live.presence.presence import Presence
    from posse.live.presence.records import Status


def network(
    experiments: Mapping[str, Experiment],
    presence: Presence,
    own: Status,  # what this agent says of itself now
    connected: Mapping[str, bool],
    refused: Mapping[str, int],
    now: float,
) -> dict[str, Any]:
    """What a node answers."""
    pulls = {e: each.pulls_by_origin() for e, each in experiments.items() if each.knows_origins}
    fading = {e for e, each in experiments.items() if each.agent.half_life is not None}
    view = View.of(presence, own, pulls, fading, now)
    agents = view.agents()
    return {
        "neighbours": _neighbours(experiments, connected),
        "refused": dict(refused),
        "agents_known": len({name for each in experiments.values() for name in each.known()}),
        "agents": agents,
        "links": view.edges(agents),
    }


def _neighbours(
    experiments: Mapping[str, Experiment], connected: Mapping[str, bool]
) -> dict[str, dict[str, Any]]:
    neighbours: dict[str, dict[str, Any]] = {}
    for each in experiments.values():
        for name, status in each.neighbours().items():
            said = {**asdict(status), "connected": connected.get(name, False)}
            neighbours[name] = _both(neighbours[name], said) if name in neighbours else said
    return neighbours


def _both(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
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
