"""The picker of segments in a real browser: arms of the visitors that it names."""

import numpy as np
import pytest

from tests.live.http.page.watching import one, world
from tests.live.visits import SCHEMA, TABLES, visit

ODD = {"<b>odd</b>": ["<script>alert(1)</script>", "b"]}


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    settings = {"family": TABLES["logistic"], "context": {**SCHEMA, **ODD}}
    names = {name: one(name, **settings) for name in ("berlin", "paris")}
    with world(tmp_path_factory.mktemp("shop"), **names) as made:
        only, generator = made.nodes["berlin"].experiment(), np.random.default_rng(1)
        for nth in range(60):
            context = visit(generator, **{"<b>odd</b>": "b"})
            only.reward(only.decide(context=context).id, float(nth % 4 == 0))
        made.tick(2)
        yield made


def choose(page, field, text):
    from selenium.webdriver.support.ui import Select

    Select(page.find(f'#segments select[data-field="{field}"]')).select_by_visible_text(text)


def shown(page, arm):
    return page.text(f'.arms tr[data-key="{arm}"] .rate b')


def rate(arms, name):
    return f"{100 * arms[name].mean:.2f}%"


def test_what_happened_is_told_from_what_an_average_visitor_would_do(shop, watch):
    agent = shop.nodes["berlin"].experiment().agent
    page = watch(shop.urls["berlin"])
    page.is_drawn()
    leader = max(agent.arms().items(), key=lambda item: item[1].mean)
    assert f"{leader[0]} leads for the average visitor" in page.text("h1")
    assert f"{100 * leader[1].mean:.1f} of 100 would convert" in page.text("h1")
    # 15 of 60 visits were rewarded, whichever their arms
    assert (
        "What happened: 25.0 of 100 visits converted, with arms chosen by visitor. "
        in page.text("#lead p")
    )
    assert "Each arm got other visitors." in page.text("#sites-about")
    tips = page.run("[...document.querySelectorAll('td.gain')].map((each) => each.dataset.tip)")
    assert "The gain from sharing at \u2068berlin\u2069 is not computed with contexts." in tips


def test_a_linear_model_says_what_the_leader_alone_would_have_brought(tmp_path, watch):
    settings = {"family": TABLES["linear"], "context": SCHEMA, "reward_range": [-5, 5]}
    with world(tmp_path, berlin=one("berlin", **settings), paris=one("paris", **settings)) as made:
        only, generator = made.nodes["berlin"].experiment(), np.random.default_rng(3)
        visitors = [visit(generator, hour=12.0) for _ in range(80)]  # nothing is left out
        rewards = []
        for context in visitors:
            decision = only.decide(context=context)
            likes = (decision.arm == "red") == context["returning"]
            rewards.append(2.0 * likes)
            only.reward(decision.id, rewards[-1])
        made.tick(2)
        arms = only.agent.arms()
        leader = max(arms, key=lambda name: arms[name].mean)
        # at the average visitor the model predicts the average over the visitors
        alone = np.mean([only.agent.arms(context=each)[leader].mean for each in visitors])
        assert arms[leader].mean == pytest.approx(alone, abs=1e-3)
        page = watch(made.urls["berlin"])
        page.is_drawn()
        text = page.text("#lead p")
        assert f"What happened: the mean reward was {float(f'{np.mean(rewards):.3g}'):g}" in text
        assert f"about {float(f'{alone:.3g}'):g} if all had got {leader}." in text


def test_arms_of_a_segment(shop, watch):
    agent = shop.nodes["berlin"].experiment().agent
    page = watch(shop.urls["berlin"])
    page.is_drawn()
    assert page.texts("#segments label bdi") == [*SCHEMA, *ODD]
    page.shows("#arms-about", "What to expect of an average visitor")
    assert shown(page, "red") == rate(agent.arms(), "red")
    assert "each kind of visitor may have another" in page.text("h1")
    choose(page, "country", "de")
    choose(page, "returning", "yes")
    page.shows("#arms-about", "visitors with country de, returning yes")
    page.wait("!document.getElementById('arms-about').textContent.includes('loading')")
    at = agent.arms(context={"country": "de", "returning": True})
    assert [shown(page, name) for name in at] == [rate(at, name) for name in at]
    only = shop.nodes["berlin"].experiment()  # more is learned while it is looked at
    for _ in range(20):
        made = only.decide(context={**visit(np.random.default_rng(2)), "<b>odd</b>": "b"})
        only.reward(made.id, 1.0)
    at = agent.arms(context={"country": "de", "returning": True})
    page.wait(
        "document.querySelector('.arms tr[data-key=\"red\"] .rate b').textContent === arguments[0]",
        rate(at, "red"),
    )
    choose(page, "country", "average")
    choose(page, "returning", "average")
    page.shows("#arms-about", "What to expect of an average visitor")
    options = page.texts('#segments select[data-field="<b>odd</b>"] option')
    assert options == ["average", *ODD["<b>odd</b>"]]
    for name in ("hour", "basket"):  # numbers: their ends and the middle
        low, high = SCHEMA[name]["low"], SCHEMA[name]["high"]
        ends = [f"{each:g}" for each in (low, (low + high) / 2, high)]
        assert page.texts(f'#segments select[data-field="{name}"] option')[1:] == ends
    assert page.overflow() <= 0


def test_without_contexts_there_is_no_picker(tmp_path, watch):
    both = {name: one(name) for name in ("berlin", "paris")}
    with world(tmp_path, **both) as plain:
        page = watch(plain.urls["berlin"])
        page.is_drawn()
        assert page.run("document.getElementById('segments').hidden")
        assert "average" not in page.text("#arms-about")
