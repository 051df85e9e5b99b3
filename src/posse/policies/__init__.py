"""Policies: how one agent chooses an arm from its belief; POLICIES is the registry of names."""

from typing import Any

from posse import rules
from posse.policies.bayes_ucb import BayesUCB
from posse.policies.greedy import Greedy
from posse.policies.policy import Policy, argmax, choose, share_among_ties, timeless
from posse.policies.rand_ucb import RandUCB
from posse.policies.thompson import ThompsonSampling
from posse.policies.top_two import LEAST as LEAST
from posse.policies.top_two import TopTwo
from posse.policies.uniform import Uniform

POLICIES: dict[str, Any] = {
    "thompson-sampling": ThompsonSampling,
    "bayes-ucb": BayesUCB,
    "greedy": Greedy,
    "top-two": TopTwo,
    "rand-ucb": RandUCB,
    "uniform": Uniform,
}
rules.accept_rules(*POLICIES.values())

__all__ = [
    "POLICIES",
    "BayesUCB",
    "Greedy",
    "Policy",
    "RandUCB",
    "ThompsonSampling",
    "TopTwo",
    "Uniform",
    "argmax",
    "choose",
    "share_among_ties",
    "timeless",
]
