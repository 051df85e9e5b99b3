"""Bandit problems: arms with true means, which may differ by site, drift or depend on contexts.

Non-stationary means are in `drift`, delayed rewards in `delays`, heterogeneity between sites in
`means`, contextual bandits in `contextual`, data sets in `datasets`, user-defined functions in
`environments`.
"""

from posse import rules
from posse.bandits.bandit import Bandit
from posse.bandits.contextual import (
    CONTEXTS,
    WEIGHTS,
    ContextualBandit,
    NormalWeights,
    UnitFeatures,
)
from posse.bandits.datasets import Dataset
from posse.bandits.delays import DELAYS, Delay, GeometricDelay
from posse.bandits.delays import NEVER as NEVER
from posse.bandits.delays import draw_delays as draw_delays
from posse.bandits.drift import DRIFTS, Drift, RandomWalk, Rotation, Sines
from posse.bandits.environments import Environment
from posse.bandits.means import MEANS, NormalMeans, SiteMeans, UniformMeans

AnyBandit = Bandit | ContextualBandit | Dataset | Environment

for _parts in (MEANS, DRIFTS, DELAYS, CONTEXTS, WEIGHTS):
    rules.accept_rules(*_parts.values())
rules.accept_rules(Environment)

__all__ = [
    "CONTEXTS",
    "DELAYS",
    "DRIFTS",
    "MEANS",
    "WEIGHTS",
    "AnyBandit",
    "Bandit",
    "ContextualBandit",
    "Dataset",
    "Delay",
    "Drift",
    "Environment",
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
