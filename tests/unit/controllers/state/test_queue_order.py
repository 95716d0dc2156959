"""Turns of owners in the queue for room, as a table."""

from datetime import UTC, datetime, timedelta

import pytest

from controllers.state.queue_order import QueueOrder
from provisioner.api import labels
from provisioner.api.meta import ObjectMeta
from provisioner.api.nodeclaim import NodeClaim

START = datetime(2026, 3, 1, tzinfo=UTC)
A = {labels.KAITO_WORKSPACE: "w", labels.KAITO_WORKSPACE_NAMESPACE: "a", labels.NODEPOOL: "kaito"}
B = A | {labels.KAITO_WORKSPACE_NAMESPACE: "b"}
RAG = {labels.KAITO_RAGENGINE: "w", labels.KAITO_RAGENGINE_NAMESPACE: "a", labels.NODEPOOL: "kaito"}
POOL = {labels.NODEPOOL: "batch"}
NONE: dict[str, str] = {}
LABELS = {"A": A, "B": B, "R": RAG, "P": POOL, "n": NONE}

# Claims as owner and second of creation; what was created before, and what then waits in which order.
ROWS = [
    ("one owner: by age", "", "A3 A1 A2", "A1 A2 A3"),
    ("claims without an owner: by age", "", "n3 n1 n2", "n1 n2 n3"),
    ("two owners", "", "A1 A2 A3 B4", "A1 B4 A2 A3"),
    ("same name in two kinds and namespaces", "", "A1 A2 B3 R4 P5", "A1 B3 R4 P5 A2"),
    ("claims without an owner take one turn", "", "n1 n2 n3 B4", "n1 B4 n2 n3"),
    ("an owner that was served waits for the others", "A1", "A2 A3 B4 B5", "B4 A2 B5 A3"),
    ("the turn continues across creates", "A1 B4", "A2 A3 B5 B6", "A2 B5 A3 B6"),
    ("creates out of order gain no turn", "A1 A2 A3", "A4 A5 B4 B5 B6 B7", "B4 B5 B6 A4 B7 A5"),
    ("an owner that comes later joins the current round", "A1 A2 A3", "A4 A5 A6 P99", "A4 P99 A5 A6"),
]


def claims(names: str) -> list[NodeClaim]:
    """Claims of the owners that the first letters of these names mean."""
    return [
        NodeClaim(
            metadata=ObjectMeta(
                name=name, labels=LABELS[name[0]], creation_timestamp=START + timedelta(seconds=int(name[1:]))
            )
        )
        for name in names.split()
    ]


@pytest.mark.parametrize(("case", "created", "waiting", "expected"), ROWS, ids=[row[0] for row in ROWS])
def test_turns(case: str, created: str, waiting: str, expected: str) -> None:
    """Owners take turns, the oldest claim of one owner first."""
    queue = QueueOrder()
    left = claims(f"{created} {' '.join(name for name in waiting.split() if name[0] != 'P' or not created)}")
    for number, claim in enumerate(claims(created)):
        queue.order(left)
        queue.served(claim, START + timedelta(minutes=1, seconds=number))
        left = [other for other in left if other.name != claim.name]
    assert " ".join(claim.name for claim in queue.order(claims(waiting))) == expected


def test_each_position_is_the_number_of_creates_until_ones_own() -> None:
    """Served in order, the rest of the queue moves up by one each time."""
    queue = QueueOrder()
    left = claims("A1 A2 A3 A4 B2 B3 P3 n1 n5 R4")
    order = queue.order(left)
    for number in range(len(left)):
        queue.served(order[0], START + timedelta(minutes=1, seconds=number))
        left = order = [claim for claim in order if claim is not order[0]]
        assert queue.order(left) == order
