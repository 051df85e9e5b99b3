"""The merge kernel of `posse.PartialPooling`: the beliefs of heterogeneous sites.

It computes `posse.sites.Sites.site_beliefs` with sums over sites and arms. The inner loops run over
the candidates of tau and over the sites, so that they need no reduction and are vectorised.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from posse.lab.compiled.jit import FAST, FAST_KERNEL, kernel, use_wide_vectors, vectorised
from posse.lab.compiled.philox import U64
from posse.lab.compiled.records import MERGE

# Positions in the constants: `refresh`, the prior as pulls and their sum, the offset of the first
# coordinate, the weight of an observation, the coefficients of the variance a + b m + c m^2 and
# of the unit min(a + b m, c + d m) of an arm with pooled mean m, the weight of the other arms in
# the prior of tau. Then follow the candidates of tau in that unit, and after them their prior.
REFRESH, COUNT, TOTAL, OFFSET, WEIGHT, VARIANCE = range(6)
UNIT = VARIANCE + 3
SHARED = UNIT + 4
CANDIDATES = SHARED + 1
# A product of factors 1 + r n beyond this is replaced by its logarithm: the next one is finite.
_LARGEST = 1e150
# Candidates of lower probability change no belief: their terms are below rounding.
_NEGLIGIBLE = 1e-35

_allocating = njit(error_model="numpy", fastmath=FAST)


@vectorised
def _add_site(sums, pulls, apart, n_taus):
    """Add a site to the sums over sites, of all candidates of tau.

    sums: (5, T) flattened: the ratios r = tau^2 / V, then the sums of weights, of deviations and of
    squares, and the product of the factors 1 + r n.
    """
    use_wide_vectors()
    square = apart * apart / pulls
    for tau in range(n_taus):
        factor = 1.0 + sums[tau] * pulls
        worth = 1.0 / factor
        sums[n_taus + tau] += worth * pulls
        sums[U64(2) * n_taus + tau] += worth * apart
        sums[U64(3) * n_taus + tau] += worth * square
        sums[U64(4) * n_taus + tau] *= factor


@vectorised
def _mix_candidate(
    pulls, apart, at, means, to, mixed, n_sites, ratio, probability, weight, middle, count, total
):
    """Add the mean and the variance of every site under one tau to the mixture.

    weight, middle: the sums over all sites, of which each site subtracts its own term; count,
    total: the prior. With q = 1 + r n all fractions have the common denominator below, so that a
    site costs one division.
    """
    use_wide_vectors()
    for i in range(n_sites):
        n = pulls[at + i]
        deviation = apart[at + i]
        factor = 1.0 + ratio * n
        others = weight * factor - n
        scale = factor + ratio * others
        inverse = 1.0 / ((count + n) * scale + others)
        mean = ((total + deviation) * scale + (middle * factor - deviation)) * inverse
        means[to + i] = mean
        mixed[i] += probability * mean
        mixed[n_sites + i] += probability * (scale * inverse)


@vectorised
def _add_spread(means, to, mixed, n_sites, probability):
    """Add the squared distance of one tau's mean from the mixture's."""
    use_wide_vectors()
    for i in range(n_sites):
        distance = means[to + i] - mixed[i]
        mixed[U64(2) * n_sites + i] += probability * (distance * distance)


@_allocating
def _weigh_candidates(likelihoods, constants, n_taus, n_arms):
    """Replace the log-likelihoods (K, T) of tau by its posterior for each arm.

    Empirical Bayes, as `posse.sites.compute_site_sd_probabilities`.
    """
    shared_weight = constants[SHARED]
    prior = U64(CANDIDATES) + n_taus
    together = np.zeros(n_taus)
    for k in range(n_arms):
        for tau in range(n_taus):
            together[tau] += likelihoods[k * n_taus + tau]
    shared = np.empty(n_taus)
    for k in range(n_arms):
        at = k * n_taus
        highest = likelihoods[at]
        highest_other = together[U64(0)] - highest
        for tau in range(n_taus):
            highest = max(highest, likelihoods[at + tau])
            highest_other = max(highest_other, together[tau] - likelihoods[at + tau])
        total = 0.0
        for tau in range(n_taus):
            other_arms = together[tau] - likelihoods[at + tau]
            shared[tau] = constants[prior + tau] * math.exp(other_arms - highest_other)
            total += shared[tau]
        scale = shared_weight / total
        total = 0.0
        for tau in range(n_taus):
            weight = (1.0 - shared_weight) * constants[prior + tau] + scale * shared[tau]
            likelihoods[at + tau] = weight * math.exp(likelihoods[at + tau] - highest)
            total += likelihoods[at + tau]
        for tau in range(n_taus):
            likelihoods[at + tau] /= total


@_allocating
def _pool_run(state, row, store, at, constants, n_sites, n_arms):
    """Write the beliefs of the sites of one run, given their evidence (N, 2, K) in the store."""
    n_taus = U64(constants.size - CANDIDATES) // U64(2)
    width = U64(2) * n_arms
    # arms first, since the loops over sites are the inner ones
    pulls = np.empty(n_arms * n_sites)
    apart = np.empty(n_arms * n_sites)
    centres = np.empty(n_arms)
    variances = np.empty(n_arms)
    sums = np.empty(n_arms * U64(5) * n_taus)
    probabilities = np.zeros(n_arms * n_taus)
    sums_of_arm = np.empty(U64(5) * n_taus)
    for k in range(n_arms):
        count = constants[COUNT]
        total = constants[TOTAL]
        for i in range(n_sites):
            cell = at + i * width + k
            count += store[cell]
            total += store[cell + n_arms]
            pulls[k * n_sites + i] = store[cell]
        mean = total / count
        variance = (constants[VARIANCE + 2] * mean + constants[VARIANCE + 1]) * mean
        variance += constants[VARIANCE]
        unit = min(
            constants[UNIT] + constants[UNIT + 1] * mean,
            constants[UNIT + 2] + constants[UNIT + 3] * mean,
        )
        centres[k] = mean
        variances[k] = variance
        for tau in range(n_taus):
            sd = constants[U64(CANDIDATES) + tau] * unit
            sums_of_arm[tau] = sd * sd / variance
            for row_of_sums in range(U64(1), U64(4)):
                sums_of_arm[row_of_sums * n_taus + tau] = 0.0
            sums_of_arm[U64(4) * n_taus + tau] = 1.0
        largest = U64(5) * n_taus - U64(1)  # the product of the largest tau
        for i in range(n_sites):
            place = k * n_sites + i
            n = pulls[place]
            # centred at the pooled mean, so that sums of squares do not cancel
            apart[place] = store[at + i * width + n_arms + k] - n * mean
            if n > 0.0:
                _add_site(sums_of_arm, n, apart[place], n_taus)
                if sums_of_arm[largest] > _LARGEST:
                    for tau in range(n_taus):
                        product = sums_of_arm[U64(4) * n_taus + tau]
                        probabilities[k * n_taus + tau] -= 0.5 * math.log(product)
                        sums_of_arm[U64(4) * n_taus + tau] = 1.0
        for tau in range(n_taus):
            weight = sums_of_arm[n_taus + tau]
            middle = sums_of_arm[U64(2) * n_taus + tau]
            if weight > 0.0:
                squares = sums_of_arm[U64(3) * n_taus + tau] - middle * middle / weight
                noise = math.log(sums_of_arm[U64(4) * n_taus + tau]) + math.log(weight)
                probabilities[k * n_taus + tau] -= 0.5 * (noise + squares / variance)
        for place in range(U64(5) * n_taus):
            sums[k * U64(5) * n_taus + place] = sums_of_arm[place]
    _weigh_candidates(probabilities, constants, n_taus, n_arms)

    means = np.empty(n_taus * n_sites)
    mixed = np.empty(U64(3) * n_sites)  # sums of means, of variances, and of squared distances
    observation_weight = constants[WEIGHT]
    for k in range(n_arms):
        mixed[:] = 0.0
        first = k * U64(5) * n_taus
        total = constants[TOTAL] - centres[k] * constants[COUNT]
        for tau in range(n_taus):
            probability = probabilities[k * n_taus + tau]
            if probability > _NEGLIGIBLE:
                _mix_candidate(
                    pulls, apart, k * n_sites, means, tau * n_sites, mixed, n_sites,
                    sums[first + tau], probability, sums[first + n_taus + tau],
                    sums[first + U64(2) * n_taus + tau], constants[COUNT], total,
                )  # fmt: skip
        for tau in range(n_taus):
            probability = probabilities[k * n_taus + tau]
            if probability > _NEGLIGIBLE:
                _add_spread(means, tau * n_sites, mixed, n_sites, probability)
        for i in range(n_sites):
            spread = mixed[n_sites + i] + mixed[U64(2) * n_sites + i] / variances[k]
            matched = 1.0 / spread
            cell = row + i * width + k
            state[cell] = observation_weight * (matched + constants[OFFSET])
            state[cell + n_arms] = observation_weight * matched * (mixed[i] + centres[k])


@kernel(MERGE, seconds=3.0, **{**FAST_KERNEL, "_nrt": True})  # it allocates
def merge_pooling(
    out, state, offsets, neighbours, weights, links, constants, words,
    arms, rewards, store, lo, hi, n_agents, n_arms, first_run, t, key0, key1,
):  # fmt: skip
    """Add the last round to the evidence of each site, and pool the evidence when it is due.

    store: for every run the pulls and sums of rewards of its agents, N rows of 2 K numbers, then
    the round after which evidence is pooled again. Between two poolings a row of the state gains
    the own rewards only.
    """
    width = U64(2) * n_arms
    played = t - U64(1)
    for slot in range(lo // n_agents, hi // n_agents):
        first = slot * n_agents
        evidence = first * (width + U64(1))
        for i in range(n_agents):
            cell = evidence + i * width + U64(arms[first + i])
            store[cell] += 1.0
            store[cell + n_arms] += rewards[first + i]
        next_refresh = evidence + n_agents * width
        if np.float64(played) >= store[next_refresh]:
            _pool_run(state, first * width, store, evidence, constants, n_agents, n_arms)
            grown = math.floor(np.float64(played) * (1.0 + constants[REFRESH]))
            store[next_refresh] = max(np.float64(t), grown)
    return False
