"""Code and documents cite only pages and headings of the repository."""

import re
import subprocess
import unicodedata
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
# Binary and generated files; documents that a workflow writes.
SKIPPED = re.compile(r"\.(png|ico|woff2?|lock|svg)$")
MADE_LATER = {"notes.md"}
# The folder of the pages that the texts in another folder are rendered to.
WRITTEN_BY: dict[tuple[str, ...], tuple[Path, ...]] = {("tools", "reference"): (ROOT / "docs" / "reference",)}
URL = re.compile(r"https?://\S+")
CITED = re.compile(r"(?<![\w/.{}*-])((?:\.{0,2}/)*[\w-][\w./-]*\.md)(#[\w-]+)?(?![\w{])")
# References that do not resolve, and labels that module docstrings do not contain.
REFUSED = re.compile(r"DESIGN (?:rule|§)|Left to others|\bPromise:")
HEADING = re.compile(r"^#{1,6} +(.+?)(?: +\{#([\w-]+)\})? *$", re.MULTILINE)
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


@cache
def tracked() -> tuple[Path, ...]:
    """The text files of the repository, relative to its root."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return tuple(Path(name) for name in listed.split("\0") if name and not SKIPPED.search(name))


@cache
def anchors(page: Path) -> frozenset[str]:
    """The anchors of the headings of a page, in the format of Python-Markdown."""
    found: list[str] = []
    for heading, given in HEADING.findall(FENCED.sub("", page.read_text(encoding="utf-8"))):
        text = unicodedata.normalize("NFKD", re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)).encode("ascii", "ignore")
        slug = given or re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", text.decode()).strip().lower())
        found.append(f"{slug}_{found.count(slug)}" if slug in found else slug)
    return frozenset(found)


def dangling(path: Path, text: str) -> Iterator[str]:
    """The citations in a text that do not resolve; `path`: its file, relative to the root."""
    for number, line in enumerate(text.split("\n"), 1):
        place = f"{path}:{number}"
        yield from (f"{place}: {word}" for word in REFUSED.findall(line))
        for name, anchor in CITED.findall(URL.sub("", line).replace('" / "', "/")):
            bases = (ROOT / path.parent, ROOT, ROOT / "docs", *WRITTEN_BY.get(path.parts[:2], ()))
            page = next((base / name for base in bases if (base / name).is_file()), None)
            if page is None and name not in MADE_LATER:
                yield f"{place}: {name} is not in the tree"
            elif page is not None and anchor and anchor[1:] not in anchors(page.resolve()):
                yield f"{place}: {name} has no heading {anchor}"


def test_every_citation_resolves() -> None:
    """The cited page exists and has the cited heading."""
    own = Path(__file__).relative_to(ROOT)
    found: list[str] = []
    for path in tracked():
        if path != own and (ROOT / path).is_file():
            found += dangling(path, (ROOT / path).read_text(encoding="utf-8"))
    assert found == []


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("# See aks.md", "aks.md is not in the tree"),
        ("Source: karpenter.md §4", "karpenter.md is not in the tree"),
        ("docs/references/azure.md#limits", "docs/references/azure.md is not in the tree"),
        ("docs/references/rules.md#no-such-rule", "docs/references/rules.md has no heading #no-such-rule"),
        ("# (DESIGN rule 4)", "DESIGN rule"),
        ("Left to others: the rest.", "Left to others"),
        ("Promise: pure.", "Promise:"),
    ],
)
def test_a_citation_that_does_not_resolve_is_reported(line: str, problem: str) -> None:
    """With its file and line."""
    assert list(dangling(Path("controllers/planted.py"), f"\n{line}\n")) == [f"controllers/planted.py:2: {problem}"]


def test_valid_citations_are_not_reported() -> None:
    """URLs, root documents, pages with and without headings, relative links, file name patterns."""
    text = "https://example.com/a.md README.md docs/references/rules.md#invariants *.md {name}.md"
    assert list(dangling(Path("controllers/fine.py"), text)) == []
    assert list(dangling(Path("docs/concepts/fine.md"), "[Rules](../references/rules.md#circuit-breaker)")) == []
