"""Rules: numbers of an experiment that depend on its size, such as "sqrt(N)" or "log(T)/N".

N is the number of agents, K of arms, T of rounds (the horizon). A rule stands where a number could
stand; `simulate`, `compare` and `Experiment` replace it by its value before anything is played.
Rules come from files, so they are read by a parser of their own: nothing of Python can be reached
but arithmetic and the functions listed here.
"""

from __future__ import annotations

import ast
import dataclasses
import math
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from posse import validation

T = TypeVar("T")

SIZES = ("N", "K", "T")
FUNCTIONS: dict[str, Callable[..., float]] = {
    "sqrt": math.sqrt,
    "log": math.log,
    "log2": math.log2,
    "exp": math.exp,
    "abs": abs,
    "floor": math.floor,
    "ceil": math.ceil,
    "round": round,
    "min": min,
    "max": max,
}
_OPERATORS: dict[type[ast.AST], Callable[..., float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Pow: operator.pow,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}
_MOST_CHARACTERS = 100  # deeper nesting than they allow could exhaust the stack of the parser


def parse_rule(name: str, text: Any) -> ast.expr:
    """Parse a rule, or raise a ValueError of one sentence that begins with the field's name."""
    wrong = f"got {validation.format_value(text)}"
    allowed = f"{name} must be a number or a rule of N, K and T such as 'sqrt(N)', {wrong}"
    if not isinstance(text, str) or len(text) > _MOST_CHARACTERS:
        raise ValueError(allowed)
    try:
        expression = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ValueError(allowed) from None
    called = {node.func for node in ast.walk(expression) if isinstance(node, ast.Call)}
    for node in ast.walk(expression):
        if isinstance(node, ast.Call):
            if not isinstance(node.func, ast.Name) or node.func.id not in FUNCTIONS:
                raise ValueError(f"{name}: the functions of a rule are {_list_names()}, {wrong}")
            if node.keywords or not node.args:
                raise ValueError(f"{name}: a function of a rule takes numbers, {wrong}")
        elif isinstance(node, ast.Name):
            if node not in called and node.id not in SIZES:
                raise ValueError(
                    f"{name}: a rule knows N (agents), K (arms) and T (rounds), not {node.id}, "
                    f"{wrong}"
                )
        elif isinstance(node, ast.Constant):
            # A bool is an int in Python, but no number of a rule.
            if type(node.value) not in (int, float):
                raise ValueError(allowed)
        elif not isinstance(node, (ast.BinOp, ast.UnaryOp, ast.Load, *_OPERATORS)):
            raise ValueError(allowed)
    if not any(isinstance(node, ast.Name) and node.id in SIZES for node in ast.walk(expression)):
        raise ValueError(allowed)
    return expression


def is_rule(value: Any) -> bool:
    """Return whether a value is a rule: text that is arithmetic over at least one of N, K, T."""
    try:
        parse_rule("rule", value)
    except ValueError:
        return False
    return True


def evaluate_rule(name: str, text: str, sizes: Mapping[str, int]) -> float:
    """Return the value of a rule for some sizes, a subset of N, K and T; whole ones as int."""
    expression = parse_rule(name, text)
    unknown = [
        node.id
        for node in ast.walk(expression)
        if isinstance(node, ast.Name) and node.id in SIZES and node.id not in sizes
    ]
    if unknown:
        raise ValueError(f"{name} may depend on {' and '.join(sizes)} only, got {text!r}")
    try:
        value = _evaluate_node(expression, sizes)
        finite = isinstance(value, int | float) and math.isfinite(value)
    except (ArithmeticError, ValueError, TypeError):
        finite = False
    if not finite:
        where = ", ".join(f"{size} = {number}" for size, number in sizes.items())
        raise ValueError(f"{name}: {text!r} has no finite value for {where}")
    return int(value) if value == int(value) else value


def _evaluate_node(node: ast.AST, sizes: Mapping[str, int]) -> float:
    # Numbers are floats: whole numbers of any length, as in 9**9**9, would take for ever.
    if isinstance(node, ast.Constant):
        return float(node.value)  # type: ignore[arg-type]
    if isinstance(node, ast.Name):
        return float(sizes[node.id])
    if isinstance(node, ast.UnaryOp):
        return _OPERATORS[type(node.op)](_evaluate_node(node.operand, sizes))
    if isinstance(node, ast.BinOp):
        left = _evaluate_node(node.left, sizes)
        return _OPERATORS[type(node.op)](left, _evaluate_node(node.right, sizes))
    assert isinstance(node, ast.Call)
    assert isinstance(node.func, ast.Name)
    return float(FUNCTIONS[node.func.id](*(_evaluate_node(item, sizes) for item in node.args)))


def _list_names() -> str:
    return ", ".join(FUNCTIONS)


# Parts of an experiment that hold rules.


def validate_parameter(name: str, value: Any, **bounds: float) -> Any:
    """Return a number within bounds, or a rule, whose value is checked when it is known."""
    if isinstance(value, str):
        parse_rule(name, value)
        return value
    return validation.validate_number(name, value, **bounds)


def validate_whole_parameter(name: str, value: Any, *, at_least: int) -> Any:
    """Return a whole number, or a rule, whose value is checked when it is known."""
    if isinstance(value, str):
        parse_rule(name, value)
        return value
    return validation.validate_integer(name, value, at_least=at_least)


def resolve_rules(part: T, sizes: Mapping[str, int]) -> T:
    """Return a part of an experiment with the value of each rule in its place.

    Fields of dataclasses inside (the policy of an algorithm) are resolved too. The constructor
    checks the values. A part without rules is returned as it is.
    """
    if not dataclasses.is_dataclass(part) or isinstance(part, type):
        return part
    changes: dict[str, Any] = {}
    for field in dataclasses.fields(part):
        value = getattr(part, field.name, None)
        if isinstance(value, str):
            # Only the annotation tells a rule from a text that looks like one.
            if field.init and re.search(r"\b(float|int)\b", str(field.type)) and is_rule(value):
                changes[field.name] = evaluate_rule(field.name, value, sizes)
        elif dataclasses.is_dataclass(value) and field.init:
            resolved = resolve_rules(value, sizes)
            if resolved is not value:
                changes[field.name] = resolved
    return dataclasses.replace(part, **changes) if changes else part
