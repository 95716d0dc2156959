"""What passes remember of a Node's devices, as sequences of what they see of it."""

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from controllers.model.facts import Facts
from controllers.nodeclaim.lifecycle.gpu_resources import gpu_state
from controllers.planner.evaluation import evaluate, with_judgements
from provisioner.api.node import Node, NodeCondition, NodeInfo
from provisioner.api.nodeclaim import NodeClaim
from tests.unit.builders import NOW, UP, claim, facts, node

START = NOW
USED = claim(up=UP)


def shown(
    gpus: int,
    *,
    ready: str = "True",
    since: float = -600.0,
    boot: str = "a",
    restarts: float | None = None,
    initialized: bool = True,
    uid: str = "n",
    mig: str = "",
) -> Node:
    """A Node; `since`: the second in which Ready changed; `restarts`: that in which the kubelet restarted often."""
    made = node(initialized=initialized, more_labels={"nvidia.com/mig.config.state": mig} if mig else None)
    conditions = [NodeCondition(type="Ready", status=ready, last_transition_time=at(since))]
    if restarts is not None:
        often = NodeCondition(type="FrequentKubeletRestart", status="True", last_transition_time=at(restarts))
        conditions.append(often)
    status = msgspec.structs.replace(
        made.status,
        allocatable={"nvidia.com/gpu": str(gpus)},
        conditions=tuple(conditions),
        node_info=NodeInfo(boot_id=boot),
    )
    metadata = msgspec.structs.replace(made.metadata, uid=uid)
    return msgspec.structs.replace(made, status=status, metadata=metadata)


def at(second: float) -> datetime:
    return START + timedelta(seconds=second)


def passes(*seen: tuple[float, Node | None], of: NodeClaim = USED, **fields: Any) -> list[Facts]:
    """The facts of one pass after the other, each at its second, as `plan` gets them."""
    found: list[Facts] = []
    for second, one in seen:
        before = found[-1] if found else facts()
        known = facts(
            claims=(of,),
            nodes=() if one is None else (one,),
            now=at(second),
            loop_now=second,
            devices=before.devices,
            gpu_short_since=before.gpu_short_since,
            **fields,
        )
        sights = evaluate(known)
        found.append(with_judgements(known, sights, counts=known.counts))
    return found


def held(f: Facts) -> float:
    state = gpu_state(f)
    return 0.0 if state is None else state.hold_seconds


NEW: dict[str, Any] = {"ready": "False", "since": -5.0, "initialized": False}

SIGNS = [
    ("nothing happens", [(0.0, shown(1)), (5.0, shown(1))], 0.0),
    ("first Ready of a new machine, plugin later", [(0.0, shown(0, **NEW)), (5.0, shown(1, initialized=False))], 0.0),
    (
        "first Ready of a new machine, plugin earlier",
        [(0.0, shown(1, **NEW)), (5.0, shown(1, since=5.0, initialized=False)), (6.0, shown(1, since=5.0))],
        0.0,
    ),
    ("another boot, the same number", [(0.0, shown(1)), (5.0, shown(1, boot="b"))], 30.0),
    ("another boot, seconds later", [(0.0, shown(1)), (5.0, shown(1, boot="b")), (15.0, shown(1, boot="b"))], 20.0),
    ("another boot, long ago", [(0.0, shown(1)), (5.0, shown(1, boot="b")), (35.0, shown(1, boot="b"))], 0.0),
    (
        "another boot, then published again",
        [(0.0, shown(1)), (5.0, shown(1, boot="b")), (6.0, shown(0, boot="b")), (7.0, shown(1, boot="b"))],
        0.0,
    ),
    ("another boot with no number", [(0.0, shown(1)), (5.0, shown(0, boot="b")), (9.0, shown(1, boot="b"))], 0.0),
    ("no boot ID yet", [(0.0, shown(1, boot="")), (5.0, shown(1, boot="b"))], 0.0),
    (
        "Ready again, the same number",
        [(0.0, shown(1)), (5.0, shown(1, ready="Unknown", since=5.0)), (60.0, shown(1, since=60.0))],
        30.0,
    ),
    (
        "Ready again, published meanwhile",
        [
            (0.0, shown(1)),
            (5.0, shown(1, ready="False", since=5.0)),
            (20.0, shown(0, ready="False", since=5.0)),
            (40.0, shown(1, ready="False", since=5.0)),
            (60.0, shown(1, since=60.0)),
        ],
        0.0,
    ),
    ("Ready again between two passes", [(0.0, shown(1)), (60.0, shown(1, since=55.0))], 25.0),
    ("Ready again before this process started", [(0.0, shown(1, since=-10.0))], 20.0),
    ("Ready for the first time before this process started", [(0.0, shown(1, since=-10.0, initialized=False))], 0.0),
    ("by a clock that is ahead", [(0.0, shown(1, since=300.0)), (10.0, shown(1, since=300.0))], 20.0),
    ("often restarted", [(0.0, shown(1)), (5.0, shown(1, restarts=4.0))], 29.0),
    ("often restarted for an hour", [(0.0, shown(1, restarts=-3600.0)), (5.0, shown(1, restarts=-3600.0))], 0.0),
    ("another Node", [(0.0, shown(1)), (5.0, shown(1, boot="b", uid="m", initialized=False))], 0.0),
]


@pytest.mark.parametrize(("case", "seen", "left"), SIGNS, ids=[case for case, _, _ in SIGNS])
def test_signs_of_a_restart(case: str, seen: list[tuple[float, Node]], left: float) -> None:
    """After one, a number counts once it was published again, or after 30 s."""
    assert held(passes(*seen)[-1]) == pytest.approx(left)


LOST = [
    ("all there", [(0.0, shown(1))], None),
    ("lost", [(0.0, shown(1)), (5.0, shown(0)), (90.0, shown(0))], 5.0),
    ("found at the start of the process", [(3.0, shown(0))], 3.0),
    ("back", [(0.0, shown(0)), (5.0, shown(1))], None),
    ("lost again", [(0.0, shown(0)), (5.0, shown(1)), (9.0, shown(0))], 9.0),
    (
        "Ready flaps",
        [
            (0.0, shown(1)),
            (5.0, shown(0)),
            (30.0, shown(0, ready="False", since=30.0)),
            (60.0, shown(0, since=60.0)),
        ],
        5.0,
    ),
    ("not Ready, first", [(0.0, shown(0, ready="False", since=-5.0)), (60.0, shown(0, since=60.0))], 60.0),
    (
        "published with another boot",
        [(0.0, shown(0)), (5.0, shown(0, ready="False", since=5.0)), (9.0, shown(1, since=9.0, boot="b"))],
        None,
    ),
    ("back while they are partitioned", [(0.0, shown(0)), (5.0, shown(1, mig="pending"))], 0.0),
    ("another Node", [(0.0, shown(0)), (5.0, None), (9.0, shown(0, uid="m"))], 9.0),
    ("another Node at once", [(0.0, shown(0)), (9.0, shown(0, uid="m"))], 9.0),
]


@pytest.mark.parametrize(("case", "seen", "since"), LOST, ids=[case for case, _, _ in LOST])
def test_since_when_gpus_are_missing(case: str, seen: list[tuple[float, Node]], since: float | None) -> None:
    """From the first sight; only the whole number ends it."""
    assert passes(*seen)[-1].gpu_short_since == since


@pytest.mark.parametrize(
    ("reason", "reported", "ready", "since"),
    [
        ("GPUUnavailable", -100.0, -3600.0, -460.0),
        ("GPUUnavailable", -3600.0, -50.0, -50.0),
        ("GPUUnavailable", -100.0, -200.0, -200.0),
        ("NodeNotReady", -100.0, -3600.0, 0.0),
    ],
)
def test_a_process_that_starts_continues_what_the_claim_states(
    reason: str, reported: float, ready: float, since: float
) -> None:
    """GPUs were missing for 6 min when it was reported, but not before the Node was Ready."""
    lost = claim(up=("Launched", "Registered"), down={"Initialized": reason})
    conditions = [
        msgspec.structs.replace(one, last_transition_time=at(reported)) if one.type == "Initialized" else one
        for one in lost.status.conditions
    ]
    lost = msgspec.structs.replace(lost, status=msgspec.structs.replace(lost.status, conditions=tuple(conditions)))
    assert passes((0.0, shown(0, since=ready)), of=lost)[-1].gpu_short_since == pytest.approx(since)


def test_a_claim_that_is_not_registered_lacks_nothing() -> None:
    """Its Node may be another's."""
    assert passes((0.0, shown(0)), of=claim())[-1].gpu_short_since is None


def test_the_mig_manager_is_waited_for_from_its_first_sight() -> None:
    """Pending and rebooting are one change of at most 15 min, which ends with its success."""
    changing = passes(
        (0.0, shown(0, mig="pending")), (60.0, shown(0, mig="rebooting")), (100.0, shown(0, mig="pending"))
    )
    assert [held(one) for one in changing] == [900.0, 840.0, 800.0]
    done = passes((0.0, shown(0, mig="pending")), (60.0, shown(1, mig="success")), (70.0, shown(0, mig="pending")))
    assert [held(one) for one in done] == [900.0, 0.0, 900.0]


def test_nothing_is_remembered_without_a_node() -> None:
    """What was seen of a Node ends with it."""
    assert passes((0.0, shown(1)), (5.0, None))[-1].devices is None
