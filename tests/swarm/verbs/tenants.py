"""What tenants do: valid odd objects, pods that block a drain, bursts."""

import asyncio
from contextlib import suppress
from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING, Any

from provisioner.api import labels
from provisioner.simulator.kube.objects import rfc3339
from tests.fuzz.objects import draw
from tests.fuzz.pods import POD_MUTATORS
from tests.swarm.owners import TOLERATIONS
from tests.swarm.plan import Event, NodePool
from tests.world.demand import pod
from tests.world.harness import EPOCH, Json, node_claim

from .base import verb
from .nodes import ready
from .people import edited
from .truth import claim_of

if TYPE_CHECKING:
    from tests.swarm.run import Run

BURST = (5, 30)
HUGE_SECONDS = 10_000_000
# Labels that Nodes of AKS have, or that tell their sizes.
SPREAD_OVER = (
    "topology.kubernetes.io/zone",
    "node.kubernetes.io/instance-type",
    "karpenter.azure.com/sku-name",
    "karpenter.azure.com/sku-series",
    "karpenter.azure.com/sku-cpu",
    "karpenter.azure.com/sku-memory",
    "karpenter.azure.com/sku-gpu-name",
    "karpenter.azure.com/sku-gpu-count",
    "nvidia.com/gpu.product",
)
TERMS, PORTS = 1_000, 10_000
ATTACHMENTS, CLAIMS = "volumeattachments.storage.k8s.io", "nodeclaims.karpenter.sh"
# How long pods run before their machine is deleted, and have until its deadline; until their volumes are detached.
SETTLED_SECONDS, DEADLINE_SECONDS, DETACHED_SECONDS = 90.0, 600.0, 30.0


@verb("odd-object")
async def odd_object(run: "Run", event: Event) -> None:
    """A tenant creates objects at the limits of the API server, and deletes them when the fault ends."""
    _, objects = draw(Random(event.pick), f"x{int(event.pick * 1e9)}")
    await _created(run, event, objects)


async def _created(run: "Run", event: Event, objects: list[Json]) -> None:
    """These objects exist while it lasts; those of a CRD that is not installed cannot."""
    made, served = [], {kind.kind for kind in run.sim.store.resources}
    for one in objects:
        if one["kind"] not in served:
            continue
        try:
            made.append(await run.apply(one))
        except AssertionError as error:
            # Refused by the API server, as most of what a tenant gets wrong is.
            if ": 4" not in str(error)[:400]:
                raise
    if made:
        run.injected(event)
    await run.lasts(event)
    for one in made:
        meta = one["metadata"]
        kind = next(kind for kind in run.sim.store.resources if kind.kind == one["kind"])
        namespace = meta.get("namespace", "")
        if run.sim.store.get(kind.key, meta["name"], namespace) is not None:
            run.sim.store.delete(kind.key, meta["name"], namespace, grace=0)


def _pods(event: Event, node_pool: str, count: int, meta: Json | None = None, **spec: Any) -> list[Json]:
    made = []
    for number in range(count):
        name = f"{event.fault}-{int(event.pick * 1e9)}-{number}"
        one = pod(name, nodeSelector={"karpenter.sh/nodepool": node_pool}, **spec)
        made.append({**one, "metadata": {**one["metadata"], **(meta or {})}})
    return made


async def _pods_of_a_node_pool(run: "Run", event: Event, count: int, meta: Json | None = None, **spec: Any) -> None:
    """Pods for one of the plan's NodePools exist while it lasts."""
    one = run.chosen(event.pick, list(run.plan.node_pools))
    if one is not None:
        await _created(run, event, _pods(event, one.name, count, meta, **spec))


@verb("burst-of-pods")
async def burst_of_pods(run: "Run", event: Event) -> None:
    """Many pods without an owner arrive at once."""
    least, most = BURST
    await _pods_of_a_node_pool(run, event, least + int(event.pick * (most - least)))


@verb("huge-grace")
async def huge_grace(run: "Run", event: Event) -> None:
    """A pod asks for months to terminate."""
    await _pods_of_a_node_pool(run, event, 1, terminationGracePeriodSeconds=HUGE_SECONDS)


@verb("do-not-disrupt")
async def do_not_disrupt(run: "Run", event: Event) -> None:
    """Pods must not be disrupted, for a while or at all."""
    value = ("true", "10m", "never")[int(event.pick * 3)]
    await _pods_of_a_node_pool(run, event, 2, {"annotations": {"karpenter.sh/do-not-disrupt": value}})


@verb("pod-at-the-limit")
async def pod_at_the_limit(run: "Run", event: Event) -> None:
    """A pod waits for hours, because its NodePool may have no machine."""
    found = [one for one in run.plan.node_pools if run.node_pool_exists(one.name) and one.replicas is None]
    one = run.chosen(event.pick, found)
    if one is not None:
        pods = _pods(event, one.name, 1, tolerations=TOLERATIONS)
        await asyncio.gather(edited(run, event, one, "limits", {"nodes": "0"}), _created(run, event, pods))


@verb("blocking-budget")
async def blocking_budget(run: "Run", event: Event) -> None:
    """A PodDisruptionBudget, or two, let no pod of a workload be evicted."""
    name = run.chosen(event.pick, [owner.workload.name for owner in run.owners])
    if name is None:
        return
    budgets = [
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": f"b{int(event.pick * 1e9)}-{number}", "namespace": "default"},
            "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": name}}},
        }
        for number in range(1 + int(event.pick * 2))
    ]
    await _created(run, event, budgets)


@verb("loaded-machine-deleted")
async def loaded_machine_deleted(run: "Run", event: Event) -> None:
    """A user deletes a NodeClaim on whose Node run an ordinary pod, a critical one and one that must not be disrupted.

    They have a volume, which is detached half a minute after they have ended. The pod that must not be disrupted ends
    with the fault, or the claim has a deadline for it.
    """
    machine, store = ready(run, event), run.sim.store
    claim = claim_of(run, machine) if machine else None
    if machine is None or claim is None:
        return
    number, name = int(event.pick * 1e9), claim["metadata"]["name"]
    protected, volume, dated = number % 2 == 0, number // 2 % 2 == 0, number // 4 % 2 == 0
    parts: dict[str, Json] = {"ordinary": {}, "critical": {"priorityClassName": "system-cluster-critical"}}
    made = [_placed(f"{part}{number}", machine.name, **spec) for part, spec in parts.items()]
    if protected:
        last = _placed(f"protected{number}", machine.name)
        made.append({**last, "metadata": {**last["metadata"], "annotations": {labels.DO_NOT_DISRUPT: "true"}}})
    source = {"persistentVolumeName": f"pv{number}"}
    spec = {"attacher": "disk.csi.azure.com", "nodeName": machine.name, "source": source}
    run.injected(event)
    for one in made:
        await run.sim.apply(one)
    if volume:
        store.create(ATTACHMENTS, {"metadata": {"name": f"csi{number}"}, "spec": spec})
    await asyncio.sleep(min(event.seconds, SETTLED_SECONDS))
    if run.sim.claim(name) is not None:
        if protected and dated:
            at = rfc3339(EPOCH + timedelta(seconds=run.sim.now + DEADLINE_SECONDS))
            store.patch(CLAIMS, name, {"metadata": {"annotations": {labels.TERMINATION_TIMESTAMP: at}}})
        await run.sim.delete_claim(name)
    names = [one["metadata"]["name"] for one in made]
    gone = lambda: not any(store.get("pods", one, "default") for one in names)  # noqa: E731 - one expression
    with suppress(AssertionError):
        await run.sim.until(gone, max(event.seconds - SETTLED_SECONDS, DETACHED_SECONDS), "the pods are gone")
    if not (protected and dated):
        for one in names:
            if store.get("pods", one, "default") is not None:
                store.delete("pods", one, "default", grace=0)
    if volume:
        await asyncio.sleep(DETACHED_SECONDS)
        store.delete(ATTACHMENTS, f"csi{number}")


def _placed(name: str, node: str, **spec: Any) -> Json:
    """A pod without GPUs on this Node, which ends within a second."""
    made = pod(name, gpus=0, nodeName=node, terminationGracePeriodSeconds=1, **spec)
    made["spec"]["containers"][0]["resources"] = {}
    return made


@verb("flood-of-claims")
async def flood_of_claims(run: "Run", event: Event) -> None:
    """Many NodeClaims arrive at once, without a NodePool, and are deleted together."""
    count = 5 + int(event.pick * 20)
    names = [f"flood{int(event.pick * 1e6)}-{number}" for number in range(count)]
    run.injected(event)
    for name in names:
        await run.apply(node_claim(name, size=run.size()))
    await run.lasts(event)
    for name in names:
        if run.sim.claim(name) is not None:
            await run.sim.delete_claim(name)


def _taken(one: Json, node_pool: NodePool) -> Json:
    """The pod, so that machines of this NodePool may take it."""
    spec = one["spec"]
    selector = {**(spec.get("nodeSelector") or {}), "karpenter.sh/nodepool": node_pool.name}
    tolerations = [*(spec.get("tolerations") or ()), *TOLERATIONS]
    return {**one, "spec": {**spec, "nodeSelector": selector, "tolerations": tolerations}}


def _dynamic(run: "Run", event: Event) -> NodePool | None:
    found: NodePool | None = run.chosen(event.pick, [one for one in run.plan.node_pools if one.replicas is None])
    return found


@verb("odd-pods")
async def odd_pods(run: "Run", event: Event) -> None:
    """Pods at the limits of the API server, which a NodePool of the plan may take."""
    one, rng = _dynamic(run, event), Random(event.pick)
    if one is not None:
        objects = rng.choice(POD_MUTATORS)(rng, f"o{int(event.pick * 1e9)}")
        await _created(run, event, [_taken(each, one) if each["kind"] == "Pod" else each for each in objects])


def _spread(made: Json) -> list[Json]:
    rest = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "a"}}}
    made["spec"]["topologySpreadConstraints"] = [{"topologyKey": key, **rest} for key in SPREAD_OVER]
    made["metadata"]["labels"] = {"app": "a"}
    return [made]


def _terms(made: Json) -> list[Json]:
    def term(key: str) -> Json:
        return {"matchExpressions": [{"key": key, "operator": "DoesNotExist"}]}

    made["spec"]["affinity"] = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [term(f"a{number}") for number in range(TERMS)]
            },
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 1, "preference": term(f"b{number}")} for number in range(TERMS)
            ],
        }
    }
    return [made]


def _ports(made: Json) -> list[Json]:
    name, (container, *_) = made["metadata"]["name"], made["spec"]["containers"]
    found = []
    for number in range(6):
        first = 1 + number * PORTS
        ports = [{"containerPort": port, "hostPort": port} for port in range(first, first + PORTS)]
        meta = {**made["metadata"], "name": f"{name}-{number}"}
        spec = {**made["spec"], "containers": [{**container, "ports": ports}]}
        found.append({**made, "metadata": meta, "spec": spec})
    return found


@verb("costly-pods")
async def costly_pods(run: "Run", event: Event) -> None:
    """Pods whose constraints have many combinations."""
    one = _dynamic(run, event)
    if one is not None:
        body = _taken(pod(f"costly{int(event.pick * 1e9)}"), one)
        await _created(run, event, (_spread, _terms, _ports)[int(event.pick * 1e6) % 3](body))
