"""Each example is a valid NodeClaim that the controller supports."""

import re
from collections import Counter
from io import StringIO
from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec
import pytest
import yaml

from provisioner.api import labels
from provisioner.api.crd import nodeclaim_crd
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.quantity import as_gib_ceil
from provisioner.api.requirements import allowed_values, conflicting, invalid
from provisioner.cli.main import run_command

EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("*.yaml"))
SCHEMA = nodeclaim_crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
each_example = pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)


def read(path: Path) -> dict[str, Any]:
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert isinstance(document, dict)
    return document


def claim(path: Path) -> NodeClaim:
    return msgspec.convert(read(path), NodeClaim)


def undeclared(document: dict[str, Any], schema: dict[str, Any], where: str = "") -> list[str]:
    """Fields that the API server would drop."""
    found = []
    for name, value in document.items():
        known = schema.get("properties", {}).get(name)
        if known is None:
            found.append(f"{where}{name}")
            continue
        children = value if isinstance(value, list) else [value]
        inner = known.get("items", known)
        for child in children:
            if isinstance(child, dict) and "properties" in inner:
                found += undeclared(child, inner, f"{where}{name}.")
    return found


def test_all_examples_exist() -> None:
    assert [path.stem for path in EXAMPLES] == [
        "a100-multi",
        "amd",
        "azure-linux",
        "cpu",
        "first-gpu",
        "from-gpu-provisioner",
        "h100-multi",
        "kaito-ragengine",
        "kaito-workspace",
        "keep-broken",
        "long-jobs",
        "mig",
        "several-sizes",
        "spot",
        "startup-taint",
        "zones",
    ]


@each_example
def test_the_crd_declares_all_fields(path: Path) -> None:
    document = read(path)
    jsonschema_rs.validator_for(SCHEMA).validate(document)
    assert undeclared(document, SCHEMA) == []


@each_example
def test_an_example_is_a_valid_claim(path: Path) -> None:
    """It has sizes and a disk size, and its requirements are valid and do not conflict."""
    example = claim(path)
    assert (example.api_version, example.kind) == ("karpenter.sh/v1", "NodeClaim")
    sizes = allowed_values(example.spec.requirements, labels.INSTANCE_TYPE)
    assert sizes is not None
    assert len(sizes) == (3 if path.stem == "several-sizes" else 1)
    assert conflicting(example.spec.requirements) == {}
    assert invalid(example.spec.requirements) == ()
    assert 30 <= as_gib_ceil(example.spec.resources.requests["storage"]) <= 2048


@each_example
def test_the_name_is_a_valid_pool_name(path: Path) -> None:
    """The agent pool has the name of the claim."""
    assert re.fullmatch(r"[a-z][a-z0-9]{0,11}", claim(path).name)


@each_example
def test_the_first_line_describes_the_example(path: Path) -> None:
    """It is the only comment outside the NodeClaim."""
    lines = path.read_text(encoding="utf-8").splitlines()
    assert re.fullmatch(r"# .{20,}\.", lines[0])
    assert not any(line.startswith("#") for line in lines[1:])


@each_example
def test_plan_reports_no_problem(path: Path) -> None:
    """`gpu-provisioner plan -f` prints the request for the agent pool and exits with code 0."""
    out, err = StringIO(), StringIO()
    assert run_command(["plan", "-f", str(path)], {}, out, err) == 0
    assert claim(path).name in out.getvalue()
    assert "If-None-Match" in out.getvalue()
    assert err.getvalue() == ""


def test_names_are_unique() -> None:
    """`kubectl apply -f examples/` creates one claim for each file."""
    names = [claim(path).name for path in EXAMPLES]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("stem", "owner", "storage"),
    [("kaito-workspace", "workspace", "1024Gi"), ("kaito-ragengine", "ragengine", "200Gi")],
)
def test_the_examples_of_kaito_match_the_claims_of_kaito(stem: str, owner: str, storage: str) -> None:
    """Source: docs/references/kaito.md#the-nodeclaim-that-kaito-creates."""
    path = next(path for path in EXAMPLES if path.stem == stem)
    example = claim(path)
    assert re.fullmatch(r"ws[0-9a-f]{9}", example.name)
    assert {labels.NODEPOOL, f"kaito.sh/{owner}", f"kaito.sh/{owner}namespace"} < set(example.metadata.labels)
    assert example.metadata.labels[labels.NODEPOOL] == labels.DEFAULT_NODEPOOL
    assert example.metadata.annotations == {labels.DO_NOT_DISRUPT: "true", labels.KAITO_IMAGE_FAMILY: "ubuntu"}
    reference = example.spec.node_class_ref
    assert (reference.group, reference.kind, reference.name) == ("kaito.sh", "KaitoNodeClass", "default")
    assert [r.key for r in example.spec.requirements] == [
        labels.NODEPOOL,
        labels.INSTANCE_TYPE,
        labels.OS,
        "karpenter.azure.com/sku-name",
    ]
    assert example.spec.requirements[1].values == example.spec.requirements[3].values
    assert [str(taint) for taint in example.spec.taints] == ["sku=gpu:NoSchedule"]
    assert example.spec.startup_taints == ()
    assert dict(example.spec.resources.requests) == {"storage": storage}
    assert yaml.safe_load(path.read_text())["spec"]["expireAfter"] == "Never"
    assert example.spec.termination_grace_period is None


def in_order_of_kubectl() -> list[dict[str, Any]]:
    """The objects of `kubectl apply -R -f examples`, which reads files in the order of their names."""
    files = sorted(EXAMPLES[0].parent.rglob("*.yaml"))
    return [document for path in files for document in yaml.safe_load_all(path.read_text(encoding="utf-8"))]


def test_each_object_is_defined_once() -> None:
    """All examples can be applied to one cluster."""
    found = Counter(
        (one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"]) for one in in_order_of_kubectl()
    )
    assert len(found) > 30
    assert [identity for identity, times in found.items() if times > 1] == []


def test_node_classes_precede_their_node_pools() -> None:
    """So that no NodePool reports a missing class while the files are applied."""
    classes: set[str] = set()
    early = []
    for one in in_order_of_kubectl():
        name = one["metadata"]["name"]
        if one["kind"] == "AgentPoolNodeClass":
            classes.add(name)
        elif one["kind"] == "NodePool" and one["spec"]["template"]["spec"]["nodeClassRef"]["name"] not in classes:
            early.append(name)
    assert early == []


def test_the_device_plugin_of_the_tutorial_runs_on_the_machines_of_all_examples() -> None:
    """It tolerates their taints, without which no GPU is allocatable."""
    path = EXAMPLES[0].parents[1] / "docs" / "getting-started" / "nvidia-device-plugin.yaml"
    tolerations = yaml.safe_load(path.read_text(encoding="utf-8"))["spec"]["template"]["spec"]["tolerations"]
    found = [
        taint
        for one in in_order_of_kubectl()
        for spec in (one.get("spec", {}), one.get("spec", {}).get("template", {}).get("spec", {}))
        for taint in spec.get("taints", ())
    ]
    assert len(found) > 10
    tolerated = [{key: one[key] for key in ("key", "value", "effect")} for one in tolerations if "value" in one]
    assert [taint for taint in found if taint not in tolerated] == []
