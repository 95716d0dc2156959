"""What the GPU Kernel Manager leaves of Nodes that are gone: reported by default, deleted if enabled."""

import asyncio
from typing import Any

import pytest

from tests import gkm
from tests.world.claims import node_of, ready, removed
from tests.world.harness import Sim, node_claim, simulated

pytestmark = pytest.mark.matrix(quick=0)

Json = dict[str, Any]
REFERENCE = {"group": "gpu-provisioner.sh", "kind": "AgentPoolNodeClass", "name": "gkm"}


async def removed_node(sim: Sim, **options: Any) -> str:
    """A Node with a GKMCacheNode, whose claim is deleted; returns its name."""
    for crd in gkm.crds():
        await sim.apply(crd)
    await sim.start_controller(**options)
    await sim.apply(
        {
            "apiVersion": "gpu-provisioner.sh/v1alpha1",
            "kind": "AgentPoolNodeClass",
            "metadata": {"name": "gkm"},
            "spec": {"readiness": gkm.rules("vllm", "default")},
        }
    )
    await sim.apply(node_claim("gpu1", nodeClassRef=REFERENCE))
    node = await node_of(sim, "gpu1")
    await sim.apply(gkm.cache_node(node, "default", "vllm"))
    status = gkm.cache_status(node, "default", "vllm", "Extracted")
    sim.store.patch(gkm.CACHE_NODES, node, {"status": status}, "default", subresource="status")
    await ready(sim, "gpu1")
    await removed(sim, "gpu1")
    return node


def stale(sim: Sim, node: str) -> list[Json]:
    return [
        e for e in sim.store.list("events") if (e["reason"], e["involvedObject"]["name"]) == ("StaleCacheNode", node)
    ]


@simulated()
async def test_S3_6_a_stale_object_is_reported_by_default(sim: Sim) -> None:  # noqa: N802
    """Without the setting the object stays, and one Event about it says what to do as long as it is there."""
    node = await removed_node(sim)
    await asyncio.sleep(1200)
    assert sim.store.get(gkm.CACHE_NODES, node, "default") is not None
    (event,) = stale(sim, node)
    assert (event["involvedObject"]["kind"], event["involvedObject"]["namespace"]) == ("GKMCacheNode", "default")
    assert "gkm.cleanup" in event["message"]
    assert event["count"] == 1
    await asyncio.sleep(3600)
    assert [one["count"] for one in stale(sim, node)] == [2], "the API server has deleted the first one"


@simulated()
async def test_S3_6_a_stale_object_is_deleted_with_the_setting(sim: Sim) -> None:  # noqa: N802
    """It goes with the finalizers of its agent; objects of Nodes that exist, and of other names, stay."""
    await asyncio.sleep(0)
    node = await removed_node(sim, gkm_cleanup=True)
    await sim.apply(gkm.cache_node("a-users-object", "default", "vllm"))
    await sim.apply(node_claim("gpu2", nodeClassRef=REFERENCE))
    other = await node_of(sim, "gpu2")
    await sim.apply(gkm.cache_node(other, "default", "vllm"))
    await sim.until(lambda: sim.store.get(gkm.CACHE_NODES, node, "default") is None, 600, "the stale object is gone")
    await asyncio.sleep(1200)
    left = {one["metadata"]["name"] for one in sim.store.list(gkm.CACHE_NODES)}
    assert left == {"a-users-object", other}
    assert not stale(sim, node)


@pytest.mark.parametrize("installed", [True, False])
def test_without_gkm_nothing_is_read(installed: bool) -> None:
    """Without the setting and a rule that names it, GKM is neither discovered nor listed."""

    @simulated()
    async def story(sim: Sim) -> None:
        for crd in gkm.crds() if installed else ():
            await sim.apply(crd)
        await sim.start_controller()
        await sim.apply(node_claim("gpu1"))
        await ready(sim, "gpu1")
        assert not [call for call in sim.audit_log.calls(who="ctl0") if "gkm" in str(call.target)]

    story()
