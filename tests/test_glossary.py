"""The glossary: every term has a file that uses it, and every package speaks in these terms."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "posse"
ROWS = re.findall(
    r"^\| ([^|`]+) \| ([^|]+) \| `([\w./]+)` \|$",
    (ROOT / "docs" / "glossary.md").read_text(),
    re.MULTILINE,
)
TERMS = [term for term, _, _ in ROWS]
PACKAGES = sorted(path.parent for path in SOURCE.rglob("__init__.py"))


def words_of(text):
    """Lower case, with one space for every line break, hyphen and comment sign."""
    return re.sub(r"[\s#_-]+", " ", text.lower())


def test_the_glossary_has_terms_and_no_term_twice():
    assert len(TERMS) >= 60
    assert len(set(TERMS)) == len(TERMS)


@pytest.mark.parametrize(("term", "meaning", "file"), ROWS, ids=TERMS)
def test_a_term_has_one_sentence_and_a_file_that_uses_it(term, meaning, file):
    assert meaning.endswith(".")
    assert meaning.count(". ") == 0
    assert words_of(term) in words_of((SOURCE / file).read_text())


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_the_docstring_of_a_package_uses_a_term(package):
    docstring = ast.get_docstring(ast.parse((package / "__init__.py").read_text()))
    assert docstring
    assert any(words_of(term) in words_of(docstring) for term in TERMS), docstring
