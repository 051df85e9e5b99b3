"""The report page: what it says without a browser, and what it does inside one."""

import dataclasses
import json
import math
import re
from pathlib import Path

import pytest

from posse.lab import plots
from posse.lab.paper.analysis import (
    ClaimReport,
    CurveGrowth,
    PanelReport,
    PaperProvenance,
    PaperReport,
    PublishedValue,
)
from posse.lab.report import curves
from posse.lab.report.curves import Chart, Curve, EmbeddedCharts, LeastSlope
from posse.lab.report.pages.paper import render
from posse.lab.report.scoreboard import PairedDifference, Scoreboard, ScoreRow, Tail
from posse.lab.statistics import Estimate
from tests.browsing import all_of, scheme, screen, texts

NASTY = "KL-UCB </script><!-- <b>&\"'"


def curve(name, slope):
    times = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]
    mean = [slope * math.log(time) for time in times]  # zero at first: no logarithm shows it
    return Curve(name, times, mean, [m - 0.5 for m in mean], [m + 0.5 for m in mean])


def unknown(kind):
    return {field.name: None for field in dataclasses.fields(kind)}


def score(name, mean):
    known = {"algorithm": name, "regret": Estimate(mean, 0.25, mean - 0.5, mean + 0.5)}
    return ScoreRow(**unknown(ScoreRow) | known | {"tail": Tail(**unknown(Tail))})


def growth(name):
    nothing = Estimate(math.nan, math.nan, math.nan, math.nan)
    return CurveGrowth(name, nothing, math.nan, "below the Lai-Robbins line")


def panel(figure, bound):
    names = ["Thompson", NASTY, "Alone"]
    return PanelReport(
        id=f"fig{figure}",
        figure=figure,
        title=f"A ring & panel {figure}",
        caption="Ten arms, <five> agents.",
        note="An <i>assumption</i>." if bound else None,
        runs=1200,
        engine="compiled",
        seconds=75.0,
        settings='name = "<toml>"',
        slope_rounds=(317, 1000),
        chart=Chart(
            f"fig{figure}",
            [curve(name, 2.0 + i) for i, name in enumerate(names)],
            log=not bound,
            bound=LeastSlope(1.5, "Lai and Robbins") if bound else None,
        ),
        scoreboard=Scoreboard(
            None,
            [score(name, 12345.678 + i) for i, name in enumerate(names)],
            [PairedDifference("Thompson", NASTY, Estimate(-1.5, 0.25, -2.0, -1.0), 1e-9, 1e-9)],
        ),
        growth=[growth(name) for name in names],
        published=[PublishedValue("Alone", 1000, 27.0, 27.63, 0.25, 0.63, None, "agrees")],
        files=[f"figures/fig{figure}.{suffix}" for suffix in ("png", "pdf", "csv")],
    )


VERDICTS = [
    *("holds", "does not hold", "holds only as published"),
    *("undecided at 100 runs", "below the Lai-Robbins line", "not tested"),
]
REPORT = PaperReport(
    title="Figures <reproduced>",
    summary=PaperProvenance("quick", "as stated", 7, 3725.0, {"posse": "0.1"}, "R&D box"),
    claims=[
        ClaimReport("1", f"Claim <{i}>", verdict, f"number {i}")
        for i, verdict in enumerate(VERDICTS)
    ],
    panels=[panel("1a", True), panel("1b", False)],
)


def embedded(page):
    return re.search(r'<script type="application/json" id="report">(.*?)</script>', page, re.S)[1]


def test_the_data_survive_the_embedding():
    data = json.loads(embedded(render(REPORT)))
    assert data["charts"][0]["curves"][1]["name"] == NASTY
    assert data["charts"][0]["curves"][2]["mean"] == pytest.approx(curve("", 4.0).mean, rel=1e-6)
    assert data["charts"][1]["log"]
    assert data["dashes"] == [list(dash) for dash in plots.DASHES]


# What the script calls the objects of the report, and what they are.
IN_SCRIPT = {"report": EmbeddedCharts, "chart": Chart, "curve": Curve, "bound": LeastSlope}


def test_the_script_reads_only_fields_that_there_are():
    """The browser's test below sees the same at work; this one needs no browser."""
    script = (Path(curves.__file__).parent / "assets" / "curves.js").read_text()
    read = re.findall(r"\b(report|chart|curve)\.(\w+)", script)
    assert {name for name, _ in read} >= {"report", "chart", "curve"}
    for name, key in read:
        assert key in IN_SCRIPT[name].__dataclass_fields__, (name, key)
    taken = re.findall(r"const \{ ([\w, ]+) \} = (?:chart\.)?(\w+);", script)
    assert ("slope, text", "bound") in taken
    for keys, name in taken:
        assert set(keys.split(", ")) <= set(IN_SCRIPT[name].__dataclass_fields__), (name, keys)


def test_nothing_in_the_data_becomes_markup():
    page = render(REPORT)
    assert "<" not in embedded(page)
    tables = page.replace(embedded(page), "")
    assert "KL-UCB &lt;/script&gt;&lt;!-- &lt;b&gt;&amp;&quot;&#x27;" in tables
    for raw in ("<b>", "<five>", "<i>", "<toml>", "<reproduced>", "Claim <0>", "R&D"):
        assert raw not in tables


def test_the_page_needs_no_network():
    page = render(REPORT)
    assert not re.search(r"""(src|href)\s*=\s*["']?\s*(https?:)?//""", page)
    assert not re.search(r"@import|url\(\s*[\"']?http|\bfetch\(|<script[^>]+src", page)
    assert "default-src 'none'" in page


def test_every_panel_and_claim_is_there():
    page = render(REPORT)
    for each in REPORT.panels:
        assert f'<section id="{each.id}">' in page
        assert f'href="#{each.id}"' in page
        assert f'<figure data-chart="{each.id}">' in page
    for claim, verdict in zip(REPORT.claims, VERDICTS, strict=True):
        assert claim.claim.replace("<", "&lt;").replace(">", "&gt;") in page
        assert f'">{verdict}</span>' in page
        assert claim.detail in page


@pytest.mark.parametrize(
    "text",
    [
        "12,346 [12,345, 12,346]",
        "−1.500 [−2.000, −1.000]",
        "&lt; 0.0001",
        "27.63 ± 0.250",
        "<td>–</td>",
        "1 min 15 s",
        "Quick run, as stated",
        "1 h 2 min",
        "1,200 runs",
    ],
)
def test_numbers_are_written_for_readers(text):
    assert text in render(REPORT)


def test_a_report_of_nothing_and_numbers_that_json_lacks_are_no_trouble():
    assert "Claims" in render(dataclasses.replace(REPORT, claims=[], panels=[]))
    odd = Curve("odd", [1, 2], [math.nan, 1.0], [None, None], [None, None])
    first = dataclasses.replace(REPORT.panels[0], chart=Chart("fig1a", [odd]))
    page = render(dataclasses.replace(REPORT, panels=[first]))
    assert json.loads(embedded(page))["charts"][0]["curves"][0]["mean"] == [None, 1.0]


def test_what_was_not_tested_is_folded_below_what_was():
    tested, folded = render(REPORT).split("<details>")[:2]
    assert folded.startswith("<summary>1 claim not tested here</summary>")
    assert "Claim &lt;5&gt;" in folded
    assert "Claim &lt;5&gt;" not in tested
    assert "Claim &lt;4&gt;" in tested


def test_slopes_name_their_window_and_explain_those_below_the_line():
    page = render(REPORT)
    assert "Slope per unit of ln t, rounds 317 to 1,000" in page
    assert page.count("cannot last") == len(REPORT.panels)


def test_every_figure_can_be_downloaded():
    page = render(REPORT)
    for each in REPORT.panels:
        for suffix in ("png", "pdf", "csv"):
            assert f'<a href="figures/{each.id}.{suffix}">{suffix.upper()}</a>' in page


@pytest.fixture
def page(browser, tmp_path):
    path = tmp_path / "report.html"
    path.write_text(render(REPORT), encoding="utf-8")
    screen(browser, 1280)
    scheme(browser, "light")
    browser.get(path.as_uri())
    yield browser
    assert [entry["message"] for entry in browser.get_log("browser")] == []


def test_every_figure_is_drawn(page):
    assert len(all_of(page, 'figure[data-drawn="true"]')) == len(REPORT.panels)
    for each in REPORT.panels:
        shapes = all_of(page, f"#{each.id} .chart :is(.curve, .band)")
        assert len(shapes) == 2 * len(each.chart.curves)
        for found in shapes:
            path = found.get_attribute("d")
            assert path.startswith("M")
            assert not re.search("NaN|Infinity|undefined|null", path)
    assert len(all_of(page, "#fig1a .chart .bound")) == 1
    assert not all_of(page, "#fig1b .chart .bound")
    looks = [
        each.get_attribute("stroke-dasharray") for each in all_of(page, "#fig1a .chart > g > *")
    ]
    dashes = [look for look in looks if look]
    assert len(set(dashes)) == len(dashes) == 4  # no line needs its colour to be told apart


def test_the_lines_look_as_in_the_printed_figures(page):
    style = "return getComputedStyle(arguments[0])"
    for i, found in enumerate(all_of(page, "#fig1a .chart .curve")):
        red, green, blue = re.findall(r"\d+", page.execute_script(f"{style}.stroke", found))
        assert f"#{int(red):02X}{int(green):02X}{int(blue):02X}" == plots.COLOURS[i]
        width = float(page.execute_script(f"{style}.strokeWidth", found).removesuffix("px"))
        dash = found.get_attribute("stroke-dasharray").replace("none", "").split()
        assert [float(part) / width for part in dash] == pytest.approx(plots.DASHES[i])


def test_the_script_reads_nothing_that_is_not_in_the_data(browser, tmp_path):
    """With data that refuse to be asked for a key that they lack, all is drawn as ever."""
    guard = """<script>
const parse = JSON.parse;
const guarded = (value) => value === null || typeof value !== "object" ? value
  : new Proxy(value, { get(target, key) {
      if (typeof key === "string" && !(key in target)) throw new Error(`there is no ${key}`);
      const found = Reflect.get(target, key);
      return typeof found === "function" ? found : guarded(found);
    } });
JSON.parse = (text) => guarded(parse(text));
</script>"""
    path = tmp_path / "guarded.html"
    path.write_text(render(REPORT).replace("<header>", f"{guard}<header>"), encoding="utf-8")
    browser.get(path.as_uri())
    assert [entry["message"] for entry in browser.get_log("browser")] == []
    assert len(all_of(browser, 'figure[data-drawn="true"]')) == len(REPORT.panels)


def test_names_are_shown_as_they_are(page):
    names = [each.name for each in REPORT.panels[0].chart.curves]
    assert texts(page, "#fig1a .legend button") == [*names, "Lai and Robbins"]


def test_the_legend_hides_a_curve_with_its_band_and_shows_it_again(page):
    from selenium.webdriver.common.keys import Keys

    button = all_of(page, "#fig1a .legend button")[2]
    button.click()
    assert button.get_attribute("aria-pressed") == "false"
    assert len(all_of(page, "#fig1a .chart .curve")) == 2
    assert not all_of(page, "#fig1a .chart .c2")
    button.send_keys(Keys.ENTER)  # the keyboard does what the mouse does
    assert button.get_attribute("aria-pressed") == "true"
    assert len(all_of(page, "#fig1a .chart .c2")) == 2
    for each in all_of(page, "#fig1a .legend button"):
        each.click()
    assert not all_of(page, "#fig1a .chart :is(.curve, .band, .bound)")


@pytest.mark.parametrize(("axis", "ticks"), [("time", ".tick-x"), ("regret", ".tick-y")])
def test_the_check_boxes_change_their_axis(page, axis, ticks):
    box = all_of(page, f"#fig1a input[name=log-{axis}]")[0]
    linear = texts(page, f"#fig1a {ticks}")
    box.click()
    logarithmic = texts(page, f"#fig1a {ticks}")
    assert "0" in linear
    assert logarithmic != linear
    assert "10" in logarithmic
    assert "0" not in logarithmic
    for found in all_of(page, "#fig1a .chart path"):
        assert not re.search("NaN|Infinity", found.get_attribute("d"))
    box.click()
    assert texts(page, f"#fig1a {ticks}") == linear


def test_curves_far_apart_begin_on_a_logarithmic_axis(page):
    for id_, logarithmic in (("fig1a", False), ("fig1b", True)):
        (box,) = all_of(page, f"#{id_} input[name=log-regret]")
        assert box.is_selected() == logarithmic
        assert ("0" in texts(page, f"#{id_} .tick-y")) != logarithmic


def test_the_crosshair_reads_the_nearest_recorded_time(page):
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    chart = all_of(page, "#fig1a .chart")[0]
    tooltip = all_of(page, "#fig1a .tooltip")[0]
    assert not tooltip.is_displayed()
    ActionChains(page).move_to_element(chart).perform()  # its middle is near round 500
    assert tooltip.is_displayed()
    assert tooltip.text.startswith("Round 500")
    for slope in (2.0, 3.0, 4.0):
        assert f"{slope * math.log(500):.2f}" in tooltip.text
    assert NASTY in tooltip.text
    assert len(all_of(page, "#fig1a .crosshair circle")) == 3
    chart.send_keys(Keys.ARROW_RIGHT)
    assert tooltip.text.startswith("Round 1,000")
    chart.send_keys(Keys.ESCAPE)
    assert not tooltip.is_displayed()


def test_a_phone_never_scrolls_the_page_sideways(page):
    screen(page, 390)
    page.refresh()
    assert page.execute_script("return document.scrollingElement.scrollWidth") <= 390
    boxes = all_of(page, ".scroll")
    assert any(box.get_property("scrollWidth") > box.get_property("clientWidth") for box in boxes)
    assert len(all_of(page, 'figure[data-drawn="true"]')) == len(REPORT.panels)


def test_dark_mode_is_dark(page):
    style = "return getComputedStyle(document.body).backgroundColor"
    assert page.execute_script(style) == "rgb(255, 255, 255)"
    scheme(page, "dark")
    red, green, blue = map(int, re.findall(r"\d+", page.execute_script(style)))
    assert max(red, green, blue) < 60
