"""`check`, the cluster's side: is the API server there, is the CRD ours, what may we do, who leads, what do claims say.

Reads and questions only. A permission is asked for as the program needs it, by the list that the chart grants. What
does not answer is told once, and what depends on it is not asked.
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
from provisioner.runtime.permissions import PERMISSIONS, Permission
from provisioner.runtime.resources import CRDS, LEASES, NODECLAIMS, Resource

from .check_results import CheckResults
from .refusal import by_api_server
from .tables import counted, moment

# Far beyond any lease, so that two clocks that differ by a minute call nobody dead.
SILENT_SECONDS = 600.0
SHOWN_DIFFERENCES = 3
INSTALL = "Install our definition: helm upgrade --install gpu-provisioner-crd charts/gpu-provisioner-crd"
GRANT = "Grant it: helm upgrade with our chart does; kubectl auth can-i --list shows what is granted."


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
    """A CustomResourceDefinition with what is in it."""

    api_version: str = CRDS.api_version
    kind: str = CRDS.kind
    metadata: ObjectMeta = ObjectMeta()
    spec: DefinitionSpec = DefinitionSpec()
    status: DefinitionStatus = DefinitionStatus()


DEFINITIONS = Resource(CRDS.group, CRDS.version, CRDS.plural, CRDS.kind, namespaced=False, type=Definition)
OURS = nodeclaim_crd()


async def kubernetes(kube: Kube, config: Config, clock: Clock) -> tuple[CheckResults, tuple[NodeClaim, ...] | None]:
    """The section, and the cluster's claims; None if they could not be read."""
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
        found.bad("API server", str(error), by_api_server(error).remedy)
        found.unknown("the rest", "not asked, as the API server did not answer")
        return False
    try:
        found.ok("API server", f"{version}, takes us for {await kube.username()}")
    except KubeError as error:
        found.ok("API server", f"{version}, does not say who we are ({error.status or error.reason})")
    return True


async def _definition(kube: Kube, found: CheckResults) -> None:
    check, name = "CRD", OURS["metadata"]["name"]
    try:
        # Not a GET: the controller may list definitions, and nothing else.
        listed = (await kube.list(DEFINITIONS, field_selector=f"metadata.name={name}")).items
    except KubeError as error:
        found.unknown(check, f"{name}: {error}", by_api_server(error).remedy)
        return
    if not listed:
        found.bad(check, f"{name} is not installed", INSTALL)
        return
    crd = listed[0]
    version = next((one for one in crd.spec.versions if one.name == NODECLAIMS.version and one.served), None)
    established = any(c.get("type") == "Established" and c.get("status") == "True" for c in crd.status.conditions)
    if crd.metadata.deleting:
        remedy = "Find out who did that; install it anew once it is gone."
        found.bad(check, f"{name} is being deleted, and every NodeClaim with it", remedy)
    elif version is None:
        served = ", ".join(one.name for one in crd.spec.versions if one.served) or "none"
        found.bad(check, f"{name} serves {served}, not {NODECLAIMS.version}", INSTALL)
    elif not established:
        found.bad(check, f"{name} is not established", f"kubectl describe crd {name} says why.")
    else:
        _compare(version, name, found)


def _compare(version: Served, name: str, found: CheckResults) -> None:
    ours = OURS["spec"]["versions"][0]
    theirs = version.schema.get("openAPIV3Schema", {})
    wanted = ours["schema"]["openAPIV3Schema"]
    missing = [path for path in _fields(wanted) if path not in set(_fields(theirs))]
    if "status" not in version.subresources:
        found.bad("CRD", f"{name} {version.name} has no status subresource, so nothing can be said on claims", INSTALL)
    elif missing:
        told = ", ".join(missing[:SHOWN_DIFFERENCES])
        found.bad("CRD", f"{name} {version.name} lacks fields of ours, which are dropped: {told}", INSTALL)
    else:
        drift = [path or "." for path in _differences(wanted, theirs)]
        more = f" and {len(drift) - SHOWN_DIFFERENCES} more" if len(drift) > SHOWN_DIFFERENCES else ""
        told = f"differs from ours in {', '.join(drift[:SHOWN_DIFFERENCES])}{more}" if drift else "is the same as ours"
        found.ok("CRD", f"{name} {version.name} is established; its schema {told}")


def _fields(schema: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """The path of every field that a schema knows."""
    for name, below in (schema.get("properties") or {}).items():
        where = f"{path}.{name}".lstrip(".")
        yield where
        yield from _fields(below, where)
    if isinstance(schema.get("items"), Mapping):
        yield from _fields(schema["items"], f"{path}[]")


def _differences(ours: Any, theirs: Any, path: str = "") -> Iterator[str]:
    """Where two schemas differ, their descriptions aside."""
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
    asked = [permission for permission in PERMISSIONS if config.elect or not permission.on_lease]
    missing = 0
    for permission in asked:
        namespace = config.lease_namespace if permission.on_lease else ""
        # A create cannot be limited to a name.
        name = config.lease_name if permission.on_lease and permission.verb != "create" else ""
        try:
            allowed = await kube.can_i(permission, namespace=namespace, name=name)
        except KubeError as error:
            found.unknown("permissions", f"{permission}: {error}", by_api_server(error).remedy)
            return
        if not allowed:
            missing += 1
            found.bad("permissions", f"we may not {_told(permission, namespace)}", GRANT)
    if not missing:
        found.ok("permissions", f"all {len(asked)} that the controller needs")


def _told(permission: Permission, namespace: str) -> str:
    return f"{permission} in namespace {namespace}" if namespace else str(permission)


async def _lease(kube: Kube, config: Config, clock: Clock, found: CheckResults) -> None:
    where = f"{config.lease_namespace}/{config.lease_name}"
    start = "Start the controller, or name its lease: --leader-election-namespace, --leader-election-name."
    if not config.elect:
        found.unknown("lease", "leader election is off (DISABLE_LEADER_ELECTION)")
        return
    try:
        spec = (await kube.get(LEASES, config.lease_name, namespace=config.lease_namespace)).spec
    except KubeError as error:
        if error.not_found:
            found.unknown("lease", f"there is no Lease {where}: no controller has led here yet", start)
        else:
            found.unknown("lease", f"{where}: {error}", by_api_server(error).remedy)
        return
    renewed, since = _time(spec.renew_time), _time(spec.acquire_time)
    if not spec.holder_identity:
        found.bad("lease", f"nobody holds the Lease {where}, so no controller leads", start)
    elif renewed is not None and (clock.now() - renewed).total_seconds() > SILENT_SECONDS:
        message = f"{spec.holder_identity} held the Lease {where} and renewed it last at {moment(renewed)}"
        found.bad("lease", message, start)
    else:
        found.ok("lease", f"{spec.holder_identity} leads since {moment(since) or 'a time that is not known'} ({where})")


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
    resting = 0
    for claim in claims:
        told = claim.condition(LAUNCHED, "False")
        if told is None or claim.deleting:
            continue
        resting += 1
        tried = dict.fromkeys(str(offering) for offering in allowed_offerings(claim))
        rest = f"none of {', '.join(tried)} can be had now" if EXHAUSTED in told.message else "it is not launched"
        since = moment(told.last_transition_time)
        remedy = f"kubectl describe nodeclaim {claim.name} says when it is tried again."
        found.bad("claims", f"{claim.name}: {rest}, since {since}: {told.reason}: {told.message}", remedy)
    if not resting:
        found.ok("claims", f"{counted(len(claims), 'NodeClaim')} of ours; none says that its machine cannot be had")
    return claims
