"""The devices that a Node must have, by its size, the claim's node class and the labels of the Node."""

from typing import Any

import msgspec
import pytest

from cloudprovider.azure.instance_types import gpus_of
from controllers.model.facts import DeviceSight
from controllers.nodeclaim.lifecycle.gpu_resources import gpu_state
from provisioner.api import labels
from provisioner.api.node import Node
from provisioner.api.nodeclass import AgentPoolNodeClass, GpuSettings, NodeClassSpec
from tests.unit.builders import NOW, claim, facts, node

A100_40 = "Standard_ND96asr_v4"
A100_80 = "Standard_NC24ads_A100_v4"
H100 = "Standard_ND96isr_H100_v5"
H100_NVL = "Standard_NC80adis_H100_v5"
H200 = "Standard_ND96isr_H200_v5"
MI300X = "Standard_ND96isr_MI300X_v5"
T4 = "Standard_NC64as_T4_v3"
UNLISTED = "Standard_NC999_X_v9"
GPU = "nvidia.com/gpu"


def settings(**fields: Any) -> AgentPoolNodeClass:
    return AgentPoolNodeClass(spec=NodeClassSpec(gpu=GpuSettings(**fields)))


def offers(
    allocatable: dict[str, str], found: dict[str, str] | None = None, capacity: dict[str, str] | None = None
) -> Node:
    made = node(more_labels=found)
    status = msgspec.structs.replace(
        made.status, allocatable=allocatable, capacity=allocatable if capacity is None else capacity
    )
    return msgspec.structs.replace(made, status=status)


@pytest.mark.parametrize(
    ("size", "fields", "resource", "count"),
    [
        (A100_80, {}, GPU, 1),
        (H100, {}, GPU, 8),
        (MI300X, {}, "amd.com/gpu", 8),
        (UNLISTED, {}, "", 0),
        # MIG
        (A100_80, {"mig_profile": "MIG1g"}, GPU, 7),
        (A100_40, {"mig_profile": "MIG2g"}, GPU, 24),
        (A100_40, {"mig_profile": "MIG3g"}, GPU, 16),
        (A100_40, {"mig_profile": "MIG4g"}, GPU, 8),
        (A100_40, {"mig_profile": "MIG7g"}, GPU, 8),
        (A100_40, {"mig_profile": "MIG1g", "mig_strategy": "Mixed"}, "nvidia.com/mig-1g.5gb", 56),
        (A100_80, {"mig_profile": "MIG2g", "mig_strategy": "Mixed"}, "nvidia.com/mig-2g.20gb", 3),
        (H100, {"mig_profile": "MIG3g", "mig_strategy": "Mixed"}, "nvidia.com/mig-3g.40gb", 16),
        (H100_NVL, {"mig_profile": "MIG3g", "mig_strategy": "Mixed"}, "nvidia.com/mig-3g.47gb", 4),
        (H200, {"mig_profile": "MIG7g", "mig_strategy": "Mixed"}, "nvidia.com/mig-7g.141gb", 8),
        # A strategy alone partitions nothing.
        (A100_80, {"mig_strategy": "Mixed"}, GPU, 1),
        # Sharing
        (T4, {"shared_replicas": 4}, GPU, 16),
        (T4, {"shared_replicas": 4, "shared_resource": "nvidia.com/gpu.shared"}, "nvidia.com/gpu.shared", 16),
        (T4, {"shared_resource": "nvidia.com/gpu.shared"}, GPU, 4),
        (
            A100_80,
            {"mig_profile": "MIG1g", "mig_strategy": "Mixed", "shared_replicas": 2},
            "nvidia.com/mig-1g.10gb",
            14,
        ),
        (
            A100_80,
            {
                "mig_profile": "MIG1g",
                "mig_strategy": "Mixed",
                "shared_replicas": 2,
                "shared_resource": "nvidia.com/gpu.shared",
            },
            "nvidia.com/mig-1g.10gb.shared",
            14,
        ),
        # NVIDIA's settings mean nothing for another vendor's GPUs. A driver for DRA publishes whole ones.
        (MI300X, {"shared_replicas": 4}, "amd.com/gpu", 8),
        (H100, {"mode": "DRA"}, GPU, 8),
    ],
)
def test_devices_by_the_node_class(size: str, fields: dict[str, Any], resource: str, count: int) -> None:
    """The node class states how the device plugin names and multiplies the GPUs of the size."""
    known = facts(claims=(claim(),), nodes=(offers({}),), gpus=gpus_of(size), node_class=settings(**fields))
    state = gpu_state(known)
    assert state is not None
    assert (state.resource, state.expected, state.allocatable) == (resource, count, 0)
    assert gpu_state(facts(claims=(claim(),))) is None


MIXED = {"nvidia.com/mig.strategy": "mixed"}
SLICES = MIXED | {"nvidia.com/mig-1g.10gb.count": "7"}
TWO = MIXED | {"nvidia.com/mig-1g.10gb.count": "4", "nvidia.com/mig-2g.20gb.count": "1"}
SHARED = {"nvidia.com/gpu.product": "A100-SHARED", "nvidia.com/gpu.replicas": "4"}


@pytest.mark.parametrize(
    ("case", "found", "allocatable", "state"),
    [
        ("whole GPUs", {}, {GPU: "1"}, (GPU, 1, 1)),
        ("more than the size has", SHARED, {GPU: "4"}, (GPU, 4, 4)),
        ("no label yet", {}, {"nvidia.com/mig-1g.10gb": "7"}, (GPU, 0, 1)),
        ("slices", SLICES, {GPU: "0", "nvidia.com/mig-1g.10gb": "7"}, ("nvidia.com/mig-1g.10gb", 7, 7)),
        ("a slice is lost", SLICES, {"nvidia.com/mig-1g.10gb": "6"}, ("nvidia.com/mig-1g.10gb", 6, 7)),
        ("two profiles", TWO, {"nvidia.com/mig-1g.10gb": "4"}, ("nvidia.com/mig-2g.20gb", 0, 1)),
        ("whole GPUs of a mixed plugin", MIXED, {GPU: "0"}, (GPU, 0, 1)),
        ("renamed", SHARED, {GPU: "0", "nvidia.com/gpu.shared": "4"}, ("nvidia.com/gpu.shared", 4, 4)),
        ("shared, but nothing is offered", SHARED, {GPU: "0"}, (GPU, 0, 1)),
        ("no number", MIXED | {"nvidia.com/mig-1g.10gb.count": "many"}, {}, (GPU, 0, 1)),
        ("no quantity", {}, {GPU: "one"}, (GPU, 0, 1)),
    ],
)
def test_labels_describe_what_no_node_class_states(
    case: str, found: dict[str, str], allocatable: dict[str, str], state: tuple[str, int, int]
) -> None:
    """Whole GPUs suffice whatever the labels say; otherwise slices and renamed devices count, once labelled."""
    for declared in (None, settings()):
        known = facts(
            claims=(claim(),), nodes=(offers(allocatable, found),), gpus=gpus_of(A100_80), node_class=declared
        )
        seen = gpu_state(known)
        assert seen is not None
        assert (seen.resource, seen.allocatable, seen.expected) == state, case


SINGLE = {"nvidia.com/gpu.product": "H100-MIG-1g.10gb", "nvidia.com/mig.strategy": "single"}
OF_H100 = {"nvidia.com/gpu.product": "H100-SHARED", "nvidia.com/gpu.replicas": "4"}


@pytest.mark.parametrize(
    ("case", "size", "found", "counted", "expected"),
    [
        ("6 of 8 shared GPUs are unhealthy", H100, OF_H100, (32, 8), 32),
        ("of slices", H100, SINGLE | {"nvidia.com/gpu.count": "56"}, (56, 14), 56),
        ("without labels", H100, {}, (32, 8), 32),
        ("all are healthy", H100, OF_H100, (32, 32), 32),
        ("a plugin that restarted with 2 of 8", H100, OF_H100 | {"nvidia.com/gpu.count": "2"}, (8, 8), 32),
        ("a plugin that does not share yet", H100, OF_H100 | {"nvidia.com/gpu.count": "8"}, (8, 8), 8),
        ("partitions of another vendor", MI300X, {}, (64, 56), 64),
        ("a size that is not in the table", UNLISTED, {}, (8, 7), 8),
        ("of which nothing is registered", UNLISTED, {"nvidia.com/gpu.count": "8"}, (0, 0), 0),
        ("whose plugin restarted with 7", UNLISTED, {"nvidia.com/gpu.count": "8"}, (7, 7), 8),
    ],
)
def test_a_node_must_keep_what_it_promised(
    case: str, size: str, found: dict[str, str], counted: tuple[int, int], expected: int
) -> None:
    """Capacity includes unhealthy devices; labels count where GPU feature discovery itself counts fewer GPUs."""
    capacity, allocatable = counted
    name = "amd.com/gpu" if size == MI300X else GPU
    seen = offers({name: str(allocatable)}, found, {name: str(capacity)})
    state = gpu_state(facts(claims=(claim(),), nodes=(seen,), gpus=gpus_of(size)))
    assert state is not None
    assert (state.expected, state.short) == (expected, allocatable < expected), case
    assert state.lost == state.short


SLICE, OTHER = "nvidia.com/mig-1g.10gb", "nvidia.com/hostdev"
FEWER = {"nvidia.com/gpu.product": "H100", "nvidia.com/gpu.count": "7"}
FOUR, MIG = {"shared_replicas": 4}, {"mig_profile": "MIG1g", "mig_strategy": "Mixed"}
CONFIGURATIONS: list[tuple[str, dict[str, Any], dict[str, int], dict[str, int], dict[str, str], str]] = [
    ("shares that the plugin does not offer", FOUR, {GPU: 8}, {}, {}, "all 8 nvidia.com/gpu of the device plugin work"),
    ("slices that it does not offer", MIG, {GPU: 8}, {}, {}, "the device plugin offers 8 nvidia.com/gpu instead"),
    ("slices that nobody states", {}, {SLICE: 56}, {}, {}, f"the device plugin offers 56 {SLICE} instead"),
    ("some of the GPUs are divided", {}, {GPU: 4, SLICE: 28}, {}, {}, f"the device plugin offers 28 {SLICE} instead"),
    ("an unhealthy slice that nobody states", {}, {SLICE: 55}, {SLICE: 56}, {}, ""),
    ("a driver of the other mode", {"mode": "DRA"}, {GPU: 8}, {}, {}, "a device plugin offers 8 nvidia.com/gpu"),
    ("an unhealthy GPU besides", FOUR, {GPU: 7}, {GPU: 8}, {}, ""),
    ("a plugin that stopped", FOUR, {GPU: 0}, {GPU: 8}, {}, ""),
    ("a plugin that is gone", FOUR, {}, {}, {}, ""),
    ("a GPU is lost, the plugin restarted", {}, {GPU: 7}, {}, {}, ""),
    ("the same, shared", FOUR, {GPU: 28}, {}, FEWER, ""),
    ("the same, in slices", {"mig_profile": "MIG1g"}, {GPU: 49}, {}, {}, ""),
    ("slices of another profile", {"mig_profile": "MIG1g"}, {GPU: 24}, {}, {}, "all 24 nvidia.com/gpu of the device"),
    ("a network device is no GPU", {}, {GPU: 7, OTHER: 8}, {}, {}, ""),
    ("a driver of the other mode that restarts", {"mode": "DRA"}, {GPU: 0}, {GPU: 8}, {}, "a device plugin offers 8"),
    ("a driver of the other mode that is gone", {"mode": "DRA"}, {}, {}, {}, ""),
]  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "offered", "capacity", "found", "text"),
    [row[1:] for row in CONFIGURATIONS],
    ids=[row[0] for row in CONFIGURATIONS],
)
def test_a_setting_is_no_fault_of_the_machine(
    fields: dict[str, Any], offered: dict[str, int], capacity: dict[str, int], found: dict[str, str], text: str
) -> None:
    """All devices that are offered work, and the node class states others: the machine is not at fault."""
    amounts = {name: str(one) for name, one in offered.items()}
    seen = offers(amounts, found, {name: str(one) for name, one in (capacity or offered).items()})
    known = facts(claims=(claim(),), nodes=(seen,), gpus=gpus_of(H100), node_class=settings(**fields), slices=())
    state = gpu_state(known)
    assert state is not None
    assert state.short
    assert (state.disagrees.text if state.disagrees is not None else "").startswith(text)
    assert state.lost is not bool(text)


def test_a_stated_arrangement_comes_before_labels() -> None:
    """Where the node class states slices, labels of others prove nothing."""
    known = facts(
        claims=(claim(),),
        nodes=(offers({"nvidia.com/mig-1g.10gb": "7"}, SLICES),),
        gpus=gpus_of(A100_80),
        node_class=settings(mig_profile="MIG1g"),
    )
    state = gpu_state(known)
    assert state is not None
    assert state.counted == "nvidia.com/gpu: 0 of 7 allocatable"


def test_gpus_that_are_only_reported_are_not_expected() -> None:
    """The annotation skips the check, and with it everything that could hold it."""
    noted = claim(annotations={labels.GPU_READINESS: "report"})
    state = gpu_state(facts(claims=(noted,), nodes=(node(gpus="0", more_labels=CHANGING),), devices=sight()))
    assert state is not None
    assert (state.expected, state.short, state.holding) == (0, False, "")


CHANGING = {"nvidia.com/mig.config.state": "rebooting"}


def sight(**fields: Any) -> DeviceSight:
    return DeviceSight(node_uid=node().uid, mig_since=(NOW, -60.0), **fields)


@pytest.mark.parametrize(
    ("word", "since", "holding"),
    [
        ("pending", -60.0, "nvidia.com/mig.config.state is pending since 12:10:00Z; waiting for the MIG manager"),
        ("rebooting", -899.0, "nvidia.com/mig.config.state is rebooting since 12:10:00Z; waiting for the MIG manager"),
        ("rebooting", -900.0, ""),
        ("success", -60.0, ""),
        ("failed", -60.0, ""),
    ],
)
def test_a_mig_manager_that_partitions_gpus_is_waited_for(word: str, since: float, holding: str) -> None:
    """For 15 minutes at most, whatever the Node shows."""
    for gpus in ("0", "1"):
        known = facts(
            claims=(claim(),),
            nodes=(node(gpus=gpus, more_labels={"nvidia.com/mig.config.state": word}),),
            devices=msgspec.structs.replace(sight(published=True), mig_since=(NOW, since)),
        )
        state = gpu_state(known)
        assert state is not None
        assert (state.holding, state.hold_seconds) == (holding, 900.0 + since if holding else 0.0)


@pytest.mark.parametrize(
    ("restarted_at", "published", "gpus", "left"),
    [(-1.0, False, "1", 29.0), (-30.0, False, "1", 0.0), (-1.0, True, "1", 0.0), (-1.0, False, "0", 0.0)],
)
def test_a_number_from_before_a_restart_proves_nothing(
    restarted_at: float, published: bool, gpus: str, left: float
) -> None:
    """It is in doubt for 30 s, unless it was published since; a lack needs no proof."""
    seen = DeviceSight(node_uid=node().uid, restarted_at=restarted_at, published=published)
    for uid, held in ((node().uid, left), ("another", 0.0)):
        known = msgspec.structs.replace(seen, node_uid=uid)
        state = gpu_state(facts(claims=(claim(),), nodes=(node(gpus=gpus),), devices=known))
        assert state is not None
        assert (state.hold_seconds, bool(state.holding)) == (held, held > 0)
