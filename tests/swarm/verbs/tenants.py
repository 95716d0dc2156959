"""What tenants do: valid odd objects, pods that block a drain, bursts."""

from random import Random
from typing import TYPE_CHECKING, Any

from tests.fuzz.objects import draw
from tests.fuzz.pods import POD_MUTATORS
from tests.swarm.owners import TOLERATIONS
from tests.swarm.plan import Event, NodePool
from tests.world.demand import T4, pod
from tests.world.harness import Json, node_claim

from .base import verb

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


@verb("flood-of-claims")
async def flood_of_claims(run: "Run", event: Event) -> None:
    """Many NodeClaims arrive at once, without a NodePool, and are deleted together."""
    count = 5 + int(event.pick * 20)
    names = [f"flood{int(event.pick * 1e6)}-{number}" for number in range(count)]
    run.injected(event)
    for name in names:
        await run.apply(node_claim(name, size=T4))
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
