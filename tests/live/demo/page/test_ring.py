"""Views are kept as what changed, the last of them only, and can be put together again."""

import json

from posse.live.demo.page.views import Ring


def put_together(changes, views=()):
    views = list(views)
    for each in map(json.loads, changes):
        views = [] if each["whole"] else views
        views.append((views[-1] if views else {}) | each["view"] | {"number": each["number"]})
    return views


def test_changes_make_views_again():
    ring = Ring()
    shown = [{"time": i, "arms": ["red", "green"], "lost": i // 3} for i in range(9)]
    for view in shown:
        ring.add(view)
    changes, last = ring.since(0)
    assert [each | {"number": i + 1} for i, each in enumerate(shown)] == put_together(changes)
    assert last == 9
    assert json.loads(changes[4])["view"] == {"time": 4}
    assert ring.newest == shown[-1]
    later, _ = ring.since(7)
    assert put_together(later, put_together(changes[:7])) == put_together(changes)
    assert ring.since(9) == ([], 9)


def test_only_the_last_views_are_kept():
    ring = Ring(most=5)
    for i in range(12):
        ring.add({"time": i, "once": i // 10, "always": 1})
    changes, last = ring.since(0)
    assert put_together(changes) == [
        {"time": i, "once": i // 10, "always": 1, "number": i + 1} for i in range(7, 12)
    ]
    assert last == 12
    assert json.loads(changes[0])["whole"]
    assert len(ring.since(7)[0]) == 5
    assert ring.since(6) == ring.since(0)  # who is too far behind begins anew
    assert ring.since(99) == ring.since(0)  # and who comes from another run


def test_what_did_not_change_is_no_view():
    ring, told = Ring(start=1000), []
    ring.tell(lambda: told.append(1))
    assert ring.since(0) == ([], 0)
    ring.add({"lost": None})
    ring.add({"lost": None})
    assert len(told) == 1
    assert ring.since(0)[1] == 1001
    ring.end()
    assert ring.ended
    assert len(told) == 2
