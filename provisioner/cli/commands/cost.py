"""`cost`: what the machines cost now, who requests their GPUs, and what is idle.

It reads the cluster once, or files, and writes nothing; Azure is not read. Exit codes: 0 printed, 1 refused or failed,
2 invalid usage or settings.
"""

import argparse
import asyncio
from typing import TextIO

from cloudprovider.interface import Cluster
from cloudprovider.prices import RetailPrices
from cloudprovider.watches import SkuWatch
from controllers.actuator.kept import resource_claims
from provisioner.api.deviceclaim import ResourceClaim
from provisioner.operator.caches import LIVE_PODS, build_caches
from provisioner.operator.operator import build_inventory
from provisioner.operator.prices import PricedTypes, unknown_sizes
from provisioner.runtime.kube import Kube
from provisioner.runtime.kube_errors import KubeError
from provisioner.runtime.resources import PODS, RESOURCECLAIMS
from provisioner.settings import Settings

from .clients import Tools
from .cluster_or_files import cluster_or_files
from .confirmation import current
from .console import Console
from .cost_machines import machines, pod_use, with_claimed_devices
from .cost_report import CostReport, report, shown
from .explain_answer import prices_of
from .explain_world import list_served, region_of_nodes
from .helm_release import ReleaseSettings
from .refusal import OK, Refused, by_api_server
from .values import as_caller

UNSERVED = "prices are not known: the API server does not serve this version of NodeOverlays or NodePools"


async def run(
    settings: Settings, release: ReleaseSettings | None, wanted: argparse.Namespace, typed: TextIO, console: Console
) -> int:
    """Print the costs; returns the exit code. `release`: where the settings were looked for. Raises Refused."""
    if release is not None and not release.variables:
        console.err.write(f"warning: {release.why}: the prices of its --prices are not part of the costs\n")
    async with cluster_or_files(as_caller(settings), wanted.filename, typed) as tools:
        console.err.writelines(f"warning: {line}\n" for line in unknown_sizes(tools.clients.cloud, settings.prices))
        found = await cost(tools, wanted.by, location=settings.location)
    console.print(*shown(found, wanted.output))
    return OK


async def cost(tools: Tools, by: str, *, location: str) -> CostReport:
    """The costs by NodePool or by what else is named. `location`: "" for the region of the Nodes. Raises Refused."""
    try:
        return await _read(tools, by, location)
    except KubeError as error:
        raise by_api_server(error) from None


async def _read(tools: Tools, by: str, location: str) -> CostReport:
    """Raises KubeError."""
    clients, config = tools.clients, tools.config
    caches = build_caches(clients, node_pools=config.node_pools)
    for cache in (caches.nodes, caches.claims, caches.crds):
        await cache.list_once()
    for optional in (caches.node_overlays, caches.node_pools) if config.node_pools else ():
        await list_served(optional)
    inventory = build_inventory(clients, config, lambda _: None, lambda: None)
    region = location or region_of_nodes(caches)
    where = Cluster(running=True, location=region or clients.cloud.default_region)
    inventory.record_cluster(where, asyncio.get_running_loop().time())
    retail, unread = await _retail_prices(tools)
    prices = PricedTypes(
        clients.cloud,
        config,
        caches=caches,
        inventory=inventory,
        skus=SkuWatch(clients.provider),
        retail=lambda: retail,
    )
    types = prices.known()
    if types is None:
        raise Refused(UNSERVED, "Install the chart gpu-provisioner-crd of this version.")
    uses = (await clients.kube.list(PODS, digest=pod_use, field_selector=f"{LIVE_PODS},spec.nodeName!=")).items
    if any(one.claims for one in uses):
        uses = with_claimed_devices(uses, await _resource_claims(clients.kube))
    found = machines(caches.claims.items(), caches.nodes.items(), uses, types)
    unknown = [] if region else [f"No Node names its region: prices are those of {where.location}."]
    unknown += unread
    return report(found, by, prices_of(where.location, types), unknown if found else ())


async def _retail_prices(tools: Tools) -> tuple[RetailPrices | None, list[str]]:
    """The retail prices by which the controller decides, and why they are not known."""
    try:
        return (await current(tools)).prices, []
    except Refused as refused:
        return None, [f"Retail prices, which the controller may use, are not known: {refused.cause}."]


async def _resource_claims(kube: Kube) -> tuple[ResourceClaim, ...]:
    return (await kube.list(RESOURCECLAIMS, digest=resource_claims())).items
