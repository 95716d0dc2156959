"""The texts that the page on troubleshooting quotes are texts of the program."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "troubleshooting" / "index.md"
SOURCES = "\n".join(
    path.read_text(encoding="utf-8")
    for folder in ("controllers/provisioning", "controllers/reconcile")
    for path in (ROOT / folder).rglob("*.py")
)


def quoted() -> list[str]:
    """The texts in the first column of the table about pending Pods."""
    _, _, section = PAGE.read_text(encoding="utf-8").partition("\n## Pods stay Pending\n")
    rows = [line.split(" | ")[0] for line in section.partition("\n## ")[0].splitlines() if line.startswith("| `")]
    return [text for row in rows for text in re.findall(r"`([^`]+)`", row)]


def test_the_table_has_rows() -> None:
    assert len(quoted()) > 10


@pytest.mark.parametrize("text", quoted())
def test_each_quoted_text_is_one_of_the_program(text: str) -> None:
    assert text in SOURCES
