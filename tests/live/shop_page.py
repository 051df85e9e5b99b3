"""The page of an agent against the books of a shop: every number that a person can read there."""

import math
import re

from tests.browsing import until
from tests.live.shop import ARMS, CONTROL, METRICS


def is_rounded(text, value):
    """Whether a text is a value in three digits, or a large one as a whole number."""
    if value is None:
        return text == "–"
    shown = parse_number(text)
    if value == 0:
        return shown == 0
    digit = max(math.floor(math.log10(abs(value))) - 2, -9)
    unit = 1.0 if abs(value) >= 100 else 10.0**digit
    return abs(shown - value) <= 0.5 * unit * (1 + 1e-9)


def parse_number(text):
    return float(text.replace(",", "").replace("−", "-"))


def find_numbers(text):
    """All numbers of a text, as the page writes them."""
    return [parse_number(number) for number in re.findall(r"[+−]?\d[\d,]*\.?\d*", text)]


def check_page(page, site, books):
    """Compare every number of the page with the books."""
    page.wait("document.title.includes(arguments[0])", f"/ {site.experiment}:")
    page.is_drawn()
    counted = len(books.select_all_evidence())
    # the first look may be older than the last message
    until(
        lambda: f"all sites: {counted:,}" in page.text("#strip"),
        lambda: f"{counted} not in: {page.text('#strip')}",
    )
    check_headline(page, site, books)
    check_arm_table(page, site, books)
    check_uplift_box(page, site, books)
    check_guardrail_table(page, books)
    check_site_map(page, books)
    check_network(page, books)
    check_events(page, site)


def check_headline(page, site, books):
    order = sorted(ARMS, key=books.compute_mean, reverse=True)
    title = page.text("#lead h1")
    first, second = order[:2]
    shown = re.match(rf"{first} leads: mean reward (\S+), (\S+) with {second}\. ", title)
    assert shown, (order, title)
    assert is_rounded(shown[1], books.compute_mean(first)), title
    assert is_rounded(shown[2], books.compute_mean(second)), title
    visits = f" {len(books.select_all_evidence()):,} visits. "
    page.shows("#lead p", visits, "All 3 agents are reachable. Nothing is lost. ")
    story = page.text("#lead p")
    late = site.late_rewards
    words = f"{late} reward{'' if late == 1 else 's'} arrived too late to count"
    assert (words in story) == (late > 0), story
    own = len(books.select_all_evidence(site.name))
    assert page.text("#counted") == page.text("#own") == f"{own:,}"


def check_arm_table(page, site, books):
    for arm, status in site.client.arms().items():
        row = f'#arms tr[data-key="{arm}"]'
        assert is_rounded(page.text(f"{row} .rate b"), books.compute_mean(arm))
        ends = page.text(f"{row} .rate small").split(" to ")
        assert is_rounded(ends[0], status["low"]), (ends, status)
        assert is_rounded(ends[1], status["high"]), (ends, status)
        numbers = {
            "closed visits here": len(books.select_evidence(arm, site.name)),
            "in the network": len(books.select_evidence(arm)),
            "open": 0,
        }
        for name, number in numbers.items():
            assert page.text(f'{row} td[data-name="{name}"]') == f"{number:,}", (arm, name)


def check_uplift_box(page, site, books):
    box = "#strip > div:nth-child(3)"
    (bandit, mean), (control, control_mean) = books.average_side(False), books.average_side(True)
    shown = find_numbers(page.text(f"{box} .big"))
    assert is_rounded(str(shown[0]), mean - control_mean), (shown, mean - control_mean)
    tip = page.tip(f"{box} .big")
    sides = re.findall(r": ([\d.,]+) mean reward \(([\d,]+) closed visits\)", tip)
    assert [parse_number(count) for _, count in sides] == [bandit, control], tip
    assert is_rounded(sides[0][0], mean)
    assert is_rounded(sides[1][0], control_mean)
    answer = site.client.uplift()
    line = page.text(f"{box} .quiet")
    if answer["low"] is None:
        assert line.startswith("too few closed visits for an interval")
    else:
        low, high = find_numbers(line)
        assert is_rounded(str(low), answer["low"])
        assert is_rounded(str(high), answer["high"])


def check_guardrail_table(page, books):
    assert len(page.texts(".guards tbody tr")) == len(METRICS) * len(ARMS)
    for metric in METRICS:
        for arm in ARMS:
            row = f'.guards tr[data-key="{metric} {arm}"]'
            _, state, mean_text, ends, limit, visits = page.texts(f"{row} td")
            count, mean = books.average_metric(metric, arm)
            assert visits == f"{count:,}"
            assert is_rounded(mean_text, mean), (metric, arm)
            for text, value in zip(
                ends.split(" and "), books.bound_metric(metric, arm), strict=True
            ):
                assert is_rounded(text, value), (metric, arm, ends)
            assert is_rounded(limit, books.find_limit(metric, arm)), (metric, arm, limit)
            assert state == describe_state(metric, arm, books), (metric, arm)


def describe_state(metric, arm, books):
    """The word for an arm beside its mean, which is there for all arms of this shop."""
    limit = books.find_limit(metric, arm)
    low, high = books.bound_metric(metric, arm)
    if limit is None:
        return "reference"
    if low > limit:
        return "beyond its limit"
    return "not clear yet" if limit <= high else "within its limit"


def check_site_map(page, books):
    for site in (*books.sites, None):
        for place, arm in enumerate(ARMS, 2):  # the first column has the names
            visits = books.select_evidence(arm, site)
            key = " all" if site is None else site
            box = f'.heat tr[data-key="{key}"] > :nth-child({place}) .box'
            mean = sum(visit.amount for visit in visits) / len(visits) if visits else None
            assert is_rounded(page.text(f"{box} b"), mean), (site, arm)
            assert page.text(f"{box} small.narrow-hide") == (
                f"{len(visits):,}" if visits else "none"
            )


def check_network(page, books):
    page.shows("#strip", "3 of 3 agents reachable")
    for site in books.sites:
        cells = f'.agents tr[data-key="{site}"] td'
        wanted = ["0", f"{len(books.select_all_evidence(site)):,}"]  # on their way, visits
        # the status of an agent counts a decision that it cancelled since until it is sent again,
        # which takes a minute if nothing else changes
        until(
            lambda cells=cells, wanted=wanted: page.texts(cells)[1:3] == wanted,
            lambda cells=cells, wanted=wanted: f"{wanted} not in: {page.texts(cells)}",
            seconds=120.0,
        )


def check_events(page, site):
    wanted = [event["text"] for event in reversed(site.client.events())]
    until(
        lambda: page.texts("#events li span:last-child") == wanted,
        lambda: f"{wanted} not in: {page.texts('#events li span:last-child')}",
    )
    events = page.texts("#events li span:last-child")
    assert sum(text.startswith(f"{CONTROL} is paused") for text in events) == 1
