"""Documentation is checked like code: its blocks run, and what it names exists."""

import doctest
import importlib
import re
import runpy
import sys
import tomllib
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest

import posse
from posse import algorithms, families
from posse.algorithms import ALGORITHMS
from posse.families import FAMILIES
from posse.networks import GRAPHS
from posse.policies import POLICIES

matplotlib.use("Agg")

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
PAGES = sorted(p for p in (ROOT / "docs").rglob("*.md") if "_build" not in p.parts)
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *PAGES]
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
# test_docs_live.py, live/test_offline.py and interop/test_openfeature.py run those that need agents
LIVE = "live.md", "offline.md", "openfeature.md"
SESSIONS = [page for page in PAGES if "```python" in page.read_text() and page.name not in LIVE]
PUBLIC = [posse, *(getattr(posse, name) for name in posse._MODULES)]


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    """An empty folder from which Python imports too, as a reader has."""
    # the reader's own module: another test of this process may have imported one of that name
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    before = set(sys.modules)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    plt.close("all")
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", None)).startswith(str(tmp_path)):
            del sys.modules[name]


def name_of(page):
    return str(page.relative_to(ROOT))


@pytest.mark.filterwarnings("ignore:.*can be saved but not rerun:UserWarning")
@pytest.mark.parametrize("page", SESSIONS, ids=name_of)
def test_every_code_block_of_a_page_runs_after_the_one_before_it(page, workplace):
    """A block that begins with the name of a file, as `# mine.py`, is that file."""
    session = {"__name__": page.stem}
    for kind, block in re.findall(r"```(python|toml)\n(.*?)```", page.read_text(), re.DOTALL):
        named = re.match(r"# ([\w-]+\.(?:py|toml))\n", block)
        if named:
            (workplace / named[1]).write_text(block)
        if kind == "toml":
            tomllib.loads(block)
        elif not named:
            exec(compile(block, str(page), "exec"), session)
    for file in workplace.glob("*.toml"):
        (posse.read_sweep if "[sweep]" in file.read_text() else posse.read_experiment)(file)


SOURCES = sorted((ROOT / "src").rglob("*.py"))
WITH_EXAMPLES = [
    ".".join(path.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__")
    for path in SOURCES
    if ">>>" in path.read_text()
]


def examples(name):
    module = importlib.import_module(name)
    finder = doctest.DocTestFinder(exclude_empty=True)
    return [test for test in finder.find(module, name, module=module) if test.examples]


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples_in_docstrings_run(name, workplace):
    """After `import numpy as np`, `import posse`, `from posse import beliefs, policies, theory`."""
    names = {"np": np, "posse": posse}
    names |= {part: getattr(posse, part) for part in ("beliefs", "policies", "theory")}
    for test in examples(name):
        test.globs.update(names)
        result = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, clear_globs=False)
        assert result.failed == 0, test.name


def test_the_front_door_has_examples():
    shown = {test.name.rpartition(".")[2] for name in WITH_EXAMPLES for test in examples(name)}
    assert shown >= {"Bandit", "simulate", "compare", "concat", "Decentralized", "summarise"}


def test_every_public_name_is_in_the_reference():
    reference = "".join(page.read_text() for page in (ROOT / "docs" / "api").glob("*.md"))
    shown = {line.rpartition(".")[2] for line in re.findall(r"auto\w+:: ([\w.]+)", reference)}
    shown |= set(re.search(r":members: (prior.*)", reference)[1].split(", "))
    for module in PUBLIC:
        names = getattr(module, "__all__", [])
        values = {name for name in names if callable(getattr(module, name))}
        assert values <= shown, f"{module.__name__}: {sorted(values - shown)}"


def test_versions_of_formats_are_those_of_the_source():
    from posse.lab import storage
    from posse.lab.jobs import results_cache as digests
    from posse.live.agent import factory as fingerprints
    from posse.live.messaging import wire
    from posse.live.store import schema

    page = (ROOT / "docs" / "formats.md").read_text()
    assert f"attribute `format` = {storage.FORMAT} " in page
    assert f"| {digests.VERSION}, hashed with the settings and the source |" in page
    assert f"`PRAGMA user_version` = {schema.VERSION} " in page
    assert f"first byte = {wire.VERSION} " in page
    assert f"begins with `{fingerprints.VERSION}-` " in page


def test_no_line_installs_from_a_registry():
    shipped = [*DOCUMENTS, *SOURCES]
    for document in shipped:
        lines = re.findall(r'pip install .*posse(?:\[\w+\])?"?', document.read_text())
        wrong = [line for line in lines if line.endswith(('posse[live]"', "posse", 'posse"'))]
        wrong = [line for line in wrong if "/posse" not in line and "alone" not in line]
        assert wrong in ([], ["pip install posse"]), f"{document}: {wrong}"


def test_the_version_is_the_same_everywhere():
    for name in ("CITATION.cff", "docs/citing.md"):
        found = re.search(r"version\W+([\d.]+\w*)", (ROOT / name).read_text().split("1.2.0")[-1])
        assert found[1] == posse.__version__, name


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


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_files_that_a_document_names_exist(document):
    text = document.read_text()
    links = re.findall(r"\]\(([^)#:]+)\)", text)
    quoted = re.findall(r"`((?:src|tests|docs|examples|experiments|benchmarks)/[\w./-]+)`", text)
    for name in links:
        # the build of the documentation copies the notebooks to docs/examples
        place = ROOT if name.startswith("examples/") else document.parent
        assert (place / name).exists(), f"{document.name} links to {name}"
    for name in quoted:
        assert (ROOT / name).exists(), f"{document.name} names {name}"


def anchors(document):
    """Of headings, as hosts of repositories make them."""
    prose = re.sub(r"```.*?```", "", document.read_text(), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", prose, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-") for h in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_headings_that_a_document_links_to_exist(document):
    for name, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", document.read_text()):
        target = document.parent / name if name else document
        assert anchor in anchors(target), f"{document.name} links to {name}#{anchor}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_tests_that_a_document_names_exist(document):
    for path, name in re.findall(r"`(tests/[\w./]+\.py)::(\w+)", document.read_text()):
        assert f"def {name}" in (ROOT / path).read_text(), f"{document.name}: {path}::{name}"


@pytest.mark.parametrize(
    "name",
    [
        *FAMILIES,
        *families.VARIATIONAL,
        *families.CONTEXTUAL,
        *POLICIES,
        *ALGORITHMS,
        *algorithms.CONTEXTUAL,
        *GRAPHS,
        *("gossip", "failing", "metropolis"),
    ],
)
def test_every_entry_of_a_registry_is_in_the_readme(name):
    words = {name, name.replace("-", "_"), name.replace("-", " ").title().replace(" ", "")}
    words |= {name.replace("-", "")}  # BayesUCB
    assert any(re.search(rf"\b{re.escape(word)}\b", README, re.IGNORECASE) for word in words)
