"""Algorithms: how N agents choose and learn together; ALGORITHMS lists them by name."""

from typing import Any

from posse import rules
from posse.algorithms.algorithm import IDLE as IDLE
from posse.algorithms.algorithm import Algorithm, ArrivedRewards, Problem
from posse.algorithms.bayesian import BayesianAlgorithm as BayesianAlgorithm
from posse.algorithms.bayesian import TimedAlgorithm as TimedAlgorithm
from posse.algorithms.bayesian import clip_to_attainable as clip_to_attainable
from posse.algorithms.centralized import Centralized
from posse.algorithms.decentralized import Decentralized
from posse.algorithms.event_triggered import EventTriggered
from posse.algorithms.flooding import Flooding
from posse.algorithms.isolated import Isolated
from posse.algorithms.liars import Liars
from posse.algorithms.partial_pooling import PartialPooling
from posse.algorithms.push_sum import LEAST_MASS as LEAST_MASS
from posse.algorithms.push_sum import PushSum
from posse.algorithms.push_sum import check_mass as check_mass
from posse.algorithms.rivals.comex import ComEx
from posse.algorithms.rivals.coop_se import CoopSE
from posse.algorithms.rivals.coop_ucb import CoopUCB, CoopUCB2, CoopUCL
from posse.algorithms.rivals.dducb import DDUCB
from posse.algorithms.rivals.dducb import chebyshev_values as chebyshev_values
from posse.algorithms.rivals.discounted_ucb import DiscountedUCB
from posse.algorithms.rivals.dist_ucb import DistUCB
from posse.algorithms.rivals.dpe2 import DPE2
from posse.algorithms.rivals.fed_lin_ucb import FedLinUCB
from posse.algorithms.rivals.follow_your_leader import FollowYourLeader
from posse.algorithms.rivals.follow_your_leader import choose_leaders as choose_leaders
from posse.algorithms.rivals.gosine import GosInE
from posse.algorithms.rivals.initial_pulls import ForcedStart as ForcedStart
from posse.algorithms.rivals.initial_pulls import noise_scale as noise_scale
from posse.algorithms.rivals.initial_pulls import subtract_forced_pulls as subtract_forced_pulls
from posse.algorithms.rivals.kl_index import divergence_kind as divergence_kind
from posse.algorithms.rivals.lin_ucb import LinUCB
from posse.algorithms.rivals.message_passing import delivery_delays as delivery_delays
from posse.algorithms.rivals.sliding_window_ucb import SlidingWindowUCB
from posse.algorithms.rivals.ucb_network import UCBNetwork
from posse.algorithms.tree import Tree

ALGORITHMS: dict[str, Any] = {
    "decentralized": Decentralized,
    "isolated": Isolated,
    "centralized": Centralized,
    "flooding": Flooding,
    "tree": Tree,
    "push-sum": PushSum,
    "event-triggered": EventTriggered,
    "partial-pooling": PartialPooling,
    "coop-ucb": CoopUCB,
    "coop-ucb2": CoopUCB2,
    "coop-ucl": CoopUCL,
    "dducb": DDUCB,
    "discounted-ucb": DiscountedUCB,
    "sliding-window-ucb": SlidingWindowUCB,
    "dpe2": DPE2,
    "gosine": GosInE,
    "dist-ucb": DistUCB,
    "ucb-network": UCBNetwork,
    "follow-your-leader": FollowYourLeader,
    "comex": ComEx,
    "coop-se": CoopSE,
}

# Algorithms that need contexts. Of ALGORITHMS, the first seven accept contexts as well.
CONTEXTUAL: dict[str, Any] = {"lin-ucb": LinUCB, "fed-lin-ucb": FedLinUCB}

rules.accept_rules(*ALGORITHMS.values(), *CONTEXTUAL.values())

__all__ = [
    "ALGORITHMS",
    "CONTEXTUAL",
    "DDUCB",
    "DPE2",
    "Algorithm",
    "ArrivedRewards",
    "Centralized",
    "ComEx",
    "CoopSE",
    "CoopUCB",
    "CoopUCB2",
    "CoopUCL",
    "Decentralized",
    "DiscountedUCB",
    "DistUCB",
    "EventTriggered",
    "FedLinUCB",
    "Flooding",
    "FollowYourLeader",
    "GosInE",
    "Isolated",
    "Liars",
    "LinUCB",
    "PartialPooling",
    "Problem",
    "PushSum",
    "SlidingWindowUCB",
    "Tree",
    "UCBNetwork",
]
