"""The agent pool, the offerings and the Node of a NodeClaim, and all errors of its manifest.

The module has no rules of its own: the agent pool is the one that `cloudprovider.azure` sends, and the errors are those
of `cloudprovider.azure` and of the CRD. Values that only the cluster knows (the UID, times) are placeholders.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from cloudprovider.azure import agentpool, class_properties, offerings
from cloudprovider.azure.client import API_VERSION
from cloudprovider.azure.instance_types import gpus_of, is_gpu_size, lookup
from cloudprovider.azure.size_names import nearest_size
from cloudprovider.interface import SPOT, Offering
from controllers.model.gpu_devices import expected_devices
from controllers.model.ownership import managed
from provisioner.api import labels
from provisioner.api.field_error import FieldError
from provisioner.api.meta import ZERO_TIME, Taint
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodeclass import AgentPoolNodeClass, NodeClassSpec, is_own
from provisioner.api.quantity import parse_quantity
from provisioner.api.requirements import normalise_key
from provisioner.api.restricted_labels import is_excluded

from .manifests import converted
from .validation import claim_errors, unreported

PUT_TIME, UID, CREATED = "<time of the PUT>", "<UID of the claim>", "<creation time of the claim>"
MADE = "<5 characters>"
DERIVED = "<c and 11 characters, from the UID of the claim>"
NONE: Mapping[str, AgentPoolNodeClass] = MappingProxyType({})
SPOT_TAINT = Taint(key=labels.AKS_SPOT, value="spot", effect="NoSchedule")
# Labels that select the machine, and labels of KAITO and Karpenter without an effect on it.
KNOWN_REQUIREMENTS = frozenset(
    {
        *(labels.INSTANCE_TYPE, labels.ZONE, labels.CAPACITY_TYPE, labels.OS, labels.ARCH, labels.NODEPOOL),
        offerings.SKU_NAME,
    }
)


class Gpus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`memory_gb`: the total of all GPUs, 0 if unknown; `awaited`: whether Initialized waits for them."""

    resource: str
    count: int
    model: str
    memory_gb: int
    awaited: bool


class ExpectedNode(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The Node, as far as the NodeClaim determines it. `os_disk_gib`: 0 for the default of AKS."""

    labels: Mapping[str, str]
    taints: tuple[str, ...]
    startup_taints: tuple[str, ...]
    gpus: Gpus | None
    os_disk_gib: int
    image_family: str


class Plan(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The result for one document; `kind` is "" unless it is an object that this command plans.

    `managed`: whether this controller serves it. `lines`: of the fields with errors, from 1. `region` and `sizes`: of a
    NodePool, the sizes that it may buy there. What follows is of a NodeClaim.
    """

    source: str
    kind: str = ""
    name: str = ""
    managed: bool = False
    errors: tuple[FieldError, ...] = ()
    lines: Mapping[str, int] = MappingProxyType({})
    region: str = ""
    sizes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    pool_name: str = ""
    offerings: tuple[Offering, ...] = ()
    agent_pool: Mapping[str, Any] | None = None
    node: ExpectedNode | None = None


def request_of(one: Plan) -> str:
    """The address and the condition of the request that creates the agent pool."""
    return f".../agentPools/{one.pool_name}?api-version={API_VERSION}   If-None-Match: *"


def plan(source: str, body: Mapping[str, Any], node_classes: Mapping[str, AgentPoolNodeClass] = NONE) -> Plan:
    """Plan a NodeClaim. `node_classes`: those of all documents, by name."""
    wrong = claim_errors(body)
    if body.get("apiVersion") != NodeClaim().api_version:
        wrong.insert(0, other_version(body.get("apiVersion"), NodeClaim().api_version))
    body = as_created(body)
    named = name_of(body)
    if not named:
        remedy = "add it; a name of at most 12 characters a-z and 0-9 is also the name of the agent pool"
        wrong.append(FieldError("metadata.name", "FieldValueRequired", "Required value", remedy=remedy))
    try:
        claim = converted(body, NodeClaim)
    except msgspec.ValidationError as error:
        if not wrong:
            remedy = "correct it, see: kubectl explain nodeclaim"
            wrong.append(FieldError("", "FieldValueTypeInvalid", str(error), remedy=remedy))
        return Plan(source=source, kind="NodeClaim", name=named, managed=True, errors=tuple(wrong))
    if not managed(claim):
        return Plan(source=source, kind="NodeClaim", name=named, errors=tuple(wrong), notes=(_foreign(claim),))
    return _planned(source, claim, wrong, node_classes)


def other_version(written: object, served: str) -> FieldError:
    """The error of an `apiVersion` that the API server does not serve for this kind."""
    shown = str(written or "")
    message = f"{shown[:40]}: it is not the served version" if shown else "Required value"
    return FieldError("apiVersion", "FieldValueNotSupported", message, shown, f"write {served}")


def as_created(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """The object with a name such as the API server generates if it has only a prefix of one."""
    metadata = body.get("metadata")
    given = metadata if isinstance(metadata, dict) else {}
    if given.get("name") or not given.get("generateName"):
        return body
    return {**body, "metadata": {**given, "name": f"{given['generateName']}{MADE}"}}


def name_of(body: Mapping[str, Any]) -> str:
    """Its name; "" without one."""
    metadata = body.get("metadata")
    return str(metadata.get("name") or "") if isinstance(metadata, dict) else ""


def _planned(
    source: str, claim: NodeClaim, wrong: list[FieldError], node_classes: Mapping[str, AgentPoolNodeClass]
) -> Plan:
    reference = claim.spec.node_class_ref
    node_class = node_classes.get(reference.name) if is_own(reference) else None
    settings = (node_class or AgentPoolNodeClass()).spec
    refused = [*wrong]
    wrong += unreported(offerings.validate(claim), refused)
    tried = () if any(offerings.validate(claim)) else offerings.offerings(claim)
    sizes = tuple(dict.fromkeys(offering.size for offering in tried)) or ("",)
    wrong += unreported(
        dict.fromkeys(one for size in sizes for one in agentpool.validate(claim, size, settings)), refused
    )
    wrong += dict.fromkeys(one for offering in tried for one in class_properties.validate(offering, settings))
    body, node = None, None
    if tried and not _refused(claim, tried[0], settings):
        pool = agentpool.to_agent_pool(claim, tried[0], now=ZERO_TIME, node_class=node_class)
        body = _with_placeholders(pool, claim)
        node = _node(claim, tried[0], body["properties"], settings)
    return Plan(
        source=source,
        kind="NodeClaim",
        name=claim.name,
        managed=True,
        errors=tuple(wrong),
        notes=(*_class_notes(claim, node_class), *_notes(claim, tried)),
        pool_name=_pool_name(claim),
        offerings=tried,
        agent_pool=body,
        node=node,
    )


def _refused(claim: NodeClaim, offering: Offering, settings: NodeClassSpec) -> bool:
    """Whether no agent pool of this offering can be written."""
    errors = (*agentpool.validate(claim, offering.size, settings), *class_properties.validate(offering, settings))
    return bool(errors)


def _class_notes(claim: NodeClaim, node_class: AgentPoolNodeClass | None) -> Iterator[str]:
    reference = claim.spec.node_class_ref
    if is_own(reference) and node_class is None:
        yield (
            f"spec.nodeClassRef: {labels.NODECLASS_KIND} {reference.name} is not in these files: its defaults are used;"
            " add its manifest with -f"
        )


def _foreign(claim: NodeClaim) -> str:
    ref = claim.spec.node_class_ref
    return (
        f"ignored: its spec.nodeClassRef is {ref.group}/{ref.kind}, neither {labels.KAITO_NODECLASS_GROUP}/"
        f"{labels.KAITO_NODECLASS_KIND} nor {labels.OWN_DOMAIN}/{labels.NODECLASS_KIND}, and it has neither label"
        f" {labels.KAITO_WORKSPACE} nor {labels.KAITO_RAGENGINE}"
    )


def _pool_name(claim: NodeClaim) -> str:
    derived = agentpool.POOL_NAME.fullmatch(claim.name.replace(MADE, "xxxxx")) is None
    if not derived:
        return claim.name
    return agentpool.pool_name(claim) if claim.uid else DERIVED


def _with_placeholders(body: dict[str, Any], claim: NodeClaim) -> dict[str, Any]:
    """The body with placeholders for values that are unknown before the NodeClaim is created."""
    tags, known = body["properties"]["tags"], body["properties"]["nodeLabels"]
    tags[labels.TAG_PUT_TIME] = PUT_TIME
    if not claim.uid:
        tags[labels.TAG_CLAIM_UID] = known[labels.CLAIM_UID] = UID
    if claim.metadata.creation_timestamp == ZERO_TIME:
        known[labels.KAITO_CREATION_TIMESTAMP] = CREATED
    return body


def _node(claim: NodeClaim, offering: Offering, properties: Mapping[str, Any], settings: NodeClassSpec) -> ExpectedNode:
    spot = (SPOT_TAINT,) if offering.capacity_type == SPOT else ()
    sku = lookup(offering.size)
    devices = expected_devices(gpus_of(offering.size), settings.gpu)
    awaited = claim.metadata.annotations.get(labels.GPU_READINESS) != "report"
    return ExpectedNode(
        labels=dict(sorted(_node_labels(claim, offering, properties["nodeLabels"]).items())),
        taints=tuple(str(taint) for taint in (*claim.spec.taints, *spot)),
        startup_taints=tuple(str(taint) for taint in claim.spec.startup_taints),
        gpus=None
        if sku is None
        else Gpus(
            resource=devices.resource,
            count=devices.count,
            model=sku.model,
            memory_gb=sku.memory_gb,
            awaited=awaited,
        ),
        os_disk_gib=properties["osDiskSizeGB"],
        image_family=properties["osSKU"],
    )


def _node_labels(claim: NodeClaim, offering: Offering, sent: Mapping[str, str]) -> dict[str, str]:
    by_aks = {
        labels.AGENTPOOL: _pool_name(claim),
        labels.AKS_AGENTPOOL: _pool_name(claim),
        labels.INSTANCE_TYPE: offering.size,
        labels.OS: "linux",
        **({labels.AKS_SPOT: "spot"} if offering.capacity_type == SPOT else {}),
        **({labels.ZONE: f"<location>-{offering.zone}"} if offering.zone else {}),
    }
    return {**sent, **by_aks, labels.REGISTERED: "true", labels.INITIALIZED: "true"}


def _notes(claim: NodeClaim, tried: tuple[Offering, ...]) -> Iterator[str]:
    """Notes on valid but unexpected values."""
    if not claim.uid:
        yield "the UID and the creation time of the NodeClaim and the time of the PUT are unknown before its creation"
    if _pool_name(claim) == DERIVED:
        yield (
            f"{claim.name!r} is not a valid name of an agent pool (a letter, then at most 11 characters a-z and 0-9):"
            " the name is derived from the UID of the NodeClaim"
        )
    for size in dict.fromkeys(offering.size for offering in tried):
        yield from _size_notes(claim, size)
    family = claim.metadata.annotations.get(labels.KAITO_IMAGE_FAMILY, "ubuntu")
    if family.lower() not in agentpool.OS_SKUS:
        known = " or ".join(agentpool.OS_SKUS)
        where = f"metadata.annotations[{labels.KAITO_IMAGE_FAMILY}]"
        yield f"{where}: {family[:40]!r} is not one of {known}; the Node runs Ubuntu"
    for key in claim.metadata.labels:
        if is_excluded(key):
            yield f"metadata.labels[{key}]: not copied to the Node: privileged, or set by Azure or this controller"
    for key in dict.fromkeys(normalise_key(one.key) for one in claim.spec.requirements):
        if key == labels.REGION:
            yield f"spec.requirements[{key}]: the controller rejects it unless it allows the location of the cluster"
        elif key not in KNOWN_REQUIREMENTS:
            yield f"spec.requirements[{key}]: no effect: the Node need not meet it"
    if claim.spec.startup_taints:
        yield "startup taints are not part of the agent pool: they are added to the Node at registration"


def _size_notes(claim: NodeClaim, size: str) -> Iterator[str]:
    sku = lookup(size)
    if sku is None and is_gpu_size(size):
        meant = nearest_size(size)
        yield (
            f"{size}: unknown number of GPUs: Initialized waits only for those in spec.resources.requests;"
            " request nvidia.com/gpu there" + (f". Did you mean {meant}?" if meant else "")
        )
    for resource, written in claim.spec.resources.requests.items():
        if sku is None or resource != sku.resource:
            continue
        try:
            wanted = parse_quantity(written)
        except ValueError:
            continue
        if wanted > sku.gpus:
            yield f"spec.resources.requests[{resource}]: {written} requested, {size} has {sku.gpus}"
