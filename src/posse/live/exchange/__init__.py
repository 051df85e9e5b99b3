"""Exchanges: gossip (anti-entropy) that shares evidence although messages and disks are lost."""

from posse.live.exchange.evidence_sums import LARGEST as LARGEST
from posse.live.exchange.evidence_sums import LONGEST_NAME as LONGEST_NAME
from posse.live.exchange.evidence_sums import MOST_ARMS as MOST_ARMS
from posse.live.exchange.evidence_sums import NO_CELL as NO_CELL
from posse.live.exchange.evidence_sums import PER_UNIT as PER_UNIT
from posse.live.exchange.evidence_sums import Cell as Cell
from posse.live.exchange.evidence_sums import Ledger as Ledger
from posse.live.exchange.evidence_sums import from_quanta as from_quanta
from posse.live.exchange.evidence_sums import is_name as is_name
from posse.live.exchange.evidence_sums import is_whole as is_whole
from posse.live.exchange.evidence_sums import minus as minus
from posse.live.exchange.evidence_sums import name_side_row as name_side_row
from posse.live.exchange.evidence_sums import to_quanta as to_quanta
from posse.live.exchange.evidence_sums import total as total
from posse.live.exchange.flows import Flows as Flows
from posse.live.exchange.half_life import LEAST_TICKS as LEAST_TICKS
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
