"""Builds Go programs for tests into the user's cache directory, by the versions of a module file only."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

USAGE = 2


class MissingError(Exception):
    """A program does not exist and cannot be built here; the message has the remedy in one line."""


def cache_root(env: Mapping[str, str]) -> Path:
    """The directory below which all built programs are kept."""
    return Path(env.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpu-provisioner"


def build_program(
    target: Path, package: str, *, folder: Path, missing: str, flags: tuple[str, ...] = (), stamps: str = ""
) -> Path:
    """Run `go build` of a package in `folder` and move the result to `target`, which is never half written.

    `stamps` are further linker flags. Raises MissingError with `missing` if there is no Go, and if the build fails.
    """
    if shutil.which("go") is None:
        raise MissingError(missing)
    target.parent.mkdir(parents=True, exist_ok=True)
    made = target.with_name(f".{target.name}")
    common = ("-mod=readonly", "-buildvcs=false", f"-ldflags=-s -w {stamps}".rstrip())
    command = ("go", "build", *common, *flags, "-o", str(made), package)
    if subprocess.run(command, cwd=folder, check=False).returncode:
        raise MissingError(f"go build of {target.name} failed; see above")
    return made.rename(target)


def main(what: str, build: Callable[[Mapping[str, str]], Path]) -> None:
    """Build and print the path; a missing prerequisite is one line on stderr and exit code 2."""
    try:
        print(f"{what}: {build(os.environ)}")
    except MissingError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(USAGE)
