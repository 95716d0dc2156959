"""The members of an agent pool that its node class determines.

A claim of another kind of node class, such as KAITO's, gets the defaults, with which the body is that of
Azure/gpu-provisioner.

Source: docs/references/agent-pools.md#request-body, docs/references/agent-pools.md#gpu-sizes.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from cloudprovider.interface import SPOT, Offering
from provisioner.api import reasons
from provisioner.api.field_error import FieldError
from provisioner.api.nodeclass import TAGS_MAX, NodeClassSpec
from provisioner.vendors import BY_NAME

from .instance_types import gpus_of, is_gpu_size, lookup


def properties(offering: Offering, settings: NodeClassSpec) -> dict[str, Any]:
    """The members in wire names, of valid settings. Members without a value are left to AKS."""
    found: dict[str, Any] = {
        "osDiskType": settings.os_disk_type,
        "vnetSubnetID": settings.vnet_subnet_id,
        "maxPods": settings.max_pods,
        "capacityReservationGroupID": settings.capacity_reservation_group_id,
        "gpuInstanceProfile": settings.gpu.mig_profile if lookup(offering.size) is not None else "",
    }
    if offering.capacity_type == SPOT:
        found |= {
            "scaleSetPriority": "Spot",
            "scaleSetEvictionPolicy": settings.spot.eviction_policy,
            "spotMaxPrice": float(settings.spot.max_price),
        }
    if _without_driver(offering, settings):
        found["gpuProfile"] = {"driver": "None"}
    return {member: value for member, value in found.items() if value not in (None, "")}


def merged_tags(common: Mapping[str, str], settings: NodeClassSpec) -> dict[str, str]:
    """The tags of all agent pools and those of the node class, which win. Azure ignores the case of their keys."""
    own = {key.casefold() for key in settings.tags}
    return {key: value for key, value in common.items() if key.casefold() not in own} | dict(settings.tags)


def validate_tags(common: Mapping[str, str], settings: NodeClassSpec) -> Iterator[FieldError]:
    """The error of a node class whose tags leave no room for those of all agent pools."""
    if (count := len(merged_tags(common, settings))) > TAGS_MAX:
        yield FieldError(
            "AgentPoolNodeClass.spec.tags",
            reasons.NODECLASS_CONTRADICTS_OFFERING,
            f"with those of the setting AGENT_POOL_TAGS it has {count} tags, and at most {TAGS_MAX} are possible",
            f"{len(settings.tags)} tags",
            "remove tags of the node class, or of settings.agentPoolTags in the chart",
        )


def contradicts(offering: Offering, settings: NodeClassSpec) -> str:
    """Why the node class has no machine of this offering; "" if it can have one."""
    return next((str(error) for error in validate(offering, settings)), "")


def validate(offering: Offering, settings: NodeClassSpec) -> Iterator[FieldError]:
    """The errors of fields of the node class that contradict this offering."""
    size = lookup(offering.size)
    if offering.capacity_type == SPOT and settings.capacity_reservation_group_id:
        yield FieldError(
            "AgentPoolNodeClass.spec.capacityReservationGroupID",
            reasons.NODECLASS_CONTRADICTS_OFFERING,
            "a capacity reservation has on-demand machines only, and the claim allows spot",
            settings.capacity_reservation_group_id,
            "create the claim with karpenter.sh/capacity-type In [on-demand], or with another node class",
        )
    profile = settings.gpu.mig_profile
    if profile and is_gpu_size(offering.size) and profile not in gpus_of(offering.size).slices:
        known = "does not support MIG" if size is not None else "has no known MIG profiles"
        yield FieldError(
            "AgentPoolNodeClass.spec.gpu.migProfile",
            reasons.NODECLASS_CONTRADICTS_OFFERING,
            f"{profile}: {size.name if size is not None else offering.size} {known}",
            profile,
            "create the claim with a size with A100, H100 or H200, or with another node class",
        )
    if size is None:
        return
    vendor = BY_NAME[size.vendor]
    if settings.gpu.shared_replicas > 1 and vendor.division is None:
        yield FieldError(
            "AgentPoolNodeClass.spec.gpu.sharedReplicas",
            reasons.NODECLASS_CONTRADICTS_OFFERING,
            f"{settings.gpu.shared_replicas}: the GPUs of {size.name} are not shared by NVIDIA's device plugin",
            str(settings.gpu.shared_replicas),
            "create the claim with a size with NVIDIA GPUs, or with a node class without sharedReplicas",
        )
    if settings.image_family != "Ubuntu" and vendor.ubuntu_only:
        yield FieldError(
            "AgentPoolNodeClass.spec.imageFamily",
            reasons.NODECLASS_CONTRADICTS_OFFERING,
            f"{settings.image_family}: {size.name} supports Ubuntu only",
            settings.image_family,
            "create the claim with a node class with imageFamily Ubuntu",
        )


def _without_driver(offering: Offering, settings: NodeClassSpec) -> bool:
    """AKS cannot install the drivers of each vendor; the operators of the others install them."""
    size = lookup(offering.size)
    return size is not None and (not BY_NAME[size.vendor].aks_driver or settings.gpu.driver == "None")
