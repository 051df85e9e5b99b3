"""`make conformance`: what it leaves out is listed with a reason, and missing tools are said."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from conformance import checks

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "conformance.md").read_text(encoding="utf-8")


def test_the_page_lists_every_check_that_is_switched_off():
    settings = tomllib.loads((ROOT / "conformance" / "schemathesis.toml").read_text())
    tables = [settings["checks"], *(each.get("checks", {}) for each in settings["operations"])]
    off = {name for table in tables for name, check in table.items() if not check["enabled"]}
    assert off == {
        "positive_data_acceptance", "negative_data_rejection", "ensure_resource_availability",
        "use_after_free",
    }  # fmt: skip
    assert all(f"`{name}`" in PAGE for name in off)


def test_a_missing_tool_is_skipped_aloud(monkeypatch, tmp_path, capsys):
    from conformance import __main__ as program

    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(checks, "TOOLS", tmp_path)
    monkeypatch.setattr(checks, "NPM", tmp_path)
    monkeypatch.setattr(sys, "argv", ["conformance", "--only", "promtool", "schemathesis"])
    monkeypatch.setattr(checks, "run_agent", None)  # nothing is started for nothing
    monkeypatch.setattr(program, "CHECKS", {
        "promtool": checks.check_metrics,
        "schemathesis": checks.fuzz_plain_agent,
    })  # fmt: skip
    assert program.main() == 0
    out = capsys.readouterr().out
    assert "promtool [0 s]: SKIPPED: promtool is missing (apt-get install prometheus)" in out
    assert "NOT CHECKED, because a tool is missing: promtool, schemathesis" in out


def test_a_failure_is_the_exit_code_and_shows_what_was_found(monkeypatch, capsys):
    from conformance import __main__ as program

    def fail(folder, cases):
        return checks.run_tool([sys.executable, "-c", "print('broken'); raise SystemExit(3)"])

    monkeypatch.setattr(program, "CHECKS", {"a tool": fail})
    monkeypatch.setattr(sys, "argv", ["conformance"])
    assert program.main() == 1
    out = capsys.readouterr().out
    assert "FAILED:" in out
    assert "broken" in out


@pytest.mark.long
def test_an_agent_for_them_answers_and_ends(tmp_path):
    from conformance.agents import make_visits, run_agent

    with run_agent(tmp_path / "agent", "plain") as agent:
        make_visits(agent, 3)
        assert "posse_rewards_total" in agent.ask("/metrics")
    with pytest.raises(OSError, match="refused"):
        agent.ask("/healthz")


def test_the_program_says_how_it_is_used():
    command = [sys.executable, "-m", "conformance", "--help"]
    assert "--cases" in subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout
