"""Reasons are named once, explained once, and written under no other name."""

import ast
import re
from pathlib import Path
from typing import Any

import pytest

from controllers.model.steps import PatchStatus
from controllers.planner.plan import plan
from provisioner.api import labels, reasons
from provisioner.api.conditions import AWAITING_MESSAGE, DEPENDENTS, READY
from tests.unit.builders import facts
from tests.unit.controllers.planner.test_plan import DELETING_TABLE, GARBAGE_TABLE, LIVE_TABLE, MISSING_POOL_TABLE
from tests.world.messages import explained, explained_event
from tools.reference import PAGES
from tools.reference import labels as label_page
from tools.reference.explained import EVENTS, REASONS

ROOT = Path(__file__).parents[3]
NAMES = {key: value for key, value in vars(reasons).items() if key.isupper()}
# The trial and the simulator speak as Azure and as people do.
PACKAGES = ("controllers", "cloudprovider", "provisioner/api", "provisioner/cli/commands", "provisioner/runtime")
WRITERS = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
NAMES_THEMSELVES = ROOT / "provisioner" / "api" / "reasons.py"


def test_every_name_is_explained_and_every_explanation_is_of_a_name() -> None:
    """The tables and the names are the same set."""
    told = {reason.name for reason in REASONS} | {event.name for event in EVENTS}
    assert told == set(NAMES.values())
    assert len(NAMES) == len(set(NAMES.values())) > 50


def test_no_two_explanations_are_of_the_same_state() -> None:
    """A condition, a status and a reason have one row."""
    states = [(reason.on, status, reason.name) for reason in REASONS for status in reason.statuses]
    assert len(states) == len(set(states))


def test_whatever_is_not_good_says_what_to_look_at_and_what_to_do() -> None:
    """A reason of a condition that is not True is never left without a remedy."""
    assert [r.name for r in REASONS if r.statuses != ("True",) and not (r.look and r.remedy)] == []
    assert [r.name for r in REASONS if r.statuses == ("True",) and r.look] == []


@pytest.mark.parametrize("path", WRITERS, ids=lambda path: str(path.relative_to(ROOT)))
def test_reasons_are_written_as_constants(path: Path) -> None:
    """Conditions, Events and errors take their reasons from `reasons`; only the error table writes those of Azure."""
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


def test_the_plan_tables_say_nothing_that_no_page_explains() -> None:
    """Each status write and each Event of the tables' steps has its words from the explanations."""
    told = 0
    known: Any
    for _, known, _ in (*LIVE_TABLE, *DELETING_TABLE, *GARBAGE_TABLE, *MISSING_POOL_TABLE):
        if known.get("nodes") == ("cordoned",):
            continue  # the table's own word for a Node, of whose steps none says anything
        step = plan(facts(**known))
        event = getattr(step, "event", None)
        assert event is None or explained_event("NodeClaim", event.reason, event.message), event
        if not isinstance(step, PatchStatus):
            continue
        said = [one for one in step.conditions if one not in step.claim.status.conditions]
        told += len(said)
        assert [one for one in said if not explained(one.type, one.status, one.reason, one.message)] == []
    assert told > 50


def test_a_claim_that_nobody_has_looked_at_is_explained_on_each_condition() -> None:
    """The four conditions that are always there begin with the same reason."""
    waiting = {reason.on for reason in REASONS if reason.name == reasons.AWAITING}
    assert waiting == {READY, *DEPENDENTS}
    assert AWAITING_MESSAGE


def test_every_trouble_has_a_section_that_the_conditions_page_links_to() -> None:
    """The links of one generated page are headings of the other."""
    troubles = PAGES["docs/troubleshooting/reasons.md"]()
    headings = set(re.findall(r"^## (\w+)$", troubles, re.MULTILINE))
    assert headings == {reason.name for reason in REASONS if reason.look}
    for page in ("docs/reference/conditions.md", "docs/reference/events.md"):
        linked = set(re.findall(r"reasons\.md#(\w+)\)", PAGES[page]()))
        assert linked
        assert linked <= {heading.lower() for heading in headings}


def test_every_mark_has_its_row() -> None:
    """Each key that `provisioner.api.labels` names stands on the page of labels, and no other."""
    keys = {
        value
        for name, value in vars(labels).items()
        if name.isupper() and isinstance(value, str) and ("/" in value or name.startswith("TAG_"))
    }
    passed_on = {labels.REGION, labels.ARCH, labels.OS, labels.HOSTNAME, labels.KAITO_NODECLASS, labels.CREATION_LAYOUT}
    shown = {mark.key for marks in label_page.SECTIONS.values() for mark in marks}
    assert keys - passed_on <= shown
    assert shown - keys == {labels.AGENTPOOL}
