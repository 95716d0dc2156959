"""Each reason is a constant with one description, and is used only through its constant."""

import ast
import re
from pathlib import Path
from typing import Any

import pytest

from controllers.model.steps import PatchStatus
from controllers.planner.plan import plan
from provisioner.api import labels, reasons
from provisioner.api.causes import CAUSES
from provisioner.api.conditions import AWAITING_MESSAGE, DEPENDENTS, DRIFTED, READY, STALLED
from tests.unit.builders import facts
from tests.unit.controllers.planner.tables import DELETING_TABLE, GARBAGE_TABLE, LIVE_TABLE, MISSING_POOL_TABLE
from tests.world.messages import explained, explained_event
from tools.reference import PAGES
from tools.reference import labels as label_page
from tools.reference.explained import EVENTS, REASONS

ROOT = Path(__file__).parents[3]
NAMES = {key: value for key, value in vars(reasons).items() if key.isupper()}
# Packages that write reasons of the controller; `trial` and `simulator` write those of Azure.
PACKAGES = ("controllers", "cloudprovider", "provisioner/api", "provisioner/cli/commands", "provisioner/runtime")
WRITERS = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
NAMES_THEMSELVES = ROOT / "provisioner" / "api" / "reasons.py"


def test_every_reason_is_described() -> None:
    """The descriptions, and the constants with the reasons of commands that replace machines, are the same set."""
    described = {reason.name for reason in REASONS} | {event.name for event in EVENTS}
    assert described == {*NAMES.values(), *(row.reason for row in CAUSES.values() if row.replacement)}
    assert len(NAMES) == len(set(NAMES.values())) > 50


def test_descriptions_are_unique() -> None:
    """By condition, status and reason."""
    states = [(reason.on, status, reason.name) for reason in REASONS for status in reason.statuses]
    assert len(states) == len(set(states))


def test_a_reason_of_a_fault_has_a_remedy() -> None:
    """True is the healthy status of all conditions but Stalled and Drifted."""
    healthy = {(r.on, r.name) for r in REASONS if r.statuses == ("True",) and r.on not in (STALLED, DRIFTED)}
    assert [r.name for r in REASONS if (r.on, r.name) not in healthy and not (r.look and r.remedy)] == []
    assert [r.name for r in REASONS if (r.on, r.name) in healthy and r.look] == []


@pytest.mark.parametrize("path", WRITERS, ids=lambda path: str(path.relative_to(ROOT)))
def test_reasons_are_used_as_constants(path: Path) -> None:
    """The error table alone writes reasons of Azure."""
    if path == NAMES_THEMSELVES:
        return
    calls = [
        (call.func.id, call)
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
    ]
    written = [
        keyword.value
        for name, call in calls
        if name in {"ConditionUpdate", "Event", "Failure", "Finding", "FieldError"}
        for keyword in call.keywords
        if keyword.arg == "reason"
    ] + [call.args[1] for name, call in calls if name == "FieldError" and len(call.args) > 1]
    literals = [value.value for value in written if isinstance(value, ast.Constant)]
    # The `metav1.CauseType` of an error of a manifest or of a setting.
    assert [text for text in literals if not str(text).startswith("FieldValue")] == []


def test_the_messages_of_the_plan_tables_are_described() -> None:
    """Conditions and Events of each step match a description."""
    checked = 0
    known: Any
    for _, known, _ in (*LIVE_TABLE, *DELETING_TABLE, *GARBAGE_TABLE, *MISSING_POOL_TABLE):
        if known.get("nodes") == ("cordoned",):
            continue  # a name of the test table; its steps write no condition
        step = plan(facts(**known))
        event = getattr(step, "event", None)
        assert event is None or explained_event("NodeClaim", event.reason, event.message), event
        if not isinstance(step, PatchStatus):
            continue
        written = [one for one in step.conditions if one not in step.claim.status.conditions]
        checked += len(written)
        assert [one for one in written if not explained(one.type, one.status, one.reason, one.message)] == []
    assert checked > 50


def test_the_initial_reason_is_described_for_each_condition() -> None:
    """The four conditions that always exist."""
    waiting = {reason.on for reason in REASONS if reason.name == reasons.AWAITING}
    assert waiting == {READY, *DEPENDENTS}
    assert AWAITING_MESSAGE


def test_links_to_reasons_resolve() -> None:
    """The pages of conditions and Events link to headings of the troubleshooting page."""
    troubles = PAGES["docs/troubleshooting/reasons.md"]()
    headings = set(re.findall(r"^## (\w+)$", troubles, re.MULTILINE))
    assert headings == {reason.name for reason in REASONS if reason.look}
    for page in ("docs/reference/conditions.md", "docs/reference/events.md"):
        linked = set(re.findall(r"reasons\.md#(\w+)\)", PAGES[page]()))
        assert linked
        assert linked <= {heading.lower() for heading in headings}


def test_every_label_and_annotation_has_a_row() -> None:
    """The page contains each key in `provisioner.api.labels` and no other."""
    keys = {
        value
        for name, value in vars(labels).items()
        if name.isupper() and isinstance(value, str) and ("/" in value or name.startswith("TAG_"))
    }
    passed_on = {labels.REGION, labels.ARCH, labels.OS, labels.HOSTNAME, labels.KAITO_NODECLASS}
    shown = {mark.key for marks in label_page.SECTIONS.values() for mark in marks}
    assert keys - passed_on <= shown
    assert shown - keys == {labels.AGENTPOOL}
