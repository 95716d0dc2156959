"""What NodePools cost a cluster that has none: three watches while their CRDs exist, and no request otherwise."""

import asyncio
from typing import Any

import pytest
from aiohttp import web

from tests.world.claims import condition, ready
from tests.world.demand import node_class, node_pool
from tests.world.harness import Sim, crds, node_claim, simulated

Json = dict[str, Any]
KINDS = ("nodepools", "agentpoolnodeclasses", "nodeoverlays")
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NAMES = ("nodepools.karpenter.sh", "agentpoolnodeclasses.gpu-provisioner.sh", "nodeoverlays.karpenter.sh")


def requests(sim: Sim) -> list[tuple[str, str]]:
    """The requests of the controller for NodePools, node classes and pods: verb and kind."""
    mine = (call for call in sim.audit_log.calls() if call.who in sim.controllers)
    return [(call.verb, call.target.kind) for call in mine if call.target.kind in (*KINDS, "pods")]


async def one_life(sim: Sim) -> None:
    """A claim of KAITO becomes Ready."""
    await sim.apply(node_claim("ws1"))
    await ready(sim, "ws1")


@simulated()
async def test_without_node_pools_only_their_collections_are_watched(sim: Sim) -> None:
    """One LIST of each kind, and its watch, which the API server ends every few minutes; no pod is read."""
    await sim.start_controller()
    await one_life(sim)
    found = requests(sim)
    assert sorted(one for one in found if one[0] == "LIST") == sorted(("LIST", kind) for kind in KINDS)
    assert set(found) == {(verb, kind) for verb in ("LIST", "WATCH") for kind in KINDS}


@simulated()
async def test_disabled_node_pools_cost_no_request(sim: Sim) -> None:
    await sim.start_controller(node_pools=False)
    await one_life(sim)
    assert requests(sim) == []


@simulated()
async def test_without_the_crds_there_is_no_request_until_they_are_installed(sim: Sim) -> None:
    """Nor after they were deleted; the main job continues throughout."""
    for name in NAMES:
        await sim.request("DELETE", f"{CRDS}/{name}")
    await sim.until(
        lambda: all(sim.store.get("customresourcedefinitions.apiextensions.k8s.io", n) is None for n in NAMES),
        60,
        "gone",
    )
    await sim.start_controller()
    await one_life(sim)
    assert requests(sim) == []

    for crd in crds():
        if crd["metadata"]["name"] in NAMES:
            await sim.request("POST", CRDS, crd)
    await sim.until(lambda: len(requests(sim)) >= 6, 60, "all kinds are watched")
    await asyncio.sleep(30)

    for name in NAMES:
        await sim.request("DELETE", f"{CRDS}/{name}")
    await asyncio.sleep(30)
    before = len(requests(sim))
    await asyncio.sleep(600)
    assert len(requests(sim)) == before
    assert sim.condition("ws1", "Ready") == "True"


@pytest.mark.parametrize("kind", KINDS)
@simulated()
async def test_a_refused_list_does_not_disturb_the_main_job(sim: Sim, kind: str) -> None:
    """Without the permissions a claim still becomes Ready; the list is retried with backoff."""

    async def forbidden(call: Any, _: Any) -> Any:
        if call.target.kind != kind:
            return None
        body = {"kind": "Status", "status": "Failure", "reason": "Forbidden", "message": "no", "code": 403}
        return web.json_response(body, status=403)

    sim.world.before.append(forbidden)
    await sim.start_controller()
    await one_life(sim)
    assert 3 < requests(sim).count(("LIST", kind)) < 60


@pytest.mark.parametrize("slow", ["nodes", "nodeclaims", *KINDS])
@simulated()
async def test_a_slow_list_delays_a_node_pool_but_does_not_lose_it(sim: Sim, slow: str) -> None:
    """Whichever cache is the last one, the NodePool becomes Ready: a large cluster has many pages of Nodes."""

    async def delayed(call: Any, _: Any) -> None:
        if (call.verb, call.target.kind) == ("LIST", slow):
            await asyncio.sleep(5)

    sim.world.before.append(delayed)
    await sim.apply(node_class())
    await sim.apply(node_pool())
    await sim.start_controller()

    def is_ready() -> bool:
        return condition(sim.store.get("nodepools.karpenter.sh", "gpu"), "Ready").get("status") == "True"

    await sim.until(is_ready, 60, "the NodePool is Ready")


@simulated()
async def test_definitions_of_other_controllers_are_not_read(sim: Sim) -> None:
    """Clusters have hundreds of large ones: each list and watch names the one that it is about."""
    named = set[str]()

    async def note(call: Any, request: web.Request) -> None:
        if call.target.kind == "customresourcedefinitions" and call.verb in ("LIST", "WATCH"):
            named.add(request.query.get("fieldSelector", ""))

    sim.world.before.append(note)
    await sim.apply(node_class())
    await sim.apply(node_pool())
    await sim.start_controller()
    await one_life(sim)
    assert named == {f"metadata.name={name}" for name in (*NAMES, "nodeclaims.karpenter.sh")}
