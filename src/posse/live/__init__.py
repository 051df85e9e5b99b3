"""Live agents: one a site, learning from its own rewards and its neighbours' evidence."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from posse.live.agent import Agent as Agent
    from posse.live.agent import Choice as Choice
    from posse.live.agent import Decision as Decision
    from posse.live.agent import Shares as Shares
    from posse.live.client import Client as Client
    from posse.live.client.asynchronous import AsyncClient as AsyncClient
    from posse.live.node import Node as Node
    from posse.live.store import Conflict as Conflict
    from posse.live.store import Store as Store
    from posse.live.store import StoreError as StoreError
    from posse.live.store import Unknown as Unknown

_ORIGIN = {
    "Agent": "agent.agent",
    "AsyncClient": "client",
    "Choice": "agent.action_selection",
    "Client": "client",
    "Conflict": "store",
    "Decision": "agent.agent",
    "Node": "node",
    "Shares": "agent.action_selection",
    "Store": "store",
    "StoreError": "store",
    "Unknown": "store",
}

__all__ = [*_ORIGIN]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    """Load a public name on first use: most need the extra posse[live], `Agent` does not."""
    if name not in _ORIGIN:
        raise AttributeError(f"module 'posse.live' has no attribute {name!r}")
    try:
        value = getattr(importlib.import_module(f"posse.live.{_ORIGIN[name]}"), name)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("posse"):
            raise
        raise ModuleNotFoundError(
            f"posse.live.{name} needs {error.name}: install Posse with the extra live, "
            'for example pip install ".[live]" in a clone',
            name=error.name,
        ) from None
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
