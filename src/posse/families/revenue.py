"""Revenue per visit: nothing from most visits, and a Gamma amount from a sale."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from posse import validation
from posse.families.belief_divergences import (
    hellinger_distance,
    kl_beta,
    kl_gamma,
    log_normaliser_beta,
    log_normaliser_gamma,
)
from posse.families.family import POSITIVE, Interval
from posse.families.optional_methods import OptionalMethods
from posse.randomness import FloatArray, Numbers, Randomness

# Nodes of the trapezoidal rule in u, at the log-odds v = mode + width sinh(u). The integrands are
# analytic, like a normal density near the mode and exponential in the tails, where sinh makes wide
# steps. On 4,000 random beliefs, half the step changed no probability by 1e-11.
STEP = 0.08
FARTHEST = 5.6
_U = np.arange(-FARTHEST, FARTHEST + STEP / 2, STEP)  # (J,)
_OFFSETS = np.sinh(_U)
_WEIGHTS = STEP * np.cosh(_U)
NEGLIGIBLE = 1e-20  # weights below this share of the largest
LARGEST_SHIFT = 700.0  # of log-odds: exp of it is finite
AT_ONCE = 4096  # beliefs per block, to bound the memory
# From so many means of one belief on, its law is interpolated, on panels with so many nodes, unless
# the last coefficients are larger than this.
MANY = 300
DEGREE = 14
ROUGH = 1e-13

Function = Callable[[FloatArray, FloatArray], FloatArray]  # (4, n), (n,) -> (n,)
MOST_STEPS = 100  # of the search for a quantile, which halves its bracket at worst


@dataclass(frozen=True)
class Revenue(OptionalMethods):
    """0 with probability 1 - p, else a Gamma amount with mean m; the mean of an arm is p m.

    shape:      the known shape of the amounts: 1 is exponential, larger values vary less (the
                coefficient of variation is 1 / sqrt(shape))
    alpha:      prior of the conversion, p ~ Beta(alpha, beta)
    beta:       as above
    sale_shape: prior of the average sale, 1/m ~ Gamma(sale_shape, sale_scale), so that m is
                sale_scale / (sale_shape - 1) on average
    sale_scale: as above
    conversion: the p of the rewards that `draw_rewards` draws; the belief learns it

    Coordinates (alpha, beta, sale_shape, sale_scale): a sale of y adds (1, 0, shape, shape y), a
    visit without a sale (0, 1, 0, 0).

    >>> family = posse.families.Revenue(alpha=1, beta=32, sale_shape=2, sale_scale=40)
    >>> belief = beliefs.prior(family, n_agents=1, n_arms=2)[:, 0]  # (4, 2)
    >>> belief = beliefs.observe(belief, np.array(1), np.array(65.0), family, 1.0)  # a sale
    >>> family.posterior_mean(belief).round(2).tolist()
    [1.21, 3.09]
    """

    name: ClassVar[str] = "revenue"
    parameters: ClassVar[tuple[str, ...]] = ("mean", "conversion")
    means: ClassVar[Interval] = POSITIVE
    rewards: ClassVar[Interval] = Interval(0.0, np.inf, closed=True)
    powers: ClassVar[tuple[int, ...]] = (1, 0)

    shape: float = 1.0
    alpha: float = 1.0
    beta: float = 1.0
    sale_shape: float = 2.0
    sale_scale: float = 1.0
    conversion: float = 0.5

    def __post_init__(self) -> None:
        validation.validate_number("shape", self.shape, at_least=0.01, at_most=1e4)
        # a density of log-odds with a flatter tail would need more nodes
        validation.validate_number("alpha", self.alpha, at_least=0.5)
        validation.validate_number("beta", self.beta, at_least=0.5)
        # With sale_shape <= 1 the prior expectation of the average sale is infinite.
        validation.validate_number("sale_shape", self.sale_shape, above=1)
        validation.validate_number("sale_scale", self.sale_scale, at_least=1e-30, at_most=1e30)
        validation.validate_number("conversion", self.conversion, above=0, at_most=1)

    def prior(self) -> FloatArray:
        """(alpha, beta, sale_shape, sale_scale): (4,)."""
        return np.array([self.alpha, self.beta, self.sale_shape, self.sale_scale], dtype=float)

    def statistic(self, rewards: FloatArray) -> FloatArray:
        """(sale, no sale, shape if a sale, shape y): (...) -> (4, ...)."""
        sale = np.asarray(np.asarray(rewards) > 0, dtype=float)
        return np.stack([sale, 1.0 - sale, self.shape * sale, self.shape * np.asarray(rewards)])

    def posterior_mean(self, belief: FloatArray) -> FloatArray:
        """E[p] E[m], which are independent."""
        alpha, beta, shape, scale = belief
        return np.asarray(alpha / (alpha + beta) * (scale / (shape - 1)))

    def posterior_variance(self, belief: FloatArray) -> FloatArray:
        """E[p^2] E[m^2] - (E[p] E[m])^2, infinite for shapes up to 2."""
        alpha, beta, shape, scale = belief
        both = alpha + beta
        finite = shape > 2
        # as relative variances: E[p^2] = E[p]^2 (1 + r), with r small for much evidence
        of_conversion = beta / alpha / (both + 1)
        of_sale = 1.0 / np.where(finite, shape - 2, 1.0)
        mean = alpha / both * (scale / (shape - 1))
        relative = of_conversion + of_sale + of_conversion * of_sale
        return np.where(finite, mean**2 * relative, np.inf)

    def sample_mean(self, belief: FloatArray, generator: Randomness) -> FloatArray:
        """A Beta variate times an inverse-Gamma variate."""
        alpha, beta, shape, scale = belief
        # two variates per arm, always in this order: it is part of every published number
        conversion = generator.beta(alpha, beta)
        return np.asarray(conversion * (scale / generator.standard_gamma(shape)))

    def mean_quantile(self, belief: FloatArray, level: Numbers) -> FloatArray:
        """The root of the distribution function, by Newton's method on normal scores."""
        return _map_blocks(_find_quantiles, belief, level)

    def mean_cdf(self, belief: FloatArray, mean: Numbers) -> FloatArray:
        """P(p m <= mean), by quadrature over the log-odds of p."""
        below = _map_blocks(_compute_cdf, belief, mean, smooth=True)
        return np.clip(below, 0.0, 1.0)  # by rounding an interpolated one may lie beyond

    def log_density(self, belief: FloatArray, mean: Numbers, *nuisance: Numbers) -> FloatArray:
        """Of the mean alone by quadrature; joint with a given conversion in closed form."""
        if not nuisance:
            return _map_blocks(_compute_log_density, belief, mean, smooth=True)
        from scipy.special import betaln, gammaln, xlog1py, xlogy

        alpha, beta, shape, scale = belief
        p = np.asarray(nuisance[0], dtype=float)
        sale = np.asarray(mean, dtype=float) / p
        log_beta = xlogy(alpha - 1, p) + xlog1py(beta - 1, -p) - betaln(alpha, beta)
        log_sale = shape * np.log(scale) - gammaln(shape) - (shape + 1) * np.log(sale)
        # the Jacobian of m = mean / p
        return np.asarray(log_beta + log_sale - scale / sale - np.log(p))

    def kl(self, belief: FloatArray, other: FloatArray) -> FloatArray:
        """The divergence KL(belief, other) of conversion and average sale: (4, ...) -> (...).

        They are independent, so that it is the sum of the two divergences.
        """
        return np.asarray(kl_beta(belief[:2], other[:2]) + kl_gamma(belief[2:], other[2:]))

    def hellinger(self, belief: FloatArray, other: FloatArray) -> FloatArray:
        """The Hellinger distance of conversion and average sale together: (4, ...) -> (...)."""
        return hellinger_distance(_log_normaliser, belief, other)

    def reward_log_density(self, rewards: Numbers, mean: Numbers, *nuisance: Numbers) -> FloatArray:
        """log(1 - p) without a sale, else log p - shape (log m + y / m)."""
        y = np.asarray(rewards, dtype=float)
        p = np.asarray(nuisance[0], dtype=float)
        sale = np.asarray(mean, dtype=float) / p
        of_sale = np.log(p) - self.shape * (np.log(sale) + y / sale)
        return np.asarray(np.where(y > 0, of_sale, np.log1p(-p)))

    def draw_rewards(self, means: FloatArray, generator: Randomness) -> FloatArray:
        """0, or the average sale mean / conversion times a Gamma amount of mean 1, by inversion."""
        from scipy.special import gammainccinv

        # the share of the sales above this one; without a sale it would be above 1
        above = (1.0 - generator.random(means.shape)) / self.conversion
        amount = gammainccinv(self.shape, np.minimum(above, 1.0)) / self.shape
        # amounts of small shapes may round to 0, which would be no sale
        amount = np.maximum(amount, np.finfo(float).tiny)
        return np.asarray(np.where(above < 1.0, means / self.conversion * amount, 0.0))


def _log_normaliser(belief: FloatArray) -> FloatArray:
    return np.asarray(log_normaliser_beta(belief[:2]) + log_normaliser_gamma(belief[2:]))


# The law of the mean. With x = p m and z = sale_scale / x, its density and its distribution
# function are integrals over the log-odds v of p of p^A (1 - p)^B e^(-z p) times a monotone
# function of p. All functions below are about flat arrays, one entry for each belief.


class _Nodes(NamedTuple):
    """Quadrature nodes of p^A (1 - p)^B e^(-z p) dv."""

    p: FloatArray  # (J, n)
    q: FloatArray  # 1 - p, exact where p is nearly 1
    weights: FloatArray  # (J, n), relative to the integrand at the mode
    log_peak: FloatArray  # the logarithm of the integrand at the mode, (n,)

    @property
    def heavy(self) -> tuple[NDArray[np.bool_], NDArray[np.intp]]:
        """The nodes that matter, (J, n), and the entry of each of them."""
        heavy = self.weights > NEGLIGIBLE * self.weights.max(axis=0)
        return heavy, np.nonzero(heavy)[1]

    def average(self, values: FloatArray) -> FloatArray:
        """Return the weighted mean of the values at the heavy nodes, (n,).

        The divisor is the nodes' own total: its closed form is a difference of large terms.
        """
        weighted = np.zeros(self.weights.shape)
        heavy, _ = self.heavy
        weighted[heavy] = self.weights[heavy] * values
        return np.asarray(weighted.sum(axis=0) / self.weights.sum(axis=0))


def _place_nodes(first: FloatArray, second: FloatArray, z: FloatArray | float) -> _Nodes:
    """Place nodes for p^A (1 - p)^B e^(-z p) dv, A = first, B = second."""
    # The mode solves z p^2 - (A + B + z) p + A = 0; these forms lose no digits for p near 0 or 1.
    root = np.hypot(first + second - z, 2.0 * np.sqrt(second * z))
    total = first + second + z + root
    ahead = first - z - second
    p = 2.0 * first / total
    # 4 A B / (root + ahead) = root - ahead, of which one form is a sum
    behind = np.where(
        ahead > 0,
        4.0 * first * second / np.where(ahead > 0, root + ahead, 1.0),
        root - ahead,
    )
    q = behind / total
    width = 1.0 / np.sqrt(p * q * root)
    shift = np.clip(width * _OFFSETS[:, None], -LARGEST_SHIFT, LARGEST_SHIFT)  # (J, n)
    grown = np.expm1(shift)
    # p e^shift / (1 + p (e^shift - 1)), the conversion at shifted log-odds
    norm = 1.0 + p * grown
    log_norm = np.where(np.abs(grown) < 0.5, np.log1p(p * grown), np.log(q + p * np.exp(shift)))
    log_ratio = first * shift - (first + second) * log_norm - z * (p * q * grown / norm)
    weights = _WEIGHTS[:, None] * width * np.exp(log_ratio)
    log_peak = first * np.log(p) + second * np.log(q) - z * p
    # by rounding a node may lie beyond 1, where functions are not defined
    return _Nodes(np.minimum(p * np.exp(shift) / norm, 1.0), q / norm, weights, log_peak)


def _compute_log_density(belief: FloatArray, mean: FloatArray) -> FloatArray:
    """Return the log-density: (4, n), (n,) -> (n,)."""
    from scipy.special import betaln, gammaln

    alpha, beta, shape, scale = belief
    inside = (mean > 0) & np.isfinite(mean)
    x = np.where(inside, mean, 1.0)
    nodes = _place_nodes(alpha + shape, beta, scale / x)
    log_integral = nodes.log_peak + np.log(nodes.weights.sum(axis=0))
    log_norm = gammaln(shape) + betaln(alpha, beta)
    log_density = shape * np.log(scale / x) - np.log(x) - log_norm + log_integral
    return np.where(inside, log_density, -np.inf)


def _compute_cdf(belief: FloatArray, mean: FloatArray) -> FloatArray:
    """Return P(p m <= mean): (4, n), (n,) -> (n,)."""
    inside = (mean > 0) & np.isfinite(mean)
    x = np.where(inside, mean, 1.0)
    below = _compute_tail(belief, x, np.ones(x.shape, dtype=bool))
    return np.where(inside, below, np.where(mean > 0, 1.0, 0.0))


def _interpolate(function: Function, belief: FloatArray, mean: FloatArray) -> FloatArray:
    """Return a smooth function of one belief at many means, by Chebyshev polynomials: (4,), (n,).

    In log x, panels of half a standard deviation. A panel whose last coefficients are not
    negligible is evaluated point by point, and so are means outside the range, and few points.
    """
    inside = (mean > 0) & np.isfinite(mean)
    width = 0.5 * float(_log_sd(belief))
    place = np.log(np.where(inside, mean, 1.0)) / width
    panels, panel = np.unique(np.floor(place), return_inverse=True)
    if len(panels) * DEGREE > len(mean):
        return function(np.repeat(belief[:, None], len(mean), axis=1), mean)
    chebyshev = np.polynomial.chebyshev
    points = chebyshev.chebpts1(DEGREE)
    x = np.exp((panels[:, None] + (1.0 + points) / 2) * width)  # (panels, DEGREE)
    values = function(np.repeat(belief[:, None], x.size, axis=1), x.ravel()).reshape(x.shape)
    coefficients = np.linalg.solve(chebyshev.chebvander(points, DEGREE - 1), values.T)
    negligible = ROUGH * np.maximum(1.0, np.abs(coefficients[0]))
    rough = ~(np.abs(coefficients[-2:]).max(axis=0) <= negligible)  # also where it is no number
    at = 2.0 * (place - panels[panel]) - 1.0
    result = np.asarray(chebyshev.chebval(at, coefficients[:, panel], tensor=False))
    redo = rough[panel] | ~inside
    if redo.any():
        chosen = mean[redo]
        result[redo] = function(np.repeat(belief[:, None], len(chosen), axis=1), chosen)
    return result


def _log_sd(belief: FloatArray) -> FloatArray:
    """Return the standard deviation of log(p m): (4, ...) -> (...)."""
    from scipy.special import polygamma

    alpha, beta, shape, _ = belief
    return np.asarray(
        np.sqrt(polygamma(1, alpha) - polygamma(1, alpha + beta) + polygamma(1, shape))
    )


def _compute_tail(belief: FloatArray, x: FloatArray, below: NDArray[np.bool_]) -> FloatArray:
    """Return P(p m <= x) where `below` is true, P(p m > x) elsewhere: (4, n), (n,), (n,) -> (n,).

    It integrates against the narrower of the two laws, that of p or that of m, the distribution
    function of the other one: then no factor is steeper than the nodes are close.
    """
    alpha, beta, shape, _ = belief
    both = alpha + beta
    # about the variances of log p and log m
    narrow = (1.0 + 0.5 / alpha) / alpha - (1.0 + 0.5 / both) / both < (1.0 + 0.5 / shape) / shape
    tail = np.empty(x.shape)
    for chosen, integrate in ((narrow, _integrate_conversion), (~narrow, _integrate_sale)):
        if chosen.any():
            tail[chosen] = integrate(belief[:, chosen], x[chosen], below[chosen])
    return tail


def _integrate_conversion(
    belief: FloatArray, x: FloatArray, below: NDArray[np.bool_]
) -> FloatArray:
    """Integrate the law of m given p over that of p: P(p m <= x) = E[P(1/m >= p / x)]."""
    from scipy.special import gammainc, gammaincc

    alpha, beta, shape, scale = belief
    nodes = _place_nodes(alpha, beta, 0.0)
    heavy, column = nodes.heavy
    rate = (scale / x)[column] * nodes.p[heavy]
    lower = below[column]
    values = np.empty(rate.shape)
    values[lower] = gammaincc(shape[column[lower]], rate[lower])
    values[~lower] = gammainc(shape[column[~lower]], rate[~lower])
    return nodes.average(values)


def _integrate_sale(belief: FloatArray, x: FloatArray, below: NDArray[np.bool_]) -> FloatArray:
    """Integrate the law of p over that of m = x / p, p from 0 to 1; beyond, every p is below."""
    from scipy.special import betainc, betaincc, gammainc, gammaincc

    alpha, beta, shape, scale = belief
    z = scale / x
    nodes = _place_nodes(shape, np.ones(x.shape), z)
    heavy, column = nodes.heavy
    # of the smaller of p and 1 - p, which has all its digits
    small = nodes.p[heavy] < 0.5
    part = np.where(small, nodes.p[heavy], nodes.q[heavy])
    first = np.where(small, alpha[column], beta[column])
    second = np.where(small, beta[column], alpha[column])
    lower = small == below[column]  # whether the probability below this part is asked for
    values = np.empty(part.shape)
    values[lower] = betainc(first[lower], second[lower], part[lower])
    values[~lower] = betaincc(first[~lower], second[~lower], part[~lower])
    inner = gammainc(shape, z) * nodes.average(values)
    return np.asarray(np.where(below, inner + gammaincc(shape, z), inner))


def _find_quantiles(belief: FloatArray, level: FloatArray) -> FloatArray:
    """Return quantiles: (4, n), (n,) -> (n,).

    In log x the law is nearly normal: the normal score of its distribution function is nearly a
    line, and Newton's method on it needs few steps. A step that leaves the bracket is replaced by
    a bisection. Every entry stops by itself, so that none depends on the others.
    """
    from scipy.special import ndtri, polygamma

    alpha, beta, shape, scale = belief
    centre = np.log(scale) + polygamma(0, alpha) - polygamma(0, alpha + beta) - polygamma(0, shape)
    sd = _log_sd(belief)
    below = level <= 0.5  # solve for the smaller tail
    tail = np.where(below, level, 1.0 - level)
    sign = np.where(below, 1.0, -1.0)
    quantile = np.where(level > 0.5, np.inf, 0.0)  # at levels 0 and 1
    active = np.flatnonzero(tail > 0)
    score = ndtri(np.where(tail > 0, tail, 0.5))  # at most 0
    place = centre + sign * score * sd
    low = np.full(place.shape, -np.inf)
    high = np.full(place.shape, np.inf)
    for _ in range(MOST_STEPS):
        if not active.size:
            break
        at = place[active]
        x = np.exp(at)
        reached = _compute_tail(belief[:, active], x, below[active])
        error = sign[active] * (reached - tail[active])  # of the distribution function
        low[active] = np.where(error < 0, at, low[active])
        high[active] = np.where(error > 0, at, high[active])
        density = np.exp(_compute_log_density(belief[:, active], x) + at)  # of log x
        with np.errstate(all="ignore"):  # a step that is no number is replaced below
            reached_score = ndtri(reached)
            bell = np.exp(-0.5 * reached_score**2) / np.sqrt(2.0 * np.pi)
            step = sign[active] * (score[active] - reached_score) * bell / density
        following = at + step
        inside = (following >= low[active]) & (following <= high[active])
        following = np.where(inside, following, _halve(low[active], high[active], at, sd[active]))
        place[active] = following
        moved = np.abs(following - at)
        done = (error == 0) | (moved <= 1e-12 * sd[active]) | (moved <= 4e-16 * np.abs(at))
        quantile[active[done]] = np.exp(following[done])
        active = active[~done]
    quantile[active] = np.exp(place[active])
    return quantile


def _halve(low: FloatArray, high: FloatArray, at: FloatArray, sd: FloatArray) -> FloatArray:
    """Return the middle of a bracket, or a point beyond an end of it that is infinite."""
    middle = np.where(np.isfinite(low), low, at - 4.0 * sd) / 2
    return np.asarray(middle + np.where(np.isfinite(high), high, at + 4.0 * sd) / 2)


def _map_blocks(
    function: Function, belief: FloatArray, values: Numbers, smooth: bool = False
) -> FloatArray:
    """Apply a function of flat arrays to beliefs (4, ...) and values that broadcast, (...).

    smooth: whether it may be interpolated in the values, which are means
    """
    values = np.asarray(values, dtype=float)
    shape = np.broadcast_shapes(belief.shape[1:], values.shape)
    columns = [np.broadcast_to(part, shape).ravel() for part in (*belief, values)]
    rows = np.stack(columns, axis=1)  # (n, 5)
    # agents often agree, all of them in the first round: equal rows are computed once
    distinct, place = np.unique(rows, axis=0, return_inverse=True)
    result = np.empty(len(distinct))
    remaining = np.ones(len(distinct), dtype=bool)
    if smooth and len(distinct) >= MANY:
        changes = np.flatnonzero((np.diff(distinct[:, :4], axis=0) != 0).any(axis=1)) + 1
        for start, end in itertools.pairwise([0, *changes.tolist(), len(distinct)]):
            if end - start >= MANY:
                one = distinct[start, :4]
                result[start:end] = _interpolate(function, one, distinct[start:end, 4])
                remaining[start:end] = False
    left = np.flatnonzero(remaining)
    for start in range(0, len(left), AT_ONCE):
        block = left[start : start + AT_ONCE]
        result[block] = function(distinct[block, :4].T, distinct[block, 4])
    return np.asarray(result[place.reshape(shape)])
