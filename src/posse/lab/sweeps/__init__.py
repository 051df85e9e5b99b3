"""Sweeps: one experiment over a grid of its settings, kept part by part."""
