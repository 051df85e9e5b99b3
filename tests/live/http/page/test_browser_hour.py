"""Many news, a change a second, fed fast: the page does not grow."""

from tests.live.http.page.feeding import feed, size
from tests.live.http.page.watching import one, world

HOUR, PART = 3600, 6  # `make screenshots` feeds a whole hour


def test_ten_minutes_of_news_leave_the_page_as_large_as_it_was(tmp_path, watch):
    settings = {name: one(name, stop={"error": 0.05}) for name in ("berlin", "paris")}
    with world(tmp_path, **settings) as made:
        made.visit("berlin", "default", 20)
        made.tick(2)
        for _ in range(4):
            made.now += 50
            made.tick()
        page = watch(made.urls["berlin"])
        page.is_drawn()
        page.wait("document.querySelector('#chart svg path.curve')")
        feed(page.browser, 0, 121)
        heap, nodes = size(page.browser)
        feed(page.browser, 121, 121 + HOUR // PART)
        grown, others = size(page.browser)
        page.leave()
    assert grown - heap < 10e6 / PART
    assert abs(others - nodes) < 50
