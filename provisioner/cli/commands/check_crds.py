"""`check`, section Kubernetes: the CRDs of the cluster, compared with those of the chart.

The CRDs of NodePools and node classes may be missing: then there are no NodePools. So may that of NodeOverlays.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cloudprovider.checks import CheckResults
from provisioner.api.crd import nodeclaim_crd, nodeoverlay_crd, nodepool_crd
from provisioner.api.crd_nodeclass import agentpoolnodeclass_crd
from provisioner.api.meta import ObjectMeta, Struct
from provisioner.api.schema import Schema
from provisioner.runtime.kept import whole
from provisioner.runtime.kube import Kube
from provisioner.runtime.kube_errors import KubeError
from provisioner.runtime.resources import CRDS, Resource

from .refusal import by_api_server

SHOWN_DIFFERENCES = 3
INSTALL = "Install the CRD of the chart: helm upgrade --install gpu-provisioner-crd charts/gpu-provisioner-crd"


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
NODECLAIM_CRD = nodeclaim_crd()
NODEOVERLAY_CRD = nodeoverlay_crd()
OPTIONAL_CRDS = (nodepool_crd(), agentpoolnodeclass_crd(), NODEOVERLAY_CRD)


async def definitions(kube: Kube, found: CheckResults, *, node_pools: bool) -> None:
    """Check the CRD of NodeClaims, and those of NodePools if they are enabled."""
    for crd in (NODECLAIM_CRD, *(OPTIONAL_CRDS if node_pools else ())):
        name, check = crd["metadata"]["name"], f"CRD {crd['spec']['names']['kind']}"
        try:
            # A LIST, because the controller has no permission to get CRDs.
            listed = (await kube.list(DEFINITIONS, digest=whole, field_selector=f"metadata.name={name}")).items
        except KubeError as error:
            found.unknown("CRD", f"{name}: {error}", by_api_server(error).remedy)
            return
        _definition(listed, found, crd, check="CRD" if crd is NODECLAIM_CRD else check)


def _definition(listed: Sequence[Definition], found: CheckResults, ours: Schema, *, check: str) -> None:
    name, wanted, optional = ours["metadata"]["name"], ours["spec"]["versions"][0]["name"], ours in OPTIONAL_CRDS
    if not listed and optional:
        unused = "NodeOverlays" if ours is NODEOVERLAY_CRD else "NodePools"
        found.unknown(check, f"{name} is not installed: {unused} are not used", INSTALL)
        return
    if not listed:
        found.failed(check, f"{name} is not installed", INSTALL)
        return
    crd = listed[0]
    version = next((one for one in crd.spec.versions if one.name == wanted and one.served), None)
    established = any(c.get("type") == "Established" and c.get("status") == "True" for c in crd.status.conditions)
    if crd.metadata.deleting:
        remedy = "Find the cause; install it again after the deletion."
        found.failed(check, f"{name} is being deleted, with all {ours['spec']['names']['kind']} objects", remedy)
    elif version is None:
        served = ", ".join(one.name for one in crd.spec.versions if one.served) or "none"
        found.failed(check, f"{name} serves {served}, not {wanted}", INSTALL)
    elif not established:
        found.failed(check, f"{name} is not established", f"kubectl describe crd {name} shows the cause.")
    else:
        _compare(version, ours, found, check)


def _compare(version: Served, ours: Schema, found: CheckResults, check: str) -> None:
    name, theirs = ours["metadata"]["name"], version.schema.get("openAPIV3Schema", {})
    wanted = ours["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    missing = [path for path in _fields(wanted) if path not in set(_fields(theirs))]
    if "status" not in version.subresources:
        found.failed(
            check, f"{name} {version.name} has no status subresource, so conditions cannot be written", INSTALL
        )
    elif missing:
        listed = ", ".join(missing[:SHOWN_DIFFERENCES])
        found.failed(check, f"{name} {version.name} lacks fields, which are dropped: {listed}", INSTALL)
    else:
        drift = [path or "." for path in _differences(wanted, theirs)]
        more = f" and {len(drift) - SHOWN_DIFFERENCES} more" if len(drift) > SHOWN_DIFFERENCES else ""
        listed = f"differs from that of the chart in {', '.join(drift[:SHOWN_DIFFERENCES])}{more}"
        found.ok(
            check, f"{name} {version.name} is established; its schema {listed if drift else 'is that of the chart'}"
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
