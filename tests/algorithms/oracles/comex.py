"""ComEx as a plain script: nobody speaks of an arm that looks best to itself."""

from tests.algorithms.oracles.plain import bounds, pick


def play(links, n_arms, reward, uniform, *, xi=1.01, kl=False, sigma=None, scale=1.0):
    """The arms of every round, and the numbers sent in it; arguments as of UCB-Network."""
    n_agents, played, sent = len(links[0]), [], []
    heard = [[] for _ in range(n_agents)]  # (arm, reward)
    for t, heard_by in enumerate(links):
        arms, tells = [], []
        for i in range(n_agents):
            if t < n_arms:
                arms.append(t)
            else:
                index = bounds(heard[i], n_arms, t + 1, kl, sigma, scale**2 * 2 * (xi + 1))
                arms.append(pick(index, uniform(t, i)))
            means = {}
            for k in range(n_arms):
                rewards = [each for arm, each in heard[i] if arm == k]
                if rewards:
                    means[k] = sum(rewards) / len(rewards)
            its = means.get(arms[i])
            tells.append(its is None or any(mean > its for mean in means.values()))
        got = [(arm, reward(t, i, arm)) for i, arm in enumerate(arms)]
        numbers = 0
        for i in range(n_agents):
            heard[i].append(got[i])
            for j in heard_by[i]:
                if tells[j]:
                    heard[i].append(got[j])
                    numbers += 2
        played.append(arms)
        sent.append(numbers)
    return played, sent
