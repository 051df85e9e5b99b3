"""What others build on: every public name with its arguments, as it was when last looked at.

A change here is a change of the public face. Where it is meant, say so in CHANGELOG.md and write
the file anew:

    .venv/bin/python tests/test_public_names.py
"""

import importlib
import inspect
import typing
from pathlib import Path

FILE = Path(__file__).with_name("public_names.txt")
MODULES = (
    "posse",
    "posse.activity",
    "posse.algorithms",
    "posse.bandits",
    "posse.beliefs",
    "posse.families",
    "posse.interop.pettingzoo",
    "posse.lab",
    "posse.live",
    "posse.networks",
    "posse.policies",
    "posse.theory",
)


def arguments(value):
    """The arguments of a function or class, with defaults and without types."""
    parameters = inspect.signature(value).parameters.values()
    # a function as a default is shown with its address
    plain = [
        p.replace(annotation=p.empty)
        if not callable(p.default) or p.default is p.empty
        else p.replace(annotation=p.empty, default=p.default.__name__)
        for p in parameters
    ]
    return str(inspect.Signature(plain))


def members(value):
    """The public methods and properties of a class, its own and inherited ones."""
    for name, member in inspect.getmembers(value):
        if name.startswith("_"):
            continue
        kind = inspect.getattr_static(value, name)
        if isinstance(kind, property) or type(kind).__name__ == "cached_property":
            yield name
        elif inspect.isfunction(member) or inspect.ismethod(member):
            yield f"{name}{arguments(member)}"


def names_of(module):
    """The public names of a module: its __all__, else what it defines itself."""
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return sorted(listed)
    return sorted(
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    )


def lines():
    """One line a name; classes with their members, once."""
    seen = set()
    for path in MODULES:
        module = importlib.import_module(path)
        for name in names_of(module):
            value = getattr(module, name)
            yield f"{path}.{name}"
            plain = inspect.ismodule(value) or typing.get_origin(value) or not callable(value)
            if plain or value in seen:
                continue
            seen.add(value)
            if isinstance(value, type):
                if not getattr(value, "_is_protocol", False) and not issubclass(value, Exception):
                    yield f"    {arguments(value)}"
                yield from (f"    .{member}" for member in members(value))
            else:
                yield f"    {arguments(value)}"


def test_public_names_and_signatures_are_as_they_were():
    assert list(lines()) == FILE.read_text().splitlines()


def test_nothing_public_is_without_a_docstring():
    for path in MODULES:
        module = importlib.import_module(path)
        for name in names_of(module):
            value = getattr(module, name)
            if inspect.isfunction(value) or isinstance(value, type):
                assert inspect.getdoc(value), f"{path}.{name}"


if __name__ == "__main__":
    FILE.write_text("\n".join(lines()) + "\n")
    print(f"written: {FILE}")
