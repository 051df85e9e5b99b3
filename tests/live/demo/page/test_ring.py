"""Views are kept as what changed, the last of them only, and can be put together again."""

import json

from posse.live.demo.page.views import ViewLog


def put_together(changes, views=()):
    views = list(views)
    for each in map(json.loads, changes):
        views = [] if each["whole"] else views
        views.append((views[-1] if views else {}) | each["view"] | {"number": each["number"]})
    return views


def test_changes_make_views_again():
    ring = ViewLog()
    shown = [{"time": i, "arms": ["red", "green"], "lost": i // 3} for i in range(9)]
    for view in shown:
        ring.append_view(view)
    changes, last = ring.changes_since(0)
    assert [each | {"number": i + 1} for i, each in enumerate(shown)] == put_together(changes)
    assert last == 9
    assert json.loads(changes[4])["view"] == {"time": 4}
    assert ring.newest == shown[-1]
    later, _ = ring.changes_since(7)
    assert put_together(later, put_together(changes[:7])) == put_together(changes)
    assert ring.changes_since(9) == ([], 9)


def test_only_the_last_views_are_kept():
    ring = ViewLog(most=5)
    for i in range(12):
        ring.append_view({"time": i, "once": i // 10, "always": 1})
    changes, last = ring.changes_since(0)
    assert put_together(changes) == [
        {"time": i, "once": i // 10, "always": 1, "number": i + 1} for i in range(7, 12)
    ]
    assert last == 12
    assert json.loads(changes[0])["whole"]
    assert len(ring.changes_since(7)[0]) == 5
    assert ring.changes_since(6) == ring.changes_since(0)  # who is too far behind begins anew
    assert ring.changes_since(99) == ring.changes_since(0)  # and who comes from another run


def test_what_did_not_change_is_no_view():
    ring, told = ViewLog(start=1000), []
    ring.subscribe(lambda: told.append(1))
    assert ring.changes_since(0) == ([], 0)
    ring.append_view({"lost": None})
    ring.append_view({"lost": None})
    assert len(told) == 1
    assert ring.changes_since(0)[1] == 1001
    ring.close()
    assert ring.ended
    assert len(told) == 2
