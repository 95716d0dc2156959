"""Which NodeClaims cannot become machines now, and which of them pods still need."""

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from controllers.model.policy import Policy
from controllers.provisioning.launchless import launchless, still_needed
from controllers.provisioning.solver.solver import solve
from controllers.state.offering_tracker import LaunchObstacle
from provisioner.api import reasons
from provisioner.api.meta import Condition
from provisioner.api.nodeclaim import NodeClaim

from .observed import MOMENT, T4, TOLERATES, TYPES, claim, node_pool, observe, pod

SINCE = datetime.fromisoformat(MOMENT)
GONE: dict[str, Any] = {"deletionTimestamp": MOMENT}
POLICY = Policy()
LATER, SOON = POLICY.launch_seconds + 1.0, POLICY.launch_seconds - 1.0


def stated(status: str, reason: str, **more: Any) -> NodeClaim:
    """A claim whose condition Launched is this since SINCE."""
    made = claim("c", **more)
    condition = Condition(type="Launched", status=status, reason=reason, last_transition_time=SINCE)
    return msgspec.structs.replace(made, status=msgspec.structs.replace(made.status, conditions=(condition,)))


ROWS: list[tuple[str, NodeClaim, LaunchObstacle, float, bool]] = [
    ("all offerings failed", stated("False", "QuotaExceeded"), "no-capacity", 0.0, True),
    ("all requests are refused", stated("False", "RequestDisallowedByPolicy"), "refused", 0.0, True),
    ("an offering may be requested", stated("False", "QuotaExceeded"), "none", LATER, False),
    ("it waits for its turn", stated("False", "QuotaExceeded"), "waiting", SOON, False),
    ("it waits for too long", stated("False", "QuotaExceeded"), "waiting", LATER, True),
    ("its fields are invalid", stated("False", reasons.ZONE_INVALID), "none", 0.0, True),
    ("its node class is not there yet", stated("Unknown", reasons.NODECLASS_NOT_FOUND), "none", SOON, False),
    ("its node class does not appear", stated("Unknown", reasons.NODECLASS_NOT_FOUND), "none", LATER, True),
    ("its name is taken", stated("False", reasons.POOL_NAME_TAKEN), "none", LATER, True),
    ("every claim waits for that", stated("Unknown", reasons.POOL_LIMIT_REACHED), "none", 9 * LATER, False),
    ("it is being created", stated("Unknown", reasons.CREATING), "none", 9 * LATER, False),
    ("it is created for too long", stated("Unknown", reasons.CREATING), "slow", 0.0, True),
    ("it is launched", stated("True", reasons.LAUNCHED), "no-capacity", LATER, False),
    ("it is new", claim("c"), "no-capacity", LATER, False),
    ("it has a Node", stated("False", "QuotaExceeded", node="n"), "no-capacity", LATER, False),
    ("it is being deleted", stated("False", "QuotaExceeded", **GONE), "no-capacity", LATER, False),
]


@pytest.mark.parametrize(("made", "obstacle", "age", "expected"), [row[1:] for row in ROWS], ids=[r[0] for r in ROWS])
def test_launchless(made: NodeClaim, obstacle: LaunchObstacle, age: float, expected: bool) -> None:
    now = SINCE + timedelta(seconds=age)
    assert launchless(made, obstacle, now=now, policy=POLICY, observed_seconds=1e6) is expected


def test_a_new_process_observes_a_claim_that_waits() -> None:
    """While no process led, nobody updated its condition."""
    made, now = stated("Unknown", reasons.NODECLASS_NOT_READY), SINCE + timedelta(hours=5)
    assert not launchless(made, "none", now=now, policy=POLICY, observed_seconds=10.0)
    assert launchless(made, "none", now=now, policy=POLICY, observed_seconds=LATER)


A100 = "Standard_NC24ads_A100_v4"
SIZE = "node.kubernetes.io/instance-type"
NEEDED = [
    ("another machine takes its pod", {}, [], set()),
    ("no other machine takes its pod", {SIZE: A100}, [{"key": SIZE, "operator": "In", "values": [T4]}], {"large"}),
    ("its pod fits neither", {SIZE: "Standard_ND96isr_H100_v5"}, [], set()),
]


@pytest.mark.parametrize(
    ("selects", "requirements", "expected"), [row[1:] for row in NEEDED], ids=[row[0] for row in NEEDED]
)
def test_claims_that_are_kept(selects: dict[str, str], requirements: list[Any], expected: set[str]) -> None:
    """A claim that cannot be launched stays for a pod that the machines which are bought instead do not take."""
    failed = [claim("large", size=A100), claim("small")]
    only = requirements or [{"key": SIZE, "operator": "In", "values": [T4, A100]}]
    found = observe(
        pods=(pod("p", tolerations=TOLERATES, nodeSelector=selects), pod("q", tolerations=TOLERATES)),
        node_pools=(node_pool(requirements=only),),
    )
    decision = solve(found.snapshot)
    assert decision.machines
    assert still_needed(failed, found.snapshot, decision, {}, TYPES) == expected
