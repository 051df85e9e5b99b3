"""Messaging: the wire format, the inbox with its rate limits, and the transports."""

from posse.live.messaging.inbox import Inbox as Inbox
from posse.live.messaging.inbox import MessageLimits as MessageLimits
from posse.live.messaging.transport import Receive as Receive
from posse.live.messaging.transport import Transport as Transport
from posse.live.messaging.transport.memory import MemoryNetwork as MemoryNetwork
from posse.live.messaging.wire import Codec as Codec
from posse.live.messaging.wire import WireError as WireError
