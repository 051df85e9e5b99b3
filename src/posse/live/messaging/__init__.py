"""Messaging: the wire format, the inbox with its rate limits, and the transports."""
