"""Kernels of the compiled engine: choose, draw rewards, update and merge."""
