"""NVSentinel requests other machines by TerminateNodes: each deletes the NodeClaim of its Node once."""

import asyncio
from typing import Any

import pytest

from controllers.actuator.nvsentinel import NVSentinelActuator
from provisioner.api.nvsentinel import NVSentinel
from provisioner.runtime.fence import LeaseExpires
from provisioner.simulator.audit_log import Call
from tests import nvsentinel
from tests.world.claims import condition, events, node_of, ready, word
from tests.world.garbagecollection.common import fleet
from tests.world.harness import Sim, crash_points, node_claim, simulate, simulated
from tests.world.kaito.common import OWNERS
from tests.world.kaito_predicates import Owner
from tests.world.kaito_stage import replaced_once
from tests.world.transcript import FAST, MINUTE, node_name, refuse

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
async def test_an_answer_that_the_lease_does_not_permit_is_repeated(sim: Sim, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Lease is renewed again shortly afterwards; the process goes on."""
    await installed(sim)
    await sim.start_controller(nvsentinel=ENABLED)
    await sim.apply(node_claim("gpu1"))
    await ready(sim, "gpu1")
    original, refused = NVSentinelActuator.write, list[str]()

    async def write(self: NVSentinelActuator, *about: Any) -> None:
        if not refused:
            refused.append("once")
            raise LeaseExpires("patch RebootNode")
        await original(self, *about)

    monkeypatch.setattr(NVSentinelActuator, "write", write)
    request = await requested(sim, await node_of(sim, "gpu1"), kind="RebootNode")
    expected = ("False", "RebootNotSupported")
    await sim.until(lambda: answered(sim, request, nvsentinel.REBOOT_NODES) == expected, MINUTE, "it is refused")
    assert refused


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


@pytest.mark.parametrize("restarted", [False, True], ids=["undisturbed", "the controller restarts"])
@simulated(azure=FAST)
async def test_many_at_once_are_carried_out_one_after_the_other(sim: Sim, restarted: bool) -> None:
    """Five of ten exceed the limit of three in ten minutes: two wait, say so, and are deleted when it permits that."""
    await installed(sim)
    names = await fleet(sim, 10, nvsentinel=ENABLED)
    requests = [await requested(sim, node_name(sim, name)) for name in names[:5]]
    await sim.until(lambda: len(deletions(sim)) == 3, MINUTE, "three are deleted")
    await asyncio.sleep(5 * MINUTE)
    assert sorted(deletions(sim)) == names[:3]
    assert [answered(sim, one) for one in requests[3:]] == [("Unknown", "RemovalRestricted")] * 2
    if restarted:
        sim.crash()
        await sim.start_controller("ctl1", nvsentinel=ENABLED)
        await asyncio.sleep(3 * MINUTE)
        assert sorted(deletions(sim)) == names[:3]
    await sim.until(lambda: len(deletions(sim)) == 5, 15 * MINUTE, "the others are deleted")
    done = ("True", "NodeClaimGone")
    await sim.until(lambda: all(answered(sim, one) == done for one in requests), 20 * MINUTE, "all are complete")
    assert sorted(deletions(sim)) == names[:5]


@simulated(azure=FAST)
async def test_deletions_that_are_refused_use_no_part_of_the_limit(sim: Sim) -> None:
    """An admission policy protects the first three machines: the other requests are carried out."""
    await installed(sim)
    names = await fleet(sim, 10, nvsentinel=ENABLED)
    protected = names[:3]

    def fits(call: Call) -> bool:
        return call.verb == "DELETE" and call.target.kind == "nodeclaims" and call.target.name in protected

    refuse(sim, fits, 403, "Forbidden", "admission policy: this NodeClaim is protected")
    requests = [await requested(sim, node_name(sim, name)) for name in names[:6]]
    await sim.until(lambda: not any(sim.claim(name) for name in names[3:6]), 20 * MINUTE, "the others are gone")
    assert all(sim.claim(name) for name in protected)
    done = ("True", "NodeClaimGone")
    await sim.until(lambda: all(answered(sim, one) == done for one in requests[3:]), 5 * MINUTE, "they are complete")


@simulated(azure=FAST)
async def test_an_old_request_that_nobody_answered(sim: Sim) -> None:
    """It was created a day before the setting: the machine has served since, and is kept."""
    await installed(sim)
    names = await fleet(sim, 2)
    request = await requested(sim, node_name(sim, names[0]))
    await asyncio.sleep(24 * 60 * MINUTE)
    await sim.stop_controller()
    await sim.start_controller("ctl1", nvsentinel=ENABLED)
    await sim.until(lambda: answered(sim, request) == ("False", "RequestTooOld"), 5 * MINUTE, "it is refused")
    await asyncio.sleep(10 * MINUTE)
    assert not deletions(sim)


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


def forge(sim: Sim, name: str, message: str) -> None:
    """What another writer of the status can put in place of the controller's record."""
    one = {"type": "gpu-provisioner.sh/NodeClaim", "status": "True", "reason": "R", "message": message}
    one["lastTransitionTime"] = "2026-03-01T12:00:00Z"
    sim.store.patch(nvsentinel.TERMINATE_NODES, name, {"status": {"conditions": [one]}}, subresource="status")


@simulated(azure=FAST)
async def test_a_record_that_is_no_name_costs_its_request_only(sim: Sim) -> None:
    """The claim beside it becomes Ready."""
    await installed(sim)
    await sim.start_controller(nvsentinel=ENABLED)
    forge(sim, await requested(sim, "aks-x-1-vmss000000"), "NodeClaim a/b with UID 1 is deleted for this request")
    await asyncio.sleep(MINUTE)
    await sim.apply(node_claim("gpu1"))
    await ready(sim, "gpu1")


@pytest.mark.parametrize("ours", [True, False], ids=["of this controller", "of Karpenter"])
@simulated(azure=FAST)
async def test_a_forged_record_deletes_nothing(sim: Sim, ours: bool) -> None:
    """It names the UID of a healthy NodeClaim that is not the one of the request's Node."""
    await installed(sim)
    await sim.start_controller(nvsentinel=ENABLED)
    other = node_claim("other")
    if not ours:
        other["spec"]["nodeClassRef"] = {"group": "karpenter.azure.com", "kind": "AKSNodeClass", "name": "default"}
        other["metadata"]["labels"] = {}
    uid = (await sim.apply(other))["metadata"]["uid"]
    if ours:
        await ready(sim, "other")
    request = await requested(sim, "aks-x-1-vmss000000")
    forge(sim, request, f"NodeClaim other with UID {uid} is deleted for this request")
    await asyncio.sleep(5 * MINUTE)
    assert not deletions(sim)
