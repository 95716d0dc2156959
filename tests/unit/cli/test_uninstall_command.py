"""Decisions of `uninstall` after a read, and what successive reads of a Lease show."""

import pytest

from provisioner.api.meta import ObjectMeta
from provisioner.cli.commands.controller_lease import Controller, LeaseObserver
from provisioner.cli.commands.demand_remains import Item
from provisioner.cli.commands.remains import Remains
from provisioner.cli.commands.uninstall import Next, decide
from provisioner.runtime.objects import Lease, LeaseSpec

SETTLE = 60.0


def left(*blocked: bool) -> Remains:
    """One agent pool for each argument: whether it remains until a user acts."""
    items = (Item(kind="AgentPool", name="p", action="", waits_for="", blocked=one) for one in blocked)
    return Remains(live=(), live_pools=(), live_classes=(), items=tuple(items))


RUNNING, STOPPED, ABSENT = Controller.RUNNING, Controller.STOPPED, Controller.ABSENT
DECISIONS = [
    ("an agent pool remains", left(False), STOPPED, 0.0, 900.0, True, Next.WAIT),
    ("one of two waits for a user", left(True, False), RUNNING, 0.0, 0.0, True, Next.WAIT),
    ("all wait for a user", left(True, True), RUNNING, 0.0, 0.0, True, Next.BLOCKED),
    ("only the Lease of a running controller", left(), RUNNING, 900.0, 0.0, True, Next.CONTROLLER_RUNS),
    ("unknown whether the controller runs", left(), Controller.UNKNOWN, 900.0, 0.0, True, Next.WAIT),
    ("released a moment ago", left(), STOPPED, 900.0, 59.0, True, Next.WAIT),
    ("clear for a moment", left(), STOPPED, 59.0, 900.0, True, Next.WAIT),
    ("released and clear for long enough", left(), STOPPED, 60.0, 60.0, True, Next.DELETE_LEASES),
    ("no Lease", left(), ABSENT, 0.0, 0.0, True, Next.DONE),
    ("no leader election, clear for a moment", left(), ABSENT, 59.0, 0.0, False, Next.WAIT),
    ("no leader election, clear for long enough", left(), ABSENT, 60.0, 0.0, False, Next.DONE),
]


@pytest.mark.parametrize("row", DECISIONS, ids=[row[0] for row in DECISIONS])
def test_decisions(row: tuple[str, Remains, Controller, float, float, bool, Next]) -> None:
    """Exit code 0 and the deletion of the Lease need time without an object and without a leader."""
    _, remaining, controller, clear, idle, elect, step = row
    times = {"clear_seconds": clear, "idle_seconds": idle, "settle_seconds": SETTLE}
    assert decide(remaining, controller, **times, elect=elect) is step


def lease(holder: str, renewed: str = "", *, namespace: str = "a", duration: int = 30) -> Lease:
    meta = ObjectMeta(name="lease", namespace=namespace, uid=f"uid-{namespace}")
    spec = LeaseSpec(holder_identity=holder or None, renew_time=renewed or None, lease_duration_seconds=duration)
    return Lease(metadata=meta, spec=spec)


OBSERVATIONS = [
    ("no Lease", [], 0.0, ABSENT, 0.0),
    ("one read of a held Lease", [(0, [lease("ctl", "1")])], 1.0, Controller.UNKNOWN, 0.0),
    ("a renewal", [(0, [lease("ctl", "1")]), (2, [lease("ctl", "2")])], 3.0, RUNNING, 0.0),
    ("no renewal for its duration", [(0, [lease("ctl", "1")]), (29, [lease("ctl", "1")])], 40.0, STOPPED, 10.0),
    ("no renewal for a longer duration", [(0, [lease("ctl", "1", duration=60)])], 40.0, Controller.UNKNOWN, 0.0),
    ("a renewal, then none", [(0, [lease("ctl", "1")]), (2, [lease("ctl", "2")])], 32.0, STOPPED, 0.0),
    ("no holder", [(0, [lease("")])], 7.0, STOPPED, 7.0),
    ("released", [(0, [lease("ctl", "1")]), (2, [lease("", "2")])], 9.0, STOPPED, 7.0),
    ("acquired by another replica", [(0, [lease("")]), (2, [lease("ctl2", "3")])], 3.0, RUNNING, 0.0),
    ("deleted", [(0, [lease("ctl", "1")]), (2, [])], 3.0, ABSENT, 0.0),
    (
        "one of two namespaces",
        [(0, [lease(""), lease("x", "1", namespace="b")]), (2, [lease(""), lease("x", "2", namespace="b")])],
        3.0,
        RUNNING,
        0.0,
    ),
]


@pytest.mark.parametrize(
    ("reads", "now", "controller", "idle"), [row[1:] for row in OBSERVATIONS], ids=[row[0] for row in OBSERVATIONS]
)
def test_a_controller_is_observed_by_renewals(
    reads: list[tuple[float, list[Lease]]], now: float, controller: Controller, idle: float
) -> None:
    """A change of the Lease proves a holder; only time without a change proves that there is none."""
    observer = LeaseObserver()
    for at, leases in reads:
        observer.observe(leases, at)
    assert observer.controller(now) is controller
    assert observer.idle_seconds(now) == idle
