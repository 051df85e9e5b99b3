"""The arena's page: what it says without a browser, and what it shows in one."""

import dataclasses
import math
import re

import pytest

from posse.lab.arena import report_data as data
from posse.lab.arena import suite
from posse.lab.arena import tournament as running
from posse.lab.report import text as formats
from posse.lab.report.pages import arena as page
from posse.lab.report.pages.arena import write_caution, write_command, write_details, write_headline
from tests.browsing import all_of, scheme, screen, texts
from tests.lab.arena.made_up import ALGORITHMS, report

NASTY = "<img src=x onerror=alert(1)> </script><!-- <b>&\"'"
SAFE = "&lt;img src=x onerror=alert(1)&gt; &lt;/script&gt;&lt;!-- &lt;b&gt;&amp;&quot;&#x27;"
BACKWARDS = "\N{RIGHT-TO-LEFT OVERRIDE}abc"
HOSTILE = [
    ALGORITHMS[0],
    (NASTY, "yours", NASTY, 1.2, 3.0),
    (BACKWARDS, "memory", BACKWARDS, 0.8, 4.0),
    ("x" * 200, "abstract", "x" * 200, 2.0, 0.0),
    ("wide words " * 18, "code", "wide words " * 18, 3.0, None),
]
SOME = [each for each in ALGORITHMS if each[0] in ("dec-TS", "RandUCB", "DPE2", "ComEx (KL)")]
SMALL = report(2, [*SOME, *HOSTILE[1:]])


@pytest.mark.parametrize(
    ("instances", "algorithms", "runs", "said"),
    [
        (0, ALGORITHMS, 200, "Nothing was played, so there is nothing to rank."),
        (1, ALGORITHMS[:1], 2, "dec-TS played alone: there is nobody to compare it with."),
        (1, ALGORITHMS[1:2], 2, "dec-Bayes-UCB played alone"),
        (1, ALGORITHMS[:3], 1, "RandUCB ranks first in mean regret over 1 instance"),
    ],
)
def test_little_to_tell_is_told(instances, algorithms, runs, said):
    made = report(instances, algorithms, runs)
    assert write_headline(made).startswith(said)
    assert said in page.render(made)


def test_a_first_one_that_does_not_play_all_instances_is_told():
    first, *others = SMALL.standings
    made = dataclasses.replace(
        SMALL, standings=[dataclasses.replace(first, instances=1, rank=1), *others]
    )
    assert "over 2 instances (it plays 1 of them): nobody" in write_headline(made)
    assert "it plays" not in write_headline(SMALL)


def test_a_shared_first_place_names_all_who_share_it():
    tied = [dataclasses.replace(each, rank=1) for each in SMALL.standings[:2]]
    made = dataclasses.replace(SMALL, standings=[*tied, *SMALL.standings[2:]])
    names = [f"\N{FIRST STRONG ISOLATE}{BACKWARDS}\N{POP DIRECTIONAL ISOLATE}†", "RandUCB"]
    assert sorted(each.algorithm for each in tied) == sorted([BACKWARDS, "RandUCB"])
    assert write_headline(made).split(" share ")[0] in (
        " and ".join(names),
        " and ".join(names[::-1]),
    )


def test_the_readers_own_has_a_sentence_and_a_mark():
    own = next(each for each in SMALL.standings if each.source == data.YOURS)
    (said,) = [each for each in write_details(SMALL) if "(yours)" in each]
    assert f"rank {own.rank} of {len(SMALL.standings)}" in said
    assert formats.format_interval(own.ratio, own.ratio_low, own.ratio_high, 3) in said
    written = page.render(SMALL)
    assert len(re.findall('<tr class="own">', written)) == 1 + len(SMALL.instances)


def test_caution_is_said_only_where_there_is_cause():
    assert write_caution(report(1)) == ""
    assert "1 of 2 instances stopped early" in write_caution(report(2))
    assert "the tails do not show in 20 runs" in write_caution(report(1, runs=20))


def test_uncertain_sources_are_marked_at_every_name_and_in_every_legend():
    written = page.render(SMALL)
    name = '<bdi>ComEx (KL)</bdi><sup title="constants from memory" class="sign">†</sup>'
    named = len(re.findall(r"<bdi>ComEx \(KL\)</bdi>", written))
    assert written.count(name) == named > 5
    legends = re.findall('<ul class="marks".*?</ul>', written, re.S)
    assert len(legends) == 3 + len(SMALL.instances)
    for legend in legends:
        assert "† constants from memory" in legend
        assert "‡ abstract read, constants from memory" in legend


def test_no_name_becomes_markup():
    written = page.render(SMALL)
    assert SAFE in written
    assert "<img" not in written
    assert "<b>&" not in written
    assert written.count("</script>") == 2


def test_who_could_not_play_is_told_with_the_reason():
    made = report(9)  # the ninth refuses some
    written = page.render(made)
    for refusal in made.instances[8].refusals:
        assert f"</span>: {refusal.why}</li>" in written
    assert '<section id="refusals">' in written
    assert '<section id="refusals">' not in page.render(SMALL)


def test_the_page_links_to_the_files_beside_it(tmp_path):
    for name in ("report.json", "table.csv", "notes.txt"):
        (tmp_path / name).write_text("")
    written = page.write_page(SMALL, tmp_path).read_text("utf-8")
    assert '<a href="report.json">JSON</a> · <a href="table.csv">CSV</a>' in written
    assert "notes.txt" not in written
    assert not re.search(r"""(src|href)\s*=\s*["']?\s*(https?:)?//""", written)


@pytest.mark.parametrize(
    ("asked", "options"),
    [
        ((False, None, None, None), ""),
        ((False, 30, None, 5), " --runs 30 --seed 5"),
        ((False, None, 300, None), " --horizon 300"),
        ((True, None, None, None), " --full"),
        ((True, 50, None, None), " --full --runs 50"),
    ],
)
def test_the_command_plays_the_same_again(asked, options):
    form = running.choose_form(*asked)
    played = suite.choose_instances("1,6")
    made = report(2, [ALGORITHMS[0], ALGORITHMS[-1]])
    instances = [
        dataclasses.replace(each, number=instance.number, horizon=form.horizon(instance))
        for each, instance in zip(made.instances, played, strict=True)
    ]
    summary = dataclasses.replace(made.made, mode=form.mode, runs=form.runs, seed=form.seed)
    made = dataclasses.replace(made, made=summary, instances=instances)
    rest = " --instances 1,6 --algorithms dec-TS"
    assert write_command(made) == f"posse arena MINE.py:MyAlgorithm{options}{rest}"


@pytest.fixture
def opened(browser, tmp_path):
    def at(made, width=1280):
        screen(browser, width)
        scheme(browser, "light")
        browser.get(page.write_page(made, tmp_path).as_uri())
        return browser

    yield at
    assert [entry["message"] for entry in browser.get_log("browser")] == []
    requests = "return performance.getEntriesByType('resource').map((each) => each.name)"
    assert browser.execute_script(requests) == []


def rows_of(shown, section):
    """The text of every cell, row by row, by one question to the browser."""
    script = """return [...document.querySelectorAll(`${arguments[0]} tbody tr`)]
        .map((row) => [...row.cells].map((cell) => cell.textContent))"""
    return shown.execute_script(script, section)


def test_the_numbers_shown_are_those_of_the_report(opened):
    shown = opened(SMALL)
    for standing, row in zip(SMALL.standings, rows_of(shown, "#ranks"), strict=True):
        ratio = formats.format_interval(standing.ratio, standing.ratio_low, standing.ratio_high, 3)
        assert row[0].rstrip("†‡") == standing.algorithm
        assert row[1] == str(standing.rank)
        assert row[2] == ("1" if standing.algorithm == SMALL.reference else ratio)
        assert row[6] == formats.format_number(standing.numbers_sent, 3)
    for instance in SMALL.instances:
        rows = rows_of(shown, f"#instance-{instance.number}")
        for score, row in zip(instance.scoreboard.rows, rows, strict=True):
            assert row[0].rstrip("†‡") == score.algorithm
            mean, _, low, high = score.regret
            assert row[2] == formats.format_interval(mean, low, high)
            mean, _, low, high = score.difference.difference if score.difference else [None] * 4
            assert row[3] == formats.format_interval(mean, low, high)
            assert row[5] == score.verdict
            numbers = (score.tail.percentile_95, score.tail.percentile_99, score.worst_agent)
            assert row[6:9] == [formats.format_number(each) for each in numbers]
            assert row[9:11] == [
                formats.format_share(score.tail.wrong_leader),
                formats.format_number(score.sent_per_round, 3),
            ]


def test_dots_stand_where_their_numbers_are(opened):
    """Places are linear in the number or in its logarithm, so three dots tell."""
    shown = opened(report(1))
    marks = all_of(shown, "#instance-1 figure:first-child use")
    places = [float(mark.get_attribute("x").rstrip("%")) for mark in marks]
    means = [row.regret.mean for row in report(1).instances[0].scoreboard.rows]
    assert len(places) == len(means)
    slope = (places[-1] - places[0]) / math.log(means[-1] / means[0])
    for place, mean in zip(places, means, strict=True):
        assert place == pytest.approx(places[0] + slope * math.log(mean / means[0]), abs=0.02)


def test_a_header_sorts_the_table_by_numbers_up_and_down(opened):
    shown = opened(SMALL)
    (button,) = [
        each for each in all_of(shown, "#ranks thead button") if each.text.startswith("Numbers")
    ]
    sent = sorted(each.numbers_sent for each in SMALL.standings if each.numbers_sent is not None)
    expected = [formats.format_number(each, 3) for each in sent]
    column = "#ranks tbody td:nth-child(7)"
    button.click()
    assert texts(shown, column) == [*expected, "–"]
    button.send_keys("\n")
    assert texts(shown, column) == [*expected[::-1], "–"]  # the unknown is last both times


@pytest.mark.parametrize("width", [375, 1440])
def test_the_page_never_scrolls_sideways(opened, width):
    shown = opened(SMALL, width)
    assert shown.execute_script("return document.scrollingElement.scrollWidth") <= width
    for fold in all_of(shown, "details > summary"):
        fold.click()
    assert shown.execute_script("return document.scrollingElement.scrollWidth") <= width
