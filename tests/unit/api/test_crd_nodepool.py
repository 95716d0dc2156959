"""The NodePool CRD has Karpenter's structure. tests/oracle compares it with the CRD of the Go module itself."""

from typing import Any

import jsonschema_rs
import pytest

from provisioner.api import crd
from provisioner.api.causes import REASONS
from provisioner.api.crd_nodepool import nodepool_crd

from .test_crd import AMOUNT, TEXT, TIME, broken_rules, every, rule, version

MINUTES = "^((([0-9]+(h|m))|([0-9]+h[0-9]+m))(0s)?)$"
CRON = r"^(@(annually|yearly|monthly|weekly|daily|midnight|hourly))|((.+)\s(.+)\s(.+)\s(.+)\s(.+))$"


def root() -> dict[str, Any]:
    schema = version(nodepool_crd())["schema"]["openAPIV3Schema"]
    assert isinstance(schema, dict)
    return schema


def limits() -> dict[str, Any]:
    """The limits of each field by path, without descriptions."""
    structure = {"description", "properties", "items", "additionalProperties"}
    return {
        path.removeprefix("."): {key: value for key, value in schema.items() if key not in structure}
        for path, schema in every(root())
    }


def test_the_names_and_subresources_are_karpenters() -> None:
    """Cluster-scoped, one version, with status and scale."""
    spec = nodepool_crd()["spec"]
    assert nodepool_crd()["metadata"]["name"] == "nodepools.karpenter.sh"
    assert (spec["group"], spec["scope"]) == ("karpenter.sh", "Cluster")
    assert spec["names"] == {
        "categories": ["karpenter"],
        "kind": "NodePool",
        "listKind": "NodePoolList",
        "plural": "nodepools",
        "singular": "nodepool",
    }
    only = version(nodepool_crd())
    scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.nodes"}
    assert (only["name"], only["served"], only["storage"]) == ("v1", True, True)
    assert only["subresources"] == {"status": {}, "scale": scale}
    assert [(c["name"], c["type"], c.get("priority", 0), c["jsonPath"]) for c in only["additionalPrinterColumns"]] == [
        ("NodeClass", "string", 0, ".spec.template.spec.nodeClassRef.name"),
        ("Nodes", "string", 0, ".status.nodes"),
        ("Ready", "string", 0, '.status.conditions[?(@.type=="Ready")].status'),
        ("Age", "date", 0, ".metadata.creationTimestamp"),
        ("Weight", "integer", 1, ".spec.weight"),
        ("CPU", "string", 1, ".status.resources.cpu"),
        ("Memory", "string", 1, ".status.resources.memory"),
    ]


@pytest.mark.parametrize(
    ("path", "facts"),
    [
        (
            "spec",
            {
                "type": "object",
                "required": ["template"],
                "x-kubernetes-validations": [
                    rule(
                        "has(self.replicas) == has(oldSelf.replicas)",
                        "Cannot transition NodePool between static (replicas set) and dynamic (replicas unset) "
                        "provisioning modes",
                    ),
                    rule(
                        "!has(self.replicas) || (!has(self.limits) || size(self.limits) == 0 || "
                        "(size(self.limits) == 1 && 'nodes' in self.limits))",
                        "only 'limits.nodes' is supported on static NodePools",
                    ),
                    rule("!has(self.replicas) || !has(self.weight)", "'weight' is not supported on static NodePools"),
                ],
            },
        ),
        (
            "spec.disruption",
            {"type": "object", "default": {"consolidateAfter": "0s"}, "required": ["consolidateAfter"]},
        ),
        (
            "spec.disruption.budgets",
            {
                "type": "array",
                "default": [{"nodes": "10%"}],
                "maxItems": 50,
                "x-kubernetes-list-type": "atomic",
                "x-kubernetes-validations": [
                    rule("self.all(x, has(x.schedule) == has(x.duration))", "'schedule' must be set with 'duration'")
                ],
            },
        ),
        ("spec.disruption.budgets[]", {"type": "object", "required": ["nodes"]}),
        ("spec.disruption.budgets[].duration", TEXT | {"pattern": MINUTES}),
        ("spec.disruption.budgets[].nodes", TEXT | {"default": "10%", "pattern": "^((100|[0-9]{1,2})%|[0-9]+)$"}),
        ("spec.disruption.budgets[].reasons", {"type": "array", "maxItems": 50, "x-kubernetes-list-type": "set"}),
        ("spec.disruption.budgets[].reasons[]", TEXT | {"enum": [*REASONS]}),
        ("spec.disruption.budgets[].schedule", TEXT | {"pattern": CRON}),
        ("spec.disruption.consolidateAfter", TEXT | {"pattern": "^(([0-9]+(s|m|h))+|Never)$"}),
        (
            "spec.disruption.consolidationPolicy",
            # Karpenter's default is WhenEmptyOrUnderutilized; here it depends on whether a machine has GPUs.
            TEXT | {"enum": ["WhenEmpty", "WhenEmptyOrUnderutilized", "Balanced"]},
        ),
        ("spec.limits", {"type": "object"}),
        ("spec.limits{}", AMOUNT),
        ("spec.replicas", {"type": "integer", "format": "int64", "minimum": 0}),
        ("spec.template", {"type": "object", "required": ["spec"]}),
        ("spec.template.metadata", {"type": "object"}),
        ("spec.template.metadata.annotations", {"type": "object", "x-kubernetes-map-type": "granular"}),
        ("spec.template.metadata.annotations{}", TEXT),
        (
            "spec.template.metadata.labels",
            {
                "type": "object",
                "maxProperties": 100,
                "x-kubernetes-map-type": "atomic",
                "x-kubernetes-validations": [
                    rule(
                        'self.all(x, x in ["karpenter.sh/capacity-type", "karpenter.sh/nodepool"] || '
                        '!x.find("^([^/]+)").endsWith("karpenter.sh"))',
                        'label domain "karpenter.sh" is restricted',
                    ),
                    rule('self.all(x, x != "karpenter.sh/nodepool")', 'label "karpenter.sh/nodepool" is restricted'),
                    rule('self.all(x, x != "kubernetes.io/hostname")', 'label "kubernetes.io/hostname" is restricted'),
                ],
            },
        ),
        (
            "spec.template.metadata.labels{}",
            TEXT | {"maxLength": 63, "pattern": "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$"},
        ),
        ("spec.template.spec", {"type": "object", "required": ["nodeClassRef", "requirements"]}),
        (
            "spec.template.spec.nodeClassRef",
            {
                "type": "object",
                "required": ["group", "kind", "name"],
                "x-kubernetes-validations": [
                    rule("self.group == oldSelf.group", "nodeClassRef.group is immutable"),
                    rule("self.kind == oldSelf.kind", "nodeClassRef.kind is immutable"),
                ],
            },
        ),
        ("spec.weight", {"type": "integer", "format": "int32", "minimum": 1, "maximum": 100}),
        (
            "status.conditions[]",
            {"type": "object", "required": ["lastTransitionTime", "message", "reason", "status", "type"]},
        ),
        ("status.conditions[].lastTransitionTime", TIME),
        (
            "status.conditions[].reason",
            TEXT | {"maxLength": 1024, "minLength": 1, "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"},
        ),
        ("status.nodeClassObservedGeneration", {"type": "integer", "format": "int64"}),
        ("status.nodes", {"type": "integer", "format": "int64", "default": 0}),
        ("status.resources", {"type": "object"}),
        ("status.resources{}", AMOUNT),
    ],
)
def test_the_limits_of_each_field_are_karpenters(path: str, facts: dict[str, Any]) -> None:
    assert limits()[path] == facts


def test_the_template_has_the_fields_of_a_claim() -> None:
    """Except for resources, and with one more restricted key; Karpenter's CRDs have the same two differences."""
    claim = version(crd.nodeclaim_crd())["schema"]["openAPIV3Schema"]["properties"]["spec"]
    template = root()["properties"]["spec"]["properties"]["template"]["properties"]["spec"]
    of_claim, of_pool = dict(claim["properties"]), dict(template["properties"])
    of_claim.pop("resources")
    for fields in (of_claim, of_pool):
        fields["nodeClassRef"] = {k: v for k, v in fields["nodeClassRef"].items() if k != "x-kubernetes-validations"}
    key = of_pool["requirements"]["items"]["properties"]["key"]["x-kubernetes-validations"]
    assert key.pop(1) == rule('self != "karpenter.sh/nodepool"', 'label "karpenter.sh/nodepool" is restricted')
    assert of_pool == of_claim


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
