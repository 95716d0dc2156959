"""The gate: each question, what an unknown answer means, and the order of the questions."""

import ast
import itertools
from pathlib import Path
from typing import get_args

import pytest
from msgspec.structs import replace

from controllers.gate.gate import Evidence, Go, Never, Place, Wait, may_delete
from controllers.model.deletion import delete_claim, delete_instance
from controllers.model.steps import DeleteClaim, DeleteInstance
from provisioner.api.causes import CAUSES, Cause
from tests.unit.builders import claim, instance
from tools.reference import deletion_gate

ROOT = Path(__file__).parents[4]
# A NodePool states forceful ones, by a date or a number.
VOLUNTARY, STATED, REPAIRS, NO_MACHINE = (
    [cause for cause, row in CAUSES.items() if row.kind == kind]
    for kind in ("Voluntary", "Forceful", "Repair", "NoMachine")
)
# A deletion that nothing prevents, for a cause of a working machine.
NOTHING = Evidence(cause="empty", uid="1", ours=True, seen=True, blocked="", gpu_pods=0, place="Ready")


def _answer(cause: Cause, **facts: object) -> str:
    known = replace(NOTHING, cause=cause, works=CAUSES[cause].kind != "NoMachine")
    found = may_delete(replace(known, **facts))
    return "Go" if isinstance(found, Go) else f"{type(found).__name__} {found.question}"


def test_a_deletion_for_any_cause_can_be_permitted() -> None:
    """And nothing that prevents a deletion is assumed."""
    assert {_answer(cause) for cause in CAUSES} == {"Go"}


@pytest.mark.parametrize("cause", CAUSES)
def test_without_facts_nothing_is_deleted(cause: Cause) -> None:
    """What is not known never agrees."""
    assert may_delete(Evidence(cause=cause, uid="1")) == Wait(
        question="ours", why="it is not known whether this controller manages the machine"
    )
    assert isinstance(may_delete(Evidence(cause=cause, uid="1", ours=False)), Never)
    bare = may_delete(Evidence(cause=cause, uid="1", ours=True))
    assert isinstance(bare, Go) == (cause == "requested")


@pytest.mark.parametrize(
    ("facts", "voluntary", "stated", "repair", "inferred"),
    [
        ({"seen": None}, "Wait true", "Wait true", "Wait true", "Wait true"),
        ({"seen": False}, "Wait true", "Wait true", "Wait true", "Wait true"),
        ({"left_seconds": 1.0}, "Wait true", "Wait true", "Wait true", "Wait true"),
        ({"doubt": "the plugin is not installed"}, "Never true", "Never true", "Never true", "Never true"),
        ({"blocked": "Pod requests GPUs"}, "Wait pods", "Go", "Go", "Go"),
        ({"blocked": None}, "Wait pods", "Go", "Go", "Go"),
        ({"gpu_pods": 3}, "Go", "Go", "Wait pods", "Go"),
        ({"gpu_pods": None}, "Go", "Go", "Wait pods", "Go"),
        ({"gpu_pods": 3, "pods_seconds": 0.0}, "Go", "Go", "Go", "Go"),
        ({"gpu_pods": 3, "works": False}, "Go", "Go", "Go", "Go"),
        ({"place": "Available"}, "Wait place", "Go", "Go", "Go"),
        ({"place": "Unknown"}, "Wait place", "Go", "Wait place", "Go"),
        ({"place": "Unknown", "works": False}, "Wait place", "Go", "Go", "Go"),
        ({"place": "Scarce"}, "Wait place", "Go", "Wait place", "Go"),
        ({"place": "Scarce", "works": False}, "Wait place", "Go", "Go", "Go"),
        ({"busy": "budget"}, "Wait limits", "Wait limits", "Wait limits", "Wait limits"),
        ({"loop": "alike"}, "Never limits", "Never limits", "Never limits", "Never limits"),
    ],
    ids=str,
)
def test_one_fact(facts: dict[str, object], voluntary: str, stated: str, repair: str, inferred: str) -> None:
    """The answers for each kind of cause when one fact is against the deletion."""
    assert {_answer(cause, **facts) for cause in VOLUNTARY} == {voluntary}
    assert {_answer(cause, **facts) for cause in STATED} == {stated}
    assert {_answer(cause, **facts) for cause in REPAIRS} == {repair}
    assert _answer("orphan-pool", **facts) == inferred
    assert _answer("requested", **facts) == "Go"


def test_the_answer_names_what_prevents_another_machine() -> None:
    """As the program knows it; what is not known is asked again within seconds."""
    known = replace(NOTHING, cause="gpu-lost", place="Scarce", lacking="NodePool gpu: limit nodes: 0, needed 1")
    why = "no other machine can be had now (NodePool gpu: limit nodes: 0, needed 1)"
    assert may_delete(known) == Wait(question="place", why=why, seconds=60.0)
    unknown = "it is not known whether another machine can be had"
    assert may_delete(replace(known, place="Unknown")) == Wait(question="place", why=unknown, seconds=5.0)


@pytest.mark.parametrize("cause", NO_MACHINE)
def test_a_machine_that_became_usable(cause: Cause) -> None:
    """The end of an attempt does not end a machine that came of it after all."""
    assert isinstance(may_delete(replace(NOTHING, cause=cause, works=True)), Wait)
    assert isinstance(may_delete(replace(NOTHING, cause=cause, works=False)), Go)


def test_more_against_a_deletion_never_permits_it() -> None:
    """Of all pairs of circumstances: the second one changes no refusal into a Go."""
    against: list[dict[str, object]] = [
        {"ours": None}, {"ours": False}, {"seen": None}, {"left_seconds": 5.0}, {"doubt": "x"}, {"blocked": "x"},
        {"gpu_pods": None}, {"gpu_pods": 1}, {"place": "Scarce"}, {"busy": "x"}, {"loop": "x"},
    ]  # fmt: skip
    for cause in CAUSES:
        for one, other in itertools.permutations(against, 2):
            if set(one) != set(other) and _answer(cause, **one) != "Go":
                assert _answer(cause, **one, **other) != "Go"


def test_the_page_has_each_cell() -> None:
    """Each cell is an answer of the function; a voluntary Go needs pods that are not protected, and have places."""
    page = deletion_gate.render()
    for kind, pods, place, other in deletion_gate.cells():
        found = deletion_gate.answer(kind, pods, place, other)
        assert isinstance(found, Go | Wait | Never)
        assert other != "not ours" or isinstance(found, Never)
        if isinstance(found, Go) and kind == "Voluntary":
            assert pods in ("none", "can move", "the machine runs none")
            assert place == "Ready"
    assert page.count("## ") == len(deletion_gate.KINDS)
    assert set(get_args(Place)) <= set(page.replace(",", " ").split())


def test_the_event_of_a_deletion_states_the_answer() -> None:
    """After the cause, as the audit log has it. Its type and reason are those of the cause."""
    of_claim = delete_claim(claim(), replace(NOTHING, cause="gpu-lost"), "Deleted: why")
    of_pool = delete_instance(instance(), replace(NOTHING, cause="failed-create", works=False), "Deleted: why")
    for step, *expected in ((of_claim, "Warning", "NodeRepair"), (of_pool, "Normal", "RemovingFailedPool")):
        assert isinstance(step, DeleteClaim | DeleteInstance)
        assert step.event is not None
        assert [step.event.type, step.event.reason] == expected
        assert step.event.message == f"Deleted: why; gate: {step.go.why}"
    silent = delete_instance(instance(), replace(NOTHING, cause="orphan-pool"))
    assert isinstance(silent, DeleteInstance)
    assert silent.event is None


def test_only_the_gate_permits_a_deletion() -> None:
    """`Go` is made by the gate, and the steps that delete by the module that puts the question."""
    made = {"Go": "controllers/gate/gate.py"} | dict.fromkeys(
        ("DeleteClaim", "DeleteInstance"), "controllers/model/deletion.py"
    )
    found: dict[str, set[str]] = {name: set() for name in made}
    for path in (ROOT / "controllers").rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for call in ast.walk(tree):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name | ast.Attribute):
                name = call.func.id if isinstance(call.func, ast.Name) else call.func.attr
                if name in found:
                    found[name].add(str(path.relative_to(ROOT)))
    assert found == {name: {path} for name, path in made.items()}
