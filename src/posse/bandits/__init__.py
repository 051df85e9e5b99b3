"""The problem itself: true arms that draw rewards, and how their means differ and drift."""

from posse.bandits.bandit import Bandit, take
from posse.bandits.drift import DRIFTS, Drift, RandomWalk, Rotation, Sines
from posse.bandits.means import MEANS, SiteMeans, UniformMeans

__all__ = [
    "DRIFTS",
    "MEANS",
    "Bandit",
    "Drift",
    "RandomWalk",
    "Rotation",
    "Sines",
    "SiteMeans",
    "UniformMeans",
    "take",
]
