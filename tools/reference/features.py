"""`docs/reference/features.md`: what the program does, where it is described, and what enables it."""

import tomllib
from pathlib import Path

import msgspec

from .markdown import page, table

SOURCE = "tools/reference/features.toml"
INTRODUCTION = """\
Each row is a feature of this version. A test of the repository shows each of them, and another one compares the pages
that introduce the program with this table."""


class Feature(msgspec.Struct, frozen=True):
    """`page`: of docs. `test`: shows the feature. `enabled`: by what. `denied`: patterns of sentences that deny it."""

    name: str
    what: str
    page: str
    test: str
    enabled: str
    denied: tuple[str, ...]


_TABLE = tomllib.loads(Path(__file__).with_name("features.toml").read_text(encoding="utf-8"))
FEATURES = msgspec.convert(_TABLE["feature"], tuple[Feature, ...])


def render() -> str:
    """The page."""
    rows = [[f"[{one.name}](../{one.page})", one.what, one.enabled] for one in FEATURES]
    return page("Features", SOURCE, INTRODUCTION, table(["Feature", "What it does", "Enabled"], rows))
