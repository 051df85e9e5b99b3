"""Membership: signed heartbeats spread by gossip tell an idle agent from a dead one."""
