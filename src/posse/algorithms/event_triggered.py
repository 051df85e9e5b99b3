"""Event-triggered communication: neighbours exchange beliefs only when one of them has moved.

Algorithm 1 sends every belief over every link in every round, although beliefs hardly move once the
best arm is found. Here a link is silent until the belief of one of its ends has moved by some KL
divergence since the two last exchanged (event-triggered consensus: Dimarogonas, Frazzoli and
Johansson 2012). The end that moved tells its belief, the other end answers with its own, and both
move toward each other by the weight of the link: one adds the difference that the other subtracts.
So the sum of all beliefs is conserved, as by a doubly stochastic W, and every coordinate stays
between those of the two ends, so that beliefs stay proper.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from posse import beliefs, validation
from posse.algorithms.algorithm import Problem
from posse.algorithms.bayesian import BayesianState
from posse.algorithms.decentralized import Decentralized
from posse.families import get_family_name
from posse.networks import is_symmetric
from posse.randomness import FloatArray, IntArray


@dataclass(frozen=True)
class EventTriggeredState(BayesianState):
    """Beliefs, and the belief of the sender at the last exchange over each link."""

    problem: Problem
    told: FloatArray  # (D, R, C, K)
    reverse: IntArray  # (C,) the link in the opposite direction
    n_exchanges: IntArray  # (R,) links that carried a message in the last round


@dataclass(frozen=True)
class EventTriggered(Decentralized):
    """Algorithm 1 in which neighbours exchange beliefs only after one has moved by some KL.

    A belief has moved by the sum over arms of KL(now, when it was last told). With threshold 0 all
    links are used in every round, which is `Decentralized`.

    policy: how each agent chooses from its belief, such as `posse.ThompsonSampling()`.
    threshold: the KL divergence, in nats, from which on an agent tells its neighbour.
    family: the reward model of the agents, with its prior; None takes the bandit's own.
    learning_rate: the weight of one reward in the update: a number, or one for each agent; None is
    N, with which beliefs that have mixed count every reward once.
    half_life: rounds after which evidence counts half, for non-stationary means; None: no discount.
    open: how a pull counts until its delayed reward arrives: "wait" (the same as None) ignores it;
    "count" counts it as the lowest reward and corrects it later, for feeds of successes only.

    >>> posse.EventTriggered(posse.ThompsonSampling(), threshold=0.5)
    EventTriggered(policy=ThompsonSampling(), family=None, half_life=None, open=None, \
learning_rate=None, threshold=0.5)
    """

    name: ClassVar[str] = "event-triggered"

    threshold: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        validation.validate_number("threshold", self.threshold, at_least=0)

    def check_problem(self, problem: Problem) -> None:
        """Refuse one-way links and families without a divergence between beliefs."""
        super().check_problem(problem)
        family = self.family or problem.family
        if not callable(getattr(family, "kl", None)):
            raise ValueError(
                f"EventTriggered needs a family with a method kl(belief, other), and "
                f"{get_family_name(family)!r} has none"
            )
        if not is_symmetric(problem.network.weights):
            raise ValueError(
                "EventTriggered needs symmetric weights, since both ends of a link move by the "
                f"same difference, got {problem.network}"
            )

    def init(self, problem: Problem) -> EventTriggeredState:
        """Start at the prior, which every agent knows of its neighbours."""
        self.check_problem(problem)
        start = super().init(problem)
        senders, receivers = problem.senders_receivers
        return EventTriggeredState(
            **vars(start),
            problem=problem,
            told=start.belief[:, :, senders],
            # links are sorted by receiver and sender: this is the rank of each reversed link
            reverse=np.lexsort((receivers, senders)),
            n_exchanges=np.zeros(problem.n_runs, dtype=np.int64),
        )

    def _observe_and_merge(
        self,
        state: BayesianState,
        arms: NDArray[np.intp],
        rewards: FloatArray,
        weights: Any,
        contexts: FloatArray | None,
    ) -> EventTriggeredState:
        """Update with the rewards, then exchange over the triggered links."""
        faded = self._discount_belief(state)
        updated = beliefs.observe(faded, arms, rewards, state.family, state.learning_rate, contexts)
        return self._merge_beliefs(state, updated, weights)

    def _merge_beliefs(
        self, state: BayesianState, updated: FloatArray, weights: Any
    ) -> EventTriggeredState:
        """Let both ends of each triggered link move toward each other by its weight."""
        assert isinstance(state, EventTriggeredState)  # made by init
        senders, _ = state.problem.senders_receivers
        own = updated[:, :, senders]  # (D, R, C, K) the belief of the sender of each link
        family: Any = state.family  # it has `kl`, by check_problem
        moved = family.kl(own, state.told).sum(axis=-1) >= self.threshold  # (R, C)
        link_weights = state.problem.get_link_weights(weights)
        # user-defined dynamics may have two weights for the two directions of a link
        link_weights = (link_weights + link_weights[:, state.reverse]) / 2
        exchanges = (moved | moved[:, state.reverse]) & (link_weights > 0)  # (R, C)
        steps = np.where(exchanges, link_weights, 0.0)[..., None] * (own - own[:, :, state.reverse])
        return replace(
            state,
            belief=updated + state.problem.sum_by_receiver(steps),
            told=np.where(exchanges[..., None], own, state.told),
            n_exchanges=exchanges.sum(axis=1),
        )

    def numbers_sent(self, state: BayesianState, t: int, links: IntArray) -> FloatArray:
        """Count the D K natural parameters of an agent over every link that was used: (R,)."""
        assert isinstance(state, EventTriggeredState)  # made by init
        n_coordinates, *_, n_arms = state.belief.shape
        return np.asarray(state.n_exchanges * n_coordinates * n_arms, dtype=np.float64)
