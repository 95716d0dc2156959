"""I18 and I20 are violated by one deliberate change, and not by permitted ones."""

import asyncio
from typing import Any

import pytest

from provisioner.api import labels
from provisioner.api.time import rfc3339, shifted
from tests.stories import run_by

from .histories import EPOCH, ONE, breaks, conditions, delete, machine, node_pool, play, use


def _now():
    return shifted(EPOCH, asyncio.get_running_loop().time())


async def _report(controller, node, capacity, allocatable):
    """What the kubelet reports."""
    status = {"capacity": {"nvidia.com/gpu": capacity}, "allocatable": {"nvidia.com/gpu": allocatable}}
    await controller.kube("PATCH", f"/api/v1/nodes/{node}/status", {"status": status})


@pytest.mark.parametrize(
    ("owner", "reason", "gpus", "permitted"),
    [
        ("ReplicaSet", "Drifted", None, True),
        ("Job", "Drifted", None, False),
        ("ReplicaSet", "", None, False),
        ("Job", "", None, False),
        ("Job", "", ("1", "0"), True),
        # The plugin is gone, which ends no container.
        ("Job", "", ("0", "0"), False),
    ],
)
def test_i18_a_machine_whose_pods_run(owner: str, reason: str, gpus: tuple[str, str] | None, permitted: bool) -> None:
    """It is deleted for a disruption, or without one."""

    async def story(world, controller, person) -> None:
        pool = await node_pool(person, ONE)
        old, node = await machine(world, controller, person, pool, "a")
        use(world, node)
        owners = [{"apiVersion": "v1", "kind": owner, "name": "web", "uid": "web", "controller": True}]
        world.store.patch("pods", "p", {"metadata": {"ownerReferences": owners}}, namespace="default")
        await asyncio.sleep(30)
        assert world.store.get("pods", "p", "default")["status"]["phase"] == "Running"
        if reason:
            await conditions(world, controller, "a", DisruptionReason=reason)
            await machine(world, controller, person, pool, "b", replaces=old)
        if gpus is not None:
            await _report(controller, node, *gpus)
        await delete(controller, "a")
        world.check()

    if permitted:
        play(story)
    else:
        breaks(story, r"I18 violated.*claim a was deleted, on whose Ready machine pod p runs with GPUs")


@run_by(breaks, given=3, match=r"I18 violated.*claim a was deleted, on whose Ready machine pod p runs with GPUs")
async def test_i18_an_announcement_about_a_machine_on_demand(world, controller, person) -> None:
    """Azure evicts spot machines only."""
    pool = await node_pool(person, ONE)
    _, node = await machine(world, controller, person, pool, "a")
    use(world, node)
    await asyncio.sleep(30)
    world.nodes.set_condition(node, "PreemptionScheduled", "True", "SpotEvictionIncoming", "Preempt Started.")
    await delete(controller, "a")


GPU = {"limits": {"nvidia.com/gpu": "1"}}


@pytest.mark.parametrize(
    "spec",
    [
        {"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpus"}]},
        {"initContainers": [{"name": "sidecar", "image": "train", "restartPolicy": "Always", "resources": GPU}]},
    ],
    ids=["claim", "sidecar"],
)
@run_by(breaks, given=3, match=r"I18 violated.*claim a was deleted, on whose Ready machine pod p runs with GPUs")
async def test_i18_a_pod_whose_container_requests_no_gpu(world, controller, person, spec: dict[str, Any]) -> None:
    """It has GPUs by a ResourceClaim, or in a sidecar."""
    pool = await node_pool(person, ONE)
    _, node = await machine(world, controller, person, pool, "a")
    use(world, node, containers=[{"name": "main", "image": "train"}], **spec)
    await asyncio.sleep(30)
    await delete(controller, "a")


@pytest.mark.parametrize("mark", [labels.CORDONED_AT, labels.REJECTS_PODS])
@pytest.mark.parametrize("cause", [True, False])
def test_i20_a_cordon_without_a_cause(cause: bool, mark: str) -> None:
    """The machine is healthy, unless its claim states why it is not."""

    async def story(world, controller, person) -> None:
        pool = await node_pool(person, ONE)
        _, node = await machine(world, controller, person, pool, "a")
        note = {"metadata": {"annotations": {mark: rfc3339(_now())}}, "spec": {"unschedulable": True}}
        await controller.kube("PATCH", f"/api/v1/nodes/{node}", note)
        if cause:
            await conditions(world, controller, "a", NodeHealthy="False")
        world.invariants.check_quiescent()

    if cause:
        play(story)
    else:
        breaks(story, r"I20 violated.*Node .* is cordoned by the controller without a cause")


@run_by(play, given=3)
async def test_i20_a_node_that_is_released(world, controller, person) -> None:
    """Its annotation stays, so that older rejections do not count again; others may have cordoned it since."""
    pool = await node_pool(person, ONE)
    _, node = await machine(world, controller, person, pool, "a")
    note = {"metadata": {"annotations": {labels.REJECTS_PODS: f"released {rfc3339(_now())}"}}}
    await controller.kube("PATCH", f"/api/v1/nodes/{node}", note)
    await person.kube("PATCH", f"/api/v1/nodes/{node}", {"spec": {"unschedulable": True}})
    world.invariants.check_quiescent()
