"""Reads the NodeClaims of a run, from the examples or from files, and fault plans.

Every error names the file, the cause and the remedy.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from provisioner.api.text import printable
from provisioner.settings import bounded_yaml
from provisioner.simulator.azure import fault_plan
from provisioner.simulator.azure.faults import Fault

Json = dict[str, Any]
POD_EXAMPLES = ("node-pool.yaml", "trainer.yaml", "intruder.yaml")
DEMO = ("kaito-workspace.yaml", "first-gpu.yaml", "a100-multi.yaml")


class InvalidFile(Exception):
    """A file that cannot be used. The message has a line for the cause and a line for the remedy."""

    def __init__(self, path: Path, cause: str, remedy: str) -> None:
        super().__init__(f"{printable(f'{path}: {cause}', keep=chr(10))}\n    {remedy}")


def examples() -> list[Path]:
    """The claims of the demo."""
    return [_folder() / name for name in DEMO]


def pod_examples() -> list[Path]:
    """The NodePool, the pod and the intruder of `try --pods`."""
    return [_folder() / "pods" / name for name in POD_EXAMPLES]


def _folder() -> Path:
    """The examples: beside the packages in a checkout, inside them in a wheel."""
    inside = Path(__file__).parents[1] / "examples"
    return inside if inside.is_dir() else Path(__file__).parents[2] / "examples"


def read_objects(paths: Sequence[Path]) -> list[Json]:
    """All objects of YAML files. Raises InvalidFile."""
    return [document for path in paths for document in _documents(path) if isinstance(document, dict)]


def read_claims(paths: Sequence[Path]) -> list[Json]:
    """The NodeClaims of YAML files, at least one of each. Raises InvalidFile."""
    claims = [claim for path in paths for claim in _read(path)]
    names = [claim["metadata"]["name"] for claim in claims]
    for path, name in ((path, name) for path in paths for name in names if names.count(name) > 1):
        raise InvalidFile(path, f"duplicate NodeClaim name {name}", "Use unique names.")
    return claims


def read_faults(path: Path) -> tuple[Fault, ...]:
    """The rules of a fault plan. Raises InvalidFile."""
    documents = _documents(path)
    try:
        return tuple(fault_plan.read(documents[0] if len(documents) == 1 else None))
    except fault_plan.InvalidFaultPlan as error:
        remedy = "Write a list of rules, each as: - {verb: PUT, times: 2, throttled_seconds: 30}"
        raise InvalidFile(path, str(error).replace("\n", "\n    "), remedy) from None


def _documents(path: Path) -> list[Any]:
    try:
        with path.open(encoding="utf-8") as file:
            return list(bounded_yaml.load_all(bounded_yaml.read(file)))
    except OSError as error:
        raise InvalidFile(path, _cause(error), "Use a readable file.") from None
    except bounded_yaml.LimitExceeded as error:
        raise InvalidFile(path, str(error), "Write plain YAML.") from None
    except (yaml.YAMLError, ValueError) as error:
        raise InvalidFile(path, f"invalid YAML{_position(error)}", "Correct it, or use another file.") from None


def _read(path: Path) -> list[Json]:
    objects = [document for document in _documents(path) if isinstance(document, dict)]
    claims = [found for found in objects if found.get("kind") == "NodeClaim"]
    if not claims:
        raise InvalidFile(path, "contains no NodeClaim", "Use a file with NodeClaims, such as those in examples/.")
    for claim in claims:
        metadata, spec = claim.get("metadata"), claim.get("spec")
        if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str) or not isinstance(spec, dict):
            raise InvalidFile(path, "contains a NodeClaim without name or spec", "Add metadata.name and spec.")
    return claims


def _cause(error: OSError) -> str:
    return (error.strerror or type(error).__name__).lower()


def _position(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    return f" (line {mark.line + 1}: {getattr(error, 'problem', '')})" if mark is not None else ""
