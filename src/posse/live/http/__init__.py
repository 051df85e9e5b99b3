"""The HTTP interface of a node, for the application at its site."""

from posse.live.http.interface import app as app
from posse.live.http.interface import serve as serve
