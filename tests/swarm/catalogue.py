"""The catalogue of faults, `faults.toml`: what can go wrong, how often, for how long, and what must hold nevertheless.

A row with a `verb` is injected by runs of the swarm; a row with `tests` by these tests, which name its number. The
numbers are those of docs/references/reliability.md#faults.
"""

import functools
import tomllib
from pathlib import Path
from typing import Literal

import msgspec

FILE = Path(__file__).with_name("faults.toml")
Layer = Literal["process", "read", "write", "azure", "node", "lease", "program", "fact", "person", "tenant", "other"]
Range = tuple[float, float]


class Fault(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`per_hour`: its rate, of which a run draws one. `seconds`: for how long it lasts.

    `since`: the day since which it is injected.
    """

    id: int
    name: str
    layer: Layer
    what: str
    must_hold: tuple[str, ...]
    since: str
    verb: str = ""
    per_hour: Range = (0.0, 0.0)
    seconds: Range = (0.0, 0.0)
    tests: tuple[str, ...] = ()


@functools.cache
def faults() -> dict[str, Fault]:
    """All rows, by name. Raises msgspec.ValidationError for a row that is not one."""
    rows = msgspec.convert(tomllib.loads(FILE.read_text())["fault"], type=list[Fault])
    return {one.name: one for one in rows}
