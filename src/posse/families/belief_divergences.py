"""Divergences between beliefs: how far a belief has moved, in the words of its own posterior.

The KL divergence KL(p, q) is the expectation under p of log p - log q. The Hellinger distance needs
one function of a family, its log-normaliser A: coordinates are affine in the natural parameters, so
the density sqrt(p q) belongs to the midpoint of the coordinates, and the affinity of p and q, the
integral of sqrt(p q), is exp(A((p + q) / 2) - (A(p) + A(q)) / 2).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from posse.randomness import FloatArray


def hellinger_distance(
    log_normaliser: Callable[[FloatArray], FloatArray], belief: FloatArray, other: FloatArray
) -> FloatArray:
    """Return sqrt(1 - affinity) from the log-normaliser of a family: (D, ...) -> (...)."""
    middle = log_normaliser((belief + other) / 2)
    log_affinity = middle - (log_normaliser(belief) + log_normaliser(other)) / 2
    # at most 0 in exact arithmetic, because a log-normaliser is convex
    return np.sqrt(-np.expm1(np.minimum(log_affinity, 0.0)))


def kl_beta(belief: FloatArray, other: FloatArray) -> FloatArray:
    """KL between Beta laws, coordinates (alpha, beta): (2, ...) -> (...)."""
    from scipy.special import psi

    alpha, beta = belief
    alpha_step, beta_step = belief - other
    gain = log_normaliser_beta(other) - log_normaliser_beta(belief)
    slopes = alpha_step * psi(alpha) + beta_step * psi(beta)
    return np.asarray(np.maximum(gain + slopes - (alpha_step + beta_step) * psi(alpha + beta), 0.0))


def log_normaliser_beta(belief: FloatArray) -> FloatArray:
    """log B(alpha, beta): (2, ...) -> (...)."""
    from scipy.special import betaln

    return np.asarray(betaln(*belief))


def kl_gamma(belief: FloatArray, other: FloatArray) -> FloatArray:
    """KL between Gamma laws, and between inverse-Gamma laws, (shape, rate): (2, ...) -> (...)."""
    from scipy.special import gammaln, psi

    shape, rate = belief
    other_shape, other_rate = other
    of_shapes = (shape - other_shape) * psi(shape) - gammaln(shape) + gammaln(other_shape)
    of_rates = other_shape * np.log(rate / other_rate) + shape * (other_rate - rate) / rate
    return np.asarray(np.maximum(of_shapes + of_rates, 0.0))


def log_normaliser_gamma(belief: FloatArray) -> FloatArray:
    """log Gamma(shape) - shape log rate: (2, ...) -> (...)."""
    from scipy.special import gammaln

    shape, rate = belief
    return np.asarray(gammaln(shape) - shape * np.log(rate))


def kl_normal(belief: FloatArray, other: FloatArray) -> FloatArray:
    """KL between normal laws, coordinates (mean times precision, precision): (2, ...) -> (...)."""
    shift, precision = belief
    other_shift, other_precision = other
    ratio = other_precision / precision
    squares = other_precision * (shift / precision - other_shift / other_precision) ** 2
    return np.asarray(np.maximum((squares + ratio - 1.0 - np.log(ratio)) / 2, 0.0))


def log_normaliser_normal(belief: FloatArray) -> FloatArray:
    """shift^2 / (2 precision) - log(precision) / 2: (2, ...) -> (...)."""
    shift, precision = belief
    return np.asarray((shift * (shift / precision) - np.log(precision)) / 2)


def kl_weights(
    shift: FloatArray,  # (..., d)
    precision: FloatArray,  # (..., d, d)
    other_shift: FloatArray,
    other_precision: FloatArray,
) -> FloatArray:
    """KL between multivariate normal laws, by shifts Lambda m and precisions Lambda: -> (...)."""
    step = _solve(precision, shift) - _solve(other_precision, other_shift)
    squares = np.einsum("...i,...ij,...j->...", step, other_precision, step)
    trace = np.trace(np.linalg.solve(precision, other_precision), axis1=-2, axis2=-1)
    log_ratio = np.linalg.slogdet(precision)[1] - np.linalg.slogdet(other_precision)[1]
    return np.asarray(np.maximum((squares + trace - shift.shape[-1] + log_ratio) / 2, 0.0))


def log_normaliser_weights(shift: FloatArray, precision: FloatArray) -> FloatArray:
    """(b' Lambda^-1 b - log det Lambda) / 2: (..., d), (..., d, d) -> (...)."""
    squares = (shift * _solve(precision, shift)).sum(axis=-1)
    return np.asarray((squares - np.linalg.slogdet(precision)[1]) / 2)


def _solve(precision: FloatArray, shift: FloatArray) -> FloatArray:
    return np.asarray(np.linalg.solve(precision, shift[..., None])[..., 0])
