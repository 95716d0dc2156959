"""Where kube-scheduler binds pods, and its words about pods that fit nowhere.

Each case is a set of Nodes, the pods on them, and one more pod. Both schedulers must bind it to the same Node, or give
the same message in its condition.
"""

import asyncio
from collections.abc import AsyncGenerator, Generator
from typing import Any, NamedTuple

import pytest
import pytest_asyncio

from tests.cluster.controlplane import ControlPlane
from tests.cluster.scheduler import kube_scheduler

from .conftest import real, simulated
from .server import Event, Json, Server
from .things import EVENTS, NODES, PODS, at, meta

pytestmark = pytest.mark.asyncio

ROOM = {"cpu": "4", "memory": "8Gi", "pods": "10"}
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
UNHELPFUL = "Preemption is not helpful for scheduling"
NO_VICTIMS = "No preemption victims found for incoming pod"
TAINT = {"key": "sku", "value": "gpu", "effect": "NoSchedule"}
APP = {"app": "x"}


class Place(NamedTuple):
    """A Node; a zone becomes a label. `pods`: (labels, spec) of the pods on it."""

    allocatable: Json = ROOM
    labels: Json = {}
    taints: tuple[Json, ...] = ()
    pods: tuple[tuple[Json, Json], ...] = ()
    unschedulable: bool = False


def zone(name: str, *pods: tuple[Json, Json]) -> Place:
    return Place(labels={ZONE: name}, pods=pods)


def uses(**requests: str) -> Json:
    """The spec of a pod with these requests; `gpu` is a device, which has an equal limit."""
    named = {"nvidia.com/gpu" if name == "gpu" else name: value for name, value in requests.items()}
    limits = {name: value for name, value in named.items() if "/" in name}
    return {"containers": [_container("main", named, limits)]}


def _container(name: str, requests: Json, limits: Json | None = None, **fields: object) -> Json:
    return {"name": name, "image": "none", "resources": {"requests": requests, "limits": limits or {}}, **fields}


def tolerates(**toleration: str) -> Json:
    return {"tolerations": [toleration]}


def selects(*terms: list[Json] | Json) -> Json:
    """Required node affinity: each term is a list of expressions, or a whole term."""
    listed = [{"matchExpressions": term} if isinstance(term, list) else term for term in terms]
    return {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": listed}}}
    }


def expression(operator: str, *values: str, key: str = "size") -> Json:
    return {"key": key, "operator": operator, **({"values": [*values]} if values else {})}


def near(kind: str, key: str = HOST, labels: Json | None = None) -> Json:
    """Required affinity (`podAffinity`) or anti-affinity (`podAntiAffinity`) to pods with these labels."""
    term = {"topologyKey": key, "labelSelector": {"matchLabels": labels or APP}}
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def spread(key: str, skew: int = 1, **fields: object) -> Json:
    constraint = {"topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": "DoNotSchedule", **fields}
    return {"topologySpreadConstraints": [{"labelSelector": {"matchLabels": APP}, **constraint}]}


def port(number: int) -> Json:
    ports = [{"containerPort": number, "hostPort": number}]
    return {"containers": [{"name": "main", "image": "none", "ports": ports}]}


def nowhere(*reasons: str, nodes: int = 1, preemption: str = "") -> str:
    """The message; without `preemption` it does not help on any Node."""
    listed = preemption or f"0/{nodes} nodes are available: {nodes} {UNHELPFUL}."
    after = "no new claims to deallocate, preemption"
    return f"0/{nodes} nodes are available: {', '.join(reasons)}. {after}: {listed}"


def full(*reasons: str) -> str:
    """The message of one Node where only the deletion of pods would help."""
    return nowhere(*reasons, preemption=f"0/1 nodes are available: 1 {NO_VICTIMS}.")


TAINTED = "1 node(s) had untolerated taint(s)"
UNSELECTED = "1 node(s) didn't match Pod's node affinity/selector"
BIG, SMALL = Place(labels={"size": "16"}), Place(labels={"size": "4"})
X_ON: tuple[Json, Json] = (APP, {})

# The Nodes, the pod's spec, and the index of its Node, or the message.
CASES: dict[str, tuple[list[Place], Json, int | str]] = {
    "room": ([Place()], uses(cpu="4", memory="8Gi"), 0),
    "no Node": ([], {}, "no nodes available to schedule pods"),
    "a taint": ([Place(taints=(TAINT,))], {}, nowhere(TAINTED)),
    "a taint with NoExecute": ([Place(taints=({**TAINT, "effect": "NoExecute"},))], {}, nowhere(TAINTED)),
    "a preference against": ([Place(taints=({**TAINT, "effect": "PreferNoSchedule"},)), Place()], {}, 1),
    "only a preference against": ([Place(taints=({**TAINT, "effect": "PreferNoSchedule"},))], {}, 0),
    "toleration Equal": ([Place(taints=(TAINT,))], tolerates(key="sku", value="gpu", effect="NoSchedule"), 0),
    "toleration of another value": ([Place(taints=(TAINT,))], tolerates(key="sku", value="cpu"), nowhere(TAINTED)),
    "toleration of another effect": (
        [Place(taints=(TAINT,))],
        tolerates(key="sku", operator="Exists", effect="NoExecute"),
        nowhere(TAINTED),
    ),
    "toleration Exists": ([Place(taints=(TAINT,))], tolerates(key="sku", operator="Exists"), 0),
    "toleration of everything": ([Place(taints=(TAINT,))], tolerates(operator="Exists"), 0),
    "nodeSelector": ([SMALL, BIG], {"nodeSelector": {"size": "16"}}, 1),
    "nodeSelector nowhere": ([SMALL], {"nodeSelector": {"size": "16"}}, nowhere(UNSELECTED)),
    "affinity In": ([SMALL, BIG], selects([expression("In", "16", "32")]), 1),
    "affinity NotIn": ([SMALL, Place()], selects([expression("NotIn", "4")]), 1),
    "affinity Exists": ([Place(), BIG], selects([expression("Exists")]), 1),
    "affinity DoesNotExist": ([SMALL, Place()], selects([expression("DoesNotExist")]), 1),
    "affinity Gt": ([SMALL, Place(), BIG], selects([expression("Gt", "8")]), 2),
    "affinity Lt": ([BIG, Place(), SMALL], selects([expression("Lt", "8")]), 2),
    "affinity of two terms": ([Place(), BIG], selects([expression("In", "1")], [expression("In", "16")]), 1),
    "affinity of two expressions": (
        [BIG],
        selects([expression("Exists"), expression("NotIn", "16")]),
        nowhere(UNSELECTED),
    ),
    "an empty term": ([BIG], selects({}), nowhere(UNSELECTED)),
    "more than the Node has": ([Place()], uses(cpu="5"), nowhere("1 Insufficient cpu")),
    "more than is left": ([Place(pods=((APP, uses(cpu="3")),))], uses(cpu="2"), full("1 Insufficient cpu")),
    "several resources": (
        [Place()],
        uses(cpu="5", memory="9Gi", gpu="1"),
        nowhere("1 Insufficient cpu", "1 Insufficient memory", "1 Insufficient nvidia.com/gpu"),
    ),
    "devices": ([Place(), Place({**ROOM, "nvidia.com/gpu": "2"})], uses(gpu="2"), 1),
    "devices in use": (
        [Place({**ROOM, "nvidia.com/gpu": "2"}, pods=((APP, uses(gpu="1")),))],
        uses(gpu="2"),
        full("1 Insufficient nvidia.com/gpu"),
    ),
    "a limit is a request": (
        [Place()],
        {"containers": [_container("main", {}, {"cpu": "5"})]},
        nowhere("1 Insufficient cpu"),
    ),
    "too many pods": ([Place({**ROOM, "pods": "1"}, pods=(X_ON,))], {}, full("1 Too many pods")),
    "an initialization": (
        [Place()],
        {"initContainers": [_container("init", {"cpu": "5"})], **uses(cpu="1")},
        nowhere("1 Insufficient cpu"),
    ),
    "initializations one by one": (
        [Place()],
        {"initContainers": [_container("a", {"cpu": "3"}), _container("b", {"cpu": "3"})], **uses(cpu="4")},
        0,
    ),
    "a sidecar": (
        [Place()],
        {"initContainers": [_container("init", {"cpu": "1"}, restartPolicy="Always")], **uses(cpu="3500m")},
        nowhere("1 Insufficient cpu"),
    ),
    "a sidecar and an initialization": (
        [Place()],
        {
            "initContainers": [
                _container("sidecar", {"cpu": "1"}, restartPolicy="Always"),
                _container("init", {"cpu": "3500m"}),
            ],
            **uses(cpu="1"),
        },
        nowhere("1 Insufficient cpu"),
    ),
    "resources of the pod": ([Place()], {"resources": {"requests": {"cpu": "5"}}}, nowhere("1 Insufficient cpu")),
    "a host port": ([Place(pods=((APP, port(80)),)), Place()], port(80), 1),
    "a host port in use": (
        [Place(pods=((APP, port(80)),))],
        port(80),
        full("1 node(s) didn't have free ports for the requested pod ports"),
    ),
    "cordoned": (
        [Place(unschedulable=True)],
        {},
        nowhere(TAINTED.replace("had untolerated taint(s)", "were unschedulable")),
    ),
    "cordoned and tolerated": (
        [Place(unschedulable=True)],
        tolerates(key="node.kubernetes.io/unschedulable", operator="Exists"),
        0,
    ),
    "spread over zones": ([zone("1", X_ON), zone("2")], spread(ZONE), 1),
    "spread over Nodes": ([zone("1", X_ON), zone("1")], spread(HOST), 1),
    "spread without a label": (
        [Place()],
        spread(ZONE),
        nowhere("1 node(s) didn't match pod topology spread constraints (missing required label)"),
    ),
    "spread with too few domains": (
        [zone("1", X_ON)],
        spread(ZONE, minDomains=2),
        full("1 node(s) didn't match pod topology spread constraints"),
    ),
    "spread counts excluded Nodes": (
        [zone("1", X_ON), zone("2")._replace(taints=(TAINT,))],
        spread(ZONE),
        nowhere(
            "1 node(s) didn't match pod topology spread constraints",
            TAINTED,
            nodes=2,
            preemption=f"0/2 nodes are available: 1 {NO_VICTIMS}, 1 {UNHELPFUL}.",
        ),
    ),
    "spread that honors taints": (
        [zone("1", X_ON), zone("2")._replace(taints=(TAINT,))],
        spread(ZONE, nodeTaintsPolicy="Honor"),
        0,
    ),
    "apart": ([Place(pods=(X_ON,)), Place()], near("podAntiAffinity"), 1),
    "apart nowhere": (
        [Place(pods=(X_ON,))],
        near("podAntiAffinity"),
        full("1 node(s) didn't match pod anti-affinity rules"),
    ),
    "apart by zone": ([zone("1", X_ON), zone("1"), zone("2")], near("podAntiAffinity", ZONE), 2),
    "kept away by others": (
        [Place(pods=((APP, near("podAntiAffinity")),))],
        {},
        full("1 node(s) didn't satisfy existing pods anti-affinity rules"),
    ),
    "together": ([Place(), Place(pods=(X_ON,))], near("podAffinity"), 1),
    "the first of a group": ([Place()], near("podAffinity"), 0),
    "together with nobody": (
        [Place()],
        near("podAffinity", labels={"app": "other"}),
        nowhere("1 node(s) didn't match pod affinity rules"),
    ),
    "many reasons": (
        [Place(taints=(TAINT,)), Place(labels=APP), Place({**ROOM, "cpu": "1"}), Place(pods=((APP, uses(cpu="4")),))],
        {**uses(cpu="2"), **selects([expression("DoesNotExist", key="app")])},
        nowhere(
            "1 node(s) didn't match Pod's node affinity/selector",
            TAINTED,
            "2 Insufficient cpu",
            nodes=4,
            preemption=f"0/4 nodes are available: 1 {NO_VICTIMS}, 3 {UNHELPFUL}.",
        ),
    ),
}


@pytest.fixture(scope="module")
def real_scheduler(control_plane: ControlPlane) -> Generator[None, None, None]:
    """kube-scheduler, while the tests of this module run, in a cluster without other objects."""
    with asyncio.Runner() as runner:
        runner.run(control_plane.wipe())
        life = kube_scheduler(control_plane)
        runner.run(life.__aenter__())
        yield
        runner.run(life.__aexit__(None, None, None))


@pytest.fixture
def plane(request: pytest.FixtureRequest, real_server: ControlPlane | None) -> ControlPlane | None:
    """The control plane, with a scheduler; None for the simulator."""
    if real_server is not None:
        request.getfixturevalue("real_scheduler")
    return real_server


@pytest_asyncio.fixture
async def server(plane: ControlPlane | None) -> AsyncGenerator[Server, None]:
    """A server with a scheduler."""
    async with simulated(scheduler=True) if plane is None else real(plane) as made:
        yield made
        await made.clean()


async def create(server: Server, place: Place) -> str:
    """A Node with its pods; returns its name."""
    head = meta(server, "node")
    head["labels"] |= {HOST: head["name"], **place.labels}
    body = {"metadata": head, "status": {"allocatable": place.allocatable, "capacity": place.allocatable}}
    await server.done("POST", NODES, {"apiVersion": "v1", "kind": "Node", **body})
    for labels, spec in place.pods:
        await create_pod(server, {**spec, "nodeName": head["name"]}, labels)
    spec = {"taints": [*place.taints] or None, **({"unschedulable": True} if place.unschedulable else {})}
    await server.patch(f"{NODES}/{head['name']}", {"spec": spec})
    return str(head["name"])


async def create_pod(server: Server, spec: Json, labels: Json | None = None) -> Json:
    # Without tolerations of its own a pod gets those of unready Nodes on the real server, which no case has.
    whole = {"containers": [{"name": "main", "image": "none"}], **spec}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": meta(server, "pod", labels=labels or {}), "spec": whole}
    return await server.done("POST", PODS, body)


def condition(pod: Json) -> Json:
    """The PodScheduled condition."""
    found: list[Json] = pod.get("status", {}).get("conditions") or []
    return next((one for one in found if one["type"] == "PodScheduled"), {})


@pytest.mark.parametrize("case", CASES)
async def test_where_a_pod_is_bound(server: Server, case: str) -> None:
    """The pod is bound to the Node of the table, or its condition has the message of the table."""
    places, spec, wanted = CASES[case]
    names = [await create(server, place) for place in places]
    pod = await create_pod(server, spec, APP)
    result: Any = ""

    def is_settled(event: Event) -> bool:
        nonlocal result
        node = event.object["spec"].get("nodeName")
        result = names.index(node) if node else condition(event.object).get("message", "")
        return bool(node) or result == wanted

    async with server.stream(PODS, fieldSelector=f"metadata.name={pod['metadata']['name']}") as watch:
        try:
            async with asyncio.timeout(300):
                await watch.until(is_settled)
        except TimeoutError:
            pass
    assert result == wanted
    if isinstance(wanted, str):
        found = condition(await server.get(at(PODS, pod)))
        assert (found["status"], found["reason"]) == ("False", "Unschedulable")


async def test_a_gated_pod_waits_for_its_gates(server: Server) -> None:
    """A pod with a scheduling gate is SchedulingGated from its creation, and is bound when the gate is removed."""
    node = await create(server, Place())
    pod = await create_pod(server, {"schedulingGates": [{"name": "example.com/gate"}]})
    found = condition(pod)
    assert (found["status"], found["reason"]) == ("False", "SchedulingGated")
    assert found["message"] == "Scheduling is blocked due to non-empty scheduling gates"
    await server.patch(at(PODS, pod), {"spec": {"schedulingGates": None}})
    assert (await bound(server, pod))["spec"]["nodeName"] == node


async def test_a_pod_is_bound_when_a_node_can_take_it(server: Server) -> None:
    """A pending pod is bound after a Node came, and after its taint is removed; the Events state both."""
    pod = await create_pod(server, {})
    name = pod["metadata"]["name"]
    async with server.stream(EVENTS, fieldSelector=f"involvedObject.name={name}") as watch:
        failed = (await watch.until(lambda event: event.object["reason"] == "FailedScheduling")).object
        node = await create(server, Place(taints=(TAINT,)))
        await watch.until(lambda event: event.object["message"] == nowhere(TAINTED))
        await server.patch(f"{NODES}/{node}", {"spec": {"taints": None}})
        done = (await watch.until(lambda event: event.object["reason"] == "Scheduled")).object
    assert (failed["type"], failed["action"]) == ("Warning", "Scheduling")
    assert failed["message"] == "no nodes available to schedule pods"
    assert (done["type"], done["action"]) == ("Normal", "Binding")
    assert done["message"] == f"Successfully assigned default/{name} to {node}"
    assert failed["reportingComponent"] == done["reportingComponent"] == "default-scheduler"
    assert failed["involvedObject"].items() >= {"kind": "Pod", "namespace": "default", "name": name}.items()


async def test_another_schedulers_pod_is_left_alone(server: Server) -> None:
    """A pod of another scheduler gets neither a Node nor a condition, although a later pod is bound."""
    node = await create(server, Place())
    other = await create_pod(server, {"schedulerName": "other"})
    pod = await create_pod(server, {})
    assert (await bound(server, pod))["spec"]["nodeName"] == node
    found = await server.get(at(PODS, other))
    assert not found["spec"].get("nodeName")
    assert not condition(found)


async def bound(server: Server, pod: Json) -> Json:
    """The pod, once it has a Node."""
    async with server.stream(PODS, fieldSelector=f"metadata.name={pod['metadata']['name']}") as watch:
        return (await watch.until(lambda event: bool(event.object["spec"].get("nodeName")))).object
