"""Each row of the tables of Karpenter's suites names a test that exists, or a reason."""

import ast
from functools import cache
from pathlib import Path

import pytest

from .rows import Suite, suites

ROOT = Path(__file__).parents[3]
SUITES = suites()


@cache
def names_of(path: str) -> frozenset[str]:
    """The names of the tests of a module; none if it does not exist."""
    file = ROOT / path
    if not file.is_file():
        return frozenset()
    found = ast.walk(ast.parse(file.read_text(encoding="utf-8")))
    return frozenset(
        one.name for one in found if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef) and one.name[:5] == "test_"
    )


@pytest.mark.parametrize("suite", SUITES.values(), ids=SUITES)
def test_rows_are_numbered_without_a_gap(suite: Suite) -> None:
    """Each test of Karpenter's file has one row."""
    assert [one.number for one in suite.row] == [*range(1, len(suite.row) + 1)]
    assert all(len(one.title_sha) == 8 and int(one.title_sha, 16) >= 0 for one in suite.row)
    assert all(one.what for one in suite.row)


@pytest.mark.parametrize("suite", SUITES.values(), ids=SUITES)
def test_no_row_is_unexplained(suite: Suite) -> None:
    """What is the same has a test and no reason, what is not has a reason and no test."""
    assert suite.unexplained == []
    assert [one.number for one in suite.row if one.test and one.reason] == []


@pytest.mark.parametrize("suite", SUITES.values(), ids=SUITES)
def test_each_named_test_exists(suite: Suite) -> None:
    """A test that is renamed or deleted leaves no row behind."""
    named = {one.test for one in suite.row if one.test}
    assert [one for one in named if one.partition("::")[2] not in names_of(one.partition("::")[0])] == []
