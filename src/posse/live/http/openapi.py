"""The OpenAPI 3.1 document of a table of routes."""

from __future__ import annotations

from typing import Any

import msgspec

from posse import __version__
from posse.live.experiment import ID_PATTERN, SCALES
from posse.live.http import models, ofrep
from posse.live.http.routes import Route

DESCRIPTION = (
    "Ask for a decision, play its arm, send the reward. Requests with an id of the client may be "
    "repeated; a reward is on disk when it is answered. Numbers of evidence are whole quanta and "
    "may exceed 2^53. An agent of several experiments takes the same requests under "
    "/v1/experiments/NAME/, one of a single experiment under /v1/, too."
)
STATUS_DESCRIPTIONS = {
    304: "nothing has changed since the answer with the ETag in If-None-Match",
    400: "the context or the body is wrong",
    429: "too many flags wait to be shown: retry after Retry-After seconds",
    401: "the token is missing or wrong",
    403: "the Host header is not allowed, or commands are disabled",
    404: "no such decision, experiment, verdict, audit or history",
    409: "another reward or decision exists, or no arm is left to play",
    413: "the body is too large",
    415: "the body is not JSON",
    422: "a field is wrong",
    503: "the store fails: retry after Retry-After seconds",
}
REF = "#/components/schemas/{name}"
# where an item of a list may be an error of its own
ITEMS = {
    ("DecisionsAnswer", "decisions"): "DecisionAnswer",
    ("RewardsAnswer", "rewards"): "RewardAnswer",
    ("StepsAnswer", "rewards"): "RewardAnswer",
    ("StepsAnswer", "decisions"): "DecisionAnswer",
}


def build_document(routes: tuple[Route, ...]) -> dict[str, Any]:
    """Build the content of /openapi.json from the types of the routes."""
    kinds = [route.answer for route in routes] + [route.body for route in routes if route.body]
    kinds += [models.Error, models.ItemError, ofrep.FlagError]
    shapes, components = msgspec.json.schema_components(kinds, ref_template=REF)
    shapes = tuple(map(_simplify_schema, shapes))
    components = {name: _simplify_schema(shape) for name, shape in components.items()}
    answers = dict(zip((route.name for route in routes), shapes, strict=False))
    for name, examples in models.EXAMPLES.items():
        if name in components:
            components[name]["examples"] = examples
    for (name, field), item in ITEMS.items():
        if name in components:
            components[name]["properties"][field]["items"] = _either(item)
    if "DecisionRequest" in components:  # in JSON schema, `$` matches only the very end
        decision = components["DecisionRequest"]["properties"]["decision"]
        decision["anyOf"][0]["pattern"] = ID_PATTERN
    if "StepsAnswer" in components:
        components["StepsAnswer"]["properties"]["decision"] = _either("DecisionAnswer")
    if "FlagsAnswer" in components:
        components["FlagsAnswer"]["properties"]["flags"]["items"] = _either(
            "FlagAnswer", "FlagError"
        )
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _describe_operation(route, answers)
        if route.of_experiment:
            path = "/v1/experiments/{experiment}/" + route.path.removeprefix("/v1/")
            paths.setdefault(path, {})[route.method.lower()] = _describe_operation(
                route, answers, True
            )
    return {
        "openapi": "3.1.0",
        "info": {"title": "posse agent", "version": __version__, "description": DESCRIPTION},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


def _simplify_schema(schema: Any) -> Any:
    """Simplify a schema so that client generators make usable types of it.

    To them an object without properties must be empty, and a field with a default is always
    present: required, if a client is to send it.
    """
    if isinstance(schema, list):
        return [_simplify_schema(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    cleaned = {
        key: {name: _simplify_schema(field) for name, field in value.items()}
        if key == "properties"
        else _simplify_schema(value)
        for key, value in schema.items()
        if key != "default"
    }
    if cleaned.get("type") == "object" and "properties" not in cleaned:
        cleaned.setdefault("additionalProperties", True)
    return cleaned


def _describe_operation(
    route: Route, answers: dict[str, Any], names_experiment: bool = False
) -> dict[str, Any]:
    parts: list[tuple[str, str, dict[str, Any]]] = []
    if names_experiment:
        parts.append(("experiment", "the experiment's name", {"type": "string"}))
    if "{decision}" in route.path:
        parts.append(("decision", "the decision's id", _schema_of(models.Id)))
    if "{key}" in route.path:
        parts.append(("key", "the experiment's name", _schema_of(ofrep.Key)))
    if "{scale}" in route.path:
        parts.append(("scale", "how far back", {"type": "string", "enum": list(SCALES)}))
    operation: dict[str, Any] = {
        "operationId": f"{route.name}_in" if names_experiment else route.name,
        "summary": route.name.replace("_", " ").capitalize(),
        "description": route.description,
        "responses": {"200": _describe_response("the answer", answers[route.name])},
    }
    if parts:
        operation["parameters"] = [
            {"name": n, "in": "path", "required": True, "description": d, "schema": schema}
            for n, d, schema in parts
        ]
    statuses = {401, 403, *route.statuses}
    if route.of_experiment:
        statuses.add(404)
    if route.body is not None:
        statuses |= {413, 415} if route.flag is not None else {413, 415, 422}
        operation["requestBody"] = {
            "required": True,
            "content": _json_content(_schema_reference(route.body.__name__)),
        }
    if route.order is not None:
        operation["security"] = [{"token": []}]
    for status in sorted(statuses):
        if status == 304:  # it has no content
            operation["responses"]["304"] = {"description": STATUS_DESCRIPTIONS[status]}
            continue
        of_flag = route.flag is not None and status in route.statuses
        operation["responses"][str(status)] = _describe_response(
            STATUS_DESCRIPTIONS[status], _schema_reference("FlagError" if of_flag else "Error")
        )
    return operation


def _describe_response(description: str, schema: dict[str, Any]) -> dict[str, Any]:
    if schema == {"type": "string"}:
        return {"description": description, "content": {"text/plain": {"schema": schema}}}
    return {"description": description, "content": _json_content(schema)}


def _json_content(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _schema_of(kind: Any) -> dict[str, Any]:
    return msgspec.json.schema(kind)


def _schema_reference(name: str) -> dict[str, Any]:
    return {"$ref": REF.format(name=name)}


def _either(name: str, error: str = "ItemError") -> dict[str, Any]:
    return {"anyOf": [_schema_reference(name), _schema_reference(error)]}
