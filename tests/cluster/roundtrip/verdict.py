"""What is wrong with a round: judged by the documentation of kube-scheduler and tables of the simulated machines.

Nothing of it is computed by the program. A pod that waits is placeable if it could be bound to one more machine that a
NodePool offers, beside the machines that there are: kube-scheduler's filters, as `tests.oracle` has them, and the room
that a machine of the size surely has. `least_share` leaves out what the program need not count on.

The rule for machines: a decision names a machine for each pod. Another one may be bought for a pod only after that one
did not take it, because kube-scheduler gave its room to another pod or because it differs from the prediction. So there
are at most as many more machines as pods that were displaced, and for one pod two that no pod uses. Without a
difference, pods are on an earlier machine of the shape that it was not decided for. And no machine is bought for pods
while an earlier one of each is on its way. Both hold for pods that follow no others (`follows`).
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from provisioner.api import labels
from provisioner.simulator.azure import sizes
from provisioner.simulator.nodes import resources
from provisioner.simulator.scheduling.requests import amounts, pod_requests
from tests.oracle.binding import Cluster
from tests.oracle.machines import Amounts, Machine
from tests.oracle.predicates import matches_node, tolerates

from .draw import HOSTNAME, SIZE, ZONE, Round

Json = dict[str, Any]

# What the program may leave unused of the memory of a size: it counts on 7.5 % less than the size is sold with, and
# on what kubelet keeps for 250 pods.
LEAST_MEMORY = 0.925
MOST_PODS, FEWEST_PODS = 250, 30
LEAST_DISK_GIB = 100
MOST_FOR_ONE = 2
NAMESPACES: Json = {"namespaces": [{"metadata": {"name": name, "labels": {}}} for name in ("default", "kube-system")]}


def stated(claim: Json) -> frozenset[str]:
    """The UIDs of the pods that a NodeClaim was bought for."""
    text = (claim["metadata"].get("annotations") or {}).get(labels.BOUGHT_FOR, "{}")
    return frozenset(uid for uids in json.loads(text).get("pods", {}).values() for uid in uids)


def placeable(drawn: Round, nodes: list[Json], pods: list[Json]) -> dict[str, str]:
    """The machine that each waiting pod could be bound to, by the name of the pod: `NodePool/size/zone`."""
    existing = [_existing(node, pods) for node in nodes]
    daemons = _daemon_pods(drawn)
    found = {}
    for pod in pods:
        if not waits(pod):
            continue
        for machine in _offered(drawn, daemons):
            cluster = Cluster(NAMESPACES, [*existing, machine])
            if _fits(machine, pod) and not any(True for _ in cluster.obstacles(machine, pod)):
                found[pod["metadata"]["name"]] = (
                    f"{machine.node_pool}/{machine.labels[SIZE]}/{machine.labels.get(ZONE)}"
                )
                break
    return found


def extra_machines(claims: Mapping[str, Json], ran: set[str]) -> tuple[set[str], dict[str, list[str]]]:
    """Those bought for pods that all had a machine already, and all that run of each pod (by UID), the oldest first.

    `claims`: all that were created, by name, in the order of creation. `ran`: those whose machine was Ready.
    """
    of_pod: dict[str, list[str]] = {}
    extra = set()
    for name, claim in claims.items():
        if name not in ran:
            continue
        uids = stated(claim)
        if uids and all(of_pod.get(uid) for uid in uids):
            extra.add(name)
        for uid in uids:
            of_pod.setdefault(uid, []).append(name)
    return extra, of_pod


def too_early(claim: Json, before: Mapping[str, Json]) -> bool:
    """Whether each pod of a new NodeClaim has another one that still may become its machine and has no Node yet."""
    coming: set[str] = set()
    for one in before.values():
        status = one.get("status") or {}
        failed = any(it["type"] == "Launched" and it["status"] == "False" for it in status.get("conditions") or ())
        if not failed and "deletionTimestamp" not in one["metadata"] and not status.get("nodeName"):
            coming |= stated(one)
    uids = stated(claim)
    return bool(uids) and uids <= coming


def displaced(of_pod: Mapping[str, list[str]], pods: list[Json], claim_of: Mapping[str, str]) -> set[str]:
    """The pods with a machine that wait, or are on another one than those that were first decided for equal pods.

    `claim_of`: the NodeClaim of each Node.
    """
    first = [(_app(pod), of_pod[pod["metadata"]["uid"]][0]) for pod in pods if of_pod.get(pod["metadata"]["uid"])]
    free, found = Counter(first), set()
    for pod in pods:
        place = (_app(pod), claim_of.get(pod["spec"].get("nodeName", ""), ""))
        if free[place]:
            free[place] -= 1
        elif of_pod.get(pod["metadata"]["uid"]):
            found.add(pod["metadata"]["name"])
    return found


def unexplained(extra: set[str], claims: Mapping[str, Json], pods: list[Json], claim_of: Mapping[str, str]) -> set[str]:
    """The machines of `extra` for whose shapes no earlier machine lost room to a pod that was not decided for it.

    A pod that follows others into a zone or onto a machine may be kept off a machine that has the room.
    """
    by_uid = {pod["metadata"]["uid"]: pod for pod in pods}
    there: dict[str, Counter[str]] = {}
    for pod in pods:
        there.setdefault(claim_of.get(pod["spec"].get("nodeName", ""), ""), Counter())[_app(pod)] += 1
    decided = {name: Counter(_app(by_uid[uid]) for uid in stated(claims[name]) if uid in by_uid) for name in claims}
    lost = {name: bool(there.get(name, Counter()) - decided[name]) for name in claims}

    def explains(machine: str, uid: str) -> bool:
        app, earlier = _app(by_uid[uid]), [*claims][: [*claims].index(machine)]
        return follows(by_uid[uid]) or any(lost[name] for name in earlier if decided[name][app])

    return {name for name in extra if not any(uid in by_uid and explains(name, uid) for uid in stated(claims[name]))}


def useless(of_pod: Mapping[str, list[str]], pods: list[Json], claim_of: Mapping[str, str]) -> dict[str, list[str]]:
    """The machines without pods that were bought for each pod, by its name."""
    used = {claim_of.get(pod["spec"].get("nodeName", "")) for pod in pods}
    found = {
        pod["metadata"]["name"]: [name for name in of_pod.get(pod["metadata"]["uid"], ()) if name not in used]
        for pod in pods
    }
    return {name: machines for name, machines in found.items() if machines}


def follows(pod: Json) -> bool:
    """Whether other pods, wherever kube-scheduler bound them, can keep a pod off a machine that has the room."""
    spec = json.dumps(pod["spec"])
    return f'"topologyKey": "{ZONE}"' in spec or '"podAffinity"' in spec


def _app(pod: Json) -> str:
    return str(pod["metadata"]["labels"]["app"])


def waits(pod: Json) -> bool:
    """Whether a pod of a tenant is not bound."""
    meta = pod["metadata"]
    return meta["namespace"] == "default" and not pod["spec"].get("nodeName") and "deletionTimestamp" not in meta


def _requests(pod: Json) -> Amounts:
    return Counter({"pods": Decimal(1), **pod_requests(pod["spec"])})


def _fits(machine: Machine, pod: Json) -> bool:
    return all(amount <= machine.free[name] for name, amount in _requests(pod).items())


def _existing(node: Json, pods: list[Json]) -> Machine:
    meta = node["metadata"]
    running = [pod for pod in pods if pod["spec"].get("nodeName") == meta["name"]]
    free: Amounts = Counter(amounts(node["status"].get("allocatable")))
    for pod in running:
        free.subtract(_requests(pod))
    return Machine(meta["name"], meta.get("labels") or {}, node["spec"].get("taints") or [], free, [], running)


def _offered(drawn: Round, daemons: list[Json]) -> Iterator[Machine]:
    azure, absent = drawn.facts.get("azure", {}), set(drawn.facts.get("absent", ()))
    zones = [f"{drawn.location}-{number}" for number in (1, 2, 3)]
    if drawn.facts.get("zones") is False:
        zones = [azure.get("regional_zone", "0")]
    for node_pool in drawn.node_pools:
        template = node_pool["spec"]["template"]
        chosen = template["spec"]["requirements"][-1]["values"]
        for size in (one for one in chosen if one not in absent):
            for zone in zones:
                own = {
                    **template["metadata"]["labels"],
                    labels.NODEPOOL: node_pool["metadata"]["name"],
                    SIZE: size,
                    ZONE: zone,
                    HOSTNAME: "one more",
                }
                free = surely_free(drawn, size)
                taints = template["spec"]["taints"]
                for daemon in daemons:
                    if tolerates(daemon["spec"], taints) and matches_node(own, [], daemon["spec"]):
                        free.subtract(_requests(daemon))
                yield Machine("one more", own, taints, free, [], [], node_pool["metadata"]["name"])


def surely_free(drawn: Round, size: str) -> Amounts:
    """What a Node of this size has by the simulator's table at least, and what the program counts on."""
    table = drawn.facts.get("nodes", {}).get("allocatable_shares", {})
    shares = table.get(size, table.get("", {}))
    known = sizes.find(size) or sizes.Size()
    real = resources.of(size, MOST_PODS, LEAST_DISK_GIB)
    kept_kib = known.memory_gib * 2**20 - real.free_memory_kib
    counted_kib = known.memory_gib * 2**20 * LEAST_MEMORY - kept_kib
    memory = min(real.free_memory_kib * min(1.0, shares.get("memory", 1.0)), counted_kib) * 1024
    return Counter(
        {
            "cpu": Decimal(int(real.free_cpu_milli * min(1.0, shares.get("cpu", 1.0)))) / 1000,
            "memory": Decimal(int(memory)),
            "ephemeral-storage": Decimal(int(real.free_disk_bytes * min(1.0, shares.get("ephemeral-storage", 1.0)))),
            "pods": Decimal(FEWEST_PODS),
            "nvidia.com/gpu": Decimal(known.gpus),
        }
    )


def _daemon_pods(drawn: Round) -> list[Json]:
    return [
        {
            "metadata": {"name": one["name"], "namespace": "kube-system", "labels": {}},
            "spec": {
                "containers": [{"name": "main", "resources": {"requests": one["requests"]}}],
                "tolerations": [{"operator": "Exists"}],
            },
        }
        for one in drawn.facts.get("daemon_sets", ())
    ]
