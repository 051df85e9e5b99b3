"""Presence: a signed heartbeat of every agent, by gossip, so that an idle one is not a dead one."""
