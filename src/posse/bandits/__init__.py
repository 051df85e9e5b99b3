"""The problem itself: true arms that draw rewards, and how their means differ and drift.

Rewards may come late: see `delays`.
"""

from posse.bandits.bandit import Bandit
from posse.bandits.delays import DELAYS, Delay, GeometricDelay
from posse.bandits.drift import DRIFTS, Drift, RandomWalk, Rotation, Sines
from posse.bandits.means import MEANS, NormalMeans, SiteMeans, UniformMeans

__all__ = [
    "DELAYS",
    "DRIFTS",
    "MEANS",
    "Bandit",
    "Delay",
    "Drift",
    "GeometricDelay",
    "NormalMeans",
    "RandomWalk",
    "Rotation",
    "Sines",
    "SiteMeans",
    "UniformMeans",
]
