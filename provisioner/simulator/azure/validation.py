"""Synchronous validation by AKS: names, ranges, enumerations, labels, taints.

Pure; the first violated rule as AKS's 400, or None.

Source: docs/references/agent-pools.md#request-body, docs/references/agent-pools.md#conflicts,
docs/references/agent-pools.md#validation-errors, docs/references/agent-pools.md#names-and-ids,
docs/references/agent-pools.md#labels-and-taints, docs/references/agent-pools.md#limits.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from . import errors, sizes
from .errors import Answer

_NAME = re.compile(r"[a-z][a-z0-9]{0,11}")
_LABEL_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_LABEL_PREFIX = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_TAINT = re.compile(r"[^=:\s]+(=[^=:\s]*)?:(NoSchedule|PreferNoSchedule|NoExecute)")
_RESERVED = frozenset({"agentpool", "storageprofile", "storagetier", "accelerator"})
_KUBERNETES_PREFIXES = ("kubelet.kubernetes.io", "node.kubernetes.io")
_ENUMS = {
    "mode": {"System", "User", "Gateway"},
    "type": {"VirtualMachineScaleSets", "VirtualMachines", "AvailabilitySet"},
    "osType": {"Linux", "Windows"},
    "osSKU": {
        "Ubuntu",
        "Ubuntu2204",
        "Ubuntu2404",
        "AzureLinux",
        "AzureLinux3",
        "AzureContainerLinux",
        "CBLMariner",
        "Windows2019",
        "Windows2022",
        "Windows2025",
    },
    "osDiskType": {"Managed", "Ephemeral"},
    "kubeletDiskType": {"OS", "Temporary"},
    "scaleSetPriority": {"Regular", "Spot"},
    "scaleSetEvictionPolicy": {"Delete", "Deallocate"},
    "gpuInstanceProfile": set(sizes.SLICES),
    "scaleDownMode": {"Delete", "Deallocate"},
}


_CREATE_ONLY = (
    "vmSize",
    "osType",
    "osDiskType",
    "kubeletDiskType",
    "type",
    "maxPods",
    "availabilityZones",
    "scaleSetPriority",
    "scaleSetEvictionPolicy",
    "spotMaxPrice",
    "gpuProfile",
    "gpuInstanceProfile",
)
_MEMBERS = frozenset(
    [
        "vmSize",
        "count",
        "type",
        "mode",
        "osType",
        "osSKU",
        "osDiskSizeGB",
        "osDiskType",
        "kubeletDiskType",
        "maxPods",
        "vnetSubnetID",
        "podSubnetID",
        "availabilityZones",
        "nodeLabels",
        "nodeTaints",
        "tags",
        "scaleSetPriority",
        "scaleSetEvictionPolicy",
        "spotMaxPrice",
        "gpuProfile",
        "gpuInstanceProfile",
        "capacityReservationGroupID",
        "proximityPlacementGroupID",
        "hostGroupID",
        "enableFIPS",
        "enableEncryptionAtHost",
        "enableUltraSSD",
        "enableNodePublicIP",
        "enableAutoScaling",
        "minCount",
        "maxCount",
        "kubeletConfig",
        "linuxOSConfig",
        "orchestratorVersion",
        "upgradeSettings",
        "securityProfile",
        "scaleDownMode",
        "workloadRuntime",
        "localDNSProfile",
        "artifactStreamingProfile",
        "virtualMachinesProfile",
        "creationData",
        "networkProfile",
        "messageOfTheDay",
        "powerState",
        "provisioningState",
        "eTag",
        "status",
        "currentOrchestratorVersion",
        "nodeImageVersion",
    ]
)


def check_name(name: str) -> Answer | None:
    """Linux pools: 1 to 12 lower-case letters and digits, a letter first."""
    if _NAME.fullmatch(name):
        return None
    return errors.invalid(
        f"The value of parameter agentPoolProfile.name is invalid. Agent pool name '{name}' must start with a "
        "lower-case letter, have max length of 12, and only have characters a-z0-9.",
        "agentPoolProfile.name",
    )


def check(name: str, properties: Mapping[str, Any]) -> Answer | None:
    """The first violated rule of a PUT's properties."""
    return next((answer for answer in _refusals(name, properties) if answer is not None), None)


def _refusals(name: str, properties: Mapping[str, Any]) -> Iterator[Answer | None]:
    yield check_name(name)
    if properties.get("osType") == "Windows" and len(name) > 6:
        yield errors.invalid("Windows agent pool name can not be longer than 6 characters.", "agentPoolProfile.name")
    if "nodeInitializationTaints" in properties:
        yield errors.bad_request(
            "nodeInitializationTaints is not supported in agent pool operations of this API version."
        )
    for key, allowed in _ENUMS.items():
        value = properties.get(key)
        if value is not None and value not in allowed:
            yield errors.invalid(
                f"The value '{value}' of parameter {key} is not valid; allowed values: {', '.join(sorted(allowed))}.",
                key,
            )
    yield _size(properties)
    yield _range("count", properties, 1 if properties.get("mode") == "System" else 0, 1000)
    yield _disk(properties)
    yield _range("maxPods", properties, 10, 250)
    yield _spot(properties)
    for key, value in (properties.get("nodeLabels") or {}).items():
        yield _label(key, value)
    for taint in properties.get("nodeTaints") or ():
        if not isinstance(taint, str) or not _TAINT.fullmatch(taint):
            yield errors.invalid(
                f"Invalid taint '{taint}': it must have the form key=value:Effect, with effect NoSchedule, "
                "PreferNoSchedule or NoExecute.",
                "nodeTaints",
            )
    yield _tags(properties)


def _size(properties: Mapping[str, Any]) -> Answer | None:
    vm_size = properties.get("vmSize")
    if vm_size is None or sizes.find(str(vm_size)) is not None:
        return None
    return errors.bad_request(f"The VM size of {vm_size} is not allowed in your subscription in location.")


def _range(key: str, properties: Mapping[str, Any], low: int, high: int) -> Answer | None:
    value = properties.get(key)
    if value is None or (isinstance(value, int) and low <= value <= high):
        return None
    return errors.invalid(f"The value of parameter {key} is invalid: {value} is outside of {low}-{high}.", key)


def _disk(properties: Mapping[str, Any]) -> Answer | None:
    value = properties.get("osDiskSizeGB")
    if value in (None, 0) or (isinstance(value, int) and 30 <= value <= 2048):
        return None
    return errors.invalid(
        f"The value of parameter osDiskSizeGB is invalid: {value} is not within 30 (the image) and 2048.",
        "osDiskSizeGB",
    )


def _spot(properties: Mapping[str, Any]) -> Answer | None:
    price = properties.get("spotMaxPrice")
    if price is None or price == -1 or (price > 0 and round(price, 5) == price):
        return None
    return errors.invalid(f"spotMaxPrice {price} must be -1 or positive with at most five decimals.", "spotMaxPrice")


def _label(key: str, value: object) -> Answer | None:
    prefix, _, name = key.rpartition("/")
    if not isinstance(value, str) or (value and not _LABEL_NAME.fullmatch(value)):
        return errors.invalid(f"Invalid node label value '{value}' of key '{key}'.", "nodeLabels")
    if not _LABEL_NAME.fullmatch(name) or (prefix and not _LABEL_PREFIX.fullmatch(prefix)):
        return errors.invalid(f"Invalid node label key '{key}'.", "nodeLabels")
    if prefix == "kubernetes.azure.com" or prefix.endswith(".kubernetes.azure.com"):
        # AKS adds this label to spot pools, and clients send it back.
        if key == "kubernetes.azure.com/scalesetpriority" and value == "spot":
            return None
        return errors.invalid(
            f"Invalid node label key '{key}'. The 'kubernetes.azure.com' prefix is preserved by aks system labels.",
            "nodeLabels",
        )
    kubernetes = prefix == "kubernetes.io" or prefix.endswith(".kubernetes.io")
    if kubernetes and not any(prefix == p or prefix.endswith("." + p) for p in _KUBERNETES_PREFIXES):
        return errors.invalid(
            f"Label key '{key}' must begin with an allowed prefix ({', '.join(_KUBERNETES_PREFIXES)}).", "nodeLabels"
        )
    if not prefix and name in _RESERVED:
        return errors.invalid(f"Invalid node label key '{key}': it is reserved by AKS.", "nodeLabels")
    return None


def _tags(properties: Mapping[str, Any]) -> Answer | None:
    tags = properties.get("tags") or {}
    if len(tags) > 50:
        return errors.invalid("A resource can have at most 50 tags.", "tags")
    for key, value in tags.items():
        if len(key) > 512 or len(str(value)) > 256 or any(c in "<>%&\\?/" for c in key):
            return errors.invalid(
                f"Tag '{key}' is invalid: 512 characters of key without <>%&\\?/, 256 of value.", "tags"
            )
    return None


def check_members(properties: Mapping[str, Any]) -> Answer | None:
    """The error for the first unknown member; whether AKS rejects it is not documented."""
    unknown = next((key for key in properties if key not in _MEMBERS), None)
    return None if unknown is None else errors.bad_request(f"Could not find member '{unknown}' on the object.")


def check_unchanged(stored: Mapping[str, Any], sent: Mapping[str, Any]) -> Answer | None:
    """The error for the first create-only member that a PUT changes; omitted members stay."""
    for key in _CREATE_ONLY:
        old, new = stored.get(key), sent.get(key)
        if new is None or _plain(new) == _plain(old):
            continue
        message = f"Changing property 'properties.{key}' is not allowed."
        return errors.rp(400, "PropertyChangeNotAllowed", message, target=f"properties.{key}")
    return None


def _plain(value: Any) -> Any:
    """Sizes and enumerations are compared without case."""
    return value.casefold() if isinstance(value, str) else value


def too_many_pools(limit: int, code: str) -> Answer:
    """The error above the maximum number of pools. The exact code is not documented."""
    return errors.rp(
        400, code, f"The maximum number of agent pools ({limit}) allowed in a managed cluster has been reached."
    )
