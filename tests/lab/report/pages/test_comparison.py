"""The report of a comparison: its numbers are the API's, whatever is compared; its page works."""

import csv
import itertools
import re
from html.parser import HTMLParser
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import posse
from posse import theory
from posse.lab import storage
from posse.lab.comparisons import Comparison
from posse.lab.report import curves
from posse.lab.report import writer as writing
from posse.lab.report.comparison_report import build_report
from posse.lab.report.pages import comparison as page
from posse.lab.report.pages import comparison_text as words
from posse.lab.report.scoreboard import score_comparison
from posse.lab.report.text import format_interval, format_number, format_p_value, format_share
from posse.lab.results import Result
from tests.browsing import all_of, scheme, screen, texts
from tests.lab.making import make

TS = posse.ThompsonSampling()
BANDIT = posse.Bandit.bernoulli([0.9, 0.5, 0.4])
RING = posse.networks.cycle(4)
TWO = {"dec-TS": posse.Decentralized(TS), "alone": posse.Isolated(TS)}
NASTY = "<img src=x onerror=alert(1)> </script><!-- <b>&\"'"
NAMES = {NASTY: TWO["dec-TS"], "אלגוריתם": TWO["alone"], "x" * 200: posse.Flooding(TS)}
SAFE = "&lt;img src=x onerror=alert(1)&gt; &lt;/script&gt;&lt;!-- &lt;b&gt;&amp;&quot;&#x27;"


def compared(bandit=BANDIT, network=RING, algorithms=TWO, **options):
    settings = {"horizon": 30, "runs": 12, "seed": 7, "engine": "reference"} | options
    return posse.compare(bandit, network, algorithms, **settings)


def made_up(ends):
    """A comparison of algorithms whose runs end at given regrets, at round 9."""
    results = [Result([9], np.c_[each], np.ones((len(each), 1, 2), int), "e", {}) for each in ends]
    return Comparison({f"A{i}": result for i, result in enumerate(results)})


def rendered(value, title="A title", single=False):
    return page.render(build_report(value, title, single))


class Tables(HTMLParser):
    """The rows of the tables of each section, as texts."""

    def __init__(self, text):
        super().__init__()
        self.rows, self._section, self._cell = {}, None, None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        if tag == "section":
            self._section = self.rows.setdefault(dict(attrs)["id"], [])
        elif tag == "tr":
            self._section.append([])
        elif tag in ("td", "th"):
            self._cell = []

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self._section[-1].append("".join(self._cell))
            self._cell = None

    def handle_data(self, data):
        if self._cell is not None:
            self._cell.append(data)


def tables_of(text):
    """Each section's rows below the headers, with the headers as keys."""
    found = {section: rows for section, rows in Tables(text).rows.items() if rows}
    return {
        section: [dict(zip(headers, row, strict=True)) for row in rows]
        for section, (headers, *rows) in found.items()
    }


@pytest.fixture(scope="module")
def comparison():
    three = {**TWO, "all-seeing": posse.Centralized(TS)}
    return compared(algorithms=three, runs=200, keep=("agents", "messages"))


@pytest.fixture(scope="module")
def written(comparison, tmp_path_factory):
    path = comparison.report(tmp_path_factory.mktemp("report") / "new" / "folder", "Three <ways>")
    assert path.name == "index.html"
    return path


@pytest.fixture(scope="module")
def shown(written):
    return tables_of(written.read_text("utf-8"))


def test_final_regrets_are_those_of_the_table(comparison, shown):
    assert [row["Algorithm"] for row in shown["final"]] == list(comparison)
    for row, (_, told) in zip(shown["final"], comparison.table().iterrows(), strict=True):
        assert row["Mean [95% interval]"] == format_interval(told.regret, told.low, told.high)
        assert row["Standard error"] == format_number(told.standard_error, 3)
        assert row["Pulls of a best arm"] == format_share(told.best_arm_share)
    verdicts = {row["Algorithm"]: row["Beside the lowest"] for row in shown["final"]}
    assert verdicts == {"dec-TS": "undecided", "alone": "more", "all-seeing": "lowest"}


def test_pairs_are_students_with_holms_correction(comparison, shown):
    ends = {name: result.regret[:, -1] for name, result in comparison.items()}
    order = sorted(ends, key=lambda name: ends[name].mean())
    pairs = list(itertools.combinations(order, 2))
    assert [(row["First"], row["Second"]) for row in shown["pairs"]] == pairs
    p_values = [stats.ttest_rel(ends[a], ends[b]).pvalue for a, b in pairs]
    for row, (a, b), p in zip(shown["pairs"], pairs, p_values, strict=True):
        difference = posse.paired_difference(comparison[a], comparison[b])
        told = format_interval(difference.mean, difference.low, difference.high)
        assert row["Difference [95% interval]"] == told
        assert row["p"] == format_p_value(p)
        # Holm: the largest of p times the number of those that are not below it
        steps = [each * sum(other >= each for other in p_values) for each in p_values if each <= p]
        assert row["p after Holm"] == format_p_value(min(1.0, max(steps)))
        assert row["Verdict"] == ("first is better" if max(steps) < 0.05 else "undecided")


def test_holms_correction_counts_every_pair():
    rng = np.random.default_rng(5)
    made = made_up(rng.normal([[1.0], [1.1], [1.2], [1.5]], 0.3, (4, 20)))
    found = score_comparison(made).pairs
    p_values = [pair.p for pair in found]
    assert any(pair.p < 0.05 and not pair.is_significant for pair in found)  # so that it is seen
    for pair in found:
        steps = [p * sum(other >= p for other in p_values) for p in p_values if p <= pair.p]
        assert pair.adjusted_p == pytest.approx(min(1.0, max(steps)))
        assert pair.is_significant == (max(steps) < 0.05)


def test_tails_are_quantiles_of_runs(comparison, shown):
    for row, result in zip(shown["tails"], comparison.values(), strict=True):
        ends = result.regret[:, -1]
        assert row["Lowest run"] == format_number(ends.min())
        assert row["Median run"] == format_number(np.quantile(ends, 0.5))
        assert row["95th percentile"] == format_number(np.quantile(ends, 0.95))
        assert row["99th percentile"] == format_number(np.quantile(ends, 0.99))
        assert row["Worst run"] == format_number(ends.max())
        assert ends[int(row["Its number"])] == ends.max()
        wrong = result.pulls.sum(axis=1).argmax(axis=1) != 0
        assert row["Wrong final leader"] == format_share(wrong.mean())


def test_agents_and_messages_are_those_that_were_kept(comparison, shown):
    for row, result in zip(shown["agents"], comparison.values(), strict=True):
        ends = np.sort(result.agent_regret[:, :, -1], axis=1)
        told = {"Best agent": ends[:, 0], "Worst agent": ends[:, -1]}
        told |= {"Median agent": ends[:, 1:3].mean(axis=1)}
        told |= {"Spread": np.sqrt(((ends - ends.mean(1, keepdims=True)) ** 2).sum(1) / 3)}
        for header, values in told.items():
            mean, _, low, high = posse.lab.mean_interval(values)
            assert row[header] == format_interval(mean, low, high)
        means = result.agent_regret[:, :, -1].mean(axis=0)
        assert row["Most on average"] == format_number(means[int(row["Which agent"])])
        assert means[int(row["Which agent"])] == means.max()
    for row, result in zip(shown["messages"], comparison.values(), strict=True):
        sent = result.numbers_sent[:, -1].mean()
        assert row["Numbers sent [95% interval]"].startswith(format_number(sent))
        assert row["A round"] == format_number(sent / 30, 3)
        assert row["Regret per agent"] == format_number(result.summary().mean)


def test_every_link_resolves_and_every_file_is_right(comparison, written):
    text = written.read_text("utf-8")
    links = re.findall(r'href="((?!#|data:)[^"]+)"', text)
    assert len(links) == len(set(links)) == 7
    for link in links:
        assert (written.parent / link).stat().st_size > 0
    files = written.parent / "files"
    again = posse.read_experiment(files / "experiment.toml")
    assert again.title == "Three <ways>"
    rerun, loaded = again.run(), posse.load(files / "results.nc")
    for name, result in comparison.items():
        np.testing.assert_array_equal(rerun[name].regret, result.regret)
        np.testing.assert_array_equal(loaded[name].agent_regret, result.agent_regret)
    table = pd.read_csv(files / "table.csv", index_col="algorithm")
    pd.testing.assert_frame_equal(table[list(comparison.table())], comparison.table())
    worst = {name: result.regret[:, -1].max() for name, result in comparison.items()}
    assert table["worst_run"].to_dict() == pytest.approx(worst)
    assert {"percentile_99_run", "worst_agent", "spread_of_agents", "numbers_sent"} <= set(table)
    pairs = pd.read_csv(files / "pairs.csv")
    assert (pairs["adjusted_p"] >= pairs["p"]).all()
    with (files / "curves.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["curve"] == "alone"]
    drawn = [float(row["regret"]) for row in rows]
    np.testing.assert_allclose(drawn, comparison["alone"].regret.mean(axis=0), rtol=1e-4)


def test_nothing_is_asked_of_the_network(written):
    text = written.read_text("utf-8")
    assert not re.search(r"""(src|href)\s*=\s*["']?\s*(https?:)?//""", text)
    assert not re.search(r"@import|url\(\s*[\"']?http|\bfetch\(|<script[^>]+src", text)
    assert "default-src 'none'" in text


def test_what_was_not_kept_is_said_once_and_has_no_section(comparison, written):
    text = rendered(compared())
    assert text.count("were not kept") == 1
    assert "Regrets of single agents and numbers sent were not kept" in text
    assert not {"agents", "messages"} & set(tables_of(text))
    assert "were not kept" not in written.read_text("utf-8")
    some = rendered(compared(keep=("agents",)))
    assert "Numbers sent were not kept: keep=(&quot;messages&quot;,) of posse.compare" in some
    assert "were not kept" not in rendered(compared(network=posse.networks.complete(1)))


LOWEST = "A0 has the lowest mean regret, {} per agent by round 9"


@pytest.mark.parametrize(
    ("ends", "runs", "said"),
    [
        ([1, 2], 20, LOWEST + ": less than the {} of A1, beyond doubt."),
        ([1, 2, 3], 20, LOWEST + ": less than each of the other 2, beyond doubt."),
        ([1, 2, 1.001], 20, LOWEST + "; but 20 runs do not tell it from A2."),
        ([1, 2], 9, LOWEST + "; but 9 runs decide nothing: verdicts need 10."),
        ([1, 2], 1, LOWEST + "; but one run decides nothing: verdicts need 10."),
        ([1], 1, "A0 loses {} per agent by round 9, in the only run."),
        ([0, 0], 20, "Nothing is lost by round 9: the regret of every run is 0."),
    ],
)
def test_the_first_line_says_who_loses_least_and_how_sure_that_is(ends, runs, said):
    noise = np.random.default_rng(3).normal(0, 0.1, (len(ends), runs))
    noise -= noise.mean(axis=1, keepdims=True)  # so that the ends are the means
    made = made_up([(end + luck) * (end > 0) for end, luck in zip(ends, noise, strict=True)])
    found = words.write_headline(score_comparison(made), 9)
    assert found == said.format(*(format_number(each.summary().mean) for each in made.values()))


def test_the_first_line_of_one_algorithm_has_its_interval():
    made = made_up([np.arange(20.0)])
    s = made["A0"].summary()
    found = words.write_headline(score_comparison(made), 9)
    assert found.startswith(
        f"A0 loses {format_interval(s.mean, s.low, s.high)} per agent by round 9: "
    )


def test_a_false_claim_is_rare():
    """Three alike: a difference is claimed in 5% of reports at most."""
    rng = np.random.default_rng(4)
    alike = [made_up(rng.gamma(4.0, 1.0, (3, 12))) for _ in range(300)]
    claims = sum(
        any(pair.is_significant for pair in score_comparison(made).pairs) for made in alike
    )
    assert claims <= stats.binom.isf(1e-4, len(alike), 0.05)


class Unnamed:
    """An algorithm that no file can name."""

    def init(self, problem):
        return problem

    def choose(self, state, t, generator):
        return generator.integers(state.n_arms, size=(state.n_runs, state.n_agents))

    def learn(self, state, arms, rewards, weights):
        return state


DRAWN = posse.Bandit.bernoulli(posse.bandits.UniformMeans(3))
ODD = {
    "one run": lambda: compared(runs=1, keep=("agents", "messages")),
    "one algorithm": lambda: compared(algorithms={"dec-TS": TWO["dec-TS"]}),
    "one round": lambda: compared(record=[30], keep=("agents", "messages")),
    "horizon 1": lambda: compared(horizon=1),
    "one agent": lambda: compared(network=posse.networks.complete(1)),
    "no regret": lambda: compared(posse.Bandit.bernoulli([0.5, 0.5]), keep=("agents", "messages")),
    "some runs": lambda: compared(runs=range(100, 112)),
    "drift": lambda: compared(BANDIT.drifting(every=10), keep=("means",)),
    "late": lambda: compared(BANDIT.delayed(mean=3)),
    "sites": lambda: compared(
        posse.Bandit.gaussian([0.5, 0.1], site_sd=0.2), keep=("agents", "means")
    ),
    "drawn": lambda: compared(DRAWN, keep=("means",)),
    "own": lambda: compared(algorithms={**TWO, "mine": Unnamed()}),
    "many agents": lambda: compared(network=posse.networks.cycle(3000), runs=2, keep=("agents",)),
    "made up": lambda: Comparison({"a": make(1, engine="x"), "b": make(2, engine="y")}),
    "two networks": lambda: Comparison(
        {"ring": compared()["dec-TS"], "star": compared(network=posse.networks.star(4))["dec-TS"]}
    ),
}


@pytest.mark.parametrize("case", ODD)
def test_anything_gives_a_sensible_page(case):
    made = ODD[case]()
    text = rendered(made)
    content = re.sub(r"<(script|style|pre).*?</\1>", "", text, flags=re.DOTALL)
    assert not re.search(r"\b(nan|NaN|None|inf)\b", content)
    found = tables_of(text)
    assert [row["Algorithm"] for row in found["final"]] == list(made)
    assert ("pairs" in found) == (len(made) > 1)
    first = next(iter(made.values()))
    assert ("tails" in found) == (first.runs > 1)
    assert ("agents" in found) == ("agents" in first.kept)
    assert ("messages" in found) == ("messages" in first.kept)
    assert ('id="curves"' in text) == (len(first.times) > 1)
    assert ("so there are no curves" in text) == (len(first.times) == 1)
    assert ("posse run files/experiment.toml" in text) == (
        case not in ("own", "made up", "two networks")
    )
    assert ("Engines differ" in text) == made.is_mixed


def test_worlds_runs_and_what_cannot_be_rerun_are_told():
    said = {case: rendered(ODD[case]()) for case in ("drift", "late", "sites", "some runs")}
    assert "bernoulli rewards, means drift" in said["drift"]
    assert "bernoulli rewards, rewards come late" in said["late"]
    assert "gaussian rewards, sites differ" in said["sites"]
    assert "runs 100 to 111" in said["some runs"]
    worst = [int(row["Its number"]) for row in tables_of(said["some runs"])["tails"]]
    assert all(100 <= number <= 111 for number in worst)
    assert "Wrong final leader" in rendered(ODD["drawn"]())
    assert "Wrong final leader" not in said["drift"] + said["sites"]
    own = rendered(ODD["own"]())
    assert "No file gives these numbers again: algorithms.mine cannot be rerun" in own
    assert "Unnamed object" in own
    assert "they differ in network" in rendered(ODD["two networks"]())


def test_one_result_has_a_report_too(tmp_path):
    result = compared()["dec-TS"]
    path = result.report(tmp_path)
    text = path.read_text("utf-8")
    assert "<h1>decentralized: 4 agents, 3 arms</h1>" in text
    loaded = posse.load(tmp_path / "files" / "results.nc")
    again = posse.read_experiment(tmp_path / "files" / "experiment.toml").run()
    for same in (loaded, again):
        assert isinstance(same, Result)
        np.testing.assert_array_equal(same.regret, result.regret)


def test_a_report_without_a_title_is_called_by_what_it_holds():
    report = build_report(compared(algorithms=NAMES, runs=2))
    isolated = "\N{FIRST STRONG ISOLATE}אלגוריתם\N{POP DIRECTIONAL ISOLATE}"
    assert report.title == f"{NASTY[:23]}…, {isolated} and {'x' * 23}…: 4 agents, 3 arms"
    assert report.rerun.experiment.title == ""
    assert report.rerun.toml.startswith('title = ""')


def test_the_line_of_lai_and_robbins_is_drawn_where_there_is_one():
    slope = theory.lai_robbins(BANDIT, 4)
    assert build_report(compared(runs=2)).regret_chart.bound.slope == pytest.approx(slope)
    for case in ("no regret", "drift", "sites", "drawn", "made up", "two networks"):
        assert build_report(ODD[case]()).regret_chart.bound is None
    unknown = SimpleNamespace(means=(0.5, 0.1), drift=None, family=SimpleNamespace())
    assert curves.least_slope(unknown, 4) is None


def test_long_curves_are_thinned():
    times = np.arange(1, 20_001)
    drawn = curves.average_curve("long", times, np.log(times)[None])
    assert (drawn.times[0], drawn.times[-1]) == (1, 20_000)
    assert 400 < len(drawn.times) < 1_000
    assert drawn.mean[-1] == pytest.approx(np.log(20_000), rel=1e-4)
    assert set(drawn.low) == {None}  # of one run


def test_many_pairs_are_folded_and_very_many_left_to_their_file():
    few = Comparison({f"a{i}": make(i, length=2, runs=10) for i in range(7)})
    text = rendered(few)
    assert "<details><summary>21 pairs</summary>" in text
    assert len(tables_of(text)["pairs"]) == 21
    many = Comparison({f"a{i}": make(i, length=2, runs=10) for i in range(26)})
    text = rendered(many)
    assert "These are 300 of 325; files/pairs.csv has all." in text
    assert len(tables_of(text)["pairs"]) == 300


def test_what_no_file_can_hold_is_told_without_a_link(comparison, tmp_path, monkeypatch):
    monkeypatch.setattr(storage, "LARGEST_ARRAY", 1000)
    monkeypatch.setattr(writing.plots, "write_comparison", lambda *given: None)
    text = comparison.report(tmp_path).read_text("utf-8")
    assert "<s>results.nc</s>" in text
    assert "a netCDF file holds 2 GB" in text
    assert 'href="files/results.nc"' not in text


def test_a_file_where_the_folder_should_be_is_refused(comparison, tmp_path):
    (tmp_path / "taken").write_text("")
    with pytest.raises(ValueError, match="taken is a file, and a report is a folder"):
        comparison.report(tmp_path / "taken")
    with pytest.raises(ValueError, match="title must be text, got 7"):
        comparison.report(tmp_path, title=7)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    made = compared(algorithms=NAMES, keep=("agents", "messages"))
    return made.report(tmp_path_factory.mktemp("hostile"), title=NASTY)


def test_no_name_becomes_markup(hostile):
    text = hostile.read_text("utf-8")
    assert text.count(SAFE) > 10
    assert "<img" not in text
    assert "<b>&" not in text
    assert text.count("</script>") == 2
    assert hostile.with_name("files").joinpath("regret.png").stat().st_size > 10_000


@pytest.fixture
def opened(browser):
    def at(path, width=1440, colours="light"):
        screen(browser, width)
        scheme(browser, colours)
        browser.get(path.as_uri())
        return browser

    yield at
    assert [entry["message"] for entry in browser.get_log("browser")] == []
    asked = "return performance.getEntriesByType('resource').map((each) => each.name)"
    assert not [name for name in browser.execute_script(asked) if not name.startswith("data:")]


@pytest.mark.parametrize(("width", "colours"), [(1440, "light"), (1440, "dark"), (375, "light")])
def test_the_page_in_a_browser(opened, written, comparison, width, colours):
    from selenium.webdriver.common.keys import Keys

    page = opened(written, width, colours)
    assert page.execute_script("return document.scrollingElement.scrollWidth") <= width
    assert len(all_of(page, 'figure[data-drawn="true"]')) == 2  # regret, and numbers sent
    for path in all_of(page, "#curves .chart :is(.curve, .band)"):
        assert re.match(r"M[\d.]+ [\d.]+L", path.get_attribute("d"))
    assert len(all_of(page, "#curves .chart .curve")) == len(comparison)
    # the keyboard reads values: the last round's are those of the table
    chart = all_of(page, "#curves .chart")[0]
    chart.send_keys(Keys.END)
    tooltip = all_of(page, "#curves .tooltip")[0]
    assert tooltip.text.startswith("Round 30")
    for name, result in comparison.items():
        assert name in tooltip.text
        assert f"{result.regret[:, -1].mean():#.4g}" in tooltip.text
    chart.send_keys(Keys.HOME)
    assert tooltip.text.startswith("Round 1\n")
    # a table sorts by its header
    button = all_of(page, "#final thead button")[1]
    page.execute_script("arguments[0].focus()", button)
    button.send_keys(Keys.ENTER)
    ends = comparison.table()["regret"].sort_values()
    assert texts(page, "#final tbody th") == list(ends.index)
    # ink and paper are told apart
    colour = "const s = getComputedStyle(document.body); return [s.color, s.backgroundColor]"
    ink, paper = (sum(map(int, re.findall(r"\d+", c)[:3])) for c in page.execute_script(colour))
    assert (ink > 600 and paper < 120) if colours == "dark" else (ink < 120 and paper > 700)


def test_hostile_names_are_text_and_fit(opened, hostile):
    page = opened(hostile, 375)
    assert page.execute_script("return document.scrollingElement.scrollWidth") <= 375
    assert texts(page, "#curves .legend button")[:3] == list(NAMES)
    assert not all_of(page, "main img")
