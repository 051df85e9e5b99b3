"""Reward families: one file each, all of one shape; FAMILIES lists them by name."""

from typing import Any

from posse.families.abilities import Abilities, ability, pair, unpair
from posse.families.bernoulli import Bernoulli
from posse.families.bounded import Bounded
from posse.families.exponential import Exponential
from posse.families.family import Family, Interval
from posse.families.gaussian import Gaussian
from posse.families.gaussian_unknown_variance import GaussianUnknownVariance
from posse.families.grid import Grid
from posse.families.poisson import Poisson

FAMILIES: dict[str, Any] = {
    "bernoulli": Bernoulli,
    "bounded": Bounded,
    "gaussian": Gaussian,
    "gaussian-unknown-variance": GaussianUnknownVariance,
    "poisson": Poisson,
    "exponential": Exponential,
    "grid": Grid,
}

__all__ = [
    "FAMILIES",
    "Abilities",
    "Bernoulli",
    "Bounded",
    "Exponential",
    "Family",
    "Gaussian",
    "GaussianUnknownVariance",
    "Grid",
    "Interval",
    "Poisson",
    "ability",
    "pair",
    "unpair",
]
