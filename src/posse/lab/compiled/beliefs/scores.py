"""Normal scores of tails, nearly: what three logarithms and two square roots can tell.

Of a law whose log-density falls by r^2/2 from its mode to x, with slope v there in units of the
mode's curvature, the normal score of the tail beyond x is r + log(v/r)/r, up to an error that
shrinks like shape^(-3/2) (Barndorff-Nielsen 1986; Lugannani and Rice 1980).
"""

from __future__ import annotations

import math

from posse.lab.compiled.jit import vectorised
from posse.lab.compiled.random import log

UNKNOWN = 1e30  # for kernels that know no infinities
# Twice the largest error seen times shape^(3/2), for shapes from 1 on and r from 0.3 to 8; beyond,
# where nobody asks how far exactly, it is less than 1.
_ERROR = 0.05
_LEAST = 0.3  # nearer to the mode v/r is known to too few digits
_MOST = 8.0


@vectorised
def tail_score(fall, v, slope, shape):
    """The score, its slope in x, and a bound of its error.

    fall: by how much the log-density falls, r^2/2; slope: of that in x; shape: the smallest one.
    """
    r = math.sqrt(max(2.0 * fall, 1e-20))
    known = (r > _LEAST) & (shape > 0.999) & (v > 0.0)
    score = r + log(max(v, 1e-20) / r) / r
    error = _ERROR / (shape * math.sqrt(shape)) + 1e-9 if r < _MOST else 1.0
    return score, slope / r, error if known else UNKNOWN
