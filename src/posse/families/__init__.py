"""Reward families with their beliefs, one file each; FAMILIES is the registry of names."""

from typing import Any

from posse import rules
from posse.families.bernoulli import Bernoulli
from posse.families.bounded import Bounded
from posse.families.exponential import Exponential
from posse.families.family import ContextualFamily, Family, Interval, is_contextual
from posse.families.family import Model as Model
from posse.families.family import check_family as check_family
from posse.families.family import check_means as check_means
from posse.families.family import clip_means as clip_means
from posse.families.family import get_family_name as get_family_name
from posse.families.family import require_plain_family as require_plain_family
from posse.families.gaussian import Gaussian
from posse.families.gaussian_unknown_variance import GaussianUnknownVariance
from posse.families.gaussian_weights import LEAST_VARIANCE as LEAST_VARIANCE
from posse.families.gaussian_weights import GaussianWeights as GaussianWeights
from posse.families.grid import Grid
from posse.families.linear import Linear
from posse.families.logistic import FARTHEST as FARTHEST
from posse.families.logistic import Logistic
from posse.families.logit_normal import LogitNormal
from posse.families.mixture_of_normals import MixtureOfNormals
from posse.families.optional_methods import (
    OptionalMethods,
    from_count_and_total,
    get_optional,
    to_count_and_total,
)
from posse.families.poisson import Poisson
from posse.families.revenue import Revenue
from posse.families.student_t import StudentT
from posse.families.variational import Variational

FAMILIES: dict[str, Any] = {
    "bernoulli": Bernoulli,
    "bounded": Bounded,
    "gaussian": Gaussian,
    "gaussian-unknown-variance": GaussianUnknownVariance,
    "poisson": Poisson,
    "exponential": Exponential,
    "revenue": Revenue,
    "grid": Grid,
}

# Families without conjugate posteriors: a reward adds what depends on the belief that it met.
VARIATIONAL: dict[str, Any] = {"student-t": StudentT, "mixture-of-normals": MixtureOfNormals}

# Families whose beliefs are evaluated at a context; all others ignore contexts.
CONTEXTUAL: dict[str, Any] = {"linear": Linear, "logistic": Logistic}

rules.accept_rules(*FAMILIES.values(), *VARIATIONAL.values(), *CONTEXTUAL.values(), LogitNormal)

__all__ = [
    "CONTEXTUAL",
    "FAMILIES",
    "VARIATIONAL",
    "Bernoulli",
    "Bounded",
    "ContextualFamily",
    "Exponential",
    "Family",
    "Gaussian",
    "GaussianUnknownVariance",
    "Grid",
    "Interval",
    "Linear",
    "Logistic",
    "LogitNormal",
    "MixtureOfNormals",
    "OptionalMethods",
    "Poisson",
    "Revenue",
    "StudentT",
    "Variational",
    "from_count_and_total",
    "get_optional",
    "is_contextual",
    "to_count_and_total",
]
