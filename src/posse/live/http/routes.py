"""The table of routes, from which requests are dispatched and /openapi.json is built."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from posse.live.agent import ArmStatus, Judgement, SiteMap, Uplift
from posse.live.controls import ControlsAnswer
from posse.live.experiment import Audit, DecisionRequest, History
from posse.live.http import handlers, models, ofrep, request_batches
from posse.live.ledger import Ledger
from posse.live.membership import NetworkAnswer

EXPERIMENT_PREFIX = "/v1/experiments/"  # followed by a name, and then the path after /v1/


@dataclass(frozen=True)
class Route:
    """A method and a path, the types of body and answer, and the handler.

    The handler is one of `question` (on the loop, in a turn), `view` (in a thread: it may take
    long; called with the part in braces, if the path has one, or the body), `order` (the same, for
    operators only), `flag` (on the loop, in a turn; called with the node and the part in braces,
    and its errors have the form of OFREP) or `stream` (until the client disconnects), or the app
    itself.
    """

    method: str
    path: str
    name: str  # of the operation
    description: str
    answer: Any
    body: type | None = None
    statuses: tuple[int, ...] = ()  # of errors, beside those of every route
    of_experiment: bool = False  # also under /v1/experiments/NAME/
    question: Callable[..., Awaitable[Any]] | None = None
    view: Callable[..., Any] | None = None
    order: Callable[..., Any] | None = None
    flag: Callable[..., Awaitable[Any]] | None = None
    stream: bool = False
    public: bool = False  # without a token


WRITE_STATUSES = (409, 503)
FLAG_STATUSES = (400, 404, 503)

ROUTES = (
    Route(
        "POST", "/v1/decisions", "decide", "Choose an arm to play.",
        models.DecisionAnswer, DecisionRequest, WRITE_STATUSES, True,
        question=request_batches.make_decision,
    ),
    Route(
        "POST", "/v1/decisions/batch", "decide_all",
        "Many decisions, each with an answer or an error.",
        models.DecisionsAnswer, models.DecisionsRequest, WRITE_STATUSES, True,
        question=request_batches.make_decisions,
    ),
    Route(
        "POST", "/v1/decisions/{decision}/reward", "reward", "Record the reward of a decision.",
        models.RewardAnswer, models.RewardRequest, (404, *WRITE_STATUSES), True,
        question=request_batches.record_reward,
    ),
    Route(
        "POST", "/v1/decisions/{decision}/activate", "activate",
        "The arm of an inactive decision was shown: count it from now on.",
        models.TransitionAnswer, models.EmptyRequest, (404, *WRITE_STATUSES), True,
        question=request_batches.activate_decision,
    ),
    Route(
        "POST", "/v1/decisions/{decision}/cancel", "cancel",
        "The arm of a decision was not shown: take back what it counted. 409 once it has a reward "
        "or is closed.",
        models.TransitionAnswer, models.EmptyRequest, (404, *WRITE_STATUSES), True,
        question=request_batches.cancel_decision,
    ),
    Route(
        "POST", "/v1/decisions/{decision}/metrics", "record_metrics",
        "Record metrics of a decision until its reward window closes, also after its reward.",
        models.MetricsAnswer, models.MetricsRequest, (404, *WRITE_STATUSES), True,
        question=request_batches.record_metrics,
    ),
    Route(
        "GET", "/v1/decisions/{decision}", "decision",
        "A decision: its arm, state, times, context and reward.",
        models.DecisionStatusAnswer, of_experiment=True, view=handlers.show_decision,
    ),
    Route(
        "DELETE", "/v1/decisions/{decision}", "erase_decision",
        "Delete a decision from the store and its log. An open one is cancelled first; the sums of "
        "closed decisions stay.",
        models.ErasureAnswer, statuses=(503,), of_experiment=True, view=handlers.erase_decision,
    ),
    Route(
        "POST", "/v1/erasures", "erase_visitor",
        "Delete all decisions for a visitor, or one, as DELETE does; events keep by and reason.",
        models.ErasureAnswer, models.ErasureRequest, (503,), True, view=handlers.erase_visitor,
    ),
    Route(
        "POST", "/v1/rewards", "reward_all",
        "Record many rewards in one commit, each with an answer or an error.",
        models.RewardsAnswer, models.RewardsRequest, WRITE_STATUSES, True,
        question=request_batches.record_rewards,
    ),
    Route(
        "POST", "/v1/steps", "steps",
        "Record rewards and choose the next arm (or several) in one commit: each reward and each "
        "decision has an answer or an error.",
        models.StepsAnswer, models.StepsRequest, WRITE_STATUSES, True,
        question=request_batches.record_and_decide,
    ),
    Route(
        "GET", "/v1/arms", "arms", "The estimate of every arm.",
        dict[str, ArmStatus], of_experiment=True, view=handlers.show_arms,
    ),
    Route(
        "POST", "/v1/arms", "arms_at",
        "The estimate of every arm for visitors at a context; missing fields are as on average.",
        dict[str, ArmStatus], models.ArmsRequest, of_experiment=True,
        view=handlers.show_arms_at_context,
    ),
    Route(
        "GET", "/v1/verdict", "verdict",
        "Whether the experiment may stop, and why; 404 if its settings have no stop.",
        Judgement, of_experiment=True, view=handlers.show_verdict,
    ),
    Route(
        "GET", "/v1/uplift", "uplift",
        "What the bandit earned beyond the control arm; 404 if its settings have no holdout.",
        Uplift, of_experiment=True, view=handlers.show_uplift,
    ),
    Route(
        "GET", "/v1/guardrails", "guardrails",
        "Every metric of every arm, with its limit; 404 if the settings have no metrics.",
        models.GuardrailsAnswer, of_experiment=True, view=handlers.show_metrics_of_arms,
    ),
    Route(
        "GET", "/v1/evidence", "evidence",
        "Evidence in whole quanta: this agent's own, and that of all agents.",
        dict[str, Ledger], of_experiment=True, view=handlers.show_evidence,
    ),
    Route(
        "GET", "/v1/audit", "audit",
        "Decisions counted by this agent beside those in the evidence; 404 with a half-life.",
        Audit, of_experiment=True, view=handlers.show_audit,
    ),
    Route(
        "GET", "/v1/history/{scale}", "history",
        "Decisions and rewards of every arm over time, and events: minutes of a day, hours of a "
        "month, days of a year.",
        History, of_experiment=True, view=handlers.show_history,
    ),
    Route(
        "GET", "/v1/events", "events",
        "The newest 500 events: restarts, pins and pauses with who and why, verdicts and more.",
        models.EventsAnswer, of_experiment=True, view=handlers.show_events,
    ),
    Route(
        "GET", "/v1/network", "network",
        "The neighbours, all known agents and links, and refusals by reason.",
        NetworkAnswer, view=handlers.show_network,
    ),
    Route(
        "GET", "/v1/experiments", "experiments", "The experiments of this agent, by name.",
        models.ExperimentsAnswer, view=handlers.show_experiments,
    ),
    Route(
        "GET", "/v1/controls", "controls", "Pinned and paused arms, and whose controls they are.",
        ControlsAnswer, of_experiment=True, view=handlers.show_controls,
    ),
    Route(
        "GET", "/v1/sites", "sites",
        "The results of each site for every arm, where one differs, and the gain from sharing.",
        SiteMap, of_experiment=True, view=handlers.show_sites,
    ),
    Route(
        "GET", "/v1/page", "page", "The content of the page at /.",
        models.PageAnswer, of_experiment=True,
    ),
    Route(
        "GET", "/v1/page/stream", "page_stream",
        "The same as server-sent events: all of it, then once a second the sections that changed.",
        str, statuses=(503,), of_experiment=True, stream=True,
    ),
    Route(
        "GET", "/v1/caller", "caller", "What the caller may do with its token; needs none.",
        models.CallerAnswer, public=True,
    ),
    Route(
        "POST", "/v1/pin", "pin", "For operators: play only this arm.",
        ControlsAnswer, models.ArmRequest, WRITE_STATUSES, True, order=handlers.pin_arm,
    ),
    Route(
        "POST", "/v1/pause", "pause", "For operators: stop playing an arm.",
        ControlsAnswer, models.ArmRequest, WRITE_STATUSES, True, order=handlers.pause_arm,
    ),
    Route(
        "POST", "/v1/resume", "resume",
        "For operators: undo pins and pauses of an arm, or of all arms.",
        ControlsAnswer, models.ResumeRequest, WRITE_STATUSES, True,
        order=handlers.resume_arms,
    ),
    Route(
        "POST", "/v1/forget", "forget",
        "For operators: leave an agent that left out of views of the network. Its evidence stays, "
        "and if it comes back, it is there again.",
        NetworkAnswer, models.ForgetRequest, WRITE_STATUSES, order=handlers.forget_agent,
    ),
    Route(
        "POST", "/v1/reload", "reload", "For operators: read the agent's settings again.",
        models.ReloadAnswer, models.EmptyRequest, WRITE_STATUSES, order=handlers.reload_settings,
    ),
    Route(
        "POST", "/ofrep/v1/evaluate/flags/{key}", "evaluate_flag",
        "OpenFeature (OFREP 0.3): the arm of a visitor as the value of a flag. The decision is the "
        "same for a reward window, or an hour without one.",
        ofrep.FlagAnswer, ofrep.EvaluationRequest, FLAG_STATUSES, flag=ofrep.evaluate_flag,
    ),
    Route(
        "POST", "/ofrep/v1/evaluate/flags", "evaluate_flags",
        "OpenFeature (OFREP 0.3): all flags of a visitor, as inactive decisions. They count from "
        "their activation or reward on. 304 if If-None-Match has the present ETag.",
        ofrep.FlagsAnswer, ofrep.EvaluationRequest, (304, 400, 429, 503), flag=ofrep.evaluate_flags,
    ),
    Route(
        "POST", "/ofrep/v1/track", "track_event",
        "A proposal for OpenFeature: the reward of the visitor's newest decision in the experiment "
        "named like the event.",
        ofrep.TrackingAnswer, ofrep.TrackingRequest, (*FLAG_STATUSES, 409), flag=ofrep.track_event,
    ),
    Route(
        "GET", "/healthz", "healthz", "Whether the process lives.", models.StatusAnswer,
        view=handlers.show_liveness,
    ),
    Route(
        "GET", "/readyz", "readyz", "Whether the store can be written.", models.StatusAnswer,
        statuses=(503,), view=handlers.show_readiness,
    ),
    Route(
        "GET", "/metrics", "metrics", "Counters in the text format of Prometheus.", str,
        view=handlers.show_metrics,
    ),
)  # fmt: skip
# the routes of load balancers and monitors, which have HEAD too
PROBES = tuple(route for route in ROUTES if not route.path.startswith(("/v1/", "/ofrep/")))


class RouteTable:
    """Finds the route of a request."""

    def __init__(self, routes: tuple[Route, ...] = ROUTES) -> None:
        self.routes = routes
        self._plain: dict[str, dict[str, Route]] = {}
        self._filled: list[tuple[str, str, dict[str, Route]]] = []  # before and after the part
        for route in routes:
            if "{" not in route.path:
                methods = self._plain.setdefault(route.path, {})
                methods[route.method] = route
                if route in PROBES:
                    methods["HEAD"] = route
                continue
            before, _, suffix = route.path.partition("{")
            after = suffix.partition("}")[2]
            for known_before, known_after, methods_there in self._filled:
                if (known_before, known_after) == (before, after):
                    methods_there[route.method] = route
                    break
            else:
                self._filled.append((before, after, {route.method: route}))

    def find_routes(self, path: str) -> tuple[dict[str, Route], str | None, str]:
        """Return the routes at a path by method, the experiment in it, and the part in braces."""
        methods, part = self._find_path(path)
        if methods or not path.startswith(EXPERIMENT_PREFIX):
            return methods, None, part
        name, slash, suffix = path.removeprefix(EXPERIMENT_PREFIX).partition("/")
        methods, part = self._find_path(f"/v1/{suffix}") if name and slash else ({}, "")
        return {m: route for m, route in methods.items() if route.of_experiment}, name, part

    def _find_path(self, path: str) -> tuple[dict[str, Route], str]:
        if plain := self._plain.get(path):
            return plain, ""
        for before, after, methods in self._filled:
            if path.startswith(before) and path.endswith(after):
                part = path[len(before) : len(path) - len(after)]
                if part and "/" not in part and len(path) >= len(before) + len(after):
                    return methods, part
        return {}, ""
