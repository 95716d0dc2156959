"""The replacements under way and their next step, as tables."""

from datetime import timedelta

import msgspec
import pytest

from controllers.disruption.queue import (
    FAILED_LAUNCH_SECONDS,
    Await,
    Delete,
    Replacement,
    Undo,
    annotations,
    next_step,
    under_way,
)
from provisioner.api import labels
from provisioner.api.conditions import DISRUPTION_REASON
from provisioner.api.nodeclaim import NodeClaim
from tests.unit.builders import NOW, claim

UP = ("Launched", "Registered", "Initialized", "Ready")
LIMIT = 3600.0


def old(uid: str, *, marked: bool = True, deleting: bool = False) -> NodeClaim:
    return claim(name=uid, uid=uid, up=(*UP, DISRUPTION_REASON) if marked else UP, deleting=deleting)


def new(
    name: str,
    replaces: str,
    wanted: object = 1,
    *,
    up: bool = False,
    down: str = "",
    deleting: bool = False,
    age: float = 60.0,
) -> NodeClaim:
    known = {labels.REPLACES: replaces, labels.REPLACEMENTS: str(wanted)}
    failed = {down: "InsufficientCapacityError"} if down else None
    made = claim(
        name=name,
        uid=name,
        up=UP if up else UP[:2] if down == "Initialized" else (),
        down=failed,
        annotations=known,
        deleting=deleting,
    )
    meta = msgspec.structs.replace(made.metadata, creation_timestamp=NOW - timedelta(seconds=age))
    return msgspec.structs.replace(made, metadata=meta)


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        ([], []),
        ([old("a", marked=False)], []),
        ([old("a", deleting=True), new("x", "a")], []),
        ([old("a")], [("a", "", 1)]),
        ([old("a"), new("x", "a")], [("a", "x", 1)]),
        ([old("a"), old("b"), new("x", "a,b")], [("a b", "x", 1)]),
        ([old("a"), new("y", "a", 2), new("x", "a", 2)], [("a", "x y", 2)]),
        ([old("a"), old("b"), new("x", "a"), new("y", "b")], [("a", "x", 1), ("b", "y", 1)]),
        # The other one is being deleted already.
        ([old("a", deleting=True), old("b"), new("x", "a,b", up=True)], [("b", "x", 1)]),
        # Replacements of machines that have gone are ordinary machines.
        ([new("x", "gone", up=True)], []),
    ],
)
def test_under_way(claims: list[NodeClaim], expected: list[tuple[str, str, int]]) -> None:
    found = [
        (" ".join(one.name for one in c.old), " ".join(one.name for one in c.new), c.wanted) for c in under_way(claims)
    ]
    assert found == expected


@pytest.mark.parametrize(
    ("replacements", "step", "unused", "why"),
    [
        ([], Undo, "", "a replacement does not exist"),
        ([new("x", "a", 2)], Undo, "x", "a replacement does not exist"),
        ([new("x", "a", 2, up=True)], Undo, "", "a replacement does not exist"),
        ([new("x", "a", "many", up=True)], Undo, "", "a replacement does not exist"),
        ([new("x", "a", deleting=True)], Undo, "", "replacement x is being deleted"),
        ([new("x", "a", 2, up=True, deleting=True), new("y", "a", 2)], Undo, "y", "replacement x is being deleted"),
        ([new("x", "a")], Await, "", ""),
        ([new("x", "a", 2, up=True), new("y", "a", 2)], Await, "", ""),
        ([new("x", "a", up=True)], Delete, "", ""),
        ([new("x", "a", 2, up=True), new("y", "a", 2, up=True)], Delete, "", ""),
        ([new("x", "a", age=LIMIT)], Undo, "x", "replacement x was not Initialized within 60 min"),
        # Its machine took pods once: it is kept, and the old one is not removed for it now.
        ([new("x", "a", down="Initialized")], Await, "", ""),
        ([new("x", "a", down="Initialized", age=LIMIT)], Undo, "", "replacement x was not Initialized within 60 min"),
    ],
)
def test_next_step(replacements: list[NodeClaim], step: type, unused: str, why: str) -> None:
    (command,) = under_way([old("a"), *replacements])
    found = next_step(command, NOW, LIMIT)
    assert type(found) is step
    if isinstance(found, Undo):
        assert (" ".join(one.name for one in found.unused), found.why) == (unused, why)
    if isinstance(found, Await):
        assert found.seconds == LIMIT - 60


def test_a_replacement_that_cannot_be_launched_ends_the_command() -> None:
    """Ten minutes after its creation, whatever the limit is."""
    (command,) = under_way([old("a"), new("x", "a", down="Launched", age=FAILED_LAUNCH_SECONDS - 1)])
    found = next_step(command, NOW, LIMIT)
    assert isinstance(found, Await)
    assert found.seconds == 1
    step = next_step(command, NOW + timedelta(seconds=1), LIMIT)
    assert isinstance(step, Undo)
    assert step.why.startswith("replacement x cannot be launched: ")


def test_annotations_are_read_back() -> None:
    """What a replacement is created with names its command."""
    first, second = old("a"), old("b")
    made = claim(name="x", uid="x", annotations=annotations((first, second), 1))
    assert under_way([first, second, made]) == (Replacement(old=(first, second), new=(made,), wanted=1),)
