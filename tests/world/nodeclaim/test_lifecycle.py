"""Launch, registration and initialization: from a claim to a Ready GPU node."""

import asyncio
from typing import Any

import pytest

from controllers.model.policy import Policy
from provisioner.api import labels
from provisioner.simulator.azure.settings import AzureSettings
from provisioner.simulator.nodes.machine import NodeSettings
from tests.world.claims import (
    arm_calls,
    events,
    first,
    message,
    node_is_ready,
    puts,
    ready,
    removed,
    versions,
    wait_for_condition,
    word,
)
from tests.world.harness import SIZE, node_claim, simulated

FOUR_GPUS = "Standard_NC96ads_A100_v4"
UNLISTED = "Standard_NV12ads_A10_v5"
SKU_TAINT = {"key": "sku", "value": "gpu", "effect": "NoSchedule"}


def is_ready(obj):
    return word(obj, "Ready")[0] == "True"


def shows_gpus(node):
    return "nvidia.com/gpu" in (node.get("status") or {}).get("allocatable", {})


@simulated()
async def test_a_label_given_while_the_machine_comes_up_reaches_the_node(sim) -> None:
    """Labels and annotations added to the claim after the PUT are on its Node once it is registered."""
    await sim.start_controller()
    await sim.apply(node_claim("gpu1"))
    await wait_for_condition(sim, "gpu1", "Launched", "Unknown", "Creating", within_seconds=5)
    late = {"name": "gpu1", "labels": {"example.com/late": "yes"}, "annotations": {"example.com/why": "requested"}}
    await sim.apply({**node_claim("gpu1"), "metadata": late})
    await ready(sim, "gpu1")
    [node] = sim.nodes_of("gpu1")
    assert node["metadata"]["labels"]["example.com/late"] == "yes"
    assert node["metadata"]["annotations"]["example.com/why"] == "requested"


@simulated()
async def test_a_new_claim_costs_two_requests_before_its_put(sim) -> None:
    """The finalizer's PATCH shows the claim as it is; only who did not just write to it reads it before the PUT."""

    def requested(who):
        calls = sim.audit_log.calls(who=who, name="gpu1")
        ours = [call for call in calls if call.target.kind in ("nodeclaims", "pools")]
        return [call.verb for call in ours if call.at <= (puts(sim, "gpu1") or [sim.now])[0]]

    await sim.start_controller()
    await sim.apply(node_claim("gpu1"))
    await sim.until(lambda: puts(sim, "gpu1"), 5, "the PUT is sent")
    assert requested("ctl0") == ["PATCH", "PUT"]
    await removed(sim, "gpu1")
    await sim.apply({**node_claim("gpu2"), "metadata": {"name": "gpu2", "finalizers": [labels.FINALIZER]}})
    await sim.until(lambda: puts(sim, "gpu2"), 5, "the other PUT is sent")
    theirs = sim.audit_log.calls(who="ctl0", name="gpu2")
    assert [call.verb for call in theirs if call.at <= puts(sim, "gpu2")[0]] == ["GET", "PUT"]


@simulated()
async def test_a_claim_cannot_give_its_node_privileges(sim) -> None:
    """Labels of a claim that would grant a Node permissions, or are reserved, reach neither pool nor Node."""
    greedy = {
        "node-role.kubernetes.io/control-plane": "",
        "team.node-restriction.kubernetes.io/trusted": "yes",
        "gpu-provisioner.sh/nodeclaim-uid": "another",
        "example.com/mine": "kept",
    }
    await sim.start_controller()
    claim = await sim.apply(node_claim("gpu1", labels=greedy))
    await ready(sim, "gpu1")
    [node] = sim.nodes_of("gpu1")
    for found in (sim.cloud.pools["gpu1"].labels, node["metadata"]["labels"]):
        assert {key: found[key] for key in greedy if key in found} == {
            "gpu-provisioner.sh/nodeclaim-uid": claim["metadata"]["uid"],
            "example.com/mine": "kept",
        }


@simulated()
async def test_kubectl_shows_what_the_machine_is(sim) -> None:
    """Once registered, a claim has type, zone and capacity type, and the Node's providerID and image."""
    await sim.start_controller()
    zonal = node_claim("gpu1")
    zonal["spec"]["requirements"].append(
        {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["westeurope-2"]}
    )
    await sim.apply(zonal)
    await ready(sim, "gpu1")
    claim, [node] = sim.claim("gpu1"), sim.nodes_of("gpu1")
    shown = {
        "node.kubernetes.io/instance-type": SIZE,
        "topology.kubernetes.io/zone": "westeurope-2",
        "karpenter.sh/capacity-type": "on-demand",
    }
    assert shown.items() <= claim["metadata"]["labels"].items()
    assert claim["status"]["providerID"] == node["spec"]["providerID"]
    assert claim["status"]["imageID"] == node["metadata"]["labels"]["kubernetes.azure.com/node-image-version"]


@simulated()
async def test_names_that_aks_does_not_allow(sim) -> None:
    """Claims with long names that share their first twelve letters get separate pools with short names."""
    names = ["workspace-phi-4-mini.instruct", "workspace-phi-4-mini.instruct-2"]
    await sim.start_controller()
    uids = [(await sim.apply(node_claim(name)))["metadata"]["uid"] for name in names]
    for name, uid in zip(names, uids, strict=True):
        await ready(sim, name)
        [pool] = sim.pools_of(uid)
        assert (len(pool.name), pool.name[0]) == (12, "c")
        assert sim.claim(name)["status"]["nodeName"].startswith(f"aks-{pool.name}-")
    for name in names:
        await removed(sim, name)
    await sim.settled()


# Whose claims


@pytest.mark.parametrize("own", [{}, {"kaito.sh/workspace": "w"}, {"kaito.sh/ragengine": "r"}])
@simulated()
async def test_either_sign_makes_a_claim_ours(sim, own) -> None:
    """KAITO's node class without a label, or either of KAITO's labels on any node class, is served."""
    other: dict[str, Any] = {
        "nodeClassRef": {"group": "karpenter.azure.com", "kind": "AKSNodeClass", "name": "default"}
    }
    claim = node_claim("gpu1", **(other if own else {}))
    claim["metadata"]["labels"] = own
    await sim.start_controller()
    await sim.apply(claim)
    await ready(sim, "gpu1")
    await removed(sim, "gpu1")
    await sim.settled()


# The proof is the Node


@simulated(azure=AzureSettings(create_seconds=(600.0, 600.0), node_share=(0.2, 0.2)))
async def test_ready_as_soon_as_the_node_proves_it(sim) -> None:
    """A claim is Ready 0.3 s after its GPUs are allocatable, while ARM still says Creating, and nothing follows."""
    await sim.start_controller()
    seen = versions(sim, "gpu1")
    nodes = versions(sim, "aks-gpu1-47249735-vmss000000", "nodes")
    await sim.apply(node_claim("gpu1"))
    await ready(sim, "gpu1")
    assert sim.cloud.pools["gpu1"].state == "Creating"
    gpus = first(nodes, shows_gpus)
    assert first(seen, is_ready).at - gpus.at <= 0.3
    known = len(seen)
    await sim.until(lambda: sim.cloud.pools["gpu1"].state == "Succeeded", 900, "ARM agrees")
    await asyncio.sleep(600)
    assert len(seen) == known


@simulated(azure=AzureSettings(node_share=(1.4, 1.4)))
async def test_a_pool_may_run_before_its_node_is_there(sim) -> None:
    """A pool that is Succeeded before its Node exists is Launched, and Registered states that the Node is missing."""
    await sim.start_controller()
    await sim.apply(node_claim("gpu1"))
    waiting = await wait_for_condition(sim, "gpu1", "Registered", "Unknown", "NodeNotFound")
    assert sim.cloud.pools["gpu1"].state == "Succeeded"
    assert word(sim.claim("gpu1"), "Launched") == ("True", "Launched")
    assert word(sim.claim("gpu1"), "Initialized")[0] == "Unknown"
    running = "Node not registered with cluster; agent pool gpu1 has been running since 12:0"
    assert waiting["message"].startswith(running)
    assert not sim.nodes_of("gpu1")
    await ready(sim, "gpu1")


# GPUs


@pytest.mark.parametrize("broken", [False, True])
@simulated()
async def test_some_of_the_gpus_are_not_enough(sim, broken) -> None:
    """With three of four GPUs, the fourth missing or unhealthy, the claim is not initialized."""
    sim.nodes.plugin_delay_seconds = 100_000.0
    await sim.start_controller()
    await sim.apply(node_claim("gpu1", size=FOUR_GPUS))
    node = await node_is_ready(sim, "gpu1")
    sim.nodes.set_gpus(node, 4 if broken else 3, unhealthy=int(broken))
    reported = "nvidia.com/gpu: 3 of 4 allocatable; "
    await sim.until(lambda: message(sim, "gpu1", "Initialized").startswith(reported), 180, "it says 3 of 4")
    await asyncio.sleep(600)
    assert sim.condition("gpu1", "Ready") == "Unknown"
    sim.nodes.set_gpus(node, 4)
    await ready(sim, "gpu1", within_seconds=1)


@simulated()
async def test_a_size_without_data_has_no_gate(sim) -> None:
    """For a size with an unknown number of GPUs a Ready Node is sufficient, and an Event reports it."""
    sim.nodes.plugin_delay_seconds = 600.0
    await sim.start_controller()
    await sim.apply(node_claim("gpu1", size=UNLISTED))
    await node_is_ready(sim, "gpu1")
    await ready(sim, "gpu1", within_seconds=5)
    assert "nvidia.com/gpu" not in sim.nodes_of("gpu1")[0]["status"]["allocatable"]
    await asyncio.sleep(1)
    [event] = events(sim, "gpu1", "Initialized")
    assert "how many GPUs this size has is not known" in event["message"]


@pytest.mark.parametrize("by", ["policy", "annotation"])
@simulated()
async def test_gpus_may_be_reported_only(sim, by) -> None:
    """With gpu-readiness=report, globally or for one claim, GPUs are not waited for; an Event states their number."""
    sim.nodes.plugin_delay_seconds = 600.0
    claim = node_claim("gpu1")
    if by == "annotation":
        claim["metadata"]["annotations"] = {"gpu-provisioner.sh/gpu-readiness": "report"}
    await sim.start_controller(policy=Policy(gpu_readiness="report" if by == "policy" else "require"))
    await sim.apply(claim)
    await node_is_ready(sim, "gpu1")
    await ready(sim, "gpu1", within_seconds=5)
    await asyncio.sleep(1)
    [event] = events(sim, "gpu1", "Initialized")
    assert event["message"] == "the Node is Ready with 0 of 1 nvidia.com/gpu allocatable (not waited for)"


@simulated()
async def test_the_annotation_opens_a_gate_that_has_been_closed(sim) -> None:
    """The remedy in the condition's message works: the annotated claim is Ready at once."""
    sim.nodes.plugin_delay_seconds = 100_000.0
    await sim.start_controller()
    await sim.apply(node_claim("gpu1"))
    await wait_for_condition(sim, "gpu1", "Initialized", "Unknown", "ResourceNotRegistered")
    claim = node_claim("gpu1")
    claim["metadata"]["annotations"] = {"gpu-provisioner.sh/gpu-readiness": "report"}
    await sim.apply(claim)
    await ready(sim, "gpu1", within_seconds=1)


# Taints


@simulated()
async def test_startup_taints_are_waited_for_and_never_put_back(sim) -> None:
    """A startup taint is set at registration, delays initialization until its owner removes it, and is not restored."""
    taint = {"key": "gkm.io/cache-not-ready", "effect": "NoSchedule"}
    await sim.start_controller()
    await sim.apply(node_claim("gpu1", taints=[SKU_TAINT], startupTaints=[taint]))
    reported = await wait_for_condition(sim, "gpu1", "Initialized", "Unknown", "StartupTaintsExist")
    assert "gkm.io/cache-not-ready" in reported["message"]
    assert sim.cloud.pools["gpu1"].taints == ("sku=gpu:NoSchedule",)
    await asyncio.sleep(600)
    [node] = sim.nodes_of("gpu1")
    kept = [t for t in node["spec"]["taints"] if t["key"] != taint["key"]]
    assert (len(kept), len(node["spec"]["taints"])) == (1, 2)
    path = f"/api/v1/nodes/{node['metadata']['name']}"
    merge = "application/merge-patch+json"
    await sim.request("PATCH", path, {"spec": {"taints": kept}}, content_type=merge)
    await ready(sim, "gpu1", within_seconds=1)
    await asyncio.sleep(600)
    assert sim.nodes_of("gpu1")[0]["spec"]["taints"] == [SKU_TAINT]


@simulated(nodes=NodeSettings(initialize_seconds=(300.0, 300.0)))
async def test_a_taint_of_booting_is_waited_for(sim) -> None:
    """A Ready Node that the cloud node manager has not initialized is not usable, and the claim names the taint."""
    await sim.start_controller()
    await sim.apply(node_claim("gpu1"))
    reported = await wait_for_condition(sim, "gpu1", "Initialized", "Unknown", "KnownEphemeralTaintsExist")
    assert "node.cloudprovider.kubernetes.io/uninitialized" in reported["message"]
    await ready(sim, "gpu1")
    claim = sim.claim("gpu1")
    assert claim["status"]["providerID"] == sim.nodes_of("gpu1")[0]["spec"]["providerID"]


@simulated()
async def test_a_readiness_taint_is_waited_for(sim) -> None:
    """A taint under readiness.k8s.io delays initialization as long as it is present."""
    path = "/api/v1/nodes/aks-gpu1-47249735-vmss000000"
    merge = "application/merge-patch+json"
    sim.nodes.plugin_delay_seconds = 300.0
    await sim.start_controller()
    await sim.apply(node_claim("gpu1", taints=[SKU_TAINT]))
    await node_is_ready(sim, "gpu1")
    taint = {"key": "readiness.k8s.io/network", "effect": "NoSchedule"}
    await sim.request("PATCH", path, {"spec": {"taints": [SKU_TAINT, taint]}}, content_type=merge)
    await wait_for_condition(sim, "gpu1", "Initialized", "Unknown", "KnownEphemeralTaintsExist", within_seconds=180)
    await asyncio.sleep(600)
    assert sim.condition("gpu1", "Ready") == "Unknown"
    await sim.request("PATCH", path, {"spec": {"taints": [SKU_TAINT]}}, content_type=merge)
    await ready(sim, "gpu1", within_seconds=1)


# Losing the Node, and getting it back


@simulated()
async def test_a_stopped_cluster_loses_its_nodes_and_no_pool(sim) -> None:
    """Nodes of a stopped cluster are released and their pools kept; after a start the claims are Ready again."""
    await sim.start_controller()
    claim = await sim.apply(node_claim("gpu1"))
    await ready(sim, "gpu1")
    pool = sim.cloud.pools["gpu1"]
    await asyncio.sleep(300)
    sim.cloud.stop_cluster()
    await wait_for_condition(sim, "gpu1", "Initialized", "False", "NodeLost", within_seconds=300)
    await sim.until(lambda: not sim.nodes_of("gpu1"), 60, "the Node is let go")
    await asyncio.sleep(1800)
    assert sim.condition("gpu1", "Ready") == "False"
    sim.cloud.start_cluster()
    await ready(sim, "gpu1", within_seconds=1200)
    assert sim.claim("gpu1")["metadata"]["uid"] == claim["metadata"]["uid"]
    assert sim.cloud.pools["gpu1"].incarnation == pool.incarnation
    assert (len(puts(sim, "gpu1")), arm_calls(sim, "gpu1").count("DELETE")) == (1, 0)
    [node] = sim.nodes_of("gpu1")
    assert sim.claim("gpu1")["status"]["nodeName"] == node["metadata"]["name"]
    await removed(sim, "gpu1")
    await sim.settled()
