"""Expected and allocatable GPUs of a Node.

Allocatable counts, not capacity, which stays for minutes after a device plugin has stopped
(docs/references/kubernetes.md#extended-resources-and-the-device-manager). An invalid quantity counts as 0.

The node class of the claim states the expected devices. Without such a statement the whole GPUs of the size are
expected, or else what the labels of the Node describe: slices, or shared GPUs under another name.

Source: docs/references/kubernetes.md#gpu-resource-names, docs/references/kubernetes.md#labels-of-gpu-nodes.
"""

import re
from collections.abc import Iterator

import msgspec

from controllers.model.conditions import clock_text
from controllers.model.facts import Facts
from controllers.model.gpu_devices import NVIDIA_GPU, SHARED, Devices, declares_devices, expected_devices
from controllers.model.node_for_claim import node_for_claim
from provisioner.api import labels
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.quantity import parse_quantity

from . import dra

# The labels of GPU feature discovery and of the MIG manager.
MIG_STRATEGY = "nvidia.com/mig.strategy"
MIG_CONFIG = "nvidia.com/mig.config"
MIG_CONFIG_STATE = "nvidia.com/mig.config.state"
PRODUCT = "nvidia.com/gpu.product"
REPLICAS = "nvidia.com/gpu.replicas"
CHANGING = ("pending", "rebooting")
_SLICE_COUNT = re.compile(r"(nvidia\.com/mig-[0-9]+g\.[0-9]+gb(?:\.[a-z.]+)?)\.count")


class GpuState(msgspec.Struct, frozen=True, kw_only=True):
    """The allocatable devices of a Node, or those that its DRA driver publishes, of those expected.

    `expected` is 0 if GPUs are not waited for. `short`: devices are missing. `holding`: why nothing may be concluded
    from the numbers for up to `hold_seconds`, "" if they count.
    """

    resource: str
    allocatable: int
    expected: int
    short: bool = False
    holding: str = ""
    hold_seconds: float = 0.0

    @property
    def counted(self) -> str:
        """The numbers, for messages."""
        return f"{self.resource}: {self.allocatable} of {self.expected} allocatable"


def gpu_state(f: Facts) -> GpuState | None:
    """The state of the GPUs of the claim's Node; None without a Node."""
    claim, node = f.claim, node_for_claim(f)
    return None if claim is None or node is None else state_of(f, claim, node)


def state_of(f: Facts, claim: NodeClaim, node: Node) -> GpuState:
    """The state of the GPUs of this Node."""
    driver = dra.gpu_driver(f)
    devices = Devices(f.gpus.resource, f.gpus.count) if driver else _devices(f, node)
    seen = dra.published_gpus(f, node) if driver else allocatable(node, devices.resource)
    expected = devices.count if _required(f, claim) else 0
    short = not driver and seen < expected
    if driver or dra.needs_slices(claim):
        short = short or dra.lacks_devices(f, claim, node, expected)
    found = GpuState(resource=devices.resource, allocatable=seen, expected=expected, short=short)
    if not expected or driver:
        return found
    holding, seconds = _changing_mig(f, node) or _unproven(f, node, found) or ("", 0.0)
    return msgspec.structs.replace(found, holding=holding, hold_seconds=seconds)


def lacks_gpus(f: Facts, claim: NodeClaim, node: Node) -> bool:
    """Whether the Node has fewer GPUs than expected, or lacks the devices of a DRA driver."""
    return state_of(f, claim, node).short


def failed_mig_config(node: Node) -> str:
    """What the MIG manager failed to apply; "" if it did not fail."""
    found = node.metadata.labels
    return found.get(MIG_CONFIG, "its configuration") if found.get(MIG_CONFIG_STATE) == "failed" else ""


def changes_mig(node: Node) -> bool:
    """Whether the MIG manager is partitioning the GPUs of this Node."""
    return node.metadata.labels.get(MIG_CONFIG_STATE) in CHANGING


def allocatable(node: Node, resource: str) -> int:
    """How many devices of this resource are allocatable on the Node."""
    return whole_number(node.status.allocatable.get(resource, "0"))


def whole_number(value: str | float) -> int:
    """A quantity as a whole number, rounded down."""
    try:
        return int(parse_quantity(value))
    except ValueError:
        return 0


def _required(f: Facts, claim: NodeClaim) -> bool:
    return claim.metadata.annotations.get(labels.GPU_READINESS, f.policy.gpu_readiness) != "report"


def _devices(f: Facts, node: Node) -> Devices:
    """The devices that the Node must have. Labels count only where the whole GPUs of the size are not there."""
    settings = f.node_class.spec.gpu if f.node_class is not None else None
    expected = expected_devices(f.gpus, settings)
    if declares_devices(settings) or allocatable(node, expected.resource) >= expected.count:
        return expected
    described = tuple(_described(node, expected))
    return min(described, key=lambda one: allocatable(node, one.resource) / one.count, default=expected)


def _described(node: Node, whole: Devices) -> Iterator[Devices]:
    """Other arrangements of NVIDIA GPUs that the labels of the Node describe."""
    found = node.metadata.labels
    if whole.resource != NVIDIA_GPU:
        return
    if found.get(MIG_STRATEGY) == "mixed":
        for key, value in found.items():
            match = _SLICE_COUNT.fullmatch(key)
            if match is not None and (count := whole_number(value)) > 0:
                yield Devices(match[1], count)
    elif found.get(PRODUCT, "").endswith("-SHARED") and NVIDIA_GPU + SHARED in node.status.allocatable:
        yield Devices(NVIDIA_GPU + SHARED, whole.count * max(1, whole_number(found.get(REPLICAS, "1"))))


def _changing_mig(f: Facts, node: Node) -> tuple[str, float] | None:
    """The MIG manager removes the GPUs from the Node while it partitions them, with a reboot on most machines."""
    seen = f.devices
    if seen is None or seen.node_uid != node.uid or seen.mig_since is None or not changes_mig(node):
        return None
    since, at = seen.mig_since
    left = f.policy.mig_config_seconds - (f.loop_now - at)
    if left <= 0:
        return None
    state = node.metadata.labels[MIG_CONFIG_STATE]
    return f"{MIG_CONFIG_STATE} is {state} since {clock_text(since)}; waiting for the MIG manager", left


def _unproven(f: Facts, node: Node, found: GpuState) -> tuple[str, float] | None:
    """A number that was published before the kubelet restarted says nothing about the devices of now."""
    seen = f.devices
    if seen is None or seen.node_uid != node.uid or seen.published or found.short:
        return None
    left = f.policy.gpu_stale_seconds - (f.loop_now - seen.restarted_at)
    if left <= 0:
        return None
    return f"the kubelet of Node {node.name} restarted; waiting for its number of {found.resource}", left
