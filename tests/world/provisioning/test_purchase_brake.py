"""At most two machines that become Ready are bought for one pod before it runs, whatever keeps it off them."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from provisioner.api import labels
from provisioner.api.time import rfc3339
from provisioner.simulator.audit_log import Call
from provisioner.simulator.kube.binding import bind
from provisioner.simulator.nodes.machine import NodeSettings
from tests.world.demand import T4, claims_of, node_class, node_pool, pending, pod, pod_events, with_node_pool, workload
from tests.world.harness import Json, Sim, simulated
from tests.world.transcript import refuse

from .common import EVERYTHING, HOURS, machines, misfits, on_each_node, phase, taint_nodes, with_cpu

pytestmark = pytest.mark.matrix(quick=0)
# One percent less than the 3,860m that AKS leaves of four vCPUs.
SMALLER = NodeSettings(allocatable_shares={T4: {"cpu": 3820 / 3860}})


@pytest.mark.matrix(quick=1)
@simulated(nodes=SMALLER)
async def test_nodes_slightly_smaller_than_predicted(sim: Sim) -> None:
    """A machine that turns out too small is followed by a larger one, and the difference is stated."""
    await with_node_pool(sim)
    await pending(sim, with_cpu("trainer", "3850m"))
    await asyncio.sleep(HOURS)
    assert machines(sim) == 2
    assert phase(sim, "trainer") == "Running"
    (message,) = [message for reason, message in pod_events(sim, "trainer") if reason == "MachineDoesNotFit"]
    assert "cpu allocatable 3,820m, 3,860m were predicted" in message


@simulated(nodes=SMALLER)
async def test_machines_are_kept_while_empty(sim: Sim) -> None:
    """The same where empty machines are kept: no more than two are bought."""
    await with_node_pool(sim, disruption={"consolidateAfter": "Never"})
    await pending(sim, with_cpu("trainer", "3850m"))
    await asyncio.sleep(HOURS)
    assert len(claims_of(sim)) == 2
    assert phase(sim, "trainer") == "Running"


def label_nodes(sim: Sim) -> None:
    """A label of each Node has another value than that of its size."""
    on_each_node(sim, lambda name: sim.store.patch("nodes", name, {"metadata": {"labels": {labels.ARCH: "arm64"}}}))


def cordon_nodes(sim: Sim) -> None:
    """A person cordons each Node; the node controller adds the taint."""

    def act(name: str) -> None:
        node = sim.store.get("nodes", name)
        assert node is not None
        taints = [
            *(node["spec"].get("taints") or ()),
            {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
        ]
        sim.store.patch("nodes", name, {"spec": {"unschedulable": True, "taints": taints}})

    on_each_node(sim, act)


def stop_scheduler(sim: Sim) -> None:
    """kube-scheduler ends, or a profile of it refuses each machine."""
    on_each_node(sim, lambda _: sim.world.scheduler.stop())


def fill_nodes(sim: Sim) -> None:
    """Pods of a DaemonSet request more than its template states, as with a LimitRange, also on large machines."""
    daemon_pods(sim, lambda node: "500m" if node["status"]["capacity"]["cpu"] == "4" else "7")


def daemon_pods(sim: Sim, cpu: Callable[[Json], str]) -> None:
    """One pod of a DaemonSet on each Node, with other requests than its template, which has none."""
    body = {"metadata": {"name": "agent"}, "spec": {"selector": {"matchLabels": {"app": "agent"}}}}
    made = sim.store.create("daemonsets.apps", body, "kube-system")
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": made["metadata"]["uid"]}

    def create(name: str) -> None:
        node = sim.store.get("nodes", name)
        assert node is not None
        containers = [{"name": "agent", "image": "agent", "resources": {"requests": {"cpu": cpu(node)}}}]
        meta = {"name": f"agent-{name}", "ownerReferences": [{**owner, "controller": True}]}
        spec = {"containers": containers, "tolerations": EVERYTHING, "nodeName": name}
        sim.store.create("pods", {"metadata": meta, "spec": spec}, "kube-system")

    on_each_node(sim, create, "kubernetes.io/hostname")


CAUSES = {
    "taint": (taint_nodes, "taint policy.example.com/x"),
    "label": (label_nodes, "label kubernetes.io/arch is arm64"),
    "cordon": (cordon_nodes, "taint node.kubernetes.io/unschedulable"),
    "scheduler": (stop_scheduler, "kube-scheduler does not bind the pod"),
    "daemon pods": (fill_nodes, "daemon pods request cpu"),
}


@pytest.mark.matrix(quick=1)
@pytest.mark.parametrize(("cause", "kept"), [(cause, kept) for cause in CAUSES for kept in (False, True)], ids=str)
def test_whatever_the_cause(cause: str, kept: bool) -> None:
    """Two machines are bought in an hour, whether or not empty ones are removed; the Events state the cause."""
    act, words = CAUSES[cause]

    @simulated()
    async def story(sim: Sim) -> None:
        act(sim)
        await with_node_pool(sim, **({"disruption": {"consolidateAfter": "Never"}} if kept else {}))
        await pending(sim, with_cpu("trainer", "3500m", nodeSelector={labels.ARCH: "amd64"}))
        await asyncio.sleep(HOURS)
        assert machines(sim) == 2
        assert phase(sim, "trainer") in ("", "Pending")
        found = pod_events(sim, "trainer")
        assert all(words in message for reason, message in found if reason == "MachineDoesNotFit")
        waits = "2 machines that were bought for it did not take it"
        assert any(waits in message for reason, message in found if reason == "FailedScheduling")
        assert len(claims_of(sim)) == (2 if kept else 0)

    story()


@pytest.mark.parametrize("expire_after", ["3m", "5m", "8m"])
@pytest.mark.parametrize("act", [taint_nodes, stop_scheduler])
def test_machines_that_expire_early(act: Callable[[Sim], None], expire_after: str) -> None:
    """Machines that are removed before kube-scheduler's patience ends, or before they are Ready, count as well."""

    @simulated()
    async def story(sim: Sim) -> None:
        act(sim)
        pool = node_pool()
        pool["spec"]["template"]["spec"]["expireAfter"] = expire_after
        await with_node_pool(sim)
        await sim.apply(pool)
        await pending(sim, pod("p"))
        await asyncio.sleep(HOURS)
        assert machines(sim) == 2
        assert not claims_of(sim)

    story()


@simulated()
async def test_the_pod_that_follows_on_an_expired_machine(sim: Sim) -> None:
    """A machine on which such pods ran is not held against their successors, also after a restart."""
    pool = node_pool()
    pool["spec"]["template"]["spec"]["expireAfter"] = "30m"
    await with_node_pool(sim)
    await sim.apply(pool)

    def follow(event: str, resource: str, obj: Json, _: object) -> None:
        name = obj["metadata"]["name"]
        if resource == "pods" and event == "DELETED" and name.startswith("p"):
            successor = pod(f"p{int(name[1:]) + 1}")
            asyncio.get_running_loop().call_soon(lambda: sim.store.create("pods", successor, "default"))

    sim.store.subscribe(follow)
    await pending(sim, pod("p0"))
    await asyncio.sleep(HOURS / 4)
    sim.replace_controller()
    await asyncio.sleep(3 * HOURS)
    assert machines(sim) >= 5
    assert not misfits(sim)
    assert not [one for number in range(8) for one in pod_events(sim, f"p{number}") if one[0] == "MachineDoesNotFit"]


@simulated()
async def test_pods_that_are_created_again(sim: Sim) -> None:
    """A controller deletes its pending pods and creates others: each attempt takes twice as long as the one before."""
    taint_nodes(sim)
    await with_node_pool(sim)
    for number in range(15):
        await pending(sim, pod(f"p{number}"))
        await asyncio.sleep(600.0)
        await sim.request("DELETE", f"/api/v1/namespaces/default/pods/p{number}")
    # In 150 minutes: two at first, then after 10, 20, 40 and 80 minutes.
    assert 2 <= machines(sim) <= 6


@simulated()
async def test_other_pods_of_the_nodepool(sim: Sim) -> None:
    """Pods with other constraints get machines of the same NodePool."""
    taint_nodes(sim)
    await with_node_pool(sim)
    await pending(sim, pod("refused"))
    await asyncio.sleep(HOURS / 2)
    assert machines(sim) == 2
    await pending(sim, pod("tolerates", tolerations=EVERYTHING))
    await asyncio.sleep(HOURS / 4)
    assert phase(sim, "tolerates") == "Running"
    assert machines(sim) == 3
    assert phase(sim, "refused") in ("", "Pending")


@simulated()
async def test_a_restart_and_the_removal_of_the_machines(sim: Sim) -> None:
    """A controller that starts after the machines are gone buys no other."""
    taint_nodes(sim)
    await with_node_pool(sim)
    await pending(sim, pod("p"))
    await sim.until(lambda: misfits(sim), HOURS, "the first machine is recorded")
    await asyncio.sleep(5.0)
    sim.replace_controller()
    await sim.until(lambda: machines(sim) == 2, HOURS, "the second machine")
    await asyncio.sleep(HOURS / 2)
    assert not claims_of(sim)
    sim.replace_controller("ctl0'")
    await asyncio.sleep(HOURS / 2)
    assert machines(sim) == 2


@pytest.mark.matrix(quick=1)
@simulated()
async def test_the_annotation_that_lifts_the_brake(sim: Sim) -> None:
    """A user who has removed the cause annotates the NodePool, and the pod gets a machine."""
    wrong = [True]

    def act(name: str) -> None:
        if wrong:
            sim.store.patch("nodes", name, {"metadata": {"labels": {labels.ARCH: "arm64"}}})

    on_each_node(sim, act)
    await with_node_pool(sim)
    await pending(sim, pod("p", nodeSelector={labels.ARCH: "amd64"}))
    await asyncio.sleep(HOURS / 2)
    assert machines(sim) == 2
    wrong.clear()
    await sim.apply({**node_pool(), "metadata": {"name": "gpu", "annotations": {labels.RETRY: "1"}}})
    await asyncio.sleep(HOURS / 4)
    assert (machines(sim), phase(sim, "p")) == (3, "Running")
    assert not misfits(sim)


@simulated()
async def test_labels_and_taints_that_change_late(sim: Sim) -> None:
    """A taint that others remove half a minute after the Node is initialized delays the pod, and nothing is bought."""

    def act(name: str) -> None:
        node = sim.store.get("nodes", name)
        assert node is not None
        before = node["spec"].get("taints") or []
        late = {"key": "network.example.com/not-ready", "effect": "NoSchedule"}
        sim.store.patch("nodes", name, {"spec": {"taints": [*before, late]}})
        asyncio.get_running_loop().call_later(30.0, remove, name)

    def remove(name: str) -> None:
        node = sim.store.get("nodes", name)
        assert node is not None
        kept = [one for one in node["spec"]["taints"] if one["key"] != "network.example.com/not-ready"]
        sim.store.patch("nodes", name, {"spec": {"taints": kept}})

    on_each_node(sim, act, "karpenter.sh/initialized")
    await with_node_pool(sim)
    await pending(sim, pod("p"))
    await asyncio.sleep(HOURS)
    assert (machines(sim), phase(sim, "p")) == (1, "Running")
    assert not misfits(sim)


@simulated()
async def test_other_pods_take_the_room(sim: Sim) -> None:
    """A machine whose room older pods took is no misfit: the pod gets another one of the same size."""
    await with_node_pool(sim)
    await pending(sim, pod("first"))
    await sim.until(lambda: claims_of(sim), 60.0, "a NodeClaim")
    await pending(sim, pod("urgent", priority=1000))
    await asyncio.sleep(HOURS)
    assert (phase(sim, "first"), phase(sim, "urgent")) == ("Running", "Running")
    assert not misfits(sim)


def agents_of_others(sim: Sim) -> None:
    """A controller that is no DaemonSet of Kubernetes creates a pod for each Node, which takes the room."""
    owner = {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "DaemonSet", "name": "agent", "uid": "kruise"}
    containers = [{"name": "agent", "image": "agent", "resources": {"requests": {"cpu": "500m"}}}]

    def create(name: str) -> None:
        meta = {"name": f"agent-{name}", "ownerReferences": [{**owner, "controller": True}]}
        spec = {"containers": containers, "tolerations": EVERYTHING, "nodeName": name}
        sim.store.create("pods", {"metadata": meta, "spec": spec}, "kube-system")

    on_each_node(sim, create, "kubernetes.io/hostname")


@pytest.mark.parametrize("larger", [False, True])
def test_room_that_pods_of_other_controllers_take(larger: bool) -> None:
    """A machine that is full before its pod comes is followed by a larger one, and by none where there is no larger."""

    @simulated()
    async def story(sim: Sim) -> None:
        agents_of_others(sim)
        only = {"key": labels.INSTANCE_TYPE, "operator": "In", "values": [T4]}
        await with_node_pool(sim, requirements=[] if larger else [only])
        await pending(sim, with_cpu("trainer", "3500m"))
        await asyncio.sleep(HOURS)
        assert machines(sim) == 1 + larger
        assert phase(sim, "trainer") == ("Running" if larger else "Pending")
        found = {message for reason, message in pod_events(sim, "trainer") if reason == "MachineDoesNotFit"}
        assert found == {"gpu-1: cpu 3,360m is free, 3,500m requested; other pods use the room"}

    story()


@simulated()
async def test_many_pods_of_one_machine(sim: Sim) -> None:
    """Each of 99 pods that share a machine counts it: two machines are bought for them."""
    taint_nodes(sim)
    await with_node_pool(sim)
    resources = {"requests": {"cpu": "10m", "memory": "10Mi"}}
    for number in range(99):
        one = pod(f"p{number}", gpus=0, nodeSelector={"team": "ml"})
        one["spec"]["containers"][0]["resources"] = resources
        await pending(sim, one)
    await asyncio.sleep(HOURS / 2)
    assert machines(sim) == 2


@simulated(nodes=SMALLER)
async def test_what_nodes_offer_is_learned(sim: Sim) -> None:
    """Another pod that would fit the prediction and not the Node gets a larger machine at once, after a restart too."""
    await with_node_pool(sim)
    await pending(sim, with_cpu("first", "3850m"))
    await sim.until(lambda: phase(sim, "first") == "Running", HOURS, "the first pod runs")
    sim.replace_controller()
    await asyncio.sleep(HOURS / 4)
    assert machines(sim) == 2
    await pending(sim, with_cpu("second", "3840m"))
    await asyncio.sleep(HOURS / 4)
    assert (machines(sim), phase(sim, "second")) == (3, "Running")


@simulated()
async def test_daemon_pods_larger_than_their_template(sim: Sim) -> None:
    """Pods of a DaemonSet whose template tolerates no machine run there: the second machine is large enough."""
    daemon_pods(sim, lambda _: "500m")
    await with_node_pool(sim)
    await pending(sim, with_cpu("trainer", "3500m"))
    await asyncio.sleep(HOURS / 2)
    assert machines(sim) == 2
    assert phase(sim, "trainer") == "Running"


def small(name: str, cpu: int, **spec: Any) -> Json:
    """A pod without GPUs that selects machines of the NodePool."""
    one = pod(name, gpus=0, nodeSelector={"team": "ml"}, **spec)
    one["spec"]["containers"][0]["resources"] = {"requests": {"cpu": f"{cpu}m", "memory": "10Mi"}}
    return one


@simulated()
async def test_many_shapes(sim: Sim) -> None:
    """Each of 150 pods with other requests counts its machines: two rounds are bought for them, and no other."""
    taint_nodes(sim)
    await with_node_pool(sim)
    await pending(sim, *(small(f"p{number}", number) for number in range(1, 151)))
    await asyncio.sleep(HOURS / 2)
    bought = machines(sim)
    assert bought <= 2 * 4
    await asyncio.sleep(HOURS / 4)
    assert machines(sim) == bought
    assert len(misfits(sim)) == 1


@simulated()
async def test_requests_that_change_each_minute(sim: Sim) -> None:
    """A controller creates its pod again with other requests, before it can count a machine: few are bought in vain."""
    taint_nodes(sim)
    await with_node_pool(sim)
    for number in range(100):
        await pending(sim, small(f"p{number}", number + 1))
        await asyncio.sleep(60.0)
        await sim.request("DELETE", f"/api/v1/namespaces/default/pods/p{number}")
    # Five and one more at first, then one after 10 and 20 minutes.
    assert machines(sim) <= 8


def refuse_node(sim: Sim, node: str) -> None:
    """A plugin of kube-scheduler places no pod on a Node that has room."""
    scheduler: Any = sim.world.scheduler
    place = scheduler._place
    scheduler._place = lambda pod, infos, devices: place(pod, [one for one in infos if one.name != node], devices)


@simulated()
async def test_a_node_that_kube_scheduler_refuses(sim: Sim) -> None:
    """An existing Node has room, and kube-scheduler does not place pods there: after 6 minutes they get another one."""
    await with_node_pool(sim, disruption={"consolidateAfter": "Never"})
    await pending(sim, small("first", 100))
    await sim.until(lambda: phase(sim, "first") == "Running", HOURS, "the first pod runs")
    (old,) = sim.store.list("nodes", labels=f"{labels.NODEPOOL}=gpu")
    refuse_node(sim, old["metadata"]["name"])
    await pending(sim, small("a", 200), small("b", 200))
    await asyncio.sleep(300.0)
    assert machines(sim) == 1
    await asyncio.sleep(HOURS / 4)
    assert machines(sim) == 2
    assert (phase(sim, "a"), phase(sim, "b")) == ("Running", "Running")


@simulated()
async def test_pods_that_a_user_places(sim: Sim) -> None:
    """Pods with spec.nodeName take the room of each machine: two are bought, and the second one is no larger."""

    def create(name: str) -> None:
        containers = [{"name": "own", "image": "own", "resources": {"requests": {"cpu": "500m"}}}]
        spec = {"containers": containers, "tolerations": EVERYTHING, "nodeName": name}
        sim.store.create("pods", {"metadata": {"name": f"own-{name}"}, "spec": spec}, "default")

    on_each_node(sim, create, "kubernetes.io/hostname")
    await with_node_pool(sim)
    await pending(sim, with_cpu("trainer", "3500m"))
    await asyncio.sleep(HOURS)
    assert machines(sim) == 2
    assert not misfits(sim)[0].get("instanceTypes")


@simulated()
async def test_nodes_that_are_not_ready_when_initialized(sim: Sim) -> None:
    """Nodes that are tainted and NotReady when they are initialized: two machines are bought at most."""

    def act(name: str) -> None:
        node = sim.store.get("nodes", name)
        assert node is not None
        conditions = [
            {**one, "status": "False", "lastTransitionTime": rfc3339(sim.store.now())}
            if one["type"] == "Ready"
            else one
            for one in node["status"]["conditions"]
        ]
        sim.store.patch("nodes", name, {"status": {"conditions": conditions}}, subresource="status")

    taint_nodes(sim)
    on_each_node(sim, act, labels.INITIALIZED)
    await with_node_pool(sim)
    await pending(sim, pod("p"))
    await asyncio.sleep(HOURS)
    assert machines(sim) == 2
    assert any("its Node is NotReady" in message for _, message in pod_events(sim, "p"))


@simulated()
async def test_a_label_that_another_controller_removes(sim: Sim) -> None:
    """A controller removes a label of Nodes each time that it is written: the writes become rare."""
    writes = [0]

    def changed(kind: str, resource: str, obj: Json, _: object) -> None:
        if resource == "nodes" and kind != "DELETED" and "team" in obj["metadata"]["labels"]:
            name = obj["metadata"]["name"]
            writes[0] += 1
            asyncio.get_running_loop().call_soon(
                lambda: sim.store.patch("nodes", name, {"metadata": {"labels": {"team": None}}})
            )

    sim.store.subscribe(changed)
    await with_node_pool(sim)
    await pending(sim, pod("p"))
    await asyncio.sleep(HOURS / 2)
    assert writes[0] < 20
    assert (machines(sim), phase(sim, "p")) == (1, "Running")


@simulated()
async def test_the_machine_of_a_statefulset_is_removed(sim: Sim) -> None:
    """The pod that replaces a deleted one counts its machine: two machines are bought for both."""
    await with_node_pool(sim)
    workload(sim, "StatefulSet", "trainer", terminationGracePeriodSeconds=30)
    await sim.until(lambda: phase(sim, "trainer-0") == "Running", HOURS, "the pod runs")
    taint_nodes(sim)
    await sim.delete_claim(claims_of(sim)[0]["metadata"]["name"])
    await asyncio.sleep(HOURS)
    assert machines(sim) - 1 <= 2


def class_of(body: Json, name: str) -> Json:
    """The NodePool with another node class."""
    body["spec"]["template"]["spec"]["nodeClassRef"]["name"] = name
    return body


def initialized(sim: Sim) -> int:
    found = (one["metadata"]["labels"] for one in sim.store.list("nodes"))
    return sum(labels.INITIALIZED in one for one in found)


def is_write_of_class(call: Call, name: str = "default") -> bool:
    """Whether the call writes this node class."""
    return call.verb == "PATCH" and call.target.kind == "agentpoolnodeclasses" and call.target.name == name


@pytest.mark.matrix(quick=1)
@simulated()
async def test_a_node_class_that_cannot_be_written_stops_no_other(sim: Sim) -> None:
    """A webhook fails for one node class: its NodePool buys nothing after a misfit, that of another class goes on."""
    taint_nodes(sim)
    await sim.apply(node_class("other"))
    await sim.apply(class_of(node_pool("other"), "other"))
    await with_node_pool(sim, disruption={"consolidateAfter": "Never"})
    await pending(sim, pod("p", nodeSelector={labels.NODEPOOL: "gpu"}))
    await sim.until(lambda: claims_of(sim), 60.0, "a NodeClaim")
    mend = refuse(sim, is_write_of_class, 500, "InternalError")
    await asyncio.sleep(HOURS / 2)
    assert machines(sim) == 1
    await pending(sim, pod("q", tolerations=EVERYTHING, nodeSelector={labels.NODEPOOL: "other"}))
    await sim.until(lambda: phase(sim, "q") == "Running", HOURS, "the pod of the other NodePool runs")
    assert len(claims_of(sim)) == 1
    assert "its node class cannot be written" in pod_events(sim, "p")[-1][1]
    mend()
    await sim.until(lambda: len(claims_of(sim)) == 2, HOURS, "the second machine")
    assert len(misfits(sim)) == 1


@simulated()
async def test_a_machine_whose_room_others_use_is_recorded_once(sim: Sim) -> None:
    """Its pods wait at the limit, and one of them runs on a later machine: nothing is written again and again."""
    size = [{"key": labels.INSTANCE_TYPE, "operator": "In", "values": ["Standard_NC64as_T4_v3"]}]
    await with_node_pool(sim, requirements=size, limits={"nodes": "2"})
    stop_scheduler(sim)
    await pending(sim, *(pod(f"a{number}") for number in range(4)))
    await asyncio.sleep(30.0)
    await pending(sim, *(pod(f"b{number}", nodeSelector={labels.ZONE: "westeurope-2"}) for number in range(4)))
    await sim.until(lambda: initialized(sim) == 2, HOURS, "two machines are Ready")
    made = sorted(claims_of(sim), key=lambda one: str(one["metadata"]["creationTimestamp"]))
    first, second = (one["status"]["nodeName"] for one in made)
    await pending(sim, *(with_cpu(f"c{number}", "3") for number in range(4)))
    for node, names in ((first, "c0 c1 c2 c3"), (second, "a0 b0 b1 b2")):
        for name in names.split():
            bind(sim.store, name, "default", {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}})
    await asyncio.sleep(300.0)
    before = len(sim.audit_log.calls())
    await asyncio.sleep(600.0)
    assert machines(sim) == 2
    assert not [call for call in sim.audit_log.calls()[before:] if is_write_of_class(call)]
