"""The phase of a claim, and the table of transitions that the code shares with the documentation."""

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from controllers.planner.plan import TERMINATING, TRANSITIONS, phase_of
from provisioner.api.meta import Condition
from provisioner.api.nodeclaim import NodeClaim, Phase
from tests.unit.builders import BORN, UP, claim

LIFE = Path(__file__).parents[4] / "docs" / "concepts" / "life.md"


def with_conditions(*, deleting: bool = False, **conditions: str) -> NodeClaim:
    """A claim with conditions as in `Launched="False QuotaExceeded"`."""
    written = tuple(
        Condition(
            type=kind,
            status=words.split()[0],
            reason=words.split()[-1],
            last_transition_time=BORN + timedelta(minutes=1),
        )
        for kind, words in conditions.items()
    )
    made = claim(deleting=deleting)
    return msgspec.structs.replace(made, status=msgspec.structs.replace(made.status, conditions=written))


LAUNCHED = {"Launched": "True"}
REGISTERED = {**LAUNCHED, "Registered": "True"}
DRAINED = {**LAUNCHED, "Drained": "True"}


@pytest.mark.parametrize(
    ("phase", "conditions"),
    [
        ("Pending", {}),
        ("Pending", {"Launched": "Unknown AwaitingReconciliation"}),
        ("Pending", {"Launched": "Unknown Throttled"}),
        ("Launching", {"Launched": "Unknown Creating"}),
        ("Launching", {"Launched": "Unknown PoolDeleted"}),
        ("Failed", {"Launched": "False QuotaExceeded"}),
        ("Registering", LAUNCHED),
        ("Registering", {**LAUNCHED, "Registered": "False MultipleNodesFound"}),
        ("Initializing", {**REGISTERED, "Initialized": "Unknown NodeNotReady"}),
        ("Ready", {**REGISTERED, "Initialized": "True", "Ready": "True"}),
        ("NotReady", {**REGISTERED, "Initialized": "False NodeNotReady", "Ready": "False"}),
    ],
)
def test_the_phase_of_a_live_claim(phase: str, conditions: dict[str, Any]) -> None:
    """The conditions alone decide it."""
    assert phase_of(with_conditions(**conditions)) == phase
    assert phase not in TERMINATING


@pytest.mark.parametrize(
    ("phase", "conditions"),
    [
        ("InstanceTerminating", {}),
        ("InstanceTerminating", {"Launched": "False QuotaExceeded"}),
        ("Draining", {**REGISTERED, "Ready": "True"}),
        ("Draining", {**LAUNCHED, "Drained": "Unknown Draining"}),
        ("Draining", {**LAUNCHED, "Drained": "Unknown Draining", "InstanceTerminating": "Unknown Throttled"}),
        ("Detaching", DRAINED),
        ("Detaching", {**DRAINED, "VolumesDetached": "Unknown AwaitingVolumeDetachment"}),
        ("InstanceTerminating", {**DRAINED, "VolumesDetached": "True"}),
        ("InstanceTerminating", {**DRAINED, "VolumesDetached": "False TerminationGracePeriodElapsed"}),
        ("InstanceTerminating", {**LAUNCHED, "Drained": "Unknown Draining", "InstanceTerminating": "True"}),
        ("Terminated", {**DRAINED, "InstanceTerminating": "False InstanceTerminated"}),
    ],
)
def test_the_phase_of_a_deleting_claim(phase: str, conditions: dict[str, str]) -> None:
    """The deletionTimestamp comes first, then the conditions of the removal."""
    assert phase_of(with_conditions(deleting=True, **conditions)) == phase
    assert phase in TERMINATING


def test_a_claim_that_no_longer_exists_is_terminated() -> None:
    """As `try` shows it."""
    assert phase_of(None) is Phase.TERMINATED


def test_every_phase_has_its_row_of_transitions() -> None:
    """Each phase can be reached from Pending, and Terminated from each."""
    assert set(TRANSITIONS) == set(Phase)

    def reachable(phase: Phase, found: set[Phase]) -> set[Phase]:
        for after in TRANSITIONS[phase]:
            if after not in found:
                reachable(after, found | {after})
                found |= reachable(after, found | {after})
        return found

    assert reachable(Phase.PENDING, {Phase.PENDING}) == set(Phase)
    assert all(Phase.TERMINATED in reachable(phase, {phase}) for phase in Phase)


def test_the_documentation_has_the_same_table() -> None:
    """docs/concepts/life.md lists the phases and what follows each, in the order of the code."""
    page = LIFE.read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| [^|]+ \| ([^|]+) \|$", page.partition("## Phases")[2].partition("##")[0], re.M)
    documented = {name: tuple(re.findall(r"`(\w+)`", after)) for name, after in rows}
    assert list(documented) == [phase.value for phase in Phase]
    assert documented == {phase.value: tuple(TRANSITIONS[phase]) for phase in Phase}


def test_up_is_ready() -> None:
    """The claims of the plan tables agree with the phases."""
    assert phase_of(claim(up=UP)) is Phase.READY
