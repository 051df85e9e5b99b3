"""Every refusal reason that the code counts is in the table of reasons, with what to do."""

import ast
import re
from pathlib import Path

import posse.live
from posse.live.refusals import REFUSALS

LIVE = Path(posse.live.__file__).parent
LABEL = re.compile(r"[a-z]+(_[a-z]+)*")
# where refusals are counted; other packages count by other metrics
FOLDERS = "controls", "exchange", "experiment", "ledger", "membership", "messaging"


# a label that is returned, counted, or a constant
COUNTED = re.compile(
    r"(?:return |else |refusal\(|refusals.add\(|refusals\[|refused\[|^[A-Z_]+ = |, | {16})"
    r'"([a-z]+_[a-z_]+|malformed|superseded)"(?:\)?$| if | else |\] \+= |  #)',
    re.MULTILINE,
)


def sources():
    """The files that count refusals."""
    return [LIVE / "node.py", *(file for name in FOLDERS for file in (LIVE / name).rglob("*.py"))]


def texts():
    """The texts in the code that counts refusals, docstrings included."""
    for file in sources():
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def test_every_reason_is_counted_somewhere():
    """A row of the table that nothing counts would send an operator looking for nothing."""
    assert set(REFUSALS) - set(texts()) == set()


def test_reasons_are_labels_with_advice():
    for reason, advice in REFUSALS.items():
        assert LABEL.fullmatch(reason), reason
        assert advice.count(".") >= 2 or ":" in advice, reason


def test_every_reason_that_is_counted_is_in_the_table():
    """Labels stand in returns, constants and arguments; other snake_case texts do not."""
    counted = set()
    for file in sources():
        counted |= set(COUNTED.findall(file.read_text(encoding="utf-8")))
    assert len(counted) > 30
    assert counted - set(REFUSALS) == set()
