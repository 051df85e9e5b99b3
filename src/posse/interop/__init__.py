"""Adapters for other frameworks: a bandit as their environment, their policy as an algorithm."""

from posse.interop import pettingzoo as pettingzoo
