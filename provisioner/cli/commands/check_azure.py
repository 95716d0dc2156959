"""`check`, Azure's side: is there a token, is the cluster well, may we work on its pools, is there room for more.

Reads only. Without a token or a cluster the rest is not asked; what may not be read "could not be told", which
is no fault: the controller itself needs neither quota nor roles to be readable.

Source: docs/references/agent-pools.md#quota-and-capacity-errors, docs/references/agent-pools.md#limits,
docs/references/agent-pools.md#identity-and-clouds.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from cloudprovider.azure.client import AzureConfig
from cloudprovider.azure.offerings import allowed_offerings
from cloudprovider.azure.subscription import LOW_PRIORITY, TOTAL, ResourceSku, Usage
from cloudprovider.errors import CloudError
from cloudprovider.interface import SPOT, Cluster, Offering
from controllers.model.policy import Policy
from provisioner.api.conditions import LAUNCHED
from provisioner.api.nodeclaim import NodeClaim
from provisioner.operator.clients import Azure

from .check_results import CheckResults
from .tables import counted

ACTIONS = tuple(
    f"Microsoft.ContainerService/managedClusters/{action}"
    for action in ("read", "agentPools/read", "agentPools/write", "agentPools/delete")
)
ROLE = (
    "Put the subscription's id into charts/gpu-provisioner/azure-role.json, az role definition create --role-definition"
    " @azure-role.json, then az role assignment create --role 'GPU provisioner' --assignee {identity} --scope {scope};"
    " that can take an hour to spread."
)
NAMES = "Check ARM_SUBSCRIPTION_ID, ARM_RESOURCE_GROUP and AZURE_CLUSTER_NAME."
AS_TOLD = "The message says what to do; then look again."
READER = "Give the identity Reader on the subscription, or run check with your own login (DEPLOYMENT_MODE=managed)."


class Wish(NamedTuple):
    """Machines that are wanted and not there yet; none: the size is in use, and no more of it is wanted now."""

    offering: Offering
    machines: int


async def azure(
    arm: Azure,
    policy: Policy,
    *,
    config: AzureConfig,
    claims: Sequence[NodeClaim] | None,
    sizes: Sequence[str],
) -> CheckResults:
    """The section. `sizes` are asked for besides those of the claims."""
    found, location = CheckResults("azure"), config.location
    cluster = f"{config.cluster_name} in {config.resource_group}"
    role = ROLE.format(identity=config.client_id or "<its client id>", scope=config.cluster_path)
    if not await _credential(arm, found):
        return found
    state = await _cluster(arm, found, cluster, location, role)
    if state is None:
        return found
    await _pools(arm, policy, state, role, found)
    await _permissions(arm, role, found)
    where = (state.location or location).replace(" ", "").lower()
    wishes = tuple(wanted(claims or (), sizes))
    if not wishes:
        found.unknown("sizes", "no NodeClaim asks for any", "Name one: --size Standard_NC24ads_A100_v4.")
    elif not where:
        found.unknown("sizes", "the cluster's location is not known", "Set LOCATION.")
    else:
        await _room(arm, where, wishes, found)
    return found


async def _credential(arm: Azure, found: CheckResults) -> bool:
    try:
        identity = await arm.inspector.identity()
    except CloudError as error:
        found.bad("credential", str(error), "The message says what to set; see gpu-provisioner config.")
        found.unknown("the rest", "not asked, as there is no token")
        return False
    named = f" for {identity.name} of tenant {identity.tenant or 'unknown'}"
    whose = named if identity.name else ", which does not say for whom"
    found.ok("credential", f"there is a token{whose}")
    return True


async def _cluster(arm: Azure, found: CheckResults, name: str, location: str, role: str) -> Cluster | None:
    try:
        cluster = await arm.provider.cluster()
    except CloudError as error:
        found.bad("cluster", f"{name}: {error}", role if error.status == 403 else NAMES)
        found.unknown("the rest", "not asked, as the cluster could not be read")
        return None
    told = f"{name}: {cluster.state}, {cluster.power_state}, in {cluster.location or 'an unknown location'}"
    if not cluster.running:
        found.bad("cluster", told, "Start it (az aks start), or wait until it has started.")
    elif cluster.state == "Failed":
        found.bad("cluster", told, "az aks show tells why; az aks update reconciles it.")
    elif location and cluster.location and location.lower() != cluster.location.replace(" ", "").lower():
        found.bad("cluster", f"{told}, but LOCATION is {location}", f"Set LOCATION to {cluster.location}, or unset it.")
    else:
        found.ok("cluster", told)
    return cluster


async def _pools(arm: Azure, policy: Policy, cluster: Cluster, role: str, found: CheckResults) -> None:
    try:
        used = len(await arm.provider.list())
    except CloudError as error:
        found.bad("agent pools", str(error), role if error.status == 403 else AS_TOLD)
        return
    most = policy.max_agent_pools
    limit = cluster.max_pools if most is None else min(most, cluster.max_pools)
    told = f"{used} of the cluster's {cluster.max_pools}"
    if used < limit:
        found.ok("agent pools", f"{told} are used")
    else:
        found.bad("agent pools", f"{told} are used, and no more than {limit} are made", "Delete agent pools or claims.")


async def _permissions(arm: Azure, role: str, found: CheckResults) -> None:
    try:
        permissions = await arm.inspector.permissions()
    except CloudError as error:
        found.unknown("permissions", f"they may not be read: {error}", READER)
        return
    missing = [action for action in ACTIONS if not permissions.allow(action)]
    for action in missing:
        found.bad("permissions", f"we may not {action}", role)
    if not missing:
        found.ok("permissions", "read the cluster; read, write and delete agent pools")


def wanted(claims: Sequence[NodeClaim], sizes: Sequence[str]) -> Iterator[Wish]:
    """What claims may be given, in the order of claims and tries, and one machine more of each of `sizes`.

    A claim that is not launched counts as one machine of the offering that it prefers.
    """
    machines: Counter[Offering] = Counter()
    for claim in claims:
        tried = allowed_offerings(claim)
        launched = claim.condition(LAUNCHED, "True") is not None
        for place, offering in enumerate(tried):
            machines[offering] += int(place == 0 and not launched and not claim.deleting)
    for size in dict.fromkeys(sizes):
        machines[Offering(size=size)] += 1
    yield from (Wish(offering, count) for offering, count in machines.items())


async def _room(arm: Azure, location: str, wishes: Sequence[Wish], found: CheckResults) -> None:
    names = dict.fromkeys(wish.offering.size for wish in wishes)
    try:
        skus = await arm.inspector.skus(location, names)
    except CloudError as error:
        found.unknown("sizes", f"Compute's sizes may not be read: {error}", READER)
        return
    for size in names:
        _restrictions(size, skus.get(size.casefold()), location, wishes, found)
    try:
        usages = await arm.inspector.usages(location)
    except CloudError as error:
        found.unknown("quota", f"Compute's usage may not be read: {error}", READER)
        return
    _quotas(wishes, skus, usages, location, found)


def _restrictions(
    size: str, sku: ResourceSku | None, location: str, wishes: Sequence[Wish], found: CheckResults
) -> None:
    check, list_them = f"size {size}", f"Choose another size: az vm list-skus --location {location} -o table"
    if sku is None:
        found.bad(check, f"it is not offered in {location}", list_them)
        return
    if sku.restricted:
        found.bad(check, f"this subscription does not get it in {location}: {sku.restricted}", list_them)
        return
    asked = {wish.offering.zone for wish in wishes if wish.offering.size == size and wish.offering.zone}
    closed = sorted(asked & set(sku.zones_restricted)) + sorted(asked - set(sku.zones) - set(sku.zones_restricted))
    limits = f"; not in zone {', '.join(sku.zones_restricted)}" if sku.zones_restricted else ""
    if closed:
        message = f"not to be had in zone {', '.join(closed)} of {location}, which claims name{limits}"
        found.bad(check, message, "Let the claim name another zone, or none.")
    else:
        found.ok(check, f"offered in {location}: {sku.vcpus} vCPUs{limits}")


def _quotas(
    wishes: Sequence[Wish],
    skus: Mapping[str, ResourceSku],
    usages: Mapping[str, Usage],
    location: str,
    found: CheckResults,
) -> None:
    """A line for each quota that the wishes draw on: families, then the totals."""
    needs: dict[str, int] = {}
    labels: dict[str, str] = {}
    totals: dict[str, int] = {}
    for wish in wishes:
        sku = skus.get(wish.offering.size.casefold())
        if sku is None:
            continue
        cores = sku.vcpus * wish.machines
        if wish.offering.capacity_type == SPOT:
            totals[LOW_PRIORITY] = totals.get(LOW_PRIORITY, 0) + cores
            continue
        family = sku.family.casefold()
        labels[family] = sku.family
        needs[family] = needs.get(family, 0) + cores
        totals[TOTAL] = totals.get(TOTAL, 0) + cores
    labels |= {TOTAL: "all vCPUs of the region", LOW_PRIORITY: "all spot vCPUs of the region"}
    for name, need in (*needs.items(), *totals.items()):
        _quota(labels[name], need, usages.get(name), location, found)


def _quota(name: str, need: int, usage: Usage | None, location: str, found: CheckResults) -> None:
    check = f"quota {name}"
    if usage is None:
        found.unknown(check, f"Compute's usage in {location} does not name it")
        return
    told = f"{usage.used} of {usage.limit} vCPUs used in {location}, {counted(need, 'more vCPU')} wanted"
    if usage.used + need > usage.limit:
        missing = usage.used + need - usage.limit
        remedy = f"Raise it by {missing} or change size: az vm list-usage -l {location} -o table"
        found.bad(check, told, remedy)
    else:
        found.ok(check, told)
