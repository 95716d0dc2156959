"""docs/supply-chain.md and SECURITY.md agree with the files that they describe."""

import re
from pathlib import Path

import pytest

from provisioner.version import own_version

from .locks import pins

ROOT = Path(__file__).parents[3]

PAGE = (ROOT / "docs" / "supply-chain.md").read_text(encoding="utf-8")
SECURITY = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


@pytest.mark.parametrize("text", [PAGE, SECURITY], ids=["page", "security"])
def test_every_named_file_and_target_exists(text: str) -> None:
    """Locks, links, workflows and make targets."""
    files = set(re.findall(r"[\w.-]+\.lock|\.github/[\w./]+\.yml|(?<=\()[\w./-]+\.md(?=\))|\b[A-Z]+\.md", text))
    assert files
    assert [path for path in files if not (ROOT / path).exists()] == []
    assert set(re.findall(r"\bmake ([a-z-]+)", text)) <= TARGETS


def test_the_identities_to_verify_are_those_that_sign() -> None:
    """The identity of a signature is the workflow that ran cosign; the commands contain exactly these workflows."""
    workflows = (ROOT / ".github" / "workflows").glob("*.yml")
    signing = {path.stem for path in workflows if "cosign sign " in path.read_text(encoding="utf-8")}
    assert set(re.findall(r"workflows/(\w+)\\\.yml@refs/tags/v", PAGE)) == signing == {"chart", "image"}


def test_versions_and_locks_are_those_of_the_files() -> None:
    """The version of the program, the base image of the Dockerfile, and a row for each lock."""
    assert set(re.findall(r"\bv?(\d+\.\d+\.\d+)(?=[ \n-])", PAGE)) == {own_version()}
    assert "python3-debian13:" in (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert "distroless Python 3.13 on Debian 13" in PAGE
    rows = re.findall(r"^\| `(requirements[\w-]*\.lock)` \|", PAGE, re.MULTILINE)
    assert sorted(rows) == sorted(path.name for path in ROOT.glob("*.lock"))
    assert all(pins(row) for row in rows)


def test_vulnerabilities_are_reported_in_private() -> None:
    assert "Report a vulnerability" in SECURITY
    assert own_version().startswith("0."), "SECURITY.md supports the latest release only: review this at 1.0.0"
