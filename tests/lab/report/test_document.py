"""What the report pages share: every text is escaped, and nothing is asked of the network."""

import base64
import re

import pytest

from posse.lab.report import text as formats
from posse.lab.report.curves import Chart, Curve, place_chart
from posse.lab.report.document import (
    Section,
    fold_content,
    link_files,
    render_document,
    render_facts,
    render_figure,
    render_image,
)
from posse.lab.report.html import (
    Html,
    TableCell,
    escape_text,
    render_badge,
    render_element,
    render_table,
)

NASTY = "</script><!-- <b>&\"'"
SAFE = "&lt;/script&gt;&lt;!-- &lt;b&gt;&amp;&quot;&#x27;"


def test_every_text_is_escaped_wherever_it_stands():
    charts = [Chart(NASTY, [Curve(NASTY, [1], [1.0], [None], [None])])]
    parts = [
        NASTY,
        render_table(
            NASTY,
            [NASTY],
            [[NASTY, NASTY], [TableCell(NASTY, 1.0), render_badge(NASTY)]],
            sortable=True,
        ),
        render_figure(render_image(b"png", NASTY), NASTY),
        fold_content(NASTY, NASTY),
        link_files([f"{NASTY}.csv"]),
        *map(place_chart, charts),
    ]
    section = Section(NASTY, NASTY, parts, link=NASTY, tooltip=NASTY)
    page = render_document(NASTY, [section], summary=render_facts([NASTY]), charts=charts)
    assert page.count("<!--") == 2  # the page's own
    assert "<b>" not in page
    assert page.count(SAFE) == 23
    assert len(re.findall("</script>", page)) == 2


def test_a_part_that_is_text_is_a_paragraph_and_markup_stays_as_it_is():
    section = Section("one", "One", ["1 < 2", "", Html("<hr>")])
    page = render_document("Title", [section])
    assert '<section id="one">\n<h2>One</h2>\n<p>1 &lt; 2</p>\n<hr>\n</section>' in page
    assert '<li><a href="#one">One</a></li>' in page


def test_the_page_asks_the_network_for_nothing():
    page = render_document("Title", [Section("one", "One", [render_image(b"png", "a picture")])])
    assert base64.b64encode(b"png").decode() in page
    assert "default-src 'none'" in page
    assert not re.search(r"""(src|href)\s*=\s*["']?\s*(https?:)?//""", page)


def test_a_table_sorts_by_numbers_and_marks_what_is_the_readers_own():
    made = render_table(
        "Ranks",
        ["Name", "Rank"],
        [["a", TableCell("first", 1.0)], ["b", None]],
        sortable=True,
        marked=[False, True],
    )
    assert '<td data-by="1">first</td>' in made
    assert '<tr class="own"><th scope="row">b</th><td>–</td></tr>' in made
    assert made.count('aria-sort="none"') == 2
    assert render_table("Nothing", ["Name"], []) == ""


def test_attributes_are_written_or_left_out():
    made = render_element("a", class_="b", aria_label="c", hidden=True, title=None, x=0.1 + 0.2)
    assert made == '<a class="b" aria-label="c" hidden x="0.3"></a>'
    assert escape_text(None) == "–"


@pytest.mark.parametrize(
    ("text", "written"),
    [
        (formats.format_number(-12345.678), "−12,346"),
        (formats.format_number(0.00001234), "1.234e-05".replace("-", "−")),
        (formats.format_number(float("nan")), "–"),
        (formats.format_interval(-1.5, -2.0, -1.0), "−1.500 [−2.000, −1.000]"),
        (formats.format_interval(1.5, None, 2.0), "1.500"),
        (formats.format_interval(2e-8, 1e-8, 3e-8), "2.000e−08 [1.000e−08, 3.000e−08]"),
        (formats.format_with_error(27.63, 0.25), "27.63 ± 0.250"),
        (formats.format_share(0.1234), "12.3%"),
        (formats.format_p_value(1e-9), "< 0.0001"),
        (formats.format_duration(3725), "1 h 2 min"),
        (formats.count_things(1, "run") + formats.count_things(1200, "run"), "1 run1,200 runs"),
    ],
)
def test_numbers_are_written_for_readers(text, written):
    assert text == written


def test_an_image_that_is_cut_on_a_narrow_screen_scrolls_by_the_keyboard():
    image = render_image(b"png", "a picture")
    assert 'class="image"' in image
    assert 'tabindex="0"' in image
    assert 'aria-label="a picture"' in image
