"""How long machines and NodePools wait after a replacement was undone, as tables."""

import msgspec
import pytest

from controllers.disruption.commands_under_way import Replacement
from controllers.disruption.retries import FIRST_SECONDS, MOST_SECONDS, Retries, concerns_pool
from provisioner.api import labels
from provisioner.api.nodeclaim import NodeClaim
from tests.unit.builders import claim, with_reason

UP = ("Launched", "Registered", "Initialized")
OLD = claim(name="old", uid="old", up=UP, more_labels={labels.NODEPOOL: "gpu"})
OTHER = claim(name="other", uid="other", up=UP, more_labels={labels.NODEPOOL: "gpu"})
BOOTED, BOOTING = claim(name="x", up=UP), claim(name="x", up=("Launched",))
SHORT = claim(name="x", down={"Launched": "InsufficientCapacityError"})


def command(*new: NodeClaim, identity: str = "c") -> Replacement:
    return Replacement(id=identity, old=(OLD,), new=new, wanted=1)


@pytest.mark.parametrize(
    ("found", "static", "expected"),
    [
        # Capacity is short for one size; all machines of a static NodePool have the same sizes.
        (command(SHORT), False, False),
        (command(SHORT), True, True),
        (command(SHORT, BOOTED), False, False),
        # The machine was bought, and pods cannot use it.
        (command(BOOTING), False, True),
        (command(BOOTING, SHORT), False, True),
        (command(claim(name="x", up=UP[:2], down={"Initialized": "NodeNotReady"})), False, True),
        # The API server refuses the NodeClaims, or a user deletes them.
        (command(), False, True),
        # It refuses to mark the machine, or to delete it once the replacement can be used.
        (command(identity=""), True, False),
        (command(BOOTED), True, False),
        # A newer version began it.
        (msgspec.structs.replace(command(BOOTING), old=(with_reason(OLD, "Outdated"),)), True, False),
        # A tenant protects a pod of the machine while the replacement boots.
        (msgspec.structs.replace(command(BOOTING), protected=True), True, False),
    ],
)
def test_whom_a_failure_concerns(found: Replacement, *, static: bool, expected: bool) -> None:
    assert concerns_pool(found, static=static) == expected
    retries = Retries()
    retries.failed(found, "why", 0.0, static=static)
    assert retries.undone((OLD, OTHER), 1.0).waiting == ({"old": "why", "other": "why"} if expected else {"old": "why"})


def test_each_wait_is_longer() -> None:
    """Ten minutes, doubled up to twelve hours; a success ends it."""
    retries, now = Retries(), 0.0
    for number in range(12):
        retries.failed(command(SHORT), "sold out", now, static=False)
        seconds = min(FIRST_SECONDS * 2**number, MOST_SECONDS)
        assert retries.undone((OLD,), now + seconds - 1).waiting == {"old": "sold out"}
        now += seconds
        assert retries.undone((OLD,), now).waiting == {}
    assert retries.undone((OLD,), now).numbers == {"old": 12}
    retries.succeeded(command(BOOTED))
    assert retries.undone((OLD,), now).numbers == {}


def test_failures_of_machines_that_are_gone_are_dropped() -> None:
    retries = Retries()
    retries.failed(command(SHORT), "sold out", 0.0, static=False)
    retries.failed(Replacement(id="c", old=(OTHER,), new=(SHORT,)), "sold out", 2 * MOST_SECONDS, static=False)
    assert retries.undone((OTHER,), 2 * MOST_SECONDS).numbers.keys() == {"other"}
