"""The store: versions, metadata, finalizers, preconditions, and the order of notifications."""

from datetime import timedelta

import pytest

from provisioner.simulator.kube.errors import ApiError
from provisioner.simulator.kube.resources import CRD_KEY
from provisioner.simulator.kube.store import Store
from provisioner.simulator.kube.writes import WriteOptions

from .stores import BEGIN, WIDGETS, Cluster, refused

DRY = WriteOptions(dry_run=True)


def test_the_server_sets_the_system_fields_of_a_new_object() -> None:
    """UID, version, generation and creation time come from the server, whatever was sent."""
    c = Cluster()
    sent = {
        "name": "w1",
        "uid": "mine",
        "generation": 7,
        "creationTimestamp": "2001-01-01T00:00:00Z",
    }
    meta = c.store.create(WIDGETS, {"metadata": sent, "spec": {"size": 1}})["metadata"]
    assert meta["uid"] != "mine"
    assert (meta["generation"], meta["creationTimestamp"]) == (1, "2026-03-01T12:00:00Z")
    assert int(meta["resourceVersion"]) == c.store.revision


def test_equal_seeds_give_equal_uids_and_names() -> None:
    """Two clusters with one seed have the same UIDs and generated names."""
    first, second = Cluster(), Cluster()
    sent = {"metadata": {"generateName": "w-"}, "spec": {"size": 1}}
    assert first.store.create(WIDGETS, sent) == second.store.create(WIDGETS, sent)


def test_generated_names_differ() -> None:
    """`generateName` is completed by five random characters."""
    c = Cluster()
    names = [c.store.create("pods", {"metadata": {"generateName": "p-"}})["metadata"]["name"] for _ in range(3)]
    assert len(set(names)) == 3
    assert all(name.startswith("p-") and len(name) == 7 for name in names)


def test_one_revision_counts_the_writes_of_all_kinds() -> None:
    """Versions of different kinds are comparable, as etcd's are."""
    c = Cluster()
    versions = [int(o["metadata"]["resourceVersion"]) for o in (c.node(), c.widget(), c.node("n2"))]
    assert versions == [versions[0], versions[0] + 1, versions[0] + 2]


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


def test_a_write_without_a_change_is_ignored() -> None:
    """It makes no new version, and no subscriber is called."""
    c = Cluster()
    before = c.widget(labels={"a": "b"})
    c.reported.clear()
    assert c.store.patch(WIDGETS, "w1", {"metadata": {"labels": {"a": "b"}}, "spec": {"size": 1}}) == before
    assert c.store.replace(WIDGETS, "w1", before) == before
    assert c.reported == []


def test_generation_counts_changes_of_the_spec_only() -> None:
    """Changes of labels and status do not increase it; changes of the spec and a deletion do."""
    c = Cluster()
    c.widget(finalizers=["example.com/f"])
    labelled = c.store.patch(WIDGETS, "w1", {"metadata": {"labels": {"a": "b"}}})
    reported = c.store.patch(WIDGETS, "w1", {"status": {"phase": "x"}}, subresource="status")
    grown = c.store.patch(WIDGETS, "w1", {"spec": {"size": 2}})
    deleted = c.store.delete(WIDGETS, "w1").obj
    assert [o["metadata"]["generation"] for o in (labelled, reported, grown, deleted)] == [1, 1, 2, 3]


def test_status_is_written_separately() -> None:
    """A write to the object keeps the status; a write to /status of a custom resource keeps everything else."""
    c = Cluster()
    c.widget()
    c.store.patch(WIDGETS, "w1", {"status": {"phase": "x"}, "spec": {"size": 9}}, subresource="status")
    after = c.store.patch(WIDGETS, "w1", {"status": {"phase": "y"}, "metadata": {"labels": {"a": "b"}}})
    assert (after["spec"]["size"], after["status"]) == (1, {"phase": "x"})
    again = c.store.patch(
        WIDGETS, "w1", {"metadata": {"labels": {"c": "d"}}, "status": {"phase": "z"}}, subresource="status"
    )
    assert (again["metadata"]["labels"], again["status"]) == ({"a": "b"}, {"phase": "z"})


def test_a_status_in_a_create_request() -> None:
    """A Node keeps it, as the kubelet relies on; a pod becomes Pending, and a custom resource has none."""
    c = Cluster()
    assert c.node(status={"capacity": {"cpu": "1"}})["status"] == {"capacity": {"cpu": "1"}}
    assert (
        c.store.create("pods", {"metadata": {"name": "p"}, "status": {"phase": "Running"}})["status"]["phase"]
        == "Pending"
    )
    assert "status" not in c.store.create(
        WIDGETS, {"metadata": {"name": "w"}, "spec": {"size": 1}, "status": {"phase": "x"}}
    )


def test_a_stale_write_is_a_conflict() -> None:
    """PUT and PATCH with an old version change nothing."""
    c = Cluster()
    old = c.widget()
    c.store.patch(WIDGETS, "w1", {"spec": {"size": 2}})
    version = old["metadata"]["resourceVersion"]
    for error in (
        refused(lambda: c.store.replace(WIDGETS, "w1", old)),
        refused(lambda: c.store.patch(WIDGETS, "w1", {"metadata": {"resourceVersion": version}, "spec": {"size": 3}})),
    ):
        assert (error.status, error.reason) == (409, "Conflict")
        assert "the object has been modified; please apply your changes to the latest version" in error.message
    got = c.store.get(WIDGETS, "w1")
    assert got is not None
    assert got["spec"]["size"] == 2


def test_a_put_without_a_version() -> None:
    """Custom resources and leases require a resourceVersion; a Node does not."""
    c = Cluster()
    c.widget()
    c.node()
    error = refused(lambda: c.store.replace(WIDGETS, "w1", {"metadata": {"name": "w1"}, "spec": {"size": 2}}))
    assert (error.status, error.message) == (
        422,
        'widgets.example.com "w1" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an '
        "update",
    )
    assert c.store.replace("nodes", "n1", {"metadata": {"name": "n1"}, "spec": {"unschedulable": True}})["spec"][
        "unschedulable"
    ]


def test_a_write_to_another_uid_is_refused() -> None:
    """An object that was re-created under the same name has another UID; to a patch it is a change of the UID."""
    c = Cluster()
    old = c.widget()["metadata"]["uid"]
    c.store.delete(WIDGETS, "w1")
    c.widget()
    deletion = refused(lambda: c.store.delete(WIDGETS, "w1", uid=old))
    assert (deletion.status, f"the UID in the precondition ({old})" in deletion.message) == (409, True)
    patch = refused(lambda: c.store.patch(WIDGETS, "w1", {"metadata": {"uid": old, "labels": {"a": "b"}}}))
    assert (patch.status, patch.details["causes"][0]["field"]) == (422, "metadata.uid")


def test_a_delete_with_a_version_precondition() -> None:
    """A resourceVersion that is not current is a conflict."""
    c = Cluster()
    old = c.widget()["metadata"]["resourceVersion"]
    c.store.patch(WIDGETS, "w1", {"spec": {"size": 2}})
    assert refused(lambda: c.store.delete(WIDGETS, "w1", rv=old)).status == 409
    assert c.store.delete(WIDGETS, "w1", rv=str(c.store.revision)).gone


def test_names_are_taken_until_the_object_is_gone() -> None:
    """AlreadyExists names the kind as clients expect it."""
    c = Cluster()
    c.widget(finalizers=["example.com/f"])
    c.store.delete(WIDGETS, "w1")
    error = refused(c.widget)
    assert (error.status, error.reason, error.message) == (
        409,
        "AlreadyExists",
        'object is being deleted: widgets.example.com "w1" already exists',
    )
    assert error.details == {"name": "w1", "group": "example.com", "kind": "widgets"}


def test_an_object_is_deleted_with_its_last_finalizer() -> None:
    """Setting the deletionTimestamp is a change; removing the last finalizer is the deletion."""
    c = Cluster()
    c.widget(finalizers=["example.com/a", "example.com/b"])
    c.reported.clear()
    obj, gone = c.store.delete(WIDGETS, "w1")
    assert (gone, obj["metadata"]["deletionTimestamp"]) == (False, "2026-03-01T12:00:00Z")
    c.after(60)
    assert c.store.delete(WIDGETS, "w1").obj == obj
    c.store.patch(WIDGETS, "w1", {"metadata": {"finalizers": ["example.com/b"]}})
    c.store.patch(WIDGETS, "w1", {"metadata": {"finalizers": None}})
    assert c.store.get(WIDGETS, "w1") is None
    assert [kind for kind, _, _ in c.reported] == ["MODIFIED", "MODIFIED", "DELETED"]


def test_the_last_version_of_a_deleted_object_is_newer_than_all_before() -> None:
    """A watcher can order a deletion by its resourceVersion."""
    c = Cluster()
    born = c.node()
    obj, gone = c.store.delete("nodes", "n1")
    assert gone
    assert int(obj["metadata"]["resourceVersion"]) == int(born["metadata"]["resourceVersion"]) + 1


def test_the_response_to_the_removal_of_the_last_finalizer() -> None:
    """It has the version before the deletion; watch events have the version of the deletion."""
    c = Cluster()
    c.widget(finalizers=["example.com/a"])
    c.store.delete(WIDGETS, "w1")
    before = c.store.revision
    answer = c.store.patch(WIDGETS, "w1", {"metadata": {"finalizers": None}})
    assert int(answer["metadata"]["resourceVersion"]) == before
    assert c.store.revision == before + 1


def test_a_deleting_object_takes_no_new_finalizer() -> None:
    """The API forbids it, so a late controller cannot delay the deletion."""
    c = Cluster()
    c.widget(finalizers=["example.com/a"])
    c.store.delete(WIDGETS, "w1")
    error = refused(
        lambda: c.store.patch(
            WIDGETS, "w1", {"metadata": {"finalizers": ["example.com/a", "karpenter.sh/termination"]}}
        )
    )
    assert error.status == 422
    assert 'found new finalizers []string{"karpenter.sh/termination"}' in error.message


def test_a_deletion_cannot_be_undone() -> None:
    """A deletionTimestamp cannot be unset or changed."""
    c = Cluster()
    old = c.widget(finalizers=["example.com/a"])
    c.store.delete(WIDGETS, "w1")
    c.after(5)
    old["metadata"]["resourceVersion"] = str(c.store.revision)
    c.store.replace(WIDGETS, "w1", {**old, "spec": {"size": 5}})
    after = c.store.patch(WIDGETS, "w1", {"metadata": {"deletionTimestamp": None}})
    assert after["metadata"]["deletionTimestamp"] == "2026-03-01T12:00:00Z"


def test_a_bound_pod_stays_terminating_until_its_kubelet_deletes_it() -> None:
    """The grace period sets the deletionTimestamp to a time in the future; grace 0 removes the pod."""
    c = Cluster()
    c.pod()
    obj, gone = c.store.delete("pods", "p1", "default")
    assert (gone, obj["metadata"]["deletionGracePeriodSeconds"]) == (False, 30)
    assert obj["metadata"]["deletionTimestamp"] == "2026-03-01T12:00:30Z"
    c.after(600)
    assert c.store.get("pods", "p1", "default") is not None
    assert c.store.delete("pods", "p1", "default", grace=0).gone


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


@pytest.mark.parametrize(("node", "phase"), [("", "Pending"), ("n1", "Succeeded"), ("n1", "Failed")])
def test_pods_without_a_node_are_deleted_at_once(node, phase) -> None:
    """No kubelet runs them."""
    c = Cluster()
    c.pod(node=node, phase=phase)
    assert c.store.delete("pods", "p1", "default").gone


def test_a_dry_run_changes_nothing() -> None:
    """Create, change and delete are validated and answered, and make no version."""
    c = Cluster()
    c.widget()
    revision = c.store.revision
    created = c.store.create(WIDGETS, {"metadata": {"name": "w2"}, "spec": {"size": 1}}, options=DRY)
    changed = c.store.patch(WIDGETS, "w1", {"spec": {"size": 2}}, options=DRY)
    gone = c.store.delete(WIDGETS, "w1", options=DRY).gone
    assert ("resourceVersion" in created["metadata"], changed["spec"]["size"], gone) == (False, 2, True)
    assert (c.store.revision, len(c.store.list(WIDGETS))) == (revision, 1)
    assert refused(lambda: c.store.patch(WIDGETS, "w1", {"spec": {"size": 99}}, options=DRY)).status == 422


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


def test_lists_are_ordered_and_selected() -> None:
    """By namespace and name; label and field selectors apply."""
    c = Cluster()
    for name, labels in (("c", {"x": "1"}), ("a", {"x": "2"}), ("b", {})):
        c.pod(name, node=f"on-{name}", labels=labels)
    names = [
        [o["metadata"]["name"] for o in c.store.list("pods", **selector)]
        for selector in (
            {},
            {"labels": "x in (1,2)"},
            {"labels": "!x"},
            {"fields": "spec.nodeName=on-a"},
            {"namespace": "kube-system"},
        )
    ]
    assert names == [["a", "b", "c"], ["a", "c"], ["b"], ["a"], []]


def test_a_namespaced_object_needs_its_namespace() -> None:
    """An object is not created in a namespace that does not exist."""
    error = refused(lambda: Cluster().store.create("pods", {"metadata": {"name": "p"}}, "nowhere"))
    assert (error.status, error.message) == (404, 'namespaces "nowhere" not found')


@pytest.mark.parametrize(
    ("metadata", "field"),
    [
        ({"name": "Upper"}, "metadata.name"),
        ({"name": "x" * 254}, "metadata.name"),
        ({}, "metadata.name"),
        ({"name": "n", "labels": {"a": "has space"}}, "metadata.labels"),
        ({"name": "n", "labels": {"a": "x" * 64}}, "metadata.labels"),
        ({"name": "n", "labels": {"-a": "b"}}, "metadata.labels"),
        ({"name": "n", "labels": {"Dom.Ain/a": "b"}}, "metadata.labels"),
        ({"name": "n", "annotations": {"a b": ""}}, "metadata.annotations"),
        ({"name": "n", "annotations": {"a": "x" * 262144}}, "metadata.annotations"),
        ({"name": "n", "finalizers": ["a/b/c"]}, "metadata.finalizers"),
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


@pytest.mark.parametrize(
    "metadata",
    [[], {"name": 1}, {"name": "n", "labels": []}, {"name": "n", "labels": {"a": 1}}, {"name": "n", "finalizers": [1]}],
)
def test_metadata_of_the_wrong_type_is_not_understood(metadata) -> None:
    """400, as from Go's decoder."""
    assert refused(lambda: Cluster().store.create("nodes", {"metadata": metadata})).status == 400


def test_unknown_metadata_is_reported_or_dropped() -> None:
    """Strict rejects the request, Warn warns, Ignore drops the field."""
    c = Cluster()
    sent = {"metadata": {"name": "n1", "lables": {}}}
    assert 'unknown field "metadata.lables"' in refused(lambda: c.store.create("nodes", sent)).message
    warnings: list[str] = []
    created = c.store.create("nodes", sent, options=WriteOptions(field_validation="Warn", warn=warnings.append))
    assert warnings == ['unknown field "metadata.lables"']
    assert "lables" not in created["metadata"]


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"taints": [{"key": "a", "effect": "Never"}]}, 'Unsupported value: "Never"'),
        ({"taints": [{"effect": "NoSchedule"}]}, "metadata.taints[0].key"),
        ({"taints": [{"key": "a", "effect": "NoSchedule"}] * 2}, "metadata.taints[1]: Duplicate value"),
    ],
)
def test_taints_are_checked(spec, words) -> None:
    """The effect must be known, and a key has each effect at most once."""
    error = refused(lambda: Cluster().node(spec=spec))
    assert error.status == 422
    assert words in error.message


def test_a_node_keeps_its_provider_id() -> None:
    """It is set once and cannot be changed."""
    c = Cluster()
    c.node()
    c.store.patch("nodes", "n1", {"spec": {"providerID": "azure:///a"}})
    assert refused(lambda: c.store.patch("nodes", "n1", {"spec": {"providerID": "azure:///b"}})).status == 422


def test_events_are_in_the_namespace_of_their_object() -> None:
    """Events of cluster-scoped objects are in `default`; any other namespace is rejected."""
    c = Cluster()
    event = {"metadata": {"name": "e"}, "involvedObject": {"kind": "Node", "name": "n1"}}
    c.store.create("events", event, "default")
    error = refused(lambda: c.store.create("events", event, "kube-system"))
    assert "involvedObject.namespace" in error.message


def test_a_lease_needs_a_duration() -> None:
    """A lease without a duration is rejected, and a PUT needs a resourceVersion."""
    c = Cluster()
    lease = {"metadata": {"name": "l"}, "spec": {"leaseDurationSeconds": 0}}
    assert refused(lambda: c.store.create("leases.coordination.k8s.io", lease, "kube-system")).status == 422
    lease["spec"] = {"leaseDurationSeconds": 30}
    c.store.create("leases.coordination.k8s.io", lease, "kube-system")
    assert refused(lambda: c.store.replace("leases.coordination.k8s.io", "l", lease, "kube-system")).status == 422


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


def test_all_times_are_of_the_given_clock() -> None:
    """No other clock is read."""
    c = Cluster()
    c.now = BEGIN + timedelta(days=400)
    assert c.node()["metadata"]["creationTimestamp"] == "2027-04-05T12:00:00Z"


def test_unknown_kinds_and_objects_are_distinguished() -> None:
    """404 for both, but only a missing object has its name in the details."""
    store: Store = Cluster().store
    unknown, missing = refused(lambda: store.get("gizmos", "a")), refused(lambda: store.patch("nodes", "a", {}))
    assert (unknown.details, missing.details) == ({}, {"name": "a", "kind": "nodes"})
    assert isinstance(unknown, ApiError)
