"""The store, beside what tests/cluster/conformance shows of it: seeds, copies, subscribers, and CRDs."""

from typing import Any

import pytest

from provisioner.simulator.kube.objects import Record
from provisioner.simulator.kube.resources import CRD_KEY

from .stores import WIDGETS, Cluster, refused


def test_equal_seeds_give_equal_uids_and_names() -> None:
    """Two clusters with one seed have the same UIDs and generated names."""
    first, second = Cluster(), Cluster()
    sent = {"metadata": {"generateName": "w-"}, "spec": {"size": 1}}
    assert first.store.create(WIDGETS, sent) == second.store.create(WIDGETS, sent)


def test_objects_are_copied_in_and_out() -> None:
    """A change to an object that was read or sent does not change the store."""
    c = Cluster()
    spec = {"size": 1, "parts": []}
    given = c.widget(spec=spec)
    spec["size"] = 5
    given["spec"]["size"] = 6
    c.store.list(WIDGETS)[0]["spec"]["size"] = 7
    got = c.store.get(WIDGETS, "w1")
    assert got is not None
    assert got["spec"]["size"] == 1


def test_json_is_as_long_as_that_of_the_api_server() -> None:
    """Which has six bytes for "<"."""
    record = Record({"metadata": {"resourceVersion": "1", "annotations": {"note": "a<b"}}})
    assert rb'"note":"a\u003cb"' in record.raw


def test_the_grace_of_a_terminating_pod_can_only_get_shorter() -> None:
    """A later, longer grace period is ignored; a shorter one counts from the first deletion."""
    c = Cluster()
    c.pod()
    c.store.delete("pods", "p1", "default")
    c.after(5)
    assert (
        c.store.delete("pods", "p1", "default", grace=60).obj["metadata"]["deletionTimestamp"] == "2026-03-01T12:00:30Z"
    )
    assert (
        c.store.delete("pods", "p1", "default", grace=10).obj["metadata"]["deletionTimestamp"] == "2026-03-01T12:00:10Z"
    )


def test_subscribers_are_called_in_order_even_when_they_write() -> None:
    """A write of a subscriber is reported after the write that is being reported."""
    c = Cluster(widgets=False)
    heard: list[str] = []

    def writer(kind, _key, obj, _before) -> None:
        if kind == "ADDED" and obj["metadata"]["name"] == "n1":
            c.node("n2")

    c.store.subscribe(writer)
    c.store.subscribe(lambda kind, key, obj, before: heard.append(obj["metadata"]["name"]))
    c.node("n1")
    assert heard == ["n1", "n2"]


def test_subscribers_get_the_object_before() -> None:
    """It is the version before the change, and None for a new object."""
    c = Cluster()
    heard = []
    c.store.subscribe(lambda kind, key, obj, before: heard.append((kind, obj["spec"], before and before["spec"])))
    c.widget(spec={"size": 1, "colour": "red"})
    c.store.patch(WIDGETS, "w1", {"spec": {"size": 2}})
    c.store.delete(WIDGETS, "w1")
    yes, no = {"size": 1, "colour": "red"}, {"size": 2, "colour": "red"}
    assert heard == [("ADDED", yes, None), ("MODIFIED", no, yes), ("DELETED", no, no)]


def test_a_kind_is_served_while_its_crd_exists() -> None:
    """The CRD's status reports it; a changed CRD applies at once."""
    c = Cluster(widgets=False)
    assert refused(lambda: c.store.list(WIDGETS)).status == 404
    c = Cluster()
    crd = c.store.get(CRD_KEY, WIDGETS)
    assert crd is not None
    assert {x["type"]: x["status"] for x in crd["status"]["conditions"]} == {
        "NamesAccepted": "True",
        "Established": "True",
    }
    assert refused(lambda: c.widget(spec={"size": 10})).status == 422
    path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/size/maximum"
    c.store.patch(CRD_KEY, WIDGETS, [{"op": "replace", "path": path, "value": 10}], how="json")
    c.widget(spec={"size": 10})


def test_a_crd_that_does_not_compile_is_refused() -> None:
    """Errors are reported when the CRD is created, not when it is used."""
    store = Cluster(widgets=False).store
    broken = {
        "metadata": {"name": "x.y"},
        "spec": {"group": "y", "names": {"plural": "x", "kind": "X"}, "scope": "Cluster"},
    }
    assert refused(lambda: store.create(CRD_KEY, broken)).status == 422
    rule = [{"rule": "self ==", "message": "?"}]
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-validations": rule}}
    broken["spec"]["versions"] = [{"name": "v1", "storage": True, "served": True, "schema": schema}]
    assert "CELParseError" in refused(lambda: store.create(CRD_KEY, broken)).message


def test_the_initial_namespaces_cannot_be_deleted() -> None:
    """They exist from the start."""
    store = Cluster().store
    assert [n["metadata"]["name"] for n in store.list("namespaces")] == ["default", "kube-node-lease", "kube-system"]
    assert refused(lambda: store.delete("namespaces", "default")).status == 403


@pytest.mark.parametrize(
    ("metadata", "field"),
    [
        ({"name": "x" * 254}, "metadata.name"),
        ({"name": "n", "annotations": {"a b": ""}}, "metadata.annotations"),
        (
            {"name": "n", "ownerReferences": [{"kind": "X", "name": "x", "uid": "u"}]},
            "metadata.ownerReferences.apiVersion",
        ),
    ],
)
def test_metadata_that_the_real_server_refuses(metadata, field) -> None:
    """422, and the cause names the field."""
    error = refused(lambda: Cluster().store.create("nodes", {"metadata": metadata}))
    assert error.status == 422
    assert error.details["causes"][0]["field"] == field


def test_a_mutating_webhook_changes_what_is_created() -> None:
    """Before validation, and only at creation."""
    c = Cluster()

    def change(resource: str, obj: dict[str, Any]) -> None:
        obj["metadata"].setdefault("labels", {})["for"] = resource

    c.store.mutating_webhooks.append(change)
    made = c.widget()
    assert made["metadata"]["labels"] == {"for": WIDGETS}
    changed = c.store.patch(WIDGETS, "w1", {"metadata": {"labels": None}})
    assert "labels" not in changed["metadata"]
