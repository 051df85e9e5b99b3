"""Conformance: software that nobody here wrote, run against real agents."""
