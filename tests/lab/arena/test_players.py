"""Who plays what: asked of the algorithms themselves, and said in a sentence."""

import pytest

from posse.lab.arena import players as line_up
from posse.lab.arena import players as strangers
from posse.lab.arena import report_data as data
from posse.lab.arena import suite
from posse.lab.arena.tournament import Arena, Form

TINY = Form("custom", 3, 30, 1)

MINE = '''
import numpy as np

class Uniform:
    """Plays any arm."""

    def init(self, problem):
        if problem.n_arms == 17 and problem.n_agents == 36:
            raise ValueError("Uniform does not like 17 arms")
        return problem

    def choose(self, problem, t, generator):
        draws = generator.random((problem.n_runs, problem.n_agents))
        return (draws * problem.n_arms).astype(int)

    def learn(self, problem, arms, rewards, weights):
        return problem

class Late(Uniform):
    def choose(self, problem, t, generator):
        if t > 20 and problem.n_agents == 4:
            raise RuntimeError("tired")
        return super().choose(problem, t, generator)

class Never(Uniform):
    def init(self, problem):
        raise KeyError("nothing")

class Wants:
    def __init__(self, number):
        self.number = number

made = Uniform()
number = 3
'''


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """A file of a stranger's algorithms, forgotten afterwards."""
    import sys

    monkeypatch.setattr(sys, "path", list(sys.path))
    path = tmp_path / f"mine_{tmp_path.name.replace('-', '_')}.py"
    path.write_text(MINE)
    yield path
    sys.modules.pop(path.stem, None)


def test_everybody_has_a_source_and_plays_something():
    players = line_up.list_players()
    assert next(iter(players)) == line_up.REFERENCE
    for name, player in players.items():
        assert player.name == name
        assert player.entrant.source in data.MARKS
        assert player.entrant.ranked == (player.entrant.source != data.BOUND)


def test_every_algorithm_plays_every_instance_or_says_why_not(tmp_path):
    arena = Arena(suite.load_suite().instances, line_up.list_players(), TINY, tmp_path)
    names = list(arena.players)
    every = [(instance.number, name) for instance in arena.instances for name in names]
    assert set(arena.jobs) | set(arena.refusals) == set(every)
    assert not set(arena.jobs) & set(arena.refusals)
    for (_, name), why in arena.refusals.items():
        assert len(why) > 20, name
        assert "\n" not in why
    # the paper's algorithms and the plain baselines play everything
    for name in ("dec-TS", "dec-Bayes-UCB", "flooding TS", "isolated TS", "centralized TS"):
        assert all((number, name) in arena.jobs for number in range(1, 25))
    assert "static network" in arena.refusals[21, "coop-UCB"]
    assert "sub-Gaussian constant is not known" in arena.refusals[19, "coop-UCL"]


def test_algorithms_are_chosen_by_name_and_the_reference_always_plays():
    assert list(line_up.choose_players(["DDUCB"])) == ["dec-TS", "DDUCB"]
    with pytest.raises(ValueError, match="is unknown: allowed are dec-TS"):
        line_up.choose_players(["nobody"])


def test_a_stranger_is_a_class_or_an_instance(mine):
    players = strangers.load_players([f"{mine}:Uniform", f"{mine}:made"], line_up.list_players())
    assert list(players) == ["Uniform", "made"]
    assert {player.entrant.source for player in players.values()} == {data.YOURS}
    (twice,) = strangers.load_players([f"{mine}:Uniform"], ["Uniform"])
    assert twice == "Uniform (yours)"
    (dotted,) = strangers.load_players([f"{mine.stem}:Uniform"], [])
    assert dotted == "Uniform"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("Uniform", "is named as in mine.py:MyAlgorithm"),
        ("{mine}:Nobody", "has no 'Nobody'"),
        ("{mine}:Wants", "cannot be created without arguments: TypeError"),
        ("{mine}:number", "needs init, choose and learn|must .* init"),
        ("nowhere.py:Uniform", "there is no file nowhere.py"),
        ("no_such_module:Uniform", "cannot be imported: ModuleNotFoundError"),
        ("{mine.parent}/json.py:Uniform", "another module is called 'json'"),
        ("{mine.parent}/a-b.py:Uniform", "rename it"),
    ],
)
def test_strangers_that_are_refused_in_a_sentence(mine, text, why):
    for name in ("json.py", "a-b.py"):
        (mine.parent / name).write_text("Uniform = None")
    with pytest.raises(ValueError, match=why):
        strangers.load_players([text.format(mine=mine)], [])


def test_what_a_stranger_cannot_play_is_a_refusal_and_costs_the_others_nothing(mine, tmp_path):
    players = line_up.choose_players(["dec-TS"]) | strangers.load_players(
        [f"{mine}:Uniform", f"{mine}:Late"], line_up.list_players()
    )
    arena = Arena(suite.choose_instances("4,16,23"), players, TINY, tmp_path)
    assert arena.refusals == {
        (4, "Uniform"): "Uniform does not like 17 arms",
        (4, "Late"): "Uniform does not like 17 arms",
    }
    arena.play_missing(threads=1)
    assert arena.refusals[23, "Late"].startswith("failed while it played: ")
    assert "tired" in arena.refusals[23, "Late"]
    assert set(arena.load_results(arena.instances[2])) == {"dec-TS", "Uniform"}
    assert set(arena.load_results(arena.instances[1])) == {"dec-TS", "Uniform", "Late"}


def test_a_stranger_that_can_play_nothing_is_refused(mine, tmp_path):
    players = line_up.choose_players(["dec-TS"]) | strangers.load_players([f"{mine}:Never"], [])
    with pytest.raises(ValueError, match=r"Never can play none of the instances: .*KeyError"):
        Arena(suite.choose_instances("16,23"), players, TINY, tmp_path)


def test_every_rival_with_constants_also_plays_tuned():
    players = line_up.list_players()
    tuned = {name: player for name, player in players.items() if name.endswith(" (tuned)")}
    rivals = {
        player.entrant.rival
        for player in players.values()
        if player.entrant.source in (data.CODE, data.ABSTRACT, data.MEMORY)
    }
    assert {name.removesuffix(" (tuned)") for name in tuned} == rivals
    for name, player in tuned.items():
        rival = players[name.removesuffix(" (tuned)")]
        assert type(player.algorithm) is type(rival.algorithm)
        assert player.algorithm != rival.algorithm
        assert player.entrant.source == data.TUNED
        assert player.entrant.rival == name  # it has its own row
        assert "," not in name  # --algorithms separates names by commas
