"""The cached form of pods: what is kept of pending and of bound pods, and what equal pods share."""

import tracemalloc
from functools import partial
from typing import Any

import msgspec
import pytest

from controllers.provisioning.daemons import daemon_specs
from controllers.provisioning.pods import NOT_CONSTRAINTS, CachedPod, PodDigest, bound, provisionable
from provisioner.api.bounded_digest import BoundedDigest
from provisioner.api.pod import Pod, PodSpec, PodStatus
from provisioner.api.workload import DaemonSet

PENDING = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}
ANTI = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "a"}}}
        ]
    }
}


def decoded(name: str, *, on: str = "", owner: str = "ReplicaSet", age: int = 0, **spec: Any) -> Pod:
    body = {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "labels": {"app": "a"},
            "annotations": {"long": "text"},
            "creationTimestamp": f"2026-03-01T12:00:{30 - age:02}Z",
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": owner, "name": "o", "uid": "o"}],
        },
        "spec": {"nodeName": on, "containers": [{"resources": {"requests": {"cpu": "1"}}}], **spec},
        "status": {} if on else PENDING,
    }
    return msgspec.convert(body, Pod)


def test_equal_pods_share_their_constraints() -> None:
    """Pods of one workload have one copy, on whichever Nodes they run; annotations and specs are dropped."""
    digest = PodDigest()
    one, other = digest(decoded("a", on="n1")), digest(decoded("b", on="n2"))
    assert isinstance(one, CachedPod)
    assert isinstance(other, CachedPod)
    assert one.constraints is other.constraints
    assert (one.spec.node_name, other.spec.node_name) == ("n1", "n2")
    assert not one.metadata.annotations
    assert not one.spec.containers
    assert one.constraints.requests == {"cpu": 1000, "pods": 1000}
    assert one.constraints.labels == {"app": "a"}


OF_SPEC: dict[str, Any] = {
    "nodeName": "n1",
    "schedulerName": "other",
    "schedulingGates": [{"name": "g"}],
    "nodeSelector": {"x": "y"},
    "affinity": ANTI,
    "tolerations": [{"operator": "Exists"}],
    "topologySpreadConstraints": [{"topologyKey": "zone"}],
    "containers": [{}],
    "initContainers": [{}],
    "resources": {"requests": {"cpu": "2"}},
    "overhead": {"cpu": "1"},
    "hostNetwork": True,
    "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
    "priority": 1000,
    "priorityClassName": "high",
    "terminationGracePeriodSeconds": 900,
    "resourceClaims": [{"name": "c", "resourceClaimName": "c"}],
}


@pytest.mark.parametrize("field", OF_SPEC)
def test_what_is_a_pods_own_is_no_constraint(field: str) -> None:
    """Every field of a spec is a constraint, which other pods do not share, or is left out of what is compared."""
    assert PodSpec.__struct_encode_fields__ == tuple(OF_SPEC)
    digest = PodDigest()
    one, other = digest(decoded("a")), digest(decoded("b", **{field: OF_SPEC[field]}))
    assert isinstance(one, CachedPod)
    assert isinstance(other, CachedPod)
    encoded = dict(zip(PodSpec.__struct_encode_fields__, PodSpec.__struct_fields__, strict=True))
    assert (one.shared is other.shared) == (encoded[field] in NOT_CONSTRAINTS)


def test_the_state_of_a_pod_is_no_constraint() -> None:
    """Its phase, conditions, containers, Node and deletion change often, and pods of one workload differ in them."""
    digest, made = PodDigest(), decoded("a")
    status = {
        "phase": "Running",
        "reason": "r",
        "message": "m",
        "startTime": "2026-03-01T12:00:00Z",
        "conditions": [{"type": "Ready", "status": "True", "message": "m"}],
        "containerStatuses": [{"name": "c", "restartCount": 9}],
        "initContainerStatuses": [{"name": "i", "restartCount": 9}],
        "nominatedNodeName": "n2",
        "resourceClaimStatuses": [{"name": "c", "resourceClaimName": "c"}],
    }
    assert PodStatus.__struct_encode_fields__ == tuple(status)
    meta = msgspec.structs.replace(made.metadata, deletion_timestamp=made.metadata.creation_timestamp)
    other = msgspec.structs.replace(made, metadata=meta, status=msgspec.convert(status, PodStatus))
    first, second = digest(made), digest(other)
    assert isinstance(first, CachedPod)
    assert isinstance(second, CachedPod)
    assert first.shared is second.shared


def test_constraints_of_a_bound_pod() -> None:
    """Others observe its anti-affinity; its own node selector, tolerations and preferences no longer matter."""
    found = PodDigest()(decoded("a", on="n1", affinity=ANTI, nodeSelector={"x": "y"}))
    assert isinstance(found, CachedPod)
    assert [term.kind for term in found.constraints.topology] == ["anti-affinity"]
    assert found.constraints.alternatives == ({},)


def test_provisionable_pods_by_age() -> None:
    """Those that have waited longest come first; bound and ignored pods are left out."""
    digest = PodDigest()
    pods = [
        digest(one)
        for one in (
            decoded("new", age=1),
            decoded("old", age=9),
            decoded("bound", on="n"),
            decoded("daemon", owner="DaemonSet", age=5),
        )
    ]
    assert [pod.name for pod in provisionable(pods)] == ["default/old", "default/new"]
    assert {node: [one.daemon for one in found] for node, found in bound(pods).items()} == {"n": [False]}


@pytest.mark.parametrize("on", ["", "n1"])
def test_pod_of_a_daemon_set(on: str) -> None:
    """It is marked, so that its requests are not counted twice on its Node."""
    found = PodDigest()(decoded("a", on=on, owner="DaemonSet"))
    assert isinstance(found, CachedPod)
    assert found.daemon


def test_daemon_sets() -> None:
    """Each contributes the constraints of its template; one that cannot be scheduled is left out."""
    template = {
        "metadata": {"labels": {"app": "d"}},
        "spec": {"containers": [{"resources": {"requests": {"cpu": "1"}}}]},
    }
    broken = {"spec": {"containers": [{"resources": {"requests": {"cpu": "much"}}}]}}
    found = [
        msgspec.convert({"metadata": {"name": name, "namespace": "kube-system"}, "spec": {"template": one}}, DaemonSet)
        for name, one in (("good", template), ("broken", broken))
    ]
    (spec,) = daemon_specs(found, ())
    assert (spec.namespace, spec.requests["cpu"]) == ("kube-system", 1000)


def large(name: str, size: int, *, on: str = "", **meta: Any) -> Pod:
    """A pod whose node affinity has so many bytes."""
    values = [f"value-{number:04}" for number in range(size // 11)]
    term = {"matchExpressions": [{"key": "example.com/a", "operator": "NotIn", "values": values}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    pod = decoded(name, on=on, affinity=affinity)
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, **meta))


def test_a_pod_that_changes_leaves_nothing_behind() -> None:
    """A label of one pod changes 200 times: the constraints of the former pods are dropped."""
    digest, kept, sizes = PodDigest(), None, list[int]()
    tracemalloc.start()
    try:
        for change in range(200):
            kept = digest(large("p", 20_000, labels={"change": str(change)}))
            if change % 100 == 99:
                sizes.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert kept is not None
    assert sizes[1] - sizes[0] < 100_000


@pytest.mark.parametrize("on", ["", "n1"])
def test_a_pod_that_is_too_large_keeps_its_requests_only(on: str) -> None:
    """Its error names the bytes and the remedy, the metric of the cache counts it, and it uses room on its Node."""
    pod = large("p", 200_000, on=on)
    if on:  # of a bound pod that stays, labels and anti-affinity count
        pod = large("p", 0, on=on, labels={f"label-{n}": "x" * 60 for n in range(2000)}, owner_references=())
    found = PodDigest()(pod)
    assert isinstance(found, CachedPod)
    assert found.too_large
    assert "at most 65,536 are kept of one object: remove terms" in found.error
    assert found.metadata.unreadable == (f"spec: {found.error}",)
    assert found.constraints.requests == {"cpu": 1000, "pods": 1000}
    assert found.constraints.alternatives == ({},)


def test_large_pods_share_a_budget_and_small_ones_need_none() -> None:
    """17 MB of distinct constraints: the last ones are refused, a pod of ordinary size is not."""
    digest = PodDigest()
    found = [digest(large(f"p{n}", 40_000, labels={"n": str(n)})) for n in range(400)]
    refused = [isinstance(one, CachedPod) and one.too_large for one in found]
    assert not refused[0]
    assert refused[-1]
    small = digest(decoded("small"))
    assert isinstance(small, CachedPod)
    assert small.error == ""
    found.clear()
    again = digest(large("later", 40_000))
    assert isinstance(again, CachedPod)
    assert not again.too_large


def ordinary() -> Pod:
    """A pod of another namespace with 83 sizes, some 2.8 KB."""
    sizes = [f"Standard_NC{n}ads_A100_v4" for n in (24, 48, 96)] + [f"Standard_ND{n}rs_v4" for n in range(80)]
    term = {"matchExpressions": [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": sizes}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    pod = decoded(
        "ordinary", containers=[{"resources": {"requests": {"cpu": "1"}}, "name": "c" * 900}], affinity=affinity
    )
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, namespace="good"))


def test_large_pods_of_one_namespace_leave_room_for_the_pods_of_another() -> None:
    """17 MB of one tenant: the pod of another one is kept, also while the number of namespaces is not known."""
    for namespaces in (0, 20, 1000):
        digest = PodDigest(partial(int, namespaces))
        kept = [digest(large(f"p{n}", 40_000, labels={"n": str(n)})) for n in range(430)]
        assert isinstance(kept[-1], CachedPod)
        assert kept[-1].too_large
        found = digest(ordinary())
        assert isinstance(found, CachedPod)
        assert found.error == ""
        assert [one.name for one in digest.refusals.due(1)] == []
        kept.clear()
        assert len(digest.refusals) == 0


def test_large_daemonsets_of_one_namespace_leave_room_for_those_of_another() -> None:
    """The same holds for what else of users is cached; it is due to be read again once the others are gone."""
    digest = BoundedDigest(lambda: 20)

    def daemon_set(namespace: str, number: int, size: int) -> DaemonSet:
        spec = {"template": {"spec": {"nodeSelector": {"a": f"{number:04}".ljust(size, "x")}}}}
        return digest(
            msgspec.convert({"metadata": {"name": f"d{number}", "namespace": namespace}, "spec": spec}, DaemonSet)
        )

    others = [daemon_set("evil", number, 60_000) for number in range(300)]
    assert others[-1].metadata.unreadable
    assert not daemon_set("good", 0, 3000).metadata.unreadable
    assert not daemon_set("good", 1, 60_000).metadata.unreadable
    own = [daemon_set("good", number, 60_000) for number in range(8)]
    assert own[-1].metadata.unreadable, "it is beyond the share of its namespace"
    assert [*digest.refusals.due(1)] == []
    others.clear()
    assert [one.name for one in digest.refusals.due(1)] == [next(o for o in own if o.metadata.unreadable).metadata.name]


def with_volumes(name: str, count: int, *, on: str = "", owner: str = "Job") -> Pod:
    """A pod with so many volumes, whose claims have names of 250 characters."""
    volumes = [{"name": f"v{n}", "persistentVolumeClaim": {"claimName": f"{name}-{n:04}".ljust(250, "x")}}
               for n in range(count)]  # fmt: skip
    return decoded(name, on=on, owner=owner, volumes=volumes)


@pytest.mark.parametrize(("on", "owner"), [("", "Job"), ("n1", "Job"), ("n1", "DaemonSet")])
def test_volumes_of_pods_with_equal_constraints_count_by_themselves(on: str, owner: str) -> None:
    """A pod without volumes is kept already: one with 4,000 volumes is too large, and many share the budget."""
    digest = PodDigest()
    first = digest(decoded("first", on=on, owner=owner))
    huge = digest(with_volumes("huge", 4000, on=on, owner=owner))
    assert isinstance(huge, CachedPod)
    assert (huge.too_large, huge.claims) == (True, ())
    assert "at most 65,536 are kept of one object" in huge.error
    kept = [digest(with_volumes(f"p{n}", 200, on=on, owner=owner)) for n in range(400)]
    sizes = [sum(map(len, one.claims)) for one in kept if isinstance(one, CachedPod)]
    assert 10_000_000 < sum(sizes) < 17_000_000
    kept.clear()
    last = digest(with_volumes("last", 200, on=on, owner=owner))
    assert isinstance(last, CachedPod)
    assert len(last.claims) == 200
    assert first is not None


def test_the_uid_of_an_owner_is_bounded() -> None:
    """The API server accepts any text as the UID of an owner."""
    pod = decoded("a", owner="DaemonSet")
    owner = msgspec.structs.replace(pod.metadata.owner_references[0], uid="u" * 1_000_000)
    meta = msgspec.structs.replace(pod.metadata, owner_references=(owner,))
    found = PodDigest()(msgspec.structs.replace(pod, metadata=meta))
    assert len(msgspec.json.encode(found, enc_hook=dict)) < 2000


@pytest.mark.parametrize("cost", ["9" * 400, "-" + "9" * 4000, "9" * 5000, "1e9", "٣", "1_0"])
def test_an_odd_deletion_cost_is_no_error(cost: str) -> None:
    """Nor is a number that no float can hold."""
    found = PodDigest()(large("p", 0, annotations={"controller.kubernetes.io/pod-deletion-cost": cost}))
    assert isinstance(found, CachedPod)
    assert found.error == ""
    assert -10 <= found.eviction.cost <= 10


def test_a_number_that_no_integer_type_holds_is_no_error_of_the_cache() -> None:
    """A quantity can be a number of JSON; the pod is judged by its constraints as any other one."""
    spec: dict[str, Any] = {"containers": [{"resources": {"requests": {"cpu": 2**70}}}]}
    found = PodDigest()(decoded("a", **spec))
    assert isinstance(found, CachedPod)
    assert found.error == ""
    kept = BoundedDigest()(msgspec.convert({"metadata": {}, "spec": {"template": {"spec": spec}}}, DaemonSet))
    assert not kept.metadata.unreadable


def test_an_error_that_nobody_thought_of_is_kept_with_its_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache continues: the pod has its identity and the error."""

    def fail(_: object) -> None:
        raise ZeroDivisionError("odd")

    monkeypatch.setattr("controllers.provisioning.pods.eviction", fail)
    found = PodDigest()(decoded("a"))
    assert isinstance(found, CachedPod)
    assert (found.name, found.error) == ("default/a", "invalid Pod: ZeroDivisionError: odd")


def test_a_daemonset_that_is_too_large_has_no_content() -> None:
    """Others keep all that scheduling reads, without annotations."""
    digest = BoundedDigest()
    meta = {"name": "d", "uid": "u", "annotations": {"long": "x" * 200_000}}
    spec = {"template": {"spec": {"nodeSelector": {"a": "b"}}}}
    kept = digest(msgspec.convert({"metadata": meta, "spec": spec}, DaemonSet))
    assert (dict(kept.metadata.annotations), kept.spec.template.spec.node_selector) == ({}, {"a": "b"})
    spec = {"template": {"spec": {"nodeSelector": {f"k{n}": "x" * 60 for n in range(2000)}}}}
    dropped = digest(msgspec.convert({"metadata": meta, "spec": spec}, DaemonSet))
    assert "at most 65,536" in dropped.metadata.unreadable[0]
    assert not dropped.spec.template.spec.node_selector


@pytest.mark.parametrize(("made", "count"), [(None, 1), ({"resourceClaimName": "p-x"}, 1), ({"name": "gpu"}, 0)])
def test_a_template_that_needs_no_claim(made: dict[str, str] | None, count: int) -> None:
    """Its status has no name of a claim; before there is a status, the claim is expected."""
    statuses = [] if made is None else [{"name": "gpu", **made}]
    pod = decoded("p", resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "t"}])
    status = msgspec.convert({**PENDING, "resourceClaimStatuses": statuses}, PodStatus)
    assert len(msgspec.structs.replace(pod, status=status).device_claims) == count
