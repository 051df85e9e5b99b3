"""Counters and results of a node in the text format of Prometheus."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain
from typing import Any

from posse import __version__
from posse.live.experiment import BUCKETS as LATENESS_BUCKETS
from posse.live.experiment import LiveExperiment
from posse.live.http.health import BUCKETS, Traffic, get_traffic
from posse.live.membership import ALIVE_STATES
from posse.live.node import Node
from posse.live.refusals import REFUSALS

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# samples of one metric, and of one by arm: bounds the size of the answer
MAX_SERIES = 100
MAX_ARM_SERIES = 10_000
FAILURE_KINDS = "tick", "receive", "send", "request"
HTTP_REFUSAL_REASONS = (
    "host_not_allowed",
    "token_invalid",
    "operators_only",
    "body_too_large",
    "head_too_large",
    "body_memory_full",
    "too_many_connections",
    "too_many_viewers",
    "too_many_pipelined",
    "too_slow",
    "not_http",
    "not_json",
    "no_such_route",
    "invalid_field",
    "unknown",
    "conflict",
    "not_ready",
    "too_many_flags",
)

Samples = Iterable[tuple[Mapping[str, str], float]]
ARM_METRICS = {  # of an arm: the metric, the field of its status, and what it is
    "mean": ("mean", "Posterior mean of an arm."),
    "mean_low": ("low", "Lower end of the 95% interval of an arm's mean."),
    "mean_high": ("high", "Upper end of the 95% interval of an arm's mean."),
    "probability_best": ("probability_best", "Probability that an arm is the best."),
    "expected_loss": ("expected_loss", "Expected loss of choosing an arm now."),
    "pulls_here": ("pulls_here", "Decisions for an arm at this agent whose reward is final."),
    "pulls_in_network": (
        "pulls_in_network",
        "Decisions for an arm in the network whose reward is final.",
    ),
    "open_here": ("open_here", "Decisions for an arm at this agent that count, but are not final."),
    "open_in_network": (
        "open_in_network",
        "Decisions for an arm in the network that count, but are not final.",
    ),
    "network_mean": ("network_mean", "Posterior mean of the average of an arm over sites."),
    "sd_between_sites": ("sd_between_sites", "Standard deviation of an arm's mean between sites."),
    "sites_differ": ("sites_differ", "Whether an arm differs between sites (heterogeneity)."),
}
COUNTER_METRICS = {
    "decisions": ("decisions_total", "Decisions made."),
    "activated": ("decisions_activated_total", "Inactive decisions that were activated."),
    "cancelled": ("decisions_cancelled_total", "Decisions that were cancelled."),
    "erased": ("decisions_erased_total", "Decisions that were erased on request."),
    "rewards": ("rewards_total", "Rewards accepted."),
    "late": (
        "rewards_late_total",
        "Rewards refused, as the reward window of their decision had closed.",
    ),
    "superseded": (
        "rewards_superseded_total",
        "Rewards refused, as another copy of this agent's store has their decision.",
    ),
    "conflicts": ("conflicting_rewards_total", "Rewards refused, as their decision had another."),
    "ignored_fields": (
        "ignored_fields_total",
        "Fields of OpenFeature contexts that the experiment's context does not have.",
    ),
}


def render_metrics(node: Node) -> str:
    """Render all metrics of a node as text."""
    traffic = get_traffic(node)
    return "".join(
        chain(
            _render_process(node, traffic),
            _render_experiments(node, traffic),
            _render_http(traffic),
        )
    )


def _render_process(node: Node, traffic: Traffic) -> Iterator[str]:
    """Render the metrics of the agent as a whole."""
    network = node.network()
    counts = node.counts.copy()
    # series start at 0: of one that begins with 1, Prometheus sees no increase
    refusals = dict.fromkeys(REFUSALS, 0) | network["refused"]
    failures = dict.fromkeys(FAILURE_KINDS, 0) | node.failures.copy()
    connected = [({"neighbour": n}, s["connected"]) for n, s in network["neighbours"].items()]
    messages = [({"direction": way}, counts[way]) for way in ("sent", "received")]
    yield _render_metric("info", "The version that runs.", [({"version": __version__}, 1)])
    yield _render_metric(
        "start_time_seconds", "When it was started, in Unix time.", [({}, traffic.started)]
    )
    end = node.certificate_end
    yield _render_metric(
        "certificate_expires_seconds",
        "Seconds until the certificate of this agent expires.",
        [] if end is None else [({}, round(end - node.clock()))],
    )
    yield _render_metric("messages_total", "Messages of the exchange.", messages)
    yield _render_metric(
        "refusals_total", "Messages refused, by reason.", _label_samples("reason", refusals)
    )
    yield _render_metric(
        "failures_total", "Failures of the store or of sending.", _label_samples("doing", failures)
    )
    yield _render_metric(
        "agents_known",
        "Agents whose evidence is known here (flows: agents received from).",
        [({}, network["agents_known"])],
    )
    up = sum(agent["state"] in ALIVE_STATES for agent in network["agents"].values())
    yield _render_metric("agents_up", "Agents that are up, this one included.", [({}, up)])
    yield _render_metric("neighbour_connected", "Whether a neighbour is connected.", connected)


def _render_experiments(node: Node, traffic: Traffic) -> Iterator[str]:
    """Render the metrics of each experiment and of each of its arms."""
    # A copy: a reload may change the experiments while they are rendered.
    experiments = dict(node.experiments)
    for key, (name, help_) in COUNTER_METRICS.items():
        samples = [
            ({"experiment": e}, experiment.counts[key]) for e, experiment in experiments.items()
        ]
        yield _render_metric(name, help_, samples)
    yield from _render_context_counters(experiments)
    counted = [
        ({"experiment": e}, experiment.counted_decisions) for e, experiment in experiments.items()
    ]
    yield _render_metric("decisions_counted", "Decisions counted as evidence here, ever.", counted)
    waiting = [({"experiment": e}, x.store.count_open_decisions()) for e, x in experiments.items()]
    yield _render_metric("open_decisions", "Decisions whose reward is not final.", waiting)
    asked = [
        ({"experiment": e}, x.store.count_inactive_decisions()) for e, x in experiments.items()
    ]
    yield _render_metric("inactive_decisions", "Decisions that may still be activated.", asked)
    yield from _render_lateness(experiments)
    arms = {  # (experiment, arm): status
        (e, arm): status
        for e, experiment in experiments.items()
        for arm, status in experiment.arms().items()
    }
    for name, (field, help_) in ARM_METRICS.items():
        yield _render_metric(name, help_, _label_by_arm(_select_field(arms, field)))
    yield from _render_verdicts(experiments)
    yield from _render_measures(experiments)
    sums = {
        (e, arm): experiment.agent.reward_sum(quanta)
        for e, experiment in experiments.items()
        for arm, quanta in experiment.evidence()["own"].items()
    }
    yield _render_metric(
        "summed_rewards", "Sum of an arm's rewards at this agent.", _label_by_arm(sums)
    )
    decisions = {e: traffic.decisions_by_arm[e].copy() for e in experiments}
    decisions_by_arm = {(e, arm): decisions[e][arm] for e, arm in arms}
    shares = {
        (e, arm): number / max(1, decisions[e].total())
        for (e, arm), number in decisions_by_arm.items()
    }
    yield _render_metric(
        "decisions_by_arm_total", "Decisions made, by arm.", _label_by_arm(decisions_by_arm)
    )
    yield _render_metric(
        "share", "Share of an arm in the decisions since the start.", _label_by_arm(shares)
    )


def _render_verdicts(experiments: Mapping[str, LiveExperiment]) -> Iterator[str]:
    """Render, for experiments with `stop`, the evidence for the leading arm."""
    verdicts = {
        e: experiment.verdict()
        for e, experiment in experiments.items()
        if experiment.agent.stop is not None
    }
    for name, help_ in (
        ("evidence", "Evidence that the leading arm is the best, in nats."),
        ("needed", "Evidence that names a winner."),
    ):
        values = ((e, getattr(verdict, name)) for e, verdict in verdicts.items())
        samples = [({"experiment": e}, value) for e, value in values if value is not None]
        yield _render_metric(f"verdict_{name}", help_, samples)


def _render_measures(experiments: Mapping[str, LiveExperiment]) -> Iterator[str]:
    """Render uplifts, and metrics of arms with their guardrails, of experiments that have some."""
    uplifts = {
        e: experiment.uplift()
        for e, experiment in experiments.items()
        if experiment.agent.measures.holdout is not None
    }
    for name, field, help_ in (
        ("uplift", "uplift", "Mean reward of the bandit minus that of the holdout."),
        ("uplift_low", "low", "Lower end of its 95% interval, valid at every look."),
        ("uplift_high", "high", "Upper end of its 95% interval, valid at every look."),
    ):
        values = ((e, getattr(uplift, field)) for e, uplift in uplifts.items())
        samples = [({"experiment": e}, value) for e, value in values if value is not None]
        yield _render_metric(name, help_, samples)
    sides = [
        ({"experiment": e, "side": side}, getattr(uplift, side).decisions)
        for e, uplift in uplifts.items()
        for side in ("bandit", "control")
    ]
    yield _render_metric("uplift_decisions", "Closed decisions on each side of an uplift.", sides)
    statuses = [
        (e, status)
        for e, experiment in experiments.items()
        if experiment.agent.measures.metrics
        for status in experiment.metrics()
    ][:MAX_ARM_SERIES]
    for name, field, help_ in (
        ("metric_mean", "mean", "Mean of a metric of an arm."),
        ("metric_low", "low", "Lower end of its interval, valid at every look."),
        ("metric_high", "high", "Upper end of its interval, valid at every look."),
        ("guardrail_breached", "breached", "Whether a metric of an arm is beyond its limit."),
    ):
        samples = [
            ({"experiment": e, "arm": status.arm, "metric": status.metric}, getattr(status, field))
            for e, status in statuses
            if getattr(status, field) is not None
        ]
        yield _render_metric(name, help_, samples)


def _render_context_counters(experiments: Mapping[str, LiveExperiment]) -> Iterator[str]:
    """Render counters of context values that the schema does not cover."""
    odd = {name: experiment.oddities for name, experiment in experiments.items()}
    for name, help_, counts in (
        ("context_unknown_total", "Decisions whose category has no column, by field.", "unknown"),
        (
            "context_clipped_total",
            "Decisions with a number outside its range, by field.",
            "clipped",
        ),
    ):
        samples = [
            ({"experiment": e, "field": field}, number)
            for e, oddities in odd.items()
            for field, number in getattr(oddities, counts).items()
        ]
        yield _render_metric(name, help_, samples)


def _render_lateness(experiments: Mapping[str, LiveExperiment]) -> Iterator[str]:
    """Render how late refused rewards came."""
    late = {name: experiment.late.copy() for name, experiment in experiments.items()}
    yield from _render_histogram(
        "reward_lateness_seconds",
        "How long after the end of their reward window late rewards came.",
        LATENESS_BUCKETS,
        {
            ("experiment", name): (histogram.counts, histogram.total)
            for name, histogram in late.items()
        },
    )


def _render_http(traffic: Traffic) -> Iterator[str]:
    """Render the metrics of the HTTP interface."""
    refused = dict.fromkeys(HTTP_REFUSAL_REASONS, 0) | traffic.refusals.copy()
    yield _render_metric(
        "http_connections", "Clients that are connected.", [({}, traffic.connections())]
    )
    yield _render_metric("page_viewers", "Pages that receive a stream.", [({}, traffic.viewers)])
    yield _render_metric(
        "http_refused_total",
        "Requests and connections refused, by reason.",
        _label_samples("reason", refused),
    )
    waits = {("route", r): (w.counts, w.total) for r, w in sorted(traffic.latencies.items())}
    help_ = "How long requests took, by route."
    yield from _render_histogram("request_seconds", help_, BUCKETS, waits)


def _render_histogram(
    name: str,
    help_: str,
    ends: Sequence[float],
    series: Mapping[tuple[str, str], tuple[Sequence[int], float]],  # label, value: counts and sum
) -> Iterator[str]:
    buckets = []
    sums = []
    counts = []
    for (label, value), (numbers, total) in series.items():
        # Buckets of Prometheus are cumulative: each includes all smaller ones.
        for end, number in zip((*ends, math.inf), accumulate(numbers), strict=True):
            buckets.append(({label: value, "le": _format_number(end)}, number))
        sums.append(({label: value}, total))
        counts.append(({label: value}, buckets[-1][1]))
    yield f"# HELP posse_{name} {help_}\n# TYPE posse_{name} histogram\n"
    yield from _render_samples(f"{name}_bucket", buckets)
    yield from _render_samples(f"{name}_sum", sums)
    yield from _render_samples(f"{name}_count", counts)


def _label_samples(label: str, numbers: Mapping[str, float]) -> Samples:
    return [({label: name}, number) for name, number in list(numbers.items())[:MAX_SERIES]]


def _select_field(
    arms: Mapping[tuple[str, str], Mapping[str, Any]], field: str
) -> dict[tuple[str, str], float]:
    """Select a field of every arm that has it."""
    return {key: status[field] for key, status in arms.items() if status[field] is not None}


def _label_by_arm(numbers: Mapping[tuple[str, str], float]) -> Samples:
    limited = list(numbers.items())[:MAX_ARM_SERIES]
    return [({"experiment": e, "arm": arm}, number) for (e, arm), number in limited]


def _render_metric(name: str, help_: str, samples: Samples) -> str:
    kind = "counter" if name.endswith("_total") else "gauge"
    head = f"# HELP posse_{name} {help_}\n# TYPE posse_{name} {kind}\n"
    return head + "".join(_render_samples(name, samples))


def _render_samples(name: str, samples: Samples) -> Iterator[str]:
    for labels, value in samples:
        inner = ",".join(f'{key}="{_escape_label(text)}"' for key, text in labels.items())
        yield f"posse_{name}{{{inner}}} " if inner else f"posse_{name} "
        yield f"{_format_number(value)}\n"


def _format_number(value: Any) -> str:
    """Format a number as Prometheus does; whole numbers without a point."""
    if not isinstance(value, float):
        return str(int(value))
    if math.isfinite(value):
        return repr(float(value))
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"


def _escape_label(text: str) -> str:
    """Escape the value of a label, on one line whatever it contains."""
    safe = text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n").replace("\r", " ")
    return safe.encode(errors="backslashreplace").decode()
