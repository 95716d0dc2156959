"""`check`, section Kubernetes: API server, CRD, permissions, Lease and NodeClaims.

The section only reads. Permissions are those that the chart grants. If the API server does not respond, the other
checks are skipped.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from cloudprovider.azure.offerings import allowed_offerings
from controllers.model.ownership import managed
from provisioner.api.conditions import EXHAUSTED, LAUNCHED
from provisioner.api.crd import nodeclaim_crd
from provisioner.api.meta import ObjectMeta, Struct
from provisioner.api.nodeclaim import NodeClaim
from provisioner.operator.config import Config
from provisioner.runtime.clock import Clock
from provisioner.runtime.kube import Kube
from provisioner.runtime.kube_errors import KubeError
from provisioner.runtime.permissions import NODEPOOL_PERMISSIONS, PERMISSIONS, Permission
from provisioner.runtime.resources import CRDS, LEASES, NODECLAIMS, Resource

from .check_results import CheckResults
from .refusal import by_api_server
from .tables import counted, moment

# Far longer than a Lease, so that a clock skew of a minute has no effect.
EXPIRED_SECONDS = 600.0
SHOWN_DIFFERENCES = 3
INSTALL = "Install the CRD of the chart: helm upgrade --install gpu-provisioner-crd charts/gpu-provisioner-crd"
GRANT = "Grant it with helm upgrade of the chart; kubectl auth can-i --list shows the granted permissions."


class Served(Struct, frozen=True, kw_only=True):
    name: str = ""
    served: bool = False
    storage: bool = False
    subresources: Mapping[str, Any] = {}
    schema: Mapping[str, Any] = {}


class DefinitionSpec(Struct, frozen=True, kw_only=True):
    versions: tuple[Served, ...] = ()


class DefinitionStatus(Struct, frozen=True, kw_only=True):
    conditions: tuple[Mapping[str, Any], ...] = ()


class Definition(Struct, frozen=True, kw_only=True):
    """A CustomResourceDefinition with its versions and conditions."""

    api_version: str = CRDS.api_version
    kind: str = CRDS.kind
    metadata: ObjectMeta = ObjectMeta()
    spec: DefinitionSpec = DefinitionSpec()
    status: DefinitionStatus = DefinitionStatus()


DEFINITIONS = Resource(CRDS.group, CRDS.version, CRDS.plural, CRDS.kind, namespaced=False, type=Definition)
OURS = nodeclaim_crd()


async def kubernetes(kube: Kube, config: Config, clock: Clock) -> tuple[CheckResults, tuple[NodeClaim, ...] | None]:
    """The results, and the NodeClaims of the cluster; None if they could not be read."""
    found = CheckResults("kubernetes")
    if not await _answers(kube, found):
        return found, None
    await _definition(kube, found)
    await _permissions(kube, config, found)
    await _lease(kube, config, clock, found)
    return found, await _claims(kube, found)


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


async def _definition(kube: Kube, found: CheckResults) -> None:
    check, name = "CRD", OURS["metadata"]["name"]
    try:
        # A LIST, because the controller has no permission to get CRDs.
        listed = (await kube.list(DEFINITIONS, field_selector=f"metadata.name={name}")).items
    except KubeError as error:
        found.unknown(check, f"{name}: {error}", by_api_server(error).remedy)
        return
    if not listed:
        found.failed(check, f"{name} is not installed", INSTALL)
        return
    crd = listed[0]
    version = next((one for one in crd.spec.versions if one.name == NODECLAIMS.version and one.served), None)
    established = any(c.get("type") == "Established" and c.get("status") == "True" for c in crd.status.conditions)
    if crd.metadata.deleting:
        remedy = "Find the cause; install it again after the deletion."
        found.failed(check, f"{name} is being deleted, with all NodeClaims", remedy)
    elif version is None:
        served = ", ".join(one.name for one in crd.spec.versions if one.served) or "none"
        found.failed(check, f"{name} serves {served}, not {NODECLAIMS.version}", INSTALL)
    elif not established:
        found.failed(check, f"{name} is not established", f"kubectl describe crd {name} shows the cause.")
    else:
        _compare(version, name, found)


def _compare(version: Served, name: str, found: CheckResults) -> None:
    ours = OURS["spec"]["versions"][0]
    theirs = version.schema.get("openAPIV3Schema", {})
    wanted = ours["schema"]["openAPIV3Schema"]
    missing = [path for path in _fields(wanted) if path not in set(_fields(theirs))]
    if "status" not in version.subresources:
        found.failed(
            "CRD", f"{name} {version.name} has no status subresource, so conditions cannot be written", INSTALL
        )
    elif missing:
        listed = ", ".join(missing[:SHOWN_DIFFERENCES])
        found.failed("CRD", f"{name} {version.name} lacks fields, which are dropped: {listed}", INSTALL)
    else:
        drift = [path or "." for path in _differences(wanted, theirs)]
        more = f" and {len(drift) - SHOWN_DIFFERENCES} more" if len(drift) > SHOWN_DIFFERENCES else ""
        listed = f"differs from that of the chart in {', '.join(drift[:SHOWN_DIFFERENCES])}{more}"
        found.ok(
            "CRD", f"{name} {version.name} is established; its schema {listed if drift else 'is that of the chart'}"
        )


def _fields(schema: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """The path of every field of a schema."""
    for name, below in (schema.get("properties") or {}).items():
        where = f"{path}.{name}".lstrip(".")
        yield where
        yield from _fields(below, where)
    if isinstance(schema.get("items"), Mapping):
        yield from _fields(schema["items"], f"{path}[]")


def _differences(ours: Any, theirs: Any, path: str = "") -> Iterator[str]:
    """The paths where two schemas differ, except for descriptions."""
    if not isinstance(ours, Mapping) or not isinstance(theirs, Mapping):
        if ours != theirs:
            yield path
        return
    words = sorted((ours.keys() | theirs.keys()) - {"description"})
    for word in words:
        below = path if word in ("properties", "items") else f"{path}.{word}".lstrip(".")
        if word not in ours or word not in theirs:
            yield below
        else:
            yield from _differences(ours[word], theirs[word], below)


async def _permissions(kube: Kube, config: Config, found: CheckResults) -> None:
    wanted = (*PERMISSIONS, *(NODEPOOL_PERMISSIONS if config.node_pools else ()))
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


def _in_namespace(permission: Permission, namespace: str) -> str:
    return f"{permission} in namespace {namespace}" if namespace else str(permission)


async def _lease(kube: Kube, config: Config, clock: Clock, found: CheckResults) -> None:
    where = f"{config.lease_namespace}/{config.lease_name}"
    start = "Start the controller, or name its Lease: --leader-election-namespace, --leader-election-name."
    if not config.elect:
        found.unknown("lease", "leader election is disabled (DISABLE_LEADER_ELECTION)")
        return
    try:
        spec = (await kube.get(LEASES, config.lease_name, namespace=config.lease_namespace)).spec
    except KubeError as error:
        if error.not_found:
            found.unknown("lease", f"Lease {where} not found: no controller has been leader yet", start)
        else:
            found.unknown("lease", f"{where}: {error}", by_api_server(error).remedy)
        return
    renewed, since = _time(spec.renew_time), _time(spec.acquire_time)
    if not spec.holder_identity:
        found.failed("lease", f"Lease {where} has no holder: no controller is leader", start)
    elif renewed is not None and (clock.now() - renewed).total_seconds() > EXPIRED_SECONDS:
        message = f"Lease {where} was last renewed at {moment(renewed)} by {spec.holder_identity}"
        found.failed("lease", message, start)
    else:
        found.ok("lease", f"{spec.holder_identity} is leader since {moment(since) or 'an unknown time'} ({where})")


def _time(text: str | None) -> datetime | None:
    try:
        return datetime.fromisoformat(text or "")
    except ValueError:
        return None


async def _claims(kube: Kube, found: CheckResults) -> tuple[NodeClaim, ...] | None:
    try:
        claims = tuple(claim for claim in (await kube.list(NODECLAIMS)).items if managed(claim))
    except KubeError as error:
        found.unknown("claims", str(error), by_api_server(error).remedy)
        return None
    failed = 0
    for claim in claims:
        launched = claim.condition(LAUNCHED, "False")
        if launched is None or claim.deleting:
            continue
        failed += 1
        tried = dict.fromkeys(str(offering) for offering in allowed_offerings(claim))
        cause = f"none of {', '.join(tried)} is available" if EXHAUSTED in launched.message else "not launched"
        since = moment(launched.last_transition_time)
        remedy = f"kubectl describe nodeclaim {claim.name} shows the time of the next attempt."
        found.failed("claims", f"{claim.name}: {cause} since {since}: {launched.reason}: {launched.message}", remedy)
    if not failed:
        found.ok("claims", f"{counted(len(claims), 'NodeClaim')}, none without available capacity")
    return claims
