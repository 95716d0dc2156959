"""A scenario of about a minute that contains everything that the panels and rules show, each once.

A step ends when its effect is observed, not after a fixed time. Two replicas run; the first one is the leader until
the last step.
"""

from dataclasses import replace
from typing import Any

from aiohttp import web

from controllers.model.policy import Policy
from provisioner.simulator.audit_log import Call
from provisioner.simulator.azure import errors, faults
from provisioner.simulator.azure.faults import Fault
from provisioner.simulator.azure.settings import AzureSettings
from provisioner.simulator.world import Before

from .environment import CLAIM_KIND, CONTROLLER, Environment

Json = dict[str, Any]

FIRST, SECOND = "gpu-provisioner-0", "gpu-provisioner-1"
AZURE = AzureSettings(speed=60.0, create_seconds=(240.0, 420.0), delete_seconds=(180.0, 300.0))
# Delays of the controller, in proportion to the simulated Azure.
POLICY = Policy(
    max_agent_pools=12,
    initialization_seconds=4.0,
    draining_seconds=2.0,
    deleting_seconds=3.0,
    gpu_loss_seconds=2.0,
    node_deleted_seconds=1.0,
    orphan_seconds=6.0,
    missing_seconds=2.0,
    repair_seconds=4.0,
    repair_watch_seconds=2.0,
    repair_poll_seconds=1.0,
    repair_drain_seconds=4.0,
)
A100, H100, T4, A10 = (
    "Standard_NC24ads_A100_v4",
    "Standard_ND96isr_H100_v5",
    "Standard_NC4as_T4_v3",
    "Standard_NV36ads_A10_v5",
)
# Example prices in dollars per hour.
PRICES = f"{A100}=3.67,{H100}=98.32,{T4}=0.53,{T4}/spot=0.16,{A10}/spot=1.28"
CLASS_API = "gpu-provisioner.sh/v1alpha1"
NODE_POOL: Json = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodePool",
    "metadata": {"name": "gpu"},
    "spec": {
        "template": {
            "spec": {
                "nodeClassRef": {"group": "gpu-provisioner.sh", "kind": "AgentPoolNodeClass", "name": "default"},
                "requirements": [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [T4]}],
                "taints": [{"key": "sku", "value": "gpu", "effect": "NoSchedule"}],
            }
        },
        "limits": {"cpu": "64", "memory": "512Gi", "nvidia.com/gpu": "4"},
        "disruption": {"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]},
    },
}
STEADY = "steady"
# By name: size, capacity type, the KAITO workspace that owns it.
CLAIMS = {
    "llama": (A100, "on-demand", "llama"),
    "llamatwo": (A100, "on-demand", "llama"),
    "phi": (A100, "on-demand", "phi"),
    "falcon": (H100, "on-demand", "falcon"),
    "mistral": (A100, "on-demand", "mistral"),
    "embed": (T4, "spot", "embed"),
    "notebook": (T4, "on-demand", "notebook"),
    "vision": (A10, "spot", "vision"),
}
# The claim of each fault.
NO_QUOTA, NO_CAPACITY, THROTTLED = "falcon", "vision", "notebook"
UNHEALTHY, EVICTED, NODE_DELETED, GPU_LOST = "llamatwo", "embed", "mistral", "notebook"
UNAVAILABLE = (NO_QUOTA, NO_CAPACITY)
DRAIN_BLOCKED, LEAKED = "llama", "phi"


def node_claim(name: str, size: str, capacity: str, workspace: str) -> Json:
    """A NodeClaim as KAITO creates it."""
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {
            "name": name,
            "labels": {
                "karpenter.sh/nodepool": "kaito",
                "kaito.sh/workspace": workspace,
                "kaito.sh/workspacenamespace": "default",
            },
        },
        "spec": {
            "nodeClassRef": {"group": "kaito.sh", "kind": "KaitoNodeClass", "name": "default"},
            "requirements": [
                {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [size]},
                {"key": "karpenter.sh/capacity-type", "operator": "In", "values": [capacity]},
            ],
            "resources": {"requests": {"storage": "128Gi"}},
        },
    }


async def begin(env: Environment) -> None:
    """Start two replicas without any claim; the first one is the leader."""
    await env.start(FIRST)
    await env.until(lambda: env.world.cloud.counts.get("LIST"), "the first replica lists agent pools")
    await env.start(SECOND)


async def _fail(env: Environment) -> None:
    """Create all claims at once; Azure lacks quota and capacity, throttles, and fails a LIST."""
    plan = env.world.cloud.faults
    plan.append(faults.quota_preflight(size=H100, times=1))
    plan.append(faults.capacity("AllocationFailed", size=A10, times=1, after_seconds=30.0))
    plan.append(Fault(verb="PUT", size=T4, answer=errors.throttled("PutAgentPoolHandler.PUT", 3), times=2))
    plan.append(Fault(verb="LIST", skip=2, times=1, answer=errors.gateway(503, "ServiceUnavailable", "try later")))
    env.world.before.append(_server_error())
    for name, (size, capacity, workspace) in CLAIMS.items():
        await env.user.apply(node_claim(name, size, capacity, workspace))
    for name, reason in ((NO_QUOTA, "QuotaExceeded"), (NO_CAPACITY, "AllocationFailed")):
        await _has_reason(env, name, "Launched", reason)


def _server_error() -> Before:
    """The API server fails the controller's first update of a claim."""
    failed = False

    async def answer(call: Call, _: web.Request) -> web.StreamResponse | None:
        nonlocal failed
        if failed or (call.system, call.verb, call.who) != ("kube", "PATCH", CONTROLLER) or call.is_bookkeeping:
            return None
        failed = True
        body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "InternalError", "code": 500}
        return web.json_response({**body, "message": "internal error"}, status=500)

    return answer


async def _become_ready(env: Environment) -> None:
    """All claims become Ready except for the unavailable sizes; pods request some of the GPUs."""
    for name in CLAIMS:
        if name not in UNAVAILABLE:
            await _ready(env, name)
    for name, gpus in ((DRAIN_BLOCKED, 1), (THROTTLED, 1)):
        run_pod(env, f"serve-{name}", env.node_of(name), gpus)


async def _break(env: Environment) -> None:
    """A kubelet stops, Azure evicts a spot machine, a user deletes a Node, a device plugin stops."""
    world = env.world
    world.nodes.set_ready(env.node_of(UNHEALTHY), None)
    world.cloud.evict(EVICTED)
    world.store.delete("nodes", env.node_of(NODE_DELETED))
    world.nodes.stop_plugin(env.node_of(GPU_LOST))
    for name in (UNHEALTHY, EVICTED, NODE_DELETED):
        await _gone(env, name)


async def _block_drain(env: Environment) -> None:
    """A PodDisruptionBudget blocks a drain until it is reported as overdue; then the budget is deleted."""
    store = env.world.store
    selector = {"matchLabels": {"app": f"serve-{DRAIN_BLOCKED}"}}
    budget = {"metadata": {"name": "guard"}, "spec": {"minAvailable": 1, "selector": selector}}
    store.create("poddisruptionbudgets.policy", budget, "default")
    await env.user.delete(DRAIN_BLOCKED)
    await env.until(lambda: "overdue" in env.condition(DRAIN_BLOCKED, "Drained")[2], "the drain is overdue", 30.0)
    store.delete("poddisruptionbudgets.policy", "guard", "default")
    await _gone(env, DRAIN_BLOCKED)


async def _leak(env: Environment) -> None:
    """A claim is deleted without its finalizers; its pool is collected when AKS no longer updates it."""
    store, cloud = env.world.store, env.world.cloud
    cloud.pool_store.put("updated", replace(cloud.pools[LEAKED], state="Updating"))
    store.patch(CLAIM_KIND, LEAKED, {"metadata": {"finalizers": None}})
    store.delete(CLAIM_KIND, LEAKED)
    skipped = "gpu_provisioner_gc_skipped_total"
    await env.until(lambda: env.counted(skipped, reason="pool_busy"), "garbage collection waits for AKS")
    cloud.pool_store.put("updated", replace(cloud.pools[LEAKED], state="Succeeded"))
    await env.until(lambda: LEAKED not in cloud.pools, "the leaked pool is deleted", 90.0)


async def _recover(env: Environment) -> None:
    """The unavailable sizes become available; pods request most of the eight GPUs of a Node."""
    for name in UNAVAILABLE:
        await _ready(env, name)
    run_pod(env, f"serve-{NO_QUOTA}", env.node_of(NO_QUOTA), 6)


async def _provision_pods(env: Environment) -> None:
    """One pod gets a machine of a NodePool; the other one does not tolerate its taint."""
    await env.user.apply({"apiVersion": CLASS_API, "kind": "AgentPoolNodeClass", "metadata": {"name": "default"}})
    await env.user.apply(NODE_POOL)
    for name, tolerations in (("trainer", [{"key": "sku", "operator": "Exists"}]), ("intruder", [])):
        await env.user.apply(pending_pod(name, tolerations))
    await env.until(lambda: _pod(env, "trainer")["status"].get("phase") == "Running", "the pod runs")
    await env.until(lambda: env.counted("karpenter_pods_startup_duration_seconds_count"), "its start is counted")
    for name in ("trainer", "intruder"):
        env.world.store.delete("pods", name, "default")


async def _disrupt(env: Environment) -> None:
    """A machine of a static NodePool drifts and is replaced; a user deletes the next replacement, which is undone."""
    spec = {**NODE_POOL["spec"], "replicas": 1, "limits": {"nodes": "4"}}
    await env.user.apply({**NODE_POOL, "metadata": {"name": STEADY}, "spec": spec})
    await env.until(lambda: _machines(env), "its NodeClaim is created")
    (first,) = _machines(env)
    await _ready(env, first)
    _change_template(env, 1)
    await env.until(lambda: first not in _machines(env), "it is replaced", 90.0)
    (second,) = _machines(env)
    _change_template(env, 2)
    await env.until(lambda: len(_machines(env)) == 2, "the next replacement is created")
    await env.user.delete(next(one for one in _machines(env) if one != second))
    undone = "karpenter_voluntary_disruption_queue_failures_total"
    labels = {"decision": "replace", "reason": "drifted", "consolidation_type": ""}
    await env.until(lambda: env.counted(undone, **labels) == 1, "it is undone")


def _machines(env: Environment, pool: str = STEADY) -> list[str]:
    return [one["metadata"]["name"] for one in env.world.store.list(CLAIM_KIND, labels=f"karpenter.sh/nodepool={pool}")]


def _change_template(env: Environment, number: int) -> None:
    """The machines of the static NodePool drift."""
    labels = {"example.com/generation": f"{number}"}
    env.world.store.patch("nodepools.karpenter.sh", STEADY, {"spec": {"template": {"metadata": {"labels": labels}}}})


async def _empty(env: Environment) -> None:
    """The machine of the first NodePool, which no pod uses any more, has been removed; the NodePools are deleted."""
    await env.until(lambda: not _machines(env, "gpu"), "the empty machine is removed")
    for name in ("gpu", STEADY):
        await env.user.delete(name, "NodePool")
    await env.until(lambda: not _machines(env), "the machines are removed")


def _pod(env: Environment, name: str) -> Json:
    return env.world.store.get("pods", name, "default") or {"status": {}}


def pending_pod(name: str, tolerations: list[Json]) -> Json:
    """A pod that requests a GPU."""
    requests = {"cpu": "1", "nvidia.com/gpu": "1"}
    container = {"name": "train", "image": "train", "resources": {"requests": requests, "limits": requests}}
    meta = {"name": name, "namespace": "default"}
    spec = {
        "containers": [container],
        # Other Nodes have free GPUs.
        "nodeSelector": {"karpenter.sh/nodepool": "gpu"},
        "tolerations": tolerations,
        "terminationGracePeriodSeconds": 1,
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


async def _has_reason(env: Environment, name: str, kind: str, reason: str) -> None:
    await env.until(lambda: env.condition(name, kind)[1] == reason, f"{kind} of {name} has the reason {reason}")


async def _gone(env: Environment, name: str) -> None:
    await env.until(lambda: env.claim(name) is None, f"{name} is deleted", 90.0)


async def _ready(env: Environment, name: str) -> None:
    await env.until(lambda: env.condition(name, "Ready")[0] == "True", f"{name} is Ready")


async def _change_leader(env: Environment) -> None:
    """The first replica stops, the second becomes the leader; one more claim is created and deleted."""
    await env.stop(FIRST)
    await env.user.apply(node_claim("late", A100, "on-demand", "late"))
    await _ready(env, "late")
    await env.until(lambda: env.world.cloud.pools["late"].state == "Succeeded", "Azure completes the creation of late")
    await env.user.delete("late")
    await _gone(env, "late")


def run_pod(env: Environment, name: str, node: str, gpus: int) -> None:
    """Create a running and Ready pod on the Node that requests this number of GPUs."""
    store = env.world.store
    container = {
        "name": "serve",
        "image": "serve",
        "resources": {"requests": {"cpu": "2", "nvidia.com/gpu": str(gpus)}, "limits": {"nvidia.com/gpu": str(gpus)}},
    }
    spec = {"nodeName": node, "terminationGracePeriodSeconds": 5, "containers": [container]}
    store.create("pods", {"metadata": {"name": name, "labels": {"app": name}}, "spec": spec}, "default")
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    store.patch("pods", name, {"status": status}, "default", subresource="status")


STEPS = (_fail, _become_ready, _break, _block_drain, _leak, _recover, _provision_pods, _disrupt, _empty, _change_leader)


async def run(env: Environment) -> None:
    """Run all steps after `begin`. Raises TimeoutError with the effect that was not observed."""
    for step in STEPS:
        await step(env)
