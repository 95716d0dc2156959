"""The cached form of pods: what is kept of pending and of bound pods, and what equal pods share."""

from typing import Any

import msgspec
import pytest

from controllers.provisioning.pods import CachedPod, PodDigest, bound, daemon_specs, provisionable
from provisioner.api.schedulable import DaemonSet, SchedulablePod

PENDING = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}
ANTI = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "a"}}}
        ]
    }
}


def decoded(name: str, *, on: str = "", owner: str = "ReplicaSet", age: int = 0, **spec: Any) -> SchedulablePod:
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
    return msgspec.convert(body, SchedulablePod)


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
    (spec,) = daemon_specs(found)
    assert (spec.namespace, spec.requests["cpu"]) == ("kube-system", 1000)
