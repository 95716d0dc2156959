"""Which Node belongs to a claim, and what a claim writes on it: neither depends on labels that others can choose."""

import asyncio
from typing import Any

import pytest

from provisioner.api import labels
from tests.world.claims import events, node_is_ready, puts, ready, removed
from tests.world.harness import Sim, node_claim, simulated

OWNER = {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "name": "gpu1", "blockOwnerDeletion": True}


def forge(sim: Sim, node: str, pool: str, uid: str) -> None:
    """Label a Node as that of another claim, as the holder of its kubelet's credential can."""
    stolen = {"agentpool": pool, "kubernetes.azure.com/agentpool": pool, labels.CLAIM_UID: uid}
    sim.store.patch("nodes", node, {"metadata": {"labels": stolen}})


@pytest.mark.parametrize("when", ["before its claim exists", "while its pool is created"])
@simulated()
async def test_a_node_with_the_labels_of_another_claim_is_not_taken_for_its_machine(sim: Sim, when: str) -> None:
    """Its name and providerID are those of another scale set, so the claim waits for a Node of its own."""
    await sim.start_controller(elect=False)
    await sim.apply(node_claim("gpu1"))
    await ready(sim, "gpu1")
    taken = sim.nodes_of("gpu1")[0]["metadata"]["name"]
    if "before" in when:
        forge(sim, taken, "victim", "unknown")
    uid = (await sim.apply(node_claim("victim")))["metadata"]["uid"]
    await sim.until(lambda: puts(sim, "victim"), 10, "the victim's PUT is sent")
    forge(sim, taken, "victim", uid)
    named = set()
    for _ in range(90):
        await asyncio.sleep(10)
        named.add(((sim.claim("victim") or {}).get("status") or {}).get("nodeName"))
    assert taken not in named
    assert sim.condition("victim", "Ready") == "True"


CLOUD = {
    "agentpool": "mine",
    "kubernetes.azure.com/mode": "system",
    "kubernetes.io/hostname": "mine",
    "node.kubernetes.io/instance-type": "mine",
    "topology.kubernetes.io/zone": "mine",
    "beta.kubernetes.io/os": "mine",
}


@simulated()
async def test_labels_of_a_claim_change_nothing_on_its_node(sim: Sim) -> None:
    """Labels and annotations that are added after the PUT: reserved ones are not copied, others only if absent."""
    await sim.start_controller(elect=False)
    await sim.apply(node_claim("gpu1", labels={"team": "a"}))
    await sim.until(lambda: puts(sim, "gpu1"), 10, "the PUT is sent")
    notes = {"node.alpha.kubernetes.io/ttl": "9", "example.com/note": "x"}
    changed = {"labels": {**CLOUD, "team": "b", "late": "c"}, "annotations": notes}
    sim.store.patch("nodeclaims.karpenter.sh", "gpu1", {"metadata": changed})
    before: dict[str, Any] = {}

    def note(event: str, kind: str, obj: dict[str, Any], _before: Any) -> None:
        if kind == "nodes" and "gpu1" in obj["metadata"]["name"] and obj["spec"].get("providerID"):
            before.setdefault("labels", obj["metadata"]["labels"])

    sim.store.subscribe(note)
    await node_is_ready(sim, "gpu1")
    await ready(sim, "gpu1")
    found = sim.nodes_of("gpu1")[0]["metadata"]
    assert {key: found["labels"].get(key) for key in CLOUD} == {key: before["labels"].get(key) for key in CLOUD}
    assert (found["labels"]["team"], found["labels"]["late"]) == ("a", "c")
    assert found["annotations"]["example.com/note"] == "x"
    assert found["annotations"].get("node.alpha.kubernetes.io/ttl") != "9"


@pytest.mark.parametrize("key", [labels.REGISTERED, labels.INITIALIZED])
@simulated()
async def test_a_claim_labelled_as_registered_is_registered_all_the_same(sim: Sim, key: str) -> None:
    """Its Node gets our finalizer and its owner, and is initialized after its GPUs are allocatable."""
    await sim.start_controller(elect=False)
    claim = await sim.apply(node_claim("gpu1", labels={key: "true"}))
    await ready(sim, "gpu1")
    [node] = sim.nodes_of("gpu1")
    assert node["metadata"]["ownerReferences"] == [{**OWNER, "uid": claim["metadata"]["uid"]}]
    assert labels.FINALIZER in node["metadata"]["finalizers"]
    assert key not in sim.cloud.pools["gpu1"].properties["nodeLabels"]
    assert [event["reason"] for event in events(sim, "gpu1")].count("Registered") == 1
    await removed(sim, "gpu1")


@simulated()
async def test_a_pool_labelled_as_registered_does_not_register_its_node(sim: Sim) -> None:
    """A pool of an earlier version has the label of its claim; the Node has neither finalizer nor owner yet."""
    await sim.start_controller(elect=False)
    claim = await sim.apply(node_claim("gpu1"))
    await sim.until(lambda: puts(sim, "gpu1"), 10, "the PUT is sent")
    sim.cloud.pools["gpu1"].properties["nodeLabels"][labels.REGISTERED] = "true"
    await ready(sim, "gpu1")
    [node] = sim.nodes_of("gpu1")
    assert node["metadata"]["ownerReferences"] == [{**OWNER, "uid": claim["metadata"]["uid"]}]
    assert labels.FINALIZER in node["metadata"]["finalizers"]
