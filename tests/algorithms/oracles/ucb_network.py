"""UCB-Network as a plain script: every observation is a note that is handed from agent to agent."""

from math import inf

from tests.algorithms.oracles.plain import bounds, pick


def play(links, n_arms, reward, uniform, *, hops=1, kl=False, sigma=None, scale=1.0):
    """The arms of every round: links[t][i] are those whom agent i hears in round t + 1.

    reward(t, i, arm) and uniform(t, i) for t = 0, 1, ...; hops=None: no limit; sigma as in
    `kl_bound`; scale: the sub-Gaussian constant in the published index.
    """
    n_agents, played = len(links[0]), []
    known = [{} for _ in range(n_agents)]  # (who, when) -> (arm, reward)
    for t, heard_by in enumerate(links):
        arms = []
        for i in range(n_agents):
            if t < n_arms:
                arms.append(t)
                continue
            index = bounds(known[i].values(), n_arms, t + 1, kl, sigma, (2 * scale) ** 2 * 2)
            arms.append(pick(index, uniform(t, i)))
        for i, arm in enumerate(arms):
            known[i][i, t] = (arm, reward(t, i, arm))
        before = [dict(notes) for notes in known]
        for i in range(n_agents):
            for j in heard_by[i]:
                for (who, when), note in before[j].items():
                    if t - when < (inf if hops is None else hops):
                        known[i][who, when] = note
        played.append(arms)
    return played
