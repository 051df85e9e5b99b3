"""Tree as a plain script: observations as notes that are copied along the links of a tree."""

from tests.algorithms.oracles.plain import pick


def play(branches, links, n_arms, reward, uniform, score):
    """The arms of every round t = 1, 2, ...

    branches[i]: the neighbours of i in the tree; links[t - 1]: the set of links (i, j), i < j, in
    use in round t; score(rewards): that of an arm of which these rewards are known.
    """
    known = [{} for _ in branches]  # (who, when) -> (arm, reward)
    played = []
    for t, up in enumerate(links, start=1):
        arms = []
        for i, notes in enumerate(known):
            seen = [[r for arm, r in notes.values() if arm == k] for k in range(n_arms)]
            arms.append(pick([score(rewards) for rewards in seen], uniform(t, i)))
        for i, arm in enumerate(arms):
            known[i][i, t] = (arm, reward(t, i, arm))
        before = [dict(notes) for notes in known]
        for i, others in enumerate(branches):
            for j in others:
                if (min(i, j), max(i, j)) in up:
                    known[i] |= before[j]
        played.append(arms)
    return played
