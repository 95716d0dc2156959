"""Validation of node classes, and their contradictions with an offering."""

from typing import Any

import msgspec
import pytest

from cloudprovider.azure import class_properties
from cloudprovider.interface import Offering
from controllers.nodeclass.validation import errors
from provisioner.api.nodeclass import NodeClassSpec

A100, T4, MI300, CPU = (
    "Standard_NC24ads_A100_v4",
    "Standard_NC4as_T4_v3",
    "Standard_ND96isr_MI300X_v5",
    "Standard_D4s_v5",
)
GROUP = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/capacityReservationGroups/r"


def spec(**fields: Any) -> NodeClassSpec:
    return msgspec.convert(fields, NodeClassSpec)


def test_the_defaults_are_valid_and_leave_all_to_aks() -> None:
    """The body for a claim of KAITO has no member of the node class."""
    assert [*errors(NodeClassSpec())] == []
    assert class_properties.properties(Offering(size=A100), NodeClassSpec()) == {}
    assert class_properties.properties(Offering(size=MI300), NodeClassSpec()) == {"gpuProfile": {"driver": "None"}}


def waiting_for(until: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"taint": {"key": "example.com/wait", "effect": "NoSchedule"}, "until": until}]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"imageFamily": "Windows2022"}, "spec.imageFamily"),
        ({"osDiskSizeGB": 4096}, "spec.osDiskSizeGB"),
        ({"osDiskType": "Premium"}, "spec.osDiskType"),
        ({"maxPods": 5}, "spec.maxPods"),
        ({"vnetSubnetID": GROUP}, "spec.vnetSubnetID"),
        ({"capacityReservationGroupID": "r"}, "spec.capacityReservationGroupID"),
        ({"gpu": {"migProfile": "MIG5g"}}, "spec.gpu.migProfile"),
        ({"gpu": {"migProfile": "MIG1g", "driver": "None"}}, "spec.gpu.migProfile"),
        ({"gpu": {"driver": "Latest"}}, "spec.gpu.driver"),
        ({"gpu": {"mode": "Plugin"}}, "spec.gpu.mode"),
        ({"gpu": {"mode": "DRA", "sharedReplicas": 2}}, "spec.gpu.mode"),
        (
            {
                "gpu": {"mode": "DRA"},
                "readiness": waiting_for({"resource": {"name": "nvidia.com/gpu"}}),
            },
            "spec.readiness[0].until.resource.name",
        ),
        (
            {"readiness": waiting_for({"devices": {"driver": "A"}})},
            "spec.readiness[0].until.devices.driver",
        ),
        ({"gpu": {"migStrategy": "None"}}, "spec.gpu.migStrategy"),
        ({"gpu": {"sharedReplicas": 0}}, "spec.gpu.sharedReplicas"),
        ({"gpu": {"sharedResource": "gpu", "sharedReplicas": 2}}, "spec.gpu.sharedResource"),
        ({"gpu": {"sharedResource": "nvidia.com/gpu.shared"}}, "spec.gpu.sharedResource"),
        ({"spot": {"evictionPolicy": "Deallocate"}}, "spec.spot.evictionPolicy"),
        ({"spot": {"maxPrice": "0"}}, "spec.spot.maxPrice"),
        ({"spot": {"maxPrice": "cheap"}}, "spec.spot.maxPrice"),
    ],
)
def test_an_error_names_field_value_and_remedy(fields: dict[str, Any], field: str) -> None:
    (found,) = errors(spec(**fields))
    assert found.field == field
    assert found.value
    assert found.remedy


@pytest.mark.parametrize(
    ("fields", "offering", "expected"),
    [
        (
            {"spot": {"maxPrice": "1.5"}},
            Offering(size=A100, capacity_type="spot"),
            {"scaleSetPriority": "Spot", "scaleSetEvictionPolicy": "Delete", "spotMaxPrice": 1.5},
        ),
        ({"spot": {"maxPrice": "1.5"}}, Offering(size=A100), {}),
        ({"gpu": {"driver": "None"}}, Offering(size=A100), {"gpuProfile": {"driver": "None"}}),
        ({"gpu": {"driver": "None"}}, Offering(size=CPU), {}),
        ({"gpu": {"migProfile": "MIG2g"}}, Offering(size=A100), {"gpuInstanceProfile": "MIG2g"}),
        ({"gpu": {"migProfile": "MIG2g"}}, Offering(size=CPU), {}),
    ],
)
def test_members_depend_on_the_offering(fields: dict[str, Any], offering: Offering, expected: dict[str, Any]) -> None:
    assert class_properties.properties(offering, spec(**fields)) == expected
    assert [*class_properties.validate(offering, spec(**fields))] == []


@pytest.mark.parametrize(
    ("fields", "offering", "field"),
    [
        (
            {"capacityReservationGroupID": GROUP},
            Offering(size=A100, capacity_type="spot"),
            "capacityReservationGroupID",
        ),
        ({"gpu": {"migProfile": "MIG1g"}}, Offering(size=T4), "gpu.migProfile"),
        ({"gpu": {"migProfile": "MIG1g"}}, Offering(size="Standard_NC999_X_v9"), "gpu.migProfile"),
        ({"gpu": {"migProfile": "MIG1g"}}, Offering(size="Standard_ND128isr_GB300_v6"), "gpu.migProfile"),
        ({"gpu": {"sharedReplicas": 4}}, Offering(size=MI300), "gpu.sharedReplicas"),
        ({"imageFamily": "AzureLinux"}, Offering(size=MI300), "imageFamily"),
    ],
)
def test_a_contradiction_names_the_field_of_the_class(fields: dict[str, Any], offering: Offering, field: str) -> None:
    (found,) = class_properties.validate(offering, spec(**fields))
    assert found.field == f"AgentPoolNodeClass.spec.{field}"
    assert found.remedy.startswith("create the claim with")
