"""Sentences at which native readers stopped are not written again: on the pages for users, and in printed texts."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from .locks import ROOT

PAGES = sorted(
    path
    for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "charts").rglob("*.md"))
    if not {"adr", "references"} & {*path.relative_to(ROOT).parts}
)
SOURCES = sorted(
    path
    for folder in ("provisioner/cli", "tools/reference/explained", "charts")
    for path in (ROOT / folder).rglob("*")
    if path.suffix in {".py", ".yaml", ".json"}
)
# Each with a sentence that was written once.
STOPPING = {
    r"\bany more\b(?! (than|machines|pods))": "Not any more, although the machines stay",
    r"\bis no drift\b": "What is not known is no drift",
    r"\b(could|may) go but for\b": "If it could go but for that",
    r"\bavoids? that\b": "avoid that the next Pod waits",
    r"\bleast active one\b": "the least active one applies",
    r"\bof 1 agent pool\b(?!s)": "3 of 1 agent pool allowed",
    r"\b(is|are) the cost\b": "where GPU machines are the cost",
    r"\bthat take them\b": "The cheapest NodeClaims of its NodePools that take them",
    r"\bhas so many\b": "a NodePool with replicas has so many machines",
    r"\ball the same\b": "a Pod that one keeps gets its next machine all the same",
    r"\bcannot be had\b": "a size that cannot be had is found out by its first PUT",
    r"\bhave their turn\b": "meanwhile other machines have their turn",
    r"\bon its way\b": "a machine is on its way",
}


def stopping(text: str) -> Iterator[str]:
    """What of the text is written as in a sentence of the table, also across lines."""
    joined = re.sub(r"\s+", " ", text)
    for pattern in STOPPING:
        if found := re.search(pattern, joined):
            yield joined[max(0, found.start() - 40) : found.end() + 40]


@pytest.mark.parametrize("path", [*PAGES, *SOURCES], ids=lambda path: str(path.relative_to(ROOT)))
def test_no_sentence_stops_a_reader(path: Path) -> None:
    assert [*stopping(path.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize(("pattern", "sentence"), STOPPING.items())
def test_each_pattern_finds_its_sentence(pattern: str, sentence: str) -> None:
    assert re.search(pattern, sentence)
