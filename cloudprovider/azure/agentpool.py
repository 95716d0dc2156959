"""Mapping from a NodeClaim to an agent pool, and from an agent pool to an Instance.

Pure. A claim maps to one pool of one machine; the name of the pool is a function of the claim. Fields that a pool
cannot express are rejected, final, before a request is sent. The pool has two ownership marks: tags (name and UID of
the claim, time of the PUT) and a node label (UID).

Source: docs/references/agent-pools.md#request-body, docs/references/agent-pools.md#responses,
docs/references/kaito.md#its-agent-pools, docs/references/kaito.md#contract (K2, K3, K7, K16),
docs/references/rules.md#deterministic-names, docs/references/rules.md#ownership-marks.
"""

import functools
import hashlib
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

from cloudprovider.errors import reject
from cloudprovider.interface import NO_LABELS, Failure, Instance, InstanceState, Offering
from provisioner.api import labels, reasons
from provisioner.api.field_error import FieldError
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodeclass import AgentPoolNodeClass, NodeClassSpec
from provisioner.api.quantity import GIB, as_gib_ceil, parse_quantity
from provisioner.api.restricted_labels import is_reserved_by_aks
from provisioner.vendors import BY_NAME

from . import class_properties, pool_labels
from .errors import classify_failure
from .instance_types import InstanceType, lookup

POOL_NAME = re.compile(r"[a-z][a-z0-9]{0,11}")
DERIVED_DIGITS = 11
DISK_FLOOR_GIB, DISK_CEILING_GIB = 30, 2048
TIME_LAYOUT = "%Y-%m-%dT%H:%M:%SZ"

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)
_TAINT_PART = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_./]{0,251}[A-Za-z0-9])?")
_TAINT_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
DEFAULTS = NodeClassSpec()
OS_SKUS = {"ubuntu": "Ubuntu", "azurelinux": "AzureLinux"}
_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"

# The known provisioning states; an unknown one maps to CREATING.
STATES: Mapping[str, InstanceState] = {
    "Creating": InstanceState.CREATING,
    "Succeeded": InstanceState.RUNNING,
    "Updating": InstanceState.RUNNING,
    "Scaling": InstanceState.RUNNING,
    "Upgrading": InstanceState.RUNNING,
    "UpgradingNodeImageVersion": InstanceState.RUNNING,
    "Starting": InstanceState.RUNNING,
    "Stopping": InstanceState.RUNNING,
    "Stopped": InstanceState.RUNNING,
    "Deleting": InstanceState.DELETING,
    "Canceling": InstanceState.CREATING,
    "Canceled": InstanceState.FAILED,
    "Failed": InstanceState.FAILED,
}
# Those of all claims of the largest cluster, whose names are asked for again and again.
_NAMES_KEPT = 16_384
# The case of the states is not specified; `Instance.busy` compares the spelling above.
_CASINGS = {state.casefold(): state for state in STATES}


def pool_name(claim: NodeClaim) -> str:
    """The name of the claim if it is valid for a pool, else `c` and 11 characters of the hash of its UID."""
    if POOL_NAME.fullmatch(claim.name):
        return claim.name
    return _derived_name(claim.uid)


@functools.lru_cache(maxsize=_NAMES_KEPT)
def _derived_name(uid: str) -> str:
    number = int.from_bytes(hashlib.sha256(uid.encode()).digest()[:8])
    digits = ""
    for _ in range(DERIVED_DIGITS):
        number, digit = divmod(number, 36)
        digits += _ALPHABET[digit]
    return "c" + digits


def to_agent_pool(
    claim: NodeClaim,
    offering: Offering,
    *,
    now: datetime,
    node_class: AgentPoolNodeClass | None = None,
    tags: Mapping[str, str] = NO_LABELS,
) -> dict[str, Any]:
    """The body of the PUT, in wire names; `now` is the time of the PUT. Raises Rejected (final).

    `tags` are those of all agent pools. The node class's take precedence over them, and the controller's over both.
    """
    size, settings = offering.size, node_class.spec if node_class is not None else DEFAULTS
    reject(validate(claim, size, settings))
    reject(class_properties.validate(offering, settings))
    reject(class_properties.validate_tags(tags, settings))
    properties: dict[str, Any] = {
        "count": 1,
        "vmSize": size,
        "type": "VirtualMachineScaleSets",
        "mode": "User",
        "osType": "Linux",
        "osSKU": _os_sku(claim, settings),
        "osDiskSizeGB": max(_disk_gib(claim), settings.os_disk_size_gb or 0),
        "nodeLabels": pool_labels.pool_labels(claim, offering),
        "nodeTaints": _taints(claim),
        "tags": class_properties.merged_tags(tags, settings)
        | {
            labels.TAG_CLAIM_NAME: claim.name[:256],
            labels.TAG_CLAIM_UID: claim.uid,
            labels.TAG_PUT_TIME: now.strftime(TIME_LAYOUT),
        },
    }
    if offering.zone:
        properties["availabilityZones"] = [offering.zone]
    return {"properties": properties | class_properties.properties(offering, settings)}


def validate(claim: NodeClaim, size: str, settings: NodeClassSpec = DEFAULTS) -> Iterator[FieldError]:
    """The errors of all fields of the claim that a pool of this size cannot express, except requirements."""
    yield from _validate_image_family(claim, settings, lookup(size))
    yield from _validate_requests(claim)
    yield from pool_labels.validate(claim)
    yield from _validate_taints(claim)


def _validate_requests(claim: NodeClaim) -> Iterator[FieldError]:
    for resource, written in claim.spec.resources.requests.items():
        field, value = f"spec.resources.requests[{resource}]", str(written)
        try:
            amount = parse_quantity(written)
        except ValueError as error:
            message, _, remedy = str(error).partition(": ")
            yield FieldError(field, reasons.RESOURCE_QUANTITY_INVALID, message, value, remedy)
            continue
        if resource == "storage":
            yield from _validate_disk(value, as_gib_ceil(written), amount)
        elif "/" in resource and amount != int(amount):
            message, remedy = f"{value}: extended resources must be integers", "request a whole number of devices"
            yield FieldError(field, reasons.RESOURCE_QUANTITY_INVALID, message, value, remedy)


def _validate_disk(written: str, gib: int, amount: Decimal) -> Iterator[FieldError]:
    field = "spec.resources.requests.storage"
    if amount <= 0:
        message = f"{written}: the storage request should be more than 0"
        yield FieldError(field, reasons.DISK_SIZE_INVALID, message, written, f"request {DISK_FLOOR_GIB}Gi or more")
    elif amount >= GIB and not DISK_FLOOR_GIB <= gib <= DISK_CEILING_GIB:
        message = f"{written}: the OS disk must be {DISK_FLOOR_GIB}Gi to {DISK_CEILING_GIB}Gi"
        yield FieldError(field, reasons.DISK_SIZE_INVALID, message, written, "change the request")


def _disk_gib(claim: NodeClaim) -> int:
    """The size of the OS disk in GiB; 0 (no request, or less than 1 GiB) lets AKS choose."""
    storage = claim.spec.resources.requests.get("storage")
    return 0 if storage is None or parse_quantity(storage) < GIB else as_gib_ceil(storage)


def _validate_image_family(claim: NodeClaim, settings: NodeClassSpec, sku: InstanceType | None) -> Iterator[FieldError]:
    value = claim.metadata.annotations.get(labels.KAITO_IMAGE_FAMILY, "")
    if value and _os_sku(claim, settings) != "Ubuntu" and sku is not None and BY_NAME[sku.vendor].ubuntu_only:
        field = f"metadata.annotations[{labels.KAITO_IMAGE_FAMILY}]"
        message = f"{sku.name} supports Ubuntu only"
        yield FieldError(field, reasons.IMAGE_FAMILY_INVALID, message, value, "remove the annotation")


def _os_sku(claim: NodeClaim, settings: NodeClassSpec) -> str:
    """The OS SKU by the claim's annotation, else by its node class; an unknown annotated image family means Ubuntu."""
    annotated = claim.metadata.annotations.get(labels.KAITO_IMAGE_FAMILY, "")
    return OS_SKUS.get(annotated.lower(), "Ubuntu") if annotated else settings.image_family


def _validate_taints(claim: NodeClaim) -> Iterator[FieldError]:
    for index, taint in enumerate(claim.spec.taints):
        valid = _TAINT_PART.fullmatch(taint.key) and _TAINT_VALUE.fullmatch(taint.value) and taint.effect in _EFFECTS
        reserved = is_reserved_by_aks(taint.key) and taint.key != labels.AKS_SPOT
        if not valid or reserved:
            message = (
                f"{str(taint)[:80]!r}: {'AKS reserves this key' if reserved else 'not a valid taint of an agent pool'}"
            )
            remedy = "use another prefix" if reserved else "write key=value:Effect"
            yield FieldError(f"spec.taints[{index}]", reasons.TAINT_INVALID, message, str(taint), remedy)


def _taints(claim: NodeClaim) -> list[str]:
    """The taints as `key=value:Effect`, without the one that AKS sets on spot Nodes.

    Startup taints are not part of the pool, because AKS restores taints of the pool that are removed from a Node.
    """
    own = (taint for taint in claim.spec.taints if taint.key != labels.AKS_SPOT)
    return [f"{taint.key}={taint.value}:{taint.effect}" for taint in own]


def from_agent_pool(body: Mapping[str, Any]) -> Instance:
    """The Instance of an agent pool. Unknown members are ignored, absent ones have defaults.

    Raises ValueError for members of another type: a pool with unreadable ownership marks must not look unowned.
    """
    properties = _map(body.get("properties"))
    state = str(properties.get("provisioningState") or "")
    raw = _CASINGS.get(state.casefold(), state)
    tags, node_labels = _texts(properties.get("tags")), _texts(properties.get("nodeLabels"))
    return Instance(
        name=str(body.get("name") or ""),
        state=STATES.get(raw, InstanceState.CREATING),
        raw_state=raw,
        etag=str(properties.get("eTag") or ""),
        size=str(properties.get("vmSize") or ""),
        zones=tuple(str(zone) for zone in _list(properties.get("availabilityZones"))),
        priority=str(properties.get("scaleSetPriority") or "Regular"),
        mode=str(properties.get("mode") or "User"),
        count=int(properties.get("count") or 0),
        image_version=str(properties.get("nodeImageVersion") or ""),
        kubernetes_version=str(properties.get("currentOrchestratorVersion") or ""),
        power_state=str(_map(properties.get("powerState")).get("code") or "Running"),
        labels=node_labels,
        tags=tags,
        claim_uid=_tag(tags, labels.TAG_CLAIM_UID),
        claim_name=_tag(tags, labels.TAG_CLAIM_NAME),
        label_uid=node_labels.get(labels.CLAIM_UID, ""),
        created_label=node_labels.get(labels.KAITO_CREATION_TIMESTAMP, ""),
        put_time=_time(_tag(tags, labels.TAG_PUT_TIME)),
        unknown_state=bool(raw) and raw not in STATES,
        failure=_failure(properties) if STATES.get(raw) is InstanceState.FAILED else None,
    )


def _map(value: Any) -> Mapping[str, Any]:
    if value is None or isinstance(value, Mapping):
        return value or {}
    raise ValueError(f"expected an object, not {type(value).__name__}")


def _list(value: Any) -> list[Any]:
    if value is None or isinstance(value, list):
        return value or []
    raise ValueError(f"expected a list, not {type(value).__name__}")


def _texts(value: Any) -> dict[str, str]:
    return {str(key): str(text) for key, text in _map(value).items() if text is not None}


def _tag(tags: Mapping[str, str], key: str) -> str:
    """The value of a tag; names of tags are case-insensitive in Azure."""
    return next((value for name, value in tags.items() if name.lower() == key.lower()), "")


def _time(text: str) -> datetime | None:
    # Faster than strptime, which took a seventh of the time to decode a LIST.
    if _TIME.fullmatch(text) is None:
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def _failure(properties: Mapping[str, Any]) -> Failure | None:
    error = _map(_map(properties.get("status")).get("provisioningError"))
    code, message, details = str(error.get("code") or ""), str(error.get("message") or ""), error.get("details") or ()
    return classify_failure(code, message, details) if code or message or details else None
