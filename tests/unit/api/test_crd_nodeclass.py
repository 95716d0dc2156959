"""The AgentPoolNodeClass CRD: every field is one of an agent pool, optional, and validated by the API server."""

from typing import Any

import jsonschema_rs
import msgspec
import pytest
from azure.mgmt.containerservice.models import GPUInstanceProfile, OSDiskType, ScaleSetEvictionPolicy

from provisioner.api import nodeclass
from provisioner.api.crd_nodeclass import agentpoolnodeclass_crd
from provisioner.api.nodeclaim import NodeClassReference
from provisioner.runtime.resources import NODECLASSES

from .crd_rules import broken_rules, version

SUBNET = "/subscriptions/s/resourceGroups/rg/providers/Microsoft.Network/virtualNetworks/v/subnets/gpu"
GROUP = "/subscriptions/s/resourcegroups/rg/providers/Microsoft.Compute/capacityReservationGroups/h100"


def root() -> dict[str, Any]:
    schema = version(agentpoolnodeclass_crd())["schema"]["openAPIV3Schema"]
    assert isinstance(schema, dict)
    return schema


def node_class(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "gpu-provisioner.sh/v1alpha1",
        "kind": "AgentPoolNodeClass",
        "metadata": {"name": "default"},
        "spec": spec,
    }


def test_the_names() -> None:
    """The resource of the runtime, with a short name and Karpenter's category."""
    definition = agentpoolnodeclass_crd()
    names = definition["spec"]["names"]
    assert definition["metadata"]["name"] == f"{NODECLASSES.plural}.{NODECLASSES.group}"
    assert (definition["spec"]["scope"], names["kind"], names["plural"]) == (
        "Cluster",
        NODECLASSES.kind,
        NODECLASSES.plural,
    )
    assert (names["shortNames"], names["categories"]) == (["apnc"], ["karpenter"])
    assert (version(definition)["name"], version(definition)["subresources"]) == (NODECLASSES.version, {"status": {}})
    own = NodeClassReference(group=NODECLASSES.group, kind=NODECLASSES.kind, name="default")
    assert nodeclass.is_own(own)
    assert not nodeclass.is_own(NodeClassReference(group="karpenter.azure.com", kind="AKSNodeClass", name="default"))


def test_every_enumeration_is_that_of_the_api() -> None:
    """The models of the SDK have the values of the API version in use."""
    spec = root()["properties"]["spec"]["properties"]
    assert spec["osDiskType"]["enum"] == [kind.value for kind in OSDiskType]
    assert spec["gpu"]["properties"]["migProfile"]["enum"] == [profile.value for profile in GPUInstanceProfile]
    assert spec["spot"]["properties"]["evictionPolicy"]["default"] == ScaleSetEvictionPolicy.DELETE.value


def test_every_field_is_optional() -> None:
    """A class without a spec is valid, and has the defaults of the CRD."""
    empty = {"apiVersion": "gpu-provisioner.sh/v1alpha1", "kind": "AgentPoolNodeClass", "metadata": {"name": "default"}}
    for document in (empty, node_class(), node_class(gpu={}, spot={})):
        jsonschema_rs.validator_for(root()).validate(document)
        assert broken_rules(root(), document) == []
    defaults = nodeclass.AgentPoolNodeClass().spec
    spec = root()["properties"]["spec"]["properties"]
    assert spec["imageFamily"]["default"] == defaults.image_family
    assert spec["gpu"]["properties"]["driver"]["default"] == defaults.gpu.driver
    assert spec["spot"]["properties"]["evictionPolicy"]["default"] == defaults.spot.eviction_policy
    assert spec["spot"]["properties"]["maxPrice"]["default"] == defaults.spot.max_price


TAINT = {"key": "example.com/not-ready", "effect": "NoSchedule"}
GPU_READY = {"condition": {"type": "GPUReady"}}
OBJECT = {"group": "gkm.io", "version": "v1alpha1", "resource": "gkmcachenodes", "jsonPath": "{.status.nodeName}"}
FULL = node_class(
    imageFamily="AzureLinux",
    osDiskSizeGB=512,
    osDiskType="Ephemeral",
    vnetSubnetID=SUBNET,
    maxPods=110,
    tags={"team": "ml"},
    gpu={"driver": "Install", "migProfile": "MIG1g"},
    spot={"evictionPolicy": "Delete", "maxPrice": "1.25"},
    capacityReservationGroupID=GROUP,
)


def test_a_full_class_is_accepted_and_decoded() -> None:
    jsonschema_rs.validator_for(root()).validate(FULL)
    assert broken_rules(root(), FULL) == []
    decoded = msgspec.convert(FULL, nodeclass.AgentPoolNodeClass)
    assert msgspec.to_builtins(decoded.spec) == {
        key: value for key, value in FULL["spec"].items() if key not in ("gpu", "spot")
    } | {"gpu": {"migProfile": "MIG1g"}, "spot": {"maxPrice": "1.25"}}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"vnetSubnetID": "gpu"}, "must be the ID of a subnet"),
        ({"vnetSubnetID": f"{SUBNET}/more"}, "must be the ID of a subnet"),
        ({"capacityReservationGroupID": SUBNET}, "must be the ID of a capacity reservation group"),
        ({"gpu": {"driver": "None", "migProfile": "MIG1g"}}, "migProfile requires driver Install"),
        ({"gpu": {"mode": "DRA", "migProfile": "MIG1g"}}, "mode DRA requires whole GPUs"),
        ({"gpu": {"mode": "DRA", "sharedReplicas": 2}}, "mode DRA requires whole GPUs"),
        ({"gpu": {"sharedResource": "nvidia.com/gpu.shared"}}, "requires sharedReplicas of 2 or more"),
        (
            {"readiness": [{"taint": TAINT, "until": {}}]},
            "set exactly one of condition, resource, devices",
        ),
        ({"readiness": [{"taint": TAINT, "until": GPU_READY | {"resource": {"name": "a/b"}}}]}, "set exactly one of"),
        (
            {"gpu": {"mode": "DRA"}, "readiness": [{"taint": TAINT, "until": {"resource": {"name": "amd.com/gpu"}}}]},
            "use until.devices in readiness",
        ),
        ({"readiness": [{"taint": TAINT, "until": GPU_READY}] * 2}, "two rules are the same"),
        (
            {
                "readiness": [
                    {"taint": TAINT, "until": GPU_READY},
                    {"taint": TAINT | {"value": "b"}, "until": {"resource": {"name": "a/b"}}},
                ]
            },
            "two rules have the same taint with different values",
        ),
        (
            {"readiness": [{"taint": TAINT, "until": {"object": OBJECT | {"jsonPath": "{.kind}"}}}]},
            "as of kubectl that",
        ),
        (
            {"readiness": [{"taint": TAINT, "until": {"object": OBJECT | {"jsonPath": ".status["}}}]},
            "as of kubectl that",
        ),
        ({"readiness": [{"taint": TAINT, "until": {"object": OBJECT | {"equals": "a", "oneOf": ["b"]}}}]}, "not both"),
        (
            {"readiness": [{"taint": TAINT | {"key": "readiness.k8s.io/gpu"}, "until": GPU_READY}]},
            "belong to other controllers",
        ),
        ({"spot": {"evictionPolicy": "Deallocate"}}, "evictionPolicy must be Delete: a deallocated machine"),
        ({"spot": {"maxPrice": "0"}}, "maxPrice must be -1 or more than 0"),
        ({"spot": {"maxPrice": "0.000001"}}, "maxPrice must be -1 or more than 0"),
        ({"spot": {"maxPrice": "-2"}}, "maxPrice must be -1 or more than 0"),
        ({"tags": {"a/b": "c"}}, "keys of tags must not contain"),
        ({"tags": {"a\\b": "c"}}, "keys of tags must not contain"),
        ({"tags": {"k" * 513: "c"}}, "at most 512 characters"),
        ({"tags": {"GPU-provisioner_nodeclaim": "c"}}, "reserved for the tags of the controller"),
    ],
)
def test_a_rule_names_what_is_allowed(spec: dict[str, Any], message: str) -> None:
    document = node_class(**spec)
    jsonschema_rs.validator_for(root()).validate(document)
    (broken,) = broken_rules(root(), document)
    assert message in broken


@pytest.mark.parametrize(
    "spec",
    [
        {"imageFamily": "Windows2022"},
        {"osDiskSizeGB": 29},
        {"osDiskSizeGB": 2049},
        {"osDiskType": "Premium"},
        {"maxPods": 9},
        {"maxPods": 251},
        {"tags": {"a": "b" * 257}},
        {"tags": {f"t{number}": "v" for number in range(48)}},
        {"gpu": {"migProfile": "MIG5g"}},
        {"gpu": {"sharedReplicas": 0}},
        {"gpu": {"sharedReplicas": 65}},
        {"gpu": {"mode": "Plugin"}},
        {"gpu": {"sharedResource": "gpu", "sharedReplicas": 2}},
        {"readiness": [{"taint": TAINT | {"effect": "Never"}, "until": GPU_READY}]},
        {"readiness": [{"taint": TAINT, "until": {"condition": {"type": "a b"}}}]},
        {"readiness": [{"taint": TAINT, "until": {"resource": {"name": "gpu"}}}]},
        {"readiness": [{"taint": TAINT, "until": GPU_READY, "timeoutSeconds": 0}]},
        {"readiness": [{"taint": TAINT, "until": GPU_READY, "onTimeout": "Delete"}]},
        {
            "readiness": [
                {"taint": {"key": f"k{number}", "effect": "NoSchedule"}, "until": GPU_READY} for number in range(9)
            ]
        },
        {"spot": {"maxPrice": 1.5}},
        {"vnetSubnetID": "/" * 1025},
    ],
)
def test_a_value_outside_of_the_schema_is_refused(spec: dict[str, Any]) -> None:
    with pytest.raises(jsonschema_rs.ValidationError):
        jsonschema_rs.validator_for(root()).validate(node_class(**spec))
