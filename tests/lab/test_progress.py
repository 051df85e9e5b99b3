"""What is shown while people wait."""

import io

from rich.console import Console
from rich.progress import Progress

from posse.lab.progress import Bars, RichBars, progress_bar


def shown_on_a_terminal(act):
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=100)
    with Progress(console=console, auto_refresh=False) as progress:
        act(RichBars(progress, ["dec-TS"], total=1000), progress)
        progress.refresh()
    return screen.getvalue()


def test_the_first_use_says_that_it_compiles():
    def act(bars, progress):
        bars.announce_compilation(17)
        assert [task.description for task in progress.tasks] == ["dec-TS"]

    assert "compiling kernels (once, about 17 s)" in shown_on_a_terminal(act)


def test_a_bar_moves_in_hundredths_and_ends_at_the_end():
    seen = []

    def act(bars, progress):
        advance = bars.start_bar("dec-TS")
        for _ in range(1000):
            advance(1)
            seen.append(progress.tasks[0].completed)

    shown_on_a_terminal(act)
    assert len(set(seen)) <= 102  # else the bar would cost time
    assert seen[-1] == 1000


def test_silence_is_free_and_silent_but_for_what_one_waits_for(capfd):
    with progress_bar(["a"], total=10, show=False) as bars:
        assert type(bars) is Bars
        bars.start_bar("a")(10)
    assert capfd.readouterr() == ("", "")
    bars.announce_compilation(17)
    assert capfd.readouterr() == ("", "compiling kernels (once, about 17 s)\n")
