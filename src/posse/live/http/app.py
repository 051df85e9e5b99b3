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
from posse.live.http.access_control import (
    TRANSPORT_EXTENSION,
    AccessControl,
    Receive,
    Scope,
    Send,
    refuse_request,
    send_response,
)
from posse.live.http.cross_origin import CrossOrigin, add_headers
from posse.live.http.health import LatencyHistogram, get_traffic
from posse.live.http.models import CallerAnswer
from posse.live.http.ofrep import flag_error_response
from posse.live.http.openapi import build_document
from posse.live.http.page import PageSections, PageStreams, is_asset, read_asset
from posse.live.http.request_batches import RequestBatcher
from posse.live.http.responses import RequestRefused, Response, json_response
from posse.live.http.routes import PROBES, ROUTES, Route, RouteTable
from posse.live.node import Node
from posse.live.store import StoreError

STORE_FAILING = "the store cannot be written and nothing was stored: retry later"
INTERNAL_ERROR = "internal error, see the agent's log: please report it"
LARGE_BODY_BYTES = 10_000  # bytes of a body
VIEW_THREADS = 2  # threads for views: more would only compete with decisions for the interpreter

log = logging.getLogger(__name__)


class AgentApp:
    """An ASGI app that checks, reads, dispatches and answers; every error is one sentence."""

    def __init__(
        self,
        node: Node,
        guard: AccessControl,
        table: RouteTable,
        reload: Callable[[], Any] | None = None,
        origins: Sequence[str] = (),
    ) -> None:
        self._node = node
        self._cross_origin = CrossOrigin(origins)
        self._guard = guard
        self._table = table
        self._reload = reload
        self._traffic = get_traffic(node)
        self._turns = RequestBatcher(node, self._traffic)
        self._viewers = ThreadPoolExecutor(VIEW_THREADS, "posse-view")
        self._prober = ThreadPoolExecutor(1, "posse-probe")  # readiness must not queue behind views
        self.streams = PageStreams(node, self._viewers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await _handle_lifespan(scope, receive, send)
            return
        began = perf_counter()
        path = scope["path"]
        method = scope["method"]
        allowed_origin = self._cross_origin.find_headers(scope)
        send = add_headers(send, allowed_origin)
        preflight = self._cross_origin.answer_preflight(scope, allowed_origin)
        page = self._table.routes is ROUTES and is_asset(path)
        public = page or path in PUBLIC or preflight is not None
        methods, name, part = self._table.find_routes(path)
        try:
            # on a path without POST, that is the error, not the type of the body
            body = await self._guard.read_admitted_body(
                scope, receive, public, json_only="POST" in methods
            )
        except RequestRefused as refusal:
            self._traffic.refusals.add(refusal.reason)
            await refuse_request(receive, send, refusal)
            return
        if body is None:
            return
        if preflight is not None:
            await send_response(send, preflight)
            return
        head_only = method == "HEAD"
        if page and (head_only or method == "GET"):
            await send_response(send, read_asset(path), head_only=head_only)
            return
        # the latency of streams is not measured: they last as long as their viewers
        waits: LatencyHistogram | None = None
        route: Route | None = None
        try:
            route = methods.get(method) or self._find_unlisted_route(path, method, methods, page)
            if route.stream:
                transport = scope.get("extensions", {}).get(TRANSPORT_EXTENSION)
                await self.streams.stream_to_viewer(
                    self._node.experiment(name), receive, send, transport
                )
                return
            waits = self._traffic.latencies.get(route.name)
            # One histogram per route, not per path: clients cannot create metrics without bound.
            if waits is None:
                waits = self._traffic.latencies[route.name] = LatencyHistogram()
            answer = await self._answer_request(scope, route, name, part, body)
        except Exception as error:
            explained = self._explain_error(scope, error)
            if route is not None and route.flag is not None:
                answer = flag_error_response(part, error, *explained)
            else:
                answer = answers.error_response(*explained)
        await send_response(send, answer, head_only=head_only)
        if waits is not None:
            waits.add(perf_counter() - began)

    def _find_unlisted_route(
        self, path: str, method: str, methods: Mapping[str, Route], page: bool
    ) -> Route:
        """Find the route of /openapi.json, which is not in the table; refuse any other request."""
        allowed = ("GET", "HEAD") if page else tuple(methods)
        if path == "/openapi.json" and self._table.routes is ROUTES:
            if method == "GET":
                return OPENAPI
            allowed = ("GET",)
        sentence = f"there is no {method} {_replace_unprintable(path[:100])}: see /openapi.json"
        if allowed:
            allow = ((b"allow", ", ".join(allowed).encode()),)
            raise RequestRefused(405, "no_such_route", sentence, allow)
        raise RequestRefused(404, "no_such_route", sentence)

    async def _answer_request(
        self, scope: Scope, route: Route, name: str | None, part: str, body: bytes
    ) -> Response:
        if route.question is not None or route.flag is not None:
            assert route.body is not None
            if len(part) > 200:
                raise ValueError("decision must have at most 200 characters")
            request = await self._read_body(route.body, body)
            if route.flag is not None:
                answer = await route.flag(self._turns, self._node, scope["headers"], part, request)
            elif route.question is not None:
                experiment = self._node.experiment(name)
                answer = await route.question(self._turns, experiment, part, request)
            # The commit of this answer has succeeded: that ends a failure, if there was one.
            if self._traffic.health.record_success():
                log.warning("the store can be written again")
            return answer if isinstance(answer, Response) else json_response(answer)
        if route is OPENAPI:
            return json_response(build_document(self._table.routes))
        if route.order is not None:
            # Before the body is decoded: without the operators' token nothing is said about
            # commands.
            self._guard.require_operator(scope)
            assert route.body is not None
            request = await self._read_body(route.body, body)
            target: Any = self._reload if route.name == "reload" else self._node
            if route.of_experiment:
                target = self._node.experiment(name)
            return await self._run_in_thread(self._viewers, route.order, target, request)
        if route.name == "caller":
            admitted = self._guard.has_valid_token(scope)
            # This route is public, so that the page can ask for a token: names need one.
            experiment_names = list(self._node.experiments) if admitted else []
            return json_response(
                CallerAnswer(
                    admitted,
                    self._guard.is_operator(scope),
                    self._guard.knows_token(scope),
                    experiment_names,
                )
            )
        if route.name == "page":
            sections = self.streams.get_sections(self._node.experiment(name))
            return await self._run_in_thread(self._viewers, _render_page, sections)
        assert route.view is not None
        # On the event loop, not in a thread: liveness means that this loop still turns.
        if route.path == "/healthz":
            return json_response(route.view(self._node))
        subject = self._node.experiment(name) if route.of_experiment else self._node
        pool = self._prober if route.path == "/readyz" else self._viewers
        arguments = (
            [await self._read_body(route.body, body)] if route.body else [part] if part else []
        )
        return await self._run_in_thread(pool, route.view, subject, *arguments)

    async def _read_body(self, kind: type, body: bytes) -> Any:
        """Decode a body; errors of a large one take long to find, and are found in a thread."""
        request: Any = bodies.decode_body(kind, body)
        if request is not None:
            return request
        if len(body) < LARGE_BODY_BYTES:
            return bodies.decode_body_slowly(kind, body)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._viewers, bodies.decode_body_slowly, kind, body)

    async def _run_in_thread(
        self, pool: ThreadPoolExecutor, work: Callable[..., Any], *arguments: Any
    ) -> Response:
        """Run slow work and the encoding of its answer in a thread, where it delays no decision."""

        def job() -> Response:
            answer = work(*arguments)
            return answer if isinstance(answer, Response) else json_response(answer)

        return await asyncio.get_running_loop().run_in_executor(pool, job)

    def _explain_error(self, scope: Scope, error: Exception) -> tuple[int, str, answers.Headers]:
        """Turn an exception into a status, one sentence and headers."""
        if isinstance(error, RequestRefused):
            self._traffic.refusals.add(error.reason)
            return error.status, str(error), error.headers
        if isinstance(error, StoreError):
            if self._traffic.health.record_failure(self._node):  # once, not for every request
                log.error("%s", error)  # it names files, which clients need not know
            return 503, STORE_FAILING, ()
        if isinstance(error, ValueError):
            status = answers.http_status(error)
            self._traffic.refusals.add(REASONS[status])
            return status, str(error), ()
        # Anything else is a bug. Its details go to the log only, as they may name files or
        # contents.
        log.error("%s %s failed", scope["method"], scope["path"], exc_info=error)
        return 500, INTERNAL_ERROR, ()


def _render_page(sections: PageSections) -> Response:
    """Render all sections of the page, for clients that cannot use a stream."""
    sections.refresh()
    return Response(200, sections.changes_since(0)[1])


OPENAPI = Route("GET", "/openapi.json", "openapi", "This document.", dict[str, Any])
PUBLIC = frozenset(route.path for route in ROUTES if route.public)
REASONS = {404: "unknown", 409: "conflict", 422: "invalid_field"}


def create_app(
    node: Node,
    hosts: Sequence[str] = (),
    *,
    token: str | None = None,
    operator_token: str | None = None,
    reload: Callable[[], Any] | None = None,
    origins: Sequence[str] = (),
) -> AgentApp:
    """Create the HTTP interface of a node; see its /openapi.json.

    hosts: names in the Host header besides localhost; token: required of every request;
    operator_token: required of operators' commands; reload: the function behind POST /v1/reload;
    origins: those whose pages may ask from a browser.
    """
    guard = AccessControl(hosts, token, operator_token)
    return AgentApp(node, guard, RouteTable(), reload, origins)


def create_probe_app(node: Node) -> AgentApp:
    """Create an app with /healthz, /readyz and /metrics only, for any Host."""
    return AgentApp(node, AccessControl(None), RouteTable(PROBES))


def _replace_unprintable(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)


async def _handle_lifespan(scope: Scope, receive: Receive, send: Send) -> None:
    """Complete the lifespan events of another server; there is nothing to start or stop."""
    if scope["type"] != "lifespan":
        raise RuntimeError(f"a posse agent serves HTTP only, not {scope['type']}")
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
