"""A report of the arena with numbers that nobody played, of any size."""

import math
import random

from posse.lab.arena.report_data import (
    ArenaProvenance,
    ArenaReport,
    Entrant,
    InstanceRefusal,
    InstanceReport,
    LeaderboardRow,
)
from posse.lab.report.curves import Curve
from posse.lab.report.scoreboard import (
    BETTER,
    REFERENCE,
    UNDECIDED,
    WORSE,
    PairedDifference,
    Scoreboard,
    ScoreRow,
    Tail,
)
from posse.lab.statistics import Estimate

# name, source, rival, regret over the reference's, numbers sent a round
ALGORITHMS = [
    ("dec-TS", "paper", "dec-TS", 1.0, 34.0),
    ("dec-Bayes-UCB", "paper", "dec-Bayes-UCB", 0.88, 34.0),
    ("RandUCB", "ours", "RandUCB", 0.83, 34.0),
    ("Tree-TS", "ours", "Tree-TS", 0.96, 9.5),
    ("Tree-RandUCB", "ours", "Tree-RandUCB", 0.8, 9.7),
    ("coop-UCB", "code", "coop-UCB", 2.6, 34.0),
    ("coop-UCB2", "code", "coop-UCB2", 1.9, 34.0),
    ("coop-UCL", "code", "coop-UCL", 1.7, 34.0),
    ("DDUCB", "code", "DDUCB", 30.0, 34.0),
    ("DPE2", "code", "DPE2", 12.0, 0.01),
    ("GosInE", "code", "GosInE", 40.0, 0.012),
    ("GosInE (KL)", "code", "GosInE", 25.0, 0.012),
    ("Dist-UCB", "code", "Dist-UCB", 34.0, 34.0),
    ("Dist-UCB (KL)", "code", "Dist-UCB", 22.0, 34.0),
    ("UCB-Network", "code", "UCB-Network", 24.0, 2.0),
    ("UCB-Network (KL)", "code", "UCB-Network", 14.0, 2.0),
    ("MP-UCB, 3 hops", "code", "MP-UCB, 3 hops", 5.0, 12.0),
    ("flooding UCB", "code", "flooding UCB", 2.2, 70.0),
    ("flooding UCB (KL)", "code", "flooding UCB", 1.4, 70.0),
    ("Follow Your Leader", "abstract", "Follow Your Leader", 11.0, 2.0),
    ("Follow Your Leader (KL)", "abstract", "Follow Your Leader", 9.0, 2.0),
    ("ComEx", "memory", "ComEx", 20.0, 0.5),
    ("ComEx (KL)", "memory", "ComEx", 12.5, 0.5),
    ("Coop-SE", "memory", "Coop-SE", 9.0, 70.0),
    ("Coop-SE (Gaussian)", "memory", "Coop-SE", 5.1, 70.0),
    ("isolated TS", "baseline", "isolated TS", 18.0, 0.0),
    ("flooding TS", "baseline", "flooding TS", 0.98, 70.0),
    ("centralized TS", "bound", "centralized TS", 0.94, None),
    ("centralized Bayes-UCB", "bound", "centralized Bayes-UCB", 0.9, None),
    ("MyAlgorithm", "yours", "MyAlgorithm", 1.3, 5.0),
]
NETWORKS = ["cycle 100", "grid 10x10", "complete 64", "star 36", "path 64", "Watts-Strogatz 300"]
WHY = "It needs a fixed graph, and here one random pair talks in a round"


def report(n_instances=24, algorithms=ALGORITHMS, runs=200, seed=1, mode="full"):
    """So many instances, the algorithms one by one; the same seed gives the same numbers."""
    draw = random.Random(seed)
    entrants = [
        Entrant(name, source, rival, ranked=source != "bound")
        for name, source, rival, *_ in algorithms
    ]
    instances = [_instance(i + 1, algorithms, runs, draw) for i in range(n_instances)]
    return ArenaReport(
        title="Posse arena",
        made=ArenaProvenance(
            mode, runs, 7, 3725.0, {"posse": "0.2", "numpy": "2.3"}, "x86_64, 2 threads"
        ),
        reference="dec-TS",
        entrants=entrants,
        standings=_standings(entrants, instances),
        instances=instances,
        notes=("Equal ranks are undecided.",),
    )


def _instance(number, algorithms, runs, draw):
    level = draw.uniform(3, 60)
    scores, refusals = [], []
    reference = None
    for name, source, rival, ratio, sent in algorithms:
        if number % 12 == 9 and rival in ("Dist-UCB", "Tree-TS", "Tree-RandUCB"):
            refusals.append(InstanceRefusal(name, WHY))
            continue
        mean = level * (1.0 if name == "dec-TS" else ratio * math.exp(draw.gauss(0, 0.25)))
        reference = mean if name == "dec-TS" else reference
        scores.append(_score(name, source, mean, sent, reference, runs, draw))
    scores = _fronted(sorted(scores, key=lambda score: score.regret.mean))
    return InstanceReport(
        number=number,
        name=NETWORKS[number % len(NETWORKS)],
        why="small gaps and a hub: heavy tails, lock-in",
        arms="Gaussian, .5 and 16 x .1",
        network=NETWORKS[number % len(NETWORKS)],
        n_agents=36,
        n_arms=17,
        horizon=2000 if number % 2 else 500,
        full_horizon=2000,
        runs=runs,
        lower_bound=None if number % 5 == 0 else 0.3 * level,
        mixed=number % 2 == 0,
        scoreboard=Scoreboard("dec-TS", scores),
        curves=[_curve(score) for score in scores],
        refusals=refusals,
    )


def _score(name, source, mean, sent, reference, runs, draw):
    error = 0.3 * mean / math.sqrt(runs) if runs > 1 else math.nan
    gap = None if name == "dec-TS" or reference is None else mean - reference
    difference, verdict = None, REFERENCE
    if gap is not None:
        ends = Estimate(gap, error, gap - 1.5 * error, gap + 1.5 * error)
        known = runs > 1
        p, adjusted_p = (0.001, 0.02) if known else (None, None)
        difference = PairedDifference(name, "dec-TS", ends, p, adjusted_p)
        far = known and abs(gap) >= 3 * error
        verdict = (BETTER if gap < 0 else WORSE) if far else UNDECIDED
    return ScoreRow(
        algorithm=name,
        engine="compiled" if source != "yours" else "reference",
        runs=runs,
        regret=Estimate(mean, error, mean - 2 * error, mean + 2 * error),
        difference=difference,
        verdict=verdict,
        ratio=None if reference is None else mean / reference,
        rank=None if source == "bound" else 1,
        shared_rank=None if source == "bound" else 1.0,
        on_front=False,
        best_arm_share=None,
        tail=Tail(
            lowest_run=mean * 0.5,
            median_run=mean,
            percentile_95=mean * 1.6 if runs >= 20 else None,
            percentile_99=mean * 2.4 if runs >= 200 else None,
            worst_run=mean * 3,
            worst_run_number=0,
            wrong_leader=min(1.0, draw.random() * 0.1),
        ),
        worst_agent=mean * 1.8,
        numbers_sent=None if sent is None else Estimate(sent, 0.0, sent, sent),
        sent_per_round=sent,
    )


def _curve(score):
    return Curve(score.algorithm, [1, 10], [0.0, score.regret.mean], [None, None], [None, None])


def _fronted(scores):
    from dataclasses import replace

    def beaten(score):
        if score.sent_per_round is None or score.rank is None:
            return True
        return any(
            other.regret.mean < score.regret.mean and other.sent_per_round <= score.sent_per_round
            for other in scores
            if other.sent_per_round is not None
        )

    return [replace(score, rank=score.rank and i + 1, on_front=not beaten(score))
            for i, score in enumerate(scores)]  # fmt: skip


def _standings(entrants, instances):
    found = {}
    for entrant in entrants:
        scores = [
            (instance.number, score)
            for instance in instances
            for score in instance.scoreboard.rows
            if score.algorithm == entrant.name
        ]
        ratios = [score.ratio for _, score in scores if score.ratio is not None]
        if not scores:
            continue
        ratio = math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else None
        kept = found.get(entrant.rival)
        if kept is not None and kept.ratio is not None and ratio is not None and kept.ratio < ratio:
            continue
        verdicts = [score.verdict for _, score in scores]
        worst = max(((score.ratio or 0.0, number) for number, score in scores), default=None)
        found[entrant.rival] = LeaderboardRow(
            algorithm=entrant.rival,
            source=entrant.source,
            rank=1 if entrant.ranked else None,
            instances=len(scores),
            ratio=ratio,
            ratio_low=None if ratio is None else ratio * 0.97,
            ratio_high=None if ratio is None else ratio * 1.03,
            mean_rank=4.5 if entrant.ranked else None,
            firsts=3,
            better=verdicts.count(BETTER),
            worse=verdicts.count(WORSE),
            undecided=verdicts.count(UNDECIDED),
            numbers_sent=scores[0][1].sent_per_round,
            on_front=False,
            worst_ratio=worst[0] if ratio is not None else None,
            worst_instance=worst[1] if ratio is not None else None,
        )
    return _ordered(list(found.values()))


def _ordered(standings):
    from dataclasses import replace

    standings.sort(key=lambda each: (each.rank is None, each.ratio or 0.0))

    def beaten(each):
        if each.rank is None or each.numbers_sent is None or each.ratio is None:
            return True
        return any(
            other.ratio < each.ratio and other.numbers_sent <= each.numbers_sent
            for other in standings
            if other.ratio is not None and other.numbers_sent is not None
        )

    return [replace(each, rank=each.rank and i + 1, on_front=not beaten(each))
            for i, each in enumerate(standings)]  # fmt: skip
