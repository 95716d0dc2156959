"""Objects of which a field does not fit: everything else of them, and of their list, is decoded."""

from typing import Any

import msgspec
import pytest

from provisioner.api.meta import Taint
from provisioner.runtime.decoding import decoded, page
from provisioner.runtime.kube_errors import KubeError
from provisioner.runtime.resources import DAEMONSETS, JOBS, NODECLAIMS, NODES, PODS, Resource

from .kube_server import obj

ODD_TIMES = ["2024-01-01T00:00:00+99:99", "0000-01-01T00:00:00Z", "2024-01-01T00:00:00,5Z", "10000-01-01T00:00:00Z"]


def taint(time: Any, key: Any = "a") -> dict[str, Any]:
    return {"key": key, "effect": "NoSchedule", "timeAdded": time}


def condition(time: Any, kind: str = "Mine") -> dict[str, Any]:
    return {"type": kind, "status": "True", "lastTransitionTime": time}


TIME = "2026-03-01T12:00:00Z"
NOT_A_TIME = "Invalid RFC3339 encoded datetime"
# The object, and the fields that are left out of it.
UNREADABLE: dict[str, tuple[Resource[Any], dict[str, Any], tuple[str, ...]]] = {
    "a condition's time": (
        NODECLAIMS,
        obj(
            "NodeClaim", "x", status={"conditions": [condition(TIME), condition(ODD_TIMES[0], "Odd"), condition(TIME)]}
        ),
        (
            f"status.conditions[1].lastTransitionTime: {NOT_A_TIME}",
            "status.conditions[1]: Object missing required field",
        ),
    ),
    "a time without a zone": (
        NODECLAIMS,
        obj("NodeClaim", "x", status={"conditions": [condition("2026-03-01T12:00:00")]}),
        (
            "status.conditions[0].lastTransitionTime: Expected `datetime` with a timezone component",
            "status.conditions[0]: Object missing required field",
        ),
    ),
    "a Node's condition": (
        NODES,
        obj("Node", "x", status={"conditions": [condition(ODD_TIMES[3], "Ready")]}),
        (f"status.conditions[0].lastTransitionTime: {NOT_A_TIME}",),
    ),
    "a pod's start": (PODS, obj("Pod", "x", status={"startTime": ODD_TIMES[1]}), (f"status.startTime: {NOT_A_TIME}",)),
    "a map's value": (
        NODECLAIMS,
        obj("NodeClaim", "x", spec={"resources": {"requests": {"a": []}}}),
        ("spec.resources.requests: Expected `int | float | str`",),
    ),
    "a member": (NODECLAIMS, obj("NodeClaim", "x", spec=[]), ("spec: Expected `object`",)),
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_a_field_that_does_not_fit_is_left_out_and_named(case: str) -> None:
    """The object is known, and `unreadable` has its fields with the cause."""
    resource, body, fields = UNREADABLE[case]
    found = decoded(msgspec.json.encode(body), resource, "get")
    assert found.metadata.name == "x"
    assert len(found.metadata.unreadable) == len(fields)
    for noted, field in zip(found.metadata.unreadable, fields, strict=True):
        assert noted.startswith(field)


def test_what_fits_is_kept() -> None:
    """Conditions before and after the one that does not fit."""
    resource, body, _ = UNREADABLE["a condition's time"]
    found = decoded(msgspec.json.encode(body), resource, "get")
    assert [one.type for one in found.status.conditions] == ["Mine", "Mine"]


@pytest.mark.parametrize("time", ODD_TIMES)
@pytest.mark.parametrize(("resource", "kind"), [(NODECLAIMS, "NodeClaim"), (NODES, "Node")])
def test_the_time_of_a_taint_is_text(resource: Resource[Any], kind: str, time: str) -> None:
    """It is only written back, exactly as it was read."""
    found = decoded(msgspec.json.encode(obj(kind, "x", spec={"taints": [taint(time)]})), resource, "get")
    assert found.metadata.unreadable == ()
    assert found.spec.taints == (Taint(key="a", effect="NoSchedule", time_added=time),)
    assert msgspec.to_builtins(found.spec.taints) == (taint(time),)


@pytest.mark.parametrize(("resource", "kind"), [(DAEMONSETS, "DaemonSet"), (JOBS, "Job")])
def test_the_metadata_of_a_template(resource: Resource[Any], kind: str) -> None:
    """API servers before Kubernetes 1.34 state that it has no creationTimestamp."""
    template = {"metadata": {"creationTimestamp": None, "labels": {"app": "a"}}}
    found = decoded(msgspec.json.encode(obj(kind, "x", spec={"template": template})), resource, "get")
    assert found.metadata.unreadable == ()


def test_one_object_does_not_cost_a_list() -> None:
    """The others are as they are, and the one is in the list."""
    odd = obj("NodeClaim", "odd", spec={"taints": [taint(TIME, key=7)]})
    body = {"kind": "NodeClaimList", "metadata": {"resourceVersion": "5"}, "items": [obj("NodeClaim", "a"), odd]}
    items, version, _ = page(msgspec.json.encode(body), NODECLAIMS, "list")
    assert [(item.name, bool(item.metadata.unreadable)) for item in items] == [("a", False), ("odd", True)]
    assert version == "5"


def test_thousands_of_fields_cost_a_few_attempts() -> None:
    """After the first ten the whole member is left out."""
    conditions = [condition("never") for _ in range(5000)]
    body = obj("NodeClaim", "x", spec={"taints": [taint(TIME)]}, status={"conditions": conditions, "nodeName": "n"})
    found = decoded(msgspec.json.encode(body), NODECLAIMS, "get")
    assert len(found.metadata.unreadable) == 11
    assert found.metadata.unreadable[-1].startswith("status: ")
    assert found.status.node_name == ""
    assert found.spec.taints


@pytest.mark.parametrize("metadata", [{"labels": 7}, {"uid": 3}, {"deletionTimestamp": "soon"}, {"finalizers": [1]}])
def test_metadata_that_does_not_fit_is_an_error(metadata: dict[str, Any]) -> None:
    """No API server sends it, and without it the object would be another one."""
    body = msgspec.json.encode({"kind": "Node", "metadata": {"name": "x", **metadata}})
    with pytest.raises(KubeError, match="x: "):
        decoded(body, NODES, "get")
