"""Version, notes and image digest of a release."""

import shutil
from pathlib import Path

import pytest

from provisioner.version import own_version
from tests.unit.charts import chart_values
from tools.release import ROOT, VALUES, ReleaseError, main, notes, pin, version

DIGEST = "sha256:" + "0123456789abcdef" * 4


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the files that the release reads."""
    for name in ("pyproject.toml", "CHANGELOG.md"):
        shutil.copyfile(ROOT / name, tmp_path / name)
    shutil.copytree(ROOT / "charts" / "gpu-provisioner", tmp_path / "charts" / "gpu-provisioner")
    return tmp_path


def test_the_version_is_that_of_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    """In the format of $GITHUB_OUTPUT."""
    main(["version", f"v{own_version()}"])
    assert capsys.readouterr().out == f"version={own_version()}\n"
    assert version() == own_version()


@pytest.mark.parametrize("tag", ["v9.9.9", own_version(), "main"])
def test_a_tag_of_another_version_is_rejected(tag: str) -> None:
    with pytest.raises(SystemExit, match=rf"release: tag {tag} does not match version {own_version()} in pyproject"):
        main(["version", tag])


def test_the_notes_are_the_section_of_the_version(tree: Path) -> None:
    """Without its heading and without previous versions."""
    ours = f"## [{own_version()}] - 2026-11-21\n\n### Added\n- One.\n"
    older = "## [0.0.1] - 2026-01-01\n- Old.\n"
    (tree / "CHANGELOG.md").write_text(f"# Changelog\n\n## [Unreleased]\n\n{ours}\n{older}")
    assert notes(tree) == "### Added\n- One.\n"


@pytest.mark.parametrize(
    "text", ["## [Unreleased]\n- One.\n", f"## [{own_version()}] - 2026-11-21\n\n## [0.0.1] - x\n"]
)
def test_a_version_without_notes_is_rejected(tree: Path, text: str) -> None:
    """No section, or an empty one."""
    (tree / "CHANGELOG.md").write_text(text)
    with pytest.raises(ReleaseError, match=r"CHANGELOG\.md has no section"):
        notes(tree)


def test_the_released_chart_deploys_the_released_image_by_digest(tree: Path) -> None:
    """Only two lines of the values change."""
    before = (tree / VALUES).read_text(encoding="utf-8").splitlines()
    pin(f"registry.example.com/fork/gpu-provisioner@{DIGEST}", tree)
    after = (tree / VALUES).read_text(encoding="utf-8").splitlines()
    assert len([1 for old, new in zip(before, after, strict=True) if old != new]) == 2
    needed = {"azure": chart_values.NEEDED["azure"]}
    rendered = chart_values.render(needed, chart=tree / "charts" / "gpu-provisioner")
    (deployment,) = [obj for obj in rendered if obj["kind"] == "Deployment"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["image"] == f"registry.example.com/fork/gpu-provisioner:{own_version()}@{DIGEST}"


def test_only_a_digest_is_pinned_and_only_once(tree: Path) -> None:
    """A tag is rejected, and so are values that already contain an image."""
    with pytest.raises(ReleaseError, match="is not of the form repository@sha256"):
        pin("registry.example.com/fork/gpu-provisioner:latest", tree)
    pin(f"registry.example.com/fork/gpu-provisioner@{DIGEST}", tree)
    with pytest.raises(ReleaseError, match="has 0 empty values"):
        pin(f"registry.example.com/fork/gpu-provisioner@{DIGEST}", tree)


def test_an_unknown_command_lists_the_commands() -> None:
    with pytest.raises(SystemExit, match=r"(?s)unknown command.*tools\.release notes"):
        main(["publish"])
