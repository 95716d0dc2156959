"""No file has the marks of an unresolved merge."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[3]
MARK = re.compile(r"^(<{7}|>{7})( |$)", re.MULTILINE)


def test_no_merge_is_unresolved() -> None:
    """In all text files under version control."""
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    found = []
    for name in filter(None, names.split("\0")):
        try:
            text = (ROOT / name).read_text(encoding="utf-8")
        except (UnicodeDecodeError, FileNotFoundError):
            continue
        if MARK.search(text):
            found.append(name)
    assert found == []
