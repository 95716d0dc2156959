"""The generated pages: none is older than what it is written from."""

from pathlib import Path

import pytest

from tools.reference import COMMAND, PAGES, ROOT

GENERATED = "<!-- Written by `make generate` from "


@pytest.mark.parametrize("path", PAGES)
def test_a_page_says_what_the_code_says(path: str) -> None:
    """Whoever changes the source is told which command brings the page up to it."""
    target, rendered = ROOT / path, PAGES[path]()
    there = target.read_text(encoding="utf-8") if target.exists() else ""
    assert there == rendered, f"{path} is older than the code: run `{COMMAND}`"


@pytest.mark.parametrize("path", PAGES)
def test_a_page_is_the_same_each_time(path: str) -> None:
    """No order of a set, no time and no path of this machine gets into it."""
    assert PAGES[path]() == PAGES[path]()
    assert str(ROOT) not in PAGES[path]()


def test_no_generated_page_is_left_from_a_renderer_that_is_gone() -> None:
    """A page whose first line says that it is generated has a renderer."""
    pages = [path for path in (ROOT / "docs").rglob("*.md") if path.read_text(encoding="utf-8").startswith(GENERATED)]
    assert {str(path.relative_to(ROOT)) for path in pages} <= set(PAGES)
    assert pages


def test_the_command_that_a_failure_names_writes_every_page() -> None:
    """`make generate` runs the registry."""
    target, _, recipe = (ROOT / "Makefile").read_text(encoding="utf-8").partition("\ngenerate:")
    assert target
    assert "-m tools.reference\n" in recipe.partition("\n\n")[0] + "\n"
    assert Path(COMMAND).name == "make generate"
