"""What the page says of experiments of every kind: without rewards, fading, flowing, in amounts."""

import pytest

from tests.live.http.page.watching import world

EXPERIMENTS = {
    "plain": {},
    "untried": {"stop": {"error": 0.05}},
    "waiting": {"reward_window": 3600, "default_reward": 0.0},
    "fading": {"half_life": 3600},
    "flowing": {"exchange": "flows", "network_size": 2},
    "amounts": {"family": "gaussian", "reward_range": [-50, 50], "stop": {"error": 0.05}},
}
COMMON = {"arms": ["red", "green"], "family": "bernoulli"}
AMOUNTS = {"red": -12.5, "green": 3.25}


@pytest.fixture(scope="module")
def berlin(tmp_path_factory):
    tables = {name: {**COMMON, **each} for name, each in EXPERIMENTS.items()}
    data = {"name": "berlin", "store": "berlin.db", "experiments": tables}
    beside = {"name": "paris", "store": "paris.db", "experiments": {"plain": COMMON}}
    with world(tmp_path_factory.mktemp("kinds"), berlin=data, paris=beside) as made:
        node = made.nodes["berlin"]
        for name in ("plain", "fading", "flowing", "amounts"):
            one = node.experiment(name)
            for arm, amount in AMOUNTS.items():
                for i in range(40):
                    reward = amount + (-1) ** i if name == "amounts" else float(i % 4 == 0)
                    one.reward(one.decide(allowed=[arm]).id, reward)
        for _ in range(3):
            node.experiment("waiting").decide()
        made.tick(3)
        yield made


@pytest.fixture
def look(berlin, watch):
    """The page of an experiment."""

    def opened(name):
        page = watch(f"{berlin.urls['berlin']}/#{name}")
        page.wait("document.title === arguments[0]", f"berlin / {name}: posse")
        return page

    return opened


def test_the_picker_changes_everything(berlin, watch):
    page = watch(berlin.urls["berlin"])
    page.is_drawn()
    assert page.texts("#experiment option") == list(EXPERIMENTS)
    assert page.run("document.getElementById('experiment').value") == "plain"
    page.shows("#strip", "VerdictNone")
    for name, words in {
        "amounts": "green leads: mean reward 3.",
        "untried": "No reward yet: every arm is equally likely the best.",
        "plain": "of 100 visits convert",
    }.items():
        page.find(f"#experiment option[value={name}]").click()
        page.shows("h1", words)
        assert page.run("document.title") == f"berlin / {name}: posse"
        assert page.run("decodeURIComponent(location.hash)") == f"#{name}"
    page.browser.back()
    page.shows("h1", "No reward yet")
    assert page.run("document.getElementById('experiment').value") == "untried"


def test_without_a_reward_it_says_how_to_give_one(look):
    page = look("untried")
    page.shows("#notes", "curl", "/v1/experiments/untried/decisions")
    page.shows("#strip", "None yet", "Keep going")
    assert "NaN" not in page.text("body")
    assert page.text("#counted") == page.text("#own") == "0"


def test_open_windows_are_waited_for(look):
    page = look("waiting")
    page.shows("h1", "3 visits, no reward is final yet.")
    page.shows("#lead p", "Windows close 60 min after a visit")
    assert sum(map(int, page.texts('.arms [data-name="open"]'))) == 3
    assert page.texts(".arms .rate b") == ["–", "–"]


def test_what_fades_has_no_audit(look):
    page = look("fading")
    page.shows("#strip", "No count", "VerdictNone")
    page.shows("h1", "with a half-life there is no lasting winner")
    assert page.run("document.getElementById('counted')") is None
    assert "Nothing is lost" not in page.text("#lead")
    assert page.texts('.agents tr[data-key="berlin"] td')[1] == "–"  # pulls fade: behind is unknown


def test_under_flows_the_map_says_why_it_is_empty(look):
    page = look("flowing")
    page.shows("#sites", "No sites here.", "exchange = 'origins' shows every site")
    assert page.texts("#sites table") == []
    assert page.texts(".arms tbody th bdi") == ["red", "green"]


def test_amounts_are_no_rates(look):
    page = look("amounts")
    arms = page.texts(".arms .rate b")
    page.shows("h1", f"green leads: mean reward {arms[1]}", f"{arms[0]} with red")
    assert [each[:3] for each in arms] == ["−12", "3.1"]  # the prior pulls a little
    assert page.texts('.heat tr[data-key="berlin"] .box b') == ["−12.5", "3.25"]
    for part in ("#arms", "#sites", "#lead"):
        assert "convert" not in page.text(part)
    assert "%" not in page.text("#sites")
    assert page.text("#sites-about") == "What happened: mean reward of closed visits."


def test_an_experiment_that_is_not_there(berlin, watch):
    page = watch(f"{berlin.urls['berlin']}/#none")
    page.shows("#notice", "This agent has no such experiment")
    page.find("#notice a").click()
    page.shows("h1", "red leads")


def test_controls_of_the_whole_agent_are_in_its_notes(berlin, look):
    one = berlin.nodes["berlin"].experiment("amounts")
    page = look("amounts")
    for arm in ("red", "green"):
        one.pause(arm)
    page.shows("#notes", "Every arm is paused: no decision can be made here.")
    page.shows("h1", "green leads")
    one.resume()
    page.wait("!document.querySelector('#notes .bad')")
    one.pin("red")
    page.shows("#notes", "red gets every visit here until somebody resumes.")
    page.shows('.arms tr[data-key="red"] .badge', "pinned")
    one.resume()
    page.wait("!document.querySelector('.arms .badge.good')")


def test_an_audit_that_does_not_balance_is_not_said_to(look):
    page = look("plain")
    assert "nothing lost" in page.text("#strip")
    news = """
        const [audit, done] = arguments;
        import(new URL("assets/agent.js", location.href))
          .then(({ take }) => done(take({ now: 1, sections: { audit } }, true)));"""
    for counted, own, words in (
        (80, 77, "3 decisions counted here are missing in this agent's evidence."),
        (80, 85, "Neighbours hold 5 decisions of this agent that its disk had lost"),
    ):
        audit = {"counted": counted, "in_evidence": own, "in_network": own}
        page.browser.execute_async_script(news, audit)
        assert page.text("#strip .sum") == f"{counted}≠{own}{abs(own - counted)} apart"
        assert words in page.text("main")
        assert "Nothing is lost" not in page.text("#lead")
