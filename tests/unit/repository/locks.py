"""The packages of this repository and the pins of its lock files."""

import tomllib
from pathlib import Path
from typing import NamedTuple

from pip_requirements_parser import RequirementsFile

from provisioner.cli.installation import PACKAGES

ROOT = Path(__file__).parents[3]
TOP = ("provisioner", *PACKAGES)
FIRST, SECOND = (tomllib.loads((ROOT / path).read_text()) for path in ("pyproject.toml", "provisioner/pyproject.toml"))
OF_TRY = tuple(f"provisioner/{path}" for path in SECOND["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"])
RUN, DEV, IMAGE, BUILD = (f"requirements{part}.lock" for part in ("", "-dev", "-image", "-build"))


class Pin(NamedTuple):
    """`marker` is empty for a distribution that is installed everywhere; `hashes` are in pip's notation."""

    name: str
    version: str
    marker: str
    hashes: frozenset[str]


def pins(name: str) -> list[Pin]:
    """The lines of a lock. Raises ValueError for a line that is no exact version with hashes."""
    file = RequirementsFile.from_file(str(ROOT / name))
    if (
        file.options
        or file.invalid_lines
        or not all(each.is_pinned and each.hash_options for each in file.requirements)
    ):
        raise ValueError(f"{name}: a line is not an exact version with hashes")
    return [
        Pin(each.name, each.get_pinned_version, str(each.marker or ""), frozenset(each.hash_options))
        for each in file.requirements
    ]
