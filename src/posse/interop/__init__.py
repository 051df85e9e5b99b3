"""Adapters for other frameworks: problems as their environments, their policies as algorithms."""

from posse.interop import pettingzoo as pettingzoo
