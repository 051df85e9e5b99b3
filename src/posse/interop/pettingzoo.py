"""PettingZoo adapters: a bandit on its network as an environment, and policies as algorithms.

Learners in an environment and policies in the lab get the same observations, a dict of

    round    (1,) rounds played so far
    arm      the arm that the agent played in the last round, K before the first
    reward   (1,) its reward, 0 before the first
    heard    (S,) 1 for each neighbour whose message arrived in the last round, 0 where the link
             was down under W(t) and in slots without a neighbour
    arms     (S,) the arms of those neighbours, K where heard is 0
    rewards  (S,) their rewards, 0 where heard is 0

All agents have S slots, the largest degree of the graph, so that one neural network can serve all
of them; the neighbours of an agent are sorted and always in the same slots.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from posse.bandits import Bandit
from posse.interop.policy_adapter import FixedPolicy, LearningPolicy
from posse.networks import Network

if TYPE_CHECKING:
    from posse.interop.environment import BanditEnv

__all__ = ["FixedPolicy", "LearningPolicy", "parallel_env"]


def parallel_env(
    bandit: Bandit, network: Network, *, horizon: int, slots: int | None = None
) -> BanditEnv:
    """Create a PettingZoo `ParallelEnv` of a bandit on its network; needs posse[pettingzoo].

    Agents are agent_0, agent_1, ...; each plays one of K arms per step and gets a reward from the
    bandit's family. Infos have the gap of the arm played and the agent's cumulative pseudo-regret.
    All agents are truncated at the horizon. Means may drift and differ by site, links may fail or
    gossip; delayed rewards are refused.

    horizon: the rounds of an episode.
    slots:   the neighbour slots of an observation; None: the largest degree. Required if the
             network is a fresh graph in every run.

    `env.reset(seed=7)` begins run 0 of seed 7, as `posse.simulate(..., seed=7, engine="reference")`
    does: the same means, order of arms, graph and W(t), and for the same arms the same rewards.
    `env.reset()` continues with the next run, `env.reset(seed=7, options={"run": 5})` begins run 5.
    Every run permutes the arms (`env.arm_order`), so nothing can be learned by position;
    `env.means` has the true means, `env.generator` the random stream of policies in the lab.
    """
    try:
        from posse.interop.environment import BanditEnv
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("posse"):
            raise
        raise ModuleNotFoundError(
            f"parallel_env needs {error.name}: install Posse with the extra pettingzoo, "
            'for example pip install ".[pettingzoo]" in a clone',
            name=error.name,
        ) from None
    return BanditEnv(bandit, network, horizon, slots)
