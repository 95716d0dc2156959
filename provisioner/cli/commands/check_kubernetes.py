"""`check`, section Kubernetes: API server, CRDs, permissions, Lease, NodePools and NodeClaims.

The section only reads. Permissions are those that the chart grants. If the API server does not respond, the other
checks are skipped.
"""

from typing import NamedTuple

from cloudprovider.checks import CheckResults
from cloudprovider.cloud import Cloud
from controllers.model.ownership import managed
from controllers.model.reported import reported
from controllers.nodepool.nodepool import is_ours
from controllers.provisioning.nodepools import why_unusable
from controllers.state.readiness_rules import watched_by
from provisioner.api.conditions import LAUNCHED
from provisioner.api.nodeclaim import NodeClaim
from provisioner.operator.config import Config
from provisioner.runtime.clock import Clock
from provisioner.runtime.kept import whole
from provisioner.runtime.kube import Kube
from provisioner.runtime.kube_errors import KubeError
from provisioner.runtime.permissions import (
    DOCTOR_PERMISSIONS,
    GKM_PERMISSIONS,
    METRICS_PERMISSIONS,
    NODEPOOL_PERMISSIONS,
    PERMISSIONS,
    Permission,
    nvsentinel_permissions,
)
from provisioner.runtime.resources import NODECLAIMS, NODECLASSES, NODEPOOLS, NODES
from provisioner.runtime.watched_objects import discover

from .check_crds import definitions
from .check_lease import lease
from .console import counted, moment
from .refusal import by_api_server

WATCH = "Install its CRD, or name it in the chart's value readiness.resources: until then its rules hold their taints."
GRANT = "Grant it with helm upgrade of the chart; kubectl auth can-i --list shows the granted permissions."


class Seen(NamedTuple):
    """What other sections compare: the NodeClaims, and the resource groups of the Nodes' machines as ARM ids.

    None: they could not be read.
    """

    claims: tuple[NodeClaim, ...] | None = None
    resource_groups: frozenset[str] | None = None


async def kubernetes(kube: Kube, cloud: Cloud, config: Config, clock: Clock) -> tuple[CheckResults, Seen]:
    """The results, and what other sections compare."""
    found = CheckResults("kubernetes")
    if not await _answers(kube, found):
        return found, Seen()
    await definitions(kube, found, node_pools=config.node_pools)
    await _permissions(kube, config, found)
    await _doctor(kube, found)
    await _readiness_rules(kube, config, found)
    await lease(kube, config, clock, found)
    if config.node_pools:
        await _node_pools(kube, found)
    return found, Seen(await _claims(kube, cloud, found), await _resource_groups(kube, cloud))


async def _resource_groups(kube: Kube, cloud: Cloud) -> frozenset[str] | None:
    try:
        nodes = (await kube.list(NODES, digest=whole)).items
        return frozenset(filter(None, map(cloud.resource_group_of, nodes)))
    except KubeError:
        return None  # reported with the permissions


async def _answers(kube: Kube, found: CheckResults) -> bool:
    try:
        version = await kube.version()
    except KubeError as error:
        found.failed("API server", str(error), by_api_server(error).remedy)
        found.unknown("other checks", "skipped: the API server did not respond")
        return False
    try:
        found.ok("API server", f"{version}, user {await kube.username()}")
    except KubeError as error:
        found.ok("API server", f"{version}, unknown user ({error.status or error.reason})")
    return True


async def _permissions(kube: Kube, config: Config, found: CheckResults) -> None:
    wanted = (
        *PERMISSIONS,
        *(NODEPOOL_PERMISSIONS if config.node_pools else ()),
        *(GKM_PERMISSIONS if config.gkm_cleanup else ()),
        *(METRICS_PERMISSIONS if config.metrics_authentication else ()),
        *(nvsentinel_permissions(config.nvsentinel) if config.nvsentinel is not None else ()),
    )
    needed = [permission for permission in wanted if config.elect or not permission.on_lease]
    missing = 0
    for permission in needed:
        namespace = config.lease_namespace if permission.on_lease else ""
        # A permission to create cannot be restricted to a name.
        name = config.lease_name if permission.on_lease and permission.verb != "create" else ""
        try:
            allowed = await kube.can_i(permission, namespace=namespace, name=name)
        except KubeError as error:
            found.unknown("permissions", f"{permission}: {error}", by_api_server(error).remedy)
            return
        if not allowed:
            missing += 1
            found.failed("permissions", f"missing: {_in_namespace(permission, namespace)}", GRANT)
    if not missing:
        found.ok("permissions", f"all {len(needed)} that the controller needs")


async def _doctor(kube: Kube, found: CheckResults) -> None:
    """Permissions without which the controller works, but does not report why GPUs are missing."""
    try:
        missing = [one for one in DOCTOR_PERMISSIONS if not await kube.can_i(one)]
    except KubeError:
        return  # reported with the other permissions
    if missing:
        text = f"missing: {', '.join(map(str, missing))}; conditions do not report why GPUs are missing"
        found.unknown("doctor", text, "doctor.enabled=true in the chart grants them.")
    else:
        found.ok("doctor", "the cause of missing GPUs can be read")


async def _readiness_rules(kube: Kube, config: Config, found: CheckResults) -> None:
    """Resources that rules name: a rule whose resource cannot be watched holds its taint until its timeout."""
    try:
        classes = (await kube.list(NODECLASSES, digest=whole)).items if config.node_pools else ()
    except KubeError:
        return  # reported with the CRDs and the other permissions
    rules = (*config.policy.readiness_rules, *(rule for one in classes for rule in one.spec.readiness))
    needed = {watched for rule in rules if (watched := watched_by(rule.until)) is not None}
    problems = {problem for one in needed if isinstance(problem := await discover(kube, one), str)}
    for problem in sorted(problems):
        found.failed("readiness rules", problem, WATCH)
    if needed and not problems:
        found.ok("readiness rules", f"all {len(needed)} resources that they name can be watched")


def _in_namespace(permission: Permission, namespace: str) -> str:
    return f"{permission} in namespace {namespace}" if namespace else str(permission)


async def _node_pools(kube: Kube, found: CheckResults) -> None:
    try:
        pools = [pool for pool in (await kube.list(NODEPOOLS, digest=whole)).items if is_ours(pool)]
    except KubeError as error:
        if not error.not_found:
            found.unknown("NodePools", str(error), by_api_server(error).remedy)
        return
    failed = 0
    for pool in pools:
        if (why := why_unusable(pool)) and not pool.metadata.deleting:
            failed += 1
            remedy = f"kubectl describe nodepool {pool.name} shows its conditions."
            found.failed("NodePools", f"{pool.name}: {why}", remedy)
    if not failed:
        found.ok("NodePools", f"{counted(len(pools), 'NodePool')}, all Ready" if pools else "none of this controller")


async def _claims(kube: Kube, cloud: Cloud, found: CheckResults) -> tuple[NodeClaim, ...] | None:
    try:
        claims = tuple(claim for claim in (await kube.list(NODECLAIMS, digest=whole)).items if managed(claim))
    except KubeError as error:
        found.unknown("claims", str(error), by_api_server(error).remedy)
        return None
    failed = 0
    for claim in claims:
        launched = claim.condition(LAUNCHED, "False")
        if launched is None or claim.deleting:
            continue
        failed += 1
        tried = dict.fromkeys(str(offering) for offering in cloud.allowed_offerings(claim, ""))
        failure = reported(claim).failure
        none_left = failure is not None and failure.exhausted
        cause = f"none of {', '.join(tried)} is available" if none_left else "not launched"
        since = moment(launched.last_transition_time)
        remedy = f"kubectl describe nodeclaim {claim.name} shows the time of the next attempt."
        found.failed("claims", f"{claim.name}: {cause} since {since}: {launched.reason}: {launched.message}", remedy)
    if not failed:
        found.ok("claims", f"{counted(len(claims), 'NodeClaim')}, none without available capacity")
    return claims
