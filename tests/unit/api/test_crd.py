"""The CRDs in the chart are generated from the code and from Karpenter's files, whose changes are listed here."""

import copy
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml

from provisioner.api import crd

from .crd_rules import broken_rules, version

CHART = Path(__file__).parents[3] / "charts" / "gpu-provisioner-crd"


def root() -> dict[str, Any]:
    schema = version(crd.nodeclaim_crd())["schema"]["openAPIV3Schema"]
    assert isinstance(schema, dict)
    return schema


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


@pytest.mark.parametrize("name", sorted(name for name in crd.all_crds() if not name.startswith("karpenter.sh_")))
def test_every_field_has_a_description(name: str) -> None:
    """Except metadata and scalar list items; those of Karpenter's CRDs are Karpenter's."""
    for path, schema in every(version(crd.all_crds()[name])["schema"]["openAPIV3Schema"]):
        if path == ".metadata" or path.endswith("{}") or (path.endswith("[]") and schema["type"] == "string"):
            continue
        assert schema["description"].endswith("."), path


# --- Karpenter's CRDs ------------------------------------------------------------------------------------------------


def differences(ours: Any, theirs: Any, path: str = "") -> Iterator[str]:
    """`path: here, there` for each keyword that differs, except for metadata."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in sorted((ours.keys() | theirs.keys()) - {"metadata"}):
            yield from differences(ours.get(key), theirs.get(key), f"{path}.{key}".lstrip("."))
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for number, pair in enumerate(zip(ours, theirs, strict=True)):
            yield from differences(*pair, f"{path}[{number}]")
    elif ours != theirs:
        yield f"{path.removeprefix(SPEC)}: {ours}, {theirs}"


SPEC = "spec.versions[0].schema.openAPIV3Schema.properties.spec.properties."
TEMPLATE = "template.properties.spec.properties."
POLICY = "disruption.properties.consolidationPolicy"


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        (
            "karpenter.sh_nodeclaims.yaml",
            [
                "requirements.items.properties.values.maxItems: 1000, None",
                "startupTaints.maxItems: 100, None",
                "taints.maxItems: 100, None",
            ],
        ),
        (
            "karpenter.sh_nodepools.yaml",
            [
                f"{POLICY}.default: None, WhenEmptyOrUnderutilized",
                f"{TEMPLATE}requirements.items.properties.values.maxItems: 1000, None",
                f"{TEMPLATE}startupTaints.maxItems: 100, None",
                f"{TEMPLATE}taints.maxItems: 100, None",
            ],
        ),
    ],
)
def test_the_crds_are_karpenters(name: str, changes: list[str]) -> None:
    """Except for bounds of the number of items, a default that depends on the machine, and a column for the cause."""
    ours, theirs = crd.all_crds()[name], yaml.safe_load((crd.KARPENTER / name).read_text(encoding="utf-8"))
    columns = version(ours)["additionalPrinterColumns"]
    own = [one for one in columns if one not in version(theirs)["additionalPrinterColumns"]]
    assert [one["name"] for one in own] == (["Reason"] if "nodeclaims" in name else [])
    version(ours)["additionalPrinterColumns"] = [one for one in columns if one not in own]
    assert [one for one in differences(ours, theirs) if not one.startswith(f"{POLICY}.description")] == changes


def test_each_call_returns_a_crd_of_its_own() -> None:
    crd.nodeclaim_crd()["spec"].clear()
    assert crd.nodeclaim_crd()["spec"]


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
