"""HTML, CSS and JavaScript of the pages: live agents serve them, the lab's reports inline them."""

from __future__ import annotations

from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parent


@cache
def read(name: str) -> str:
    """The text of an asset, by its file name."""
    return (_FOLDER / name).read_text(encoding="utf-8")
