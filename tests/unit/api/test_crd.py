"""The CRDs in the chart are generated from the code, and validate NodeClaims as Karpenter's CRD does."""

import copy
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import celpy
import jsonschema_rs
import pytest
import yaml
from celpy import celtypes
from celpy.adapter import json_to_cel
from celpy.evaluation import CELEvalError

from provisioner.api import crd

CHART = Path(__file__).parents[3] / "charts" / "gpu-provisioner-crd"
QUALIFIED_KEY = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*(\/))?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$"
)
CONDITION_TYPE = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
)
QUANTITY = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)


def version(definition: dict[str, Any]) -> dict[str, Any]:
    (only,) = definition["spec"]["versions"]
    assert isinstance(only, dict)
    return only


def root() -> dict[str, Any]:
    schema = version(crd.nodeclaim_crd())["schema"]["openAPIV3Schema"]
    assert isinstance(schema, dict)
    return schema


def at(path: str) -> dict[str, Any]:
    """The schema at `spec.requirements[].key`; `{}` steps into a map's values."""
    schema = root()
    for step in path.split("."):
        name, _, inner = step.partition("[")
        schema = schema["properties"][name.removesuffix("{}")]
        if inner:
            schema = schema["items"]
        if name.endswith("{}"):
            schema = schema["additionalProperties"]
    return schema


def limits(path: str) -> dict[str, Any]:
    return {
        key: value
        for key, value in at(path).items()
        if key not in {"description", "properties", "items", "additionalProperties"}
    }


def every(schema: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from every(child, f"{path}.{name}")
    for keyword, sign in (("items", "[]"), ("additionalProperties", "{}")):
        if keyword in schema:
            yield from every(schema[keyword], path + sign)


# --- the chart -------------------------------------------------------------------------------------------------------


def test_the_crds_of_the_chart_are_up_to_date(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`make generate` changes no file, and there is no other file."""
    monkeypatch.setattr("sys.argv", ["crd", str(tmp_path)])
    assert crd.main() == 0
    written = {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()}
    shipped = {path.name: path.read_text(encoding="utf-8") for path in (CHART / "templates").iterdir()}
    assert written == shipped
    assert {name: yaml.safe_load(text) for name, text in shipped.items()} == crd.all_crds()


def test_the_tool_prints_its_usage_without_arguments(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["crd"])
    assert crd.main() == 2
    assert "DIRECTORY" in capsys.readouterr().err


def test_helm_keeps_the_crds() -> None:
    """They have the resource policy `keep`; the only actions are those that leave out a whole CRD, in comments."""
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    assert values == {"crds": dict.fromkeys(crd.VALUES.values(), True)}
    for path in (CHART / "templates").iterdir():
        text = path.read_text(encoding="utf-8")
        actions = [line for line in text.splitlines() if "{{" in line]
        assert actions == [f"# {{{{- if .Values.crds.{crd.VALUES[path.name]} }}}}", "# {{- end }}"]
        assert text.endswith("\n# {{- end }}\n")
        assert yaml.safe_load(text)["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert (chart["apiVersion"], chart["name"], chart["type"]) == ("v2", "gpu-provisioner-crd", "application")
    assert chart["kubeVersion"] == ">=1.30.0-0"


# --- structural schemas ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(crd.all_crds()))
def test_every_schema_is_structural(name: str) -> None:
    """The API server rejects other schemas."""
    for path, schema in every(version(crd.all_crds()[name])["schema"]["openAPIV3Schema"]):
        if schema.get("x-kubernetes-int-or-string"):
            assert "type" not in schema, path
            assert schema["anyOf"] == [{"type": "integer"}, {"type": "string"}], path
        else:
            assert schema["type"] in {"object", "array", "string", "integer", "boolean", "number"}, path
            assert "anyOf" not in schema, path
        assert ("items" in schema) is (schema.get("type") == "array"), path
        assert not ("properties" in schema and "additionalProperties" in schema), path
        assert set(schema.get("required", [])) <= set(schema.get("properties", {})), path
        assert not {"$ref", "definitions", "uniqueItems", "dependencies", "patternProperties"} & set(schema), path
        for key in schema.get("x-kubernetes-list-map-keys", []):
            assert key in schema["items"]["required"], path
        if "default" in schema:
            jsonschema_rs.validator_for(dict(schema)).validate(schema["default"])
        if "pattern" in schema:
            re.compile(schema["pattern"])


@pytest.mark.parametrize("name", sorted(crd.all_crds()))
def test_every_field_has_a_description(name: str) -> None:
    """Except metadata and scalar list items."""
    for path, schema in every(version(crd.all_crds()[name])["schema"]["openAPIV3Schema"]):
        if path == ".metadata" or path.endswith("{}") or (path.endswith("[]") and schema["type"] == "string"):
            continue
        assert schema["description"].endswith("."), path


# --- the fields of Karpenter -----------------------------------------------------------------------------------------


def test_the_names_of_the_nodeclaim_crd() -> None:
    """Group, plural and category as in Karpenter; cluster-scoped, one version with a status subresource."""
    definition = crd.nodeclaim_crd()
    assert definition["metadata"]["name"] == "nodeclaims.karpenter.sh"
    assert definition["spec"]["group"] == "karpenter.sh"
    assert definition["spec"]["scope"] == "Cluster"
    assert definition["spec"]["names"] == {
        "categories": ["karpenter"],
        "kind": "NodeClaim",
        "listKind": "NodeClaimList",
        "plural": "nodeclaims",
        "singular": "nodeclaim",
    }
    only = version(definition)
    assert (only["name"], only["served"], only["storage"], only["subresources"]) == ("v1", True, True, {"status": {}})


def test_the_kaitonodeclass_is_an_empty_cluster_scoped_kind() -> None:
    """KAITO's claims refer to it by group, kind and name; its short name is knc."""
    definition = crd.kaitonodeclass_crd()
    assert definition["metadata"]["name"] == "kaitonodeclasses.kaito.sh"
    assert definition["spec"]["scope"] == "Cluster"
    assert definition["spec"]["names"]["kind"] == "KaitoNodeClass"
    assert definition["spec"]["names"]["shortNames"] == ["knc"]
    assert definition["spec"]["names"]["categories"] == ["karpenter"]
    only = version(definition)
    assert (only["name"], only["subresources"]) == ("v1alpha1", {"status": {}})
    assert {path for path, _ in every(only["schema"]["openAPIV3Schema"])} == {
        "",
        ".apiVersion",
        ".kind",
        ".metadata",
        ".spec",
        ".status",
    }


def test_the_printer_columns_are_karpenters() -> None:
    """And Reason, which answers why a claim is not Ready."""
    columns = version(crd.nodeclaim_crd())["additionalPrinterColumns"]
    assert [(c["name"], c["type"], c.get("priority", 0), c["jsonPath"]) for c in columns] == [
        ("Type", "string", 0, r".metadata.labels.node\.kubernetes\.io/instance-type"),
        ("Capacity", "string", 0, r".metadata.labels.karpenter\.sh/capacity-type"),
        ("Zone", "string", 0, r".metadata.labels.topology\.kubernetes\.io/zone"),
        ("Node", "string", 0, ".status.nodeName"),
        ("Ready", "string", 0, '.status.conditions[?(@.type=="Ready")].status'),
        ("Age", "date", 0, ".metadata.creationTimestamp"),
        ("Reason", "string", 1, '.status.conditions[?(@.status!="True")].reason'),
        ("ImageID", "string", 1, ".status.imageID"),
        ("ID", "string", 1, ".status.providerID"),
        ("NodePool", "string", 1, r".metadata.labels.karpenter\.sh/nodepool"),
        ("NodeClass", "string", 1, ".spec.nodeClassRef.name"),
        ("Drifted", "string", 1, '.status.conditions[?(@.type=="Drifted")].status'),
    ]


def test_the_fields_are_karpenters() -> None:
    assert {
        path.removeprefix(".") for path, schema in every(root()) if "properties" not in schema and "items" not in schema
    } == {
        "apiVersion",
        "kind",
        "metadata",
        "spec.expireAfter",
        "spec.nodeClassRef.group",
        "spec.nodeClassRef.kind",
        "spec.nodeClassRef.name",
        "spec.requirements[].key",
        "spec.requirements[].minValues",
        "spec.requirements[].operator",
        "spec.requirements[].values[]",
        "spec.resources.requests",
        "spec.resources.requests{}",
        "spec.startupTaints[].effect",
        "spec.startupTaints[].key",
        "spec.startupTaints[].timeAdded",
        "spec.startupTaints[].value",
        "spec.taints[].effect",
        "spec.taints[].key",
        "spec.taints[].timeAdded",
        "spec.taints[].value",
        "spec.terminationGracePeriod",
        "status.allocatable",
        "status.allocatable{}",
        "status.capacity",
        "status.capacity{}",
        "status.conditions[].lastTransitionTime",
        "status.conditions[].message",
        "status.conditions[].observedGeneration",
        "status.conditions[].reason",
        "status.conditions[].status",
        "status.conditions[].type",
        "status.imageID",
        "status.lastPodEventTime",
        "status.nodeName",
        "status.providerID",
    }


TEXT: dict[str, Any] = {"type": "string"}
TIME = TEXT | {"format": "date-time"}
AMOUNT = {"anyOf": [{"type": "integer"}, {"type": "string"}], "pattern": QUANTITY, "x-kubernetes-int-or-string": True}
TAINT_EFFECT = TEXT | {"enum": ["NoSchedule", "PreferNoSchedule", "NoExecute"]}


def rule(text: str, message: str) -> dict[str, str]:
    return {"rule": text, "message": message}


@pytest.mark.parametrize(
    ("path", "facts"),
    [
        (
            "spec",
            {
                "type": "object",
                "required": ["nodeClassRef", "requirements"],
                "x-kubernetes-validations": [rule("self == oldSelf", "spec is immutable")],
            },
        ),
        ("spec.expireAfter", TEXT | {"default": "720h", "pattern": "^(([0-9]+(s|m|h))+|Never)$"}),
        ("spec.terminationGracePeriod", TEXT | {"pattern": "^([0-9]+(s|m|h))+$"}),
        ("spec.nodeClassRef", {"type": "object", "required": ["group", "kind", "name"]}),
        (
            "spec.nodeClassRef.group",
            TEXT | {"pattern": "^[^/]*$", "x-kubernetes-validations": [rule("self != ''", "group may not be empty")]},
        ),
        ("spec.nodeClassRef.kind", TEXT | {"x-kubernetes-validations": [rule("self != ''", "kind may not be empty")]}),
        ("spec.nodeClassRef.name", TEXT | {"x-kubernetes-validations": [rule("self != ''", "name may not be empty")]}),
        ("spec.requirements[]", {"type": "object", "required": ["key", "operator"]}),
        (
            "spec.requirements",
            {
                "type": "array",
                "maxItems": 100,
                "x-kubernetes-list-type": "atomic",
                "x-kubernetes-validations": [
                    rule(
                        "self.all(x, x.operator == 'In' ? x.values.size() != 0 : true)",
                        "requirements with operator 'In' must have a value defined",
                    ),
                    rule(
                        "self.all(x, (x.operator == 'Gt' || x.operator == 'Lt' || x.operator == 'Gte' || "
                        "x.operator == 'Lte') ? (x.values.size() == 1 && int(x.values[0]) >= 0) : true)",
                        "requirements operator 'Gt', 'Lt', 'Gte', or 'Lte' must have a single positive integer value",
                    ),
                    rule(
                        "self.all(x, (x.operator == 'In' && has(x.minValues)) ? x.values.size() >= x.minValues : true)",
                        "requirements with 'minValues' must have at least that many values specified in the 'values' "
                        "field",
                    ),
                ],
            },
        ),
        (
            "spec.requirements[].key",
            TEXT
            | {
                "maxLength": 316,
                "pattern": QUALIFIED_KEY,
                "x-kubernetes-validations": [
                    rule(
                        'self in ["karpenter.sh/capacity-type", "karpenter.sh/nodepool"] || '
                        '!self.find("^([^/]+)").endsWith("karpenter.sh")',
                        'label domain "karpenter.sh" is restricted',
                    ),
                    rule('self != "kubernetes.io/hostname"', 'label "kubernetes.io/hostname" is restricted'),
                ],
            },
        ),
        ("spec.requirements[].minValues", {"type": "integer", "minimum": 1, "maximum": 50}),
        (
            "spec.requirements[].operator",
            TEXT | {"enum": ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Gte", "Lte"]},
        ),
        (
            "spec.requirements[].values",
            {
                "type": "array",
                "maxItems": 1000,
                "maxLength": 63,
                "pattern": "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$",
                "x-kubernetes-list-type": "atomic",
            },
        ),
        ("spec.requirements[].values[]", TEXT),
        ("spec.resources.requests{}", AMOUNT),
        ("spec.taints", {"type": "array", "maxItems": 100, "x-kubernetes-list-type": "atomic"}),
        ("spec.taints[]", {"type": "object", "required": ["effect", "key"]}),
        ("spec.taints[].effect", TAINT_EFFECT),
        ("spec.taints[].key", TEXT | {"minLength": 1, "pattern": QUALIFIED_KEY}),
        ("spec.taints[].value", TEXT | {"pattern": QUALIFIED_KEY}),
        ("spec.taints[].timeAdded", TIME),
        ("status", {"type": "object"}),
        ("status.allocatable{}", AMOUNT),
        ("status.capacity{}", AMOUNT),
        (
            "status.conditions",
            {"type": "array", "x-kubernetes-list-map-keys": ["type"], "x-kubernetes-list-type": "map"},
        ),
        ("status.conditions[]", {"type": "object", "required": ["lastTransitionTime", "status", "type"]}),
        ("status.conditions[].lastTransitionTime", TIME),
        ("status.conditions[].message", TEXT | {"maxLength": 32768}),
        ("status.conditions[].observedGeneration", {"type": "integer", "format": "int64", "minimum": 0}),
        (
            "status.conditions[].reason",
            TEXT | {"maxLength": 1024, "pattern": "^([A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?|)$"},
        ),
        ("status.conditions[].status", TEXT | {"enum": ["True", "False", "Unknown"]}),
        (
            "status.conditions[].type",
            TEXT
            | {
                "maxLength": 316,
                "pattern": CONDITION_TYPE,
            },
        ),
        ("status.lastPodEventTime", TIME),
        ("status.nodeName", TEXT),
        ("status.providerID", TEXT),
        ("status.imageID", TEXT),
    ],
)
def test_the_limits_of_each_field_are_karpenters(path: str, facts: dict[str, Any]) -> None:
    """Types, patterns, enums, defaults, list types and rules; the number of values and taints is bounded here only."""
    assert limits(path) == facts


def test_startup_taints_have_the_limits_of_taints() -> None:
    plain = {
        path.partition("]")[2]: {k: v for k, v in s.items() if k != "description"}
        for path, s in every(at("spec.taints"), "[]")
    }
    startup = {
        path.partition("]")[2]: {k: v for k, v in s.items() if k != "description"}
        for path, s in every(at("spec.startupTaints"), "[]")
    }
    assert startup == plain


# --- validation ------------------------------------------------------------------------------------------------------

CLAIM: dict[str, Any] = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodeClaim",
    "metadata": {"name": "gpu1"},
    "spec": {
        "nodeClassRef": {"group": "kaito.sh", "kind": "KaitoNodeClass", "name": "default"},
        "requirements": [
            {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["Standard_NC4as_T4_v3"]}
        ],
        "resources": {"requests": {"storage": "128Gi"}},
    },
}


def spec(**fields: Any) -> dict[str, Any]:
    document = copy.deepcopy(CLAIM)
    document["spec"] |= fields
    return document


def requirement(**fields: Any) -> dict[str, Any]:
    return spec(requirements=[{"key": "example.com/x", "operator": "In", "values": ["a"]} | fields])


def find(text: celtypes.StringType, pattern: celtypes.StringType) -> celtypes.StringType:
    """The function `find` that Kubernetes adds to CEL: the first match, or an empty string."""
    match = re.search(str(pattern), str(text))
    return celtypes.StringType(match[0] if match else "")


def broken_rules(schema: Mapping[str, Any], value: Any) -> list[str]:
    """The messages of the rules that a new object violates; transition rules do not apply."""
    broken = []
    for check in schema.get("x-kubernetes-validations", []):
        if "oldSelf" in check["rule"]:
            continue
        environment = celpy.Environment()
        program = environment.program(environment.compile(check["rule"]), functions={"find": find})
        try:
            held = bool(program.evaluate({"self": json_to_cel(value)}))
        except CELEvalError:
            held = False
        if not held:
            broken.append(check["message"])
    if isinstance(value, dict):
        for name, child in schema.get("properties", {}).items():
            broken += broken_rules(child, value[name]) if name in value else []
    if isinstance(value, list):
        for item in value:
            broken += broken_rules(schema["items"], item)
    return broken


@pytest.mark.parametrize(
    "document",
    [
        CLAIM,
        spec(expireAfter="Never", terminationGracePeriod="1h30m"),
        spec(resources={"requests": {"storage": "1024Gi", "nvidia.com/gpu": 4}}),
        spec(
            taints=[
                {"key": "sku", "value": "gpu", "effect": "NoSchedule"},
                {"key": "example.com/x", "effect": "NoExecute"},
            ]
        ),
        requirement(operator="Gte", values=["4"]),
        requirement(operator="Exists", values=[]),
        requirement(key="karpenter.sh/nodepool"),
        requirement(key="karpenter.sh/capacity-type"),
        requirement(key="kubernetes.io/os"),
        requirement(key="example.kubernetes.io/anything"),
        requirement(values=["a", "b"], minValues=2),
    ],
)
def test_valid_claims_are_accepted(document: dict[str, Any]) -> None:
    """Also requirements of keys under kubernetes.io."""
    jsonschema_rs.validator_for(root()).validate(document)
    assert broken_rules(root(), document) == []


@pytest.mark.parametrize(
    "document",
    [
        {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": "gpu1"}},
        spec(nodeClassRef={"kind": "KaitoNodeClass", "name": "default"}),
        spec(nodeClassRef={"group": "kaito.sh/v1", "kind": "KaitoNodeClass", "name": "default"}),
        spec(requirements=None),
        spec(requirements=[CLAIM["spec"]["requirements"][0]] * 101),
        spec(expireAfter="30d"),
        spec(expireAfter="1.5h"),
        spec(terminationGracePeriod="Never"),
        spec(resources={"requests": {"storage": "a lot"}}),
        spec(resources={"requests": {"storage": 1.5}}),
        spec(taints=[{"key": "sku", "effect": "Never"}]),
        spec(taints=[{"key": "", "effect": "NoSchedule"}]),
        spec(taints=[{"effect": "NoSchedule"}]),
        requirement(operator="Like"),
        requirement(key="-x"),
        requirement(minValues=0),
        requirement(minValues=51),
    ],
)
def test_malformed_claims_are_rejected_by_the_schema(document: dict[str, Any]) -> None:
    assert not jsonschema_rs.validator_for(root()).is_valid(document)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (spec(nodeClassRef={"group": "", "kind": "K", "name": "n"}), "group may not be empty"),
        (spec(nodeClassRef={"group": "g", "kind": "", "name": "n"}), "kind may not be empty"),
        (spec(nodeClassRef={"group": "g", "kind": "K", "name": ""}), "name may not be empty"),
        (requirement(key="karpenter.sh/registered"), 'label domain "karpenter.sh" is restricted'),
        (requirement(key="my.karpenter.sh/x"), 'label domain "karpenter.sh" is restricted'),
        (requirement(key="kubernetes.io/hostname"), 'label "kubernetes.io/hostname" is restricted'),
        (requirement(values=[]), "requirements with operator 'In' must have a value defined"),
        (requirement(operator="Gt", values=["1", "2"]), "single positive integer value"),
        (requirement(operator="Lte", values=["-1"]), "single positive integer value"),
        (requirement(operator="Gt", values=["many"]), "single positive integer value"),
        (requirement(values=["a"], minValues=2), "at least that many values"),
    ],
)
def test_claims_that_violate_a_rule_are_rejected(document: dict[str, Any], message: str) -> None:
    """With only the message of that rule."""
    jsonschema_rs.validator_for(root()).validate(document)
    (broken,) = broken_rules(root(), document)
    assert message in broken
