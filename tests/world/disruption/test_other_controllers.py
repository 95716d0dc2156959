"""NodePools, NodeClaims and Nodes of Karpenter or node auto-provisioning in the same cluster are left alone (I4)."""

import pytest

from provisioner.simulator.audit_log import Call
from tests.world.claims import condition
from tests.world.demand import node_class, node_pool
from tests.world.harness import Json, Sim, simulate
from tests.world.transcript import refuse

from .common import passes

REFERENCE = {"group": "karpenter.azure.com", "kind": "AKSNodeClass", "name": "default"}
NODE, CLAIM = "aks-theirs-x7k2p", "theirs-x7k2p"
TAINT = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}
UP = ("Launched", "Registered", "Initialized", "Ready")


async def theirs(sim: Sim, node_labels: Json, begun: tuple[str, ...]) -> None:
    """A NodePool, NodeClaim and Node of Karpenter. `begun`: further conditions of the NodeClaim."""
    pool = node_pool("theirs")
    pool["spec"]["template"]["spec"]["nodeClassRef"] = REFERENCE
    made = await sim.apply(pool)
    owner = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": "theirs", "uid": made["metadata"]["uid"]}
    labels = {"karpenter.sh/nodepool": "theirs", "karpenter.sh/registered": "true", "karpenter.sh/initialized": "true"}
    provider_id = "azure:///subscriptions/s/x"
    node = {
        "metadata": {"name": NODE, "labels": {**labels, **node_labels}},
        "spec": {"providerID": provider_id, "taints": [TAINT] if "DisruptionReason" in begun else []},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }
    sim.store.create("nodes", node)
    claim = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": CLAIM, "labels": labels, "ownerReferences": [owner]},
        "spec": {"nodeClassRef": REFERENCE, "requirements": [], "expireAfter": "10s"},
    }
    sim.store.create("nodeclaims.karpenter.sh", claim)
    conditions = [
        {
            "type": kind,
            "status": "True",
            "reason": "Drifted",
            "message": "",
            "lastTransitionTime": "2026-03-01T12:00:00Z",
        }
        for kind in (*UP, *begun)
    ]
    status = {"nodeName": NODE, "providerID": provider_id, "conditions": conditions}
    sim.store.patch("nodeclaims.karpenter.sh", CLAIM, {"status": status}, subresource="status")


def is_write(call: Call) -> bool:
    return call.verb in {"PATCH", "PUT", "DELETE"} and call.target.name in {NODE, CLAIM}


@pytest.mark.parametrize("protected", [False, True], ids=["", "protection policy"])
@pytest.mark.parametrize("begun", [("DisruptionReason",), ("Drifted", "Consolidatable")], ids=["command", "drifted"])
@pytest.mark.parametrize("node_labels", [{}, {"kubernetes.azure.com/agentpool": "theirs"}], ids=["plain", "agentpool"])
def test_machines_of_another_controller(node_labels: Json, begun: tuple[str, ...], *, protected: bool) -> None:
    """This controller has a NodePool of its own without machines; nothing of theirs is written, read or decided."""

    async def story(sim: Sim) -> None:
        await sim.apply(node_class())
        await sim.apply(node_pool())
        await sim.start_controller()
        await theirs(sim, node_labels, begun)
        written: list[Call] = []

        def is_refused(call: Call) -> bool:
            written.extend([call] if is_write(call) else [])
            return protected and is_write(call)

        refuse(sim, is_refused, 403, "Forbidden")
        await passes(sim, 60.0)
        lists = len(sim.audit_log.calls(verb="LIST", kind="nodeclaims"))
        await passes(sim, 600.0)
        assert not written
        assert len(sim.audit_log.calls(verb="LIST", kind="nodeclaims")) == lists
        taints = [one["key"] for one in sim.store.get("nodes", NODE)["spec"].get("taints", ())]
        assert ("karpenter.sh/disrupted" in taints) == ("DisruptionReason" in begun)
        assert all(condition(sim.store.get("nodeclaims.karpenter.sh", CLAIM), kind) for kind in begun)
        assert not sim.store.list("events", fields=f"involvedObject.kind=NodeClaim,involvedObject.name={CLAIM}")

    simulate(story)
