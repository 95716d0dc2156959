"""Validation of an AgentPoolNodeClass, for objects that were accepted by another version of its CRD.

Source: docs/references/agent-pools.md#request-body.
"""

import re
from collections.abc import Iterator

from provisioner.api import readiness_errors, replica_schedules
from provisioner.api.crd_nodeclass import PRICE, RESERVATION_GROUP, SUBNET
from provisioner.api.field_error import FieldError
from provisioner.api.nodeclass import (
    DISK_CEILING_GIB,
    DISK_FLOOR_GIB,
    GPU_MODES,
    IMAGE_FAMILIES,
    MAX_PODS,
    MIG_PROFILES,
    MIG_STRATEGIES,
    SHARED_REPLICAS,
    SHARED_RESOURCES,
    NodeClassSpec,
)


def errors(spec: NodeClassSpec) -> Iterator[FieldError]:
    """The error of each field that AKS would refuse."""
    for field, value, allowed in (
        ("imageFamily", spec.image_family, IMAGE_FAMILIES),
        ("osDiskType", spec.os_disk_type, ("", "Managed", "Ephemeral")),
        ("gpu.driver", spec.gpu.driver, ("Install", "None")),
        ("gpu.mode", spec.gpu.mode, GPU_MODES),
        ("gpu.migProfile", spec.gpu.mig_profile, ("", *MIG_PROFILES)),
        ("gpu.migStrategy", spec.gpu.mig_strategy, MIG_STRATEGIES),
        ("gpu.sharedResource", spec.gpu.shared_resource, SHARED_RESOURCES),
        # A deallocated machine counts against the quota, and the pool still counts it as one.
        ("spot.evictionPolicy", spec.spot.eviction_policy, ("Delete",)),
    ):
        if value not in allowed:
            yield _error(field, value, "it is not supported", f"set it to {', '.join(filter(None, allowed))}")
    for field, number, (least, most) in (
        ("osDiskSizeGB", spec.os_disk_size_gb, (DISK_FLOOR_GIB, DISK_CEILING_GIB)),
        ("maxPods", spec.max_pods, MAX_PODS),
        ("gpu.sharedReplicas", spec.gpu.shared_replicas, SHARED_REPLICAS),
    ):
        if number is not None and not least <= number <= most:
            yield _error(field, str(number), "it is out of range", f"set it to {least} to {most}")
    for field, value, pattern, expected in (
        ("vnetSubnetID", spec.vnet_subnet_id, SUBNET, "the ID of a subnet"),
        ("capacityReservationGroupID", spec.capacity_reservation_group_id, RESERVATION_GROUP, "the ID of such a group"),
    ):
        if value and re.search(pattern, value) is None:
            yield _error(field, value, "it is not a resource ID of this type", f"set it to {expected}")
    if re.search(PRICE, spec.spot.max_price) is None or float(spec.spot.max_price) == 0:
        yield _error(
            "spot.maxPrice", spec.spot.max_price, "it is not a price", "set it to -1, or to US dollars above 0"
        )
    if spec.gpu.driver == "None" and spec.gpu.mig_profile:
        remedy = "set gpu.driver to Install, or remove gpu.migProfile"
        yield _error("gpu.migProfile", spec.gpu.mig_profile, "AKS cannot partition GPUs without its driver", remedy)
    if spec.gpu.shared_resource != SHARED_RESOURCES[0] and spec.gpu.shared_replicas == 1:
        remedy = "set gpu.sharedReplicas to 2 or more, or remove gpu.sharedResource"
        yield _error("gpu.sharedResource", spec.gpu.shared_resource, "devices of one pod are not shared", remedy)
    if spec.gpu.mode == "DRA" and (spec.gpu.mig_profile or spec.gpu.shared_replicas != 1):
        remedy = "remove gpu.migProfile and gpu.sharedReplicas, or set gpu.mode to DevicePlugin"
        yield _error("gpu.mode", spec.gpu.mode, "it requires whole GPUs", remedy)
    yield from replica_schedules.errors(spec.replica_schedules, "spec.replicaSchedules")
    yield from readiness_errors.errors(spec.readiness, "spec.readiness")
    if spec.gpu.mode == "DRA":
        yield from readiness_errors.errors_with_dra(spec.readiness, "spec.readiness")


def _error(field: str, value: str, message: str, remedy: str) -> FieldError:
    return FieldError(f"spec.{field}", "FieldValueInvalid", f"{value[:80]!r}: {message}", value, remedy)
