"""The fleet of a quarter: four NodePools, the pods on them, and the device plugin as a DaemonSet with its status.

Half of the machines are static; pods in the three zones have others; a tenth is spot, and a tenth has eight GPUs, on
which Jobs run that no controller may move.
"""

import asyncio
from typing import Any

from provisioner.simulator.azure.settings import AzureSettings
from tests.world.demand import T4, TOLERATION, node_class, node_pool, pod
from tests.world.harness import Json, Sim
from tests.world.health.plugins import DAEMON_SETS, PLUGIN, plugin

EIGHT = "Standard_ND96isr_H100_v5"
POOLS = "nodepools.karpenter.sh"
ZONES = ("1", "2", "3")
ZONE_LABEL = "topology.kubernetes.io/zone"
STATIC, SERVING, SPOT, TRAIN = "static", "serving", "spot", "train"
DYNAMIC = (SERVING, SPOT)
EMPTY_SECONDS = 1800.0
SPOT_TOLERATION = {"key": "kubernetes.azure.com/scalesetpriority", "operator": "Exists"}


def azure(machines: int) -> AzureSettings:
    """Azure for that many machines and their replacements; AKS permits 100 agent pools in a cluster."""
    return AzureSettings(max_agent_pools=2 * machines + 50, page_size=1000)


def sizes_of(machines: int) -> dict[str, int]:
    """How many machines each NodePool has."""
    train, spot = max(1, machines // 10), max(2, machines // 10)
    serving = 3 * max(1, machines // 10)
    return {TRAIN: train, SPOT: spot, SERVING: serving, STATIC: machines - train - spot - serving}


class Pods:
    """`count` pods of one owner, each of which is created again when it leaves or has ended."""

    def __init__(self, sim: Sim, kind: str, name: str, count: int, **spec: Any) -> None:
        self._sim, self._name, self._spec = sim, name, spec
        # The pods of a Job that does not exist would be collected; ReplicaSets are not served.
        job = sim.store.create("jobs.batch", {"metadata": {"name": name}}, "default") if kind == "Job" else None
        version, uid = ("batch/v1", job["metadata"]["uid"]) if job is not None else ("apps/v1", name)
        self._owner = {"apiVersion": version, "kind": kind, "name": name, "uid": uid, "controller": True}
        self._created = 0
        self._live: set[str] = set()
        # Those that do not run, by UID.
        self.waiting: set[str] = set()
        sim.store.subscribe(self._changed)
        for _ in range(count):
            self._create()

    def _create(self) -> None:
        self._created += 1
        body = pod(f"{self._name}-{self._created}", **self._spec)
        meta = {**body["metadata"], "ownerReferences": [self._owner]}
        made = self._sim.store.create("pods", {**body, "metadata": meta}, "default")
        self._live.add(made["metadata"]["uid"])

    def _changed(self, event: str, resource: str, obj: Json, _: object) -> None:
        meta = obj["metadata"]
        if resource != "pods" or self._owner not in meta.get("ownerReferences", ()):
            return
        phase = (obj.get("status") or {}).get("phase")
        leaves = event == "DELETED" or "deletionTimestamp" in meta or phase in ("Succeeded", "Failed")
        if leaves or phase == "Running":
            self.waiting.discard(meta["uid"])
        else:
            self.waiting.add(meta["uid"])
        if leaves and meta["uid"] in self._live:
            self._live.remove(meta["uid"])
            asyncio.get_running_loop().call_soon(self._create)
        if phase in ("Succeeded", "Failed") and event != "DELETED":
            asyncio.get_running_loop().call_soon(self._remove, meta["name"])

    def _remove(self, name: str) -> None:
        if self._sim.store.get("pods", name, "default") is not None:
            self._sim.store.delete("pods", name, "default", grace=0)


class PluginDaemonSet:
    """NVIDIA's device plugin, whose status the tests write as the DaemonSet controller does."""

    def __init__(self, sim: Sim) -> None:
        self._sim = sim
        self._release = 0
        body = plugin(TOLERATION, SPOT_TOLERATION)
        sim.store.create(DAEMON_SETS, body, "kube-system")

    def release(self) -> None:
        """A new version, which no Node has yet."""
        self._release += 1
        containers = [{"name": "nvidia-device-plugin-ctr", "image": f"plugin:{self._release}"}]
        template = {"spec": {"template": {"spec": {"containers": containers}}}}
        self._sim.store.patch(DAEMON_SETS, PLUGIN, template, "kube-system")

    def report(self, wanted: int, updated: int, ready: int) -> None:
        """The status: how many Nodes should have a pod, how many have one of the newest version, how many are Ready."""
        found = self._sim.store.get(DAEMON_SETS, PLUGIN, "kube-system") or {}
        status = {
            "observedGeneration": found["metadata"]["generation"],
            "desiredNumberScheduled": wanted,
            "currentNumberScheduled": wanted,
            "updatedNumberScheduled": updated,
            "numberReady": ready,
            "numberAvailable": ready,
            "numberMisscheduled": 0,
        }
        self._sim.store.patch(DAEMON_SETS, PLUGIN, {"status": status}, "kube-system", subresource="status")

    def pod_on(self, node: str) -> Json | None:
        """The plugin's pod on that Node."""
        pods = self._sim.store.list("pods", "kube-system", fields=f"spec.nodeName={node}")
        return next((one for one in pods if one["metadata"]["name"].startswith(PLUGIN)), None)

    def restart_pod(self, node: str) -> None:
        """The pod is deleted, and the DaemonSet controller creates another one."""
        found = self.pod_on(node)
        if found is not None:
            self._sim.store.delete("pods", found["metadata"]["name"], "kube-system", grace=0)

    def wait(self, node: str, reason: str, restarts: int = 0) -> None:
        """The pod's container waits for this reason."""
        found = self.pod_on(node)
        if found is not None:
            one = {"name": "nvidia-device-plugin-ctr", "image": "", "imageID": "", "ready": False}
            status = {
                "containerStatuses": [{**one, "restartCount": restarts, "state": {"waiting": {"reason": reason}}}]
            }
            self._sim.store.patch("pods", found["metadata"]["name"], {"status": status}, "kube-system",
                                  subresource="status")  # fmt: skip

    def run(self, node: str) -> None:
        """The pod's container runs."""
        found = self.pod_on(node)
        if found is not None:
            one = {"name": "nvidia-device-plugin-ctr", "image": "", "imageID": "", "ready": True, "restartCount": 0}
            status = {"phase": "Running", "containerStatuses": [{**one, "state": {"running": {}}}]}
            self._sim.store.patch("pods", found["metadata"]["name"], {"status": status}, "kube-system",
                                  subresource="status")  # fmt: skip


async def create(sim: Sim, machines: int) -> list[Pods]:
    """The NodePools, their class, and the pods."""
    counts = sizes_of(machines)
    await sim.apply(node_class())
    for name, count in counts.items():
        await sim.apply(_node_pool(name, None if name in DYNAMIC else count))
    static = max(1, counts[STATIC] // 2)
    zone = counts[SERVING] // len(ZONES)
    return [
        Pods(sim, "ReplicaSet", "steady", static, nodeSelector=_in(STATIC)),
        *(
            Pods(sim, "ReplicaSet", f"zone{number}", zone,
                 nodeSelector={**_in(SERVING), ZONE_LABEL: f"{sim.cloud.settings.location}-{number}"})
            for number in ZONES
        ),
        Pods(sim, "ReplicaSet", "cheap", counts[SPOT], nodeSelector=_in(SPOT),
             tolerations=[TOLERATION, SPOT_TOLERATION]),
        Pods(sim, "Job", "train", counts[TRAIN], gpus=4, nodeSelector=_in(TRAIN)),
    ]  # fmt: skip


def _in(name: str) -> Json:
    return {"karpenter.sh/nodepool": name}


def _node_pool(name: str, replicas: int | None) -> Json:
    size = EIGHT if name == TRAIN else T4
    requirements: list[Json] = [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [size]}]
    if name == SPOT:
        requirements.append({"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]})
    else:
        requirements.append({"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]})
    disruption = {
        "consolidationPolicy": "WhenEmpty",
        "consolidateAfter": f"{EMPTY_SECONDS:.0f}s",
        "budgets": [{"nodes": "20%"}],
    }
    spec: Json = {"requirements": requirements, "disruption": disruption}
    return node_pool(name, **spec, **({"replicas": replicas} if replicas is not None else {}))
