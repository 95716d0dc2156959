"""The READMEs of the charts list exactly the keys of the values, and the metadata matches the content."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tools.reference.values import parts

from .chart_values import ACCEPTED, CHART, NEEDED, known_keys, leaves, pod_of, render, schema

Json = dict[str, Any]
ROOT = CHART.parents[1]
CRD_CHART = CHART.parent / "gpu-provisioner-crd"
PAGES = [CHART / "README.md", ROOT / "docs" / "reference" / "values.md"]
CHARTS = [CHART, CRD_CHART]


def metadata(chart: Path) -> Json:
    read: Json = yaml.safe_load((chart / "Chart.yaml").read_text(encoding="utf-8"))
    return read


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_page_has_the_keys_of_values_and_schema(page: Path) -> None:
    """Each key is listed once; keys that are accepted for compatibility are in a separate table."""
    listed, _, accepted = page.read_text(encoding="utf-8").partition("Accepted for compatibility")
    named = re.findall(r"^\| `([^`]+)` \|", listed, re.MULTILINE)
    assert sorted(named) == sorted(leaves())
    also = re.findall(r"^\| `([^`]+)` \| (.+) \|$", accepted, re.MULTILINE)
    assert {name for name, _ in also} == ACCEPTED == set(known_keys(schema())) - set(leaves())


def test_every_key_is_described_in_a_sentence() -> None:
    """Each key has its own description."""
    described = [key.words for part in parts() for key in part.keys]
    assert all(words.endswith((".", ": registry.")) for words in described)
    assert len(described) == len(leaves())


@pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart.name)
def test_the_metadata_matches_the_chart(chart: Path) -> None:
    """The annotation for Artifact Hub lists the CRDs of the CRD chart; both charts have the same `kubeVersion`."""
    found = metadata(chart)
    assert found["kubeVersion"] == metadata(CHART)["kubeVersion"]
    assert "icon" not in found
    named = {
        (one["name"], one["kind"], one["version"])
        for one in yaml.safe_load(found["annotations"]["artifacthub.io/crds"])
    }
    crds = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in (CRD_CHART / "templates").glob("*.yaml")]
    assert named == {
        (c["metadata"]["name"], c["spec"]["names"]["kind"], c["spec"]["versions"][0]["name"]) for c in crds
    }


def test_the_annotated_image_has_the_tag_that_the_chart_uses() -> None:
    (image,) = yaml.safe_load(metadata(CHART)["annotations"]["artifacthub.io/images"])
    deployed = pod_of(render(NEEDED))["spec"]["containers"][0]["image"]
    assert image["image"].rpartition(":")[2] == deployed.rpartition(":")[2] == metadata(CHART)["appVersion"]


@pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart.name)
def test_the_changelog_has_a_section_for_the_version(chart: Path) -> None:
    """Before the first release, only the section Unreleased is required."""
    changes = (chart / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## \[(.+?)\]", changes, re.MULTILINE)
    assert headings[0] == "Unreleased"
    assert not headings[1:] or metadata(chart)["version"] in headings
