"""Lock files, read as they were written: by pip's rules for hashes, in the one form that `make lock` produces.

Promise: every line is a pin with its marker, or a hash of the pin above it; anything else raises ValueError.
Left to others: what is locked and why (Makefile, docs/adr/0032-container-image.md).
"""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PIN = re.compile(r"(?P<name>[a-z0-9][a-z0-9._-]*)==(?P<version>[\w.+!]+)(?: ; (?P<marker>[^\\]+?))? \\")
HASH = re.compile(r" {4}--hash=sha256:(?P<hash>[0-9a-f]{64})(?: \\)?")


@dataclass(frozen=True)
class Pin:
    """One distribution; `marker` is empty where it is always installed, `hashes` are SHA-256 in hex."""

    name: str
    version: str
    marker: str
    hashes: frozenset[str]


def read(name: str) -> list[Pin]:
    """The pins of one lock file at the repository's root, in its order."""
    found: list[Pin] = []
    for line in (ROOT / name).read_text(encoding="utf-8").splitlines():
        if match := PIN.fullmatch(line):
            found.append(Pin(match["name"], match["version"], match["marker"] or "", frozenset()))
        elif found and (match := HASH.fullmatch(line)):
            last = found[-1]
            found[-1] = Pin(last.name, last.version, last.marker, last.hashes | {match["hash"]})
        else:
            raise ValueError(f"{name}: neither pin nor hash: {line}")
    return found
