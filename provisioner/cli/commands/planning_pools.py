"""The errors of NodePools, AgentPoolNodeClasses and NodeOverlays, and the sizes that a NodePool may buy.

The module has no rules of its own: the errors are those of the CRDs and of the controllers, and the sizes those that
the solver considers.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from cloudprovider.cloud import Cloud
from controllers.nodeclass.validation import errors as class_errors
from controllers.nodepool import nodepool, validation
from controllers.provisioning.instances import InstanceTypeCache
from controllers.provisioning.nodepools import node_pool, with_capacity_type
from controllers.provisioning.overlays import overlaid
from controllers.provisioning.solver.candidates import offers
from provisioner.api import labels
from provisioner.api.field_error import FieldError
from provisioner.api.nodeclass import AgentPoolNodeClass
from provisioner.api.nodeoverlay import NodeOverlay
from provisioner.api.nodepool import NodePool

from .manifests import converted
from .planning import Plan
from .validation import node_class_errors, node_overlay_errors, node_pool_errors

REQUIREMENTS = f"{validation.TEMPLATE}.spec.requirements"


class Places(msgspec.Struct, frozen=True, kw_only=True):
    """`region`: whose sizes a NodePool is compared with, "" for that of its zones, or else the cloud's default."""

    cloud: Cloud
    region: str = ""

    def region_of(self, pool: NodePool) -> str:
        """The region of the NodePool; "" if nothing determines it."""
        required = (one for one in pool.spec.template.spec.requirements if one.key == labels.ZONE)
        found = {*filter(None, (self.cloud.region_of(zone) for one in required for zone in one.values))}
        return self.region or (found.pop() if len(found) == 1 else "")


def plan_node_class(source: str, body: Mapping[str, Any]) -> Plan:
    """The errors of an AgentPoolNodeClass."""
    wrong = _with_name(body, node_class_errors(body))
    read = None if wrong else converted(body, AgentPoolNodeClass)
    wrong += class_errors(read.spec) if read is not None else ()
    return Plan(source=source, kind=labels.NODECLASS_KIND, name=_name(body), managed=True, errors=tuple(wrong))


def plan_node_overlay(source: str, body: Mapping[str, Any]) -> Plan:
    """The errors of a NodeOverlay by itself; whether it conflicts with another one depends on the NodePools."""
    wrong = _with_name(body, node_overlay_errors(body))
    if not wrong:
        overlay = converted(body, NodeOverlay)
        unused = overlaid([overlay], (), ()).unused.get(overlay.name)
        if unused is not None:
            remedy = "correct the field, see: kubectl explain nodeoverlay.spec"
            wrong.append(FieldError("spec", "FieldValueInvalid", unused.message, remedy=remedy))
    return Plan(source=source, kind="NodeOverlay", name=_name(body), managed=True, errors=tuple(wrong))


def plan_node_pool(source: str, body: Mapping[str, Any], node_classes: Iterable[str], places: Places) -> Plan:
    """The errors of a NodePool, and its sizes if it has none. `node_classes`: the names of those of all documents."""
    wrong = _with_name(body, node_pool_errors(body))
    named = Plan(source=source, kind="NodePool", name=_name(body), managed=True, errors=tuple(wrong))
    try:
        pool = converted(body, NodePool)
    except msgspec.ValidationError:
        return named
    if pool.spec.template.spec.node_class_ref.kind and not nodepool.is_ours(pool):
        note = "ignored: another controller serves its spec.template.spec.nodeClassRef"
        return msgspec.structs.replace(named, managed=False, notes=(note,))
    reported = {error.field for error in wrong}
    wrong += (error for error in nodepool.errors(pool, places.cloud) if error.field not in reported)
    planned = msgspec.structs.replace(named, errors=tuple(wrong), notes=tuple(_notes(pool, node_classes)))
    return planned if wrong else _with_sizes(planned, pool, places)


def _with_sizes(planned: Plan, pool: NodePool, places: Places) -> Plan:
    """With the sizes of the region; an error if it has none of them, a note if the region is only assumed."""
    region = places.region_of(pool) or places.cloud.default_region
    found = InstanceTypeCache(places.cloud).in_region(region)
    wanted = node_pool(with_capacity_type(pool), (), places.cloud)
    sizes = tuple(kind.name for kind in found.types if offers(wanted, (kind,), found.well_known))
    planned = msgspec.structs.replace(planned, region=region, sizes=sizes)
    if sizes:
        return planned
    message = f"no GPU or CPU size of {region} satisfies all requirements"
    if not places.region_of(pool):
        note = f"{REQUIREMENTS}: {message}; name the region of the cluster with --region"
        return msgspec.structs.replace(planned, notes=(*planned.notes, note))
    remedy = f"change the requirements, or the region; az vm list-skus --location {region} prints its sizes"
    return msgspec.structs.replace(
        planned, errors=(FieldError(REQUIREMENTS, "FieldValueInvalid", message, remedy=remedy),)
    )


def _notes(pool: NodePool, node_classes: Iterable[str]) -> Iterator[str]:
    name = pool.spec.template.spec.node_class_ref.name
    if name not in node_classes:
        yield f"spec.template.spec.nodeClassRef: {labels.NODECLASS_KIND} {name} is not in these files"
    yield from nodepool.notes(pool)


def _name(body: Mapping[str, Any]) -> str:
    metadata = body.get("metadata")
    return str(metadata.get("name") or "") if isinstance(metadata, dict) else ""


def _with_name(body: Mapping[str, Any], wrong: list[FieldError]) -> list[FieldError]:
    if _name(body):
        return wrong
    missing = FieldError("metadata.name", "FieldValueRequired", "Required value", remedy="add it")
    return [*wrong, missing]
