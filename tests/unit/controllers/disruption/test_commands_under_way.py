"""The replacements under way and their next step, as tables."""

import pytest

from controllers.disruption.commands_under_way import (
    FAILED_LAUNCH_SECONDS,
    Age,
    Await,
    Delete,
    Places,
    Replacement,
    Undo,
    annotations,
    last_step,
    next_step,
    replaced,
    under_way,
)
from provisioner.api import labels
from provisioner.api.nodeclaim import NodeClaim
from tests.unit.builders import claim, with_reason

UP = ("Launched", "Registered", "Initialized", "Ready")
LIMIT = 3600.0


def old(uid: str, command: str = "c", *, marked: bool = True, deleting: bool = False) -> NodeClaim:
    """With the ID of its command, and the condition if `marked`."""
    known = {labels.DISRUPTION_COMMAND: command} if command else None
    made = claim(name=uid, uid=uid, up=UP, deleting=deleting, annotations=known)
    return with_reason(made, "Drifted") if marked else made


def new(
    name: str,
    replaces: str,
    wanted: object = 1,
    command: str = "c",
    *,
    up: bool = False,
    coming: bool = False,
    down: str = "",
    deleting: bool = False,
) -> NodeClaim:
    known = {labels.REPLACEMENT_COMMAND: command, labels.REPLACES: replaces, labels.REPLACEMENTS: str(wanted)}
    failed = {down: "InsufficientCapacityError"} if down else None
    return claim(
        name=name,
        uid=name,
        up=UP if up else UP[:2] if down == "Initialized" else UP[:1] if coming else (),
        down=failed,
        annotations=known,
        deleting=deleting,
    )


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        ([], []),
        ([old("a", "", marked=False)], []),
        # A crash between the first write and the second, and between the last two of an undo.
        ([old("a", marked=False)], [("a", "", 1)]),
        ([old("a", marked=False), new("x", "a")], [("a", "x", 1)]),
        # The condition of another release, or of a user.
        ([old("a", "")], [("a", "", 1)]),
        ([old("a", ""), new("x", "a", command="")], [("a", "", 1)]),
        # A user has removed the ID; the replacement of a command that goes on is not touched.
        ([old("a", ""), new("x", "a")], [("a", "x", 1)]),
        ([old("a", ""), old("b"), new("x", "a,b", up=True)], [("a", "", 1), ("b", "x", 1)]),
        ([old("a", deleting=True), new("x", "a")], []),
        ([old("a")], [("a", "", 1)]),
        ([old("a"), new("x", "a")], [("a", "x", 1)]),
        ([old("a"), old("b"), new("x", "a,b")], [("a b", "x", 1)]),
        ([old("a"), new("y", "a", 2), new("x", "a", 2)], [("a", "x y", 2)]),
        ([old("a"), old("b", "d"), new("x", "a"), new("y", "b", 1, "d")], [("a", "x", 1), ("b", "y", 1)]),
        # A replacement of an earlier command for the same machine: kept, in need of others, or on its way out.
        ([old("a", "d"), new("x", "a", up=True)], [("a", "", 1)]),
        ([old("a", "d"), new("x", "a", 3, up=True), new("y", "a", 1, "d")], [("a", "y", 1)]),
        ([old("a", "d"), new("x", "a", deleting=True), new("y", "a", 1, "d")], [("a", "y", 1)]),
        # Of several machines, one has been marked by a later command.
        ([old("a"), old("b", "d"), new("x", "a,b", up=True)], [("a", "x", 1), ("b", "", 1)]),
        # A copy of a marked NodeClaim under another name is not what was decided about.
        ([old("a"), old("copy"), new("x", "a", up=True)], [("a", "x", 1), ("copy", "", 1)]),
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


@pytest.mark.parametrize("up", [False, True])
def test_without_the_id_a_command_is_undone(up: bool) -> None:
    """Also if the replacement that names the machine can be used: it stays, and is an ordinary machine."""
    replacement = new("x", "a", up=up)
    (command,) = under_way([old("a", ""), replacement])
    found = next_step(command, {}, LIMIT)
    assert isinstance(found, Undo)
    assert (found.kept, found.unused) == (((replacement,), ()) if up else ((), (replacement,)))
    assert not replaced([old("a", ""), replacement])


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        (("Drifted",), "Drifted"),
        (("Drifted", "Drifted"), "Drifted"),
        (("Underutilized",), "Underutilized"),
        (("",), "Underutilized"),
        (("Drifted", ""), "Underutilized"),
        (("Drifted", "Underutilized"), "Underutilized"),
    ],
)
def test_a_reason_that_is_not_stated_is_the_stricter_one(stated: tuple[str, ...], expected: str) -> None:
    """Drift takes machines whose pods have no other place; consolidation never does."""
    assert Replacement(id="c", old=stating(*stated)).reason == expected


def stating(*reasons: str) -> tuple[NodeClaim, ...]:
    """A NodeClaim for each; "" for one without the condition."""
    claims = [(old(str(number), marked=False), reason) for number, reason in enumerate(reasons)]
    return tuple(with_reason(one, reason) if reason else one for one, reason in claims)


@pytest.mark.parametrize("stated", [("Outdated",), ("Outdated", "Drifted"), ("", "Outdated")], ids=str)
@pytest.mark.parametrize("up", [False, True])
def test_a_command_with_an_unknown_reason_is_undone(stated: tuple[str, ...], *, up: bool) -> None:
    """A newer version began it: this one knows neither its cause nor what may prevent it. A usable machine stays."""
    claims = stating(*stated)
    (command,) = under_way([*claims, new("x", ",".join(one.uid for one in claims), up=up)])
    found = next_step(command, {}, LIMIT)
    assert isinstance(found, Undo)
    assert len(found.kept) == up
    assert "does not know the reason Outdated of its condition DisruptionReason" in found.why


@pytest.mark.parametrize(
    ("replacements", "step", "unused", "why"),
    [
        ([], Undo, "", "a replacement does not exist"),
        ([new("x", "a", 2)], Undo, "x", "a replacement does not exist"),
        ([new("x", "a", 2, up=True)], Undo, "", "a replacement does not exist"),
        ([new("x", "a", "many", up=True)], Undo, "", "a replacement does not exist"),
        ([new("x", "a", "9" * 4301, up=True)], Undo, "", "a replacement does not exist"),
        ([new("x", "a", deleting=True)], Undo, "", "replacement x is being deleted"),
        ([new("x", "a", 2, up=True, deleting=True), new("y", "a", 2)], Undo, "y", "replacement x is being deleted"),
        # Pods may count on a machine that is being created.
        ([new("x", "a", 2, coming=True)], Undo, "", "a replacement does not exist"),
        ([new("x", "a", coming=True)], Await, "", ""),
        ([new("x", "a")], Await, "", ""),
        ([new("x", "a", 2, up=True), new("y", "a", 2)], Await, "", ""),
        ([new("x", "a", up=True)], Delete, "", ""),
        ([new("x", "a", 2, up=True), new("y", "a", 2, up=True)], Delete, "", ""),
        # Its machine took pods once: it is kept, and the old one is not removed for it now.
        ([new("x", "a", down="Initialized")], Await, "", ""),
    ],
)
def test_next_step(replacements: list[NodeClaim], step: type, unused: str, why: str) -> None:
    (command,) = under_way([old("a"), *replacements])
    found = next_step(command, {one.uid: Age(before=10.0, observed=50.0) for one in replacements}, LIMIT)
    assert type(found) is step
    if isinstance(found, Undo):
        assert (" ".join(one.name for one in found.unused), found.why) == (unused, why)
    if isinstance(found, Await):
        assert found.seconds == LIMIT - 60


@pytest.mark.parametrize(
    ("replacement", "age", "left"),
    [
        (new("x", "a"), Age(observed=100), LIMIT - 100),
        (new("x", "a"), Age(before=600, observed=100), LIMIT - 700),
        (new("x", "a"), Age(observed=LIMIT), 0),
        (new("x", "a"), Age(before=600, observed=LIMIT - 600), 0),
        # What a wall clock states at the start of the process is not enough.
        (new("x", "a"), Age(before=1e9), LIMIT / 3),
        (new("x", "a"), Age(before=1e9, observed=LIMIT / 3), 0),
        # Its machine took pods once: it is kept, and the old one is not removed for it now.
        (new("x", "a", down="Initialized"), Age(observed=100), LIMIT - 100),
        (new("x", "a", down="Initialized"), Age(observed=LIMIT), 0),
        # One that cannot be launched ends the command earlier, whatever the limit is.
        (new("x", "a", coming=True), Age(observed=LIMIT), 0),
        (new("x", "a", down="Launched"), Age(observed=FAILED_LAUNCH_SECONDS - 1), 1),
        (new("x", "a", down="Launched"), Age(observed=FAILED_LAUNCH_SECONDS), 0),
        (new("x", "a", down="Launched"), Age(before=1e9), FAILED_LAUNCH_SECONDS / 3),
    ],
)
def test_the_time_that_is_left(replacement: NodeClaim, age: Age, left: float) -> None:
    (command,) = under_way([old("a"), replacement])
    step = next_step(command, {"x": age}, LIMIT)
    if left:
        assert isinstance(step, Await)
        assert step.seconds == pytest.approx(left)
    else:
        assert isinstance(step, Undo)
        usable = replacement.condition("Initialized", "False") is not None
        assert [len(step.unused), len(step.kept)] == [not usable, usable]
        assert "cannot be launched: " in step.why or "was not Initialized within 60 min" in step.why


def test_a_replacement_tries_all_of_its_offerings() -> None:
    """A failed launch ends nothing while another offering was not requested; the limit applies all the same."""
    (command,) = under_way([old("a"), new("x", "a", down="Launched")])
    for observed, trying, step in (
        (FAILED_LAUNCH_SECONDS, ("x",), Await),
        (FAILED_LAUNCH_SECONDS, (), Undo),
        (LIMIT, ("x",), Undo),
    ):
        assert type(next_step(command, {"x": Age(observed=observed)}, LIMIT, trying)) is step


def test_annotations_are_read_back() -> None:
    """What a replacement is created with names its command."""
    first, second = old("a"), old("b")
    made = claim(name="x", uid="x", annotations=annotations("c", (first, second), 1))
    assert under_way([first, second, made]) == (Replacement(id="c", old=(first, second), new=(made,), wanted=1),)


@pytest.mark.parametrize(
    ("places", "observed", "expected"),
    [
        (Places(), 0.0, Delete),
        (Places(), LIMIT, Delete),
        (Places(lacking="p", coming=True), 0.0, Await),
        (Places(lacking="p", coming=True), LIMIT, Undo),
        (Places(lacking="p"), 0.0, Undo),
    ],
    ids=["all have one", "all have one, late", "one is coming", "it was coming for too long", "none"],
)
def test_the_places_of_pods_decide_the_last_step(places: Places, observed: float, expected: type) -> None:
    (command,) = under_way([old("a"), new("n", "a", up=True)])
    step = last_step(command, places, {"n": Age(observed=observed)}, LIMIT)
    assert isinstance(step, expected)
    assert not isinstance(step, Undo) or step.why == "p"


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        ([old("a")], set()),
        ([old("a"), new("n", "a")], {"a"}),
        ([old("a"), new("n", "a", wanted=2)], set()),
        ([old("a"), new("n", "a", deleting=True)], set()),
        ([old("a"), old("b"), new("n", "a,b")], {"a", "b"}),
        ([old("a", deleting=True), new("n", "a", up=True)], set()),
        ([old("a", "", marked=False), new("n", "a")], set()),
    ],
    ids=["none yet", "all", "one of two", "it is going", "two machines", "it goes already", "the command was undone"],
)
def test_whose_replacements_exist(claims: list[NodeClaim], expected: set[str]) -> None:
    assert replaced(claims) == expected
