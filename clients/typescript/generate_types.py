"""Write src/api.ts, the types of all requests and answers, from the agent's OpenAPI document.

The only argument is a file or the address of an agent's /openapi.json; without it, the document is
that of the installed Posse.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any
from urllib.request import urlopen

TARGET = Path(__file__).parent / "src" / "api.ts"
HEAD = (
    "// The types of requests and answers. Written by generate_types.py from /openapi.json: do not "
    "edit.\n"
)
PLAIN = {
    "string": "string",
    "number": "number",
    "integer": "number",
    "boolean": "boolean",
    "null": "null",
}


def main(arguments: list[str]) -> None:
    """Read the document that is named, or that of the installed Posse, and write the types."""
    TARGET.write_text(render_types(read_document(*arguments)), encoding="utf-8")
    print(f"written: {TARGET}")


def read_document(source: str | None = None) -> dict[str, Any]:
    """Read an OpenAPI document from a file or an agent; None: from the installed Posse."""
    if source is None:
        from posse.live.http.openapi import build_document
        from posse.live.http.routes import ROUTES

        return build_document(ROUTES)
    if source.startswith(("http://", "https://")):
        with urlopen(source) as answer:  # an agent of the caller
            return dict(json.load(answer))
    return dict(json.loads(Path(source).read_text(encoding="utf-8")))


def render_types(document: dict[str, Any]) -> str:
    """Render one exported type for each component of a document, in alphabetical order."""
    components = document["components"]["schemas"]
    return HEAD + "".join(_render_component(name, components[name]) for name in sorted(components))


def _render_component(name: str, schema: dict[str, Any]) -> str:
    comment = _render_comment(schema.get("description"), "")
    if schema.get("type") == "object" and schema.get("properties"):
        return f"\n{comment}export interface {name} {_render_object(schema, '')}\n"
    return f"\n{comment}export type {name} = {_render_schema(schema, '')};\n"


def _render_comment(text: str | None, indent: str) -> str:
    if not text:
        return ""
    lines = [line.strip() for line in text.replace("*/", "* /").splitlines()]
    if len(lines) == 1:
        return f"{indent}/** {lines[0]} */\n"
    body = "".join(f"{indent} * {line}".rstrip() + "\n" for line in lines)
    return f"{indent}/**\n{body}{indent} */\n"


def _render_object(schema: dict[str, Any], indent: str) -> str:
    inner = indent + "  "
    required = schema.get("required", [])
    fields = []
    for name, field in schema["properties"].items():
        mark = "" if name in required else "?"
        key = name if name.isidentifier() else json.dumps(name)
        comment = _render_comment(field.get("description"), inner)
        fields.append(f"{comment}{inner}{key}{mark}: {_render_schema(field, inner)};\n")
    return "{\n" + "".join(fields) + indent + "}" if fields else "Record<string, never>"


def _render_schema(schema: dict[str, Any], indent: str) -> str:
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    for key in ("anyOf", "oneOf"):
        if key in schema:
            kinds = dict.fromkeys(_render_schema(item, indent) for item in schema[key])
            return " | ".join(kinds)
    if "enum" in schema:
        return " | ".join(json.dumps(value) for value in schema["enum"])
    if "const" in schema:
        return json.dumps(schema["const"])
    kind = schema.get("type")
    if isinstance(kind, list):
        return " | ".join(_render_schema({**schema, "type": one}, indent) for one in kind)
    if kind == "array":
        return _render_array(schema, indent)
    if kind == "object":
        if "properties" in schema:
            return _render_object(schema, indent)
        values = schema.get("additionalProperties", True)
        inside = "unknown" if isinstance(values, bool) else _render_schema(values, indent)
        return f"Record<string, {inside}>"
    return PLAIN.get(str(kind), "unknown")


def _render_array(schema: dict[str, Any], indent: str) -> str:
    if "prefixItems" in schema:
        items = ", ".join(_render_schema(item, indent) for item in schema["prefixItems"])
        return f"[{items}]"
    inside = _render_schema(schema.get("items") or {}, indent)
    return f"({inside})[]" if " " in inside else f"{inside}[]"


if __name__ == "__main__":
    main(sys.argv[1:])
