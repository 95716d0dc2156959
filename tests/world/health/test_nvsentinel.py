"""NVSentinel requests other machines by TerminateNodes: each deletes the NodeClaim of its Node once."""

import asyncio
from typing import Any

import pytest

from provisioner.api.nvsentinel import NVSentinel
from tests import nvsentinel
from tests.world.claims import condition, events, node_of, ready, word
from tests.world.garbagecollection.test_garbage import fleet
from tests.world.harness import Sim, crash_points, node_claim, simulate, simulated
from tests.world.kaito.test_kaito_races import OWNERS
from tests.world.kaito_predicates import Owner
from tests.world.kaito_stage import replaced_once
from tests.world.transcript import FAST, MINUTE, node_name

pytestmark = pytest.mark.matrix(quick=0)

ENABLED = NVSentinel()


async def installed(sim: Sim) -> None:
    for crd in nvsentinel.crds():
        await sim.apply(crd)


async def requested(sim: Sim, node: str, **options: Any) -> str:
    """Create the request; its name."""
    return (await sim.apply(nvsentinel.request(node, **options)))["metadata"]["name"]


def answered(sim: Sim, name: str, resource: str = nvsentinel.TERMINATE_NODES) -> tuple[str, str]:
    """Status and reason of the condition that NVSentinel waits for."""
    kind = "NodeTerminated" if resource == nvsentinel.TERMINATE_NODES else "NodeReady"
    return word(sim.store.get(resource, name), kind)


def deletions(sim: Sim) -> list[str]:
    """The claims that controllers have deleted."""
    calls = sim.audit_log.calls(verb="DELETE", kind="nodeclaims")
    return [call.target.name for call in calls if call.who in sim.controllers and call.status]


@pytest.mark.parametrize("restarted", [False, True], ids=["undisturbed", "the controller restarts"])
@OWNERS
@simulated(azure=FAST)
async def test_a_machine_is_replaced_once(sim: Sim, owner: Owner, restarted: bool) -> None:
    """The claim is deleted once and KAITO creates one other; the request is complete after the pool is gone."""
    await installed(sim)
    options: dict[str, Any] = {"elect": False, "nvsentinel": ENABLED}
    await sim.start_controller(**options)
    async with replaced_once(sim, owner, at_once=2 if owner.kind == "ragengine" else 1) as claim:
        name, uid = claim["metadata"]["name"], claim["metadata"]["uid"]
        request = await requested(sim, node_name(sim, name))
        await sim.until(lambda: deletions(sim), MINUTE, "the claim is deleted")
        assert answered(sim, request) == ("", "")
        if restarted:
            sim.crash()
            await sim.start_controller("ctl1", **options)
        await sim.until(lambda: not sim.pools_of(uid), 20 * MINUTE, "the pool is gone")
        assert answered(sim, request) == ("", "")
        done = ("True", "NodeClaimGone")
        await sim.until(lambda: answered(sim, request) == done, 2 * MINUTE, "the request is complete")
    assert deletions(sim) == [name]
    reported = events(sim, name, "TerminateNode")
    assert restarted or len(reported) == 1  # the Event is lost with the process
    assert all(request in event["message"] for event in reported)
    recorded = condition(sim.store.get(nvsentinel.TERMINATE_NODES, request), "gpu-provisioner.sh/NodeClaim")
    assert uid in recorded["message"]


def test_a_crash_at_any_write_leads_to_one_deletion() -> None:
    """Whichever write is the last one, done or not, the claim is deleted once and the request is complete."""

    async def story(sim: Sim) -> None:
        await installed(sim)
        await sim.start_controller(nvsentinel=ENABLED, elect=False)
        await sim.apply(node_claim("gpu1"))
        await ready(sim, "gpu1")
        request = await requested(sim, await node_of(sim, "gpu1"))
        await sim.until(lambda: answered(sim, request) == ("True", "NodeClaimGone"), 30 * MINUTE, "it is complete")
        assert sim.claim("gpu1") is None
        await sim.apply(node_claim("gpu1"))
        second = await ready(sim, "gpu1")
        await asyncio.sleep(2 * MINUTE)
        assert await ready(sim, "gpu1", within_seconds=1) == second

    for point in crash_points(story, azure=FAST):
        if not point.reset:
            simulate(story, crash=point, azure=FAST)


@simulated(azure=FAST)
async def test_a_machine_of_the_same_name_is_another_one(sim: Sim) -> None:
    """The claim and its Node get a successor of the same names while nobody leads: it stays."""
    await installed(sim)
    await sim.start_controller(nvsentinel=ENABLED)
    await sim.apply(node_claim("gpu1"))
    first = await ready(sim, "gpu1")
    node = await node_of(sim, "gpu1")
    request = await requested(sim, node)
    await sim.until(lambda: sim.claim("gpu1") is None, 20 * MINUTE, "the claim is gone")
    sim.crash()
    await sim.apply(node_claim("gpu1"))
    await sim.start_controller("ctl1", nvsentinel=ENABLED)
    second = await ready(sim, "gpu1")
    assert second != first
    await sim.until(lambda: answered(sim, request)[0] == "True", 2 * MINUTE, "the request is complete")
    await asyncio.sleep(10 * MINUTE)
    assert await ready(sim, "gpu1", within_seconds=1) == second
    assert deletions(sim) == ["gpu1"]


@simulated(azure=FAST)
async def test_a_restart_is_refused(sim: Sim) -> None:
    """The answer says what to request instead; nothing is deleted."""
    await installed(sim)
    await sim.start_controller(nvsentinel=ENABLED)
    await sim.apply(node_claim("gpu1"))
    uid = await ready(sim, "gpu1")
    request = await requested(sim, await node_of(sim, "gpu1"), kind="RebootNode")
    refused = ("False", "RebootNotSupported")
    await sim.until(lambda: answered(sim, request, nvsentinel.REBOOT_NODES) == refused, MINUTE, "it is refused")
    reported = condition(sim.store.get(nvsentinel.REBOOT_NODES, request), "NodeReady")["message"]
    assert "TerminateNode" in reported
    await asyncio.sleep(10 * MINUTE)
    assert await ready(sim, "gpu1", within_seconds=1) == uid
    assert not deletions(sim)


@simulated(azure=FAST)
async def test_nodes_of_others_are_left_alone(sim: Sim) -> None:
    """A Node of another pool, one that does not exist, and no name: no deletion, and words about each."""
    await installed(sim)
    await sim.start_controller(nvsentinel=ENABLED)
    await sim.apply(node_claim("gpu1"))
    await ready(sim, "gpu1")
    foreign = "aks-system-12345678-vmss000000"
    sim.store.create("nodes", {"metadata": {"name": foreign, "labels": {"agentpool": "system"}}})
    names = [await requested(sim, node) for node in (foreign, "no-such-node")]
    nameless = await requested(sim, "")
    await sim.until(lambda: answered(sim, nameless) == ("False", "InvalidNodeName"), MINUTE, "the error is reported")
    await asyncio.sleep(10 * MINUTE)
    for name in names:
        assert "status" not in (sim.store.get(nvsentinel.TERMINATE_NODES, name) or {})
        [event] = events(sim, name, "NodeNotManaged")
        assert "is not a Node of a NodeClaim" in event["message"]
    assert not deletions(sim)
    assert sim.store.get("nodes", foreign) is not None


@simulated(azure=FAST)
async def test_too_many_at_once_are_refused(sim: Sim) -> None:
    """Five of six exceed the limit of three: none is deleted, and each says so. Three later ones are within it."""
    await installed(sim)
    names = await fleet(sim, 6, nvsentinel=ENABLED)
    nodes = [node_name(sim, name) for name in names]
    requests = [await requested(sim, node) for node in nodes[:5]]
    refused = ("False", "RemovalRestricted")
    await sim.until(lambda: all(answered(sim, one) == refused for one in requests), MINUTE, "all are refused")
    assert not deletions(sim)
    for node in nodes[:3]:
        await requested(sim, node, name=f"again-{node}")
    await sim.until(lambda: len(deletions(sim)) == 3, MINUTE, "three are deleted")
    fourth = await requested(sim, nodes[3], name="fourth")
    await sim.until(lambda: answered(sim, fourth) == refused, MINUTE, "the fourth within ten minutes is refused")
    assert sorted(deletions(sim)) == names[:3]


@simulated(azure=FAST)
async def test_without_its_crds_nothing_else_breaks(sim: Sim) -> None:
    """Claims become ready; requests are answered once the CRDs are there."""
    await sim.start_controller(nvsentinel=ENABLED)
    await sim.apply(node_claim("gpu1"))
    await ready(sim, "gpu1")
    await installed(sim)
    request = await requested(sim, await node_of(sim, "gpu1"))
    await sim.until(lambda: answered(sim, request)[0] == "True", 20 * MINUTE, "the request is complete")


@simulated(azure=FAST)
async def test_it_is_disabled_by_default(sim: Sim) -> None:
    """Without the setting, the resources are not read."""
    await installed(sim)
    await sim.start_controller()
    await sim.apply(node_claim("gpu1"))
    await ready(sim, "gpu1")
    await requested(sim, await node_of(sim, "gpu1"))
    await asyncio.sleep(MINUTE)
    assert not [call for call in sim.audit_log.calls(who="ctl0") if "nvidia" in str(call.target)]
    assert not deletions(sim)
