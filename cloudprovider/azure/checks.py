"""The section Azure of `check`: credential, managed cluster, agent pools, permissions, VM sizes and quota.

The section only reads. Without a token or a cluster the other checks are skipped. Data that the identity must not read
is reported as unknown, not as a failure: the controller itself does not need to read quota or roles.

Source: docs/references/agent-pools.md#quota-and-capacity-errors, docs/references/agent-pools.md#limits,
docs/references/agent-pools.md#identity-and-clouds.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from cloudprovider.checks import CheckResults, Subject
from cloudprovider.errors import CloudError
from cloudprovider.interface import SPOT, CloudProvider, Cluster, Identity, Offering, ResourceSku, Usage, identify
from cloudprovider.prices import PriceSource, PricesUnavailable
from provisioner.api.conditions import LAUNCHED
from provisioner.api.nodeclaim import NodeClaim

from .client import AzureConfig
from .offerings import allowed_offerings
from .quota import LOW_PRIORITY, TOTAL, quota_name
from .subscription import SubscriptionClient

ACTIONS = tuple(
    f"Microsoft.ContainerService/managedClusters/{action}"
    for action in ("read", "agentPools/read", "agentPools/write", "agentPools/delete")
)
ROLE = (
    "Set the subscription ID in charts/gpu-provisioner/azure-role.json, az role definition create --role-definition"
    " @azure-role.json, then az role assignment create --role 'GPU provisioner' --assignee {identity} --scope {scope};"
    " this can take an hour to take effect."
)
NAMES = "Check ARM_SUBSCRIPTION_ID, ARM_RESOURCE_GROUP and AZURE_CLUSTER_NAME."
MAX_VERSIONS = 5
SEE_MESSAGE = "Follow the message, then run check again."
READER = "Give the identity Reader on the subscription, or run check on your machine, with your own login."
# Optional for the controller.
WITH_ROLE = "With the role of charts/gpu-provisioner/azure-quota-role.json on the subscription, "
YOUR_LOGIN = " To check it now, run check on your machine, with your own login."
QUOTA_READER = f"{WITH_ROLE}the controller skips sizes without quota and uses raised quota within a minute.{YOUR_LOGIN}"
SIZE_READER = f"{WITH_ROLE}NodePools leave out sizes and zones that the subscription cannot use.{YOUR_LOGIN}"

PRICE_READER = "Allow https to prices.azure.com, or unset RETAIL_PRICES (settings.retailPrices in the chart)."


class Demand(NamedTuple):
    """The number of machines of an offering that are still to be created; 0 for a VM size in use."""

    offering: Offering
    machines: int


class AzureChecks:
    """The checks of one managed cluster, with the credential of these clients."""

    def __init__(
        self,
        provider: CloudProvider,
        inspector: SubscriptionClient,
        config: AzureConfig,
        prices: PriceSource | None = None,
    ) -> None:
        self._provider = provider
        self._inspector = inspector
        self._config = config
        self._prices = prices

    async def run(self, subject: Subject) -> CheckResults:
        """Check the sizes of the subject and of its NodeClaims, and that the Nodes are machines of this cluster."""
        found, inspector, config = CheckResults("azure"), self._inspector, self._config
        role = ROLE.format(identity=config.client_id or "<its client ID>", scope=config.cluster_path)
        if not await _credential(inspector, found):
            return found
        await _api_version(inspector, config.api_version, found)
        name = f"{config.cluster_name} in {config.resource_group}"
        cluster = await _cluster(self._provider, found, name, config.location, role)
        if cluster is None:
            return found
        _identity(cluster, subject.resource_groups, found)
        await _pools(self._provider, subject.max_pools, cluster, role, found)
        await _permissions(inspector, role, found)
        where = (cluster.location or config.location).replace(" ", "").lower()
        if self._prices is not None and where:
            await _retail_prices(self._prices, where, found)
        demands = tuple(_wanted(subject.claims, subject.sizes, where))
        if not demands:
            found.unknown("sizes", "no NodeClaim requests a VM size", "Name one: --size Standard_NC24ads_A100_v4.")
        elif not where:
            found.unknown("sizes", "the location of the cluster is unknown", "Set LOCATION.")
        else:
            await _capacity(inspector, where, demands, found)
        return found


async def _credential(inspector: SubscriptionClient, found: CheckResults) -> bool:
    try:
        identity = await inspector.identity()
    except CloudError as error:
        found.failed("credential", str(error), "Follow the message; gpu-provisioner config prints the settings.")
        found.unknown("other checks", "skipped: there is no token")
        return False
    named = f" for {identity.name} of tenant {identity.tenant or 'unknown'}"
    whose = named if identity.name else ", without the name of an identity"
    found.ok("credential", f"token received{whose}")
    return True


async def _api_version(inspector: SubscriptionClient, wanted: str, found: CheckResults) -> None:
    try:
        offered = await inspector.api_versions()
    except CloudError as error:
        found.unknown("api version", f"{wanted} is used; failed to read those that the cloud offers: {error}", READER)
        return
    newest = ", ".join(offered[:MAX_VERSIONS]) or "none"
    if wanted in offered:
        found.ok("api version", f"{wanted} is offered; the newest are {newest}")
    else:
        remedy = "Set ARM_API_VERSION (azure.apiVersion in the chart) to one of these."
        found.failed("api version", f"{wanted} is not offered in this cloud; the newest are {newest}", remedy)


async def _cluster(provider: CloudProvider, found: CheckResults, name: str, location: str, role: str) -> Cluster | None:
    try:
        cluster = await provider.cluster()
    except CloudError as error:
        found.failed("cluster", f"{name}: {error}", role if error.status == 403 else NAMES)
        found.unknown("other checks", "skipped: the cluster could not be read")
        return None
    text = f"{name}: {cluster.state}, {cluster.power_state}, in {cluster.location or 'an unknown location'}"
    if not cluster.running:
        found.failed("cluster", text, "Start it (az aks start), or wait until it has started.")
    elif cluster.state == "Failed":
        found.failed("cluster", text, "az aks show prints the cause; az aks update reconciles it.")
    elif location and cluster.location and location.lower() != cluster.location.replace(" ", "").lower():
        found.failed(
            "cluster", f"{text}, but LOCATION is {location}", f"Set LOCATION to {cluster.location}, or unset it."
        )
    else:
        found.ok("cluster", text)
    return cluster


def _identity(cluster: Cluster, of_nodes: frozenset[str] | None, found: CheckResults) -> None:
    """Whether the API server and the settings are about the same cluster: values are copied between clusters."""
    group = cluster.node_resource_group
    if of_nodes is None:
        return  # reported with the permissions
    match identify(of_nodes, group):
        case Identity.SAME:
            found.ok("same cluster", f"Nodes of the API server are machines in {group.rpartition('/')[2]}")
        case Identity.OTHER:
            where = ", ".join(sorted(one.rpartition("/")[2] for one in of_nodes))
            text = (
                f"the API server's Nodes are in {where}, the managed cluster's machines in {group.rpartition('/')[2]}"
            )
            found.failed(
                "same cluster", f"{text}: the controller refuses to act", f"{NAMES} Or use another kubeconfig."
            )
        case Identity.UNKNOWN:
            found.unknown("same cluster", "no Node is a machine in Azure: removals without a request wait for one")


async def _pools(provider: CloudProvider, most: int | None, cluster: Cluster, role: str, found: CheckResults) -> None:
    try:
        used = len(await provider.list())
    except CloudError as error:
        found.failed("agent pools", str(error), role if error.status == 403 else SEE_MESSAGE)
        return
    limit = cluster.max_pools if most is None else min(most, cluster.max_pools)
    text = f"{used} of the cluster's {cluster.max_pools}"
    if used < limit:
        found.ok("agent pools", f"{text} are used")
    else:
        found.failed(
            "agent pools", f"{text} are used, and at most {limit} are allowed", "Delete agent pools or NodeClaims."
        )


async def _permissions(inspector: SubscriptionClient, role: str, found: CheckResults) -> None:
    try:
        permissions = await inspector.permissions()
    except CloudError as error:
        found.unknown("permissions", f"failed to read them: {error}", READER)
        return
    missing = [action for action in ACTIONS if not permissions.allow(action)]
    for action in missing:
        found.failed("permissions", f"missing: {action}", role)
    if not missing:
        found.ok("permissions", "read the cluster; read, write and delete agent pools")


async def _retail_prices(source: PriceSource, location: str, found: CheckResults) -> None:
    try:
        read = await source.read(location)
    except PricesUnavailable as error:
        found.unknown("retail prices", f"failed to read them, the last prices stay in use: {error}", PRICE_READER)
        return
    text = f"{len(read.prices.on_demand)} on demand and {len(read.prices.spot)} of spot in {location}"
    found.ok("retail prices", f"{text}, {read.dropped} unusable rows")


def _wanted(claims: Sequence[NodeClaim], sizes: Sequence[str], location: str) -> Iterator[Demand]:
    """The offerings of the NodeClaims in the order of preference, and one more machine of each of `sizes`.

    A NodeClaim that is not launched counts as one machine of its preferred offering.
    """
    machines: Counter[Offering] = Counter()
    for claim in claims:
        tried = allowed_offerings(claim, location)
        launched = claim.condition(LAUNCHED, "True") is not None
        for place, offering in enumerate(tried):
            machines[offering] += int(place == 0 and not launched and not claim.deleting)
    for size in dict.fromkeys(sizes):
        machines[Offering(size=size)] += 1
    yield from (Demand(offering, count) for offering, count in machines.items())


async def _capacity(
    inspector: SubscriptionClient, location: str, demands: Sequence[Demand], found: CheckResults
) -> None:
    names = dict.fromkeys(demand.offering.size for demand in demands)
    try:
        skus = await inspector.skus(location, names)
    except CloudError as error:
        found.unknown("sizes", f"failed to read the VM sizes: {error}", SIZE_READER)
        await _quota_readable(inspector, location, found)
        return
    for size in names:
        _restrictions(size, skus.get(size.casefold()), location, demands, found)
    try:
        usages = await inspector.usages(location)
    except CloudError as error:
        found.unknown("quota", f"failed to read the usage: {error}", QUOTA_READER)
        return
    _quotas(demands, skus, usages, location, found)


async def _quota_readable(inspector: SubscriptionClient, location: str, found: CheckResults) -> None:
    try:
        await inspector.usages(location)
    except CloudError as error:
        found.unknown("quota", f"failed to read the usage: {error}", QUOTA_READER)
    else:
        found.ok("quota", f"the usage of {location} can be read: the controller skips sizes without quota")


def _restrictions(
    size: str, sku: ResourceSku | None, location: str, demands: Sequence[Demand], found: CheckResults
) -> None:
    check, list_them = f"size {size}", f"Choose another size: az vm list-skus --location {location} -o table"
    if sku is None:
        found.failed(check, f"not offered in {location}", list_them)
        return
    if sku.restricted:
        found.failed(check, f"not available to this subscription in {location}: {sku.restricted}", list_them)
        return
    required = {demand.offering.zone for demand in demands if demand.offering.size == size and demand.offering.zone}
    closed = sorted(required & set(sku.zones_restricted)) + sorted(
        required - set(sku.zones) - set(sku.zones_restricted)
    )
    limits = f"; not in zone {', '.join(sku.zones_restricted)}" if sku.zones_restricted else ""
    if closed:
        message = f"not available in zone {', '.join(closed)} of {location}, which NodeClaims require{limits}"
        found.failed(check, message, "Require another zone in the NodeClaim, or none.")
    else:
        found.ok(check, f"offered in {location}: {sku.vcpus} vCPUs{limits}")


def _quotas(
    demands: Sequence[Demand],
    skus: Mapping[str, ResourceSku],
    usages: Mapping[str, Usage],
    location: str,
    found: CheckResults,
) -> None:
    """A line for each quota that applies: VM families, then the totals."""
    needs: dict[str, int] = {}
    labels: dict[str, str] = {}
    totals: dict[str, int] = {}
    for demand in demands:
        sku = skus.get(demand.offering.size.casefold())
        if sku is None:
            continue
        cores = sku.vcpus * demand.machines
        if demand.offering.capacity_type == SPOT:
            totals[LOW_PRIORITY] = totals.get(LOW_PRIORITY, 0) + cores
            continue
        family = quota_name(sku.family)
        labels[family] = sku.family
        needs[family] = needs.get(family, 0) + cores
        totals[TOTAL] = totals.get(TOTAL, 0) + cores
    labels |= {TOTAL: "all vCPUs of the region", LOW_PRIORITY: "all spot vCPUs of the region"}
    for name, need in (*needs.items(), *totals.items()):
        _quota(labels[name], need, usages.get(name), location, found)


def _quota(name: str, need: int, usage: Usage | None, location: str, found: CheckResults) -> None:
    check = f"quota {name}"
    if usage is None:
        found.unknown(check, f"the usage of {location} does not contain it")
        return
    text = (
        f"{usage.used} of {usage.limit} vCPUs used in {location}, {need} more vCPU{'' if need == 1 else 's'} required"
    )
    if usage.used + need > usage.limit:
        missing = usage.used + need - usage.limit
        remedy = f"Raise it by {missing} or use another VM size: az vm list-usage -l {location} -o table"
        found.failed(check, text, remedy)
    else:
        found.ok(check, text)
