"""The kinds of belief the kernels know, each read from a pair (count, total).

| belief        | families           | count       | total            | the mean is                |
|---------------|--------------------|-------------|------------------|----------------------------|
| GAUSSIAN      | Gaussian           | precision   | precision * mean | N(total/count, 1/count)    |
| BETA          | Bernoulli, Bounded | alpha + beta| alpha            | Beta(total, count - total) |
| GAMMA         | Poisson            | rate        | shape            | Gamma(total) / count       |
| INVERSE_GAMMA | Exponential        | shape       | rate             | total / Gamma(count)       |
"""

from posse.lab.compiled.posteriors.beta import BETA
from posse.lab.compiled.posteriors.gamma import GAMMA
from posse.lab.compiled.posteriors.gaussian import GAUSSIAN
from posse.lab.compiled.posteriors.inverse_gamma import INVERSE_GAMMA
from posse.lab.compiled.posteriors.posterior import Belief

__all__ = ["BELIEFS", "BETA", "GAMMA", "GAUSSIAN", "INVERSE_GAMMA", "Belief", "named"]

BELIEFS: dict[str, Belief] = {
    belief.name: belief for belief in (GAUSSIAN, BETA, GAMMA, INVERSE_GAMMA)
}


def named(name: str) -> Belief:
    """The kind of this name."""
    return BELIEFS[name]
