"""What the paper says of its figures, sentence by sentence, put to the test."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from posse.lab.paper.runs import Outcome
from posse.lab.statistics import Interval, growth, paired_difference

HOLDS, FAILS, ONLY_PUBLISHED = "holds", "does not hold", "holds only as published"
UNTESTED = "not tested"


@dataclass(frozen=True)
class Finding:
    """Whether a claim holds, and the numbers that show it."""

    holds: bool
    detail: str


@dataclass(frozen=True)
class Claim:
    """One sentence of the paper and how to test it on its panels."""

    figure: str
    panels: tuple[str, ...]
    text: str
    test: Callable[..., Finding]  # of the outcomes of its panels, in order


def unsettled(stated: Mapping[str, Outcome]) -> set[str]:
    """The panels that should be looked at as published, because a claim fails as stated."""
    return {
        id_
        for claim in CLAIMS
        if all(i in stated for i in claim.panels)
        and not claim.test(*(stated[i] for i in claim.panels)).holds
        for id_ in claim.panels
    }


def verdicts(
    stated: Mapping[str, Outcome], published: Mapping[str, Outcome]
) -> list[dict[str, Any]]:
    """Every claim with its verdict: on the panels as stated, else as published."""
    rows = []
    for claim in CLAIMS:
        row = {"figure": claim.figure, "claim": claim.text, "verdict": UNTESTED}
        detail = f"needs {' and '.join(claim.panels)}"
        if all(id_ in stated for id_ in claim.panels):
            finding = claim.test(*(stated[id_] for id_ in claim.panels))
            row["verdict"], detail = (HOLDS if finding.holds else FAILS), finding.detail
            varies = any(stated[i].panel.as_published for i in claim.panels)
            known = all(i in published for i in claim.panels)
            if not finding.holds and varies and known:
                again = claim.test(*(published[i] for i in claim.panels))
                row["verdict"] = ONLY_PUBLISHED if again.holds else FAILS
                detail = f"as stated: {detail}; as published: {again.detail}"
        rows.append(row | {"detail": detail})
    return rows


def _less(outcome: Outcome, first: str, second: str) -> tuple[bool, Interval[float]]:
    """Whether the first curve ends significantly (95%, paired) below the second."""
    difference = paired_difference(outcome.results[first], outcome.results[second])
    return difference.high < 0, difference


def _final(outcome: Outcome, name: str) -> float:
    return outcome.results[name].summary().mean


def _starting(outcome: Outcome, *words: str) -> list[str]:
    return [name for name in outcome.results if name.startswith(words)]


def _below_baselines(*outcomes: Outcome) -> Finding:
    holds, said = True, []
    for outcome in outcomes:
        for ours in _starting(outcome, "dec-"):
            others = _starting(outcome, "DDUCB", "coop-UCB")
            holds = holds and all(_less(outcome, ours, other)[0] for other in others)
            least = min(others, key=lambda name: _final(outcome, name))
            said.append(
                f"{outcome.panel.figure}: {ours} {_final(outcome, ours):.1f}, "
                f"the best other ({least}) {_final(outcome, least):.1f}"
            )
    return Finding(holds, "; ".join(said))


def _still_rising(*outcomes: Outcome) -> Finding:
    holds, said = True, []
    for outcome in outcomes:
        for name in _starting(outcome, "coop-UCB"):
            slope = growth(outcome.results[name], outcome.results[name].horizon // 2).slope
            holds = holds and slope.low > 0
            said.append(f"{outcome.panel.figure} {name}: {slope.mean:.0f}")
    return Finding(holds, f"slope per unit of ln t over the last half: {'; '.join(said)}")


def _worse_than_alone(outcome: Outcome) -> Finding:
    coops, alone = _starting(outcome, "coop-UCB"), "isolated TS"
    holds = all(_less(outcome, alone, name)[0] for name in coops)
    said = "; ".join(f"{name} {_final(outcome, name):.0f}" for name in coops)
    return Finding(holds, f"isolated TS {_final(outcome, alone):.0f}; {said}")


def _tenfold(*outcomes: Outcome) -> Finding:
    ratios = []
    for outcome in outcomes:
        ours = max(_final(outcome, name) for name in _starting(outcome, "dec-"))
        others = min(_final(outcome, n) for n in _starting(outcome, "DDUCB", "coop-UCB"))
        ratios.append((outcome.panel.figure, others / ours))
    said = "; ".join(f"{figure}: {ratio:.1f}x the worse of ours" for figure, ratio in ratios)
    return Finding(all(ratio >= 8 for _, ratio in ratios), f"the best other algorithm is {said}")


def _in_order(outcome: Outcome, names: list[str]) -> Finding:
    """Each curve ends below the next one."""
    holds, said = True, []
    for first, second in pairwise(names):
        less, difference = _less(outcome, first, second)
        holds = holds and less
        said.append(
            f"{first} - {second}: {difference.mean:.2f} "
            f"({difference.low:.2f} to {difference.high:.2f})"
        )
    return Finding(holds, "; ".join(said))


def _falls_with_agents(*outcomes: Outcome) -> Finding:
    found = [_in_order(outcome, list(outcome.results)[::-1]) for outcome in outcomes]
    said = [f"{o.panel.figure}: {f.detail}" for o, f in zip(outcomes, found, strict=True)]
    return Finding(all(finding.holds for finding in found), " | ".join(said))


def _grows_like_a_logarithm(*names: str) -> Callable[[Outcome], Finding]:
    def test(outcome: Outcome) -> Finding:
        fits = {name: growth(outcome.results[name]) for name in names}
        least = outcome.least_slope(names[0])
        said = [
            f"{name}: late slope {fit.late.mean:.2f} ({fit.late.low:.2f} to {fit.late.high:.2f})"
            for name, fit in fits.items()
        ]
        return Finding(
            all(fit.is_logarithmic(least) for fit in fits.values()),
            f"per unit of ln t, where the least possible in the end is {least:.2f}: "
            + "; ".join(said),
        )

    return test


def _higher_than_static(outcome: Outcome) -> Finding:
    pairs = [_in_order(outcome, [name, "gossip"]) for name in _starting(outcome, "static")]
    return Finding(all(pair.holds for pair in pairs), "; ".join(pair.detail for pair in pairs))


def _same_as_static(outcome: Outcome) -> Finding:
    difference = paired_difference(outcome.results["p = 0.3"], outcome.results["p = 0"])
    share = abs(difference.mean) / _final(outcome, "p = 0")
    near = max(abs(difference.low), abs(difference.high)) / _final(outcome, "p = 0") < 0.1
    return Finding(
        near or difference.low <= 0 <= difference.high,
        f"p = 0.3 minus p = 0: {difference.mean:.2f} "
        f"({difference.low:.2f} to {difference.high:.2f}), {share:.1%} of the regret",
    )


def _rises_with_failures(outcome: Outcome) -> Finding:
    return _in_order(outcome, ["p = 0.3", "p = 0.8", "p = 0.9"])


CLAIMS = (
    Claim("1", ("fig1a", "fig1b"), "Decentralized Thompson Sampling outperforms DDUCB and every "
          "execution of coop-UCB.", _below_baselines),
    Claim("1", ("fig1a", "fig1b"), "coop-UCB shows a rising slope with every exploration "
          "parameter.", _still_rising),
    Claim("1b", ("fig1b",), "On a square grid coop-UCB incurs a greater regret than agents with "
          "Thompson Sampling in isolation.", _worse_than_alone),
    Claim("2", ("fig2a", "fig2b"), "Decentralized Bayes-UCB and decentralized Thompson Sampling "
          "outperform all executions of DDUCB and coop-UCB.", _below_baselines),
    Claim("2", ("fig2a", "fig2b"), "They provide an almost 10x reduction of the regret per agent.",
          _tenfold),
    Claim("3", ("fig3",), "Regret falls as connectivity rises: complete, 5-ring, 3-ring.",
          lambda outcome: _in_order(outcome, ["complete", "5-ring", "3-ring"])),
    Claim("3", ("fig3",), "The grid, with the least connectivity, has the largest regret.",
          lambda outcome: _in_order(outcome, ["3-ring", "grid 8 x 8"])),
    Claim("4", ("fig4a", "fig4b"), "Regret per agent falls as the number of agents rises, on "
          "complete graphs and on cycles.", _falls_with_agents),
    Claim("5a", ("fig5a",), "Under gossip, regret is logarithmic.",
          _grows_like_a_logarithm("gossip")),
    Claim("5a", ("fig5a",), "Under gossip, regret is higher than on static networks.",
          _higher_than_static),
    Claim("5b", ("fig5b",), "Under random link failures regret is logarithmic.",
          _grows_like_a_logarithm("p = 0.3", "p = 0.8", "p = 0.9")),
    Claim("5b", ("fig5b",), "Regret rises with the probability of failure.", _rises_with_failures),
    Claim("5b", ("fig5b",), "For a small probability of failure regret is that of the static "
          "complete network.", _same_as_static),
)  # fmt: skip
