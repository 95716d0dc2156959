"""The documentation site builds without warnings, and its pages load nothing from other hosts."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
OUTSIDE = sorted(
    path for path in (*ROOT.glob("*.md"), *(ROOT / "charts").rglob("*.md"), *(ROOT / "provisioner").rglob("*.md"))
)
CITING = [*OUTSIDE, *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\]\(([^)#\s]+)(#[^)\s]*)?\)")
TREE = {path.name for path in ROOT.iterdir() if not path.name.startswith(".")} | {".ci", ".github"}
CODE = re.compile(r"`([\w.*/-]+)`")
LOADED = re.compile(r"<(?:script|img|iframe|source)[^>]*\ssrc=\"([^\"]+)\"|<link[^>]*\shref=\"([^\"]+)\"")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as by `make docs`; a warning, such as a dead link or a page outside the nav, is an error."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    ended = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return folder


def test_every_page_is_on_the_site(site: Path) -> None:
    pages = {path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")}
    built = {path.relative_to(site) for path in site.rglob("*.html")}
    assert pages
    assert built - {Path("404.html")} == pages


def test_pages_load_nothing_from_other_hosts(site: Path) -> None:
    """Fonts, scripts and images."""
    found = []
    for path in site.rglob("*.html"):
        for match in LOADED.finditer(path.read_text(encoding="utf-8")):
            source = match[1] or match[2]
            if re.match(r"(https?:)?//", source):
                found.append(f"{path.name}: {source}")
    for path in site.rglob("*.css"):
        found += re.findall(r"url\([\"']?(?:https?:)?//[^)]*", path.read_text(encoding="utf-8"))
    assert found == []


@pytest.mark.parametrize("path", OUTSIDE, ids=lambda path: str(path.relative_to(ROOT)))
def test_relative_links_of_documents_outside_the_site_resolve(path: Path) -> None:
    """mkdocs checks the links of the site."""
    targets = [match[1] for match in LINK.finditer(path.read_text(encoding="utf-8"))]
    assert [to for to in targets if "://" not in to and not (path.parent / to).exists()] == []


def test_documents_that_the_site_includes_have_no_relative_links() -> None:
    """Relative links would not resolve on the site."""
    for name in ("ARCHITECTURE.md", "CONTRIBUTING.md"):
        targets = [match[1] for match in LINK.finditer((ROOT / name).read_text(encoding="utf-8"))]
        assert [to for to in targets if "://" not in to] == []


@pytest.mark.parametrize("path", CITING, ids=lambda path: str(path.relative_to(ROOT)))
def test_documents_cite_only_paths_that_exist(path: Path) -> None:
    """Inline code that begins with a folder of the repository or ends with .py, .md or .lock."""
    cited = {each for each in CODE.findall(path.read_text(encoding="utf-8")) if _path(each)}
    found = {each for each in cited if any([*ROOT.glob(each.rstrip("/")), *path.parent.glob(each.rstrip("/"))])}
    assert sorted(cited - found) == []


def test_every_decision_record_has_its_sections_and_is_in_the_index() -> None:
    """Records are numbered without gaps and have four sections; the index lists number, title and status in order."""
    rows = []
    for number, path in enumerate(sorted((ROOT / "docs" / "adr").glob("0*.md")), 1):
        assert path.name.startswith(f"{number:04d}-")
        title, *sections = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
        assert sections == ["Status", "Context", "Decision", "Consequences"]
        status = re.search(r"^## Status\n(Accepted|Superseded by \[.+?\)).*$", path.read_text(encoding="utf-8"), re.M)
        assert status
        rows.append(f"| [{number}]({path.name}) | {title.removeprefix(f'{number}. ')} | {status[1]} |")
    index = (ROOT / "docs" / "adr" / "index.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| \[.+$", index, re.MULTILINE) == rows


def _path(code: str) -> bool:
    """Whether inline code is a path of the repository: `tools/release.py` and `release.py`, not `nvidia.com/gpu`."""
    return ("/" in code and code.split("/")[0] in TREE) or code.endswith((".py", ".md", ".lock"))
