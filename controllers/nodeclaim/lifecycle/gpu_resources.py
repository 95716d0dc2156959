"""Expected and allocatable GPUs of a Node.

Allocatable counts, not capacity, which stays for minutes after a device plugin has stopped
(docs/references/kubernetes.md#extended-resources-and-the-device-manager). An invalid quantity counts as 0.

A Node whose devices work, and which offers others than its node class states, is short for a reason that a person
configured (`gpu_disagreement.py`): this is reported, and never a fault of the machine.

Source: docs/references/kubernetes.md#gpu-resource-names, docs/references/kubernetes.md#labels-of-gpu-nodes.
"""

import msgspec

from controllers.model.conditions import clock_text, was_usable
from controllers.model.facts import Facts
from controllers.model.gpu_devices import Devices, requires_gpus
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodeclass import is_own
from provisioner.vendors import DIVISIONS

from . import dra
from .expected_gpus import amount, expected_gpus
from .gpu_disagreement import Disagreement, disagreement

# The states of a manager that partitions GPUs, such as the MIG manager.
CHANGING = ("pending", "rebooting")
# Until a machine is looked at again of which something could not be read.
UNKNOWN_SECONDS = 60.0


class GpuState(msgspec.Struct, frozen=True, kw_only=True):
    """The allocatable devices of a Node, or those that its DRA driver `driver` publishes, of those expected.

    `expected` is 0 if GPUs are not waited for. `short`: devices are missing, also those of another driver that the
    claim names. `holding`: why nothing may be concluded from the numbers for up to `hold_seconds`, "" if they count.
    `unknown`: why it is not known what the Node must have, or has. `withheld`: why missing GPUs are no fault of the
    machine, as far as the driver's ResourceSlices show: it has not published them all, or other devices instead.
    `tainted`: how many of the missing ones pods may still use that have them.
    `whole`: how many GPUs the size has, however they are divided; 0 of a size that is not in the table.
    `disagrees`: which setting is the cause of the lack. `without_driver`: by its node class, the user installs the
    driver instead of AKS.
    """

    resource: str
    allocatable: int
    expected: int
    whole: int = 0
    short: bool = False
    holding: str = ""
    hold_seconds: float = 0.0
    driver: str = ""
    unknown: str = ""
    withheld: str = ""
    tainted: int = 0
    disagrees: Disagreement | None = None
    without_driver: bool = False

    @property
    def counted(self) -> str:
        """The numbers, for messages."""
        return f"{self.resource}: {self.allocatable} of {self.expected} allocatable"

    @property
    def source(self) -> str:
        """What offers the GPUs: a DRA driver, or the device plugin of this resource."""
        return self.driver or self.resource

    @property
    def some(self) -> bool:
        """Whether pods can use some of the GPUs.

        When one GPU does not answer, NVIDIA's DRA driver taints all of its Node, and the pods on the others run on.
        """
        return bool(self.allocatable or self.tainted)

    @property
    def lost(self) -> bool:
        """Whether GPUs are known to be missing for a cause that may lie in the machine."""
        counts = not self.holding and not self.unknown and not (self.withheld and self.allocatable)
        return self.short and counts and self.allocatable < self.expected and self.disagrees is None


def gpu_state(f: Facts) -> GpuState | None:
    """The state of the GPUs of the claim's Node; None without a Node."""
    claim, node = f.claim, f.node
    return None if claim is None or node is None else state_of(f, claim, node)


def state_of(f: Facts, claim: NodeClaim, node: Node) -> GpuState:
    """The state of the GPUs of this Node."""
    driver = dra.gpu_driver(f)
    settings = f.node_class.spec.gpu if f.node_class is not None else None
    devices = Devices(f.gpus.resource, f.gpus.count) if driver else expected_gpus(f.gpus, settings, node)
    seen = dra.published_gpus(f, node) if driver else allocatable(node, devices.resource)
    expected = devices.count if requires_gpus(f.policy, claim) else 0
    short = not driver and seen < expected
    if driver or dra.needs_slices(claim):
        short = short or dra.lacks_devices(f, claim, node, expected)
    found = GpuState(
        resource=devices.resource,
        driver=driver,
        allocatable=seen,
        expected=expected,
        whole=f.gpus.count,
        short=short,
        without_driver=settings is not None and settings.driver == "None",
    )
    if not expected:
        return found
    if unknown := _unknown(f, claim) or (dra.unlisted(f) if driver else ""):
        return _as_before(found, claim, unknown)
    if short and seen < expected:
        why = disagreement(f, node, Devices(devices.resource, expected), seen)
        found = msgspec.structs.replace(found, disagrees=why)
    if driver:
        withheld, tainted = (dra.withheld(f, node), dra.tainted_gpus(f, node)) if short else ("", 0)
        return msgspec.structs.replace(found, withheld=withheld, tainted=tainted)
    holding, seconds = _changing_mig(f, node) or _unproven(f, node, found) or ("", 0.0)
    return msgspec.structs.replace(found, holding=holding, hold_seconds=seconds)


def failed_mig_config(node: Node) -> str:
    """What the MIG manager failed to apply; "" if it did not fail."""
    found = node.metadata.labels
    failed = (one for one in DIVISIONS if found.get(one.config_state) == "failed")
    return next((found.get(one.config, "its configuration") for one in failed), "")


def changes_mig(node: Node) -> str:
    """The label by which the MIG manager shows that it is partitioning the GPUs of this Node; "" if it is not."""
    keys = (one.config_state for one in DIVISIONS)
    return next((key for key in keys if node.metadata.labels.get(key) in CHANGING), "")


def allocatable(node: Node, resource: str) -> int:
    """How many devices of this resource are allocatable on the Node."""
    return amount(node.status.allocatable, resource)


def _unknown(f: Facts, claim: NodeClaim) -> str:
    """Why it is not known how the GPUs are offered, and how many there must be; "" if it is."""
    reference = claim.spec.node_class_ref
    if not is_own(reference) or f.node_class is not None:
        return ""
    return f"AgentPoolNodeClass {reference.name} {'does not exist' if f.node_class_known else 'cannot be read'}"


def _as_before(found: GpuState, claim: NodeClaim, unknown: str) -> GpuState:
    """The state of a Node of which nothing is known: a new one waits, one that was usable stays as it is."""
    if not was_usable(claim):
        return msgspec.structs.replace(found, short=True, unknown=unknown)
    return msgspec.structs.replace(found, short=False, unknown=unknown, holding=unknown, hold_seconds=UNKNOWN_SECONDS)


def _changing_mig(f: Facts, node: Node) -> tuple[str, float] | None:
    """The MIG manager removes the GPUs from the Node while it partitions them, with a reboot on most machines."""
    seen = f.devices
    if seen is None or seen.node_uid != node.uid or seen.mig_since is None or not (key := changes_mig(node)):
        return None
    since, at = seen.mig_since
    left = f.policy.mig_config_seconds - (f.loop_now - at)
    if left <= 0:
        return None
    state = node.metadata.labels[key]
    return f"{key} is {state} since {clock_text(since)}; waiting for the MIG manager", left


def _unproven(f: Facts, node: Node, found: GpuState) -> tuple[str, float] | None:
    """A number that was published before the kubelet restarted says nothing about the devices of now."""
    seen = f.devices
    if seen is None or seen.node_uid != node.uid or seen.published or found.short:
        return None
    left = f.policy.gpu_stale_seconds - (f.loop_now - seen.restarted_at)
    if left <= 0:
        return None
    return f"the kubelet of Node {node.name} restarted; waiting for its number of {found.resource}", left
