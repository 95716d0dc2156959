"""The bill of materials of the image: CycloneDX, from the lock that it is installed from.

Promise: each pin of `requirements-image.lock` with its version, its package URL, the hashes of all files that may be
installed for it, its declared licence and what it needs in turn; the program itself at the root; nothing else. The same
lock gives the same text: its serial number is a function of the lock, and there is no time in it.
Left to others: the bases' packages (the scan that BuildKit attaches to the image), signing (release workflow).

    python -m tools.sbom [FILE]
"""

import sys
import tomllib
import warnings
from collections.abc import Iterable, Mapping
from importlib.metadata import metadata, requires
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from . import locks

LOCK = "requirements-image.lock"
# The image's Python and system, whatever this one is: what only others need is no part of the graph.
IMAGE = {
    "extra": "",
    "implementation_name": "cpython",
    "platform_python_implementation": "CPython",
    "platform_system": "Linux",
    "python_full_version": "3.13.0",
    "python_version": "3.13",
    "sys_platform": "linux",
}
ROOT = Path(__file__).parents[1]


def render() -> str:
    """The whole document, as JSON with a final newline."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    libraries = {pin.name: _library(pin) for pin in locks.read(LOCK)}
    program = Component(
        name=project["name"],
        version=project["version"],
        type=ComponentType.APPLICATION,
        description=project["description"],
        purl=PackageURL("pypi", name=project["name"], version=project["version"]),
        bom_ref=project["name"],
        licenses=[LicenseFactory().make_from_string(project["license"])],
    )
    bom = Bom(components=libraries.values())
    bom.metadata.component = program
    bom.metadata.timestamp = None  # type: ignore[assignment]  # as cyclonedx-py itself leaves it out
    bom.serial_number = uuid5(NAMESPACE_URL, f"{program.purl}#{(ROOT / LOCK).read_text(encoding='utf-8')}")
    bom.register_dependency(program, [libraries[name] for name in _needs(project["dependencies"], libraries)])
    for name, component in libraries.items():
        bom.register_dependency(component, [libraries[need] for need in _needs(requires(name) or (), libraries)])
    return JsonV1Dot6(bom).output_as_string(indent=2) + "\n"


def _library(pin: locks.Pin) -> Component:
    described = metadata(pin.name)
    said = next((described[key] for key in ("License-Expression", "License") if key in described), "")
    return Component(
        name=pin.name,
        version=pin.version,
        type=ComponentType.LIBRARY,
        purl=PackageURL("pypi", name=pin.name, version=pin.version),
        bom_ref=f"{pin.name}=={pin.version}",
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=each) for each in sorted(pin.hashes)],
        licenses=[LicenseFactory().make_from_string(said)] if said else (),
    )


def _needs(texts: Iterable[str], known: Mapping[str, Component]) -> list[str]:
    """The names of those that the image needs. Raises KeyError for one that the lock lacks."""
    wanted = (Requirement(text) for text in texts)
    names = {canonicalize_name(each.name) for each in wanted if each.marker is None or each.marker.evaluate(IMAGE)}
    return sorted(known[name].name for name in names)


def main() -> None:
    """Write it to the file that is named, or to standard output."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        text = render()
    if len(sys.argv) > 1:
        target = Path(sys.argv[1])
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
