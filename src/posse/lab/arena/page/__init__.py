"""The arena's report as an HTML page: `document` is the whole, made of the parts beside it."""

from posse.lab.arena.page.document import render, write

__all__ = ["render", "write"]
