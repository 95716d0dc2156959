"""Version, notes and image digest of a release, for the release workflows; needs only Python.

The version is that of pyproject.toml and must match the tag. The notes are the section of this version in CHANGELOG.md.
`pin` sets the image's repository and digest in the chart's values.

    python3 -m tools.release version [TAG]      version=0.1.0, a line for $GITHUB_OUTPUT
    python3 -m tools.release notes              Markdown
    python3 -m tools.release pin REPOSITORY@DIGEST
"""

import re
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
VALUES = Path("charts", "gpu-provisioner", "values.yaml")
IMAGE = re.compile(r"(?P<repository>[a-z0-9.-]+(?:/[a-z0-9._-]+)+)@(?P<digest>sha256:[0-9a-f]{64})")


class ReleaseError(Exception):
    """The release cannot be created; the message ends with the remedy."""


def version(tag: str = "", root: Path = ROOT) -> str:
    """The version in pyproject.toml. Raises ReleaseError if the tag is another version's."""
    found: str = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    if tag not in {"", f"v{found}"}:
        raise ReleaseError(f"tag {tag} does not match version {found} in pyproject.toml: change one of them")
    return found


def notes(root: Path = ROOT) -> str:
    """The section of this version in CHANGELOG.md, without its heading. Raises ReleaseError."""
    wanted = version(root=root)
    text = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    found = re.search(
        rf"^## \[{re.escape(wanted)}\] - \d{{4}}-\d\d-\d\d\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE
    )
    if found is None or not found[1].strip():
        raise ReleaseError(f"CHANGELOG.md has no section [{wanted}] with a date: rename the section [Unreleased]")
    return found[1].strip() + "\n"


def pin(image: str, root: Path = ROOT) -> None:
    """Set the image of the chart by its digest. Raises ReleaseError."""
    match = IMAGE.fullmatch(image)
    if match is None:
        raise ReleaseError(f"{image} is not of the form repository@sha256:…: use the digest from the registry")
    path = root / VALUES
    text = path.read_text(encoding="utf-8")
    for key in ("repository", "digest"):
        text, count = re.subn(rf'^(    {key}: )""$', rf'\g<1>"{match[key]}"', text, flags=re.MULTILINE)
        if count != 1:
            raise ReleaseError(f"{VALUES} has {count} empty values of `{key}` instead of one: check controller.image")
    path.write_text(text, encoding="utf-8")


def main(words: Sequence[str]) -> None:
    """Run one command. An error ends with exit code 1 and a line on stderr."""
    try:
        match words:
            case ["version"]:
                sys.stdout.write(f"version={version()}\n")
            case ["version", tag]:
                sys.stdout.write(f"version={version(tag)}\n")
            case ["notes"]:
                sys.stdout.write(notes())
            case ["pin", image]:
                pin(image)
            case _:
                sys.exit(f"release: unknown command: use one of\n{(__doc__ or '').partition('    ')[2]}")
    except ReleaseError as error:
        sys.exit(f"release: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
