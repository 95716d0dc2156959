"""One afternoon of a GPU fleet in about a minute: what goes well and what goes wrong, once each, in one order.

Each act ends when what it is about has been seen, never after a time; so whatever a panel or a rule is about
has happened when `play` returns. Two replicas run; the first leads until the last act.
"""

from dataclasses import replace
from typing import Any

from aiohttp import web

from controllers.model.policy import Policy
from provisioner.simulator.azure import errors, faults
from provisioner.simulator.azure.faults import Fault
from provisioner.simulator.azure.settings import AzureSettings
from provisioner.simulator.ledger import Call
from provisioner.simulator.world import Before

from .stage import CLAIM_KIND, CONTROLLER, Stage

Json = dict[str, Any]

FIRST, SECOND = "gpu-provisioner-0", "gpu-provisioner-1"
AZURE = AzureSettings(speed=60.0, create_seconds=(240.0, 420.0), delete_seconds=(180.0, 300.0))
# The controller's own patience, in keeping with a fast Azure.
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
# An hour, in dollars; numbers of an example.
PRICES = f"{A100}=3.67,{H100}=98.32,{T4}=0.53,{T4}/spot=0.16,{A10}/spot=1.28"
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
# Whom what befalls.
SHORT_OF_QUOTA, SHORT_OF_MACHINES, THROTTLED = "falcon", "vision", "notebook"
SICK, EVICTED, LOST, GPU_LOST = "llamatwo", "embed", "mistral", "notebook"
SHORT = (SHORT_OF_QUOTA, SHORT_OF_MACHINES)
GUARDED, STRIPPED = "llama", "phi"


def node_claim(name: str, size: str, capacity: str, workspace: str) -> Json:
    """A claim as KAITO writes it."""
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


async def begin(stage: Stage) -> None:
    """Two replicas, and nothing to do; the first one leads."""
    await stage.start(FIRST)
    await stage.until(lambda: stage.world.cloud.counts.get("LIST"), "the first replica lists agent pools")
    await stage.start(SECOND)


async def _fail(stage: Stage) -> None:
    """All claims come at once; Azure is short of quota and of machines, throttles, and stumbles over a LIST."""
    plan = stage.world.cloud.faults
    plan.append(faults.quota_preflight(size=H100, times=1))
    plan.append(faults.capacity("AllocationFailed", size=A10, times=1, after_seconds=30.0))
    plan.append(Fault(verb="PUT", size=T4, answer=errors.throttled("PutAgentPoolHandler.PUT", 3), times=2))
    plan.append(Fault(verb="LIST", skip=2, times=1, answer=errors.gateway(503, "ServiceUnavailable", "try later")))
    stage.world.before.append(_stumble())
    for name, (size, capacity, workspace) in CLAIMS.items():
        await stage.person.apply(node_claim(name, size, capacity, workspace))
    for name, reason in ((SHORT_OF_QUOTA, "QuotaExceeded"), (SHORT_OF_MACHINES, "AllocationFailed")):
        await _says(stage, name, "Launched", reason)


def _stumble() -> Before:
    """The API server fails the controller's first change of a claim."""
    stumbled = False

    async def answer(call: Call, _: web.Request) -> web.StreamResponse | None:
        nonlocal stumbled
        if stumbled or (call.system, call.verb, call.who) != ("kube", "PATCH", CONTROLLER) or call.is_bookkeeping:
            return None
        stumbled = True
        body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "InternalError", "code": 500}
        return web.json_response({**body, "message": "the server has stumbled"}, status=500)

    return answer


async def _become_ready(stage: Stage) -> None:
    """All get their machines but those that wait half a minute for their sizes; pods take some of the GPUs."""
    for name in CLAIMS:
        if name not in SHORT:
            await _ready(stage, name)
    for name, gpus in ((GUARDED, 1), (THROTTLED, 1)):
        run_pod(stage, f"serve-{name}", stage.node_of(name), gpus)


async def _break(stage: Stage) -> None:
    """A kubelet falls silent for good, Azure takes a spot machine back, a person deletes a Node, a plugin dies."""
    world = stage.world
    world.nodes.set_ready(stage.node_of(SICK), None)
    world.cloud.evict(EVICTED)
    world.store.delete("nodes", stage.node_of(LOST))
    world.nodes.stop_plugin(stage.node_of(GPU_LOST))
    for name in (SICK, EVICTED, LOST):
        await _gone(stage, name)


async def _hold_up(stage: Stage) -> None:
    """A removal waits for a disruption budget, and is told of; then the budget goes."""
    store = stage.world.store
    selector = {"matchLabels": {"app": f"serve-{GUARDED}"}}
    budget = {"metadata": {"name": "guard"}, "spec": {"minAvailable": 1, "selector": selector}}
    store.create("poddisruptionbudgets.policy", budget, "default")
    await stage.person.delete(GUARDED)
    await stage.until(lambda: "overdue" in stage.says(GUARDED, "Drained")[2], "the slow drain is told", 30.0)
    store.delete("poddisruptionbudgets.policy", "guard", "default")
    await _gone(stage, GUARDED)


async def _leak(stage: Stage) -> None:
    """A claim loses its finalizers and is gone; its pool is found, and collected once AKS no longer works on it."""
    store, cloud = stage.world.store, stage.world.cloud
    cloud.book.put("updated", replace(cloud.pools[STRIPPED], state="Updating"))
    store.patch(CLAIM_KIND, STRIPPED, {"metadata": {"finalizers": None}})
    store.delete(CLAIM_KIND, STRIPPED)
    waits = "gpu_provisioner_gc_skipped_total"
    await stage.until(lambda: stage.counted(waits, reason="pool_busy"), "the collector waits for AKS")
    cloud.book.put("updated", replace(cloud.pools[STRIPPED], state="Succeeded"))
    await stage.until(lambda: STRIPPED not in cloud.pools, "the leaked pool is collected", 90.0)


async def _recover(stage: Stage) -> None:
    """What rested was tried again, and had; pods take most of eight GPUs."""
    for name in SHORT:
        await _ready(stage, name)
    run_pod(stage, f"serve-{SHORT_OF_QUOTA}", stage.node_of(SHORT_OF_QUOTA), 6)


async def _says(stage: Stage, name: str, kind: str, reason: str) -> None:
    await stage.until(lambda: stage.says(name, kind)[1] == reason, f"{name} says {reason}")


async def _gone(stage: Stage, name: str) -> None:
    await stage.until(lambda: stage.claim(name) is None, f"{name} goes", 90.0)


async def _ready(stage: Stage, name: str) -> None:
    await stage.until(lambda: stage.says(name, "Ready")[0] == "True", f"{name} is Ready")


async def _change_leader(stage: Stage) -> None:
    """The first replica goes, the second takes over; one claim more comes and goes under it."""
    await stage.stop(FIRST)
    await stage.person.apply(node_claim("late", A100, "on-demand", "late"))
    await _ready(stage, "late")
    await stage.until(lambda: stage.world.cloud.pools["late"].state == "Succeeded", "Azure's work on late ends")
    await stage.person.delete("late")
    await _gone(stage, "late")


def run_pod(stage: Stage, name: str, node: str, gpus: int) -> None:
    """A running, Ready pod on that Node that holds so many GPUs."""
    store = stage.world.store
    container = {
        "name": "serve",
        "image": "serve",
        "resources": {"requests": {"cpu": "2", "nvidia.com/gpu": str(gpus)}, "limits": {"nvidia.com/gpu": str(gpus)}},
    }
    spec = {"nodeName": node, "terminationGracePeriodSeconds": 5, "containers": [container]}
    store.create("pods", {"metadata": {"name": name, "labels": {"app": name}}, "spec": spec}, "default")
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    store.patch("pods", name, {"status": status}, "default", subresource="status")


ACTS = (_fail, _become_ready, _break, _hold_up, _leak, _recover, _change_leader)


async def play(stage: Stage) -> None:
    """All acts, once `begin` has been. Raises TimeoutError that names what was not seen."""
    for act in ACTS:
        await act(stage)
