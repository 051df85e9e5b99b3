"""The files of the page: static, the same for everybody, and therefore without a token."""

from __future__ import annotations

from posse import web
from posse.live.http.answers import Answer, Headers

POLICY = "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
HEADERS: Headers = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-cache"),
)
KINDS = {
    "html": b"text/html; charset=utf-8",
    "css": b"text/css; charset=utf-8",
    "js": b"text/javascript; charset=utf-8",
    "svg": b"image/svg+xml",
}
PAGE = "agent.html"
ASSETS = (
    "tokens.css",
    "base.css",
    "agent.css",
    "icon.svg",
    "agent.js",
    "arms.js",
    "chart.js",
    "dom.js",
    "format.js",
    "marks.js",
    "network.js",
    "past.js",
    "segments.js",
    "sites.js",
    "states.js",
    "stream.js",
    "theme.js",
    "tips.js",
    "words.js",
)
_NAMES = {"/": PAGE} | {f"/assets/{name}": name for name in ASSETS}


def is_asset(path: str) -> bool:
    """Whether a path is that of the page or of one of its files."""
    return path in _NAMES


def asset(path: str) -> Answer:
    """The page or one of its files."""
    name = _NAMES[path]
    return Answer(200, web.read(name).encode(), KINDS[name.rpartition(".")[2]], HEADERS)
