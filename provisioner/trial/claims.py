"""The claims that a trial is about, of the examples or of files that people name, and the fault plan that they name.

What is returned are NodeClaims with names, each once; anything else is an error that names file and remedy.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from provisioner.simulator.azure import fault_plan
from provisioner.simulator.azure.faults import Fault

Json = dict[str, Any]
DEMO = ("kaito-workspace.yaml", "first-gpu.yaml", "a100-multi.yaml")


class UnusableFile(Exception):
    """A file that cannot be used: why, and what to do, a line each."""

    def __init__(self, path: Path, why: str, remedy: str) -> None:
        super().__init__(f"{path}: {why}\n    {remedy}")


def examples() -> list[Path]:
    """The demo's claims: beside the packages in a checkout, inside them in a wheel."""
    inside = Path(__file__).parents[1] / "examples"
    folder = inside if inside.is_dir() else Path(__file__).parents[2] / "examples"
    return [folder / name for name in DEMO]


def read_claims(paths: Sequence[Path]) -> list[Json]:
    """The NodeClaims of YAML files, at least one of each. Raises UnusableFile."""
    claims = [claim for path in paths for claim in _read(path)]
    names = [claim["metadata"]["name"] for claim in claims]
    for path, name in ((path, name) for path in paths for name in names if names.count(name) > 1):
        raise UnusableFile(path, f"the name {name} is given twice", "Give each NodeClaim a name of its own.")
    return claims


def read_faults(path: Path) -> tuple[Fault, ...]:
    """The rules of a fault plan. Raises UnusableFile."""
    try:
        return tuple(fault_plan.read(path.read_text(encoding="utf-8")))
    except OSError as error:
        why = (error.strerror or type(error).__name__).lower()
        raise UnusableFile(path, why, "Name a file that can be read.") from None
    except UnicodeError:
        raise UnusableFile(path, "it is no text", "Mend it, or name another file.") from None
    except fault_plan.InvalidFaultPlan as error:
        remedy = "Write a list of rules, each as: - {verb: PUT, times: 2, throttled_seconds: 30}"
        raise UnusableFile(path, str(error).replace("\n", "\n    "), remedy) from None


def _read(path: Path) -> list[Json]:
    try:
        documents = list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
    except OSError as error:
        why = (error.strerror or type(error).__name__).lower()
        raise UnusableFile(path, why, "Name a file that can be read.") from None
    except (yaml.YAMLError, UnicodeError) as error:
        raise UnusableFile(path, f"it is no YAML{_place(error)}", "Mend it, or name another file.") from None
    objects = [document for document in documents if isinstance(document, dict)]
    claims = [found for found in objects if found.get("kind") == "NodeClaim"]
    if not claims:
        raise UnusableFile(path, "there is no NodeClaim in it", "Name a file with NodeClaims, as examples/ has them.")
    for claim in claims:
        metadata, spec = claim.get("metadata"), claim.get("spec")
        if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str) or not isinstance(spec, dict):
            raise UnusableFile(path, "a NodeClaim in it has no name or no spec", "Write metadata.name and spec.")
    return claims


def _place(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    return f" (line {mark.line + 1}: {getattr(error, 'problem', '')})" if mark is not None else ""
