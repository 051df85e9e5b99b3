"""A browser that watches."""

from .watching import watch as watch
