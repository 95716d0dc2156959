"""Names of the tree are the standard terms of Kubernetes, Karpenter, Cluster API and Azure: replaced names stay away.

docs/adr/0082-queues-and-keys.md lists the sources of the names.
"""

import io
import re
import subprocess
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

# Replaced name -> the name in use. Identifiers of Python code, whole or as a part between underscores.
IDENTIFIERS = {
    "infirmary": "unhealthy_nodes",
    "patient": "unhealthy_node",
    "ward": "unhealthy_counts",
    "struck": "simultaneous",
    "suspect": "candidate",
    "suspects": "candidates",
    "suspected": "candidate",
    "suspicion": "candidate",
    "cooldown": "unavailable",
    "cooldowns": "unavailable_offerings",
    "market": "offering_tracker",
    "onlooker": "observer",
    "door": "actuator",
    "waker": "event_handlers",
    "waking": "event_handlers",
    "barriers": "expectations",
    "glance": "cached_facts",
    "tampering": "consistency",
    "objection": "FieldError",
    "objections": "FieldError",
    "flaw": "FieldError",
    "flaws": "FieldError",
    "judge": "condition",
    "judged": "condition",
    "judgement": "ConditionUpdate",
    "wording": "messages",
    "pacing": "poll_interval",
    "told": "reported",
    "said": "reported",
    "asked": "requested",
    "Shadow": "OfferingScope",
    "Views": "Indexes",
    "FleetView": "ClusterState",
    "Outside": "Clients",
    "Running": "Config",
}
# Words that no text of the tree contains: names of reasons, alerts and metrics that were renamed, and their nouns.
WORDS = (
    "RemovalBraked",
    "RemovalsBraked",
    "removals_braked",
    "removals_suspected",
    "infirmary",
    "onlooker",
)
PAST = ("docs/adr/", "CHANGELOG.md", "tests/unit/repository/test_vocabulary.py")


def tracked(*patterns: str) -> list[Path]:
    """The files that git tracks."""
    listed = subprocess.run(["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in listed.stdout.splitlines() if not name.startswith(PAST) and (ROOT / name).is_file()]


def replaced(source: str) -> set[str]:
    """The replaced names in Python source code."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    names = {token.string for token in tokens if token.type == tokenize.NAME}
    parts = {part for name in names for part in (name, *name.split("_"))}
    return parts & IDENTIFIERS.keys()


@pytest.mark.parametrize("folder", ["cloudprovider", "controllers", "provisioner", "tests", "tools"])
def test_no_identifier_has_a_replaced_name(folder: str) -> None:
    """Each finding names the file and the term to use."""
    found = {
        f"{path.relative_to(ROOT)}: {name} -> {IDENTIFIERS[name]}"
        for path in tracked(f"{folder}/*.py")
        for name in replaced(path.read_text(encoding="utf-8"))
    }
    assert sorted(found) == []


def test_no_text_contains_a_replaced_word() -> None:
    """Code, documentation, charts and dashboards."""
    pattern = re.compile(rf"\b(?:{'|'.join(WORDS)})\b")
    found = {
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in tracked()
        if path.suffix in {".py", ".md", ".yaml", ".yml", ".json", ".toml", ".tpl", ".txt"}
        for match in pattern.finditer(path.read_text(encoding="utf-8"))
    }
    assert sorted(found) == []


@pytest.mark.parametrize(
    ("source", "found"),
    [("Shadow = 1", {"Shadow"}), ("def is_told(): ...", {"told"}), ("text = 'told'", set()), ("# the ward", set())],
)
def test_a_replaced_name_is_found(source: str, found: set[str]) -> None:
    """In identifiers, not in strings and comments."""
    assert replaced(source) == found
