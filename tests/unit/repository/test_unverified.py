"""What docs/references state as unverified is listed with what depends on it, on docs/reference/testing.md."""

from dataclasses import fields
from pathlib import Path

from provisioner.simulator.azure.settings import AzureSettings
from provisioner.simulator.nodes.machine import NodeSettings
from tools.reference.testing import answers

REFERENCES = Path(__file__).parents[3] / "docs/references"
SETTINGS = {f"{kind.__name__}.{one.name}" for kind in (AzureSettings, NodeSettings) for one in fields(kind)}


def test_each_unverified_line_is_listed() -> None:
    """The pages that explain the mark aside."""
    marked = [
        (path.name, line)
        for path in sorted(REFERENCES.glob("*.md"))
        for line in path.read_text(encoding="utf-8").splitlines()
        if "unverified" in line.lower() and "unverified-" not in line and not line.startswith(("##", "* A fact"))
    ]
    listed = [(one.page.partition("#")[0].rpartition("/")[2], one.marks) for one in answers() if one.marks]
    for page, line in marked:
        assert any(page == where and words in line for where, words in listed), f"{page}: {line}"
    assert len(marked) == len(listed)


def test_the_settings_exist() -> None:
    assert {setting for one in answers() for setting in one.settings} <= SETTINGS
