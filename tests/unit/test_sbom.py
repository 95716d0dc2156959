"""The bill of materials: everything that is in the image, with what identifies it, and the same each time."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from provisioner.version import DISTRIBUTION, own_version
from tools import locks, sbom

Json = dict[str, Any]


@pytest.fixture(scope="module")
def text() -> str:
    return sbom.render()


@pytest.fixture(scope="module")
def bom(text: str) -> Json:
    read: Json = json.loads(text)
    return read


def test_it_holds_each_pin_of_the_image_and_nothing_else(bom: Json) -> None:
    """Name, version, package URL and every hash of the lock."""
    found = {
        each["name"]: (each["version"], each["purl"], {entry["content"] for entry in each["hashes"]})
        for each in bom["components"]
    }
    assert found == {
        pin.name: (pin.version, f"pkg:pypi/{pin.name}@{pin.version}", set(pin.hashes))
        for pin in locks.read("requirements-image.lock")
    }
    assert {entry["alg"] for each in bom["components"] for entry in each["hashes"]} == {"SHA-256"}


def test_the_program_is_its_root_and_all_of_it_hangs_together(bom: Json) -> None:
    """Whoever asks why a library is there finds a way to it from the program."""
    root = bom["metadata"]["component"]
    assert (root["name"], root["version"], root["type"]) == (DISTRIBUTION, own_version(), "application")
    needs = {each["ref"]: each.get("dependsOn", []) for each in bom["dependencies"]}
    found: set[str] = set()
    todo = [root["bom-ref"]]
    while todo:
        ref = todo.pop()
        if ref not in found:
            found.add(ref)
            todo += needs[ref]
    assert found == {each["bom-ref"] for each in bom["components"]} | {root["bom-ref"]}


def test_every_licence_is_named(bom: Json) -> None:
    """As its own metadata declares it."""
    unnamed = {each["name"] for each in bom["components"] if not each.get("licenses")}
    assert unnamed == set()


def test_it_is_what_cyclonedx_calls_valid(text: str) -> None:
    """By the published schema, strictly; and a key too much is found."""
    validator = JsonStrictValidator(SchemaVersion.V1_6)
    assert validator.validate_str(text) is None
    assert validator.validate_str(text.replace('"components"', '"parts"', 1)) is not None


def test_it_is_the_same_in_every_process(text: str) -> None:
    """No time, no chance, no order of sets: two builds of a release can be compared."""
    done = subprocess.run(
        [sys.executable, "-m", "tools.sbom"],
        env={**os.environ, "PYTHONHASHSEED": "4711"},
        cwd=sbom.ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout == text
