"""Tolerations as doctor prints them: what the API server reads of them is what the taint has."""

import pytest
import yaml

from controllers.node.health.placement import place_of, snippet
from provisioner.api.meta import ObjectMeta, OwnerReference
from provisioner.api.pod import Toleration
from provisioner.api.workload import DaemonSet


@pytest.mark.parametrize("text", ["on", "8", "null", "true", "1e3", "2026-01-01", "0x10", "sku", "nvidia.com/gpu"])
def test_keys_and_values_are_text(text: str) -> None:
    """Also those that YAML reads as another type."""
    wanted = Toleration(key=text, operator="Equal", value=text, effect="NoSchedule")
    (found,) = yaml.safe_load("\n".join(snippet([wanted])))["tolerations"]
    assert found == {"key": text, "operator": "Equal", "value": text, "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("kind", "place"),
    [
        ("ClusterPolicy", "spec.daemonsets of ClusterPolicy gpu, which owns the DaemonSet"),
        ("Application", "spec.template.spec of the DaemonSet"),
        ("", "spec.template.spec of the DaemonSet"),
    ],
)
def test_the_object_to_change(kind: str, place: str) -> None:
    """The object of a GPU operator, which undoes a change of its DaemonSet; other owners do not."""
    owners = (OwnerReference(api_version="v1", kind=kind, name="gpu", uid="1"),) if kind else ()
    assert place_of(DaemonSet(metadata=ObjectMeta(name="d", owner_references=owners))) == place
