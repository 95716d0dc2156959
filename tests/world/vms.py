"""The smallest second cloud: a dictionary of VMs, with sizes, names, labels and prices of its own.

One object is both halves, the requests (`CloudProvider`) and what is known without one (`Cloud`). A VM boots after
`BOOT_SECONDS` and joins the simulated cluster as a Node; a deleted one is off after `OFF_SECONDS`.
"""

import asyncio
import builtins
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from cloudprovider.cloud import (
    UNKNOWN_CLUSTER,
    ClusterFacts,
    DeviceTemplate,
    InstanceOffering,
    InstanceType,
    Obstacle,
    OfNodeClass,
    PriceList,
    Skus,
)
from cloudprovider.errors import NotFound, Rejected, Retryable
from cloudprovider.interface import (
    ON_DEMAND,
    BeforePage,
    Cluster,
    Failure,
    Gpus,
    Instance,
    InstanceState,
    Offering,
    QuotaLeft,
    ResourceSku,
    Usage,
    immediately,
)
from provisioner.api import labels
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodeclass import AgentPoolNodeClass, NodeClassSpec
from provisioner.api.requirements import allowed_values, of_expected
from provisioner.api.zones import REGIONAL
from provisioner.simulator.kube.store import Store

REGION, MODEL, NAME = "cellar", "vms.example/gpu-model", "vms.example/name"
GPU = "nvidia.com/gpu"
BOOT_SECONDS, OFF_SECONDS = 60.0, 30.0


class Size(msgspec.Struct, frozen=True):
    """`price`: USD an hour."""

    cpus: int
    memory_gib: int
    gpus: int
    price: float


SIZES: Mapping[str, Size] = {
    "plain": Size(4, 16, 0, 0.1),
    "one-gpu": Size(8, 64, 1, 1.0),
    "two-gpus": Size(16, 128, 2, 1.9),
}


class Vms:
    """`store`: of the cluster that the VMs join. `gone`: called with the name of a VM that is off."""

    def __init__(self, store: Store, now: Callable[[], datetime], gone: Callable[[str], None] = lambda _: None) -> None:
        self.vms: dict[str, Instance] = {}
        self._store, self._now, self._gone = store, now, gone

    # requests

    async def create(
        self,
        claim: NodeClaim,
        name: str,
        offering: Offering | None = None,
        node_class: AgentPoolNodeClass | None = None,
    ) -> Instance:
        if name in self.vms:
            raise Retryable("NameTaken", f"{name} exists", conflict=True, status=409)
        offers = (offering,) if offering is not None else self.allowed_offerings(claim, REGION)
        if not offers:
            raise Rejected("NoSize", "no size is allowed; name one", final=True)
        self.vms[name] = Instance(
            name=name,
            state=InstanceState.CREATING,
            size=offers[0].size,
            claim_uid=claim.uid,
            claim_name=claim.name,
            label_uid=claim.uid,
            put_time=self._now(),
            labels=claim.metadata.labels,
        )
        asyncio.get_running_loop().call_later(BOOT_SECONDS, self._boot, name)
        return self.vms[name]

    async def get(self, name: str) -> Instance:
        if name not in self.vms:
            raise NotFound("NotFound", f"{name} does not exist", status=404)
        return self.vms[name]

    async def list(self, *, before_page: BeforePage = immediately) -> builtins.list[Instance]:
        return [*self.vms.values()]

    async def delete(self, instance: Instance) -> None:
        await self.get(instance.name)
        self._change(instance.name, InstanceState.DELETING)
        asyncio.get_running_loop().call_later(OFF_SECONDS, self._turn_off, instance.name)

    async def cause(self, instance: Instance) -> Failure | None:
        return None

    async def cluster(self) -> Cluster:
        return Cluster(running=True, location=REGION, node_resource_group=REGION)

    async def usages(self) -> Mapping[str, Usage]:
        return {}

    async def skus(self) -> Mapping[str, ResourceSku]:
        return {name: ResourceSku(name=name, family="", vcpus=size.cpus) for name, size in SIZES.items()}

    async def latest_image(self, name: str) -> str:
        return ""

    async def close(self) -> None:
        """Nothing is open."""

    def _change(self, name: str, state: InstanceState) -> None:
        self.vms[name] = msgspec.structs.replace(self.vms[name], state=state)

    def _turn_off(self, name: str) -> None:
        if self.vms.pop(name, None) is not None:
            self.fail(name)
            self._gone(name)

    def fail(self, name: str) -> None:
        """Its kubelet is silent, which the node controller reports."""
        if self._store.get("nodes", _host(name)) is not None:
            status = {"conditions": [self._condition("Unknown", "NodeStatusUnknown")]}
            self._store.patch("nodes", _host(name), {"status": status}, subresource="status")

    def _condition(self, status: str, reason: str) -> dict[str, str]:
        moment = self._now().strftime("%Y-%m-%dT%H:%M:%SZ")
        return {"type": "Ready", "status": status, "reason": reason, "lastTransitionTime": moment}

    def _boot(self, name: str) -> None:
        """The Node that the kubelet of this VM registers."""
        if name not in self.vms or self.vms[name].state is not InstanceState.CREATING:
            return
        self._change(name, InstanceState.RUNNING)
        vm = self.vms[name]
        size = SIZES[vm.size]
        amounts = {"cpu": str(size.cpus), "memory": f"{size.memory_gib}Gi", "pods": "110", "ephemeral-storage": "100Gi"}
        amounts |= {GPU: str(size.gpus)} if size.gpus else {}
        self._store.create(
            "nodes",
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {
                    "name": _host(name),
                    "labels": {
                        **vm.labels,
                        **{key: value for key, value in _of_size(vm.size).items() if value},
                        labels.CAPACITY_TYPE: ON_DEMAND,
                        labels.ZONE: REGIONAL,
                        labels.HOSTNAME: _host(name),
                        labels.CLAIM_UID: vm.claim_uid,
                        NAME: name,
                    },
                },
                "spec": {"providerID": f"vms://{name}"},
                "status": {
                    "capacity": amounts,
                    "allocatable": amounts,
                    "conditions": [self._condition("True", "Up")],
                    "nodeInfo": {"kubeletVersion": "v1.33.0"},
                },
            },
        )
        self._store.patch("nodes", _host(name), {"spec": {"taints": []}})  # the node controller: it is Ready

    # what is known without a request

    instance_label = NAME
    size_labels = frozenset({labels.INSTANCE_TYPE})
    gpu_model_label = MODEL
    failure_reasons = frozenset({"NameTaken", "NoSize"})

    default_region = REGION

    def known_regions(self) -> tuple[str, ...]:
        return (REGION,)

    def known_sizes(self) -> tuple[str, ...]:
        return ()

    def region_of(self, zone: str) -> str:
        return zone if zone == REGION else ""

    def pool_name(self, claim: NodeClaim) -> str:
        return f"vm-{claim.name}"

    def pool_of(self, node: Node) -> str:
        name = node.spec.provider_id.removeprefix("vms://")
        return name if node.name == _host(name) else ""

    def resource_group_of(self, node: Node) -> str:
        return REGION if node.spec.provider_id.startswith("vms://") else ""

    def is_known_size(self, name: str) -> bool:
        return name in SIZES

    def nearest_size(self, name: str) -> str:
        return name if name in SIZES else ""

    def canonical_name(self, name: str) -> str:
        return name

    def gpus_of(self, size: str) -> Gpus:
        found = SIZES.get(size)
        return Gpus(resource=GPU, model="Cellar", count=found.gpus) if found is not None and found.gpus else Gpus()

    def device_templates(self) -> Mapping[str, DeviceTemplate]:
        return {}

    def instance_types(
        self,
        region: str,
        obstacle: Obstacle,
        skus: Skus = None,
        facts: ClusterFacts = UNKNOWN_CLUSTER,
        prices: PriceList | None = None,
        *,
        every_size: bool = False,
    ) -> tuple[InstanceType, ...]:
        return tuple(
            InstanceType(
                name=name,
                requirements=of_expected(_of_size(name)),
                capacity=(amounts := _amounts(size, facts.max_pods)),
                allocatable=amounts,
                offerings=(
                    InstanceOffering(
                        zone=facts.regional_zone,
                        price=size.price,
                        order_price=size.price,
                        available=not (cause := obstacle(Offering(size=name))),
                        cause=cause,
                    ),
                ),
            )
            for name, size in SIZES.items()
        )

    def cluster_facts(self, nodes: Iterable[Node], max_pods: int) -> ClusterFacts:
        return ClusterFacts(max_pods=max_pods)

    def of_node_class(
        self,
        capacity: Mapping[str, int],
        allocatable: Mapping[str, int],
        known: Collection[str],
        settings: NodeClassSpec,
    ) -> OfNodeClass:
        return OfNodeClass()

    def contradicts(self, offering: Offering, settings: NodeClassSpec) -> str:
        return ""

    def allowed_offerings(self, claim: NodeClaim, location: str) -> tuple[Offering, ...]:
        listed = allowed_values(claim.spec.requirements, labels.INSTANCE_TYPE) or ()
        return tuple(Offering(size=one) for one in listed if one in SIZES)

    def by_price(
        self, offerings: Iterable[Offering], location: str, types: Sequence[InstanceType] = ()
    ) -> tuple[Offering, ...]:
        return tuple(sorted(offerings, key=lambda one: SIZES[one.size].price))

    def list_prices(self, location: str) -> PriceList:
        return PriceList(on_demand={name: size.price for name, size in SIZES.items()}, date="2026-01-01")

    def excluded(self, skus: Mapping[str, ResourceSku], offering: Offering, location: str) -> str:
        return ""

    def quota_of(self, *_: Any, **__: Any) -> None:
        return None

    def quotas_left(self, *_: Any, **__: Any) -> Mapping[str, QuotaLeft]:
        return {}


def _host(name: str) -> str:
    return f"host-of-{name}"


def _amounts(size: Size, pods: int) -> dict[str, int]:
    """In thousandths."""
    gib = 1000 * 2**30
    gpus = {GPU: 1000 * size.gpus} if size.gpus else {}
    return {
        "cpu": 1000 * size.cpus,
        "memory": size.memory_gib * gib,
        "pods": 1000 * pods,
        "ephemeral-storage": 100 * gib,
        **gpus,
    }


def _of_size(name: str) -> dict[str, str]:
    """The labels of a Node of this size; "" for one that it does not bear."""
    known = {labels.INSTANCE_TYPE: name, labels.REGION: REGION, labels.OS: "linux", labels.ARCH: "amd64"}
    return {**known, MODEL: "Cellar" if SIZES[name].gpus else ""}
