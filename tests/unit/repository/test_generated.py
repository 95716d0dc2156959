"""The generated files are up to date."""

from pathlib import Path

import pytest

from tools.reference import COMMAND, PAGES, ROOT

GENERATED = "<!-- Written by `make generate` from "


@pytest.mark.parametrize("path", PAGES)
def test_a_file_is_up_to_date(path: str) -> None:
    target, rendered = ROOT / path, PAGES[path]()
    current = target.read_text(encoding="utf-8") if target.exists() else ""
    assert current == rendered, f"{path} is out of date: run `{COMMAND}`"


@pytest.mark.parametrize("path", PAGES)
def test_rendering_is_deterministic(path: str) -> None:
    """The text does not depend on the order of a set, the time or a path of this machine."""
    assert PAGES[path]() == PAGES[path]()
    assert str(ROOT) not in PAGES[path]()


def test_every_generated_page_has_a_renderer() -> None:
    """Generated pages begin with a comment."""
    pages = [path for path in (ROOT / "docs").rglob("*.md") if path.read_text(encoding="utf-8").startswith(GENERATED)]
    assert {str(path.relative_to(ROOT)) for path in pages} <= set(PAGES)
    assert pages


def test_make_generate_writes_every_file() -> None:
    target, _, recipe = (ROOT / "Makefile").read_text(encoding="utf-8").partition("\ngenerate:")
    assert target
    assert "-m tools.reference\n" in recipe.partition("\n\n")[0] + "\n"
    assert Path(COMMAND).name == "make generate"
