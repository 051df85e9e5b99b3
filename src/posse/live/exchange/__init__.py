"""Exchanges: gossip (anti-entropy) that shares evidence although messages and disks are lost."""

from posse.live.exchange.flows import Flows as Flows
from posse.live.exchange.messages import Entry as Entry
from posse.live.exchange.messages import FlowsMessage as FlowsMessage
from posse.live.exchange.messages import OriginsMessage as OriginsMessage
from posse.live.exchange.origin_checks import RateCap as RateCap
from posse.live.exchange.origins import Origins as Origins
from posse.live.exchange.seam import Exchange as Exchange

EXCHANGES: dict[str, type[Origins] | type[Flows]] = {"origins": Origins, "flows": Flows}
