"""What the report pages share: every text is escaped, and nothing is asked of the network."""

import base64
import re

import pytest

from posse.lab.report import text as formats
from posse.lab.report.curves import Chart, Curve, place
from posse.lab.report.document import Section, document, facts, figure, files, folded, image
from posse.lab.report.html import Cell, Html, badge, element, markup, table

NASTY = "</script><!-- <b>&\"'"
SAFE = "&lt;/script&gt;&lt;!-- &lt;b&gt;&amp;&quot;&#x27;"


def test_every_text_is_escaped_wherever_it_stands():
    charts = [Chart(NASTY, [Curve(NASTY, [1], [1.0], [None], [None])])]
    parts = [
        NASTY,
        table(NASTY, [NASTY], [[NASTY, NASTY], [Cell(NASTY, 1.0), badge(NASTY)]], sortable=True),
        figure(image(b"png", NASTY), NASTY),
        folded(NASTY, NASTY),
        files([f"{NASTY}.csv"]),
        *map(place, charts),
    ]
    section = Section(NASTY, NASTY, parts, link=NASTY, tooltip=NASTY)
    page = document(NASTY, [section], summary=facts([NASTY]), charts=charts)
    assert page.count("<!--") == 2  # the page's own
    assert "<b>" not in page
    assert page.count(SAFE) == 22
    assert len(re.findall("</script>", page)) == 2


def test_a_part_that_is_text_is_a_paragraph_and_markup_stays_as_it_is():
    section = Section("one", "One", ["1 < 2", "", Html("<hr>")])
    page = document("Title", [section])
    assert '<section id="one">\n<h2>One</h2>\n<p>1 &lt; 2</p>\n<hr>\n</section>' in page
    assert '<li><a href="#one">One</a></li>' in page


def test_the_page_asks_the_network_for_nothing():
    page = document("Title", [Section("one", "One", [image(b"png", "a picture")])])
    assert base64.b64encode(b"png").decode() in page
    assert "default-src 'none'" in page
    assert not re.search(r"""(src|href)\s*=\s*["']?\s*(https?:)?//""", page)


def test_a_table_sorts_by_numbers_and_marks_what_is_the_readers_own():
    made = table(
        "Ranks",
        ["Name", "Rank"],
        [["a", Cell("first", 1.0)], ["b", None]],
        sortable=True,
        marked=[False, True],
    )
    assert '<td data-by="1">first</td>' in made
    assert '<tr class="own"><th scope="row">b</th><td>–</td></tr>' in made
    assert made.count('aria-sort="none"') == 2
    assert table("Nothing", ["Name"], []) == ""


def test_attributes_are_written_or_left_out():
    made = element("a", class_="b", aria_label="c", hidden=True, title=None, x=0.1 + 0.2)
    assert made == '<a class="b" aria-label="c" hidden x="0.3"></a>'
    assert markup(None) == "–"


@pytest.mark.parametrize(
    ("text", "written"),
    [
        (formats.number(-12345.678), "−12,346"),
        (formats.number(0.00001234), "1.234e-05".replace("-", "−")),
        (formats.number(float("nan")), "–"),
        (formats.interval(-1.5, -2.0, -1.0), "−1.500 [−2.000, −1.000]"),
        (formats.interval(1.5, None, 2.0), "1.500"),
        (formats.interval(2e-8, 1e-8, 3e-8), "2.000e−08 [1.000e−08, 3.000e−08]"),
        (formats.with_error(27.63, 0.25), "27.63 ± 0.250"),
        (formats.share(0.1234), "12.3%"),
        (formats.probability(1e-9), "< 0.0001"),
        (formats.duration(3725), "1 h 2 min"),
        (formats.counted(1, "run") + formats.counted(1200, "run"), "1 run1,200 runs"),
    ],
)
def test_numbers_are_written_for_readers(text, written):
    assert text == written
