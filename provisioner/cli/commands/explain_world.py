"""The controllers of one process with caches that were filled once, asked instead of run.

Everything is wired as in the controller, so that its own functions answer. Its elector never runs: the fence of all
writes stays closed, whatever is called.
"""

import asyncio
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from cloudprovider.errors import CloudError
from cloudprovider.interface import Cluster
from cloudprovider.inventory import Inventory
from controllers.nodeclaim.lifecycle import dra
from controllers.provisioning.instances import InstanceTypes
from controllers.reconcile.disruption_read import DisruptionReader
from controllers.state.memory import Memory
from provisioner.api import labels
from provisioner.api.nodeclass import is_own
from provisioner.operator.caches import Caches, build_caches
from provisioner.operator.controllers import Controllers, build_actuator, build_controllers, build_fence
from provisioner.operator.operator import build_elector, build_inventory
from provisioner.operator.prices import PricedTypes
from provisioner.operator.provisioning import Provisioning
from provisioner.runtime.events import EventRecorder
from provisioner.runtime.isolation import Isolation
from provisioner.runtime.kube_errors import KubeError
from provisioner.runtime.reflector import Reflector

from .clients import Tools
from .confirmation import LeaseState, current
from .refusal import Refused


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """`types`: what can be bought. `prices`: of all sizes, as of machines that exist. `unread`: what could not be read,
    and why."""

    caches: Caches
    controllers: Controllers
    provisioning: Provisioning
    disruption: DisruptionReader
    region: str
    types: InstanceTypes
    prices: InstanceTypes
    now: datetime
    unread: tuple[str, ...]


async def read_world(tools: Tools, *, without_azure: str, location: str, pods: bool) -> World:
    """Read everything once. `pods`: also pods and what schedules them. Raises KubeError.

    `without_azure`: why nothing is read of Azure, "" if it is. `location`: the region then, "" for that of the Nodes.
    """
    clients, config = tools.clients, replace(tools.config, elect=True, node_pools=True)
    inventory = build_inventory(clients, config, lambda _: None, lambda: None)
    caches = build_caches(clients, node_pools=True)
    elector, events = build_elector(clients, config), EventRecorder(clients.kube, clients.clock)
    controllers = build_controllers(clients, config, caches=caches, inventory=inventory, events=events, elector=elector)
    provisioning = controllers.provisioning
    if provisioning is None:
        raise AssertionError("unreachable: NodePools are enabled")
    failed = without_azure or await _read_azure(inventory, controllers, provisioning)
    unread = [f"agent pools, quota and VM sizes of Azure: {failed}"] if failed else []
    await _read_cluster(caches, provisioning, pods=pods)
    lease = await _lease(tools, unread)
    controllers.cluster_state.confirmation = lease.confirmation
    controllers.price_watch.current = lease.prices
    now, loop_now = clients.clock.now(), asyncio.get_running_loop().time()
    controllers.cluster_state.restore_removals(lease.removals, now, loop_now)
    if inventory.cluster is None:
        default = clients.cloud.default_region
        region, provisioning.sku_watch.done = location or region_of_nodes(caches), True
        inventory.record_cluster(Cluster(running=True, location=region or default), loop_now)
        unread += [] if region else [f"the region, which no Node names: prices are those of {default}"]
    for key in (*caches.indexes.keys(),):  # what conditions report of offerings is restored, as by a new leader
        controllers.reconciler.observe(key, Memory())
    types = provisioning.instance_types()
    stated = PricedTypes(
        clients.cloud,
        config,
        caches=caches,
        inventory=inventory,
        skus=provisioning.sku_watch,
        retail=lambda: controllers.price_watch.current,
    )
    if types is None or inventory.cluster is None or (prices := stated.known()) is None:
        raise AssertionError("unreachable: the cluster is known and the read of sizes has ended")
    return World(
        caches=caches,
        controllers=controllers,
        provisioning=provisioning,
        disruption=DisruptionReader(
            provisioning.demand,
            build_actuator(clients, caches, inventory, events, build_fence(elector)),
            machines=provisioning.machines,
            obstacles=provisioning.obstacles,
            changes=lambda: 0,
            isolation=Isolation(clients.metrics.object_errors),
            clock=clients.clock,
        ),
        region=inventory.cluster.location,
        types=types,
        prices=prices,
        now=now,
        unread=tuple(unread),
    )


async def _read_azure(inventory: Inventory, controllers: Controllers, provisioning: Provisioning) -> str:
    """Agent pools before NodeClaims, as `read_state` does; why they could not be read, else ""."""
    try:
        await inventory.list_once()
    except CloudError as error:
        return str(error)
    await provisioning.sku_watch.read_once()
    await controllers.quota_watch.read_once()
    return ""


async def _lease(tools: Tools, unread: list[str]) -> LeaseState:
    """What the Lease records of removals; users may be unable to read it."""
    try:
        return await current(tools)
    except Refused as refused:
        unread.append(f"removals and retail prices that the Lease records: {refused.cause}")
        return LeaseState()


async def _read_cluster(caches: Caches, provisioning: Provisioning, *, pods: bool) -> None:
    await caches.nodes.list_once()
    await caches.claims.list_once()
    await caches.crds.list_once()
    await list_served(caches.node_overlays)
    claims = caches.claims.items()
    if pods or any(is_own(one.spec.node_class_ref) for one in claims):
        await list_served(caches.node_classes)
    if any(map(dra.reads_slices, caches.node_classes.items())) or any(map(dra.needs_slices, claims)):
        await list_served(caches.slices)
    if pods:
        demand = provisioning.demand
        for cache in (demand.namespaces, demand.daemon_sets, demand.pods, demand.pod_budgets):
            await cache.list_once()
    if pods or caches.node_overlays.items():
        await list_served(caches.node_pools)


async def list_served(cache: Reflector[Any]) -> None:
    """Fill the cache, which stays empty if the API server does not serve its kind."""
    try:
        await cache.list_once()
    except KubeError as error:
        if error.status != 404:
            raise


def region_of_nodes(caches: Caches) -> str:
    """The region of the Nodes, "" if none names one."""
    return next((one for node in caches.nodes.items() if (one := node.metadata.labels.get(labels.REGION))), "")
