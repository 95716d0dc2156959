"""What the charts say of themselves: their READMEs name every key and no other, and their metadata is true."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tools.reference.values import parts

from .chart_values import CHART, NEEDED, leaves, pod_of, render, schema
from .test_chart_values import ACCEPTED, known_keys

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
    """Each once; those that are only accepted stand apart, with what they do."""
    told, _, accepted = page.read_text(encoding="utf-8").partition("Accepted for compatibility")
    named = re.findall(r"^\| `([^`]+)` \|", told, re.MULTILINE)
    assert sorted(named) == sorted(leaves())
    also = re.findall(r"^\| `([^`]+)` \| (.+) \|$", accepted, re.MULTILINE)
    assert {name for name, _ in also} == ACCEPTED == set(known_keys(schema())) - set(leaves())


def test_every_key_is_described_in_a_sentence() -> None:
    """Its own, not its neighbour's."""
    told = [key.words for part in parts() for key in part.keys]
    assert all(words.endswith((".", ": registry.")) for words in told)
    assert len(told) == len(leaves())


@pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart.name)
def test_the_metadata_is_true(chart: Path) -> None:
    """The definitions that Artifact Hub is told of are those of the definitions' chart; both have the same bounds."""
    told = metadata(chart)
    assert told["kubeVersion"] == metadata(CHART)["kubeVersion"]
    assert "icon" not in told
    named = {
        (one["name"], one["kind"], one["version"]) for one in yaml.safe_load(told["annotations"]["artifacthub.io/crds"])
    }
    crds = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in (CRD_CHART / "templates").glob("*.yaml")]
    assert named == {
        (c["metadata"]["name"], c["spec"]["names"]["kind"], c["spec"]["versions"][0]["name"]) for c in crds
    }


def test_the_image_that_is_named_is_the_one_that_runs() -> None:
    """By default."""
    (image,) = yaml.safe_load(metadata(CHART)["annotations"]["artifacthub.io/images"])
    assert image["image"] == pod_of(render(NEEDED))["spec"]["containers"][0]["image"]


@pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart.name)
def test_a_version_that_is_released_has_its_changes(chart: Path) -> None:
    """Until the first one, what is unreleased; afterwards a heading for the version in Chart.yaml, too."""
    changes = (chart / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## \[(.+?)\]", changes, re.MULTILINE)
    assert headings[0] == "Unreleased"
    assert not headings[1:] or metadata(chart)["version"] in headings
