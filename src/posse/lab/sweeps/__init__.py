"""Sweeps: one experiment over a grid of its settings, stored part by part."""
