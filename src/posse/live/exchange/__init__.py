"""Exchanges: gossip (anti-entropy) that shares evidence although messages and disks are lost."""

from posse.live.exchange.flows import Flows as Flows
from posse.live.exchange.interface import NeighbourStatus as NeighbourStatus
from posse.live.exchange.interface import Outgoing as Outgoing
from posse.live.exchange.message_validation import RateCap as RateCap
from posse.live.exchange.message_validation import Sign as Sign
from posse.live.exchange.message_validation import Verify as Verify
from posse.live.exchange.messages import DEFAULT as DEFAULT
from posse.live.exchange.messages import LARGEST_ENTRY as LARGEST_ENTRY
from posse.live.exchange.messages import Entry as Entry
from posse.live.exchange.messages import FlowsMessage as FlowsMessage
from posse.live.exchange.messages import OriginsMessage as OriginsMessage
from posse.live.exchange.messages import row_size as row_size
from posse.live.exchange.messages import wire_size as wire_size
from posse.live.exchange.origins import Origins as Origins

Exchange = Origins | Flows
EXCHANGES: dict[str, type[Origins] | type[Flows]] = {"origins": Origins, "flows": Flows}
