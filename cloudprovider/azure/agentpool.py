"""From a NodeClaim to an agent pool, and from an agent pool to an Instance.

Pure. One claim makes one pool of one machine, under a name that is a function of the claim alone; what cannot
be expressed is refused here, final, with field, value and remedy, and nothing is sent. The claim's mark stands on the
pool twice: as tags (name, UID, time of PUT) and as a node label (UID).

Source: docs/references/agent-pools.md#request-body, docs/references/agent-pools.md#responses,
docs/references/kaito.md#its-agent-pools, docs/references/kaito.md#contract (K2, K3, K7, K16),
docs/references/rules.md#deterministic-names, docs/references/rules.md#ownership-marks.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

from cloudprovider.errors import reject
from cloudprovider.interface import SPOT, Failure, Instance, InstanceState, Offering
from provisioner.api import labels, reasons
from provisioner.api.field_error import FieldError
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.quantity import GIB, as_gib_ceil, parse_quantity

from . import pool_labels
from .errors import classify_failure
from .instance_types import Sku, lookup

POOL_NAME = re.compile(r"[a-z][a-z0-9]{0,11}")
DERIVED_DIGITS = 11
DISK_FLOOR_GIB, DISK_CEILING_GIB = 30, 2048
TIME_LAYOUT = "%Y-%m-%dT%H:%M:%SZ"

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)
_TAINT_PART = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_./]{0,251}[A-Za-z0-9])?")
_TAINT_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
IMAGES = {"ubuntu": "Ubuntu", "azurelinux": "AzureLinux"}
_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"

# Every state AKS is known to use; one that is not here counts as creating.
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
# ARM promises no casing for its states; `busy` compares ours.
_CASINGS = {state.casefold(): state for state in STATES}


def pool_name(claim: NodeClaim) -> str:
    """The pool's name: the claim's own where AKS allows it, else `c` and 11 characters of its UID's hash."""
    if POOL_NAME.fullmatch(claim.name):
        return claim.name
    number = int.from_bytes(hashlib.sha256(claim.uid.encode()).digest()[:8])
    digits = ""
    for _ in range(DERIVED_DIGITS):
        number, digit = divmod(number, 36)
        digits += _ALPHABET[digit]
    return "c" + digits


def to_agent_pool(claim: NodeClaim, offering: Offering, *, now: datetime) -> dict[str, Any]:
    """The PUT's body in wire names, for a claim, what it is to get and the time of the PUT. Raises Rejected (final)."""
    size = offering.size
    reject(validate(claim, size))
    sku = lookup(size)
    properties: dict[str, Any] = {
        "count": 1,
        "vmSize": size,
        "type": "VirtualMachineScaleSets",
        "mode": "User",
        "osType": "Linux",
        "osSKU": _image(claim),
        "osDiskSizeGB": _disk_gib(claim),
        "nodeLabels": pool_labels.pool_labels(claim, size),
        "nodeTaints": _taints(claim),
        "tags": {
            labels.TAG_CLAIM_NAME: claim.name[:256],
            labels.TAG_CLAIM_UID: claim.uid,
            labels.TAG_PUT_TIME: now.strftime(TIME_LAYOUT),
        },
    }
    if offering.zone:
        properties["availabilityZones"] = [offering.zone]
    if offering.capacity_type == SPOT:
        properties |= {"scaleSetPriority": "Spot", "scaleSetEvictionPolicy": "Delete", "spotMaxPrice": -1.0}
    if sku is not None and sku.vendor == "amd":
        # AKS has no AMD driver to install; the AMD GPU operator brings its own
        # (docs/references/agent-pools.md#gpu-sizes).
        properties["gpuProfile"] = {"driver": "None"}
    return {"properties": properties}


def validate(claim: NodeClaim, size: str) -> Iterator[FieldError]:
    """The errors of all fields that a pool of this size cannot express, except requirements."""
    yield from _validate_image_family(claim, lookup(size))
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
    """The OS disk; 0 lets AKS choose, as for claims that ask for none or for less than 1 GiB."""
    storage = claim.spec.resources.requests.get("storage")
    return 0 if storage is None or parse_quantity(storage) < GIB else as_gib_ceil(storage)


def _validate_image_family(claim: NodeClaim, sku: Sku | None) -> Iterator[FieldError]:
    if _image(claim) != "Ubuntu" and sku is not None and sku.vendor == "amd":
        field = f"metadata.annotations[{labels.KAITO_IMAGE_FAMILY}]"
        value = claim.metadata.annotations[labels.KAITO_IMAGE_FAMILY]
        message = f"{sku.name} supports Ubuntu only"
        yield FieldError(field, reasons.IMAGE_FAMILY_INVALID, message, value, "remove the annotation")


def _image(claim: NodeClaim) -> str:
    """The image family; anything that is not known means Ubuntu, as in Azure/gpu-provisioner."""
    return IMAGES.get(claim.metadata.annotations.get(labels.KAITO_IMAGE_FAMILY, "").lower(), "Ubuntu")


def _validate_taints(claim: NodeClaim) -> Iterator[FieldError]:
    for index, taint in enumerate(claim.spec.taints):
        fits = _TAINT_PART.fullmatch(taint.key) and _TAINT_VALUE.fullmatch(taint.value) and taint.effect in _EFFECTS
        kept = pool_labels.kept_by_aks(taint.key) and taint.key != labels.AKS_SPOT
        if not fits or kept:
            message = (
                f"{str(taint)[:80]!r}: {'AKS reserves this key' if kept else 'not a valid taint of an agent pool'}"
            )
            remedy = "use another prefix" if kept else "write key=value:Effect"
            yield FieldError(f"spec.taints[{index}]", reasons.TAINT_INVALID, message, str(taint), remedy)


def _taints(claim: NodeClaim) -> list[str]:
    """`key=value:Effect`. Startup taints are not here: AKS would put them back whenever somebody removes them.

    Nor is the one that AKS itself gives its spot Nodes.
    """
    own = (taint for taint in claim.spec.taints if taint.key != labels.AKS_SPOT)
    return [f"{taint.key}={taint.value}:{taint.effect}" for taint in own]


def from_agent_pool(body: Mapping[str, Any]) -> Instance:
    """What the cloud says of a pool, in the rules' words. Unknown members are ignored, absent ones have defaults.

    Raises ValueError for members of another type: a pool whose marks cannot be read must not look like one without.
    """
    said = _map(body.get("properties"))
    state = str(said.get("provisioningState") or "")
    raw = _CASINGS.get(state.casefold(), state)
    tags, known = _texts(said.get("tags")), _texts(said.get("nodeLabels"))
    return Instance(
        name=str(body.get("name") or ""),
        state=STATES.get(raw, InstanceState.CREATING),
        raw_state=raw,
        etag=str(said.get("eTag") or ""),
        size=str(said.get("vmSize") or ""),
        zones=tuple(str(zone) for zone in _list(said.get("availabilityZones"))),
        priority=str(said.get("scaleSetPriority") or "Regular"),
        mode=str(said.get("mode") or "User"),
        count=int(said.get("count") or 0),
        image_version=str(said.get("nodeImageVersion") or ""),
        power_state=str(_map(said.get("powerState")).get("code") or "Running"),
        labels=known,
        tags=tags,
        claim_uid=_tag(tags, labels.TAG_CLAIM_UID),
        claim_name=_tag(tags, labels.TAG_CLAIM_NAME),
        label_uid=known.get(labels.CLAIM_UID, ""),
        created_label=known.get(labels.KAITO_CREATION_TIMESTAMP, ""),
        put_time=_time(_tag(tags, labels.TAG_PUT_TIME)),
        unknown_state=bool(raw) and raw not in STATES,
        failure=_failure(said) if STATES.get(raw) is InstanceState.FAILED else None,
    )


def _map(value: Any) -> Mapping[str, Any]:
    if value is None or isinstance(value, Mapping):
        return value or {}
    raise ValueError(f"an object was expected, not {type(value).__name__}")


def _list(value: Any) -> list[Any]:
    if value is None or isinstance(value, list):
        return value or []
    raise ValueError(f"a list was expected, not {type(value).__name__}")


def _texts(value: Any) -> dict[str, str]:
    return {str(key): str(text) for key, text in _map(value).items() if text is not None}


def _tag(tags: Mapping[str, str], key: str) -> str:
    """A tag's value; Azure compares tag names without regard to case."""
    return next((value for name, value in tags.items() if name.lower() == key.lower()), "")


def _time(text: str) -> datetime | None:
    # strptime took a seventh of a LIST's whole decoding, pool by pool, every four seconds.
    if _TIME.fullmatch(text) is None:
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def _failure(said: Mapping[str, Any]) -> Failure | None:
    error = _map(_map(said.get("status")).get("provisioningError"))
    code, message, details = str(error.get("code") or ""), str(error.get("message") or ""), error.get("details") or ()
    return classify_failure(code, message, details) if code or message or details else None
