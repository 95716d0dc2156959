"""Tables of the gate for DRA: which ResourceSlices count, and what is reported of the others."""

from typing import Any

import msgspec
import pytest

from controllers.model.devices import gpus_of, pools_of
from controllers.model.facts import Facts
from controllers.node.health import signals
from controllers.nodeclaim.lifecycle import dra, initialization
from controllers.nodeclaim.lifecycle.gpu_resources import state_of
from controllers.nodeclaim.lifecycle.gpu_sights import gpu_short_since
from provisioner.api.conditions import MESSAGE_BYTES
from provisioner.api.meta import Taint
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim, NodeClassReference
from provisioner.api.resourceslice import ResourceSlice, digest
from tests.unit.builders import NODE, UP, claim, facts, instance, node

from .devices import BUSY, LOST, NVIDIA, OF_APPLICATION, XID, device, of_dra, published, some

GONE = Taint(key="gpu.nvidia.com/gpu-lost", effect="NoSchedule")
UNMONITORED = Taint(key="gpu.nvidia.com/unmonitored", effect="None")


COUNTED = [
    ("a complete pool", (published(*some(8)),), 8),
    ("a pool of two slices", (published(*some(4), of=2), published(*some(4, first=4), of=2)), 8),
    ("two pools", (published(*some(4)), published(*some(4), pool="other")), 8),
    ("no slice", (), 0),
    ("a pool that lacks a slice", (published(*some(4), of=2),), 0),
    ("a pool with a slice too many", (published(*some(4)), published(*some(4, first=4))), 0),
    ("a pool that states no number of slices", (published(*some(8), of=0),), 0),
    ("devices of one name", (published(*some(4), *some(4)),), 0),
    (
        "an older generation does not count",
        (published(*some(8)), published(*some(7), generation=2)),
        7,
    ),
    (
        "an incomplete newer generation hides the complete one",
        (published(*some(8)), published(*some(4), generation=2, of=2)),
        0,
    ),
    (
        "leftovers of the older generation do not complete it",
        (published(*some(4), of=2), published(*some(4, first=4), of=2), published(*some(4), generation=2, of=2)),
        0,
    ),
    ("another driver", (published(*some(8), driver="gpu.example.com"),), 0),
    ("MIG devices", (published(*some(8, "mig")),), 0),
    ("GPUs for virtual machines", (published(*some(8, "vfio")),), 0),
    ("devices without a type", (published(*some(8, None)),), 0),
    ("whole GPUs beside MIG devices", (published(*some(6), *some(14, "mig", first=6)),), 6),
    ("a GPU that is tainted NoExecute", (published(*some(7), device("gpu-7", "gpu", LOST)),), 7),
    ("a GPU that takes no new pods", (published(*some(7), device("gpu-7", "gpu", BUSY)),), 8),
    ("a GPU with a fatal Xid", (published(*some(7), device("gpu-7", "gpu", XID)),), 7),
    ("a GPU with an Xid of an application", (published(*some(7), device("gpu-7", "gpu", OF_APPLICATION)),), 8),
    ("a GPU that is not monitored", (published(*some(7), device("gpu-7", "gpu", UNMONITORED)),), 8),
    ("all GPUs are lost", (published(*some(8, "gpu", UNMONITORED, GONE)),), 0),
]


def lacks_gpus(f: Facts, of: NodeClaim, on: Node) -> bool:
    """Whether the Node is known to have fewer GPUs than expected."""
    state = state_of(f, of, on)
    return state.short and not state.unknown


@pytest.mark.parametrize(("slices", "gpus"), [row[1:] for row in COUNTED], ids=[row[0] for row in COUNTED])
def test_counted(slices: tuple[ResourceSlice, ...], gpus: int) -> None:
    """Whole, usable GPUs of complete pools; the cache keeps all that this needs."""
    assert gpus_of(pools_of(slices, NVIDIA)) == gpus
    assert gpus_of(pools_of([digest(one) for one in slices], NVIDIA)) == gpus
    f = of_dra(*slices)
    assert dra.published_gpus(f, f.nodes[0]) == gpus
    assert lacks_gpus(f, f.claims[0], f.nodes[0]) is (gpus < 8)


def test_amd_calls_whole_gpus_otherwise() -> None:
    slices = (published(*some(8, "amdgpu"), *some(8, "amdgpu-partition", first=8), driver="gpu.amd.com"),)
    assert gpus_of(pools_of(slices, "gpu.amd.com")) == 8


def test_slices_of_other_nodes_and_of_no_node_do_not_count() -> None:
    f = of_dra(published(*some(8), on="other"), published(*some(8), on=""))
    assert dra.published_gpus(f, f.nodes[0]) == 0


@pytest.mark.parametrize(
    ("slices", "signal"),
    [
        ((published(*some(7), device("gpu-7", "gpu", XID)),), {"GpuPartial"}),
        ((published(*some(8, "gpu", GONE)),), {"GpuPartial"}),
        ((published(*some(7, "gpu", LOST), device("gpu-7", "gpu", GONE)),), {"GpuPartial"}),
        ((published(*some(8, "gpu", LOST)),), {"GpuGone"}),
        ((published(),), {"GpuGone"}),
        ((published(*some(7), *some(7, "mig", first=7)),), set()),
        (None, set()),
    ],
)
def test_the_signal_of_a_loss(slices: tuple[ResourceSlice, ...] | None, signal: set[str]) -> None:
    """A taint that evicts no pod leaves a machine that still works; what is not known is no loss."""
    f = of_dra(slices=slices, claims=(claim(up=UP, node_name=NODE),), nodes=(node(),), gpu_short_since=-1000.0)
    assert {row.signal for row in signals.present(f, f.claims[0], f.nodes[0])} == signal


REPORTED = [
    ((), '"gpu.nvidia.com" has published 0 of 8 GPUs on Node'),
    ((published(*some(4), of=2),), "is incomplete, 1 of 2 ResourceSlices"),
    ((published(*some(7), device("gpu-7", "gpu", LOST)),), "7 of 8 GPUs on Node"),
    ((published(*some(7), device("gpu-7", "gpu", LOST)),), "1 tainted unhealthy:NoExecute"),
    ((published(*some(7), device("gpu-7", "gpu", XID)),), "1 tainted gpu.nvidia.com/xid=79:NoSchedule"),
    ((published(*some(8, "gpu", GONE)),), "8 tainted gpu.nvidia.com/gpu-lost:NoSchedule"),
]


@pytest.mark.parametrize(("slices", "words"), REPORTED)
def test_reported(slices: tuple[ResourceSlice, ...], words: str) -> None:
    f = of_dra(*slices)
    waiting = initialization.uninitialized(f, f.claims[0], f.nodes[0])
    assert waiting is not None
    assert (waiting.status, waiting.reason) == ("Unknown", "DRADriverPoolsNotPublished")
    assert words in waiting.message
    assert len(waiting.message.encode()) <= MESSAGE_BYTES


def test_allocatable_does_not_count() -> None:
    """Neither what a plugin has registered, nor a request of the claim for it."""
    f = of_dra(claims=(claim(up=UP, requests={"nvidia.com/gpu": "8"}),), nodes=(node(gpus="8"),))
    assert lacks_gpus(msgspec.structs.replace(f, claims=(claim(),)), claim(), f.nodes[0])
    complete = of_dra(published(*some(8)), claims=(claim(up=UP, requests={"nvidia.com/gpu": "8"}),))
    assert initialization.uninitialized(complete, complete.claims[0], complete.nodes[0]) is None


def test_what_is_not_known_is_neither_ready_nor_lost() -> None:
    """Before the slices are listed, a new Node waits, with the error of the list; a usable one is not short of GPUs."""
    new = of_dra(slices=None, slices_error="403 Forbidden")
    waiting = initialization.uninitialized(new, new.claims[0], new.nodes[0])
    assert waiting is not None
    assert "403 Forbidden" in waiting.message
    usable = of_dra(slices=None, claims=(claim(up=UP, node_name=NODE),), nodes=(node(),))
    assert gpu_short_since(usable, None) is None


OF_CLASS = NodeClassReference(group="gpu-provisioner.sh", kind="AgentPoolNodeClass", name="dra")


@pytest.mark.parametrize(("known", "words"), [(False, "cannot be read"), (True, "does not exist")])
@pytest.mark.parametrize("requests", [None, {"nvidia.com/gpu": "8"}])
def test_a_node_class_that_is_not_known(requests: dict[str, str] | None, *, known: bool, words: str) -> None:
    """How the GPUs are offered is not known: a new Node waits, a usable one stays as it is, and nothing is lost."""

    def machine(**conditions: Any) -> Facts:
        made = claim(node_name=NODE, requests=requests, **conditions)
        spec = msgspec.structs.replace(made.spec, node_class_ref=OF_CLASS)
        changed = msgspec.structs.replace(made, spec=spec)
        f = of_dra(slices=None, claims=(changed,))
        return msgspec.structs.replace(f, node_class=None, node_class_known=known, loop_now=10_000.0)

    for conditions in ({"up": UP}, {"up": UP, "down": {"Initialized": "NodeNotReady"}}):
        usable = machine(**conditions)
        assert gpu_short_since(usable, None) is None
        assert not signals.present(usable, usable.claims[0], usable.nodes[0])
        found = initialization.condition(usable, usable.claims[0])
        before = usable.claims[0].condition("Initialized")
        assert found is not None
        assert before is not None
        assert (found.status, found.reason) == (before.status, before.reason)
    new = machine(up=("Launched", "Registered"))
    waiting = initialization.uninitialized(new, new.claims[0], new.nodes[0])
    assert waiting is not None
    assert f"AgentPoolNodeClass dra {words}" in waiting.message
    assert not lacks_gpus(new, new.claims[0], new.nodes[0])


def test_gpus_that_are_only_reported_are_not_waited_for() -> None:
    f = of_dra(claims=(claim(annotations={"gpu-provisioner.sh/gpu-readiness": "report"}),))
    assert not lacks_gpus(f, f.claims[0], f.nodes[0])


NAMED = [
    ("compute-domain.nvidia.com", (), "compute-domain.nvidia.com"),
    ("compute-domain.nvidia.com", (published(of=1, driver="compute-domain.nvidia.com"),), ""),
    ("b.example, a.example", (published(driver="b.example"),), "a.example"),
    (" , ", (), ""),
    ("x" * 300, (), "x" * 64),
]


@pytest.mark.parametrize(("annotation", "slices", "missing"), NAMED)
def test_drivers_that_a_claim_names(annotation: str, slices: tuple[ResourceSlice, ...], missing: str) -> None:
    """One complete pool of each is enough, with or without devices; the mode of the class does not matter."""
    named = claim(annotations={"karpenter.sh/requested-dra-drivers": annotation})
    f = facts(claims=(named,), nodes=(node(),), instance=instance(), slices=slices)
    waiting = initialization.uninitialized(f, named, f.nodes[0])
    assert (waiting.message if waiting is not None else "").count(missing or "DRA") == (1 if missing else 0)


@pytest.mark.parametrize(
    ("plugin", "slices", "warned"),
    [("8", (published(*some(8)),), True), ("0", (published(*some(8)),), False), ("8", (), False)],
)
def test_two_owners(plugin: str, slices: tuple[ResourceSlice, ...], *, warned: bool) -> None:
    f = of_dra(*slices, nodes=(node(gpus=plugin),))
    assert bool(dra.has_two_owners(f, f.nodes[0])) is warned
