"""Machines whose GPUs a DRA driver publishes in ResourceSlices, instead of a device plugin in allocatable.

The NodeClass decides (`spec.gpu.mode: DRA`); allocatable does not count then. The annotation
`karpenter.sh/requested-dra-drivers` of a claim names drivers that must have published a complete pool in either mode.

Source: docs/references/karpenter.md#initialization, docs/references/kubernetes.md#dynamic-resource-allocation.
"""

from collections.abc import Iterable, Iterator

from controllers.model.conditions import ConditionUpdate
from controllers.model.devices import Pool, gpus_of, lost_by, pools_of
from controllers.model.facts import Facts
from provisioner.api import labels, reasons
from provisioner.api.conditions import INITIALIZED
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodeclass import AgentPoolNodeClass
from provisioner.api.readiness import ReadinessRule
from provisioner.api.resourceslice import NO_EXECUTE
from provisioner.api.text import quoted
from provisioner.vendors import driver_of

DRA = "DRA"
PLUGIN_HINT = "is its kubelet plugin running and tolerating the claim's taints?"
# Of a claim that names more, the others are ignored.
DRIVERS_MAX = 10


def publishes_gpus(node_class: AgentPoolNodeClass | None) -> bool:
    """Whether a DRA driver publishes the GPUs of machines of this class."""
    return node_class is not None and node_class.spec.gpu.mode == DRA


def waits_for_devices(rules: Iterable[ReadinessRule]) -> bool:
    """Whether a readiness rule reads what drivers publish."""
    return any(rule.until.devices is not None for rule in rules)


def reads_slices(node_class: AgentPoolNodeClass) -> bool:
    """Whether machines of this class need ResourceSlices to be read."""
    return publishes_gpus(node_class) or waits_for_devices(node_class.spec.readiness)


def needs_slices(claim: NodeClaim) -> bool:
    """Whether the annotation of a claim names drivers."""
    return labels.DRA_DRIVERS in claim.metadata.annotations


def gpu_driver(f: Facts) -> str:
    """The driver that publishes the GPUs of this machine; "" if a device plugin serves them, or it has none."""
    return driver_of(f.gpus.resource) if publishes_gpus(f.node_class) else ""


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


def unlisted(f: Facts) -> str:
    """Why it is not known what drivers have published; "" if it is."""
    return f"ResourceSlices: {f.slices_error or 'they have not been listed yet'}" if f.slices is None else ""


def lacking(f: Facts, node: Node, driver: str, count: int) -> str:
    """What the Node lacks of so many usable devices of a driver; "" if it has them."""
    if why := unlisted(f):
        return f"devices of {driver} are not known: {why}"
    seen = sum(len(pool.usable) for pool in _pools(f, node, driver))
    return "" if seen >= count else f"DRA driver {driver}: {seen} of {count} usable devices published"


def tainted_gpus(f: Facts, node: Node) -> int:
    """How many lost GPUs are tainted without an eviction of the pods that have them."""
    gpus = (one for pool in _pools(f, node, gpu_driver(f)) for one in pool.whole_gpus)
    taints = (lost_by(one) for one in gpus)
    return sum(bool(found) and all(one.effect != NO_EXECUTE for one in found) for found in taints)


def withheld(f: Facts, node: Node) -> str:
    """Why missing GPUs say nothing about the machine; "" if a complete pool lacks them, or has them tainted."""
    pools = _pools(f, node, gpu_driver(f))
    if not any(pool.complete for pool in pools):
        return "it has published no complete pool of ResourceSlices"
    others = [one for pool in pools for one in pool.others]
    if not others or any(lost_by(one) for pool in pools for one in pool.devices):
        return ""
    return f"it has published {len(others)} other devices, such as {others[0].name}"


def has_two_owners(f: Facts, node: Node) -> str:
    """Why two components allocate the same GPUs; "" if only one does."""
    plugin = node.status.allocatable.get(f.gpus.resource, "0") if f.gpus.resource else "0"
    driver = driver_of(f.gpus.resource)
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
    """Seen and expected first, then the cause and where to look: by the slices, or else by the driver's pods."""
    if why := unlisted(f):
        return f"what DRA driver {quoted(driver)} has published is not known: {why}"
    pools = _pools(f, node, driver)
    seen = f"{gpus_of(pools)} of {gpus} GPUs" if gpus else "no complete pool of devices"
    head = f"DRA driver {quoted(driver)} has published {seen} on Node {node.name}"
    diagnosed = f.diagnosis.message if f.diagnosis is not None and driver == gpu_driver(f) else ""
    if not pools:
        return f"{head}; {diagnosed or PLUGIN_HINT}"
    partial = next((pool for pool in pools if not pool.complete), None)
    if partial is not None:
        counted = f"{partial.slices} of {partial.expected} ResourceSlices"
        hint = diagnosed or "is its kubelet plugin starting or failing?"
        return f"{head}: pool {quoted(partial.name)} is incomplete, {counted}; {hint}"
    if gpus and (instead := withheld(f, node)):
        return f"{head}; {instead}: whole GPUs are expected; see kubectl get resourceslices"
    taints = [str(found[0]) for pool in pools for one in pool.devices if (found := lost_by(one))]
    if taints:
        tainted = f"{len(taints)} tainted {taints[0]}"
        return f"{head}, {tainted}; see the kernel log; the driver keeps its taints until it restarts"
    return f"{head}; see kubectl get resourceslices and the Xid errors in the kernel log"
