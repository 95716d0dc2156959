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
from controllers.provisioning.overlays import overlaid
from provisioner.api import labels
from provisioner.api.field_error import FieldError
from provisioner.api.nodeclass import AgentPoolNodeClass
from provisioner.api.nodeoverlay import NodeOverlay
from provisioner.api.nodepool import NodePool

from . import planning_sizes
from .manifests import converted
from .planning import Plan, as_created, name_of, other_version
from .validation import node_class_errors, node_overlay_errors, node_pool_errors, unreported


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
    wrong, body = node_class_errors(body), as_created(body)
    wrong = _with_name(body, wrong, AgentPoolNodeClass().api_version)
    read = None if wrong else converted(body, AgentPoolNodeClass)
    wrong += class_errors(read.spec) if read is not None else ()
    return Plan(source=source, kind=labels.NODECLASS_KIND, name=name_of(body), managed=True, errors=tuple(wrong))


def plan_node_overlay(source: str, body: Mapping[str, Any]) -> Plan:
    """The errors of a NodeOverlay by itself; whether it conflicts with another one depends on the NodePools."""
    wrong, body = node_overlay_errors(body), as_created(body)
    wrong = _with_name(body, wrong, NodeOverlay().api_version)
    if not wrong:
        overlay = converted(body, NodeOverlay)
        unused = overlaid([overlay], (), ()).unused.get(overlay.name)
        if unused is not None:
            remedy = "correct the field, see: kubectl explain nodeoverlay.spec"
            wrong.append(FieldError("spec", "FieldValueInvalid", unused.message, remedy=remedy))
    return Plan(source=source, kind="NodeOverlay", name=name_of(body), managed=True, errors=tuple(wrong))


def plan_node_pool(source: str, body: Mapping[str, Any], node_classes: Iterable[str], places: Places) -> Plan:
    """The errors of a NodePool, and its sizes if it has none. `node_classes`: the names of those of all documents."""
    wrong, body = node_pool_errors(body), as_created(body)
    wrong = _with_name(body, wrong, NodePool().api_version)
    named = Plan(source=source, kind="NodePool", name=name_of(body), managed=True, errors=tuple(wrong))
    try:
        pool = converted(body, NodePool)
    except msgspec.ValidationError:
        return named
    reference = pool.spec.template.spec.node_class_ref
    if reference.group == labels.OWN_DOMAIN and reference.kind not in ("", labels.NODECLASS_KIND):
        return msgspec.structs.replace(named, errors=(*wrong, _unserved(reference.kind)))
    if reference.kind and not nodepool.is_ours(pool):
        note = (
            f"ignored: its {validation.TEMPLATE}.spec.nodeClassRef is {reference.group}/{reference.kind}, which another"
            f" controller serves; this one serves {labels.OWN_DOMAIN}/{labels.NODECLASS_KIND}"
        )
        return msgspec.structs.replace(named, managed=False, notes=(note,))
    wrong += unreported(nodepool.errors(pool, places.cloud), [*wrong])
    misspelt = () if wrong else planning_sizes.misspelt(pool, places.cloud)
    notes = (*_notes(pool, node_classes), *misspelt)
    planned = msgspec.structs.replace(named, errors=tuple(wrong), notes=notes)
    return planned if wrong else _with_sizes(planned, pool, places)


def _with_sizes(planned: Plan, pool: NodePool, places: Places) -> Plan:
    """With the sizes of the region; an error if it has none of them, a note if the region is only assumed."""
    region = places.region_of(pool) or places.cloud.default_region
    sizes = planning_sizes.sizes(pool, region, places.cloud)
    planned = msgspec.structs.replace(planned, region=region, sizes=sizes)
    if sizes:
        return planned
    if not places.region_of(pool):
        message = planning_sizes.none_satisfies(region)
        note = f"{planning_sizes.REQUIREMENTS}: {message}; name the region of the cluster with --region"
        return msgspec.structs.replace(planned, notes=(*planned.notes, note))
    return msgspec.structs.replace(planned, errors=planning_sizes.errors(pool, region, places.cloud))


def _notes(pool: NodePool, node_classes: Iterable[str]) -> Iterator[str]:
    name = pool.spec.template.spec.node_class_ref.name
    if name and name not in node_classes:
        yield f"spec.template.spec.nodeClassRef: {labels.NODECLASS_KIND} {name} is not in these files"
    yield from nodepool.notes(pool)


def _unserved(kind: str) -> FieldError:
    message, remedy = f"{kind}: no such kind in {labels.OWN_DOMAIN}", f"write {labels.NODECLASS_KIND}"
    return FieldError(f"{validation.TEMPLATE}.spec.nodeClassRef.kind", "FieldValueNotSupported", message, kind, remedy)


def _with_name(body: Mapping[str, Any], wrong: list[FieldError], served: str) -> list[FieldError]:
    """The errors, with those of the version and the name. `served`: the version."""
    if body.get("apiVersion") != served:
        wrong = [other_version(body.get("apiVersion"), served), *wrong]
    if name_of(body):
        return wrong
    missing = FieldError("metadata.name", "FieldValueRequired", "Required value", remedy="add it")
    return [*wrong, missing]
