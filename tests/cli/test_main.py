"""The command line as a whole: help, version, mistakes, laziness, Ctrl-C."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

import posse
from posse.cli import app, main

ROOT = Path(__file__).parents[2]
COMMANDS = [
    *(command.callback.__name__ for command in app.registered_commands),
    *(
        f"{group.name} {command.callback.__name__}"
        for group in app.registered_groups
        for command in group.typer_instance.registered_commands
    ),
]
HEAVY = {
    *("numpy", "scipy", "pandas", "matplotlib", "networkx", "xarray"),
    *("cryptography", "zenoh", "msgspec"),
}


def start(*arguments, **options):
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "TERM": "dumb"}
    return subprocess.Popen(
        [sys.executable, *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def shell(*arguments):
    process = start("-m", "posse", *arguments)
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def help_of(*command):
    result = CliRunner().invoke(app, [*command, "--help"], env={"COLUMNS": "200"})
    assert result.exit_code == 0
    return result.output


def test_version():
    code, out, err = shell("--version")
    assert (code, out, err) == (0, f"posse {posse.__version__}\n", "")


def test_nothing_given_shows_the_help(capsys):
    with pytest.raises(SystemExit) as done:
        main([])
    assert done.value.code == 0
    shown = capsys.readouterr().out
    assert "Usage: posse" in shown
    assert all(command.split()[0] in shown for command in COMMANDS)


def test_the_help_leads_researchers_and_operators_to_their_first_command():
    """On a terminal of 80 columns, one line a command, each in the group of its people."""
    shown = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "80"}).output
    assert max(map(len, shown.splitlines())) <= 80
    introduction, lab, live = re.split(
        "─ The lab, for researchers|─ Live agents, for operators", shown
    )
    words = " ".join(introduction.split())
    assert "Researchers simulate. First: posse paper fig3, then posse run FILE.toml." in words
    assert "First: posse new berlin paris, then posse agent berlin.toml paris.toml;" in words
    assert "docs/live.md" in words
    listed = [re.findall(r"^│ (\w+)  ", group, re.MULTILINE) for group in (lab, live)]
    assert listed[0] == ["paper", "run", "sweep", "arena", "inspect"]
    assert set(listed[1]) == {command.split()[0] for command in COMMANDS} - set(listed[0])
    assert all(len(re.findall("^│", group, re.MULTILINE)) == len(names)
               for group, names in zip((lab, live), listed, strict=True))  # fmt: skip


def test_paragraphs_fill_the_terminal():
    """Typer keeps the ends of our lines, which made a ragged text of 80 columns."""
    assert "a crash loses nothing that was acknowledged" in help_of("agent")


def test_the_help_names_the_table_of_a_sweep():
    """Rich takes [sweep] for a style unless it is escaped."""
    assert "table [sweep]" in help_of("sweep")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_explained(command):
    shown = help_of(*command.split())
    assert f"posse {command} " in shown.split("Examples:")[1]
    assert f"posse {command}" in (ROOT / "README.md").read_text()


@pytest.mark.parametrize(
    ("all_arguments", "heavy"),
    [
        ([["--help"], ["--version"]], HEAVY | {"pydantic"}),
        # typer itself reads the options of a command with pydantic
        ([[*command.split(), "--help"] for command in COMMANDS], HEAVY),
    ],
    ids=["alone", "commands"],
)
def test_help_imports_nothing_heavy(all_arguments, heavy):
    """All in one process, which names what had been loaded after the first that loads anything."""
    code = f"""
import sys
from posse.cli import main
for arguments in {all_arguments!r}:
    try:
        main(arguments)
    except SystemExit as done:
        assert done.code == 0, (arguments, done.code)
    loaded = {heavy!r} & sys.modules.keys()
    assert not loaded, (arguments, loaded)
print("nothing heavy")
"""
    process = start("-c", code)
    out, err = process.communicate(timeout=60)
    assert out.endswith("nothing heavy\n"), err


def test_an_agent_process_has_no_parser_of_options_in_memory():
    """Typer's pydantic takes 12 MB, for as long as the agent runs."""
    program = (
        "import sys; from posse.cli import main\n"
        "try: main(['agent', 'missing.toml'])\n"
        "except SystemExit as end: print(end.code, 'pydantic' in sys.modules)"
    )
    out, err = start("-c", program).communicate(timeout=60)
    assert (out, err.count("\n")) == ("2 False\n", 1)
    assert "missing.toml" in err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["runn"], "No such command 'runn'. Did you mean 'run'?"),
        (["run"], "Missing argument 'FILE.toml'."),
        (["run", "no.toml"], "there is no file no.toml"),
        (["run", "x.toml", "--run", "3"], "No such option: --run"),
        (["run", "x.toml", "--runs", "ten"], "Invalid value for '--runs'"),
        (["inspect"], "Missing argument 'GRAPH'."),
        (["inspect", "cycel"], "graph 'cycel' is unknown: did you mean 'cycle'?"),
    ],
)
def test_mistakes_get_one_line_and_exit_code_2(arguments, sentence, capsys):
    with pytest.raises(SystemExit) as done:
        main(arguments)
    out, err = capsys.readouterr()
    assert done.value.code == 2
    assert out == ""
    assert err.startswith(f"posse: {sentence}")
    assert err.count("\n") == 1


def test_mistakes_show_no_traceback_in_a_shell():
    code, out, err = shell("inspect", "grid")
    assert (code, out, err) == (2, "", "posse: grid needs --rows and --columns\n")


def test_bugs_keep_their_traceback(monkeypatch):
    def broken(*_):
        raise RuntimeError("a bug")

    monkeypatch.setattr("posse.cli.inspect.build_network", broken)
    with pytest.raises(RuntimeError, match="a bug"):
        main(["inspect", "cycle"])


def test_an_interruption_that_python_ignores_is_not_lost(monkeypatch, capsys):
    class Interrupted:
        def __del__(self):
            raise KeyboardInterrupt

    def slow(*arguments):
        Interrupted()
        end = time.monotonic() + 30
        while time.monotonic() < end:
            time.sleep(0.01)

    before = sys.unraisablehook
    monkeypatch.setattr("posse.cli.inspect.build_network", slow)
    # a test runner in the background ignores it
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(SystemExit) as done:
            main(["inspect", "cycle"])
    finally:
        signal.signal(signal.SIGINT, handler)
    assert done.value.code == 130
    assert capsys.readouterr().err == "posse: interrupted\n"
    assert sys.unraisablehook is before


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT to send")
@pytest.mark.long
def test_interrupting_exits_130_and_says_how_to_go_on(tmp_path):
    text = (ROOT / "experiments" / "demo.toml").read_text()
    (tmp_path / "long.toml").write_text(text)
    process = start(
        # many short blocks: the block at work is finished before the command ends
        *("-m", "posse", "run", "long.toml", "--horizon", "100", "--runs", "5000", "--quiet"),
        cwd=tmp_path,
        # a test runner in the background ignores SIGINT, and its children would inherit that
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    deadline = time.monotonic() + 120  # kernels may have to be compiled
    while not list(tmp_path.glob("results/long.parts/*/*.nc")) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    said = [line for line in err.splitlines() if "compiling kernels (once" not in line]
    kept = "posse: results so far are stored; run the same command to resume"
    assert (process.returncode, out, said) == (130, "", [kept, "posse: interrupted"])
    assert [path.name for path in (tmp_path / "results").iterdir()] == ["long.parts"]
