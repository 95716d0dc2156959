"""Draws a round from a seed: NodePools, pods of a few shapes, and how reality differs from the prediction.

The differences are those of the swarm (`tests.swarm.facts`). What its webhook changes is changed here when the pods are
created. Of the shapes some can never run, and some only on a machine with less room than predicted.
"""

import copy
from dataclasses import dataclass
from random import Random
from typing import Any

from provisioner.simulator.azure import sizes
from tests.swarm import facts, plan
from tests.world.demand import GPU, TAINT, TOLERATION, node_pool

Json = dict[str, Any]

SIZES = (
    "Standard_NC4as_T4_v3",
    "Standard_NC16as_T4_v3",
    "Standard_NC64as_T4_v3",
    "Standard_NC24ads_A100_v4",
    "Standard_NC96ads_A100_v4",
    "Standard_ND96isr_H100_v5",
)
ZONE, HOSTNAME, SIZE = "topology.kubernetes.io/zone", "kubernetes.io/hostname", "node.kubernetes.io/instance-type"
RESEARCH = {"key": "team", "value": "research", "effect": "NoSchedule"}
# The second one does not preempt.
PRIORITIES = {"round-trip-first": ("PreemptLowerPriority", 1000), "round-trip-calm": ("Never", 500)}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
MOST_PODS = 30


@dataclass(frozen=True, kw_only=True)
class Round:
    """`pods` have a label `app` with their shape. `facts`: see `tests.swarm.facts`."""

    seed: int
    node_pools: tuple[Json, ...]
    pods: tuple[Json, ...]
    facts: dict[str, Any]
    location: str


def draw(seed: int) -> Round:
    """The round of this seed."""
    rng = Random(f"round-trip/{seed}")
    pools = [_node_pool(rng, number) for number in range(rng.choice((1, 2, 3, 4)))]
    found = facts.draw(Random(f"round-trip/{seed}/facts"), [one for one, _ in pools], ())
    location = found.get("azure", {}).get("location", "westeurope")
    pods: list[Json] = []
    for number in range(rng.randint(1, 8)):
        shape = _shape(rng, f"s{number}", *rng.choice(pools), location)
        names = [f"s{number}-{copied}" for copied in range(rng.choice((1, 2, 3, 5)))]
        pods += [{**copy.deepcopy(shape), "metadata": {"name": name, **shape["metadata"]}} for name in names]
    for pod in pods:
        facts.admit(pod, found.get("admission", {}), [one for one, _ in pools])
    rng.shuffle(pods)
    made = tuple(made for _, made in pools)
    return Round(seed=seed, node_pools=made, pods=tuple(pods[:MOST_PODS]), facts=found, location=location)


def _node_pool(rng: Random, number: int) -> tuple[plan.NodePool, Json]:
    chosen = tuple(sorted(rng.sample(SIZES, rng.choice((1, 2, 3, 6)))))
    name = f"np{number}"
    requirements = [{"key": SIZE, "operator": "In", "values": [*chosen]}]
    after = rng.choice(("0s", "5s", "Never"))
    disruption = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": after, "budgets": [{"nodes": "100%"}]}
    made = node_pool(name, requirements=requirements, disruption=disruption)
    template = made["spec"]["template"]
    template["metadata"]["labels"] = {"team": rng.choice(("ml", "ml", "vision"))}
    template["spec"]["taints"] = rng.choice(([TAINT], [TAINT], [], [TAINT, RESEARCH]))
    if rng.random() < 0.3:
        made["spec"]["weight"] = rng.randint(1, 100)
    return plan.NodePool(name=name, sizes=chosen), made


def _shape(rng: Random, app: str, one: plan.NodePool, node_pool: Json, location: str) -> Json:
    """A pod for a share of a size of a NodePool, whose taints it mostly tolerates."""
    size_name = rng.choice(one.sizes)
    size = sizes.find(size_name) or sizes.Size()
    gpus = min(size.gpus, rng.choice((1, 1, 1, 2, 4, 8)))
    amounts = _amounts(rng, size, gpus)
    container: Json = {"name": "main", "image": "trainer", "resources": {"requests": amounts, "limits": amounts}}
    spec: Json = {"containers": [container]}
    research = {**RESEARCH, "operator": "Equal"}
    needed = [{**taint, "operator": "Equal"} for taint in node_pool["spec"]["template"]["spec"]["taints"]]
    spec["tolerations"] = rng.choice((needed, needed, needed, [TOLERATION, research], [TOLERATION]))
    zone = f"{location}-{rng.randint(1, 3)}"
    if rng.random() < 0.3:
        spec["nodeSelector"] = rng.choice(({ZONE: zone}, {SIZE: size_name}, {"team": "ml"}, {"team": "vision"}))
    if rng.random() < 0.05:
        spec["nodeSelector"] = {"example.com/unknown": "x"}
    affinity: Json = {}
    if rng.random() < 0.2:
        affinity["nodeAffinity"] = _node_affinity(rng, size_name, zone)
    own = {"matchLabels": {"app": app}}
    kind = rng.choice(("", "", "", "", "spread", "spread", "apart", "together", "apart-from-first"))
    key = rng.choice((ZONE, HOSTNAME))
    if kind == "spread":
        hard = rng.choice(("DoNotSchedule", "DoNotSchedule", "ScheduleAnyway"))
        spread = {"topologyKey": key, "maxSkew": rng.choice((1, 2)), "whenUnsatisfiable": hard, "labelSelector": own}
        spec["topologySpreadConstraints"] = [spread]
    elif kind == "apart":
        affinity["podAntiAffinity"] = {REQUIRED: [{"topologyKey": HOSTNAME, "labelSelector": own}]}
    elif kind == "apart-from-first":
        first = {"matchLabels": {"app": "s0"}}
        affinity["podAntiAffinity"] = {REQUIRED: [{"topologyKey": HOSTNAME, "labelSelector": first}]}
    elif kind == "together":
        affinity["podAffinity"] = {REQUIRED: [{"topologyKey": key, "labelSelector": own}]}
    if affinity:
        spec["affinity"] = affinity
    if rng.random() < 0.15:
        container["ports"] = [{"containerPort": 80, "hostPort": rng.choice((8080, 9090)), "protocol": "TCP"}]
    if rng.random() < 0.25:
        spec["initContainers"] = [_init_container(rng, size)]
    if rng.random() < 0.2:
        spec["priorityClassName"] = rng.choice([*PRIORITIES])
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": "default", "labels": {"app": app}},
        "spec": spec,
    }


def _amounts(rng: Random, size: sizes.Size, gpus: int) -> Json:
    """Of so many GPUs' share of the size: a little, all that is surely there, or about all."""
    share = rng.choice((0.1, 0.3, 0.45, 0.7, rng.uniform(0.8, 0.97))) * gpus / max(1, size.gpus)
    amounts: Json = {GPU: str(gpus)}
    amounts["cpu"] = f"{max(100, int(size.vcpus * 1000 * (share if rng.random() < 0.6 else 0.1 * share)))}m"
    amounts["memory"] = f"{max(100, int(size.memory_gib * 1024 * (share if rng.random() < 0.4 else 0.1 * share)))}Mi"
    if rng.random() < 0.2:
        amounts["ephemeral-storage"] = f"{rng.choice((1, 20, 60))}Gi"
    return amounts


def _init_container(rng: Random, size: sizes.Size) -> Json:
    """One that ends, which needs more than the containers, or one beside them."""
    requests = {"cpu": f"{int(size.vcpus * 1000 * rng.choice((0.05, 0.5)))}m", "memory": "1Gi"}
    made: Json = {"name": "init", "image": "init", "resources": {"requests": requests}}
    return {**made, "restartPolicy": "Always"} if rng.random() < 0.5 else made


def _node_affinity(rng: Random, size: str, zone: str) -> Json:
    one, other = {"key": SIZE, "operator": "In", "values": [size]}, {"key": ZONE, "operator": "NotIn", "values": [zone]}
    if rng.random() < 0.3:
        return {PREFERRED: [{"weight": 10, "preference": {"matchExpressions": [rng.choice((one, other))]}}]}
    terms = rng.choice(([one], [other], [one, other]))
    return {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [term]} for term in terms]}}
