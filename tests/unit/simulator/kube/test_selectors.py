"""Label and field selectors: matches and errors."""

import pytest

from provisioner.simulator.kube.selectors import fields, label_selector, labels

from .stores import refused

FOUND = {"app": "web", "tier": "1", "karpenter.sh/nodepool": "gpu"}


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        ("", True),
        ("app", True),
        ("!app", False),
        ("!gone", True),
        ("app=web", True),
        ("app==web,tier=1", True),
        ("app=web,tier=2", False),
        ("app!=web", False),
        ("gone!=web", True),
        ("karpenter.sh/nodepool in (gpu, cpu)", True),
        ("app notin (web)", False),
        ("gone notin (web)", True),
        ("gone in ()", False),
        ("tier>0", True),
        ("tier<1", False),
        ("app>0", False),
        (" app = web ", True),
    ],
)
def test_label_selectors(text, chosen) -> None:
    """Equality and sets; an absent key is not in a set, and is unequal to every value."""
    assert labels(text)(FOUND) is chosen


@pytest.mark.parametrize("text", ["a b c", "in (x)", "app in x", "=x", "app > b"])
def test_invalid_label_selectors(text) -> None:
    """400, as from the real server."""
    assert refused(lambda: labels(text)).status == 400


@pytest.mark.parametrize(
    ("selector", "chosen"),
    [
        (None, False),
        ({}, True),
        ({"matchLabels": {"app": "web"}}, True),
        ({"matchLabels": {"app": "db"}}, False),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "db"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}, False),
        ({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}, False),
    ],
)
def test_structured_selectors(selector, chosen) -> None:
    """As budgets use them: a missing selector selects nothing, an empty one everything."""
    assert label_selector(selector)(FOUND) is chosen


POD = {"metadata": {"name": "p"}, "spec": {"nodeName": "n1", "unschedulable": True}, "status": {}}


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        ("spec.nodeName=n1", True),
        ("spec.nodeName!=n1", False),
        ("metadata.name==p,spec.nodeName=n1", True),
        ("status.phase=", True),
        ("status.phase!=Failed", True),
        ("spec.unschedulable=true", True),
    ],
)
def test_field_selectors(text, chosen) -> None:
    """An absent field equals the empty string; booleans are written as in JSON."""
    supported = ("metadata.name", "spec.nodeName", "status.phase", "spec.unschedulable")
    assert fields(text, supported)(POD) is chosen


@pytest.mark.parametrize("text", ["spec.image=x", "spec.nodeName"])
def test_fields_that_cannot_be_selected(text) -> None:
    """The server rejects the request instead of selecting nothing."""
    assert refused(lambda: fields(text, ("spec.nodeName",))).status == 400
