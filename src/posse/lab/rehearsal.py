"""Parts of the user's tried out before a comparison, so that nobody's runs are lost by them."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from posse import algorithms
from posse.algorithms import ALGORITHMS
from posse.bandits import DELAYS, DRIFTS
from posse.families import CONTEXTUAL, FAMILIES, Grid
from posse.lab import reference
from posse.lab.blocks import Simulation
from posse.networks.dynamics import is_own
from posse.policies import POLICIES

ROUNDS = 2  # the second plays with a state that `learn` gave


def rehearse(label: str, simulation: Simulation, runs: range) -> None:
    """Play the first rounds of up to two runs, and forget them; for what is not all ours.

    What a part does wrong is then said before the first round of any algorithm. Runs draw from
    streams of their own, so that nothing is used up.
    """
    if not _has_own_parts(simulation):
        return
    rounds = min(ROUNDS, simulation.horizon)
    short = dataclasses.replace(simulation, times=np.arange(1, rounds + 1))
    try:
        reference.simulate_block(short, runs, lambda steps: None, rounds)
    except ValueError:
        raise  # a sentence already
    except (Exception, SystemExit) as error:  # whatever a user's part may raise
        raise ValueError(
            f"{label} failed in its first {rounds} rounds: {type(error).__name__}: {error}"
        ) from error


def _has_own_parts(simulation: Simulation) -> bool:
    s = simulation
    policy: Any = getattr(s.algorithm, "policy", None)
    ours = (
        type(s.algorithm) in (*ALGORITHMS.values(), *algorithms.CONTEXTUAL.values())
        and (policy is None or type(policy) in POLICIES.values())
        and all(_is_our_family(family) for family in (s.bandit.family, s.model))
    )
    own_delay = s.bandit.delay is not None and type(s.bandit.delay) not in DELAYS.values()
    own_drift = s.bandit.drift is not None and type(s.bandit.drift) not in DRIFTS.values()
    return not ours or own_delay or own_drift or is_own(s.network.dynamics)


def _is_our_family(family: Any) -> bool:
    ours = (*FAMILIES.values(), *CONTEXTUAL.values())
    return type(family) in ours and not isinstance(family, Grid)  # of functions
