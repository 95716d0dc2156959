"""Whether the Nodes to which a command moves pods still have their room, as a table."""

from typing import Any

import msgspec
import pytest

from controllers.disruption.destinations import lost, rooms
from controllers.disruption.machine import Machine
from provisioner.api.node import Node
from provisioner.api.pod import Pod
from tests.unit.builders import BORN, claim

NAME = "aks-gpu1"


def node(ready: str = "True", **changes: Any) -> Node:
    body = {
        "metadata": {"name": NAME, "labels": changes.pop("labels", {"a": "b"}), **changes.pop("meta", {})},
        "spec": changes,
        "status": {"conditions": [{"type": "Ready", "status": ready}], "allocatable": {"cpu": "4"}},
    }
    return msgspec.convert(body, Node)


def pods(*uids: str) -> list[Pod]:
    return [msgspec.convert({"metadata": {"uid": uid}, "spec": {"nodeName": NAME}}, Pod) for uid in uids]


def machine(*, leaving: bool) -> Machine:
    made = claim(name="gpu1")
    status = msgspec.structs.replace(made.status, node_name=NAME)
    return Machine(claim=msgspec.structs.replace(made, status=status), node=None, quiet_since=BORN, leaving=leaving)


GOING = {"deletionTimestamp": "2026-03-01T12:00:00Z"}
CASES: list[tuple[str, Node | None, list[Pod], bool, str]] = [
    ("nothing changed", node(), pods("p"), False, ""),
    ("a pod ended", node(), pods(), False, ""),
    ("another pod is bound", node(), pods("p", "q"), False, "has other pods now"),
    ("another pod took the place of one", node(), pods("q"), False, "has other pods now"),
    ("it is gone", None, [], False, "is gone or being removed"),
    ("it is being deleted", node(meta=GOING), pods("p"), False, "is gone or being removed"),
    ("its removal was decided", node(), pods("p"), True, "is being removed"),
    ("it is NotReady", node("Unknown"), pods("p"), False, "is not Ready"),
    ("it is cordoned", node(unschedulable=True), pods("p"), False, "takes other pods now"),
    ("it has a taint", node(taints=[{"key": "k", "effect": "NoSchedule"}]), pods("p"), False, "takes other pods now"),
    ("its labels changed", node(labels={}), pods("p"), False, "takes other pods now"),
]


@pytest.mark.parametrize(("now", "bound", "leaving", "why"), [row[1:] for row in CASES], ids=[row[0] for row in CASES])
def test_rooms(now: Node | None, bound: list[Pod], leaving: bool, why: str) -> None:
    before = rooms([NAME], [node()], pods("p"))
    after = rooms([NAME], [now] if now is not None else [], bound)
    assert lost(before, after, [machine(leaving=leaving)]) == (f"Node {NAME} {why}" if why else "")
