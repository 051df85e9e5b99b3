"""Handlers of the routes: decisions and rewards, views, and operators' commands."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import UNSET

from posse.live.experiment import DecisionRequest, LiveExperiment
from posse.live.http.health import get_traffic
from posse.live.http.metrics import CONTENT_TYPE
from posse.live.http.metrics import render_metrics as numbers
from posse.live.http.models import (
    ArmRequest,
    ArmsRequest,
    ContextAnswer,
    DecisionsAnswer,
    DecisionsRequest,
    DecisionStatusAnswer,
    EmptyRequest,
    ErasureAnswer,
    ErasureRequest,
    EventsAnswer,
    ExperimentAnswer,
    ExperimentsAnswer,
    ForgetRequest,
    GuardrailsAnswer,
    MetricsAnswer,
    MetricsRequest,
    ReloadAnswer,
    ResumeRequest,
    RewardItem,
    RewardRequest,
    RewardsAnswer,
    RewardsRequest,
    SitesAnswer,
    StatusAnswer,
    StepsAnswer,
    StepsRequest,
    TransitionAnswer,
)
from posse.live.http.request_batches import BatchRequest, RequestBatcher, RewardPair
from posse.live.http.responses import RequestRefused, Response, answer_decision, answer_reward
from posse.live.node import Node
from posse.live.store import Transition, Unknown

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


# --- decisions and rewards: from a body to a batch request, and from its results to an answer


async def make_decision(
    turns: RequestBatcher, experiment: LiveExperiment, _: str, body: DecisionRequest
) -> Any:
    """Choose an arm."""
    request = BatchRequest(experiment, decision_requests=[body])
    await turns.submit(request)
    (decision,) = request.decisions
    if isinstance(decision, ValueError):
        raise decision
    return answer_decision(decision)


async def make_decisions(
    turns: RequestBatcher, experiment: LiveExperiment, _: str, body: DecisionsRequest
) -> Any:
    """Make many decisions, each with an answer or an error."""
    request = BatchRequest(experiment, decision_requests=body.decisions)
    await turns.submit(request)
    return DecisionsAnswer([answer_decision(decision) for decision in request.decisions])


async def record_reward(
    turns: RequestBatcher, experiment: LiveExperiment, decision: str, body: RewardRequest
) -> Any:
    """Record the reward of a decision."""
    request = BatchRequest(experiment, rewards=((decision, body.reward),))
    if body.metrics is not None:
        request.metrics = (experiment.validate_metrics(body.metrics),)
    await turns.submit(request)
    (outcome,) = request.outcomes
    if isinstance(outcome, ValueError):
        raise outcome
    return answer_reward((decision, body.reward), outcome)


async def record_rewards(
    turns: RequestBatcher, experiment: LiveExperiment, _: str, body: RewardsRequest
) -> Any:
    """Record many rewards in one commit, each with an answer or an error."""
    request = BatchRequest(experiment)
    _add_rewards(request, body.rewards)
    await turns.submit(request)
    return RewardsAnswer(_answer_rewards(request))


async def record_and_decide(
    turns: RequestBatcher, experiment: LiveExperiment, _: str, body: StepsRequest
) -> Any:
    """Record rewards and make the next decisions in one commit."""
    requested = body.decide
    requests = (
        [] if requested is None else requested if isinstance(requested, list) else [requested]
    )
    request = BatchRequest(experiment, decision_requests=requests)
    _add_rewards(request, body.rewards)
    await turns.submit(request)
    decisions = [answer_decision(decision) for decision in request.decisions]
    # The answer has the form of the request: one decision, or a list.
    many = isinstance(requested, list)
    return StepsAnswer(
        _answer_rewards(request),
        decision=UNSET if many or not decisions else decisions[0],
        decisions=decisions if many else UNSET,
    )


async def activate_decision(
    turns: RequestBatcher, experiment: LiveExperiment, decision: str, _: EmptyRequest
) -> Any:
    """Count an inactive decision from now on."""
    return await _change_decision(turns, experiment, "activate", decision)


async def cancel_decision(
    turns: RequestBatcher, experiment: LiveExperiment, decision: str, _: EmptyRequest
) -> Any:
    """Take back a decision without a reward."""
    return await _change_decision(turns, experiment, "cancel", decision)


async def _change_decision(
    turns: RequestBatcher, experiment: LiveExperiment, transition: Transition, decision: str
) -> TransitionAnswer:
    request = BatchRequest(experiment, transitions=[(transition, decision)])
    await turns.submit(request)
    (outcome,) = request.changed
    if isinstance(outcome, ValueError):
        raise outcome
    record, changed = outcome
    return TransitionAnswer(decision, record.state, not changed)


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


async def record_metrics(
    turns: RequestBatcher, experiment: LiveExperiment, decision: str, body: MetricsRequest
) -> Any:
    """Record metrics of a decision."""
    metrics = experiment.validate_metrics(body.metrics)
    request = BatchRequest(experiment, measurements=[(decision, metrics)])
    await turns.submit(request)
    (outcome,) = request.measured
    if isinstance(outcome, ValueError):
        raise outcome
    return MetricsAnswer(decision, metrics, not outcome)


def _add_rewards(request: BatchRequest, items: Sequence[RewardItem | ValueError]) -> None:
    """Add rewards to a request, with the metrics of those that have some."""
    request.rewards = [i if isinstance(i, ValueError) else (i.decision, i.reward) for i in items]
    if any(not isinstance(item, ValueError) and item.metrics is not None for item in items):
        _add_metrics(request, items)


def _add_metrics(request: BatchRequest, items: Sequence[RewardItem | ValueError]) -> None:
    rewards: list[RewardPair | ValueError] = list(request.rewards)
    metrics: list[dict[str, float] | None] = [None] * len(items)
    for place, item in enumerate(items):
        if isinstance(item, ValueError) or item.metrics is None:
            continue
        try:
            metrics[place] = request.experiment.validate_metrics(item.metrics)
        except ValueError as error:  # of this item alone
            rewards[place] = error
    request.rewards = rewards
    request.metrics = metrics


def _answer_rewards(request: BatchRequest) -> list[Any]:
    return [answer_reward(*pair) for pair in zip(request.rewards, request.outcomes, strict=True)]


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
