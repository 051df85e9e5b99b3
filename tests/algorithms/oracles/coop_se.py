"""Coop-SE as a plain script: observations and arms given up are handed from agent to agent."""

from math import inf, log, sqrt

from tests.algorithms.oracles.plain import pick


def play(links, n_arms, reward, uniform, *, horizon, c=None, scale=1.0):
    """The arms of every round; c: the narrower width if given, the rest as of UCB-Network."""
    n_agents, played = len(links[0]), []
    known = [{} for _ in range(n_agents)]  # (who, when) -> (arm, reward)
    gone = [set() for _ in range(n_agents)]
    factor = 2 * log(3 * n_agents * horizon * n_arms) if c is None else c * log(horizon)
    for t, heard_by in enumerate(links):
        arms = []
        for i in range(n_agents):
            notes = list(known[i].values())
            counts = [sum(1 for arm, _ in notes if arm == k) for k in range(n_arms)]
            scores = [-inf if k in gone[i] else -counts[k] for k in range(n_arms)]
            arms.append(pick(scores, uniform(t, i)))
        for i, arm in enumerate(arms):
            known[i][i, t] = (arm, reward(t, i, arm))
        before, given_up = [dict(notes) for notes in known], [set(each) for each in gone]
        for i in range(n_agents):
            together = set(gone[i])
            for j in heard_by[i]:
                known[i].update(before[j])
                together |= given_up[j]
            if len(together) < n_arms:
                gone[i] = together
            low, high = {}, {}
            for k in set(range(n_arms)) - gone[i]:
                rewards = [each for arm, each in known[i].values() if arm == k]
                if rewards:
                    mean, n = sum(rewards) / len(rewards), len(rewards)
                    width = 2 * scale * sqrt(factor / n)
                    low[k], high[k] = mean - width, mean + width
            gone[i] |= {k for k in high if high[k] < max(low.values())}
        played.append(arms)
    return played
