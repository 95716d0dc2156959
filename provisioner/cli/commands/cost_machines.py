"""What each machine of this controller costs, and the GPUs that pods request of it, from the objects of the cluster.

A machine exists from the moment at which its agent pool was created until its NodeClaim and its Node are gone. Prices
are those by which the controller decides (docs/adr/0088-stated-prices.md).
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from cloudprovider.cloud import Cloud
from cloudprovider.interface import ON_DEMAND, SPOT
from controllers.model.conditions import launched
from controllers.model.ownership import belongs, managed, marked
from controllers.nodeclaim.lifecycle.gpu_resources import allocatable
from controllers.provisioning.instances import InstanceTypes
from controllers.provisioning.podspecs import requests
from provisioner.api import labels
from provisioner.api.deviceclaim import ResourceClaim
from provisioner.api.meta import EMPTY
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.owner import counted_in
from provisioner.api.pod import Pod
from provisioner.runtime.objects import key_of
from provisioner.vendors import BY_DRIVER, is_gpu

# Of a quantity as the solver counts it.
THOUSANDTHS = 1000


class PodUse(msgspec.Struct, frozen=True, kw_only=True):
    """A pod on a Node that requests GPUs. `devices`: by its resources. `claims`: its ResourceClaims, with namespace."""

    node: str
    namespace: str = ""
    labels: Mapping[str, str] = EMPTY
    devices: float = 0.0
    claims: tuple[str, ...] = ()


class MachineCost(msgspec.Struct, frozen=True, kw_only=True):
    """`node_claim`, `node`: names, "" without one; `node_pool`: "" for a machine without a NodePool.

    `price`, `list_price`: what it costs, and what its size costs on demand by the list, USD an hour; None if that is
    not known. `gpus`: of the size. `devices`: what pods can request of them, such as slices. `uses`: of its pods.
    `spot_unknown`: it is a spot machine that counts with the price on demand.
    """

    node_claim: str = ""
    node: str = ""
    node_pool: str = ""
    price: float | None = None
    list_price: float | None = None
    gpus: int = 0
    devices: float = 0.0
    uses: tuple[PodUse, ...] = ()
    spot_unknown: bool = False


def pod_use(pod: Pod) -> PodUse | None:
    """What a bound pod requests; None if it requests no GPU. A pod whose requests are invalid requests none."""
    try:
        devices = sum(amount for name, amount in requests(pod.spec).items() if is_gpu(name)) / THOUSANDTHS
    except ValueError:
        devices = 0.0
    claims = tuple(name for one in pod.device_claims if (name := one.generated or one.claim))
    if pod.ended or not (devices or claims):
        return None
    return PodUse(
        node=pod.spec.node_name,
        namespace=pod.metadata.namespace or "default",
        labels=pod.metadata.labels,
        devices=devices,
        claims=claims,
    )


def with_claimed_devices(uses: Iterable[PodUse], claims: Iterable[ResourceClaim]) -> tuple[PodUse, ...]:
    """The pods with the GPUs of their ResourceClaims, which pods of the same claim share alike."""
    uses = tuple(uses)
    users = Counter(name for one in uses for name in one.claims)
    each = {
        key_of(one): sum(device.driver in BY_DRIVER and not device.admin_access for device in allocated.devices.results)
        for one in claims
        if (allocated := one.status.allocation) is not None
    }
    claimed = (sum(each.get(name, 0) / users[name] for name in one.claims) for one in uses)
    return tuple(
        msgspec.structs.replace(one, devices=one.devices + more) for one, more in zip(uses, claimed, strict=True)
    )


def machines(
    claims: Iterable[NodeClaim], nodes: Iterable[Node], uses: Iterable[PodUse], types: InstanceTypes
) -> tuple[MachineCost, ...]:
    """All machines of this controller, also one whose NodeClaim is gone, and one whose Node has not appeared yet."""
    by_node = defaultdict[str, list[PodUse]](list)
    for use in uses:
        by_node[use.node].append(use)
    found = []
    for claim, node in _pairs(claims, nodes, types.cloud):
        of_claim = claim.metadata.labels if claim is not None else EMPTY
        known = {**of_claim, **(node.metadata.labels if node is not None else EMPTY)}
        size, capacity_type = types.cloud.canonical_name(known.get(labels.INSTANCE_TYPE, "")), _capacity_type(known)
        pool = counted_in(claim) if claim is not None else known.get(labels.NODEPOOL, "")
        offered = sum(allocatable(node, one) for one in node.status.allocatable if is_gpu(one)) if node else 0
        price = types.price(pool, size, capacity_type, known.get(labels.ZONE, ""))
        list_price = types.listed.on_demand.get(size.lower())
        gpus, pods = types.cloud.gpus_of(size).count, tuple(by_node[node.name]) if node is not None else ()
        found.append(
            MachineCost(
                node_claim=claim.name if claim is not None else "",
                node=node.name if node is not None else "",
                node_pool=pool,
                price=price,
                list_price=list_price,
                gpus=gpus or offered,
                # Devices that are lost, or not advertised yet, are paid for as well.
                devices=max(gpus, offered, sum(one.devices for one in pods)),
                uses=pods,
                spot_unknown=capacity_type == SPOT
                and price is not None
                and price == list_price
                and size.lower() not in types.listed.spot,
            )
        )
    return tuple(found)


def _pairs(
    claims: Iterable[NodeClaim], nodes: Iterable[Node], cloud: Cloud
) -> Iterator[tuple[NodeClaim | None, Node | None]]:
    """A NodeClaim has several Nodes if its agent pool was scaled by somebody else.

    A NodeClaim that was restored from a backup does not own the Node of its agent pool: both are one machine.
    """
    by_pool, with_node = defaultdict[str, list[NodeClaim]](list), set[str]()
    left = set[str]()
    ours = tuple(filter(managed, claims))
    for one in ours:
        by_pool[cloud.pool_name(one)].append(one)
    for node in nodes:
        claim = next((one for one in by_pool[cloud.pool_of(node)] if belongs(node, one)), None)
        if claim is not None:
            with_node.add(claim.uid)
        elif marked(node):
            left.add(cloud.pool_of(node))
        if claim is not None or marked(node):
            yield claim, node
    for one in ours:
        if one.uid not in with_node and launched(one) and cloud.pool_name(one) not in left:
            yield one, None


def _capacity_type(known: Mapping[str, str]) -> str:
    return SPOT if known.get(labels.AKS_SPOT) == SPOT else known.get(labels.CAPACITY_TYPE) or ON_DEMAND
