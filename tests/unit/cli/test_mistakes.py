"""What the program prints for the mistakes of `tools/reference/mistakes.toml`: the field, the value and the remedy."""

import io
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from provisioner.api.crd import nodeclaim_crd, nodeoverlay_crd, nodepool_crd
from provisioner.api.crd_nodeclass import agentpoolnodeclass_crd
from provisioner.apiextensions import remedies
from provisioner.cli.main import run_command
from tools.reference.mistakes import COMMANDS, FILE, FILES, MISTAKES, Mistake, printed

# What is valid and has an unexpected effect is a note.
NOTED = {
    "a limit of zero",
    "the label of a requirement is misspelt",
    "the node class of node auto-provisioning",
    "part of a size is missing in a NodeClaim",
    "more GPUs than the size has",
}


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda one: one.what)
def test_a_message_names_the_field_the_value_and_the_remedy(mistake: Mistake) -> None:
    found = printed(mistake)
    text = f"{found.cause} {found.remedy}"
    assert [part for part in (mistake.field, mistake.value, mistake.remedy) if part not in text] == [], text
    assert bool(found.code) is (mistake.what not in NOTED)
    assert "Traceback" not in text


def test_each_mistake_is_in_the_table_once() -> None:
    names = [one.what for one in MISTAKES]
    assert len(set(names)) == len(names) > 60
    assert set(names) >= NOTED


@pytest.mark.parametrize("file", list(COMMANDS))
def test_a_file_without_a_mistake_has_no_errors(file: str, tmp_path: Path) -> None:
    """So that each message is that of its mistake."""
    path = tmp_path / FILE
    path.write_text(FILES[file], encoding="utf-8")
    out, err = io.StringIO(), io.StringIO()
    assert run_command(COMMANDS[file].replace(FILE, str(path)).split(), {}, out, err) == 0
    assert ("✗" in out.getvalue(), err.getvalue()) == (False, "")


def patterns(schema: Mapping[str, Any]) -> Iterator[str]:
    """Those of the schema and of all schemas below it."""
    if "pattern" in schema:
        yield schema["pattern"]
    below = [*schema.get("properties", {}).values(), schema.get("items"), schema.get("additionalProperties")]
    for one in below:
        if isinstance(one, dict):
            yield from patterns(one)


@pytest.mark.parametrize("crd", [nodeclaim_crd, nodepool_crd, nodeoverlay_crd, agentpoolnodeclass_crd])
def test_each_pattern_of_a_crd_has_a_remedy(crd: Any) -> None:
    """The message of the API server states the regular expression only."""
    spec = crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    found = {*patterns(spec)}
    assert found
    assert [one for one in sorted(found) if not remedies.of_pattern(one)] == []
