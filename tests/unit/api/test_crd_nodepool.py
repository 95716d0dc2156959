"""The NodePool CRD validates NodePools; test_crd.py compares it with Karpenter's."""

from typing import Any

import jsonschema_rs
import pytest

from provisioner.api.causes import REASONS
from provisioner.api.crd import nodepool_crd

from .crd_rules import broken_rules, version


def root() -> dict[str, Any]:
    schema = version(nodepool_crd())["schema"]["openAPIV3Schema"]
    assert isinstance(schema, dict)
    return schema


POOL: dict[str, Any] = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodePool",
    "metadata": {"name": "gpu"},
    "spec": {
        "template": {
            "spec": {
                "nodeClassRef": {"group": "gpu-provisioner.sh", "kind": "AgentPoolNodeClass", "name": "default"},
                "requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}],
            }
        },
        "limits": {"nvidia.com/gpu": 8, "nodes": "4"},
        "weight": 10,
    },
}


def test_budgets_accept_the_reasons_of_the_table_of_causes() -> None:
    spec = root()["properties"]["spec"]["properties"]
    reasons = spec["disruption"]["properties"]["budgets"]["items"]["properties"]["reasons"]
    assert reasons["items"]["enum"] == [*REASONS]


def test_a_valid_pool_is_accepted() -> None:
    jsonschema_rs.validator_for(root()).validate(POOL)
    assert broken_rules(root(), POOL) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"replicas": 1, "limits": None}, "'weight' is not supported on static NodePools"),
        ({"replicas": 1, "weight": None}, "only 'limits.nodes' is supported on static NodePools"),
        (
            {"disruption": {"consolidateAfter": "0s", "budgets": [{"nodes": "1", "schedule": "@daily"}]}},
            "'schedule' must be set with 'duration'",
        ),
    ],
)
def test_an_invalid_pool_is_refused(change: dict[str, Any], message: str) -> None:
    spec = {key: value for key, value in {**POOL["spec"], **change}.items() if value is not None}
    assert broken_rules(root(), {**POOL, "spec": spec}) == [message]
