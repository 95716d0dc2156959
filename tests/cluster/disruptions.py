"""Scenarios of drift, consolidation and emptiness that run in the simulator and on a real API server, as in `stories`.

On the real one the real kube-scheduler places the pods, and the ReplicaSet controller creates them again.

Source: docs/references/karpenter.md#disruption-queue.
"""

from typing import Any

from provisioner.api import labels
from tests.world.claims import CLAIMS, condition
from tests.world.demand import T4, node_class, node_pool, pod, workload
from tests.world.harness import Sim

from .stories import CLASSES, LONG, POOLS, WHOLE, Scene, Story, is_ready

Json = dict[str, Any]

T4_64 = "Standard_NC64as_T4_v3"
NODEPOOL_PATH = "/apis/karpenter.sh/v1/nodepools"
REPLICA_SETS_PATH = "/apis/apps/v1/namespaces/default/replicasets"
MERGE = "application/merge-patch+json"
KEPT = "Never"
QUICK = "5s"


class Fleet:
    """The NodeClaims, Nodes and pods of a NodePool, as watches show them.

    `fewest_ready`, `most`: of its NodeClaims since the last `begin`, besides those whose instance is being deleted.
    """

    def __init__(self, scene: Scene) -> None:
        self.scene, self.stage, self.name = scene, scene.stage, scene.name
        self.claims: dict[str, Json] = {}
        self.pods: dict[str, Json] = {}
        self.nodes: dict[str, Json] = {}
        self.fewest_ready = self.most = 0
        self.stage.store.subscribe(self._changed)

    async def create(self, *sizes: str, after: str, replicas: int | None = None) -> None:
        """The NodePool and its class; every budget allows one machine at a time."""
        stage, reference = self.stage, {"group": "gpu-provisioner.sh", "kind": "AgentPoolNodeClass", "name": self.name}
        await stage.apply(node_class(self.name))
        spec: Json = {} if replicas is None else {"replicas": replicas}
        disruption = {
            "consolidateAfter": after,
            "consolidationPolicy": "WhenEmptyOrUnderutilized",
            "budgets": [{"nodes": "1"}],
        }
        wanted = node_pool(self.name, requirements=[of_sizes(*sizes)], disruption=disruption, **spec)
        wanted["spec"]["template"]["spec"]["nodeClassRef"] = reference
        await stage.apply(wanted)
        await stage.until(lambda: is_ready(stage, POOLS, self.name), 60, "the NodePool is Ready")

    async def patch(self, template: Json) -> None:
        """Change the template of the NodePool."""
        body = {"spec": {"template": template}}
        await self.stage.request("PATCH", f"{NODEPOOL_PATH}/{self.name}", body, content_type=MERGE)

    async def run(self, *names: str) -> None:
        """A ReplicaSet with a pod of one GPU for each name; wait until all run on machines of this NodePool."""
        for name in names:
            await self._replica_set(f"{self.name}-{name}")
        await self.running(len(names))

    async def running(self, count: int) -> None:
        """Wait until so many pods run, and no other one exists."""
        phases = ["Running"] * count
        await self.stage.until(lambda: self._phases() == phases, LONG, f"{count} pods of {self.name} run")

    async def ready(self, count: int) -> None:
        """Wait until there are so many NodeClaims, all Ready."""
        await self.stage.until(lambda: len(self.claims) == len(self.usable()) == count, LONG, f"{count} machines")

    async def replaced(self, old: set[str], count: int) -> None:
        """Wait until so many others are Ready instead of these, which left in order; none keeps a taint."""
        others = f"{count} others than {sorted(old)}"
        await self.stage.until(
            lambda: old.isdisjoint(self.claims) and len(self.claims) == len(self.usable()) == count, LONG, others
        )
        assert [self.stage.audit_log.deletion_order(uid) for uid in old] == [WHOLE] * len(old)
        assert not self.tainted()

    def begin(self) -> None:
        self.fewest_ready, self.most = len(self.usable()), self._counted()

    def usable(self) -> set[str]:
        """The UIDs of those that are Ready and not being deleted."""
        return {
            uid
            for uid, one in self.claims.items()
            if condition(one, "Ready").get("status") == "True" and "deletionTimestamp" not in one["metadata"]
        }

    def sizes(self) -> list[str]:
        return sorted(one["metadata"]["labels"].get(labels.INSTANCE_TYPE, "") for one in self.claims.values())

    def tainted(self) -> list[str]:
        """The Nodes of this NodePool that take no new pods because they are disrupted."""
        taints = {one["metadata"]["name"]: one["spec"].get("taints") or () for one in self.nodes.values()}
        return [name for name, found in taints.items() if any(one["key"] == labels.DISRUPTED_TAINT for one in found)]

    async def end(self) -> None:
        """Delete the NodePool and what is left of it."""
        stage = self.stage
        left = list(self.claims)
        for name in [] if isinstance(stage, Sim) else await self._replica_sets():
            await stage.request("DELETE", f"{REPLICA_SETS_PATH}/{name}")
        await stage.request("DELETE", f"{NODEPOOL_PATH}/{self.name}")
        await stage.until(lambda: not self.claims, LONG, "the machines are gone")
        assert [stage.audit_log.deletion_order(uid) for uid in left] == [WHOLE] * len(left)
        await stage.request("DELETE", f"/apis/gpu-provisioner.sh/v1alpha1/agentpoolnodeclasses/{self.name}")
        await stage.until(lambda: stage.store.get(CLASSES, self.name) is None, 60, "the node class is gone")

    async def _replica_set(self, name: str) -> None:
        place = {labels.NODEPOOL: self.name}
        if isinstance(self.stage, Sim):
            workload(self.stage, "ReplicaSet", name, nodeSelector=place)
            return
        of_it = {"app": name, "fleet": self.name}
        template = {"metadata": {"labels": of_it}, "spec": pod(name, nodeSelector=place)["spec"]}
        spec = {"replicas": 1, "selector": {"matchLabels": of_it}, "template": template}
        body = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name, "labels": of_it}}
        await self.stage.request("POST", REPLICA_SETS_PATH, {**body, "spec": spec})

    async def _replica_sets(self) -> list[str]:
        found = await self.stage.request("GET", f"{REPLICA_SETS_PATH}?labelSelector=fleet%3D{self.name}")
        return [one["metadata"]["name"] for one in found["items"]]

    def _phases(self) -> list[str]:
        return [(one.get("status") or {}).get("phase", "") for one in self.pods.values()]

    def _changed(self, event: str, resource: str, obj: Json, _: Json | None) -> None:
        meta, own = obj["metadata"], obj["metadata"].get("labels") or {}
        known = {
            CLAIMS: (self.claims, own),
            "nodes": (self.nodes, own),
            "pods": (self.pods, obj.get("spec", {}).get("nodeSelector") or {}),
        }
        objects, marks = known.get(resource, (self.claims, {}))
        if marks.get(labels.NODEPOOL) != self.name:
            return
        if event == "DELETED":
            objects.pop(meta["uid"], None)
        else:
            objects[meta["uid"]] = obj
        self.fewest_ready, self.most = min(self.fewest_ready, len(self.usable())), max(self.most, self._counted())

    def _counted(self) -> int:
        return sum(condition(one, "InstanceTerminating").get("status") != "True" for one in self.claims.values())


def of_sizes(*names: str) -> Json:
    return {"key": labels.INSTANCE_TYPE, "operator": "In", "values": [*names]}


async def static_drift(scene: Scene) -> None:
    """Two replicas and another label in the template: one after the other is replaced, and two are always Ready."""
    fleet = Fleet(scene)
    await fleet.create(T4, after=KEPT, replicas=2)
    await fleet.ready(2)
    old = set(fleet.claims)
    fleet.begin()
    await fleet.patch({"metadata": {"labels": {"team": "other"}}})
    await fleet.replaced(old, 2)
    assert (fleet.fewest_ready, fleet.most) == (2, 3)
    assert [one["metadata"]["labels"]["team"] for one in fleet.nodes.values()] == ["other"] * 2
    await fleet.end()


async def dynamic_drift(scene: Scene) -> None:
    """One of two machines has drifted: its pod runs on the replacement, and the other one stays."""
    fleet = Fleet(scene)
    await fleet.create(T4, after=KEPT)
    await fleet.run("a", "b")
    await fleet.ready(2)
    drifted, kept = sorted(fleet.claims)
    body = {"metadata": {"annotations": {labels.NODEPOOL_HASH: "of another template"}}}
    scene.stage.store.patch(CLAIMS, fleet.claims[drifted]["metadata"]["name"], body)
    fleet.begin()
    await fleet.replaced({drifted}, 2)
    assert kept in fleet.claims
    assert fleet.most == 3
    await fleet.running(2)
    await fleet.end()


async def undone(scene: Scene) -> None:
    """A user deletes the replacement before it is Ready: the machine is kept, and takes pods again."""
    fleet, stage = Fleet(scene), scene.stage
    await fleet.create(T4, after=KEPT, replicas=1)
    await fleet.ready(1)
    (old,) = fleet.claims
    await fleet.patch({"metadata": {"labels": {"team": "other"}}})
    await stage.until(lambda: len(fleet.claims) == 2 and fleet.tainted(), 60, "a replacement, and the taint")
    (new,) = set(fleet.claims) - {old}
    await stage.delete_claim(fleet.claims[new]["metadata"]["name"])
    await stage.until(lambda: set(fleet.claims) == {old}, LONG, "the replacement is gone")
    await stage.until(lambda: not condition(fleet.claims[old], "DisruptionReason"), 60, "the command is undone")
    assert not fleet.tainted()
    assert fleet.usable() == {old}
    await fleet.end()


async def cheaper(scene: Scene) -> None:
    """The NodePool allows a smaller size from now on: the pod runs on such a machine, and the larger one is removed."""
    fleet = Fleet(scene)
    await fleet.create(T4_64, after=QUICK)
    await fleet.run("web")
    old = set(fleet.claims)
    assert fleet.sizes() == [T4_64]
    await fleet.patch({"spec": {"requirements": [of_sizes(T4_64, T4)]}})
    await fleet.replaced(old, 1)
    assert fleet.sizes() == [T4]
    await fleet.running(1)
    await fleet.end()


async def divided(scene: Scene) -> None:
    """Three pods of one GPU on a machine of four: three machines together cost less."""
    fleet = Fleet(scene)
    await fleet.create(T4_64, after=QUICK)
    await fleet.run("a", "b", "c")
    old = set(fleet.claims)
    assert fleet.sizes() == [T4_64]
    await fleet.patch({"spec": {"requirements": [of_sizes(T4_64, T4)]}})
    await fleet.replaced(old, 3)
    assert fleet.sizes() == [T4] * 3
    await fleet.running(3)
    await fleet.end()


async def emptied(scene: Scene) -> None:
    """A pod ends: its machine is removed, in order and without another one."""
    fleet, stage = Fleet(scene), scene.stage
    await fleet.create(T4, after=QUICK)
    body = pod(scene.name, nodeSelector={labels.NODEPOOL: scene.name})
    stage.store.create("pods", body, "default")
    await fleet.running(1)
    (uid,) = fleet.claims
    fleet.begin()
    stage.store.delete("pods", scene.name, "default")
    await stage.until(lambda: not fleet.claims, LONG, "the machine is gone")
    assert stage.audit_log.deletion_order(uid) == WHOLE
    assert fleet.most == 1
    await fleet.end()


DISRUPTIONS: dict[str, Story] = {
    "staticdrift": static_drift,
    "dynamicdrift": dynamic_drift,
    "undone": undone,
    "cheaper": cheaper,
    "divided": divided,
    "emptied": emptied,
}
