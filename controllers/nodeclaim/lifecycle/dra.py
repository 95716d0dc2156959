"""Machines whose GPUs a DRA driver publishes in ResourceSlices, instead of a device plugin in allocatable.

The NodeClass decides (`spec.gpu.mode: DRA`); allocatable does not count then. The annotation
`karpenter.sh/requested-dra-drivers` of a claim names drivers that must have published a complete pool in either mode.

Source: docs/references/karpenter.md#initialization, docs/references/kubernetes.md#dynamic-resource-allocation.
"""

from collections.abc import Iterator

from controllers.model.conditions import ConditionUpdate
from controllers.model.devices import Pool, gpus_of, is_lost, pools_of
from controllers.model.facts import Facts
from provisioner.api import labels, reasons
from provisioner.api.conditions import INITIALIZED
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodeclass import AgentPoolNodeClass
from provisioner.api.resourceslice import AMD_DRIVER, NO_EXECUTE, NVIDIA_DRIVER
from provisioner.api.text import quoted

DRIVERS = {"nvidia.com/gpu": NVIDIA_DRIVER, "amd.com/gpu": AMD_DRIVER}
DRA = "DRA"
# Of a claim that names more, the others are ignored.
DRIVERS_MAX = 10


def publishes_gpus(node_class: AgentPoolNodeClass | None) -> bool:
    """Whether a DRA driver publishes the GPUs of machines of this class."""
    return node_class is not None and node_class.spec.gpu.mode == DRA


def needs_slices(claim: NodeClaim) -> bool:
    """Whether the annotation of a claim names drivers."""
    return labels.DRA_DRIVERS in claim.metadata.annotations


def gpu_driver(f: Facts) -> str:
    """The driver that publishes the GPUs of this machine; "" if a device plugin serves them, or it has none."""
    return DRIVERS.get(f.gpus.resource, "") if publishes_gpus(f.node_class) else ""


def published_gpus(f: Facts, node: Node) -> int:
    """How many whole GPUs pods can use, as the complete pools of the driver say."""
    return gpus_of(_pools(f, node, gpu_driver(f)))


def unpublished(f: Facts, claim: NodeClaim, node: Node, expected: int) -> ConditionUpdate | None:
    """The first driver that has not published what is expected; None if all have. `expected`: the number of GPUs."""
    for driver in _drivers(f, claim, expected):
        gpus = expected if driver == gpu_driver(f) else 0
        if not _is_published(f, node, driver, gpus):
            return ConditionUpdate(
                status="Unknown", reason=reasons.DRA_DRIVER_POOLS_NOT_PUBLISHED, message=_text(f, node, driver, gpus)
            )
    return None


def lacks_devices(f: Facts, claim: NodeClaim, node: Node, expected: int) -> bool:
    """Whether devices are missing. What is not known is not missing on a Node that had them."""
    if f.slices is None and claim.condition(INITIALIZED, "True") is not None:
        return False
    return unpublished(f, claim, node, expected) is not None


def has_two_owners(f: Facts, node: Node) -> str:
    """Why two components allocate the same GPUs; "" if only one does."""
    plugin = node.status.allocatable.get(f.gpus.resource, "0") if f.gpus.resource else "0"
    driver = DRIVERS.get(f.gpus.resource, "")
    gpus = gpus_of(_pools(f, node, driver)) if driver else 0
    if plugin in ("0", "") or not gpus:
        return ""
    return (
        f"a device plugin has registered {plugin} {f.gpus.resource}, and DRA driver {driver} has published {gpus}"
        f" devices: pods of both get the same GPUs; keep one of the two away from Node {node.name}"
    )


def _drivers(f: Facts, claim: NodeClaim, expected: int) -> Iterator[str]:
    own = gpu_driver(f)
    if own and expected:
        yield own
    named = claim.metadata.annotations.get(labels.DRA_DRIVERS, "").split(",")[:DRIVERS_MAX]
    yield from sorted({name for one in named if (name := one.strip()) and not (name == own and expected)})


def _is_published(f: Facts, node: Node, driver: str, gpus: int) -> bool:
    pools = _pools(f, node, driver)
    return gpus_of(pools) >= gpus if gpus else any(pool.complete for pool in pools)


def _pools(f: Facts, node: Node, driver: str) -> tuple[Pool, ...]:
    return pools_of((one for one in f.slices or () if one.spec.node_name == node.name), driver)


def _text(f: Facts, node: Node, driver: str, gpus: int) -> str:
    """Seen and expected first, then the cause and where to look."""
    if f.slices is None:
        why = f.slices_error or "they have not been listed yet"
        return f"what DRA driver {quoted(driver)} has published is not known: ResourceSlices: {why}"
    pools = _pools(f, node, driver)
    seen = f"{gpus_of(pools)} of {gpus} GPUs" if gpus else "no complete pool of devices"
    head = f"DRA driver {quoted(driver)} has published {seen} on Node {node.name}"
    if not pools:
        return f"{head}; is its kubelet plugin running and tolerating the claim's taints?"
    partial = next((pool for pool in pools if not pool.complete), None)
    if partial is not None:
        counted = f"{partial.slices} of {partial.expected} ResourceSlices"
        return (
            f"{head}: pool {quoted(partial.name)} is incomplete, {counted}; is its kubelet plugin starting or failing?"
        )
    lost = sum(is_lost(device) for pool in pools for device in pool.devices)
    more = f", {lost} devices are tainted {NO_EXECUTE}" if lost else ""
    return f"{head}{more}; see kubectl get resourceslices and the Xid errors in the kernel log"
