"""What code and documents cite is in the tree: pages and their headings, root documents, nothing else."""

import re
import subprocess
import unicodedata
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
# Not text, written by tools, or written while a workflow runs.
SKIPPED = re.compile(r"\.(png|ico|woff2?|lock|svg)$")
MADE_LATER = {"notes.md"}
# Where the pages stand that are written from texts in that folder.
WRITTEN_BY: dict[tuple[str, ...], tuple[Path, ...]] = {("tools", "reference"): (ROOT / "docs" / "reference",)}
URL = re.compile(r"https?://\S+")
CITED = re.compile(r"(?<![\w/.{}*-])((?:\.{0,2}/)*[\w-][\w./-]*\.md)(#[\w-]+)?(?![\w{])")
# References that lead nowhere, and labels that module docstrings do not have.
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
    """The headings of a page as the site's anchors, as Python-Markdown makes them."""
    found: list[str] = []
    for heading, given in HEADING.findall(FENCED.sub("", page.read_text(encoding="utf-8"))):
        text = unicodedata.normalize("NFKD", re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)).encode("ascii", "ignore")
        slug = given or re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", text.decode()).strip().lower())
        found.append(f"{slug}_{found.count(slug)}" if slug in found else slug)
    return frozenset(found)


def dangling(path: Path, text: str) -> Iterator[str]:
    """Each citation in this text of the file `path` (relative to the root) that does not resolve."""
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
    """A page that is cited exists, and so does the heading behind `#`."""
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
def test_a_citation_that_leads_nowhere_is_found(line: str, problem: str) -> None:
    """Each kind, planted in a module, by its line."""
    assert list(dangling(Path("controllers/planted.py"), f"\n{line}\n")) == [f"controllers/planted.py:2: {problem}"]


def test_what_resolves_is_not_reported() -> None:
    """Addresses, root documents, pages with and without headings, links relative to a page, patterns of names."""
    text = "https://example.com/a.md README.md docs/references/rules.md#invariants *.md {name}.md"
    assert list(dangling(Path("controllers/fine.py"), text)) == []
    assert list(dangling(Path("docs/concepts/fine.md"), "[Rules](../references/rules.md#circuit-breaker)")) == []
