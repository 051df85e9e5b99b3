"""Messaging: the wire format, the inbox with its quotas, and the transports."""
