"""Whole GPUs, MIG slices and shared GPUs are different models for running pods."""

import msgspec
import pytest

from cloudprovider.azure.instance_types import gpus_of
from controllers.disruption.consolidation import consolidate
from controllers.disruption.drift import drift
from controllers.disruption.gpu_parts import PARTS, UNREADABLE, WHOLE, shown
from controllers.disruption.view import View
from provisioner.api.meta import Condition
from provisioner.api.node import Node
from provisioner.api.nodeclass import AgentPoolNodeClass, GpuSettings
from tests.unit.controllers.disruption.fleet import A100, A100_8, GPU, MOMENT, NODE_CLASS, UP, Fleet, pod, pool

SHARED, SLICE = "nvidia.com/gpu.shared", "nvidia.com/mig-1g.10gb"
PRODUCT = "nvidia.com/gpu.product"
BY_FOUR: dict[str, object] = {"sharedReplicas": 4}
SLICES: dict[str, object] = {"migProfile": "MIG1g"}
MIXED = {**SLICES, "migStrategy": "Mixed"}


@pytest.mark.parametrize(
    ("size", "gpu", "capacity", "node_labels", "expected"),
    [
        (A100, {}, {GPU: "1"}, {}, WHOLE),
        (A100_8, {}, {GPU: "7"}, {}, WHOLE),  # one is lost
        (A100, {}, {}, {}, WHOLE),
        (A100, {}, {GPU: "7"}, {}, "nvidia.com/gpu 7/1"),
        (A100, {}, {GPU: "0", SLICE: "7"}, {}, f"{SLICE} 0/1"),
        (A100, {}, {SHARED: "4"}, {}, f"{SHARED} 0/1"),
        # The largest slice and a share of one are as many as whole GPUs; only a label shows them.
        (A100, {}, {GPU: "1"}, {PRODUCT: "NVIDIA-A100-80GB-PCIe-MIG-4g.40gb"}, "NVIDIA-A100-80GB-PCIe-MIG-4g.40gb"),
        (A100, {}, {GPU: "1"}, {PRODUCT: "NVIDIA-A100-80GB-PCIe-SHARED"}, "NVIDIA-A100-80GB-PCIe-SHARED"),
        (A100, {}, {GPU: "1"}, {PRODUCT: "NVIDIA-A100-80GB-PCIe"}, WHOLE),
        (A100, {}, {GPU: "1x"}, {}, UNREADABLE),
        # What the node class states, once the Node does not show the contrary.
        (A100, BY_FOUR, {}, {}, " 4"),
        (A100, BY_FOUR, {GPU: "4"}, {}, " 4"),
        (A100_8, BY_FOUR, {GPU: "28"}, {}, " 4"),
        (A100, SLICES, {GPU: "7"}, {}, "MIG1g 1"),
        (A100, {"migProfile": "MIG4g"}, {GPU: "1"}, {}, "MIG4g 1"),
        (A100, MIXED, {SLICE: "7"}, {}, "MIG1g 1"),
        # The node class has changed since the machine was created.
        (A100, BY_FOUR, {GPU: "1"}, {}, WHOLE),
        (A100, MIXED, {GPU: "1"}, {}, WHOLE),
        (A100, {"sharedReplicas": 2}, {GPU: "4"}, {}, "nvidia.com/gpu 4/1"),
        # A size that this version does not know.
        ("Standard_NC1_v99", {}, {GPU: "4"}, {}, WHOLE),
    ],
)
def test_division(
    size: str, gpu: dict[str, object], capacity: dict[str, str], node_labels: dict[str, str], expected: str
) -> None:
    body = {"metadata": {"name": "n", "labels": node_labels}, "status": {"capacity": capacity}}
    assert shown(msgspec.convert(body, Node), gpus_of(size), msgspec.convert(gpu, GpuSettings)) == expected


def view_of(gpu: dict[str, object], offered: str, *, up: tuple[str, ...] = UP, free: bool = True) -> View:
    """A whole A100 with a pod, and a machine of a node class that divides its GPU. `free`: it has room for that pod."""
    parts = pool("parts")
    template = {"spec": {"nodeClassRef": {**NODE_CLASS, "name": "parts"}}}
    spec = msgspec.structs.replace(parts.spec, template=msgspec.convert(template, type(parts.spec.template)))
    fleet = Fleet(pool(), msgspec.structs.replace(parts, spec=spec)).add("whole", A100, [(1, 1)], up=up)
    fleet.add("parts", A100, [(1, 1), (1, 1) if free else (1, int(offered) - 1)], of="parts", node_class="parts")
    node = fleet.nodes[-1]
    amounts = {**node.status.allocatable, GPU: offered}
    status = msgspec.structs.replace(node.status, capacity=amounts, allocatable=amounts)
    fleet.nodes[-1] = msgspec.structs.replace(node, status=status)
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": MOMENT, "observedGeneration": 0}
    classes = {
        name: msgspec.convert(
            {"metadata": {"name": name}, "spec": {"gpu": stated}, "status": {"conditions": [ready]}}, AgentPoolNodeClass
        )
        for name, stated in {"default": {}, "parts": gpu}.items()
    }
    view = fleet.view()
    return msgspec.structs.replace(view, observed=msgspec.structs.replace(view.observed, node_classes=classes))


DIVIDED = pytest.mark.parametrize(
    ("gpu", "offered"), [(SLICES, "7"), (BY_FOUR, "4"), ({}, "4")], ids=["slices", "shared", "by others"]
)


@DIVIDED
def test_consolidation_keeps_a_whole_gpu(gpu: dict[str, object], offered: str) -> None:
    """The machine is not removed for room on a part of a GPU."""
    assert consolidate(view_of(gpu, offered)).command is None


@DIVIDED
def test_drift_keeps_a_whole_gpu(gpu: dict[str, object], offered: str) -> None:
    """It is replaced by a machine with whole GPUs, unless kube-scheduler could place its pod on a part of one."""
    drifted = (*UP, "Drifted")
    waiting = drift(view_of(gpu, offered, up=drifted))
    assert waiting.command is None
    assert "division of GPUs" in waiting.kept["whole"]
    command = drift(view_of(gpu, offered, up=drifted, free=False)).command
    assert command is not None
    (made,) = command.replacements
    assert (made.node_pool, made.instance_types, PARTS in made.requirements) == ("gpu", (A100,), False)


def test_a_pod_on_a_slice_stays_on_slices() -> None:
    """A drifted machine with slices gets one with slices, though one with whole GPUs would be cheaper for few pods."""
    view = view_of(SLICES, "7", free=False)
    conditions = msgspec.convert([{"type": "Drifted", "status": "True", "lastTransitionTime": MOMENT}], list[Condition])
    parts = view.machines[-1]
    status = msgspec.structs.replace(parts.claim.status, conditions=(*parts.claim.status.conditions, *conditions))
    drifted = msgspec.structs.replace(parts, claim=msgspec.structs.replace(parts.claim, status=status))
    command = drift(msgspec.structs.replace(view, machines=(view.machines[0], drifted))).command
    assert command is not None
    assert [one.node_pool for one in command.replacements] == ["parts"]


def test_equal_machines_are_consolidated() -> None:
    """Where all GPUs are divided equally nothing is compared."""
    fleet = Fleet().add("a", A100, [pod("p", 1, 1, "a")]).add("b", A100_8, [(1, 1)], blocked="-")
    command = consolidate(fleet.view()).command
    assert command is not None
    assert [one.claim.name for one in command.machines] == ["a"]
