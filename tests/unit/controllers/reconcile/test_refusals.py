"""A Node on which kube-scheduler does not place a pod is no room for it any more; one pod of each shape goes first."""

from datetime import UTC, datetime

from controllers.provisioning.bought_state import BIND_SECONDS
from controllers.provisioning.pods import CachedPod
from controllers.reconcile.refusals import RefusedPods
from provisioner.api import labels
from provisioner.api.meta import ObjectMeta
from provisioner.api.node import Node

OLD = Node(metadata=ObjectMeta(name="old"))
STARTING = Node(metadata=ObjectMeta(name="starting", labels={labels.CLAIM_UID: "u"}))


def pod(name: str, shape: str = "s") -> CachedPod:
    meta = ObjectMeta(name=name, namespace="default", uid=name, creation_timestamp=datetime(2026, 3, 1, tzinfo=UTC))
    return CachedPod(metadata=meta, shape=shape)


def placed(refused: RefusedPods, now: float, *pods: CachedPod, node: Node = OLD) -> dict[str, frozenset[str]]:
    """A decision at this time places the pods on a Node; who is refused afterwards."""
    refused.placed({one.name: node.name for one in pods}, pods, (OLD, STARTING), now)
    return dict(refused.refusing)


def test_one_pod_of_each_shape() -> None:
    """The next one of the shape follows when the first one no longer waits."""
    refused, pods = RefusedPods(), (pod("a"), pod("b"), pod("c", "other"))
    assert placed(refused, 0.0, *pods) == {}
    assert placed(refused, BIND_SECONDS - 1, *pods) == {}
    assert placed(refused, BIND_SECONDS, *pods) == {"a": frozenset({"old"}), "c": frozenset({"old"})}
    assert placed(refused, BIND_SECONDS + 60, *pods[1:]).keys() == {"b", "c"}


def test_nodes_that_are_not_initialized() -> None:
    """Pods wait for them as long as they take to start."""
    refused = RefusedPods()
    for now in (0.0, BIND_SECONDS, 2 * BIND_SECONDS):
        assert placed(refused, now, pod("a"), node=STARTING) == {}


def test_time_in_which_a_pod_is_not_placed() -> None:
    """The time begins again when the pod waits for something else meanwhile."""
    refused = RefusedPods()
    assert placed(refused, 0.0, pod("a")) == {}
    refused.placed({}, (pod("a"),), (OLD,), 100.0)
    assert placed(refused, BIND_SECONDS, pod("a")) == {}
