"""Exchanges: how agents share evidence although messages and disks are lost."""

from __future__ import annotations

from posse.live.exchange.flows import Flows
from posse.live.exchange.messages import Entry, FlowsMessage, Message, OriginsMessage
from posse.live.exchange.origin_checks import RateCap
from posse.live.exchange.origins import Origins
from posse.live.exchange.seam import Exchange, NeighbourStatus, Outgoing

EXCHANGES: dict[str, type[Origins] | type[Flows]] = {"origins": Origins, "flows": Flows}

__all__ = [
    "EXCHANGES",
    "Entry",
    "Exchange",
    "Flows",
    "FlowsMessage",
    "Message",
    "NeighbourStatus",
    "Origins",
    "OriginsMessage",
    "Outgoing",
    "RateCap",
]
