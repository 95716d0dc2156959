"""Pending pods become NodeClaims of a NodePool, each machine once and at the least price."""

import asyncio

import pytest

from provisioner.simulator.azure import faults
from tests.world.demand import (
    T4,
    claims_of,
    node_class,
    node_pool,
    pending,
    pod,
    pod_events,
    sizes,
    watches_pods,
    with_node_pool,
)
from tests.world.harness import Sim, simulated


@simulated()
async def test_a_pending_pod_gets_a_nodeclaim(sim: Sim) -> None:
    """1.1 s after kube-scheduler gave up, at the least price, with the marks of its NodePool and an Event."""
    await with_node_pool(sim)
    began = sim.now
    await pending(sim, pod("trainer"))
    (claim,) = await sim.until(lambda: claims_of(sim), 5.0, "a NodeClaim")
    assert sim.now - began <= 1.1
    assert sizes(sim) == [T4]
    (owner,) = claim["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["blockOwnerDeletion"]) == ("NodePool", "gpu", True)
    assert claim["metadata"]["labels"]["team"] == "ml"
    assert claim["spec"]["taints"] == [{"key": "sku", "value": "gpu", "effect": "NoSchedule"}]
    nominated = ("Nominated", f"Pod should schedule on: nodeclaim/{claim['metadata']['name']}")
    await sim.until(lambda: nominated in pod_events(sim, "trainer"), 5.0, "the Event")
    fields = "involvedObject.kind=NodePool,reason=NodeClaimsCreated"
    (event,) = await sim.until(lambda: sim.store.list("events", fields=fields), 5.0, "the Event with the price")
    name = claim["metadata"]["name"]
    assert event["message"] == f"created NodeClaim {name} for 1 pod: 1 of {T4}; 0.658 USD an hour"


@simulated()
async def test_all_nodeclaims_of_a_decision_are_written_before_the_first_machine_is_requested(sim: Sim) -> None:
    """The requests about the first machines do not delay the NodeClaims of the others."""
    await with_node_pool(sim)
    # The node class gets its finalizer with the first NodeClaim, which reconciles all of them.
    await pending(sim, pod("first"))
    await sim.until(lambda: sim.cloud.counts["PUT"] == 1, 30.0, "the first agent pool")
    await pending(sim, *(pod(f"trainer-{number}") for number in range(8)))
    await sim.until(lambda: sim.cloud.counts["PUT"] == 9, 30.0, "eight agent pools")
    calls = [(call.verb, call.target.kind) for call in sim.audit_log.writes() if call.who in sim.controllers]
    of_machines = [call for call in calls if call in (("POST", "nodeclaims"), ("PUT", "pools"))]
    assert of_machines[2:] == [("POST", "nodeclaims")] * 8 + [("PUT", "pools")] * 8


@simulated()
async def test_an_intruder_stays_pending(sim: Sim) -> None:
    """No machine is bought for a pod that does not tolerate the taint; the Event names the taint."""
    await with_node_pool(sim)
    await pending(sim, pod("intruder", tolerates=False))
    events = await sim.until(lambda: pod_events(sim, "intruder"), 5.0, "the Event")
    assert events == [
        (
            "FailedScheduling",
            "Failed to schedule pod, NodePool gpu: did not tolerate taint (taint=sku=gpu:NoSchedule)",
        )
    ]
    assert not claims_of(sim)


@simulated()
async def test_fifty_pods_get_fifty_small_machines_once(sim: Sim) -> None:
    """One NodeClaim for each, and none more while the pods stay pending."""
    await with_node_pool(sim)
    await pending(sim, *(pod(f"p{number:02}") for number in range(50)))
    await sim.until(lambda: len(claims_of(sim)) == 50, 20.0, "the NodeClaims")
    await sim.until(lambda: sim.now > 60.0, 120.0, "some more passes")
    assert sizes(sim) == [T4] * 50


@simulated()
async def test_a_pod_that_follows_waits_for_the_same_machine(sim: Sim) -> None:
    """A NodeClaim on its way counts as capacity: a small pod that fits beside the first one buys nothing."""
    await with_node_pool(sim)
    await pending(sim, pod("first"))
    await sim.until(lambda: claims_of(sim), 5.0, "a NodeClaim")
    await pending(sim, pod("second", gpus=0))
    await sim.until(lambda: pod_events(sim, "second"), 15.0, "the Event")
    (claim,) = claims_of(sim)
    name = claim["metadata"]["name"]
    assert pod_events(sim, "second") == [("Nominated", f"Pod should schedule on: nodeclaim/{name}")]


@simulated()
async def test_limits_of_the_nodepool(sim: Sim) -> None:
    """Machines are bought up to the limit; the Event of the other pod names it."""
    await with_node_pool(sim, limits={"nvidia.com/gpu": "1"})
    await pending(sim, pod("a"), pod("b"))
    await sim.until(lambda: claims_of(sim), 5.0, "a NodeClaim")
    await sim.until(lambda: len([*pod_events(sim, "a"), *pod_events(sim, "b")]) == 2, 5.0, "both Events")
    events = [*pod_events(sim, "a"), *pod_events(sim, "b")]
    assert len(claims_of(sim)) == 1
    (failed,) = [message for reason, message in events if reason == "FailedScheduling"]
    assert "limits of the NodePool do not allow another machine: nvidia.com/gpu" in failed


@simulated()
async def test_without_a_nodepool_no_pod_is_read(sim: Sim) -> None:
    """Nothing of pods is listed or watched before the first NodePool exists, and after the last one."""
    await sim.start_controller()
    await pending(sim, pod("p"))
    await sim.until(lambda: sim.now > 30.0, 60.0, "half a minute")
    kinds = ("pods", "daemonsets", "poddisruptionbudgets")
    read = [call for call in sim.audit_log.calls() if call.target.kind in kinds]
    assert not [call for call in read if call.who in sim.controllers]
    await sim.apply(node_class())
    await sim.apply(node_pool())
    await sim.until(lambda: claims_of(sim), 15.0, "a NodeClaim")


@pytest.mark.parametrize("group", ["karpenter.azure.com", "kaito.sh"])
def test_nodepools_of_others(group: str) -> None:
    """A NodePool with the class of another controller is not used."""

    @simulated()
    async def story(sim: Sim) -> None:
        body = node_pool()
        body["spec"]["template"]["spec"]["nodeClassRef"]["group"] = group
        await sim.apply(body)
        await sim.start_controller()
        await pending(sim, pod("p"))
        await sim.until(lambda: sim.now > 30.0, 60.0, "half a minute")
        assert not claims_of(sim)
        assert not watches_pods(sim)

    story()


@simulated()
async def test_a_pod_that_becomes_unschedulable_later(sim: Sim) -> None:
    """A pod counts from the moment kube-scheduler has tried to place it, which a scheduling gate delays."""
    await with_node_pool(sim)
    await sim.apply(pod("p", schedulingGates=[{"name": "example.com/quota"}]))
    await sim.until(lambda: sim.now > 20.0, 60.0, "some time")
    assert not claims_of(sim)
    sim.store.patch("pods", "p", {"spec": {"schedulingGates": None}}, "default")
    await sim.until(lambda: claims_of(sim), 5.0, "a NodeClaim")


@simulated()
async def test_pods_run_on_the_machines_bought_for_them(sim: Sim) -> None:
    """Each pod runs on a Node of the model that it selects; the Nodes bear the labels from their first moment."""
    await with_node_pool(sim)
    selects = {"karpenter.azure.com/sku-gpu-name": "A100", "nvidia.com/gpu.product": "NVIDIA-A100-80GB-PCIe"}
    await pending(sim, pod("any"), pod("a100", nodeSelector=selects))
    await sim.until(lambda: len(claims_of(sim)) == 2, 5.0, "two NodeClaims")
    assert sorted(sizes(sim)) == ["Standard_NC24ads_A100_v4", T4]

    def running() -> list[str]:
        found = (sim.store.get("pods", name, "default") or {} for name in ("any", "a100"))
        return [one["spec"]["nodeName"] for one in found if (one.get("status") or {}).get("phase") == "Running"]

    nodes = await sim.until(lambda: found if len(found := running()) == 2 else [], 1500.0, "both pods run")
    assert len(set(nodes)) == 2
    assert len(claims_of(sim)) == 2
    node = sim.store.get("nodes", nodes[1])
    assert node is not None
    assert selects.items() <= node["metadata"]["labels"].items()
    assert node["metadata"]["labels"]["karpenter.sh/nodepool"] == "gpu"


@simulated()
async def test_other_machines_replace_a_nodeclaim_without_capacity(sim: Sim) -> None:
    """The cheapest size has no quota: its NodeClaim is deleted, and the next cheapest machine is bought, once."""
    sim.cloud.faults.append(faults.quota_preflight(size=T4))
    others = len(sim.cloud.pools)
    await with_node_pool(sim)
    await pending(sim, pod("p"))
    first = await sim.until(lambda: claims_of(sim), 5.0, "a NodeClaim")
    await sim.until(lambda: sizes(sim) and sizes(sim) != [T4], 300.0, "another machine")
    await sim.until(lambda: sim.now > 600.0, 900.0, "some more passes")
    (claim,) = claims_of(sim)
    assert claim["metadata"]["uid"] != first[0]["metadata"]["uid"]
    assert sim.condition(claim["metadata"]["name"], "Ready") == "True"
    assert len(sim.cloud.pools) == others + 1
    named = {event["reason"] for event in sim.store.list("events")}
    assert "InsufficientCapacityError" in named


async def until_claims(sim: Sim, count: int) -> None:
    await sim.until(lambda: len(claims_of(sim)) == count, 20.0, f"{count} NodeClaims")


@simulated()
async def test_a_nodeclaim_without_capacity_is_kept_for_its_pod(sim: Sim) -> None:
    """Another pod gets a machine meanwhile: the NodeClaim that no other machine replaces is not deleted for it."""
    large = "Standard_NC24ads_A100_v4"
    sim.cloud.faults.append(faults.quota_preflight(size=large))
    await with_node_pool(sim)
    selects = {"node.kubernetes.io/instance-type": large}
    await pending(sim, pod("a100", nodeSelector=selects))
    (first,) = await sim.until(lambda: claims_of(sim), 5.0, "a NodeClaim")
    name = first["metadata"]["name"]
    await sim.until(lambda: sim.condition(name, "Launched") == "False", 60.0, "its offerings have failed")
    for number in range(3):
        await pending(sim, pod(f"any{number}"))
        await until_claims(sim, number + 2)
        await asyncio.sleep(100.0)  # some more passes
    assert first["metadata"]["uid"] in {claim["metadata"]["uid"] for claim in claims_of(sim)}
