"""PettingZoo, both ways: a bandit on its network as an environment, and policies as algorithms.

An observation is the same for learners of an environment and for policies in the lab, a dict of

    round    (1,) rounds played so far
    arm      the arm that the agent played in the last round, K before the first
    reward   (1,) its reward, 0 before the first
    heard    (S,) 1 for each neighbour whom the agent heard in the last round, 0 where the link was
             down under W(t) and in slots without a neighbour
    arms     (S,) the arms that those played, K where nobody was heard
    rewards  (S,) their rewards, 0 where nobody was heard

All agents have S slots, as many as the best linked one has neighbours, so that one network of
weights may serve all of them; an agent's neighbours are in their order, always in the same slots.
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
    """A bandit on its network as a PettingZoo `ParallelEnv`; needs the extra posse[pettingzoo].

    Agents are agent_0, agent_1, ...; each plays one of K arms a step and is paid what the bandit's
    family draws. Infos have the gap of the arm played and the agent's regret so far, which is
    pseudo-regret. All agents are truncated at the horizon. Means may drift and differ by site,
    links may fail or gossip; rewards that come late are refused.

    horizon: the rounds of an episode.
    slots:   how many neighbours an observation has room for; None for as many as there are. Needed
             where the network is a fresh graph in every run.

    `env.reset(seed=7)` begins run 0 of seed 7, as `posse.simulate(..., seed=7, engine="reference")`
    has it: the same means, order of arms, graph and W(t), and for the same arms the same rewards.
    `env.reset()` goes on to the next run, `env.reset(seed=7, options={"run": 5})` begins run 5.
    Arms are in another order in every run (`env.arm_order`), so nothing can be learned by position;
    `env.means` has the true means, `env.generator` the stream that policies have in the lab.
    """
    try:
        from posse.interop.environment import BanditEnv
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("posse"):
            raise
        raise ModuleNotFoundError(
            f"parallel_env needs {error.name}: install Posse with the extra pettingzoo, "
            'as by pip install ".[pettingzoo]" in a clone',
            name=error.name,
        ) from None
    return BanditEnv(bandit, network, horizon, slots)
