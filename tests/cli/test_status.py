"""`posse status` for people and programs: several agents, odd names, no verdict."""

import json
import time

import pytest
from rich.cells import cell_len

from posse.cli import status_tables as overview
from posse.live.store import Unknown
from tests.cli.calling import posse, said

URL, OTHER, DOWN, BARE = (f"http://127.0.0.1:870{n}" for n in range(4))
LONG = "x" * 200
ODD = ["[bold]red[/bold]", "<script>", "שלום עולם", LONG, "緑の腕" * 30, "\x1b[31mred\u202e"]
NUMBERS = {
    "mean": -0.000123456, "low": -0.00123456, "high": 0.00123456, "probability_best": 0.99999,
    "expected_loss": 0.000123456, "pulls_here": 999_999, "pulls_in_network": 1e8,
    "open_here": 123_456, "open_in_network": 12_345_678,
}  # fmt: skip


class Agent:
    """A client in whose place nobody is asked."""

    def __init__(self, url, experiment=None, **options):
        self.url, self.experiment = url, experiment
        self.asked = []
        made.append(self)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def _answer(self, what, answer):
        self.asked.append(what)
        if self.url == DOWN:
            raise ConnectionError(f"no agent answers at {DOWN}: is it running?")
        if self.url == BARE and what in ("verdict", "audit"):
            raise Unknown(f"there is no GET /v1/{what}")
        return answer

    def _arms(self):
        return self.arms_of["checkout" if self.experiment is None else self.experiment]

    def network(self):
        neighbour = {"identity": None, "active": True, "last_heard": 0.0, "lag": 12_345}
        near = {name: {**neighbour, "connected": False} for name in ("paris", *ODD)}
        refused = {LONG: 7, "[bold]": 1}
        return self._answer(
            "network", {"neighbours": near, "refused": refused, "agents_known": 10**6}
        )

    def experiments(self):
        sites = {"read": "alike", "alike": 0.1, "differ": f"sites differ (arm {LONG})",
                 "loss_alone": 0.1, "loss_shared": 0.01}  # fmt: skip
        about = {
            "late_rewards": 10**7,
            "longest_lateness": 1e9,
            "superseded_rewards": 3,
            "sites": sites,
        }
        about["rewards"] = 10**9
        return self._answer("experiments", {"experiments": dict.fromkeys(self.arms_of, about)})

    def controls(self):
        arms = self._arms()
        return self._answer("controls", {"pinned": arms[0], "paused": arms[1:]})

    def verdict(self):
        return self._answer("verdict", {"verdict": "winner", "sentence": f"{LONG} wins"})

    def audit(self):
        return self._answer(
            "audit", {"counted": 41_322, "in_evidence": 41_322.0, "in_network": 123_456.0}
        )

    def history(self, scale="day"):
        steps = range(120)
        series = {"pulls": [*steps], "closed": [*steps], "rewards": [n / 2 for n in steps]}
        arms = {name: {"here": series, "network": series} for name in self._arms()}
        times = [1_700_000_040 + 60 * n for n in steps]
        return self._answer("history", {"times": times, "arms": arms, "fading": False})

    def arms(self):
        return self._answer("arms", dict.fromkeys(self._arms(), NUMBERS))


made = []


@pytest.fixture(autouse=True)
def agents(monkeypatch):
    arms = {"checkout": ["red", "green"], LONG: ODD}
    monkeypatch.setattr(Agent, "arms_of", arms, raising=False)
    monkeypatch.setattr("posse.live.client.Client", Agent)
    made.clear()


@pytest.fixture
def watch(monkeypatch, capsys):
    """What is on the screen after some seconds."""

    def watch(*arguments, seconds=3):
        waits = iter([None] * seconds)

        def sleep(_):
            if next(waits, "over"):
                raise KeyboardInterrupt

        monkeypatch.setattr(time, "sleep", sleep)
        code, out, err = said(capsys, "status", *arguments, "--watch")
        assert code == 130, err
        return out

    return watch


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("watching", [False, True])
def test_whatever_names_there_are_it_fits(capsys, monkeypatch, watch, width, watching):
    monkeypatch.setenv("COLUMNS", str(width))
    if watching:
        out = watch(URL, OTHER)
    else:
        code, out, _ = said(capsys, "status", URL, OTHER)
        assert code == 0
    lines = out.splitlines()
    assert max(map(cell_len, lines)) <= width
    for name in ("[bold]red", "<script>", "שלום", "xxxxx", "緑の腕"):
        rows = [line for line in lines if line.lstrip("\u2068").startswith(name[:4])]
        assert rows, name
    assert "\x1b[31m" not in out
    assert "\u202e" not in out
    # an arm is one line, all of whose numbers are there
    assert sum("-0.00123 to 0.00123" in line and "100.00M" in line for line in lines) == 2 * 8
    assert sum(" days ago " in line and line.split()[-1] == "12345" for line in lines) == 2 * 7
    isolated = [line for line in lines if "שלום" in line and "to 0.00123" in line]
    assert all(line.startswith("\u2068") and "\u2069" in line for line in isolated)


def test_the_audit_says_whether_the_counts_agree(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    _, out, _ = said(capsys, "status", URL, "--experiment", "checkout")
    assert (
        "audit: 41,322 decisions counted, 41,322 in the evidence; 123,456 in the network\n" in out
    )
    restored = {"counted": 4, "in_evidence": 7.0, "in_network": 7.0}
    assert list(overview.describe_audit(restored)) == [
        "audit: 4 decisions counted, 7 in the evidence "
        "(the store was restored from a copy; nothing is missing)"
    ]
    lost = {"counted": 7, "in_evidence": 4.0, "in_network": 4.0}
    assert "3 ARE MISSING" in next(overview.describe_audit(lost))
    assert not [*overview.describe_audit(None)]


@pytest.mark.parametrize(
    ("connected", "known", "sentence"),
    [
        ((True, True), 1, "2 neighbours connected; evidence from 1 agent so far"),
        ((True, False), 2, "1 of 2 neighbours connected; evidence from 2 agents so far"),
        ((True, True), 3, "2 neighbours connected; evidence from 3 agents"),
        ((True,), 2, "1 neighbour connected; evidence from 2 agents"),
        ((), 1, "0 neighbours connected; evidence from 1 agent"),
    ],
)
def test_connections_and_evidence_are_different_things(connected, known, sentence):
    neighbours = {f"n{i}": {"connected": up} for i, up in enumerate(connected)}
    network = {"neighbours": neighbours, "agents_known": known}
    assert overview.describe_neighbours(network) == sentence


def test_the_last_hours_are_drawn(watch, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    out = watch(URL, "--experiment", "checkout")
    assert "share of decisions here, and mean reward, over the last 2 hours\n" in out
    lines = [line.split() for line in out.splitlines()]
    (red,) = [line for line in lines if line[:1] == ["red"] and len(line) == 3]
    assert set(red[1]) == {"▅"}  # half of the visits
    assert red[2] == "50%"
    (rate,) = [line for line in lines if line[:2] == ["reward", "rate"]]
    assert set(rate[2]) == {"█"}
    assert rate[3] == "0.5"


def test_a_terminal_without_such_characters(watch, monkeypatch):
    monkeypatch.setattr("rich.console.Console.encoding", property(lambda console: "ascii"))
    out = watch(URL, "--experiment", "checkout")
    assert not set("▁▂▃▄▅▆▇█") & set(out)
    assert "====" in out


def test_only_some_arms_are_drawn(watch, monkeypatch):
    monkeypatch.setattr(Agent, "arms_of", {"checkout": [f"arm {n}" for n in range(50)]})
    lines = watch(URL, "--experiment", "checkout").splitlines()
    assert sum("2%" in line for line in lines) == overview.DRAWN


def test_a_history_is_asked_for_once_a_minute(watch):
    """It is large, and has a point a minute."""
    watch(URL, "--experiment", "checkout", seconds=30)
    asked = [what for each in made for what in each.asked]
    assert asked.count("arms") > 30
    assert asked.count("history") == 1


def test_without_watching_no_history_is_asked_for(capsys):
    assert posse("status", URL) == 0
    assert "history" not in [what for each in made for what in each.asked]


def test_one_document_for_programs(capsys):
    code, out, err = said(capsys, "status", URL, OTHER, "--json")
    assert (code, err) == (0, "")
    assert out.isascii()
    document = json.loads(out)
    assert [each["url"] for each in document["agents"]] == [URL, OTHER]
    (first, _) = document["agents"]
    assert list(first) == ["url", "experiments", "network"]
    assert first["network"]["agents_known"] == 10**6
    assert list(first["experiments"]) == ["checkout", LONG]
    odd = first["experiments"][LONG]
    assert odd["arms"] == dict.fromkeys(ODD, NUMBERS)
    assert odd["controls"]["pinned"] == ODD[0]
    assert odd["verdict"]["verdict"] == "winner"
    assert odd["audit"] == {"counted": 41_322, "in_evidence": 41_322.0, "in_network": 123_456.0}
    assert odd["late_rewards"] == 10**7
    code, out, _ = said(capsys, "status", URL, "--json", "--experiment", "checkout")
    assert list(json.loads(out)["agents"][0]["experiments"]) == ["checkout"]


def test_an_agent_that_does_not_answer_is_an_entry_with_an_error(capsys):
    code, out, err = said(capsys, "status", DOWN, URL, "--json")
    assert (code, err) == (1, "")
    down, up = json.loads(out)["agents"]
    assert down == {"url": DOWN, "error": f"no agent answers at {DOWN}: is it running?"}
    assert "error" not in up
    code, out, _ = said(capsys, "status", URL, "--json", "--experiment", "cart")
    assert code == 1
    assert "has no experiment cart" in json.loads(out)["agents"][0]["error"]


def test_one_document_is_not_watched(capsys):
    code, out, err = said(capsys, "status", URL, "--json", "--watch")
    assert (code, out) == (2, "")
    assert "leave out --watch" in err


def test_others_are_shown_beside_one_that_does_not_answer(capsys, watch):
    code, out, err = said(capsys, "status", DOWN, URL, DOWN)
    assert code == 2
    assert f"as seen by {URL}" in " ".join(out.split())
    assert err == f"posse: no agent answers at {DOWN}: is it running?\n" * 2
    out = watch(DOWN, URL)
    assert f"no agent answers at {DOWN}" in out
    assert f"as seen by {URL}" in " ".join(out.split())
    assert posse("status", DOWN, "--watch") == 2


def test_an_experiment_without_verdict_and_audit_is_shown_without_them(capsys):
    """It has no `stop`, and a half-life."""
    code, out, _ = said(capsys, "status", BARE)
    assert code == 0
    assert not {"audit", "verdict"} & set(out.replace(":", " ").split())
    code, out, _ = said(capsys, "status", BARE, "--json")
    assert code == 0
    for only in json.loads(out)["agents"][0]["experiments"].values():
        assert (only["verdict"], only["audit"]) == (None, None)


@pytest.mark.parametrize(
    ("text", "shown"),
    [("a\nb", "a�b"), ("\x1b[2J", "�[2J"), ("\u202eabc", "�abc"), ("é 緑 שלום", "é 緑 שלום")],
)
def test_text_of_others_steers_no_terminal(text, shown):
    assert overview.make_printable(text) == shown


CONTEXT = {
    "fields": {"country": ["de", "fr"], "new": "flag", "basket": {"low": 0, "high": 500}},
    "average": {"country=de": 0.5, "country=fr": 0.3, "new": -0.2, "basket": 0.1},
    "unknown": {"country": 14},
    "clipped": {"basket": 0},
}


@pytest.fixture
def shop(monkeypatch):
    """Agents whose visitors differ, and what they are asked at."""
    asked = []

    def experiments(self):
        return self._answer("experiments", {"experiments": {"checkout": {"context": CONTEXT}}})

    def arms(self, context=None):
        asked.append(context)
        return self._answer("arms", dict.fromkeys(self._arms(), NUMBERS))

    monkeypatch.setattr(Agent, "experiments", experiments)
    monkeypatch.setattr(Agent, "arms", arms)
    return asked


def test_arms_are_asked_for_at_a_context(capsys, shop):
    code, out, _ = said(capsys, "status", URL)
    assert code == 0
    assert f"arms, as seen by {URL}, on average" in " ".join(out.split())
    assert "contexts: country 14 unknown\n" in out
    given = ("--context", "country=de", "--context", "new=true", "--context", "basket=31.5")
    code, out, _ = said(capsys, "status", URL, *given)
    assert code == 0
    assert ", for country=de, new=True, basket=31.5" in " ".join(out.split())
    assert shop == [None, {"country": "de", "new": True, "basket": 31.5}]
    code, out, _ = said(capsys, "status", URL, "--json", "--context", "country=de")
    assert json.loads(out)["agents"][0]["experiments"]["checkout"]["at"] == {"country": "de"}


@pytest.mark.parametrize("wrong", ["country", "=de", ""])
def test_a_context_that_is_no_pair_is_refused(capsys, wrong):
    code, _, err = said(capsys, "status", URL, "--context", wrong)
    assert code == 2
    assert "--context must be NAME=VALUE, for example country=de" in err
