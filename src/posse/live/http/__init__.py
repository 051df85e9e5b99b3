"""The HTTP interface of a node, for the application at its site."""

from posse.live.http.app import app as app
from posse.live.http.server import serve as serve
from posse.live.http.server import serve_probe as serve_probe
