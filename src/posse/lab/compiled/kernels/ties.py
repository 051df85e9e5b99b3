"""The arm with the largest score, ties broken at random."""

from __future__ import annotations

from posse.lab.compiled.jit import helper
from posse.lab.compiled.philox import TIE, U64, open_stream, pick_tied


@helper
def play_best(scores, stream, agent, t, run, key0, key1):
    """Return the arm with the largest score, ties broken at random."""
    arm = U64(0)
    best = scores[0]
    n_tied = 1
    for k in range(1, scores.size):
        if scores[k] > best:
            arm = U64(k)
            best = scores[k]
            n_tied = 1
        elif scores[k] == best:
            n_tied += 1
    if n_tied > 1:
        open_stream(stream, agent, t, run, TIE, key0, key1)
        return pick_tied(scores, best, n_tied, stream)
    return arm


@helper
def play_any(scores, stream, agent, t, run, key0, key1):
    """Return a random arm: no index differs from another, or none matters."""
    for k in range(scores.size):
        scores[k] = 0.0
    return play_best(scores, stream, agent, t, run, key0, key1)
