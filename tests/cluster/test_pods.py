"""Pods become machines on the real API server, with the real kube-scheduler.

The solver and kube-scheduler decide independently. Each pod must be bound to the machine that was created for it or for
an equal pod, or to another one without harm, and the intruder to none.
"""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from provisioner.api import labels
from provisioner.simulator.snapshot import pool_mark
from tests.world import demand
from tests.world.claims import EXAMPLES

from .controlplane import ControlPlane
from .realstore import path_of
from .realworld import CLAIMS, RealWorld
from .scheduler import kube_scheduler
from .stories import WHOLE, is_ready

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio]

Json = dict[str, Any]
RESOURCES = {
    "AgentPoolNodeClass": "agentpoolnodeclasses.gpu-provisioner.sh",
    "NodePool": "nodepools.karpenter.sh",
    "Pod": "pods",
}
UNTOLERATED = "NodePool gpu: did not tolerate taint (taint=sku=gpu:NoSchedule)"
NOMINATED = "Pod should schedule on: nodeclaim/"


def manifests(stem: str) -> list[Json]:
    return list(yaml.safe_load_all((EXAMPLES / "pods" / f"{stem}.yaml").read_text(encoding="utf-8")))


def pod(world: RealWorld, name: str) -> Json:
    return world.store.get("pods", name, "default") or {}


def messages(world: RealWorld, name: str) -> set[str]:
    """The messages of the Events of a pod."""
    fields = f"involvedObject.kind=Pod,involvedObject.name={name}"
    return {event["message"] for event in world.store.list("events", "default", fields=fields)}


async def test_pods_are_bound_where_the_solver_placed_them(cluster: ControlPlane, tmp_path: Path) -> None:
    """Three pods get a machine each and run there; without the pods the empty machines go, and nothing remains."""
    names = ("trainer", "trainer-b", "trainer-c")
    async with kube_scheduler(cluster), RealWorld.open(cluster, tmp_path) as world:
        await world.start_controller()
        (trainer,), (intruder,) = manifests("trainer"), manifests("intruder")
        more = [{**trainer, "metadata": {**trainer["metadata"], "name": name}} for name in names]
        for obj in (*manifests("node-pool"), *more, intruder):
            world.store.create(RESOURCES[obj["kind"]], obj, "default" if obj["kind"] == "Pod" else "")

        def running() -> bool:
            return all(pod(world, name)["status"]["phase"] == "Running" for name in names)

        await world.until(running, 120, "the pods run")
        claims = {claim["metadata"]["name"]: claim for claim in world.store.list(CLAIMS)}
        assert len(claims) == len(names)
        node_of = {claim["status"]["nodeName"]: name for name, claim in claims.items()}
        bound = {name: pod(world, name)["spec"]["nodeName"] for name in names}
        assert sorted(bound.values()) == sorted(node_of)
        for node in node_of:
            found = world.store.get("nodes", node)
            assert found is not None
            assert found["metadata"]["labels"][labels.ZONE] == "westeurope-1"
        assert all(any(m.startswith(NOMINATED) for m in messages(world, n)) for n in names)
        assert f"Failed to schedule pod, {UNTOLERATED}" in messages(world, "intruder")
        assert not pod(world, "intruder")["spec"].get("nodeName")

        for name in names:
            world.store.delete("pods", name, "default")
        await world.until(lambda: not any(pod(world, name) for name in names), 60, "the pods are gone")
        await world.until(lambda: not world.store.list(CLAIMS), 180, "the empty machines are gone")
        await world.settled()
        for claim in claims.values():
            assert world.audit_log.deletion_order(claim["metadata"]["uid"]) == WHOLE
        await cluster.demand("DELETE", path_of("nodepools.karpenter.sh", "gpu"))
        assert pod(world, "intruder")["status"]["phase"] == "Pending"


ZONE_1, ZONE_2 = ({labels.ZONE: f"westeurope-{number}"} for number in (1, 2))
RESEARCH = {"key": "team", "value": "research", "effect": "NoSchedule"}
SPREAD = {
    "maxSkew": 1,
    "topologyKey": labels.ZONE,
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "spread"}},
}
# Each shape with the number of its pods.
SHAPES: dict[str, tuple[int, Json]] = {
    "anywhere": (4, demand.pod("anywhere")),
    "zone-1": (2, demand.pod("zone-1", nodeSelector=ZONE_1)),
    "zone-2": (1, demand.pod("zone-2", nodeSelector=ZONE_2)),
    "two-gpus": (1, demand.pod("two-gpus", gpus=2)),
    "four-gpus": (1, demand.pod("four-gpus", gpus=4, nodeSelector=ZONE_2)),
    "spread": (3, demand.pod("spread", topologySpreadConstraints=[SPREAD])),
    "research": (2, demand.pod("research", tolerations=[{**RESEARCH, "operator": "Equal"}])),
}
MORE_PASSES_SECONDS = 25.0
BATCH, KILLED_AFTER = 20, 3
# Less than the Lease of a leader that was killed lasts; its requests have ended.
UNLED_SECONDS = 5.0


def mixed_pods() -> dict[str, str]:
    """The shape of each pod, by its name."""
    return {f"{shape}-{number}": shape for shape, (count, _) in SHAPES.items() for number in range(count)}


def nominated(world: RealWorld, name: str) -> str:
    """The NodeClaim that the first decision about the pod named; "" before it."""
    found = [message for message in messages(world, name) if message.startswith(NOMINATED)]
    return found[0].removeprefix(NOMINATED).partition(",")[0] if found else ""


async def test_mixed_pods_are_bound_where_the_solver_decided_or_elsewhere_without_harm(
    cluster: ControlPlane, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Pods of several shapes, taints and zones all run. Besides the machines of the first decision one is bought only
    where kube-scheduler gave a pod's machine to another pod.
    """
    pods = mixed_pods()
    created: set[str] = set()

    def note(event: str, resource: str, obj: Json, _: Json | None) -> None:
        if (event, resource) == ("ADDED", CLAIMS):
            created.add(obj["metadata"]["name"])

    async with kube_scheduler(cluster), RealWorld.open(cluster, tmp_path) as world:
        world.store.subscribe(note)
        research = demand.node_pool("research")
        research["spec"]["template"]["spec"]["taints"] = [RESEARCH]
        for obj in (demand.node_class(), demand.node_pool(), research):
            await world.apply(obj)
        for name, shape in pods.items():
            made = SHAPES[shape][1]
            world.store.create("pods", {**made, "metadata": {"name": name, "labels": {"app": shape}}}, "default")
        world.store.create("pods", demand.pod("intruder", tolerates=False), "default")
        await world.start_controller()

        await world.until(lambda: all(nominated(world, name) for name in pods), 120, "the first decision")
        decided = {name: nominated(world, name) for name in pods}

        def running() -> bool:
            return all(pod(world, name)["status"]["phase"] == "Running" for name in pods)

        await world.until(running, 150, "the pods run")
        await asyncio.sleep(MORE_PASSES_SECONDS)
        nodes = {claim["metadata"]["name"]: claim["status"].get("nodeName") for claim in world.store.list(CLAIMS)}
        claim_of = {node: name for name, node in nodes.items()}
        bound = {name: claim_of[pod(world, name)["spec"]["nodeName"]] for name in pods}
        wanted, found = (Counter((pods[name], place[name]) for name in pods) for place in (decided, bound))
        elsewhere = (wanted - found).total()
        with capsys.disabled():
            print(f"\n{len(pods)} pods, {len({*decided.values()})} machines decided, {len(created)} bought", end="; ")
            print(f"{elsewhere} pods bound elsewhere than to the machine of an equal pod")
        # A machine whose pods run elsewhere is empty, and may have been deleted since.
        assert created >= {*decided.values()}
        assert len(created) <= len({*decided.values()}) + elsewhere
        assert UNTOLERATED in " ".join(messages(world, "intruder"))
        assert not pod(world, "intruder")["spec"].get("nodeName")


async def test_a_leader_that_is_killed_in_the_middle_of_a_batch_leaves_no_pod_with_two_machines(
    cluster: ControlPlane, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of two replicas the leader is killed after some NodeClaims of a batch; the other one creates those that lack."""
    names = [f"one-{number}" for number in range(BATCH)]
    created: list[str] = []
    async with kube_scheduler(cluster), RealWorld.open(cluster, tmp_path) as world:

        def kill(event: str, resource: str, obj: Json, _: Json | None) -> None:
            if (event, resource) == ("ADDED", CLAIMS):
                created.append(obj["metadata"]["name"])
                if len(created) == KILLED_AFTER:
                    world.crash("leader")

        world.store.subscribe(kill)
        leader = await world.start_controller("leader")
        await world.until(lambda: "started leading" in leader.log.read_text(encoding="utf-8"), 60, "it leads")
        await world.start_controller("follower")
        await world.apply(demand.node_class())
        await world.apply(demand.node_pool())
        await world.until(lambda: is_ready(world, "nodepools.karpenter.sh", "gpu"), 60, "the NodePool is Ready")
        for name in names:
            world.store.create("pods", demand.pod(name), "default")

        await world.until(lambda: not leader.running, 60, "the leader is killed")
        await asyncio.sleep(UNLED_SECONDS)
        left = len(world.store.list(CLAIMS))
        assert KILLED_AFTER <= left < BATCH
        await world.until(
            lambda: all(pod(world, name)["status"]["phase"] == "Running" for name in names), 150, "the pods run"
        )
        await asyncio.sleep(MORE_PASSES_SECONDS)
        with capsys.disabled():
            print(f"\nthe leader was killed after {left} of {BATCH} NodeClaims; {len(created)} were created in all")
        assert len(created) == len(world.store.list(CLAIMS)) == BATCH
        assert len({pod(world, name)["spec"]["nodeName"] for name in names}) == BATCH
        assert len([pool for pool in world.cloud.pools.values() if pool_mark(pool)]) == BATCH
