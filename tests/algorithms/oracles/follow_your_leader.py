"""Follow Your Leader as a plain script."""

from tests.algorithms.oracles.plain import bounds, pick


def leaders_of(neighbours):
    """Whom each agent follows; leaders follow themselves."""
    n_agents = len(neighbours)
    leader = [None] * n_agents
    degree = [len(each) for each in neighbours]
    while None in leader:
        best, merit = None, None
        for i in range(n_agents):
            around = [j for j in [i, *neighbours[i]] if leader[j] is None]
            its = (len(around), degree[i], sum(degree[j] for j in neighbours[i]))
            if merit is None or its > merit:
                best, merit = i, its
        for j in neighbours[best]:
            if leader[j] is None:
                leader[j] = best
        leader[best] = best
    return leader


def play(neighbours, links, n_arms, reward, uniform, *, kl=False, sigma=None, scale=1.0):
    """The arms of every round; neighbours[i]: the fixed graph, the rest as of UCB-Network."""
    n_agents, played = len(neighbours), []
    leader = leaders_of(neighbours)
    heard = [[] for _ in range(n_agents)]  # (arm, reward)
    followed = [None] * n_agents
    for t, heard_by in enumerate(links):
        arms = []
        for i in range(n_agents):
            if leader[i] != i and followed[i] is not None:
                arms.append(followed[i])
                continue
            index = bounds(heard[i], n_arms, t + 1, kl, sigma, (2 * scale) ** 2 * 2)
            arms.append(pick(index, uniform(t, i)))
        got = [(arm, reward(t, i, arm)) for i, arm in enumerate(arms)]
        for i in range(n_agents):
            heard[i] += [got[i], *(got[j] for j in heard_by[i])]
            if leader[i] in heard_by[i]:
                followed[i] = arms[leader[i]]
        played.append(arms)
    return played
