"""I22 is violated by one deliberate change, and not by permitted ones."""

import asyncio
from typing import Any

import pytest

from provisioner.api import labels

from .histories import ONE, breaks, delete, machine, node_pool, play, use

REMOVED = {"key": labels.DISRUPTED_TAINT, "operator": "Exists"}
LATER, BEFORE = "2026-03-01T18:00:00Z", "2026-03-01T12:00:00Z"


@pytest.mark.parametrize(
    ("seconds", "spec", "deadline", "drained", "permitted"),
    [
        (90, {}, "", "registered", False),
        (90, {}, "", "Ready", False),
        (90, {}, "", "neither", True),
        (90, {}, LATER, "registered", False),
        (90, {}, BEFORE, "registered", True),
        (30, {}, "", "registered", True),
        (90, {"tolerations": [REMOVED]}, "", "registered", True),
        (90, {"tolerations": [{"operator": "Exists"}]}, "", "registered", True),
    ],
    ids=["runs", "not registered", "nor Ready", "deadline", "overdue", "late", "tolerates", "tolerates all"],
)
def test_i22_a_machine_with_a_pod(
    seconds: float, spec: dict[str, Any], deadline: str, drained: str, permitted: bool
) -> None:
    """A user deletes the claim, and the controller deletes the machine while the pod runs."""

    async def story(world, controller, person) -> None:
        pool = await node_pool(person, ONE)
        _, node = await machine(world, controller, person, pool, "a")
        if drained == "registered":
            world.store.patch("nodes", node, {"metadata": {"labels": {labels.REGISTERED: "true"}}})
        use(world, node, **spec)
        await asyncio.sleep(seconds)
        assert world.store.get("pods", "p", "default")["status"]["phase"] == "Running"
        if drained == "neither":
            status = {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
            world.store.patch("nodes", node, status, subresource="status")
        if deadline:
            notes = {"metadata": {"annotations": {labels.TERMINATION_TIMESTAMP: deadline}}}
            world.store.patch("nodeclaims.karpenter.sh", "a", notes)
        await delete(person, "a")
        await controller.arm("DELETE", "a")
        world.check()

    if permitted:
        play(story)
    else:
        breaks(story, r"I22 violated.*the machine of claim a was deleted while pod p runs there")


@pytest.mark.parametrize(
    ("first", "evicted", "message"),
    [
        ({}, "p", ""),
        ({}, "q", "pod q was evicted before pod p"),
        ({"notes": {labels.DO_NOT_DISRUPT: "true"}}, "p", "pod p, which must not be disrupted, was evicted"),
        ({"notes": {labels.DO_NOT_DISRUPT: "never"}}, "p", ""),
    ],
)
def test_i22_the_order_of_evictions(first: dict[str, Any], evicted: str, message: str) -> None:
    """Pod `p` is an ordinary one, pod `q` is critical."""

    async def story(world, controller, person) -> None:
        pool = await node_pool(person, ONE)
        _, node = await machine(world, controller, person, pool, "a")
        use(world, node)
        world.store.patch("pods", "p", {"metadata": {"annotations": first.get("notes", {})}}, "default")
        containers = [{"name": "main", "image": "agent"}]
        use(world, node, "q", containers=containers, priorityClassName="system-node-critical")
        await asyncio.sleep(90)
        await delete(person, "a")
        await controller.evict(evicted)
        world.check()

    if message:
        breaks(story, f"I22 violated.*{message}")
    else:
        play(story)


@pytest.mark.parametrize(("seconds", "permitted"), [(3, False), (6, True)], ids=["at once", "later"])
def test_i22_a_machine_to_which_pods_may_still_be_bound(seconds: float, permitted: bool) -> None:
    """The last pod of a machine that is removed is evicted, and ends just after the taint."""

    async def story(world, controller, person) -> None:
        pool = await node_pool(person, ONE)
        _, node = await machine(world, controller, person, pool, "a")
        world.store.patch("nodes", node, {"metadata": {"labels": {labels.REGISTERED: "true"}}})
        use(world, node)
        await asyncio.sleep(5)
        await delete(person, "a")
        world.store.patch(
            "nodes", node, {"spec": {"taints": [{"key": labels.DISRUPTED_TAINT, "effect": "NoSchedule"}]}}
        )
        await controller.evict("p")
        world.store.delete("pods", "p", "default", grace=0)
        await asyncio.sleep(seconds)
        await controller.arm("DELETE", "a")
        world.check()

    if permitted:
        play(story)
    else:
        breaks(story, "I22 violated.*the machine of claim a was deleted while a scheduler could bind pods there")


@pytest.mark.parametrize(
    ("seconds", "volume", "stays", "permitted"),
    [(90, "pv", False, False), (30, "pv", False, True), (90, "", False, True), (90, "pv", True, True)],
    ids=["attached", "just attached", "no PersistentVolume", "of a pod that stays"],
)
def test_i22_a_machine_with_a_volume(seconds: float, volume: str, stays: bool, permitted: bool) -> None:
    async def story(world, controller, person) -> None:
        pool = await node_pool(person, ONE)
        _, node = await machine(world, controller, person, pool, "a")
        world.store.patch("nodes", node, {"metadata": {"labels": {labels.REGISTERED: "true"}}})
        if stays:
            volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
            use(world, node, tolerations=[{"operator": "Exists"}], volumes=volumes)
        source = {"persistentVolumeName": volume} if volume else {"inlineVolumeSpec": {"accessModes": ["RWO"]}}
        spec = {"attacher": "disk.csi.azure.com", "nodeName": node, "source": source}
        world.store.create("volumeattachments.storage.k8s.io", {"metadata": {"name": "csi"}, "spec": spec})
        await asyncio.sleep(seconds)
        await delete(person, "a")
        await controller.arm("DELETE", "a")
        world.check()

    if permitted:
        play(story)
    else:
        breaks(story, "I22 violated.*the machine of claim a was deleted while volume csi is attached")
