"""The posteriors of the compiled engine, each a function of count and total, and some of a shape.

| posterior     | families           | count       | total            | the mean is                |
|---------------|--------------------|-------------|------------------|----------------------------|
| GAUSSIAN      | Gaussian           | precision   | precision * mean | N(total/count, 1/count)    |
| BETA          | Bernoulli, Bounded | alpha + beta| alpha            | Beta(total, count - total) |
| GAMMA         | Poisson            | rate        | shape            | Gamma(total) / count       |
| INVERSE_GAMMA | Exponential        | shape       | rate             | total / Gamma(count)       |
| STUDENT       | GaussianUnknown... | precision   | precision * mean | Student's t, of the shape  |
"""

from posse.lab.compiled.posteriors.beta import BETA
from posse.lab.compiled.posteriors.gamma import GAMMA
from posse.lab.compiled.posteriors.gaussian import GAUSSIAN
from posse.lab.compiled.posteriors.inverse_gamma import INVERSE_GAMMA
from posse.lab.compiled.posteriors.posterior import Posterior
from posse.lab.compiled.posteriors.student import STUDENT

__all__ = [
    "BETA",
    "GAMMA",
    "GAUSSIAN",
    "INVERSE_GAMMA",
    "POSTERIORS",
    "STUDENT",
    "Posterior",
    "find_posterior",
]

POSTERIORS: dict[str, Posterior] = {
    posterior.name: posterior for posterior in (GAUSSIAN, BETA, GAMMA, INVERSE_GAMMA, STUDENT)
}


def find_posterior(name: str) -> Posterior:
    """Return the posterior of this name."""
    return POSTERIORS[name]
