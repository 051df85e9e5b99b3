"""Claims: sentences of the paper about its figures, each with a statistical test.

Every verdict is by 95% intervals over runs: a claim holds when the whole interval says so, does not
hold when the whole interval says the opposite, and is undecided at that number of runs otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from posse.lab.paper import analysis as rates
from posse.lab.paper.analysis import ClaimReport
from posse.lab.paper.panels import PanelOutcome
from posse.lab.results import Result
from posse.lab.statistics import Estimate, fit_growth, mean_interval, paired_difference
from posse.randomness import FloatArray

HOLDS = "holds"
FAILS = "does not hold"
UNDECIDED = "undecided"
BELOW = rates.BELOW  # a claim about a rate that these rounds are too few to show
ONLY_PUBLISHED = "holds only as published"
UNTESTED = "not tested"

# "Almost 10x" is read as at least so many times.
TENFOLD = 8
# A curve is read as almost horizontal if the later half of the rounds adds at most this share.
HORIZONTAL = 0.1
# "Much sooner" is read as within this share of the rounds.
SOONER = 0.5
# "The same regret" is read as within this share of it.
SAME = 0.1


@dataclass(frozen=True)
class Finding:
    """The verdict on a claim, HOLDS, FAILS, UNDECIDED or BELOW, and the numbers behind it."""

    verdict: str
    detail: str


@dataclass(frozen=True)
class PaperClaim:
    """One sentence of the paper and how to test it on its panels."""

    figure: str
    panels: tuple[str, ...]
    text: str
    test: Callable[..., Finding]  # takes the outcomes of its panels, in order


def find_failing_panels(stated: Mapping[str, PanelOutcome]) -> set[str]:
    """Find the panels to run as published, because a claim fails as stated."""
    return {
        id_
        for claim in CLAIMS
        if all(i in stated for i in claim.panels)
        and claim.test(*(stated[i] for i in claim.panels)).verdict == FAILS
        for id_ in claim.panels
    }


def judge_claims(
    stated: Mapping[str, PanelOutcome], published: Mapping[str, PanelOutcome]
) -> list[ClaimReport]:
    """Judge every claim: on the panels as stated, else as published."""
    rows = []
    for claim in CLAIMS:
        verdict = UNTESTED
        detail = f"needs {' and '.join(claim.panels)}"
        if all(id_ in stated for id_ in claim.panels):
            finding = claim.test(*(stated[id_] for id_ in claim.panels))
            verdict = finding.verdict
            detail = finding.detail
            varies = any(stated[i].panel.as_published for i in claim.panels)
            has_published = all(i in published for i in claim.panels)
            # The text and the notebooks differ in some panels: a claim may hold for these only.
            if verdict == FAILS and varies and has_published:
                again = claim.test(*(published[i] for i in claim.panels))
                verdict = ONLY_PUBLISHED if again.verdict == HOLDS else FAILS
                detail = f"as stated: {detail}; as published: {again.detail}"
            if verdict == UNDECIDED:
                verdict = f"{UNDECIDED} at {min(stated[i].runs for i in claim.panels):,} runs"
        rows.append(ClaimReport(claim.figure, claim.text, verdict, detail))
    return rows


def _combine_verdicts(verdicts: Iterable[str]) -> str:
    """Combine verdicts on several statements: the worst of them counts."""
    distinct = set(verdicts)
    return next((verdict for verdict in (FAILS, UNDECIDED, BELOW) if verdict in distinct), HOLDS)


def _is_negative(interval: Estimate[float]) -> str:
    """Judge whether a number is below zero, by its interval."""
    return HOLDS if interval.high < 0 else FAILS if interval.low > 0 else UNDECIDED


def _is_within(interval: Estimate[float], margin: float) -> str:
    """Judge whether a number is within a margin of zero, by its interval."""
    if -margin <= interval.low and interval.high <= margin:
        return HOLDS
    return FAILS if interval.low > margin or interval.high < -margin else UNDECIDED


def _ends_below(outcome: PanelOutcome, first: str, second: str) -> str:
    """Judge whether the first curve ends below the second (95%, paired)."""
    return _is_negative(paired_difference(outcome.results[first], outcome.results[second]))


def _final_regret(outcome: PanelOutcome, name: str) -> float:
    return outcome.results[name].summary().mean


def _curves_starting_with(outcome: PanelOutcome, *prefixes: str) -> list[str]:
    return [name for name in outcome.results if name.startswith(prefixes)]


def _format_estimate(interval: Estimate[float]) -> str:
    return f"{interval.mean:.2f} ({interval.low:.2f} to {interval.high:.2f})"


def _test_below_baselines(*outcomes: PanelOutcome) -> Finding:
    verdicts = []
    details = []
    for outcome in outcomes:
        for ours in _curves_starting_with(outcome, "dec-"):
            rivals = _curves_starting_with(outcome, "DDUCB", "coop-UCB")
            verdicts += [_ends_below(outcome, ours, rival) for rival in rivals]
            least = min(rivals, key=lambda name: _final_regret(outcome, name))
            details.append(
                f"{outcome.panel.figure}: {ours} {_final_regret(outcome, ours):.1f}, "
                f"the best other ({least}) {_final_regret(outcome, least):.1f}"
            )
    return Finding(_combine_verdicts(verdicts), "; ".join(details))


def _test_still_rising(*outcomes: PanelOutcome) -> Finding:
    verdicts = []
    details = []
    for outcome in outcomes:
        for name in _curves_starting_with(outcome, "coop-UCB"):
            fit = fit_growth(outcome.results[name])
            late = fit.late
            verdicts.append(HOLDS if late.low > 0 else FAILS if late.high < 0 else UNDECIDED)
            details.append(f"{outcome.panel.figure} {name}: {late.mean:.0f}")
    return Finding(
        _combine_verdicts(verdicts),
        f"slope per unit of ln t, {_format_windows(outcomes)}: {'; '.join(details)}",
    )


def _format_windows(outcomes: Iterable[PanelOutcome]) -> str:
    """Write the windows of the slopes of some panels, each once."""
    windows = {rates.slope_window(next(iter(outcome.results.values()))) for outcome in outcomes}
    return " and ".join(f"rounds {first:,} to {last:,}" for first, last in sorted(windows))


def _test_worse_than_isolated(outcome: PanelOutcome) -> Finding:
    # "In isolation" is our baseline of Thompson Sampling without messages.
    coops = _curves_starting_with(outcome, "coop-UCB")
    alone = "isolated TS"
    details = "; ".join(f"{name} {_final_regret(outcome, name):.0f}" for name in coops)
    return Finding(
        _combine_verdicts(_ends_below(outcome, alone, name) for name in coops),
        f"isolated TS {_final_regret(outcome, alone):.0f}; {details}",
    )


def _isolation_test(rival: str) -> Callable[..., Finding]:
    """Return a test of whether isolated agents beat some execution of a rival on some panel."""

    def test(*outcomes: PanelOutcome) -> Finding:
        verdicts = []
        details = []
        for outcome in outcomes:
            names = _curves_starting_with(outcome, rival)
            verdicts += [_ends_below(outcome, "isolated TS", name) for name in names]
            regrets = ", ".join(f"{_final_regret(outcome, name):.0f}" for name in names)
            alone = _final_regret(outcome, "isolated TS")
            details.append(f"{outcome.panel.figure}: isolated TS {alone:.0f}, {rival} {regrets}")
        # "For certain instances": one instance is enough.
        best = next((v for v in (HOLDS, UNDECIDED) if v in verdicts), FAILS)
        return Finding(best, "; ".join(details))

    return test


def _test_horizontal(*outcomes: PanelOutcome) -> Finding:
    verdicts = []
    details = []
    for outcome in outcomes:
        for name in _curves_starting_with(outcome, "dec-", "DDUCB"):
            times = outcome.results[name].times
            regret = outcome.results[name].regret
            middle = regret[:, np.searchsorted(times, times[-1] / 2)]
            excess = mean_interval(regret[:, -1] - middle - HORIZONTAL * regret[:, -1])
            verdicts.append(_is_negative(Estimate(*map(float, excess))))
            late = 1 - middle.mean() / regret[:, -1].mean()
            details.append(f"{outcome.panel.figure} {name}: {late:.0%}")
    return Finding(
        _combine_verdicts(verdicts),
        f"share of the regret in the later half of the rounds: {'; '.join(details)} "
        f"(at most {HORIZONTAL:.0%} counts as almost horizontal)",
    )


def _test_horizontal_sooner(*outcomes: PanelOutcome) -> Finding:
    verdicts = []
    details = []
    for outcome in outcomes:
        settled = {
            name: _find_settling_rounds(outcome.results[name])
            for name in _curves_starting_with(outcome, "dec-", "DDUCB")
        }
        for name in _curves_starting_with(outcome, "dec-"):
            later = mean_interval(settled[name] - SOONER * settled["DDUCB"])
            verdicts.append(_is_negative(Estimate(*map(float, later))))
        means = ", ".join(f"{name} {rounds.mean():,.0f}" for name, rounds in settled.items())
        details.append(f"{outcome.panel.figure}: {means}")
    return Finding(
        _combine_verdicts(verdicts),
        f"round at which 90% of the final regret is reached: {'; '.join(details)} "
        f"(at most {SOONER:.0%} of the rounds counts as much sooner)",
    )


def _find_settling_rounds(result: Result) -> FloatArray:
    """Return for each run the first recorded round with 90% of its final regret: (R,)."""
    reached = result.regret >= 0.9 * result.regret[:, -1:]
    return np.asarray(result.times[reached.argmax(axis=1)], dtype=float)


def _test_order_of_spectral_gaps(outcome: PanelOutcome) -> Finding:
    gaps = {name: curve.network.spectral_gap for name, curve in outcome.panel.curves.items()}
    names = sorted(gaps, key=lambda name: -gaps[name])
    finding = _test_order(outcome, names)
    order = ", ".join(f"{name} {gaps[name]:.3f}" for name in names)
    return Finding(finding.verdict, f"spectral gaps: {order}; regret: {finding.detail}")


def _test_tenfold(*outcomes: PanelOutcome) -> Finding:
    verdicts = []
    details = []
    for outcome in outcomes:
        ours = max(
            _curves_starting_with(outcome, "dec-"), key=lambda name: _final_regret(outcome, name)
        )
        rivals = _curves_starting_with(outcome, "DDUCB", "coop-UCB")
        rival = min(rivals, key=lambda name: _final_regret(outcome, name))
        regret = [outcome.results[name].regret[:, -1] for name in (ours, rival)]
        shortfall = mean_interval(
            TENFOLD * regret[0] - regret[1]
        )  # negative if it holds, run by run
        verdicts.append(_is_negative(Estimate(*map(float, shortfall))))
        ratio = _final_regret(outcome, rival) / _final_regret(outcome, ours)
        details.append(f"{outcome.panel.figure}: {ratio:.1f}x the worse of ours")
    return Finding(
        _combine_verdicts(verdicts),
        f"the best other algorithm is {'; '.join(details)} "
        f"(at least {TENFOLD}x counts as almost 10x)",
    )


def _test_order(outcome: PanelOutcome, names: list[str]) -> Finding:
    """Judge whether each curve ends below the next one."""
    verdicts = []
    details = []
    for first, second in pairwise(names):
        difference = paired_difference(outcome.results[first], outcome.results[second])
        verdicts.append(_is_negative(difference))
        details.append(f"{first} - {second}: {_format_estimate(difference)}")
    return Finding(_combine_verdicts(verdicts), "; ".join(details))


def _test_falls_with_agents(*outcomes: PanelOutcome) -> Finding:
    findings = [_test_order(outcome, list(outcome.results)[::-1]) for outcome in outcomes]
    details = [f"{o.panel.figure}: {f.detail}" for o, f in zip(outcomes, findings, strict=True)]
    return Finding(_combine_verdicts(finding.verdict for finding in findings), " | ".join(details))


_RATES = {
    rates.LOGARITHMIC: HOLDS,
    rates.FASTER: FAILS,
    rates.UNDECIDED: UNDECIDED,
    rates.BELOW: BELOW,
}


def _logarithm_test(*names: str) -> Callable[[PanelOutcome], Finding]:
    def test(outcome: PanelOutcome) -> Finding:
        least = outcome.least_slope(names[0])
        verdicts = []
        details = []
        for name in names:
            fit = fit_growth(outcome.results[name])
            word = rates.classify_growth(fit, least)
            verdicts.append(_RATES[word])
            details.append(f"{name}: {_format_estimate(fit.late)}, {word}")
        detail = (
            f"slope per unit of ln t, {_format_windows([outcome])}, where the least possible in "
            f"the long run is {least:.2f}: {'; '.join(details)}"
        )
        return Finding(
            _combine_verdicts(verdicts),
            f"{detail}. {rates.WHY_BELOW}" if BELOW in verdicts else detail,
        )

    return test


def _test_higher_than_static(outcome: PanelOutcome) -> Finding:
    pairs = [
        _test_order(outcome, [name, "gossip"]) for name in _curves_starting_with(outcome, "static")
    ]
    return Finding(
        _combine_verdicts(pair.verdict for pair in pairs), "; ".join(pair.detail for pair in pairs)
    )


def _test_same_as_static(outcome: PanelOutcome) -> Finding:
    # Equality cannot be tested; a difference that is surely small can.
    difference = paired_difference(outcome.results["p = 0.3"], outcome.results["p = 0"])
    static = _final_regret(outcome, "p = 0")
    return Finding(
        _is_within(difference, SAME * static),
        f"p = 0.3 minus p = 0: {_format_estimate(difference)}, "
        f"{abs(difference.mean) / static:.1%} of the regret (within {SAME:.0%} counts as the same)",
    )


def _test_rises_with_failures(outcome: PanelOutcome) -> Finding:
    return _test_order(outcome, ["p = 0.3", "p = 0.8", "p = 0.9"])


CLAIMS = (
    PaperClaim(
        "1",
        ("fig1a", "fig1b"),
        "Decentralized Thompson Sampling outperforms DDUCB and every execution of coop-UCB.",
        _test_below_baselines,
    ),
    PaperClaim(
        "1",
        ("fig1a", "fig1b"),
        "coop-UCB shows a rising slope with every exploration parameter.",
        _test_still_rising,
    ),
    PaperClaim(
        "1b",
        ("fig1b",),
        "On a square grid coop-UCB incurs a greater regret than agents with "
        "Thompson Sampling in isolation.",
        _test_worse_than_isolated,
    ),
    PaperClaim(
        "1",
        ("fig1a", "fig1b"),
        "For certain networks coop-UCB incurs a greater regret than agents alone (introduction).",
        _isolation_test("coop-UCB"),
    ),
    PaperClaim(
        "1",
        ("fig1a", "fig1b"),
        "For certain networks DDUCB incurs a greater regret than agents alone (introduction).",
        _isolation_test("DDUCB"),
    ),
    PaperClaim(
        "2",
        ("fig2a", "fig2b"),
        "Decentralized Bayes-UCB and decentralized Thompson Sampling "
        "outperform all executions of DDUCB and coop-UCB.",
        _test_below_baselines,
    ),
    PaperClaim(
        "2",
        ("fig2a", "fig2b"),
        "They provide an almost 10x reduction of the regret per agent.",
        _test_tenfold,
    ),
    PaperClaim(
        "2",
        ("fig2a", "fig2b"),
        "After a few rounds DDUCB and both decentralized algorithms are almost horizontal.",
        _test_horizontal,
    ),
    PaperClaim(
        "2",
        ("fig2a", "fig2b"),
        "The decentralized Bayesian algorithms become horizontal much sooner than DDUCB.",
        _test_horizontal_sooner,
    ),
    PaperClaim(
        "3",
        ("fig3",),
        "Regret falls as connectivity rises: complete, 5-ring, 3-ring.",
        lambda outcome: _test_order(outcome, ["complete", "5-ring", "3-ring"]),
    ),
    PaperClaim(
        "3",
        ("fig3",),
        "The grid, with the least connectivity, has the largest regret.",
        lambda outcome: _test_order(outcome, ["3-ring", "grid 8 x 8"]),
    ),
    PaperClaim(
        "3",
        ("fig3",),
        "The larger the spectral gap, the lower the regret of a network.",
        _test_order_of_spectral_gaps,
    ),
    PaperClaim(
        "4",
        ("fig4a", "fig4b"),
        "Regret per agent falls as the number of agents rises, on complete graphs and on cycles.",
        _test_falls_with_agents,
    ),
    PaperClaim("5a", ("fig5a",), "Under gossip, regret is logarithmic.", _logarithm_test("gossip")),
    PaperClaim(
        "5a",
        ("fig5a",),
        "Under gossip, regret is higher than on static networks.",
        _test_higher_than_static,
    ),
    PaperClaim(
        "5b",
        ("fig5b",),
        "Under random link failures regret is logarithmic.",
        _logarithm_test("p = 0.3", "p = 0.8", "p = 0.9"),
    ),
    PaperClaim(
        "5b", ("fig5b",), "Regret rises with the probability of failure.", _test_rises_with_failures
    ),
    PaperClaim(
        "5b",
        ("fig5b",),
        "For a small probability of failure regret is that of the static complete network.",
        _test_same_as_static,
    ),
)
