"""The HTTP interface of a node, for the application at its site."""

from posse.live.http.app import create_app as create_app
from posse.live.http.server import serve_node as serve_node
from posse.live.http.server import serve_probe as serve_probe
