"""The pages that introduce the program agree with its table of features."""

import re

import pytest

from tools.reference.features import FEATURES, Feature

from .locks import ROOT

DOCS = ROOT / "docs"
# What a newcomer reads first.
INTRODUCTIONS = (
    ROOT / "README.md",
    *(DOCS / path for path in ("index.md", "faq.md", "migrating/which-one.md", "migrating/for-karpenter-users.md")),
)


def sentences(text: str) -> str:
    """The text without line breaks and marks of emphasis."""
    return re.sub(r"\s+", " ", text.replace("*", ""))


@pytest.mark.parametrize("feature", FEATURES, ids=lambda one: one.name)
def test_a_feature_is_described_and_tested(feature: Feature) -> None:
    """Its page exists, and so does its test."""
    path, _, name = feature.test.partition("::")
    assert re.search(rf"def {name}\b", (ROOT / path).read_text(encoding="utf-8"))
    assert (DOCS / feature.page.partition("#")[0]).exists()


@pytest.mark.parametrize("path", INTRODUCTIONS, ids=lambda path: path.name)
def test_no_introduction_denies_a_feature(path: object) -> None:
    """Sentences about other programs are in tables, whose cells are not read."""
    lines = [line for line in (ROOT / str(path)).read_text(encoding="utf-8").splitlines() if not line.startswith("|")]
    text = sentences("\n".join(lines))
    patterns = [pattern for feature in FEATURES for pattern in feature.denied]
    assert len(patterns) > 5
    assert [found[0] for pattern in patterns if (found := re.search(pattern, text))] == []


def test_the_home_page_leads_to_all_features() -> None:
    """By the table, and directly to what most readers look for."""
    text = (DOCS / "index.md").read_text(encoding="utf-8")
    assert "(reference/features.md)" in text
    for page in ("concepts/nodepools.md", "how-to/disruption.md", "how-to/prices.md", "how-to/kaito.md"):
        assert f"({page}" in text


def test_an_earlier_home_page_denied_features() -> None:
    """The patterns match the sentences that were there before NodePools."""
    old = "NodePools are not used: it does not consolidate machines, and there is no drift."
    denied = {feature.name for feature in FEATURES for pattern in feature.denied if re.search(pattern, old)}
    assert denied == {"Machines for pending Pods", "Consolidation", "Drift"}
