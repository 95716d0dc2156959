"""A NodeClaim that cannot become a machine is no capacity: its pods get other machines, and it is not left behind."""

import asyncio

import pytest
from aiohttp import web

from provisioner.api import labels
from provisioner.simulator.audit_log import Call
from provisioner.simulator.azure import errors, faults
from provisioner.simulator.azure.errors import Answer
from provisioner.simulator.azure.faults import ALWAYS, Failure, Fault, nodes_not_ready, quota_preflight
from tests.world.demand import T4, claims_of, node_class, node_pool, pending, pod, pod_events, sizes, with_node_pool
from tests.world.harness import Json, Sim, node_claim, simulated
from tests.world.transcript import refuse

from .common import claim, disk, with_volume

HOUR = 3600.0
A100 = "Standard_NC24ads_A100_v4"
ONLY_T4 = {"key": labels.INSTANCE_TYPE, "operator": "In", "values": [T4]}
NO_T4 = {"key": labels.INSTANCE_TYPE, "operator": "NotIn", "values": [T4]}
POLICY = errors.gateway(403, "RequestDisallowedByPolicy", "Resource 'x' was disallowed by policy 'allowed sizes'.")
SUBNET = errors.rp(400, "InvalidResourceReference", "the subnet does not exist")
REFUSALS = {
    "Azure Policy": POLICY,
    "subnet": SUBNET,
    "ephemeral OS disk": errors.rp(
        400,
        "BadRequest",
        f"The virtual machine size {T4} has a cache size of 47244640256 bytes and temp disk size of 188978561024 bytes,"
        " but the OS disk requires 322122547200 bytes.",
    ),
}


def refused(answer: Answer, size: str = T4, times: int = ALWAYS) -> Fault:
    return Fault(verb="PUT", size=size, times=times, answer=answer)


def phase(sim: Sim, name: str = "p") -> str:
    return ((sim.store.get("pods", name, "default") or {}).get("status") or {}).get("phase", "")


async def until_running(sim: Sim, within: float = 1500.0, name: str = "p") -> None:
    await sim.until(lambda: phase(sim, name) == "Running", within, f"pod {name} runs")


def reasons_of(sim: Sim, kind: str) -> set[str]:
    return {one["reason"] for one in sim.store.list("events", fields=f"involvedObject.kind={kind}")}


def requests(sim: Sim) -> int:
    return len(sim.cloud.request_log.puts)


@pytest.mark.parametrize("cause", REFUSALS)
@simulated()
async def test_a_size_that_azure_refuses(sim: Sim, cause: str) -> None:
    """The next size is requested at once, by the same NodeClaim or by one that replaces it, and one machine remains."""
    sim.cloud.faults.append(refused(REFUSALS[cause]))
    others = len(sim.cloud.pools)
    await with_node_pool(sim)
    if cause == "subnet":
        await sim.apply(node_class("other"))
        await sim.apply(other_class(node_pool("other"), "other"))
    await pending(sim, pod("p"))
    await until_running(sim, 900.0)
    await asyncio.sleep(900.0)
    assert len(sim.cloud.pools) == others + 1
    assert all(sim.condition(claim["metadata"]["name"], "Ready") == "True" for claim in sim.store.list(CLAIMS))
    assert "LaunchFailed" in reasons_of(sim, "NodePool")


CLAIMS = "nodeclaims.karpenter.sh"


def other_class(pool: Json, name: str) -> Json:
    pool["spec"]["template"]["spec"]["nodeClassRef"]["name"] = name
    pool["spec"]["template"]["spec"]["requirements"].append(NO_T4)
    return pool


@simulated()
async def test_another_nodepool_follows(sim: Sim) -> None:
    """The preferred NodePool can launch nothing: the next one serves its pods, and the first keeps no NodeClaim."""
    sim.cloud.faults.append(refused(SUBNET))
    await sim.apply(node_class())
    await sim.apply(node_pool("broken", requirements=[ONLY_T4], weight=10))
    await sim.apply(node_pool("good", requirements=[NO_T4]))
    await sim.start_controller()
    await pending(sim, pod("p"))
    await until_running(sim, 900.0)
    assert not claims_of(sim, "broken")
    assert len(claims_of(sim, "good")) == 1


@simulated()
async def test_a_nodeclaim_that_cannot_be_deleted_stops_no_other(sim: Sim) -> None:
    """A webhook fails for the NodeClaim of the first NodePool; a pod of the second one gets its machine."""
    sim.cloud.faults.append(refused(SUBNET))
    refuse(sim, lambda call: call.verb == "DELETE" and call.target.kind == "nodeclaims", 500, "InternalError")
    await sim.apply(node_class())
    await sim.apply(node_pool("broken", requirements=[ONLY_T4]))
    await sim.apply(node_pool("good", requirements=[NO_T4]))
    await sim.start_controller()
    await pending(sim, pod("p", nodeSelector={labels.NODEPOOL: "broken"}))
    await sim.until(lambda: claims_of(sim, "broken"), 60.0, "its NodeClaim")
    await asyncio.sleep(60.0)
    sim.store.delete("pods", "p", "default", grace=0)
    await pending(sim, pod("q", nodeSelector={labels.NODEPOOL: "good"}))
    await until_running(sim, 900.0, "q")
    assert len(claims_of(sim, "broken")) == 1


FULL = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/virtualNetworks/v/subnets/full"


@simulated()
async def test_deletions_that_a_webhook_lets_hang_stop_no_purchase(sim: Sim) -> None:
    """Each of 16 NodeClaims that no pod needs any more would be waited for, longer together than a pass may take."""
    sim.cloud.faults.append(faults.capacity(size=T4))
    await with_node_pool(sim, requirements=[ONLY_T4])
    await sim.apply(node_pool("other", requirements=[NO_T4]))
    names = [f"old-{number}" for number in range(16)]
    await pending(sim, *(pod(name, nodeSelector={labels.NODEPOOL: "gpu"}) for name in names))
    await sim.until(lambda: len(claims_of(sim)) == 16, 300.0, "the NodeClaims")
    await asyncio.sleep(600.0)

    async def hang(call: Call, _: web.Request) -> web.StreamResponse | None:
        if call.verb != "DELETE" or call.target.kind != "nodeclaims":
            return None
        await asyncio.sleep(11.0)
        return web.json_response({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 500}, status=500)

    sim.world.before.append(hang)
    await pending(sim, pod("p", nodeSelector={labels.NODEPOOL: "other"}))
    for name in names:
        sim.store.delete("pods", name, "default", grace=0)
    await sim.until(lambda: claims_of(sim, "other"), 60.0, "the NodeClaim of another pod")
    sim.world.before.remove(hang)
    await sim.until(lambda: not claims_of(sim), 600.0, "they are deleted")


@pytest.mark.parametrize("full", ["", FULL])
@simulated()
async def test_a_full_subnet(sim: Sim, full: str) -> None:
    """Machines of other subnets are created: the next NodePool's, and KAITO's if the subnet of the cluster has room.

    One machine a step tries the full subnet, for all NodePools whose machines are in it.
    """
    error = faults.error("SubnetIsFull", "Subnet does not have enough capacity for 1 IP addresses.")
    fault = Fault(verb="PUT", subnet=full, times=ALWAYS, failure=Failure(error=error))
    sim.cloud.faults.append(fault)
    await sim.apply(node_class())
    await sim.apply({**node_class("other"), "spec": {"vnetSubnetID": FULL}})
    of_full, of_rest = ("other", "default") if full else ("default", "other")
    for name, weight, used in (("full", 20, of_full), ("full-too", 10, of_full), ("rest", 1, of_rest)):
        pool = node_pool(name, weight=weight)
        pool["spec"]["template"]["spec"]["nodeClassRef"]["name"] = used
        await sim.apply(pool)
    await sim.start_controller()
    await pending(sim, pod("p"))
    await until_running(sim, 900.0)
    assert (len(claims_of(sim, "rest")), claims_of(sim, "full-too")) == (1, [])
    sent = requests(sim)
    await pending(sim, pod("q"))
    await until_running(sim, 600.0, "q")
    assert requests(sim) <= sent + 2
    await sim.apply(node_claim("ws1", size=A100))
    if full:
        await sim.until(lambda: sim.condition("ws1", "Ready") == "True", 600.0, "KAITO's machine")
    else:
        await sim.until(lambda: sim.condition("ws1", "Launched") == "False", 600.0, "KAITO's machine waits")
        sim.cloud.faults.remove(fault)
        await sim.until(lambda: sim.condition("ws1", "Ready") == "True", 1500.0, "KAITO's machine")


@simulated()
async def test_a_capacity_reservation_and_spot(sim: Sim) -> None:
    """A capacity reservation has no spot machines: the NodePool that allows both capacity types buys on demand."""
    group = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/capacityReservationGroups/c"
    await sim.apply({**node_class(), "spec": {"capacityReservationGroupID": group}})
    both = {"key": labels.CAPACITY_TYPE, "operator": "In", "values": ["on-demand", "spot"]}
    await sim.apply(node_pool(requirements=[both]))
    await sim.start_controller()
    await pending(sim, {**(made := pod("p")), "spec": {**made["spec"], "tolerations": [{"operator": "Exists"}]}})
    await until_running(sim, 900.0)
    assert [put.properties.get("scaleSetPriority") for put in sim.cloud.request_log.puts] == [None]


@simulated()
async def test_a_claim_of_kaito_without_quota(sim: Sim) -> None:
    """Pods of others do not wait for its machine; the NodeClaim stays, and gets its machine once there is quota."""
    fault = quota_preflight(size=A100)
    sim.cloud.faults.append(fault)
    await with_node_pool(sim)
    await sim.apply(node_claim("ws1", size=A100))
    await asyncio.sleep(600.0)
    await pending(sim, pod("p"))
    await until_running(sim, 900.0)
    sim.cloud.faults.remove(fault)
    await sim.until(lambda: sim.condition("ws1", "Ready") == "True", 1500.0, "KAITO's machine")


@simulated()
async def test_a_static_nodepool_without_quota(sim: Sim) -> None:
    """A dynamic NodePool serves the pods that would fit the replica, which stays."""
    sim.cloud.faults.append(quota_preflight(size=A100))
    await with_node_pool(sim)
    only = {"key": labels.INSTANCE_TYPE, "operator": "In", "values": [A100]}
    await sim.apply(node_pool("static", requirements=[only], replicas=1))
    (replica,) = await sim.until(lambda: claims_of(sim, "static"), 120.0, "the replica")
    await asyncio.sleep(600.0)
    await pending(sim, pod("p"))
    await until_running(sim, 900.0)
    assert [one["metadata"]["uid"] for one in claims_of(sim, "static")] == [replica["metadata"]["uid"]]


@pytest.mark.matrix(quick=0)
@simulated()
async def test_an_admission_policy_that_refuses_nodeclaims(sim: Sim) -> None:
    """Another NodePool serves the pod; the refused NodeClaim is not requested again with each pass."""
    await sim.apply(node_class())
    await sim.apply(node_pool("forbidden", weight=10))
    await sim.apply(node_pool("good"))
    tried = list[str]()

    async def refuse(call: Call, request: web.Request) -> web.StreamResponse | None:
        if call.verb != "POST" or call.target.kind != "nodeclaims" or b'"forbidden-' not in await request.read():
            return None
        tried.append(call.who)
        body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403}
        return web.json_response({**body, "message": "no money"}, status=403)

    sim.world.before.append(refuse)
    await sim.start_controller()
    await pending(sim, pod("p"))
    await until_running(sim, 900.0)
    await pending(sim, pod("never", nodeSelector={labels.NODEPOOL: "forbidden"}))
    await asyncio.sleep(HOUR)
    assert len(tried) <= 80
    assert "no money" in pod_events(sim, "never")[-1][1]
    assert "LaunchFailed" in reasons_of(sim, "NodePool")


@simulated()
async def test_no_pod_waits_for_it(sim: Sim) -> None:
    """The pod of a NodeClaim that is refused is deleted: the NodeClaim is deleted as well, and requests nothing."""
    sim.cloud.faults.append(refused(POLICY))
    await with_node_pool(sim, requirements=[ONLY_T4])
    await pending(sim, pod("p"))
    await sim.until(lambda: claims_of(sim), 30.0, "a NodeClaim")
    await asyncio.sleep(60.0)
    assert len(claims_of(sim)) == 1
    await sim.request("DELETE", "/api/v1/namespaces/default/pods/p")
    await sim.until(lambda: not claims_of(sim), 60.0, "its NodeClaim is gone")
    before = requests(sim)
    await asyncio.sleep(HOUR)
    assert requests(sim) == before


@pytest.mark.matrix(quick=0)
@simulated()
async def test_a_nodepool_that_can_launch_nothing(sim: Sim) -> None:
    """It is tried with growing delays; the pod and the NodePool state the cause."""
    sim.cloud.faults.append(refused(POLICY, size=""))
    await with_node_pool(sim)
    await pending(sim, *(pod(f"p{number}") for number in range(10)))
    await asyncio.sleep(60.0)
    assert requests(sim) <= 60
    await asyncio.sleep(2 * HOUR)
    sizes_of_region = 35
    assert requests(sim) <= 6 * sizes_of_region
    assert any("RequestDisallowedByPolicy" in message for _, message in pod_events(sim, "p0"))
    assert "LaunchFailed" in reasons_of(sim, "NodePool")


@simulated()
async def test_a_corrected_node_class_is_tried_at_once(sim: Sim) -> None:
    """The delay of a refused request ends when the node class changes."""
    fault = refused(SUBNET)
    sim.cloud.faults.append(fault)
    await with_node_pool(sim, requirements=[ONLY_T4])
    await pending(sim, pod("p"))
    await asyncio.sleep(1200.0)
    before = requests(sim)
    sim.cloud.faults.remove(fault)
    await sim.apply({**node_class(), "spec": {"maxPods": 60}})
    await sim.until(lambda: requests(sim) > before, 30.0, "a request")
    await until_running(sim)


@simulated()
async def test_a_corrected_nodepool_replaces_a_refused_nodeclaim(sim: Sim) -> None:
    """Its requirements cannot change: the pod gets a machine of the new template, and the NodeClaim goes."""
    sim.cloud.faults.append(refused(POLICY, size=A100))
    await with_node_pool(sim, requirements=[{**ONLY_T4, "values": [A100]}])
    await pending(sim, pod("p"))
    await asyncio.sleep(600.0)
    (before,) = claims_of(sim)
    await sim.apply(node_pool(requirements=[ONLY_T4]))
    await until_running(sim)
    (after,) = claims_of(sim)
    assert after["metadata"]["uid"] != before["metadata"]["uid"]


@simulated()
async def test_a_pool_that_is_being_created_for_ever(sim: Sim) -> None:
    """After 30 min its pod gets another machine; the first one is deleted before, as soon as Azure allows it."""
    sim.cloud.faults.append(Fault(verb="PUT", size=T4, times=ALWAYS, operation_seconds=8 * HOUR))
    await with_node_pool(sim)
    await pending(sim, pod("p"))
    await sim.until(lambda: sizes(sim) == [T4], 60.0, "the first NodeClaim")
    await until_running(sim, 3000.0)
    kept = [claim for claim in claims_of(sim) if "deletionTimestamp" not in claim["metadata"]]
    assert [sim.condition(claim["metadata"]["name"], "Ready") for claim in kept] == ["True"]
    assert len(claims_of(sim)) == 2


@simulated()
async def test_machines_that_never_become_ready(sim: Sim) -> None:
    """After two failures in a row the next NodePool serves the pod; one failure alone is retried."""
    broken = Failure(error=nodes_not_ready(), after_seconds=600.0)
    sim.cloud.faults.append(Fault(verb="PUT", size=T4, times=ALWAYS, failure=broken))
    await sim.apply(node_class())
    await sim.apply(node_pool("broken", requirements=[ONLY_T4], weight=10))
    await sim.apply(node_pool("good", requirements=[NO_T4]))
    await sim.start_controller()
    await pending(sim, pod("p"))
    await sim.until(lambda: claims_of(sim, "good"), HOUR, "the NodeClaim of the other NodePool")
    assert requests(sim) == 2
    await until_running(sim)
    assert not claims_of(sim, "broken")


@pytest.mark.parametrize("crash_at", [3.0, 12.0, 40.0])
@simulated()
async def test_a_restart_buys_nothing_twice(sim: Sim, crash_at: float) -> None:
    """A new process has forgotten what was refused: it requests it once more, and one machine is bought."""
    sim.cloud.faults.append(refused(POLICY))
    others = len(sim.cloud.pools)
    await with_node_pool(sim)
    await pending(sim, pod("p"))
    await asyncio.sleep(crash_at)
    sim.replace_controller()
    await until_running(sim)
    await asyncio.sleep(600.0)
    assert len(sim.cloud.pools) == others + 1
    assert len(claims_of(sim)) == 1


@simulated()
async def test_a_claim_of_a_pod_whose_volume_cannot_be_read(sim: Sim) -> None:
    """A NodeClaim that is kept for its pod stays kept while what the pod needs is not known."""
    disk(sim, "v", "westeurope-1")
    claim(sim, "data", volumeName="v")
    sim.cloud.faults.append(refused(POLICY))
    await with_node_pool(sim, requirements=[ONLY_T4])
    await pending(sim, with_volume("p", "data"))
    await sim.until(lambda: claims_of(sim), 60.0, "the NodeClaim")
    await asyncio.sleep(600.0)
    (before,) = claims_of(sim)
    refuse(sim, lambda call: call.target.kind == "persistentvolumeclaims", 403, "Forbidden")
    await asyncio.sleep(60.0)
    assert [one["metadata"]["uid"] for one in claims_of(sim)] == [before["metadata"]["uid"]]


@simulated()
async def test_a_claim_that_is_refused_for_an_hour_is_overdue_once(sim: Sim) -> None:
    """Its condition keeps the cause and ends with the deadline, however often the request is repeated."""
    sim.cloud.faults.append(refused(POLICY))
    await sim.start_controller()
    await sim.apply(node_claim("ws", size=T4))
    await sim.until(lambda: "; overdue: " in launched(sim), HOUR, "the launch is overdue")
    first = launched(sim)
    assert first.startswith("RequestDisallowedByPolicy")
    for _ in range(12):
        await asyncio.sleep(HOUR / 12)
        assert launched(sim) == first
    assert first.count("overdue") == 1
    late = [one for one in sim.store.list("events", fields="involvedObject.name=ws") if "overdue" in one["message"]]
    assert len(late) == 1


def launched(sim: Sim) -> str:
    found = (sim.store.get(CLAIMS, "ws") or {}).get("status") or {}
    return next((one["message"] for one in found.get("conditions", ()) if one["type"] == "Launched"), "")


@simulated()
async def test_a_deletion_that_fails_is_repeated_without_pods(sim: Sim) -> None:
    """A webhook fails for a minute while no pod waits: the NodeClaim that cannot be launched is deleted after it."""
    sim.cloud.faults.append(refused(SUBNET))
    await with_node_pool(sim, requirements=[ONLY_T4])
    await pending(sim, pod("p"))
    await sim.until(lambda: claims_of(sim), 60.0, "a NodeClaim")
    await asyncio.sleep(60.0)
    mend = refuse(sim, lambda call: call.verb == "DELETE" and call.target.kind == "nodeclaims", 500, "InternalError")
    sim.store.delete("pods", "p", "default", grace=0)
    await asyncio.sleep(60.0)
    assert claims_of(sim)
    mend()
    await sim.until(lambda: not claims_of(sim), 60.0, "the NodeClaim is deleted")
