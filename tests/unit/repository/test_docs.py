"""The documentation's site: it builds, alone and strictly, and asks no other host for anything."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
OUTSIDE = sorted(
    path for path in (*ROOT.glob("*.md"), *(ROOT / "charts").rglob("*.md"), *(ROOT / "provisioner").rglob("*.md"))
)
LINK = re.compile(r"\]\(([^)#\s]+)(#[^)\s]*)?\)")
LOADED = re.compile(r"<(?:script|img|iframe|source)[^>]*\ssrc=\"([^\"]+)\"|<link[^>]*\shref=\"([^\"]+)\"")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` does; every warning (a dead link, a page outside the navigation) is an error."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    ended = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return folder


def test_every_page_of_the_folder_is_on_the_site(site: Path) -> None:
    """One HTML page for each Markdown page."""
    pages = {path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")}
    built = {path.relative_to(site) for path in site.rglob("*.html")}
    assert pages
    assert built - {Path("404.html")} == pages


def test_the_site_is_complete_in_itself(site: Path) -> None:
    """No page loads a font, a script or a picture from elsewhere: it reads the same behind a firewall."""
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
def test_documents_outside_the_site_link_to_what_is_there(path: Path) -> None:
    """A relative link of a README names a file of the repository; mkdocs looks after those of the site."""
    targets = [match[1] for match in LINK.finditer(path.read_text(encoding="utf-8"))]
    assert [to for to in targets if "://" not in to and not (path.parent / to).exists()] == []


def test_the_pages_that_others_are_built_from_can_be_moved() -> None:
    """ARCHITECTURE.md and CONTRIBUTING.md are on the site as well, where relative links would lead nowhere."""
    for name in ("ARCHITECTURE.md", "CONTRIBUTING.md"):
        targets = [match[1] for match in LINK.finditer((ROOT / name).read_text(encoding="utf-8"))]
        assert [to for to in targets if "://" not in to] == []
