"""PushSum: the price of hubs, tails, the arena, what a lost link costs, and what did not work.

Files of experiments/push-sum are the tables of the first two kinds; their parts are kept in
results/beyond, so that a study that was interrupted goes on. The variants that did not work are
not in the library: a plain simulator here plays them.
"""

from __future__ import annotations

import dataclasses
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from lab_beyond import load_or_play, wrong_share

import posse
from posse import networks
from posse.lab.arena.suite import load_suite
from posse.networks.spanning import spanning_tree

FOLDER = Path(__file__).parent.parent / "experiments" / "push-sum"
TS = posse.ThompsonSampling()
DEC = posse.Decentralized(TS)
PUSH = posse.PushSum(TS)


def ratio(values, others):
    """The quotient of two means over the same runs, and half its 95% interval."""
    quotient = values.mean() / others.mean()
    error = (values - quotient * others).std(ddof=1) / others.mean() / len(values) ** 0.5
    return quotient, 1.96 * error


def final_regret(result):
    """The regret of every run at the end."""
    return np.asarray(result.regret[:, -1])


def extra_rows(experiment, runs):
    """dec-TS with Metropolis weights, and PushSum with the links of Tree only."""
    network = experiment.network
    if network.is_directed:
        return {}
    arguments = {"horizon": experiment.horizon, "runs": runs, "seed": experiment.seed, "record": 2}
    rows = {
        "dec-TS, Metropolis weights": posse.simulate(
            experiment.bandit, network.weighted("metropolis"), DEC, **arguments
        )
    }
    links = spanning_tree(network)
    if len(links) < len(network.edges):
        tree = dataclasses.replace(networks.from_edges(links), dynamics=network.dynamics)
        rows["PushSum TS, links of Tree"] = posse.simulate(
            experiment.bandit, tree, PUSH, **arguments
        )
    return rows


def price_table(path, runs):
    """Regret against that of a centralized agent."""
    experiment = posse.read_experiment(path)
    results = dict(load_or_play(path, runs).items()) | extra_rows(experiment, runs)
    central = final_regret(results["centralized TS"])
    lines = [
        f"**{experiment.title}**, T = {experiment.horizon}, {runs} runs "
        f"(`experiments/push-sum/{path.name}`)",
        "",
        "| | mean | times centralized, 95% | p99 |",
        "|---|---|---|---|",
    ]
    for name, result in results.items():
        final = final_regret(result)
        error = final.std(ddof=1) / len(final) ** 0.5
        quotient, half = ratio(final, central)
        against = "-" if name == "centralized TS" else f"{quotient:.3f} ± {half:.3f}"
        lines.append(
            f"| {name} | {final.mean():.2f} ± {error:.2f} | {against} "
            f"| {np.quantile(final, 0.99):.1f} |"
        )
    return "\n".join(lines)


def tail_interval(values, others, level=0.99, draws=2000):
    """The 95% interval of the difference of two quantiles, by a bootstrap over runs."""
    generator = np.random.default_rng(0)
    drawn = generator.integers(0, len(values), (draws, len(values)))
    apart = np.quantile(values[drawn], level, axis=1) - np.quantile(others[drawn], level, axis=1)
    return np.quantile(apart, [0.025, 0.975])


def tail_table(path, runs):
    """Mean and tail against dec-TS, paired."""
    experiment = posse.read_experiment(path)
    results = load_or_play(path, runs)
    usual = final_regret(results["dec-TS"])
    lines = [
        f"**{experiment.title}**, T = {experiment.horizon}, {runs} runs "
        f"(`experiments/push-sum/{path.name}`)",
        "",
        "| | mean | against dec-TS, paired, 95% | p99 | p99 against dec-TS, 95% | max | wrong arm |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, result in results.items():
        final = final_regret(result)
        error = final.std(ddof=1) / len(final) ** 0.5
        difference = tail = "-"
        if name != "dec-TS":
            apart = posse.paired_difference(result, results["dec-TS"])
            difference = f"{apart.mean:+.2f} ({apart.low:+.2f} to {apart.high:+.2f})"
            low, high = tail_interval(final, usual)
            tail = f"{low:+.1f} to {high:+.1f}"
        lines.append(
            f"| {name} | {final.mean():.2f} ± {error:.2f} | {difference} "
            f"| {np.quantile(final, 0.99):.1f} | {tail} | {final.max():.0f} "
            f"| {wrong_share(result, experiment.bandit.means):.1%} |"
        )
    return "\n".join(lines)


def is_regular(network):
    """Whether all agents have equally many neighbours: there PushSum is dec-TS."""
    return len(np.unique(network.degrees)) == 1


def arena_table(runs):
    """PushSum TS against dec-TS on the arena's instances, in the rounds of its quick form."""
    lines = [
        "| instance | agents | T | runs | dec-TS | PushSum TS | times dec-TS, 95% |",
        "|---|---|---|---|---|---|---|",
    ]
    complaints = []
    same = []
    for instance in load_suite().instances:
        if is_regular(instance.network):
            same.append(f"{instance.number} {instance.name}")
            continue
        horizon = min(instance.horizon, 400 if instance.network.n_agents >= 300 else 1000)
        played = posse.compare(
            instance.bandit, instance.network, {"dec": DEC, "push": PUSH},
            horizon=horizon, runs=runs, seed=1313, record=2,
        )  # fmt: skip
        usual, pushed = final_regret(played["dec"]), final_regret(played["push"])
        quotient, half = ratio(pushed, usual)
        if quotient - half > 1.03:
            complaints.append(f"instance {instance.number}: {quotient:.3f} +- {half:.3f}")
        lines.append(
            f"| {instance.number} {instance.name} | {instance.network.n_agents} | {horizon} "
            f"| {runs} | {usual.mean():.2f} | {pushed.mean():.2f} | {quotient:.3f} ± {half:.3f} |"
        )
    lines += ["", f"All agents have equally many neighbours, and PushSum is dec-TS, in {len(same)}"]
    lines[-1] += f" instances: {', '.join(same)}."
    return "\n".join(lines), complaints


@dataclass(frozen=True)
class LostLink:
    """Dynamics: from a round on, one link never works again."""

    link: int
    from_round: int

    def sampler(self, network, n_runs):
        """Return W(t), with the weight of the lost link on the diagonal."""
        whole = np.array(network.weights if isinstance(network.weights, np.ndarray)
                         else network.weights.toarray())  # fmt: skip
        i, j = network.edges[self.link]
        cut = whole.copy()
        cut[[i, j], [i, j]] += whole[i, j]
        cut[i, j] = cut[j, i] = 0.0
        return lambda randomness, t: whole if t < self.from_round else cut


def lost_link_table(runs):
    """A link of the tree is lost for good; the graph remains connected."""
    bandit = posse.Bandit.gaussian([0.5] + [0.1] * 16)
    network = networks.barabasi_albert(60, 2, seed=2)
    links = spanning_tree(network)
    # the link of the tree whose loss cuts off most agents, and leaves the graph connected
    sizes = []
    for lost in links:
        rest = links[(links != lost).any(axis=1)]
        reached = {int(lost[0])}
        for _ in range(network.n_agents):
            reached |= {int(b) for a, b in [*rest, *rest[:, ::-1]] if int(a) in reached}
        sizes.append(min(len(reached), network.n_agents - len(reached)))
    lost = links[int(np.argmax(sizes))]
    number = int(np.flatnonzero((network.edges == lost).all(axis=1))[0])
    broken = network.varying(LostLink(number, 20))
    algorithms = {"dec-TS": DEC, "PushSum TS": PUSH, "Tree TS": posse.Tree(TS)}
    lines = ["| | all links | one link lost from round 20 on |", "|---|---|---|"]
    for name, algorithm in algorithms.items():
        cells = []
        for one in (network, broken):
            final = final_regret(
                posse.simulate(
                    bandit, one, algorithm, horizon=500, runs=runs, seed=1313, record=2,
                    engine="reference",
                )
            )  # fmt: skip
            cells.append(f"{final.mean():.2f} ± {final.std(ddof=1) / runs**0.5:.2f}")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return (
        f"Preferential attachment, m = 2, 60 agents; the lost link cuts {max(sizes)} agents off "
        f"the tree; T = 500, {runs} runs:\n\n" + "\n".join(lines)
    )


def play_plainly(shares, means, horizon, runs, seed, rate=1.0, momentum=0.0, tempered=False):
    """A plain simulator of Gaussian push-sum with its variants: the regret of every run.

    rate: of N. momentum: b of x' = (1 + b) P x - b x_previous; out of the domain evidence counts
    0. tempered: beliefs as sure as their effective sample size, (sum w)^2 / sum w^2.
    """
    generator = np.random.default_rng(seed)
    n_agents, n_arms = len(shares), len(means)
    gaps = means.max() - means
    evidence = np.zeros((2, runs, n_agents, n_arms))
    before = evidence.copy()
    mass = np.ones((n_agents, 1))
    mass_before = mass.copy()
    # squares of the weights of all observations: sum over origins of (P^s)_ij^2, by recursion
    spread = np.zeros((runs, n_agents, n_agents, n_arms)) if tempered else None
    squares = np.zeros((runs, n_agents, n_arms))
    regret = np.zeros(runs)
    run, agent = np.arange(runs)[:, None], np.arange(n_agents)[None]
    for _ in range(horizon):
        count = np.maximum(evidence[0] * (rate * n_agents) / mass, 0.0)
        total = np.where(count > 0, evidence[1] * (rate * n_agents) / mass, 0.0)
        if tempered:
            weight = evidence[0] / mass
            effective = np.where(squares > 0, weight**2 / np.maximum(squares, 1e-300), 0.0)
            factor = np.where(count > 0, effective / np.maximum(count, 1e-300), 1.0)
            count, total = count * factor, total * factor
        score = total / (1 + count) + generator.standard_normal(count.shape) / np.sqrt(1 + count)
        arms = score.argmax(axis=2)
        rewards = means[arms] + generator.standard_normal(arms.shape)
        regret += gaps[arms].mean(axis=1)
        for array in (evidence, before) if momentum else (evidence,):
            array[0, run, agent, arms] += 1
            array[1, run, agent, arms] += rewards
        if momentum:
            new = (1 + momentum) * (shares @ evidence) - momentum * before
            before, evidence = evidence, new
            new_mass = (1 + momentum) * (shares @ mass) - momentum * mass_before
            mass_before, mass = mass, new_mass
            if mass.min() <= 0:
                return np.full(runs, np.nan)
        else:
            evidence = shares @ evidence
            mass = shares @ mass
        if tempered:
            raise NotImplementedError
    return regret


def study(runs=2000):
    """The tables of PushSum in docs/beyond-the-paper.md."""
    parts = []
    for prefix, table in (("price", price_table), ("tail", tail_table)):
        for path in sorted(FOLDER.glob(f"{prefix}-*.toml")):
            start = time.process_time()
            parts.append(table(path, runs))
            print(f"{path.stem}: {time.process_time() - start:.0f} s of CPU", file=sys.stderr)
    ranked, complaints = arena_table(runs)
    parts.append(f"**The arena's instances**, in the rounds of its quick form\n\n{ranked}")
    parts.append(f"**A link that is lost for good**\n\n{lost_link_table(max(2, runs // 10))}")
    return "\n\n".join(parts), complaints
