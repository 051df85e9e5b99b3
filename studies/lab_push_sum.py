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
        "| | mean | against dec-TS, paired, 95% | p99 | against dec-TS, 95% | max | wrong arm |",
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
        n_agents = instance.network.n_agents
        horizon = min(instance.horizon, 400 if n_agents >= 300 else 1000)
        # the mean over many agents varies little, and takes long
        n_runs = runs if n_agents <= 40 else runs // 5
        played = posse.compare(
            instance.bandit, instance.network, {"dec": DEC, "push": PUSH},
            horizon=horizon, runs=n_runs, seed=1313, record=2,
        )  # fmt: skip
        usual, pushed = final_regret(played["dec"]), final_regret(played["push"])
        quotient, half = ratio(pushed, usual)
        if quotient - half > 1.03:
            complaints.append(f"instance {instance.number}: {quotient:.3f} +- {half:.3f}")
        lines.append(
            f"| {instance.number} {instance.name} | {n_agents} | {horizon} "
            f"| {n_runs} | {usual.mean():.2f} | {pushed.mean():.2f} | {quotient:.3f} ± {half:.3f} |"
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


def few_agents_table(runs):
    """Instance 23 once more, by so many other runs that a difference of 3% would show."""
    lines = [
        "| T | runs | dec-TS | PushSum TS | times dec-TS, 95% | wrong arm |",
        "|---|---|---|---|---|---|",
    ]
    (instance,) = (each for each in load_suite().instances if each.number == 23)
    algorithms = {"dec-TS": DEC, "PushSum TS": PUSH}
    for horizon, n_runs in ((1000, 20 * runs), (3000, 10 * runs)):
        comparison = posse.compare(
            instance.bandit, instance.network, algorithms,
            horizon=horizon, runs=n_runs, seed=20261118, record=2,
        )  # fmt: skip
        dec, push = (final_regret(result) for result in comparison.values())
        quotient, margin = ratio(push, dec)
        wrong = [f"{wrong_share(x, instance.bandit.means):.2%}" for x in comparison.values()]
        lines.append(
            f"| {horizon} | {n_runs} | {dec.mean():.3f} | {push.mean():.3f} "
            f"| {quotient:.3f} ± {margin:.3f} | {wrong[0]} and {wrong[1]} |"
        )
    return "\n".join(lines)


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


def play_plainly(shares, means, horizon, runs, momentum=0.0, n_signs=0):
    """A plain simulator of Gaussian PushSum TS with two variants: the regret of every run.

    momentum: b of x' = (1 + b) P x - b x_previous; evidence of a negative count is taken as none.
    n_signs: if above 0, beliefs are as sure as their effective sample size (sum w)^2 / sum w^2 over
    the weights w of observations; sums of random signs estimate sum w^2.
    """
    generator = np.random.default_rng(1313)
    n_agents, n_arms = len(shares), len(means)
    evidence = np.zeros((2 + n_signs, runs, n_agents, n_arms))  # count, total, sums of signs
    previous = evidence.copy()
    mass = previous_mass = np.ones((n_agents, 1))
    regret = np.zeros(runs)
    run, agent = np.arange(runs)[:, None], np.arange(n_agents)[None]
    for _ in range(horizon):
        weighed = n_agents * evidence / mass
        count = np.maximum(weighed[0], 0.0)
        mean = np.where(count > 0, weighed[1] / np.where(count > 0, count, 1.0), 0.0)
        if n_signs:
            squares = (weighed[2:] ** 2).mean(axis=0)
            count = np.where(squares > 0, count**2 / np.where(squares > 0, squares, 1.0), 0.0)
        noise = generator.standard_normal(count.shape) / np.sqrt(1 + count)
        arms = (mean * count / (1 + count) + noise).argmax(axis=2)
        rewards = means[arms] + generator.standard_normal(arms.shape)
        regret += (means.max() - means)[arms].mean(axis=1)
        signs = generator.choice([-1.0, 1.0], (n_signs, *arms.shape))
        observed = np.stack([np.ones(arms.shape), rewards, *signs])
        evidence[:, run, agent, arms] += observed
        previous[:, run, agent, arms] += observed
        pushed = (1 + momentum) * (shares @ evidence) - momentum * previous
        pushed_mass = (1 + momentum) * (shares @ mass) - momentum * previous_mass
        previous, evidence = evidence, pushed
        previous_mass, mass = mass, pushed_mass
        if mass.min() <= 0:
            return None
    return regret


def describe_regret(regret):
    """Mean, error and p99, or that masses became negative."""
    if regret is None:
        return "masses below 0"
    error = regret.std(ddof=1) / len(regret) ** 0.5
    return f"{regret.mean():.2f} ± {error:.2f}, {np.quantile(regret, 0.99):.1f}"


def variants_table(runs):
    """Momentum, and beliefs tempered to their effective sample size."""
    means = np.array([0.5] + [0.1] * 16)
    graphs = {
        "star of 36": networks.star(36),
        "preferential attachment, m = 1, 48": networks.barabasi_albert(48, 1, seed=1),
        "path of 64": networks.path(64),
        "cycle of 100": networks.cycle(100),
        "grid of 8 x 8": networks.grid(8, 8),
        "directed random graph of 50": networks.random_directed(50, 3, seed=1),
        "directed random graph of 40": networks.random_directed(40, 3, seed=1),
    }
    lines = [
        "| mean, p99 | PushSum TS | momentum .15 | momentum .3 | effective sample size |",
        "|---|---|---|---|---|",
    ]
    for name, network in graphs.items():
        shares = network.shares
        shares = shares if isinstance(shares, np.ndarray) else shares.toarray()
        cells = [
            describe_regret(play_plainly(shares, means, 500, runs, momentum))
            for momentum in (0.0, 0.15, 0.3)
        ]
        cells.append(describe_regret(play_plainly(shares, means, 500, max(2, runs // 4), 0.0, 16)))
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return f"T = 500, {runs} runs ({runs // 4} in the last column):\n\n" + "\n".join(lines)


def rates_table(runs):
    """Learning rates above N."""
    lines = ["| | rate | mean | p99 | wrong arm |", "|---|---|---|---|---|"]
    for file in ("tail-04-star", "tail-08-small-gaps-star"):
        experiment = posse.read_experiment(FOLDER / f"{file}.toml")
        n_agents = experiment.network.n_agents
        for factor in (1, 2):
            result = posse.simulate(
                experiment.bandit, experiment.network,
                posse.PushSum(TS, learning_rate=float(factor * n_agents)),
                horizon=experiment.horizon, runs=runs, seed=experiment.seed, record=2,
            )  # fmt: skip
            final = final_regret(result)
            error = final.std(ddof=1) / len(final) ** 0.5
            wrong = wrong_share(result, experiment.bandit.means)
            lines.append(
                f"| {experiment.title} | {factor} N | {final.mean():.2f} ± {error:.2f} "
                f"| {np.quantile(final, 0.99):.1f} | {wrong:.1%} |"
            )
    return f"{runs} runs:\n\n" + "\n".join(lines)


def study(runs=2000):
    """The tables of docs/push-sum.md."""
    parts = []
    for prefix, table in (("price", price_table), ("tail", tail_table)):
        for path in sorted(FOLDER.glob(f"{prefix}-*.toml")):
            start = time.process_time()
            parts.append(table(path, runs))
            print(f"{path.stem}: {time.process_time() - start:.0f} s of CPU", file=sys.stderr)
    ranked, complaints = arena_table(runs)
    parts.append(f"**The arena's instances**, in the rounds of its quick form\n\n{ranked}")
    parts.append(f"**Few agents: instance 23, other runs**\n\n{few_agents_table(runs)}")
    parts.append(f"**A link that is lost for good**\n\n{lost_link_table(max(2, runs // 10))}")
    parts.append(f"**Variants that did not work**\n\n{variants_table(max(4, runs // 10))}")
    parts.append(f"**Learning rates above N**\n\n{rates_table(max(2, runs // 5))}")
    return "\n\n".join(parts), complaints
