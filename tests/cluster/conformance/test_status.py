"""The status subresource: separate writes of object and status."""

import pytest

from .server import MERGE, Server
from .things import CLAIMS, NODES, WIDGETS, at, claim, node, pod, widget, widget_body

pytestmark = pytest.mark.asyncio

NOW = "2026-03-01T12:00:00Z"


async def test_a_new_custom_resource_has_no_status(server: Server) -> None:
    """The status of a create is dropped for a custom resource and stored for a Node."""
    body = widget_body(server) | {"status": {"phase": "on"}}
    assert "status" not in await server.done("POST", WIDGETS, body)
    made = await node(server, status={"capacity": {"cpu": "4"}})
    assert made["status"]["capacity"] == {"cpu": "4"}


async def test_a_write_to_the_object_keeps_its_status(server: Server) -> None:
    """A patch of the status on the main resource is ignored, for a claim and for a Node."""
    made, other = await claim(server), await node(server)
    patched = await server.patch(at(CLAIMS, made), {"status": {"nodeName": "n"}})
    assert "status" not in patched
    patched = await server.patch(at(NODES, other), {"status": {"capacity": {"cpu": "4"}}})
    assert "capacity" not in patched["status"]


async def test_a_write_to_the_status_keeps_the_object(server: Server) -> None:
    """Spec, labels, annotations and finalizers of a custom resource cannot be written through /status."""
    made = await widget(server)
    body = {
        "metadata": {"labels": {"no": "no"}, "annotations": {"no": "no"}, "finalizers": ["example.com/no"]},
        "spec": {"size": 9},
        "status": {"phase": "on"},
    }
    patched = await server.patch(at(WIDGETS, made, "status"), body)
    assert patched["status"] == {"phase": "on"}
    assert patched["spec"] == made["spec"]
    different = {"resourceVersion"}
    assert {k: v for k, v in patched["metadata"].items() if k not in different} == {
        k: v for k, v in made["metadata"].items() if k not in different
    }


async def test_labels_of_a_node_can_be_written_with_its_status(server: Server) -> None:
    """Built-in kinds accept metadata through /status, but no spec."""
    made = await node(server)
    body = {"metadata": {"labels": {"a": "b"}}, "spec": {"unschedulable": True}, "status": {"phase": "Running"}}
    patched = await server.patch(at(NODES, made, "status"), body)
    assert patched["metadata"]["labels"]["a"] == "b"
    assert not patched["spec"].get("unschedulable")
    assert patched["status"]["phase"] == "Running"


async def test_the_status_is_read_with_the_object(server: Server) -> None:
    """GET of /status returns the whole object."""
    made = await claim(server)
    await server.patch(at(CLAIMS, made, "status"), {"status": {"nodeName": "n"}})
    assert await server.get(at(CLAIMS, made, "status")) == await server.get(at(CLAIMS, made))


async def test_a_put_to_the_status_replaces_all_of_it(server: Server) -> None:
    """A PUT to /status removes what it does not send."""
    made = await claim(server)
    await server.patch(at(CLAIMS, made, "status"), {"status": {"nodeName": "n", "providerID": "p"}})
    found = await server.get(at(CLAIMS, made))
    put = await server.done("PUT", at(CLAIMS, made, "status"), {**found, "status": {"imageID": "i"}})
    assert put["status"] == {"imageID": "i"}


async def test_the_status_is_validated(server: Server) -> None:
    """Types, enums, patterns and required fields are validated; each cause has its path."""
    made = await claim(server)
    wrong = {"type": "Ready", "status": "Maybe", "reason": "a b", "lastTransitionTime": "yesterday"}
    body = {"status": {"nodeName": 1, "conditions": [wrong, {"type": "Launched"}]}}
    result = await server.refused(422, "Invalid", "PATCH", at(CLAIMS, made, "status"), body, how=MERGE)
    causes = {(cause["field"], cause["reason"]) for cause in result["details"]["causes"]}
    assert causes >= {
        ("status.nodeName", "FieldValueTypeInvalid"),
        ("status.conditions[0].status", "FieldValueNotSupported"),
        ("status.conditions[0].reason", "FieldValueInvalid"),
        ("status.conditions[0].lastTransitionTime", "FieldValueTypeInvalid"),
        ("status.conditions[1].status", "FieldValueRequired"),
        ("status.conditions[1].lastTransitionTime", "FieldValueRequired"),
    }


async def test_a_condition_type_is_unique(server: Server) -> None:
    """A second condition of one type is a duplicate."""
    made = await claim(server)
    ready = {"type": "Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": NOW}
    body = {"status": {"conditions": [ready, {**ready, "status": "False"}]}}
    result = await server.refused(422, "Invalid", "PATCH", at(CLAIMS, made, "status"), body, how=MERGE)
    (cause,) = result["details"]["causes"]
    assert (cause["field"], cause["reason"]) == ("status.conditions[1]", "FieldValueDuplicate")
    assert cause["message"] == 'Duplicate value: {"type":"Ready"}'


async def test_the_status_of_a_pod(server: Server) -> None:
    """A new pod is Pending whatever was sent; its phase and conditions are written through /status."""
    made = await pod(server)
    assert made["status"]["phase"] == "Pending"
    assert (await pod(server, phase="Failed"))["status"]["phase"] == "Failed"
