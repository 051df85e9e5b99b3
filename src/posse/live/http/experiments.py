"""The experiments of a node, by name."""

from __future__ import annotations

from posse.live.node import Node
from posse.live.store import Unknown

Experiment = Node


def find(node: Node, name: str | None) -> Experiment:
    """An experiment by name; without one, the only one."""
    if name in (None, "default"):
        return node
    raise Unknown(f"there is no experiment {name!r} here: there is 'default'")


def everything(node: Node) -> dict[str, Experiment]:
    """All of them by name."""
    return {"default": node}
