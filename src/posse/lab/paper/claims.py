"""What the paper says of its figures, sentence by sentence, put to the test.

Every verdict is by 95% intervals over runs: a claim holds when the whole interval says so, does not
hold when the whole interval says the opposite, and is undecided at that number of runs otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from posse.lab.paper import analysis as rates
from posse.lab.paper.panels import Outcome
from posse.lab.paper.report_data import ClaimReport
from posse.lab.statistics import Estimate, fit_growth, mean_interval, paired_difference

HOLDS = "holds"
FAILS = "does not hold"
UNDECIDED = "undecided"
BELOW = rates.BELOW  # of claims about rates that these rounds cannot show
ONLY_PUBLISHED = "holds only as published"
UNTESTED = "not tested"

# "Almost 10x" is read as at least so many times.
TENFOLD = 8
# "The same regret" is read as within this share of it.
SAME = 0.1


@dataclass(frozen=True)
class Finding:
    """What the runs say of a claim, HOLDS, FAILS, UNDECIDED or BELOW, and the numbers behind it."""

    verdict: str
    detail: str


@dataclass(frozen=True)
class Claim:
    """One sentence of the paper and how to test it on its panels."""

    figure: str
    panels: tuple[str, ...]
    text: str
    test: Callable[..., Finding]  # of the outcomes of its panels, in order


def failing(stated: Mapping[str, Outcome]) -> set[str]:
    """The panels that should be looked at as published, because a claim fails as stated."""
    return {
        id_
        for claim in CLAIMS
        if all(i in stated for i in claim.panels)
        and claim.test(*(stated[i] for i in claim.panels)).verdict == FAILS
        for id_ in claim.panels
    }


def verdicts(stated: Mapping[str, Outcome], published: Mapping[str, Outcome]) -> list[ClaimReport]:
    """Every claim with its verdict: on the panels as stated, else as published."""
    rows = []
    for claim in CLAIMS:
        verdict = UNTESTED
        detail = f"needs {' and '.join(claim.panels)}"
        if all(id_ in stated for id_ in claim.panels):
            finding = claim.test(*(stated[id_] for id_ in claim.panels))
            verdict = finding.verdict
            detail = finding.detail
            varies = any(stated[i].panel.as_published for i in claim.panels)
            known = all(i in published for i in claim.panels)
            if verdict == FAILS and varies and known:
                again = claim.test(*(published[i] for i in claim.panels))
                verdict = ONLY_PUBLISHED if again.verdict == HOLDS else FAILS
                detail = f"as stated: {detail}; as published: {again.detail}"
            if verdict == UNDECIDED:
                verdict = f"{UNDECIDED} at {min(stated[i].runs for i in claim.panels):,} runs"
        rows.append(ClaimReport(claim.figure, claim.text, verdict, detail))
    return rows


def _all(verdicts: Iterable[str]) -> str:
    """The verdict on several statements together: as good as the worst of them."""
    found = set(verdicts)
    return next((worst for worst in (FAILS, UNDECIDED, BELOW) if worst in found), HOLDS)


def _is_negative(interval: Estimate[float]) -> str:
    """Whether a number is below zero, as far as its interval tells."""
    return HOLDS if interval.high < 0 else FAILS if interval.low > 0 else UNDECIDED


def _is_within(interval: Estimate[float], margin: float) -> str:
    """Whether a number is within a margin of zero, as far as its interval tells."""
    if -margin <= interval.low and interval.high <= margin:
        return HOLDS
    return FAILS if interval.low > margin or interval.high < -margin else UNDECIDED


def _less(outcome: Outcome, first: str, second: str) -> str:
    """Whether the first curve ends below the second (95%, paired)."""
    return _is_negative(paired_difference(outcome.results[first], outcome.results[second]))


def _final(outcome: Outcome, name: str) -> float:
    return outcome.results[name].summary().mean


def _starting(outcome: Outcome, *words: str) -> list[str]:
    return [name for name in outcome.results if name.startswith(words)]


def _written(interval: Estimate[float]) -> str:
    return f"{interval.mean:.2f} ({interval.low:.2f} to {interval.high:.2f})"


def _below_baselines(*outcomes: Outcome) -> Finding:
    found = []
    said = []
    for outcome in outcomes:
        for ours in _starting(outcome, "dec-"):
            others = _starting(outcome, "DDUCB", "coop-UCB")
            found += [_less(outcome, ours, other) for other in others]
            least = min(others, key=lambda name: _final(outcome, name))
            said.append(
                f"{outcome.panel.figure}: {ours} {_final(outcome, ours):.1f}, "
                f"the best other ({least}) {_final(outcome, least):.1f}"
            )
    return Finding(_all(found), "; ".join(said))


def _still_rising(*outcomes: Outcome) -> Finding:
    found = []
    said = []
    for outcome in outcomes:
        for name in _starting(outcome, "coop-UCB"):
            fit = fit_growth(outcome.results[name])
            late = fit.late
            found.append(HOLDS if late.low > 0 else FAILS if late.high < 0 else UNDECIDED)
            said.append(f"{outcome.panel.figure} {name}: {late.mean:.0f}")
    return Finding(_all(found), f"slope per unit of ln t, {_rounds(outcomes)}: {'; '.join(said)}")


def _rounds(outcomes: Iterable[Outcome]) -> str:
    """The windows of the slopes of some panels, each named once."""
    windows = {rates.window(next(iter(outcome.results.values()))) for outcome in outcomes}
    return " and ".join(f"rounds {first:,} to {last:,}" for first, last in sorted(windows))


def _worse_than_alone(outcome: Outcome) -> Finding:
    coops = _starting(outcome, "coop-UCB")
    alone = "isolated TS"
    said = "; ".join(f"{name} {_final(outcome, name):.0f}" for name in coops)
    return Finding(
        _all(_less(outcome, alone, name) for name in coops),
        f"isolated TS {_final(outcome, alone):.0f}; {said}",
    )


def _tenfold(*outcomes: Outcome) -> Finding:
    found = []
    said = []
    for outcome in outcomes:
        ours = max(_starting(outcome, "dec-"), key=lambda name: _final(outcome, name))
        others = _starting(outcome, "DDUCB", "coop-UCB")
        other = min(others, key=lambda name: _final(outcome, name))
        regret = [outcome.results[name].regret[:, -1] for name in (ours, other)]
        short = mean_interval(TENFOLD * regret[0] - regret[1])  # of that many times, run by run
        found.append(_is_negative(Estimate(*map(float, short))))
        ratio = _final(outcome, other) / _final(outcome, ours)
        said.append(f"{outcome.panel.figure}: {ratio:.1f}x the worse of ours")
    return Finding(
        _all(found),
        f"the best other algorithm is {'; '.join(said)} (at least {TENFOLD}x counts as almost 10x)",
    )


def _in_order(outcome: Outcome, names: list[str]) -> Finding:
    """Each curve ends below the next one."""
    found = []
    said = []
    for first, second in pairwise(names):
        difference = paired_difference(outcome.results[first], outcome.results[second])
        found.append(_is_negative(difference))
        said.append(f"{first} - {second}: {_written(difference)}")
    return Finding(_all(found), "; ".join(said))


def _falls_with_agents(*outcomes: Outcome) -> Finding:
    found = [_in_order(outcome, list(outcome.results)[::-1]) for outcome in outcomes]
    said = [f"{o.panel.figure}: {f.detail}" for o, f in zip(outcomes, found, strict=True)]
    return Finding(_all(finding.verdict for finding in found), " | ".join(said))


_RATES = {
    rates.LOGARITHMIC: HOLDS,
    rates.FASTER: FAILS,
    rates.UNDECIDED: UNDECIDED,
    rates.BELOW: BELOW,
}


def _grows_like_a_logarithm(*names: str) -> Callable[[Outcome], Finding]:
    def test(outcome: Outcome) -> Finding:
        least = outcome.least_slope(names[0])
        found = []
        said = []
        for name in names:
            fit = fit_growth(outcome.results[name])
            word = rates.rate(fit, least)
            found.append(_RATES[word])
            said.append(f"{name}: {_written(fit.late)}, {word}")
        detail = (
            f"slope per unit of ln t, {_rounds([outcome])}, where the least possible in the long "
            f"run is {least:.2f}: {'; '.join(said)}"
        )
        return Finding(_all(found), f"{detail}. {rates.WHY_BELOW}" if BELOW in found else detail)

    return test


def _higher_than_static(outcome: Outcome) -> Finding:
    pairs = [_in_order(outcome, [name, "gossip"]) for name in _starting(outcome, "static")]
    return Finding(_all(pair.verdict for pair in pairs), "; ".join(pair.detail for pair in pairs))


def _same_as_static(outcome: Outcome) -> Finding:
    difference = paired_difference(outcome.results["p = 0.3"], outcome.results["p = 0"])
    static = _final(outcome, "p = 0")
    return Finding(
        _is_within(difference, SAME * static),
        f"p = 0.3 minus p = 0: {_written(difference)}, {abs(difference.mean) / static:.1%} of the "
        f"regret (within {SAME:.0%} counts as the same)",
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
