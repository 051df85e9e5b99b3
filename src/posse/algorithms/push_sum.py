"""Push-sum: Algorithm 1 by ratio consensus, on directed networks and without a price for hubs.

Every agent splits its evidence x equally among itself and the agents it sends to, and with it one
more number, its mass y (1 at the start). Columns of these shares P sum to 1, so that the sums of x
and of y over agents are conserved; x/y tends to their quotient at every agent, the average evidence
(Kempe, Dobra & Gehrke 2003). Double stochasticity, with which a leaf of a star may give its hub
only 1/N of its belief, is not needed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from posse import beliefs, validation
from posse.algorithms.algorithm import ArrivedRewards, Problem
from posse.algorithms.bayesian import BayesianState, TimedAlgorithm, clip_to_attainable
from posse.networks import (
    LinkFailure,
    Network,
    Static,
    UniformWeights,
    as_operator,
    split_among_links,
)
from posse.randomness import FloatArray, IntArray

# An agent with less mass has hardly received anything for hundreds of rounds; soon after, the
# mass would be 0 and its belief 0/0.
LEAST_MASS = 1e-100


@dataclass(frozen=True)
class PushSumState(BayesianState):
    """Beliefs, and what the agents send to each other: evidence and masses."""

    evidence: FloatArray  # (D, R, N, K) sums of statistics at rate 1, without the prior
    mass: FloatArray  # (R, N, 1)
    # the mass that starts with 1 at agent 0 and 0 elsewhere; None if N is known
    unit_mass: FloatArray | None  # (R, N, 1)
    network: Network
    shares: Any  # P as an operator; None if it changes from round to round
    full_shares: FloatArray | None  # (N,) what a receiver gets, whether or not its link works


@dataclass(frozen=True)
class PushSum(TimedAlgorithm):
    """Decentralized Bayesian bandit by ratio consensus; directed networks, too.

    Agents act on prior + N x / y. Only the links of the network count, not its weights. A message
    that is lost keeps its share at the sender; under gossip an agent pushes one half. Where all
    agents have equally many neighbours, the algorithm is `Decentralized` with max-degree weights.

    policy: how each agent chooses from its belief, such as `posse.ThompsonSampling()`.
    family: the reward model of the agents, with its prior; None takes the bandit's own.
    learning_rate: the weight of the average evidence; None is N, with which beliefs that have mixed
    count every reward once. "learnt" estimates N, so that an agent need know nothing but its own
    links: one more number u, 1 at agent 0 and 0 elsewhere, is merged like the mass, and y/u tends
    to N.
    half_life: rounds after which evidence counts half, for non-stationary means; None: no discount.
    open: how a pull counts until its delayed reward arrives: "wait" (the same as None) ignores it;
    "count" counts it as the lowest reward and corrects it later, for feeds of successes only.

    >>> posse.PushSum(posse.ThompsonSampling())
    PushSum(policy=ThompsonSampling(), family=None, half_life=None, open=None, learning_rate=None)
    """

    name: ClassVar[str] = "push-sum"
    accepts_directed: ClassVar[bool] = True

    learning_rate: float | Literal["learnt"] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.learning_rate, str):
            validation.validate_choice("learning_rate", self.learning_rate, ("learnt",))
        elif self.learning_rate is not None:
            validation.validate_number("learning_rate", self.learning_rate, above=0)

    def resolve_learning_rate(self, problem: Problem) -> float:
        """Return the learning rate given, or N; 1 before N is learnt."""
        if self.learning_rate == "learnt":
            return 1.0
        return problem.n_agents if self.learning_rate is None else self.learning_rate

    def check_problem(self, problem: Problem) -> None:
        """Refuse a network in which some agents never reach others."""
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import connected_components

        if problem.network.is_stochastic:
            return  # connected, as are all networks but unchecked matrices
        shares = csr_array(problem.network.shares)
        parts = connected_components(shares, connection="strong", return_labels=False)
        if parts > 1:
            raise ValueError(
                f"PushSum needs a strongly connected network, and {problem.network} has {parts} "
                "components: agents of different components could never agree; add links"
            )

    def init(self, problem: Problem) -> PushSumState:
        """Start at the prior, without evidence, each agent with the mass 1."""
        self.check_problem(problem)
        start = super().init(problem)
        network = problem.network
        dynamics = network.dynamics
        mass = np.ones((problem.n_runs, problem.n_agents, 1))
        unit_mass = None
        if self.learning_rate == "learnt":
            unit_mass = np.zeros_like(mass)
            unit_mass[:, 0] = 1.0
        shares: Any = None
        full_shares = None
        if isinstance(dynamics, Static):
            complete = network.is_complete
            shares = UniformWeights(network.n_agents) if complete else as_operator(network.shares)
        elif isinstance(dynamics, LinkFailure) and dynamics.normalise == "full":
            full_shares = network.shares.diagonal()
        return PushSumState(
            **vars(start),
            evidence=np.zeros_like(start.belief),
            mass=mass,
            unit_mass=unit_mass,
            network=network,
            shares=shares,
            full_shares=full_shares,
        )

    def learn(
        self,
        state: BayesianState,
        arms: NDArray[np.intp],
        rewards: FloatArray,
        weights: Any,
        contexts: FloatArray | None = None,
    ) -> PushSumState:
        """Add the own reward to the evidence, then push shares to the receivers."""
        assert isinstance(state, PushSumState)  # made by init
        updated = beliefs.observe(
            self.discount_factor * state.evidence,
            arms,
            rewards,
            state.family,
            1.0,
            contexts,
            state.belief,
        )
        return self._push_shares(state, updated, weights)

    def learn_delayed(
        self, state: BayesianState, arms: NDArray[np.intp], arrivals: ArrivedRewards, weights: Any
    ) -> PushSumState:
        """Add the rewards that arrived to the evidence, then push shares to the receivers."""
        assert isinstance(state, PushSumState)  # made by init
        faded = self.discount_factor * state.evidence
        return self._push_shares(
            state, self._observe_delayed(state, arms, arrivals, 1.0, faded), weights
        )

    def _push_shares(self, state: PushSumState, evidence: FloatArray, weights: Any) -> PushSumState:
        """Split evidence and masses by P(t), and return the state with the new beliefs."""
        shares = self._find_shares(state, weights)
        evidence = shares @ evidence
        mass = shares @ state.mass
        check_mass(mass.min())
        unit_mass = None if state.unit_mass is None else shares @ state.unit_mass
        rate = state.learning_rate if unit_mass is None else learn_rate(mass, unit_mass)
        prior = state.family.prior().reshape(-1, 1, 1, 1)
        belief = prior + evidence * (rate / mass)
        if self.open == "count":
            # corrections may have mixed less than the pulls that they correct
            belief = clip_to_attainable(belief, state.family)
        return replace(state, belief=belief, evidence=evidence, mass=mass, unit_mass=unit_mass)

    def _find_shares(self, state: PushSumState, weights: Any) -> Any:
        """Return P(t) as an operator."""
        if state.shares is not None:
            return state.shares
        if state.network.is_directed:
            return weights  # the sampler of a directed network draws shares
        n_runs, n_agents, _ = state.mass.shape
        return split_among_links(weights, n_agents, n_runs, state.full_shares)

    def numbers_sent(self, state: PushSumState, t: int, links: IntArray) -> FloatArray:
        """Count the D K numbers of the evidence and the masses over every link in use: (R,)."""
        n_coordinates, *_, n_arms = state.belief.shape
        n_masses = 1 if state.unit_mass is None else 2
        return np.asarray(links * (n_coordinates * n_arms + n_masses), dtype=np.float64)


def learn_rate(mass: FloatArray, unit_mass: FloatArray) -> FloatArray:
    """Estimate N by y/u; 1 for an agent that agent 0 has hardly reached yet."""
    return np.divide(mass, unit_mass, out=np.ones_like(mass), where=unit_mass > LEAST_MASS)


def check_mass(lowest: float) -> None:
    """Refuse a mass that is about to underflow: the agent sends far more than it receives."""
    if lowest < LEAST_MASS:
        raise ValueError(
            f"PushSum: the mass of an agent fell below {LEAST_MASS:g}, because it sends to many "
            "agents and hardly receives anything; give it more links in, or fewer out"
        )
