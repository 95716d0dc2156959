"""The examples: each one is a claim that the cluster accepts and the program understands."""

import re
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
from provisioner.api.requirements import allowed_values, conflicts, invalid
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
    """Fields the API server would silently drop."""
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


def test_the_examples_that_the_documents_name_are_there() -> None:
    """The list is written out, so that a lost file or an empty folder fails."""
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
def test_the_cluster_accepts_it_whole(path: Path) -> None:
    """The CRD's schema accepts the example and declares every field in it."""
    document = read(path)
    jsonschema_rs.validator_for(SCHEMA).validate(document)
    assert undeclared(document, SCHEMA) == []


@each_example
def test_the_program_understands_it(path: Path) -> None:
    """Every example decodes, names what sizes it may have and a disk, and contradicts itself nowhere."""
    example = claim(path)
    assert (example.api_version, example.kind) == ("karpenter.sh/v1", "NodeClaim")
    sizes = allowed_values(example.spec.requirements, labels.INSTANCE_TYPE)
    assert sizes is not None
    assert len(sizes) == (3 if path.stem == "several-sizes" else 1)
    assert conflicts(example.spec.requirements) == ()
    assert invalid(example.spec.requirements) == ()
    assert 30 <= as_gib_ceil(example.spec.resources.requests["storage"]) <= 2048


@each_example
def test_its_name_can_be_the_pools_name(path: Path) -> None:
    """A reader who looks for the machine in Azure finds it under the claim's own name."""
    assert re.fullmatch(r"[a-z][a-z0-9]{0,11}", claim(path).name)


@each_example
def test_its_first_line_says_what_it_shows(path: Path) -> None:
    """One comment of one line, then the claim; what else there is to say stands beside the field that it is about."""
    lines = path.read_text(encoding="utf-8").splitlines()
    assert re.fullmatch(r"# .{20,}\.", lines[0])
    assert not any(line.startswith("#") for line in lines[1:])


@each_example
def test_plan_finds_nothing_wrong_with_it(path: Path) -> None:
    """`gpu-provisioner plan -f` on the file ends with 0 and shows what would be asked for."""
    out, err = StringIO(), StringIO()
    assert run_command(["plan", "-f", str(path)], {}, out, err) == 0
    assert claim(path).name in out.getvalue()
    assert "If-None-Match" in out.getvalue()
    assert err.getvalue() == ""


def test_names_are_unique() -> None:
    """`kubectl apply -f examples/` makes as many claims as there are files."""
    names = [claim(path).name for path in EXAMPLES]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("stem", "owner", "storage"),
    [("kaito-workspace", "workspace", "1024Gi"), ("kaito-ragengine", "ragengine", "200Gi")],
)
def test_kaitos_claims_look_exactly_as_kaito_writes_them(stem: str, owner: str, storage: str) -> None:
    """Name, labels, annotations, order of requirements, taint, disk and expiry are those of the newest KAITO."""
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
