"""The routes that only look: what an agent knows, and how it is."""

from __future__ import annotations

from typing import Any

from posse.live.experiment import Experiment
from posse.live.http.answers import Answer, Refusal
from posse.live.http.metrics import CONTENT_TYPE
from posse.live.http.metrics import metrics as numbers
from posse.live.http.models import (
    ArmsRequest,
    ContextAnswer,
    ExperimentAnswer,
    ExperimentsAnswer,
    SitesAnswer,
    StatusAnswer,
)
from posse.live.http.traffic import traffic_of
from posse.live.node import Node
from posse.live.store import Unknown


def arms(experiment: Experiment) -> Any:
    """What is known of every arm."""
    return experiment.arms()


def arms_at(experiment: Experiment, body: ArmsRequest) -> Any:
    """What is known of every arm at a context."""
    return experiment.arms(body.context)


def verdict(experiment: Experiment) -> Any:
    """Whether the experiment may stop."""
    return experiment.verdict()


def evidence(experiment: Experiment) -> Any:
    """In whole quanta: what this agent saw itself, and what it holds of all."""
    return experiment.evidence()


def sites(experiment: Experiment) -> Any:
    """What each site saw of every arm."""
    return experiment.site_map()


def books(experiment: Experiment) -> Any:
    """Decisions counted here beside the pulls in the evidence."""
    found = experiment.books()
    if found is None:
        raise Unknown(
            "this experiment has a half_life: its evidence fades, and is no count to compare"
        )
    return found


def history(experiment: Experiment, scale: str) -> Any:
    """Pulls and rewards over time, and what happened."""
    return experiment.history(scale)


def network(node: Node) -> Any:
    """The neighbours, all agents and links that are known, and what was refused and why."""
    return node.network()


def experiments(node: Node) -> Any:
    """The experiments by name."""
    return ExperimentsAnswer({name: shown(each) for name, each in node.experiments.items()})


def shown(experiment: Experiment) -> ExperimentAnswer:
    """One experiment: its arms, its counts, and what operators set."""
    counts, controls = experiment.counts, experiment.controlled()
    return ExperimentAnswer(
        arms=list(experiment.agent.arm_names),
        decisions=counts["decisions"],
        rewards=counts["rewards"],
        open_decisions=experiment.store.open_decisions(),
        silence=experiment.mode,
        reward_window=experiment.silence.window,
        late_rewards=counts["late"],
        longest_lateness=experiment.late.copy().longest,
        void_rewards=counts["void"],
        half_life=experiment.agent.half_life,
        pinned=controls["pinned"],
        paused=controls["paused"],
        sites=SitesAnswer(**experiment.sites()),
        context=_context(experiment),
    )


def _context(experiment: Experiment) -> ContextAnswer | None:
    schema, odd = experiment.agent.context, experiment.oddities
    if schema is None:
        return None
    return ContextAnswer(schema.to_data(), experiment.average(), odd.unknown, odd.clipped)


def controls(experiment: Experiment) -> Any:
    """What is pinned and paused, and by whom."""
    return experiment.controlled()


def healthz(node: Node) -> Any:
    """That the process lives."""
    return StatusAnswer("alive")


def readyz(node: Node) -> Any:
    """Whether the store can be written."""
    if not traffic_of(node).health.is_ready(node):
        raise Refusal(503, "not ready", "the store failed a moment ago: see the agent's log")
    return StatusAnswer("ready")


def metrics(node: Node) -> Answer:
    """Counters in the text format of Prometheus."""
    return Answer(200, numbers(node).encode(), CONTENT_TYPE.encode())
