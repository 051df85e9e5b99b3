"""Rules: numbers of an experiment that depend on its size, such as "sqrt(N)" or "log(T)/N".

N is the number of agents, K of arms, T of rounds (the horizon). A rule stands where a number could
stand; `simulate`, `compare` and `Experiment` replace it by its value before anything is played.
Rules come from files, so they are read by a parser of their own: nothing of Python can be reached
but arithmetic and the functions listed here.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
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


def accept_rules(*kinds: Any) -> None:
    """Let a rule stand for a number in these dataclasses.

    Such a part is checked when the value of the rule is known: `resolve_rules` builds it anew.
    """
    for kind in kinds:
        if check := getattr(kind, "__post_init__", None):
            kind.__post_init__ = _check_later(check)


def _check_later(check: Callable[[Any], None]) -> Callable[[Any], None]:
    @functools.wraps(check)
    def check_without_rules(part: Any) -> None:
        if not find_rules(part):
            check(part)
            return
        kind: Any = type(part)
        for name in _list_fields(kind):
            if isinstance(value := getattr(part, name), list):
                object.__setattr__(part, name, tuple(value))  # so that it hashes

    return check_without_rules


def find_rules(part: object) -> dict[str, str]:
    """Find the rules inside a dataclass, by field; refuse other text where a number must stand."""
    kind: Any = type(part)
    found: dict[str, str] = {}
    for name, annotation in _list_fields(kind).items():
        for item in _list_items(getattr(part, name, None)):
            if _is_rule_of(_name_argument(kind, name), item, annotation):
                found[name] = item
            elif dataclasses.is_dataclass(item) and not isinstance(item, type):
                found |= find_rules(item)
    return found


def refuse_rules(name: str, part: Any) -> None:
    """Refuse a part with rules where there is no experiment that gives N, K and T."""
    for field, text in find_rules(part).items():
        raise ValueError(
            f"{name}: {field} must be a number here, got {text!r}: rules have values in "
            "experiments only"
        )


def resolve_rules(part: T, sizes: Mapping[str, int]) -> T:
    """Return a part of an experiment with the value of each rule in its place.

    Dataclasses inside (the policy of an algorithm) are resolved too. The constructor checks the
    values. A part without rules is returned as it is.
    """
    if not dataclasses.is_dataclass(part) or isinstance(part, type) or not find_rules(part):
        return part
    changes: dict[str, Any] = {}
    for name, annotation in _list_fields(type(part)).items():
        value = getattr(part, name, None)
        items = [
            evaluate_rule(_name_argument(type(part), name), item, sizes)
            if _is_rule_of(_name_argument(type(part), name), item, annotation)
            else resolve_rules(item, sizes)
            for item in _list_items(value)
        ]
        changes[name] = tuple(items) if isinstance(value, list | tuple) else items[0]
    return dataclasses.replace(part, **changes)


def _list_items(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else (value,)


def _is_rule_of(name: str, item: Any, annotation: str) -> bool:
    """Return whether a value of a field is a rule; only annotations tell numbers from text."""
    if not isinstance(item, str):
        return False
    if name == "means" and annotation == "Any":  # those of a bandit, which have many forms
        return is_rule(item)
    if not re.search(r"\b(float|int)\b", annotation):
        return False
    if re.search(r"\b(str|Literal)\b", annotation):
        return is_rule(item)
    parse_rule(name, item)
    return True


def _name_argument(kind: Any, field: str) -> str:
    """Return the name under which users pass a field: its own, unless its metadata say another."""
    name: str = kind.__dataclass_fields__[field].metadata.get("argument", field)
    return name


@functools.cache
def _list_fields(kind: Any) -> dict[str, str]:
    """List the arguments of a dataclass with their annotations; none of another class."""
    if not dataclasses.is_dataclass(kind):
        return {}
    return {field.name: str(field.type) for field in dataclasses.fields(kind) if field.init}
