"""The HTTP interface of a node: decisions and rewards for an application at the same site."""

from __future__ import annotations

import json
import logging
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar, cast

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse, Response

from posse import __version__
from posse.live.http import batches, models
from posse.live.http.guard import Guard
from posse.live.http.metrics import CONTENT_TYPE, metrics
from posse.live.http.protocol import ALONE
from posse.live.http.route import StraightRoute
from posse.live.http.server import Server
from posse.live.node import Node
from posse.live.store import Conflict, Decision, Outcome, StoreError, Unknown

RECENT = 10.0  # seconds for which a failure of the store counts, unless a write succeeds
RETRY_AFTER = 1  # seconds
LONGEST = 500  # characters of an error
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

log = logging.getLogger(__name__)
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
    health = _Health(node)
    _errors(made, health)

    @made.post("/v1/decisions", response_model=models.DecisionAnswer, responses=WRONG)
    async def decide(request: Request, body: models.DecisionRequest) -> Response:
        """Which arm to play."""
        decision = await _run(request, batches.decide, node, body.decision, body.allowed)
        health.succeeded()
        return _json(_shown(decision))

    @made.post("/v1/decisions/batch", response_model=models.DecisionsAnswer, responses=WRONG)
    def decide_all(body: models.DecisionsRequest) -> Response:
        """Many decisions, each with an answer or an error."""
        items = cast(Sequence[models.DecisionRequest | models.Refused], body.decisions)
        good = [item for item in items if isinstance(item, models.DecisionRequest)]
        made_ = iter(batches.decide_all(node, [(item.decision, item.allowed) for item in good]))
        health.succeeded()
        each = [item if isinstance(item, ValueError) else next(made_) for item in items]
        return _json({"decisions": [_shown(one) for one in each]})

    @made.post(
        "/v1/decisions/{decision}/reward", response_model=models.RewardAnswer, responses=UNKNOWN
    )
    async def reward(request: Request, decision: models.Id, body: models.RewardRequest) -> Response:
        """How a decision went."""
        outcome = await _run(request, node.reward, decision, body.reward)
        health.succeeded()
        return _json(_rewarded(decision, body.reward, outcome))

    @made.post("/v1/rewards", response_model=models.RewardsAnswer, responses=WRONG)
    def reward_all(body: models.RewardsRequest) -> Response:
        """How many decisions went, each with an answer or an error, in one commit."""
        items = cast(Sequence[models.RewardItem | models.Refused], body.rewards)
        given = [i if isinstance(i, ValueError) else (i.decision, i.reward) for i in items]
        outcomes = batches.reward_all(node, given)
        health.succeeded()
        answers = [
            _refusal(outcome)
            if isinstance(outcome, ValueError) or isinstance(item, ValueError)
            else _rewarded(item.decision, item.reward, outcome)
            for item, outcome in zip(items, outcomes, strict=True)
        ]
        return _json({"rewards": answers})

    @made.get("/v1/arms", response_model=dict[str, models.ArmAnswer])
    def arms() -> Response:
        """What is known of every arm."""
        return _json(node.arms())

    @made.get("/v1/network", response_model=models.NetworkAnswer)
    def network() -> Response:
        """The neighbours, and what was refused and why."""
        return _json(node.network())

    @made.get("/v1/evidence", response_model=models.EvidenceAnswer)
    def evidence() -> Response:
        """In whole quanta: what this agent saw itself, and what it holds of all."""
        return _json(node.evidence())

    @made.get("/healthz")
    async def healthz() -> Response:
        """Whether the process lives."""
        return _json({"status": "alive"})

    @made.get("/readyz", responses={503: WRONG[503]})
    def readyz() -> Response:
        """Whether the store can be written."""
        health.check()
        return _json({"status": "ready"})

    @made.get("/metrics", response_class=PlainTextResponse)
    def numbers() -> Response:
        """Counters in the text format of Prometheus."""
        return Response(metrics(node), media_type=CONTENT_TYPE)

    return made


def serve(node: Node, address: str, hosts: Sequence[str] = ()) -> Server:
    """Serve a node on 127.0.0.1:PORT, localhost:PORT, [::1]:PORT or unix:/PATH, in a thread."""
    return Server(app(node, hosts), address)


async def _run(request: Request, work: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
    """Do the work in a thread, so that many share commits; or here, if there is but one client.

    A thread costs it two wake-ups, which take longer than the work.
    """
    if request.scope.get(ALONE):
        return work(*given, **named)
    return await run_in_threadpool(work, *given, **named)


class _Health:
    """Whether the store failed recently."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._failed: float | None = None  # when
        self._seen = self._count()
        self._lock = threading.Lock()

    def failed(self) -> bool:
        """Note that the store failed a request; whether that is news."""
        with self._lock:
            news = self._failed is None
            self._node.failures["request"] += 1
            self._failed = time.monotonic()
            self._seen = self._count()
            return news

    def succeeded(self) -> None:
        """Note that the store could be written."""
        if self._failed is not None:
            with self._lock:
                self._failed = None

    def check(self) -> None:
        """Raise if the store cannot be written, as far as one knows."""
        with self._lock:
            count = self._count()
            if count > self._seen:  # of ticks and messages
                self._seen, self._failed = count, time.monotonic()
            failed = self._failed
        if failed is not None and time.monotonic() - failed < RECENT:
            raise HTTPException(503, "the store failed a moment ago: see the agent's log")
        with self._node.store.transaction():  # it is open, and its turn comes
            pass

    def _count(self) -> int:
        return sum(self._node.failures[doing] for doing in ("tick", "receive", "request"))


def _errors(made: FastAPI, health: _Health) -> None:
    """Answer whatever goes wrong with one sentence."""

    @made.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        return _error(422, models.sentence(error.errors()))

    @made.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> Response:
        if error.status_code in (404, 405):
            path = request.url.path[:100]
            return _error(
                error.status_code,
                f"there is no {request.method} {path}: see /openapi.json",
                error.headers,
            )
        headers = {"Retry-After": str(RETRY_AFTER)} if error.status_code == 503 else error.headers
        return _error(error.status_code, error.detail, headers)

    @made.exception_handler(ValueError)
    async def refused(_: Request, error: ValueError) -> Response:
        return _error(_status(error), str(error))

    @made.exception_handler(StoreError)
    async def failing(_: Request, error: StoreError) -> Response:
        if health.failed():  # once, not for every request
            log.error("%s", error)  # it names files, which are not the client's business
        headers = {"Retry-After": str(RETRY_AFTER)}
        return _error(503, "the store fails, nothing was kept: ask again later", headers)


def _status(error: ValueError) -> int:
    return 404 if isinstance(error, Unknown) else 409 if isinstance(error, Conflict) else 422


def _error(status: int, sentence: str, headers: Mapping[str, str] | None = None) -> Response:
    return _json({"error": sentence[:LONGEST]}, status, headers)


def _refusal(error: object) -> dict[str, Any]:
    assert isinstance(error, ValueError)
    return {"error": str(error)[:LONGEST], "status": _status(error)}


def _shown(decision: Decision | ValueError) -> dict[str, Any]:
    if isinstance(decision, ValueError):
        return _refusal(decision)
    return {
        "decision": decision.id,
        "arm": decision.arm,
        "probability": decision.probability,
    }


def _rewarded(decision: str, reward: float, outcome: Outcome) -> dict[str, Any]:
    return {"decision": decision, "reward": reward, "repeated": outcome is Outcome.REPEATED}


def _json(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """An answer in ASCII, which holds any text."""
    try:
        text = json.dumps(value, allow_nan=False)
    except ValueError:
        text = json.dumps(_finite(value), allow_nan=False)
    return Response(text, status, headers, "application/json")


def _finite(value: Any) -> Any:
    """JSON knows no infinity: null in its place."""
    if isinstance(value, Mapping):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
