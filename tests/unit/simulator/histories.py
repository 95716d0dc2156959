"""Histories of a simulated world, and the invariants that they break."""

import asyncio
import json
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiohttp
import pytest
import yaml

from provisioner.api import labels
from provisioner.api.time import rfc3339
from provisioner.simulator import loop as sim
from provisioner.simulator.azure.settings import AzureSettings
from provisioner.simulator.invariants import InvariantError
from provisioner.simulator.world import ARM_HOST, KUBE_HOST, World, WorldSettings

T4, A100 = "Standard_NC4as_T4_v3", "Standard_NC24ads_A100_v4"
NODE_POOLS = "/apis/karpenter.sh/v1/nodepools"
ONE = {"nodes": "1"}
EPOCH = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
CRDS = Path(__file__).parents[3] / "charts" / "gpu-provisioner-crd" / "templates"
CLAIMS = "/apis/karpenter.sh/v1/nodeclaims"
PODS = "/api/v1/namespaces/default/pods"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
AZURE = AzureSettings(create_seconds=(60.0, 60.0), delete_seconds=(30.0, 30.0))
CLUSTER = (
    f"/subscriptions/{AZURE.subscription}/resourceGroups/rg/providers/Microsoft.ContainerService/managedClusters/aks"
)
MERGE = "application/merge-patch+json"
SPOT = {"key": labels.CAPACITY_TYPE, "operator": "In", "values": ["spot"]}
TOKEN = {"Authorization": "Bearer token"}
CONDITIONS = {"PUT": {"If-None-Match": "*"}, "DELETE": {"If-Match": "*"}}
FINALIZERS = {"metadata": {"finalizers": [labels.FINALIZER]}}


async def node_pool(person, *budgets, **spec):
    """A NodePool with these budgets; its UID."""
    template = {
        "spec": {
            "nodeClassRef": {"group": "gpu-provisioner.sh", "kind": "AgentPoolNodeClass", "name": "default"},
            "requirements": [],
        }
    }
    disruption = {"consolidateAfter": "0s", "budgets": [*budgets]}
    body = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "gpu"},
            "spec": {"template": template, "disruption": disruption, **spec}}  # fmt: skip
    return (await person.kube("POST", NODE_POOLS, body))["metadata"]["uid"]


async def claim(caller, pool, name, size=T4, replaces="", *, bought_for="", finalizers=(labels.FINALIZER,), **spec):
    """A NodeClaim of the NodePool; its UID."""
    owner = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": "gpu", "uid": pool}
    stated = {labels.BOUGHT_FOR: json.dumps({"pods": {"shape": [bought_for]}})} if bought_for else {}
    stated |= {labels.REPLACES: replaces} if replaces else {}
    notes = {"annotations": stated} if stated else {}
    body = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": name, "finalizers": [*finalizers], "ownerReferences": [owner], **notes},
        "spec": {
            "nodeClassRef": {"group": "gpu-provisioner.sh", "kind": "AgentPoolNodeClass", "name": "default"},
            "requirements": [{"key": labels.INSTANCE_TYPE, "operator": "In", "values": [size]}],
            **spec,
        },
    }
    return (await caller.kube("POST", CLAIMS, body))["metadata"]["uid"]


async def machine(world, controller, person, pool, name, *, size=T4, replaces="", **spec):
    """A NodeClaim of a person with its agent pool and Node, Initialized; its UID and the name of its Node."""
    uid = await claim(person, pool, name, size, replaces, **spec)
    await controller.pool(uid, name, vmSize=size)
    await asyncio.sleep(130)
    node = node_of(world, name)
    mark = {"metadata": {"finalizers": [labels.FINALIZER], "labels": {labels.INITIALIZED: "true"}}}
    await controller.kube("PATCH", f"/api/v1/nodes/{node}", mark)
    await conditions(world, controller, name, Initialized="True", Ready="True")
    return uid, node


async def conditions(world, caller, name, **kinds):
    """Write these conditions beside the others; `Kind=reason` is True with that reason, unless it is a status."""
    found = world.store.get("nodeclaims.karpenter.sh", name).get("status", {}).get("conditions", [])
    kept = [one for one in found if one["type"] not in kinds]
    at = rfc3339(EPOCH + timedelta(seconds=asyncio.get_running_loop().time()))
    for kind, value in kinds.items():
        status, reason = (value, kind) if value in {"True", "False"} else ("True", value)
        kept.append(
            {"type": kind, "status": status, "reason": reason, "message": "", "lastTransitionTime": at},
        )
    await caller.kube("PATCH", f"{CLAIMS}/{name}/status", {"status": {"conditions": kept}})


async def delete(caller, name):
    await caller.kube("DELETE", f"{CLAIMS}/{name}")


def use(world, node, name="p", **spec):
    """A pod of a ReplicaSet that uses a GPU of the Node, `node=""`: that is pending."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "web", "controller": True}
    gpus = {kind: {"nvidia.com/gpu": "1"} for kind in ("requests", "limits")}
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "ownerReferences": [owner]},
        "spec": {
            "containers": [{"name": "main", "image": "web", "resources": gpus}],
            **({"nodeName": node} if node else {"schedulingGates": [{"name": "wait"}]}),
            **spec,
        },
    }
    world.store.create("pods", body, "default")


class Caller:
    """A client of both APIs, without any rules but I28: it states what it deletes, and that it creates."""

    def __init__(self, session) -> None:
        self.session = session

    async def kube(self, method, path, body=None):
        kind = MERGE if method == "PATCH" else "application/json"
        headers = {"Content-Type": kind}
        if method == "DELETE":
            found = await self.call("GET", f"http://{KUBE_HOST}{path}", None, headers)
            body = {"preconditions": {"uid": found["metadata"]["uid"]}}
        return await self.call(method, f"http://{KUBE_HOST}{path}", body, headers)

    async def evict(self, name):
        """Evict the pod of this name in the default namespace."""
        pod = await self.kube("GET", f"{PODS}/{name}")
        meta, options = {"name": name, "namespace": "default"}, {"preconditions": {"uid": pod["metadata"]["uid"]}}
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta, "deleteOptions": options}
        await self.kube("POST", f"{PODS}/{name}/eviction", body)

    async def arm(self, method, pool, body=None, *, over=False):
        """`over`: a PUT changes what is there."""
        conditions = CONDITIONS["DELETE"] if over else CONDITIONS.get(method, {})
        return await self.call(method, self.url(pool), body, conditions | TOKEN)

    async def attempt(self, method, pool):
        """The status, whatever it is."""
        headers = CONDITIONS.get(method, {}) | TOKEN
        async with self.session.request(method, self.url(pool), headers=headers) as response:
            return response.status

    def url(self, pool):
        return f"https://{ARM_HOST}{CLUSTER}/agentPools/{pool}?api-version=2026-08-01"

    async def call(self, method, url, body, headers):
        data = None if body is None else json.dumps(body)
        async with self.session.request(method, url, data=data, headers=headers) as response:
            text = await response.text()
            assert response.status < 400, text
            return json.loads(text) if text else {}

    async def claim(self, name="gpu1", *required):
        """A NodeClaim of KAITO, with further requirements; its metadata."""
        spec = {
            "nodeClassRef": {"group": "kaito.sh", "kind": "KaitoNodeClass", "name": "default"},
            "requirements": [{"key": labels.INSTANCE_TYPE, "operator": "In", "values": [A100]}, *required],
        }
        body = {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodeClaim",
            "metadata": {"name": name, **FINALIZERS["metadata"]},
        }
        return (await self.kube("POST", CLAIMS, {**body, "spec": spec}))["metadata"]

    async def pool(self, uid, name="gpu1", *, over=False, **properties):
        marks = {"tags": {labels.TAG_CLAIM_UID: uid}, "nodeLabels": {labels.CLAIM_UID: uid}} if uid else {}
        body = {"properties": {"count": 1, "vmSize": "Standard_NC24ads_A100_v4", **marks, **properties}}
        return await self.arm("PUT", name, body, over=over)

    async def lease(self, holder, seconds=15) -> None:
        spec = {"holderIdentity": holder, "leaseDurationSeconds": seconds}
        if await self.exists(f"{LEASES}/gp"):
            await self.kube("PATCH", f"{LEASES}/gp", {"spec": spec})
        else:
            body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "gp"}, "spec": spec}
            await self.kube("POST", LEASES, body)

    async def exists(self, path):
        async with self.session.get(f"http://{KUBE_HOST}{path}") as response:
            return response.status == 200


@asynccontextmanager
async def a_world(**settings):
    clock = sim.VirtualClock(asyncio.get_running_loop(), EPOCH)
    crds = [yaml.safe_load(path.read_text()) for path in sorted(CRDS.glob("*.yaml"))]
    async with World(crds=crds, now=clock.now, settings=WorldSettings(**settings)) as world:
        yield world


def play(story, **settings) -> None:
    """Run a story with the clients of a controller, which is checked, and of a person, who is not."""

    async def main() -> None:
        async with (
            a_world(azure=AZURE, **settings) as world,
            aiohttp.ClientSession(connector=world.connector("ctl", controller=True)) as controller,
            aiohttp.ClientSession(connector=world.connector("person")) as person,
        ):
            await story(world, Caller(controller), Caller(person))

    sim.run(main, seed=1, epoch=EPOCH, horizon_seconds=86_400)


def breaks(story, match, **settings) -> None:
    with pytest.raises(InvariantError, match=match):
        play(story, **settings)


def node_of(world, pool):
    return next(n["metadata"]["name"] for n in world.store.list("nodes", labels=f"agentpool={pool}"))


def run_in_world(story, **settings):
    async def main():
        async with a_world(**settings) as world:
            return await story(world)

    return sim.run(main, seed=1, epoch=EPOCH, horizon_seconds=86_400)
