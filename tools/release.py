"""What a release is made from: its version, its notes, the image that its chart deploys.

The version is pyproject.toml's, and a tag that says another is refused; the notes are the changelog's section
of that version, and a version without one is refused; `pin` changes two lines of the chart's values and no others. It
needs nothing but Python, so that a workflow can ask before anything is installed.

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


class Unfit(Exception):
    """Why nothing can be released so; the message ends with what to do."""


def version(tag: str = "", root: Path = ROOT) -> str:
    """pyproject.toml's, if the tag agrees or there is none. Raises Unfit."""
    found: str = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    if tag not in {"", f"v{found}"}:
        raise Unfit(f"the tag {tag} is not v{found}, the version in pyproject.toml: tag the commit that changed it")
    return found


def notes(root: Path = ROOT) -> str:
    """The changelog's section of this version, without its heading. Raises Unfit."""
    wanted = version(root=root)
    text = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    found = re.search(
        rf"^## \[{re.escape(wanted)}\] - \d{{4}}-\d\d-\d\d\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE
    )
    if found is None or not found[1].strip():
        raise Unfit(f"CHANGELOG.md has no section [{wanted}] with a date: give the one that is unreleased its name")
    return found[1].strip() + "\n"


def pin(image: str, root: Path = ROOT) -> None:
    """Let the chart deploy this image by its digest. Raises Unfit."""
    match = IMAGE.fullmatch(image)
    if match is None:
        raise Unfit(f"{image} is no repository@sha256:…: name what the registry answered with")
    path = root / VALUES
    text = path.read_text(encoding="utf-8")
    for key in ("repository", "digest"):
        text, count = re.subn(rf'^(    {key}: )""$', rf'\g<1>"{match[key]}"', text, flags=re.MULTILINE)
        if count != 1:
            raise Unfit(
                f"{VALUES} has {count} empty lines `{key}:` where there should be one: look at controller.image"
            )
    path.write_text(text, encoding="utf-8")


def main(words: Sequence[str]) -> None:
    """One command; what is refused ends with exit code 1 and a line on stderr."""
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
                sys.exit(f"release: no such command: use one of\n{(__doc__ or '').partition('    ')[2]}")
    except Unfit as error:
        sys.exit(f"release: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
