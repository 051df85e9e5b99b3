"""The HTTP interface of a node: decisions and rewards for an application at the same site."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar, cast

from fastapi import FastAPI, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import PlainTextResponse, Response

from posse import __version__
from posse.live.http import batches, models
from posse.live.http.answers import answer_errors, decided, in_json, rewarded
from posse.live.http.guard import Guard
from posse.live.http.health import Health
from posse.live.http.metrics import CONTENT_TYPE, metrics
from posse.live.http.protocol import ALONE
from posse.live.http.route import StraightRoute
from posse.live.http.server import Server
from posse.live.node import Node

DESCRIPTION = (
    "Ask for a decision, play its arm, send the reward. Requests with an id of the client may be "
    "repeated; a reward is on disk when it is answered. Numbers of evidence are whole quanta and "
    "may exceed 2^53."
)
WRONG: dict[int | str, dict[str, Any]] = {
    status: {"model": models.Error, "description": description}
    for status, description in {
        403: "asked under a name that is not this agent's",
        409: "settled or decided otherwise",
        413: "the body is too large",
        415: "the body is not JSON",
        422: "a field is wrong",
        503: "the store fails: ask again after Retry-After seconds",
    }.items()
}
UNKNOWN: dict[int | str, dict[str, Any]] = {
    404: {"model": models.Error, "description": "no such decision"},
    **WRONG,
}

P = ParamSpec("P")
T = TypeVar("T")


def app(node: Node, hosts: Sequence[str] = ()) -> FastAPI:
    """The interface of a node; see its /openapi.json. hosts: names it has besides localhost."""
    made = FastAPI(
        title="posse agent",
        version=__version__,
        description=DESCRIPTION,
        docs_url=None,  # its page would load scripts from elsewhere
        redoc_url=None,
        # a rewriting of paths would have browsers repeat requests elsewhere
        redirect_slashes=False,
    )
    made.router.route_class = StraightRoute
    made.add_middleware(Guard, hosts=hosts)
    health = Health(node)
    answer_errors(made, health)
    _add_questions(made, node, health)
    _add_views(made, node, health)
    return made


def serve(node: Node, address: str, hosts: Sequence[str] = ()) -> Server:
    """Serve a node on 127.0.0.1:PORT, localhost:PORT, [::1]:PORT or unix:/PATH, in a thread."""
    return Server(app(node, hosts), address)


def _add_questions(made: FastAPI, node: Node, health: Health) -> None:
    """Which arm to play, and how it went: one by one, or many at once."""

    @made.post("/v1/decisions", response_model=models.DecisionAnswer, responses=WRONG)
    async def decide(request: Request, body: models.DecisionRequest) -> Response:
        """Which arm to play."""
        decision = await _run(request, batches.decide, node, body.decision, body.allowed)
        health.succeeded()
        return in_json(decided(decision))

    @made.post("/v1/decisions/batch", response_model=models.DecisionsAnswer, responses=WRONG)
    def decide_all(body: models.DecisionsRequest) -> Response:
        """Many decisions, each with an answer or an error."""
        items = cast(Sequence[models.DecisionRequest | models.Refused], body.decisions)
        asked = [i if isinstance(i, ValueError) else (i.decision, i.allowed) for i in items]
        decisions = batches.decide_all(node, asked)
        health.succeeded()
        return in_json({"decisions": [decided(each) for each in decisions]})

    @made.post(
        "/v1/decisions/{decision}/reward", response_model=models.RewardAnswer, responses=UNKNOWN
    )
    async def reward(request: Request, decision: models.Id, body: models.RewardRequest) -> Response:
        """How a decision went."""
        outcome = await _run(request, node.reward, decision, body.reward)
        health.succeeded()
        return in_json(rewarded((decision, body.reward), outcome))

    @made.post("/v1/rewards", response_model=models.RewardsAnswer, responses=WRONG)
    def reward_all(body: models.RewardsRequest) -> Response:
        """How many decisions went, each with an answer or an error, in one commit."""
        items = cast(Sequence[models.RewardItem | models.Refused], body.rewards)
        given = [i if isinstance(i, ValueError) else (i.decision, i.reward) for i in items]
        outcomes = batches.reward_all(node, given)
        health.succeeded()
        return in_json({"rewards": [rewarded(*each) for each in zip(given, outcomes, strict=True)]})


def _add_views(made: FastAPI, node: Node, health: Health) -> None:
    """What it knows, and how it is."""

    @made.get("/v1/arms", response_model=dict[str, models.ArmAnswer])
    def arms() -> Response:
        """What is known of every arm."""
        return in_json(node.arms())

    @made.get("/v1/network", response_model=models.NetworkAnswer)
    def network() -> Response:
        """The neighbours, and what was refused and why."""
        return in_json(node.network())

    @made.get("/v1/evidence", response_model=models.EvidenceAnswer)
    def evidence() -> Response:
        """In whole quanta: what this agent saw itself, and what it holds of all."""
        return in_json(node.evidence())

    @made.get("/healthz")
    async def healthz() -> Response:
        """Whether the process lives."""
        return in_json({"status": "alive"})

    @made.get("/readyz", responses={503: WRONG[503]})
    def readyz() -> Response:
        """Whether the store can be written."""
        health.check()
        return in_json({"status": "ready"})

    @made.get("/metrics", response_class=PlainTextResponse)
    def numbers() -> Response:
        """Counters in the text format of Prometheus."""
        return Response(metrics(node), media_type=CONTENT_TYPE)


async def _run(request: Request, work: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
    """Do the work in a thread, so that many share commits; or here, if there is but one client.

    A thread costs it two wake-ups, which take longer than the work.
    """
    if request.scope.get(ALONE):
        return work(*given, **named)
    return await run_in_threadpool(work, *given, **named)
