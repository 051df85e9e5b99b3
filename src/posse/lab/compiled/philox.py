"""Random numbers for kernels: Philox4x32-10, a counter-based generator without a state.

A draw is addressed by (key, agent, round, run, purpose): the same bits whatever the number of
threads, the order of the runs or the way agents are divided into tiles. Source: Salmon, Moraes,
Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from posse.lab.compiled.jit import helper, use_wide_vectors, vectorised

U64 = np.uint64
_LOW = U64(0xFFFFFFFF)
_ONE_TO_TWO = U64(0x3FF0000000000000)  # the exponent bits of floats in [1, 2)

# Purposes: the last word of an address; a second, third ... call for the same purpose adds 16.
REWARD, NETWORK, PIVOT, PIVOT_AGAIN, ALL_ARMS, CONTEST, TIE, LEVEL, CHALLENGE = (
    U64(i) for i in range(9)
)

# How many numbers the fill functions may write beyond the requested ones.
ROOM = 16


@intrinsic
def as_float(typing_context: Any, bits: Any) -> Any:
    """Reinterpret 64 bits as a float64."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(types.uint64), generate


@intrinsic
def as_bits(typing_context: Any, number: Any) -> Any:
    """Reinterpret a float64 as 64 bits."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.IntType(64))

    return types.uint64(types.float64), generate


@njit(inline="always")
def philox(agent, t, run, purpose, key0, key1):
    """Return two 64-bit words for an address."""
    # the address is the counter of the cipher, the seed its key
    c0 = agent
    c1 = t
    c2 = run
    c3 = purpose
    for _ in range(10):
        # 32-bit words in 64-bit lanes; masked only where they are multiplied, which is free
        p0 = (c0 & _LOW) * U64(0xD2511F53)
        p1 = (c2 & _LOW) * U64(0xCD9E8D57)
        c0 = (p1 >> U64(32)) ^ c1 ^ key0
        c1 = p1
        c2 = (p0 >> U64(32)) ^ c3 ^ key1
        c3 = p0
        key0 = (key0 + U64(0x9E3779B9)) & _LOW
        key1 = (key1 + U64(0xBB67AE85)) & _LOW
    return (c0 << U64(32)) | (c1 & _LOW), (c2 << U64(32)) | (c3 & _LOW)


@njit(inline="always")
def uniform(word):
    """Return a uniform in (0, 1), both ends excluded, from the high 52 bits of a word."""
    return as_float((word >> U64(12)) | _ONE_TO_TWO) - (1.0 - 1.1102230246251565e-16)


@njit(inline="always")
def log(x):
    """Compute the natural logarithm of a normal positive float without branches.

    Without branches it vectorises.

    x = 2^k (1 + f), then the even series of log((1 + s)/(1 - s)) with s = f/(2 + f), in the
    minimax coefficients of fdlibm's e_log.c; within 1 ulp.
    """
    bits = as_bits(x)
    above = bits - U64(0x3FE6A09E667F3BCD)  # relative to sqrt(1/2)
    k = as_float(U64((np.int64(above) >> 52) + 0x4338000000000000)) - 6755399441055744.0
    f = as_float(bits - (above & U64(0xFFF0000000000000))) - 1.0
    s = f / (2.0 + f)
    z = s * s
    r = 1.531383769920937332e-01 + z * 1.479819860511658591e-01
    r = 2.222219843214978396e-01 + z * (1.818357216161805012e-01 + z * r)
    r = 3.999999999940941908e-01 + z * (2.857142874366239149e-01 + z * r)
    r = z * (6.666666666666735130e-01 + z * r)
    half = 0.5 * f * f
    correction = half - (s * (half + r) + k * 1.90821492927058770002e-10)
    return k * 6.93147180369123816490e-01 - (correction - f)


@njit(inline="always")
def exp(x):
    """Compute the exponential of a number up to 700 without branches, to 1e-15.

    x/2 = k log 2 + r with |r| <= log(2)/2, then 2^k times the Taylor series of exp r, whose
    remainder is below 2e-16. Its square underflows gradually, as it should.
    """
    x = max(0.5 * x, -700.0)
    shifted = x * 1.4426950408889634 + 6755399441055744.0
    k = shifted - 6755399441055744.0
    r = (x - k * 6.93147180369123816490e-01) - k * 1.90821492927058770002e-10
    high = 1 / 362880 + r * (1 / 3628800 + r * (1 / 39916800 + r * (1 / 479001600)))
    middle = 1 / 720 + r * (1 / 5040 + r * (1 / 40320 + r * high))
    low = 1 / 2 + r * (1 / 6 + r * (1 / 24 + r * (1 / 120 + r * middle)))
    series = 1.0 + r * (1.0 + r * low)
    # the low bits of `shifted` are k: added to the exponent
    root = as_float(as_bits(series) + (as_bits(shifted) << U64(52)))
    return root * root


@njit(inline="always")
def turn_of(word):
    """Return sine and cosine of a uniform angle, by fdlibm's polynomials."""
    turn = as_float((word >> U64(12)) | _ONE_TO_TWO) - 1.5  # [-1/2, 1/2) of a full turn
    shifted = turn * 4.0 + 6755399441055744.0
    quarter = as_bits(shifted)  # its low bits are the nearest quarter turn
    x = (turn - 0.25 * (shifted - 6755399441055744.0)) * 6.283185307179586
    z = x * x
    sine = -2.50507602534068634195e-08 + z * 1.58969099521155010221e-10
    sine = -1.98412698298579493134e-04 + z * (2.75573137070700676789e-06 + z * sine)
    sine = x + x * z * (-1.66666666666666324348e-01 + z * (8.33333333332248946124e-03 + z * sine))
    cosine = 2.08757232129817482790e-09 + z * -1.13596475577881948265e-11
    cosine = 2.48015872894767294178e-05 + z * (-2.75573143513906633035e-07 + z * cosine)
    cosine = (1.0 - 0.5 * z) + z * z * (
        4.16666666666666019037e-02 + z * (-1.38888888888741095749e-03 + z * cosine)
    )
    odd = (quarter & U64(1)) != U64(0)
    a = cosine if odd else sine
    b = sine if odd else cosine
    a = as_float(as_bits(a) ^ ((quarter & U64(2)) << U64(62)))
    b = as_float(as_bits(b) ^ (((quarter + U64(1)) & U64(2)) << U64(62)))
    return a, b


@njit(inline="always")
def normals(word0, word1):
    """Return two standard normals from two words (Box-Muller)."""
    radius = math.sqrt(-2.0 * log(uniform(word0)))
    a, b = turn_of(word1)
    return radius * a, radius * b


@njit(inline="always")
def _padded_pairs(agents):
    """Count the pairs of agents, rounded up to whole vectors: a scalar tail loop is slow."""
    return ((agents + U64(15)) >> U64(4)) << U64(3)


@vectorised
def fill_uniforms(out, start, agents, first_agent, t, run, purpose, key0, key1):
    """Write one uniform per agent to out[start : start + agents], two per Philox call.

    The first agent of a tile is even, so a pair never spans two tiles. Up to 15 more numbers are
    written than requested: arrays have ROOM at their end, and tiles are multiples of 16, so that
    numbers of another thread are never overwritten.
    """
    use_wide_vectors()
    half = first_agent >> U64(1)
    for pair in range(U64(0), _padded_pairs(agents)):
        a, b = philox(half + pair, t, run, purpose, key0, key1)
        out[start + (pair << U64(1))] = uniform(a)
        out[start + (pair << U64(1)) + U64(1)] = uniform(b)


@vectorised
def fill_normals_and_bits(out, spare, agents, first_agent, t, run, purpose, key0, key1):
    """Fill normals, and for each agent the 10 random bits that a normal leaves unused."""
    use_wide_vectors()
    half = first_agent >> U64(1)
    for pair in range(U64(0), _padded_pairs(agents)):
        a, b = philox(half + pair, t, run, purpose, key0, key1)
        x, y = normals(a, b)
        out[pair << U64(1)] = x
        out[(pair << U64(1)) + U64(1)] = y
        spare[pair << U64(1)] = np.uint32(a & U64(0x3FF))
        spare[(pair << U64(1)) + U64(1)] = np.uint32(b & U64(0x3FF))


@vectorised
def fill_normals(out, start, agents, first_agent, t, run, purpose, key0, key1):
    """Write one standard normal per agent, addressed as in `fill_uniforms`."""
    use_wide_vectors()
    half = first_agent >> U64(1)
    for pair in range(U64(0), _padded_pairs(agents)):
        a, b = philox(half + pair, t, run, purpose, key0, key1)
        x, y = normals(a, b)
        out[start + (pair << U64(1))] = x
        out[start + (pair << U64(1)) + U64(1)] = y


@njit(inline="always")
def _splitmix(word):
    """Apply the finaliser of SplitMix64."""
    word = (word ^ (word >> U64(30))) * U64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> U64(27))) * U64(0x94D049BB133111EB)
    return word ^ (word >> U64(31))


@helper
def open_stream(stream, agent, t, run, purpose, key0, key1):
    """Point a scalar stream at an address, to draw from as often as needed.

    stream: (6,) words: the state of xoshiro256++ (Blackman & Vigna 2021), faster than Philox one
    number at a time and seeded by it; then a spare normal, and whether there is one.
    """
    a, b = philox(agent, t, run, purpose, key0, key1)
    stream[0] = _splitmix(a)
    stream[1] = _splitmix(b)
    stream[2] = _splitmix(a + U64(0x9E3779B97F4A7C15))
    stream[3] = _splitmix(b + U64(0x9E3779B97F4A7C15)) | U64(1)  # never all zero
    stream[5] = U64(0)


@helper
def next_word(stream):
    """Return the next word of a scalar stream."""
    total = stream[0] + stream[3]
    word = ((total << U64(23)) | (total >> U64(41))) + stream[0]
    shifted = stream[1] << U64(17)
    stream[2] ^= stream[0]
    stream[3] ^= stream[1]
    stream[1] ^= stream[2]
    stream[0] ^= stream[3]
    stream[2] ^= shifted
    stream[3] = (stream[3] << U64(45)) | (stream[3] >> U64(19))
    return word


@helper
def next_uniform(stream):
    """Return the next uniform in (0, 1) of a scalar stream."""
    return uniform(next_word(stream))


@helper
def next_normal(stream):
    """Return the next standard normal of a scalar stream."""
    if stream[5] != U64(0):
        stream[5] = U64(0)
        return as_float(stream[4])
    x, y = normals(next_word(stream), next_word(stream))
    stream[4] = as_bits(y)
    stream[5] = U64(1)
    return x


@helper
def next_gamma(stream, shape):
    """Return a Gamma(shape) variate of a scalar stream (Marsaglia & Tsang 2000)."""
    boost = 1.0
    # a shape below 1 is drawn as Gamma(shape + 1) U^(1/shape)
    if shape < 1.0:
        boost = math.exp(math.log(next_uniform(stream)) / shape)
        shape += 1.0
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        x = next_normal(stream)
        v = 1.0 + c * x
        if v > 0.0:
            v = v * v * v
            u = next_uniform(stream)
            square = x * x
            if u < 1.0 - 0.0331 * square * square:  # the squeeze: no logarithm for most
                return d * v * boost
            if log(u) < 0.5 * square + d * (1.0 - v + log(v)):
                return d * v * boost


@helper
def pick_tied(scores, best, n_tied, stream):
    """Draw one of the n_tied positions with the best score, uniformly."""
    nth = min(U64(next_uniform(stream) * n_tied), U64(n_tied) - U64(1))
    for k in range(scores.size):
        if scores[k] == best:
            if nth == U64(0):
                return U64(k)
            nth -= U64(1)
    return U64(0)


@vectorised
def pick_best(scores, at, n_arms, stream, agent, t, run, key0, key1):
    """Return the arm with the largest of the scores from `at` on, ties broken at random."""
    use_wide_vectors()
    top = scores[at]
    for k in range(U64(1), n_arms):
        top = max(top, scores[at + k])
    best = n_best = U64(0)
    # without branches, which would be unpredictable: `best` is right if exactly one score is best
    for k in range(U64(0), n_arms):
        is_best = U64(scores[at + k] == top)
        best += k * is_best
        n_best += is_best
    if n_best != U64(1):
        open_stream(stream, agent, t, run, TIE, key0, key1)
        return pick_tied(scores[at : at + n_arms], top, n_best, stream)
    return best


def key_of(seed: int) -> tuple[Any, Any]:
    """Return the two key words of a seed."""
    low, high = np.random.SeedSequence(seed).generate_state(2)
    return U64(low), U64(high)
