"""What keeps a machine from being disrupted, and what makes it empty, as tables."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from controllers.disruption.blockers import (
    DO_NOT_DISRUPT,
    GOING,
    NO_NODE,
    NOMINATED,
    NOT_INITIALIZED,
    SEVERAL_NODES,
    blocked,
    empty,
    left_over,
    with_blockers,
)
from controllers.disruption.machine import Machine
from controllers.disruption.pod_budgets import PodBudgets
from controllers.provisioning.eviction import eviction
from controllers.provisioning.pods import CachedPod, PodDigest
from provisioner.api import labels
from provisioner.api.meta import ObjectMeta, OwnerReference
from provisioner.api.node import Node
from provisioner.api.pod import Pod
from provisioner.api.poddisruptionbudget import PodDisruptionBudget
from provisioner.api.time import rfc3339
from tests.unit.builders import NOW, claim, node

UP = ("Launched", "Registered", "Initialized", "Ready")
GPU, MIG = {"nvidia.com/gpu": "1"}, {"nvidia.com/mig-1g.5gb": "2"}
REPLICA_SET, STATEFUL_SET, DAEMON_SET = ("apps/v1", "ReplicaSet"), ("apps/v1", "StatefulSet"), ("apps/v1", "DaemonSet")
JOB, STATIC, ALONE = ("batch/v1", "Job"), ("v1", "Node"), ("", "")
JOBS = [
    JOB,
    ALONE,
    ("jobset.x-k8s.io/v1alpha2", "JobSet"),
    ("kubeflow.org/v1", "PyTorchJob"),
    ("kubeflow.org/v2beta1", "MPIJob"),
    ("ray.io/v1", "RayCluster"),
    ("ray.io/v1", "RayJob"),
    ("kueue.x-k8s.io/v1beta1", "Workload"),
    ("batch.volcano.sh/v1alpha1", "Job"),
    ("argoproj.io/v1alpha1", "Workflow"),
]
ANNOTATED = 'Pod has "karpenter.sh/do-not-disrupt" annotation (Pod=default/a)'


def pod(owner: tuple[str, str] = REPLICA_SET, requests: dict[str, str] | None = None, **changes: Any) -> CachedPod:
    """A Ready pod on a Node, as the cache holds it. `changes`: its labels, `deleting`, `ready`, its spec…"""
    api_version, kind = owner
    owners = [{"apiVersion": api_version, "kind": kind, "name": "o", "uid": "o", "controller": True}] if kind else []
    meta = {
        "name": "a",
        "namespace": "default",
        "labels": {"app": "a", **changes.pop("labels", {})},
        "annotations": changes.pop("annotations", {}),
        "ownerReferences": owners,
        **({"deletionTimestamp": rfc3339(NOW)} if changes.pop("deleting", False) else {}),
    }
    status = {
        "startTime": rfc3339(NOW - timedelta(minutes=10)),
        "conditions": [{"type": "Ready", "status": "True" if changes.pop("ready", True) else "False"}],
    }
    spec = {"nodeName": "n", "containers": [{"resources": {"requests": requests or {}}}], **changes}
    found = PodDigest()(msgspec.convert({"metadata": meta, "spec": spec, "status": status}, Pod))
    assert isinstance(found, CachedPod)
    return found


def disrupt(value: str, owner: tuple[str, str] = REPLICA_SET, **changes: Any) -> CachedPod:
    return pod(owner, annotations={labels.DO_NOT_DISRUPT: value}, **changes)


def budget(name: str = "b", allowed: int = 0, *, observed: int = 1, **spec: Any) -> PodDisruptionBudget:
    selector = spec.pop("selector", {"matchLabels": {"app": "a"}})
    body = {
        "metadata": {"name": name, "namespace": spec.pop("namespace", "default"), "generation": 1},
        "spec": {"selector": selector, **spec},
        "status": {"disruptionsAllowed": allowed, "observedGeneration": observed},
    }
    return msgspec.convert(body, PodDisruptionBudget)


def held(*names: str) -> str:
    return f"Pdb prevents pod evictions (PodDisruptionBudget=[{', '.join(f'default/{name}' for name in names)}])"


def annotated(found: Node) -> Node:
    meta = msgspec.structs.replace(found.metadata, annotations={labels.DO_NOT_DISRUPT: "true"})
    return msgspec.structs.replace(found, metadata=meta)


def machine(*pods: CachedPod, capacity: dict[str, str] | None = None, **known: Any) -> Machine:
    found = claim(up=known.pop("up", UP), deleting=known.pop("deleting", False))
    spec = msgspec.structs.replace(found.spec, termination_grace_period=known.pop("grace", None))
    status = msgspec.structs.replace(found.status, capacity=capacity or {})
    meta = msgspec.structs.replace(found.metadata, annotations=known.pop("annotations", {}))
    found = msgspec.structs.replace(found, metadata=meta, spec=spec, status=status)
    bare = msgspec.structs.replace(node(), status=msgspec.structs.replace(node().status, capacity={}))
    return Machine(**{"claim": found, "node": bare, "pods": pods, "quiet_since": NOW, **known})


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (machine(), ""),
        (machine(node=None), NO_NODE),
        (machine(deleting=True), GOING),
        (machine(leaving=True), GOING),
        (machine(node=node(deleting=True)), GOING),
        (machine(up=UP[:2]), NOT_INITIALIZED),
        (machine(several_nodes=True), SEVERAL_NODES),
        (machine(nominated_seconds=3.0), NOMINATED),
        (machine(annotations={labels.DO_NOT_DISRUPT: "true"}), DO_NOT_DISRUPT),
        (machine(annotations={labels.DO_NOT_DISRUPT: "false"}), ""),
        (machine(node=annotated(node())), DO_NOT_DISRUPT),
    ],
)
def test_the_machine(found: Machine, why: str) -> None:
    """What blocks whatever pods there are blocks drift, too."""
    with_grace = msgspec.structs.replace(
        found,
        claim=msgspec.structs.replace(
            found.claim, spec=msgspec.structs.replace(found.claim.spec, termination_grace_period="1h")
        ),
    )
    assert blocked(found, (), PodBudgets(), NOW) == why
    assert with_blockers(with_grace, (), PodBudgets(), NOW).blocked_eventually == why


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (disrupt("true"), ANNOTATED),
        (disrupt("true", DAEMON_SET), ANNOTATED),
        (disrupt("true", STATIC), ANNOTATED),
        (disrupt("15m"), ANNOTATED),
        (disrupt("10m"), ""),
        (disrupt("-1m"), ""),
        (disrupt("0s"), ""),
        (disrupt("False"), ""),
        (disrupt("true", deleting=True), ""),
    ],
)
def test_do_not_disrupt(found: CachedPod, why: str) -> None:
    """The pod started ten minutes ago; a duration counts from there."""
    assert blocked(machine(found), (found,), PodBudgets(), NOW) == why


def test_the_longest_protection_counts() -> None:
    """Of two pods that started ten minutes ago: a quarter of an hour has not passed."""
    pods = disrupt("5m"), disrupt("15m")
    assert blocked(machine(*pods), pods, PodBudgets(), NOW) == ANNOTATED
    assert blocked(machine(*pods), pods, PodBudgets(), NOW + timedelta(minutes=4)) == ANNOTATED
    assert not blocked(machine(*pods), pods, PodBudgets(), NOW + timedelta(minutes=6))


@pytest.mark.parametrize(
    ("value", "budgets"), [("true", []), ("15m", []), ("", [budget()]), ("", [budget(), budget("c")])]
)
def test_pods_do_not_keep_a_machine_from_drift_whose_drain_is_bounded(
    value: str, budgets: list[PodDisruptionBudget]
) -> None:
    """With a terminationGracePeriod they still keep it from the other methods; without one they keep it from all."""
    found = disrupt(value) if value else pod()
    without = with_blockers(machine(found), (found,), PodBudgets(budgets), NOW)
    assert without.blocked
    assert without.blocked_eventually == without.blocked
    bounded = with_blockers(machine(found, grace="1h"), (found,), PodBudgets(budgets), NOW)
    assert (bounded.blocked, bounded.blocked_eventually) == (without.blocked, "")


@pytest.mark.parametrize(
    ("found", "budgets", "why"),
    [
        (pod(), [], ""),
        (pod(), [budget(allowed=0)], held("b")),
        (pod(), [budget(allowed=1)], ""),
        (pod(), [budget(allowed=1, observed=0)], held("b")),
        (pod(), [budget("y", 1), budget("x", 1)], held("x", "y")),
        (pod(), [budget(namespace="other")], ""),
        (pod(), [budget(selector={"matchLabels": {"app": "b"}})], ""),
        (pod(), [budget(selector={"matchExpressions": [{"key": "app", "operator": "Exists"}]})], held("b")),
        (pod(), [budget(selector={"matchExpressions": [{"key": "app", "operator": "Odd"}]})], held("b")),
        (pod(), [budget(selector={})], held("b")),
        (pod(), [budget(selector=None)], ""),
        (pod(ready=False), [budget()], held("b")),
        (pod(ready=False), [budget(unhealthyPodEvictionPolicy="IfHealthyBudget")], held("b")),
        (pod(ready=False), [budget(unhealthyPodEvictionPolicy="AlwaysAllow")], ""),
        (pod(ready=True), [budget(unhealthyPodEvictionPolicy="AlwaysAllow")], held("b")),
        # A drain evicts none of these.
        (pod(deleting=True), [budget()], ""),
        (pod(STATIC), [budget()], ""),
        (pod(tolerations=[{"operator": "Exists"}]), [budget()], ""),
        (pod(DAEMON_SET), [budget()], held("b")),
    ],
)
def test_pod_disruption_budgets(found: CachedPod, budgets: list[PodDisruptionBudget], why: str) -> None:
    assert blocked(machine(found), (found,), PodBudgets(budgets), NOW) == why


def test_a_budget_that_cannot_be_read_selects_every_pod() -> None:
    broken = budget(selector={"matchLabels": {"app": "b"}})
    meta = ObjectMeta(name="b", namespace="default", generation=1, unreadable=("spec.selector: no object",))
    budgets = PodBudgets([msgspec.structs.replace(broken, metadata=meta)])
    assert blocked(machine(pod()), (pod(),), budgets, NOW) == held("b")


def test_a_group_that_restarts_as_a_whole_is_protected() -> None:
    """The StatefulSets of a LeaderWorkerSet create its pods; without GPUs a restart is cheap."""
    label = {labels.LEADER_WORKER_SET: "vllm"}
    found, plain = pod(STATEFUL_SET, GPU, labels=label), pod(STATEFUL_SET, {"cpu": "1"}, labels=label)
    why = "Pod requests GPUs and is of a LeaderWorkerSet, whose group would restart (Pod=default/a)"
    assert blocked(machine(found), (found,), PodBudgets(), NOW) == why
    assert not blocked(machine(plain), (plain,), PodBudgets(), NOW)
    assert not empty(machine(found))


@pytest.mark.parametrize("owner", JOBS)
@pytest.mark.parametrize("requests", [GPU, MIG])
def test_gpu_jobs_are_protected(owner: tuple[str, str], requests: dict[str, str]) -> None:
    """Their work would be lost; drift waits for them unless terminationGracePeriod bounds it."""
    found = pod(owner, requests)
    controller = " ".join(owner) if owner[1] else "none"
    why = f"Pod requests GPUs and is not created again elsewhere (Pod=default/a, Controller={controller})"
    assert blocked(machine(found), (found,), PodBudgets(), NOW) == why
    assert with_blockers(machine(found), (found,), PodBudgets(), NOW).blocked_eventually == why
    bounded = with_blockers(machine(found, grace="1h"), (found,), PodBudgets(), NOW)
    assert (bounded.blocked, bounded.blocked_eventually) == (why, "")
    assert not empty(machine(found))


@pytest.mark.parametrize(
    "found",
    [
        pod(REPLICA_SET, GPU),
        pod(STATEFUL_SET, GPU),
        pod(("v1", "ReplicationController"), GPU),
        pod(DAEMON_SET, GPU),
        pod(STATIC, GPU),
        pod(JOB, GPU, deleting=True),
        pod(JOB, {"cpu": "1"}),
        pod(JOB, {"nvidia.com/gpu": "0"}),
        pod(ALONE, {"cpu": "1"}),
    ],
)
def test_other_pods_may_be_moved(found: CachedPod) -> None:
    assert not blocked(machine(found), (found,), PodBudgets(), NOW)


DEAR = {"controller.kubernetes.io/pod-deletion-cost": str(2**28)}
CHEAP = {"controller.kubernetes.io/pod-deletion-cost": str(-(2**27))}


@pytest.mark.parametrize(
    ("found", "cost"),
    [
        (pod(), 1.0),
        (pod(priority=2**25), 2.0),
        (pod(priority=-(2**25)), 0.0),
        (pod(annotations=DEAR), 3.0),
        (pod(annotations=CHEAP), 0.0),
        (pod(annotations={"controller.kubernetes.io/pod-deletion-cost": "much"}), 1.0),
        (pod(priority=2**30), 10.0),
        (pod(priority=-(2**31), annotations=CHEAP), -10.0),
    ],
)
def test_eviction_cost(found: CachedPod, cost: float) -> None:
    assert found.eviction.cost == cost


def test_the_owner_of_a_pod_is_its_controller() -> None:
    """Others may own it, too."""
    owners = tuple(
        OwnerReference(api_version=one[0], kind=one[1], name="o", uid="o", controller=one == REPLICA_SET)
        for one in (JOB, REPLICA_SET)
    )
    assert eviction(Pod(metadata=ObjectMeta(name="a", owner_references=owners))).owner == REPLICA_SET


@pytest.mark.parametrize(
    ("found", "on_cpu", "on_gpus"),
    [
        (pod(REPLICA_SET), False, True),
        (pod(REPLICA_SET, GPU), False, False),
        (pod(STATEFUL_SET, MIG), False, False),
        (pod(REPLICA_SET, resourceClaims=[{"name": "gpu"}]), False, False),
        (pod(JOB), False, False),
        (pod(ALONE), False, False),
        (pod(DAEMON_SET, GPU), True, True),
        (pod(STATIC), True, True),
        (pod(REPLICA_SET, GPU, priority=-(2**25)), True, True),
        (pod(ALONE, priority=-(2**25)), False, False),
        (pod(REPLICA_SET, GPU, deleting=True), True, True),
        (pod(STATEFUL_SET, GPU, deleting=True), False, False),
    ],
)
def test_empty(found: CachedPod, on_cpu: bool, on_gpus: bool) -> None:
    assert empty(machine(found)) is on_cpu
    assert empty(machine(found, capacity=GPU)) is on_gpus
    assert empty(machine(found, capacity={"cpu": "4", **MIG, "nvidia.com/gpu": "0"})) is on_gpus
    assert empty(machine(found, capacity={"cpu": "4", "nvidia.com/gpu": "0"})) is on_cpu


def test_pods_of_an_empty_machine_that_need_a_place() -> None:
    monitoring = pod(REPLICA_SET)
    found = machine(monitoring, pod(DAEMON_SET), pod(STATIC), pod(REPLICA_SET, deleting=True), capacity=GPU)
    assert empty(found)
    assert left_over(found) == (monitoring,)


def test_equal_pods_share_what_matters_of_them() -> None:
    """The time of the start is kept only where a duration counts from it."""
    digest = PodDigest()
    body = {"metadata": {"name": "a", "annotations": {labels.DO_NOT_DISRUPT: "1h"}}, "spec": {"nodeName": "n"}}
    status = {"startTime": rfc3339(NOW)}
    one, other = (digest(msgspec.convert({**body, "status": status}, Pod)) for _ in range(2))
    plain = digest(msgspec.convert({"status": status}, Pod))
    assert isinstance(one, CachedPod)
    assert isinstance(other, CachedPod)
    assert isinstance(plain, CachedPod)
    assert one.eviction is other.eviction
    assert (one.started, plain.started) == (NOW, None)
