"""The HTTP interface of a node: a plain ASGI app over the table of routes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import Any

from posse.live.http import request_bodies as bodies
from posse.live.http import responses as answers
from posse.live.http.access_control import Guard, Receive, Scope, Send, refuse, send_answer
from posse.live.http.health import Waits, traffic_of
from posse.live.http.models import CallerAnswer
from posse.live.http.openapi import document
from posse.live.http.page import Sections, Streams, asset, is_asset
from posse.live.http.request_batches import Turns
from posse.live.http.responses import Answer, Refusal, in_json
from posse.live.http.routes import PROBES, ROUTES, Route, Table
from posse.live.node import Node
from posse.live.store import StoreError

FAILING = "the store fails, nothing was kept: ask again later"
UNEXPECTED = "the agent has an error, which its log shows: please report it"
LARGE = 10_000  # bytes of a body
VIEWERS = 2  # threads for views: more would only fight for the interpreter with decisions

log = logging.getLogger(__name__)


class Interface:
    """An ASGI app: checks, reads, dispatches, answers; whatever goes wrong with one sentence."""

    def __init__(
        self,
        node: Node,
        guard: Guard,
        table: Table,
        reload: Callable[[], Any] | None = None,
    ) -> None:
        self._node = node
        self._guard = guard
        self._table = table
        self._reload = reload
        self._traffic = traffic_of(node)
        self._turns = Turns(node, self._traffic)
        self._viewers = ThreadPoolExecutor(VIEWERS, "posse-view")
        self._prober = ThreadPoolExecutor(1, "posse-probe")  # readiness does not queue behind views
        self.streams = Streams(node, self._viewers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await _lifespan(scope, receive, send)
            return
        began = perf_counter()
        path = scope["path"]
        method = scope["method"]
        page = self._table.routes is ROUTES and is_asset(path)
        public = page or path in PUBLIC
        methods, name, part = self._table.find(path)
        try:
            # where nothing can be posted, that is what is wrong, not the type of the body
            body = await self._guard.admit(scope, receive, public, json_only="POST" in methods)
        except Refusal as refusal:
            self._traffic.refused.add(refusal.reason)
            await refuse(receive, send, refusal)
            return
        if body is None:
            return
        head_only = method == "HEAD"
        if page and (head_only or method == "GET"):
            await send_answer(send, asset(path), head_only=head_only)
            return
        waits: Waits | None = None
        try:
            route = methods.get(method) or self._other_route(path, method, methods, page)
            if route.stream:
                await self.streams.serve(self._node.experiment(name), receive, send)
                return
            waits = self._traffic.waits.get(route.name)
            if waits is None:
                waits = self._traffic.waits[route.name] = Waits()
            answer = await self._answer(scope, route, name, part, body)
        except Exception as error:
            answer = self._explained(scope, error)
        await send_answer(send, answer, head_only=head_only)
        if waits is not None:
            waits.add(perf_counter() - began)

    def _other_route(
        self, path: str, method: str, methods: Mapping[str, Route], page: bool
    ) -> Route:
        """The route of this document, which is not in the table; any other request is refused."""
        allowed = ("GET", "HEAD") if page else tuple(methods)
        if path == "/openapi.json" and self._table.routes is ROUTES:
            if method == "GET":
                return OPENAPI
            allowed = ("GET",)
        sentence = f"there is no {method} {_line(path[:100])}: see /openapi.json"
        if allowed:
            allow = ((b"allow", ", ".join(allowed).encode()),)
            raise Refusal(405, "no such route", sentence, allow)
        raise Refusal(404, "no such route", sentence)

    async def _answer(
        self, scope: Scope, route: Route, name: str | None, part: str, body: bytes
    ) -> Answer:
        if route.question is not None:
            assert route.body is not None
            if len(part) > 200:
                raise ValueError("decision must have at most 200 characters")
            given = await self._read(route.body, body)
            experiment = self._node.experiment(name)
            made = await route.question(self._turns, experiment, part, given)
            if self._traffic.health.succeeded():
                log.warning("the store is written again")
            return in_json(made)
        if route is OPENAPI:
            return in_json(document(self._table.routes))
        if route.order is not None:
            self._guard.check_operator(scope)
            assert route.body is not None
            given = await self._read(route.body, body)
            about = self._node.experiment(name) if route.of_experiment else self._reload
            return await self._in_thread(self._viewers, route.order, about, given)
        if route.name == "caller":
            admitted = self._guard.admits(scope)
            known = list(self._node.experiments) if admitted else []
            return in_json(CallerAnswer(admitted, self._guard.is_operator(scope), known))
        if route.name == "page":
            sections = self.streams.sections(self._node.experiment(name))
            return await self._in_thread(self._viewers, _page, sections)
        assert route.view is not None
        if route.path == "/healthz":
            return in_json(route.view(self._node))
        whom = self._node.experiment(name) if route.of_experiment else self._node
        pool = self._prober if route.path == "/readyz" else self._viewers
        more = [await self._read(route.body, body)] if route.body else [part] if part else []
        return await self._in_thread(pool, route.view, whom, *more)

    async def _read(self, kind: type, body: bytes) -> Any:
        """What a body says; what is wrong with a large one takes long to find, elsewhere."""
        given: Any = bodies.read(kind, body)
        if given is not None:
            return given
        if len(body) < LARGE:
            return bodies.read_slowly(kind, body)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._viewers, bodies.read_slowly, kind, body)

    async def _in_thread(
        self, pool: ThreadPoolExecutor, work: Callable[..., Any], *given: Any
    ) -> Answer:
        """Do what may take long where it holds up no decision, the writing of its JSON too."""

        def job() -> Answer:
            made = work(*given)
            return made if isinstance(made, Answer) else in_json(made)

        return await asyncio.get_running_loop().run_in_executor(pool, job)

    def _explained(self, scope: Scope, error: Exception) -> Answer:
        """What went wrong, in one sentence."""
        if isinstance(error, Refusal):
            self._traffic.refused.add(error.reason)
            return answers.error(error.status, str(error), error.headers)
        if isinstance(error, StoreError):
            if self._traffic.health.failed(self._node):  # once, not for every request
                log.error("%s", error)  # it names files, which are not the client's business
            return answers.error(503, FAILING)
        if isinstance(error, ValueError):
            status = answers.status_of(error)
            self._traffic.refused.add(REASONS[status])
            return answers.error(status, str(error))
        log.error("%s %s failed", scope["method"], scope["path"], exc_info=error)
        return answers.error(500, UNEXPECTED)


def _page(sections: Sections) -> Answer:
    """All that the page shows, for who cannot have a stream."""
    sections.look()
    return Answer(200, sections.since(0)[1])


OPENAPI = Route("GET", "/openapi.json", "openapi", "This document.", dict[str, Any])
PUBLIC = frozenset(route.path for route in ROUTES if route.public)
REASONS = {404: "unknown", 409: "conflict", 422: "wrong field"}


def app(
    node: Node,
    hosts: Sequence[str] = (),
    *,
    token: str | None = None,
    operator_token: str | None = None,
    reload: Callable[[], Any] | None = None,
) -> Interface:
    """The interface of a node; see its /openapi.json.

    hosts: names it has besides localhost; token: what requests must bring; operator_token: what
    orders must bring; reload: what POST /v1/reload does.
    """
    return Interface(node, Guard(hosts, token, operator_token), Table(), reload)


def probe_app(node: Node) -> Interface:
    """Only /healthz, /readyz and /metrics, whatever the Host."""
    return Interface(node, Guard(None), Table(PROBES))


def _line(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)


async def _lifespan(scope: Scope, receive: Receive, send: Send) -> None:
    """Nothing is to be done at the start and the end of somebody else's server."""
    if scope["type"] != "lifespan":
        raise RuntimeError(f"a posse agent speaks HTTP only, not {scope['type']}")
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
