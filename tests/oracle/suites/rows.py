"""Reads the tables of Karpenter's test suites.

Each file is TOML. `number` counts the tests (`It`, `Entry`) of Karpenter's file from 1, and `title_sha` begins the
SHA-1 of the test's title, so that a row is found again in a later version.
"""

import tomllib
from pathlib import Path
from typing import Literal

import msgspec

FOLDER = Path(__file__).parent
COMMIT = "226646810"
Verdict = Literal["same", "different", "not-applicable"]


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One test of Karpenter. `test`: ours that asserts the same, as `path::name`. `reason`: why it is not the same."""

    number: int
    title_sha: str
    what: str
    verdict: Verdict
    test: str = ""
    reason: str = ""


class Suite(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One file of Karpenter's tests."""

    row: tuple[Row, ...]

    def count(self, verdict: Verdict) -> int:
        """How many of its tests have this verdict."""
        return sum(one.verdict == verdict for one in self.row)

    @property
    def unexplained(self) -> list[int]:
        """The numbers of rows without a test or without a reason, whichever their verdict needs."""
        return [one.number for one in self.row if not (one.test if one.verdict == "same" else one.reason)]


def suites() -> dict[str, Suite]:
    """Each table by the name of its file, sorted. Raises msgspec.ValidationError for an invalid one."""
    files = sorted(FOLDER.glob("*.toml"))
    return {file.stem: msgspec.convert(tomllib.loads(file.read_text(encoding="utf-8")), Suite) for file in files}
