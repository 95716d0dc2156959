"""What several test modules need is in a module that is no test module, so that tests can be moved and deleted."""

import ast
from collections.abc import Iterator
from importlib.util import resolve_name

import pytest

from .locks import ROOT

FILES = sorted((ROOT / "tests").rglob("*.py"))


def helpers_of_tests(source: str, package: str) -> Iterator[str]:
    """The names that this source takes from test modules; tests that it runs as stories are not among them."""
    tree = ast.parse(source)
    modules = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            origin = resolve_name("." * node.level + (node.module or ""), package)
            names = [alias.name for alias in node.names if not alias.name.startswith("test_")]
            yield from (f"{origin}.{name}" for name in names if is_test_module(origin))
            modules |= {alias.asname or alias.name for alias in node.names if alias.name.startswith("test_")}
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if is_test_module(alias.name))
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr=attribute) if name in modules:
                yield from () if attribute.startswith("test_") else (f"{name}.{attribute}",)


def is_test_module(name: str) -> bool:
    return name.startswith("tests.") and name.rpartition(".")[2].startswith("test_")


def test_no_module_takes_a_helper_from_a_test_module() -> None:
    """Only tests may be taken from there, by tests that run them under other circumstances."""
    found = {}
    for path in FILES:
        package = ".".join(path.relative_to(ROOT).parent.parts)
        if taken := sorted(helpers_of_tests(path.read_text(encoding="utf-8"), package)):
            found[str(path.relative_to(ROOT))] = taken
    assert not found


@pytest.mark.parametrize(
    ("source", "taken"),
    [
        ("from tests.world.test_a import helper, test_b", ["tests.world.test_a.helper"]),
        ("from .test_a import NAME", ["tests.world.test_a.NAME"]),
        ("from . import test_a\ntest_a.test_b(test_a.NAME)", ["test_a.NAME"]),
        ("import tests.world.test_a", ["tests.world.test_a"]),
        ("from .common import test_case, NAME", []),
    ],
)
def test_helpers_are_found_in_every_form_of_import(source: str, taken: list[str]) -> None:
    """Names, attributes and whole modules."""
    assert list(helpers_of_tests(source, "tests.world")) == taken
