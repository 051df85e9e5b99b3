"""Every refusal reason that the code counts is in the table of reasons, with what to do."""

import ast
import re
from pathlib import Path

import posse.live
from posse.live.refusals import REFUSALS

LIVE = Path(posse.live.__file__).parent
LABEL = re.compile(r"[a-z]+(_[a-z]+)*")
# where refusals are counted; other packages count by other metrics
FOLDERS = "controls", "exchange", "experiment", "membership", "messaging"


def texts():
    """The texts in the code that counts refusals, docstrings included."""
    files = [LIVE / "node.py", *(file for name in FOLDERS for file in (LIVE / name).rglob("*.py"))]
    for file in files:
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


def test_every_metric_starts_at_zero(node):
    """Prometheus sees no increase of a series that begins with 1."""
    from posse.live.http.metrics import metrics

    text = metrics(node)
    for reason in REFUSALS:
        assert f'posse_refusals_total{{reason="{reason}"}} 0' in text
