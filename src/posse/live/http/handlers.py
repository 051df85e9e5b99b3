"""Handlers of the routes: views, erasure, and operators' commands.

Decisions and rewards, which share commits, are in request_batches.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from posse.live.experiment import LiveExperiment
from posse.live.http.health import get_traffic
from posse.live.http.metrics import CONTENT_TYPE
from posse.live.http.metrics import render_metrics as numbers
from posse.live.http.models import (
    ArmRequest,
    ArmsRequest,
    ContextAnswer,
    DecisionStatusAnswer,
    EmptyRequest,
    ErasureAnswer,
    ErasureRequest,
    EventsAnswer,
    ExperimentAnswer,
    ExperimentsAnswer,
    ForgetRequest,
    GuardrailsAnswer,
    ReloadAnswer,
    ResumeRequest,
    SitesAnswer,
    StatusAnswer,
)
from posse.live.http.responses import RequestRefused, Response
from posse.live.node import Node
from posse.live.store import Unknown

NO_RELOAD = "this agent was not started from a file: it has no settings to reload"


def pin_arm(experiment: LiveExperiment, body: ArmRequest) -> Any:
    """Play only this arm."""
    experiment.pin(body.arm, body.by, body.reason)
    return experiment.control_status()


def pause_arm(experiment: LiveExperiment, body: ArmRequest) -> Any:
    """Stop playing an arm."""
    experiment.pause(body.arm, body.by, body.reason)
    return experiment.control_status()


def resume_arms(experiment: LiveExperiment, body: ResumeRequest) -> Any:
    """Undo pins and pauses of an arm, or of all arms."""
    experiment.resume(body.arm, body.by, body.reason)
    return experiment.control_status()


def forget_agent(node: Node, body: ForgetRequest) -> Any:
    """Leave an agent that left out of views of the network."""
    return node.forget(body.agent, body.by, body.reason)


def reload_settings(reload: Callable[[], Any] | None, _: EmptyRequest) -> Any:
    """Reload agent.toml and apply its changes; a file with a mistake changes nothing."""
    if reload is None:
        raise ValueError(NO_RELOAD)
    changed = reload()
    return ReloadAnswer(changed if isinstance(changed, str) else "")


def show_decision(experiment: LiveExperiment, decision: str) -> Any:
    """Show a decision: its arm, state, times, context and reward."""
    record = experiment.find_decision(decision)
    return DecisionStatusAnswer(
        decision=record.id,
        arm=record.arm,
        probability=record.probability,
        state=record.state,
        time=record.time,
        reward=record.reward,
        rewarded=None if record.silent else record.settled,
        closed=record.closed,
        context=None if record.context is None else json.loads(record.context),
        visitor=record.visitor,
        holdout=record.holdout,
        metrics=None if record.metrics is None else json.loads(record.metrics),
    )


def erase_decision(experiment: LiveExperiment, decision: str) -> Any:
    """Delete a decision from the store and its log; its closed evidence stays."""
    return ErasureAnswer(erased=1, log_emptied=experiment.erase_decision(decision))


def erase_visitor(experiment: LiveExperiment, body: ErasureRequest) -> Any:
    """Delete all decisions for a visitor, or one decision, from the store and its log."""
    if body.visitor is not None and body.decision is None:
        erased, log_emptied = experiment.erase_visitor(body.visitor)
    elif body.decision is not None and body.visitor is None:
        erased = 1
        log_emptied = experiment.erase_decision(body.decision)
    else:
        raise ValueError("name what to erase: either a visitor or a decision")
    experiment.note_erasure(erased, body.by, body.reason)
    return ErasureAnswer(erased, log_emptied)


# --- views


def show_arms(experiment: LiveExperiment) -> Any:
    """Show the estimate of every arm."""
    return experiment.arms()


def show_arms_at_context(experiment: LiveExperiment, body: ArmsRequest) -> Any:
    """Show the estimate of every arm at a context."""
    return experiment.arms(body.context)


def show_verdict(experiment: LiveExperiment) -> Any:
    """Show whether the experiment may stop."""
    return experiment.verdict()


def show_uplift(experiment: LiveExperiment) -> Any:
    """Show what the bandit earned beyond the control arm."""
    return experiment.uplift()


def show_metrics_of_arms(experiment: LiveExperiment) -> Any:
    """Show every metric of every arm, and which limits are breached."""
    return GuardrailsAnswer(experiment.metrics())


def show_evidence(experiment: LiveExperiment) -> Any:
    """Show own evidence and that of all agents, in whole quanta."""
    return experiment.evidence()


def show_sites(experiment: LiveExperiment) -> Any:
    """Show the closed decisions of each site for every arm."""
    return experiment.build_site_map()


def show_audit(experiment: LiveExperiment) -> Any:
    """Show the decisions counted here beside those in the evidence."""
    audit = experiment.audit()
    if audit is None:
        raise Unknown(
            "this experiment has a half_life: its evidence fades, so there are no counts to compare"
        )
    return audit


def show_history(experiment: LiveExperiment, scale: str) -> Any:
    """Show decisions and rewards over time, and events."""
    return experiment.history(scale)


def show_events(experiment: LiveExperiment) -> Any:
    """Show the newest events: restarts, pins with who and why, verdicts and more."""
    return EventsAnswer(experiment.events())


def show_network(node: Node) -> Any:
    """Show the neighbours, all known agents and links, and refusals by reason."""
    return node.network()


def show_experiments(node: Node) -> Any:
    """Show the experiments by name."""
    return ExperimentsAnswer(
        {name: describe_experiment(experiment) for name, experiment in node.experiments.items()}
    )


def describe_experiment(experiment: LiveExperiment) -> ExperimentAnswer:
    """Describe one experiment: its arms, its counts, its controls."""
    counts = experiment.counts
    controls = experiment.control_status()
    return ExperimentAnswer(
        arms=list(experiment.agent.arm_names),
        decisions=counts["decisions"],
        rewards=counts["rewards"],
        open_decisions=experiment.store.count_open_decisions(),
        inactive_decisions=experiment.store.count_inactive_decisions(),
        silence=experiment.counting_mode,
        reward_window=experiment.reward_window.window,
        late_rewards=counts["late"],
        longest_lateness=experiment.late.copy().longest,
        superseded_rewards=counts["superseded"],
        half_life=experiment.agent.half_life,
        pinned=controls["pinned"],
        paused=controls["paused"],
        sites=SitesAnswer(**experiment.site_status()),
        context=_describe_context(experiment),
    )


def _describe_context(experiment: LiveExperiment) -> ContextAnswer | None:
    schema = experiment.agent.context
    odd = experiment.oddities
    if schema is None:
        return None
    return ContextAnswer(schema.to_data(), experiment.average_features(), odd.unknown, odd.clipped)


def show_controls(experiment: LiveExperiment) -> Any:
    """Show pinned and paused arms, and whose controls they are."""
    return experiment.control_status()


def show_liveness(node: Node) -> Any:
    """Confirm that the process is alive."""
    return StatusAnswer("alive")


def show_readiness(node: Node) -> Any:
    """Confirm that the store can be written."""
    if not get_traffic(node).health.is_ready(node):
        raise RequestRefused(503, "not_ready", "the store failed recently: see the agent's log")
    return StatusAnswer("ready")


def show_metrics(node: Node) -> Response:
    """Show all metrics in the text format of Prometheus."""
    return Response(200, numbers(node).encode(), CONTENT_TYPE.encode())
