"""What docs/reference/testing.md shows of runs that take hours: files beside this one, each written by its command.

`figures.toml`: the last campaign (`python -m tests.swarm --figures FILE`). `mutants.toml`: planted defects, by seeds
alone. `rediscovery.toml`: defects of the past, planted again.
"""

import json
import tomllib
from pathlib import Path

import msgspec

FOLDER = Path(__file__).parent


class Campaign(msgspec.Struct, frozen=True, kw_only=True):
    """`commit`: what was run. `survived`: kinds of faults that occurred in runs without a failure, sorted.

    `hours`: of one processor. `machine_years` and `days`: virtual. `idle`: seeds since the last new pair of states.
    """

    date: str
    commit: str
    seeds: int
    failed: int
    hours: float
    days: float
    machine_years: float
    faults: int
    pairs: int
    marks: int
    idle: int
    survived: tuple[str, ...]


class Mutant(msgspec.Struct, frozen=True, kw_only=True):
    """A planted defect. `seed`: the one that found it, 0 if none did; `cpu_seconds`: of a processor, until then.

    `chosen`: seeds were run whose plans have what the defect concerns, after the first ones.
    """

    name: str
    seed: int = 0
    cpu_seconds: float = 0.0
    why: str = ""
    chosen: bool = False


class Story(msgspec.Struct, frozen=True, kw_only=True):
    """A story of a defect of the past. `found`: the seed that found it, 0 if none did; `by`: by which invariant.

    `not_found`: a kind of reason, and `reason`: in words.
    """

    defect: str
    name: str
    found: int = 0
    by: str = ""
    not_found: str = ""
    reason: str = ""


def campaign() -> Campaign | None:
    """None without the file, as are the others. Raises msgspec.ValidationError for an invalid one."""
    return msgspec.convert(found, Campaign) if (found := _read("figures")) else None


def mutants() -> tuple[Mutant, ...]:
    return msgspec.convert(_read("mutants").get("mutant", ()), tuple[Mutant, ...])


def stories() -> tuple[Story, ...]:
    return msgspec.convert(_read("rediscovery").get("story", ()), tuple[Story, ...])


def write(path: Path, found: Campaign) -> None:
    """Replace the file by these figures."""
    # JSON's numbers, strings and lists are TOML's.
    lines = [f"{name} = {json.dumps(value)}\n" for name, value in msgspec.to_builtins(found).items()]
    path.write_text("# Written by `make swarm FIGURES=FILE`.\n" + "".join(lines), encoding="utf-8")


def _read(name: str) -> dict[str, object]:
    path = FOLDER / f"{name}.toml"
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
