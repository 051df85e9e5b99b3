"""Bandit problems: arms with true means, which may differ by site, drift or depend on contexts.

Non-stationary means are in `drift`, delayed rewards in `delays`, heterogeneity between sites in
`means`, contextual bandits in `contextual`.
"""

from posse.bandits.bandit import Bandit
from posse.bandits.contextual import (
    CONTEXTS,
    WEIGHTS,
    ContextualBandit,
    NormalWeights,
    UnitFeatures,
)
from posse.bandits.delays import DELAYS, Delay, GeometricDelay
from posse.bandits.delays import NEVER as NEVER
from posse.bandits.delays import draw_delays as draw_delays
from posse.bandits.drift import DRIFTS, Drift, RandomWalk, Rotation, Sines
from posse.bandits.means import MEANS, NormalMeans, SiteMeans, UniformMeans

AnyBandit = Bandit | ContextualBandit

__all__ = [
    "CONTEXTS",
    "DELAYS",
    "DRIFTS",
    "MEANS",
    "WEIGHTS",
    "AnyBandit",
    "Bandit",
    "ContextualBandit",
    "Delay",
    "Drift",
    "GeometricDelay",
    "NormalMeans",
    "NormalWeights",
    "RandomWalk",
    "Rotation",
    "Sines",
    "SiteMeans",
    "UniformMeans",
    "UnitFeatures",
]
