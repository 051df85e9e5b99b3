"""Documentation is checked like code: its blocks run, and what it names exists."""

import re
import runpy
from pathlib import Path

import matplotlib
import pytest

from posse.algorithms import ALGORITHMS
from posse.families import FAMILIES
from posse.networks import GRAPHS
from posse.policies import POLICIES

matplotlib.use("Agg")

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=[f"block-{i}" for i in range(len(BLOCKS))])
def test_every_code_block_of_the_readme_runs(block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "README.md", "exec"), {"__name__": "readme"})


def test_the_readme_has_code_and_the_two_commands():
    assert len(BLOCKS) >= 2
    for command in ("make paper", "make test"):
        assert re.search(rf"^ +{command}\b", README, re.MULTILINE)
        assert re.search(rf"^{command.split()[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.name)
def test_every_example_runs(example, capsys):
    runpy.run_path(str(example), run_name="__main__")
    assert "regret" in capsys.readouterr().out


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_files_that_a_document_names_exist(document):
    text = document.read_text()
    links = re.findall(r"\]\(([^)#:]+)\)", text)
    quoted = re.findall(r"`((?:src|tests|docs|examples|experiments|benchmarks)/[\w./-]+)`", text)
    for name in links:
        assert (document.parent / name).exists(), f"{document.name} links to {name}"
    for name in quoted:
        assert (ROOT / name).exists(), f"{document.name} names {name}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_tests_that_a_document_names_exist(document):
    for path, name in re.findall(r"`(tests/[\w./]+\.py)::(\w+)", document.read_text()):
        assert f"def {name}" in (ROOT / path).read_text(), f"{document.name}: {path}::{name}"


@pytest.mark.parametrize(
    "name", [*FAMILIES, *POLICIES, *ALGORITHMS, *GRAPHS, "gossip", "failing", "metropolis"]
)
def test_every_entry_of_a_registry_is_in_the_readme(name):
    words = {name, name.replace("-", "_"), name.replace("-", " ").title().replace(" ", "")}
    words |= {"BayesUCB"} if name == "bayes-ucb" else set()
    assert any(re.search(rf"\b{re.escape(word)}\b", README, re.IGNORECASE) for word in words)
