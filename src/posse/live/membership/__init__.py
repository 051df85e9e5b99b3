"""Membership: signed heartbeats spread by gossip tell an idle agent from a dead one."""

from posse.live.membership.answers import NetworkAnswer as NetworkAnswer
from posse.live.membership.heartbeats import SIGNATURE_INVALID as SIGNATURE_INVALID
from posse.live.membership.heartbeats import Presence as Presence
from posse.live.membership.network_view import ALIVE_STATES as ALIVE_STATES
from posse.live.membership.network_view import describe_network as describe_network
from posse.live.membership.records import Status as Status
from posse.live.membership.records import StatusMessage as StatusMessage
