"""Theory: the results of the paper as numbers, what a network costs, and regret predicted.

The paper's results are Lai-Robbins, Theorem 1, mixing times and the lemmas on posteriors. Beyond
the paper: the cost of a network (a number that orders networks by the regret of dec-TS) and a
prediction of regret without simulation.
"""

from posse.divergences import Divergence as Divergence
from posse.divergences import get_divergence as get_divergence
from posse.divergences import kl_bernoulli as kl_bernoulli
from posse.divergences import kl_exponential as kl_exponential
from posse.divergences import kl_gaussian as kl_gaussian
from posse.divergences import kl_gaussian_unknown_variance as kl_gaussian_unknown_variance
from posse.divergences import kl_poisson as kl_poisson
from posse.theory.bounds_table import bounds
from posse.theory.network_costs import NetworkCost, network_cost
from posse.theory.paper import (
    BetaBounds,
    BetaParameters,
    ConsensusDeviation,
    HasMeans,
    Theorem1,
    alpha_beta_bounds,
    alpha_divergence,
    consensus_deviation,
    lai_robbins,
    lai_robbins_constant,
    mixing_time,
    posterior_closed_form,
    theorem_1,
)
from posse.theory.prediction import PredictedRegret, predicted_regret

__all__ = [
    "BetaBounds",
    "BetaParameters",
    "ConsensusDeviation",
    "HasMeans",
    "NetworkCost",
    "PredictedRegret",
    "Theorem1",
    "alpha_beta_bounds",
    "alpha_divergence",
    "bounds",
    "consensus_deviation",
    "lai_robbins",
    "lai_robbins_constant",
    "mixing_time",
    "network_cost",
    "posterior_closed_form",
    "predicted_regret",
    "theorem_1",
]
