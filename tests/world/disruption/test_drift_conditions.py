"""The conditions Drifted and Consolidatable of NodeClaims of NodePools, and the NodeClaims that never have them."""

from collections.abc import Callable
from typing import Any

import pytest

from provisioner.simulator.audit_log import Call
from provisioner.simulator.azure import errors
from provisioner.simulator.azure.errors import Answer
from provisioner.simulator.azure.faults import Fault
from tests.world.claims import condition
from tests.world.demand import T4, claims_of, node_class, node_pool, pending, pod
from tests.world.harness import Json, Sim, node_claim, simulated
from tests.world.transcript import refuse

from .common import passes

pytestmark = pytest.mark.matrix(quick=0)

CLAIMS, POOLS = "nodeclaims.karpenter.sh", "nodepools.karpenter.sh"
CLASSES = "agentpoolnodeclasses.gpu-provisioner.sh"
SIX_HOURS = 6 * 3600.0
IMAGE = "AKSUbuntu-2204gen2containerd"
KEPT = {"consolidateAfter": "Never", "budgets": [{"nodes": "0"}]}


async def machine(sim: Sim, **spec: Any) -> None:
    """A Ready machine of a static NodePool that is not replaced."""
    await sim.apply(node_class())
    await sim.apply(node_pool(**{"replicas": 1, "requirements": SIZES, "disruption": KEPT, **spec}))
    await sim.start_controller()
    await sim.until(lambda: ready(sim), 1800.0, "the machine")


SIZES = [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [T4]}]


def ready(sim: Sim) -> bool:
    return any(is_ready(one) for one in claims_of(sim))


def found(sim: Sim, kind: str = "Drifted") -> Json:
    return next((condition(one, kind) for one in claims_of(sim)), {})


def drifted(sim: Sim) -> str:
    """The reason of the condition; "" without it."""
    return str(found(sim).get("reason", ""))


def patch_template(sim: Sim, change: Json) -> None:
    sim.store.patch(POOLS, "gpu", {"spec": {"template": change}})


def require(sim: Sim, *requirements: Json) -> None:
    patch_template(sim, {"spec": {"requirements": [*requirements]}})


def label(sim: Sim, value: str) -> None:
    patch_template(sim, {"metadata": {"labels": {"team": value}}})


def image_family(sim: Sim, name: str) -> None:
    sim.store.patch(CLASSES, "default", {"spec": {"imageFamily": name}})


Change = Callable[[Sim], None]
COUNT = "karpenter.azure.com/sku-gpu-count"
CAUSES: dict[str, tuple[Change, Change]] = {
    "NodePoolDrifted": (lambda sim: label(sim, "other"), lambda sim: label(sim, "ml")),
    "RequirementsDrifted": (
        lambda sim: require(sim, *SIZES, {"key": COUNT, "operator": "Gt", "values": ["1"]}),
        lambda sim: require(sim, *SIZES),
    ),
    "NodeClassDrift": (lambda sim: image_family(sim, "AzureLinux"), lambda sim: image_family(sim, "Ubuntu")),
}


@pytest.mark.parametrize("reason", CAUSES)
@simulated()
async def test_a_change_drifts_the_machine_until_it_is_reverted(sim: Sim, reason: str) -> None:
    """Within seconds; the message begins with the reason, and an Event states it."""
    await machine(sim)
    await passes(sim, 60.0)
    assert not drifted(sim)
    change, revert = CAUSES[reason]
    change(sim)
    await sim.until(lambda: drifted(sim), 10.0, "the machine has drifted")
    assert (drifted(sim), found(sim)["message"].split()[0], found(sim)["status"]) == (reason, reason, "True")
    about = f"involvedObject.kind=NodeClaim,reason={reason}"
    events = await sim.until(lambda: sim.store.list("events", fields=about), 10.0, "an Event")
    assert [one["message"] for one in events] == [found(sim)["message"]]
    revert(sim)
    await sim.until(lambda: not drifted(sim), 10.0, "the condition is removed")
    assert ready(sim)


@simulated()
async def test_a_new_image(sim: Sim) -> None:
    """It is read once in six hours, from one agent pool; a machine drifts once another one was created with it."""
    await machine(sim)
    await passes(sim, 120.0)
    assert sim.cloud.counts["UPGRADE_PROFILE"] == 1
    sim.cloud.release_node_image("202608.17.0")
    await passes(sim, SIX_HOURS + 120.0)
    assert not drifted(sim)
    await another(sim)
    newest, old = f"{IMAGE}-202608.17.0", f"{IMAGE}-202608.10.0"
    assert found(sim)["message"] == f"ImageDrift ({old}, the newest is {newest})"
    await passes(sim, 600.0)
    assert [bool(condition(one, "Drifted")) for one in claims_of(sim)] == [True, False]
    assert sim.cloud.counts["UPGRADE_PROFILE"] == 2


async def another(sim: Sim) -> None:
    """One more replica, with the newest image; the first one has drifted then."""
    sim.store.patch(POOLS, "gpu", {"spec": {"replicas": 2}})
    await sim.until(lambda: len(claims_of(sim)) == 2 and all(map(is_ready, claims_of(sim))), 1800.0, "another machine")
    await sim.until(lambda: drifted(sim), 600.0, "the machine has drifted")


def is_ready(claim: Json | None) -> bool:
    return bool(condition(claim, "Ready").get("status") == "True")


@simulated()
async def test_an_upgraded_control_plane(sim: Sim) -> None:
    """The agent pool is older than the control plane until it is upgraded as well."""
    await machine(sim)
    sim.cloud.upgrade_control_plane("1.34.1")
    await sim.until(lambda: drifted(sim), 180.0, "the machine has drifted")
    assert found(sim)["message"] == "K8sVersionDrift (1.33.2, the control plane has 1.34.1)"


@simulated()
async def test_without_the_right_no_image_drifts(sim: Sim) -> None:
    """The controller goes on, and asks once an hour."""
    refused = errors.forbidden("Microsoft.ContainerService/managedClusters/agentPools/upgradeProfiles/read", "/x")
    sim.cloud.faults.append(Fault(verb="UPGRADE_PROFILE", answer=refused, times=1000))
    await machine(sim)
    sim.cloud.release_node_image("202608.17.0")
    await passes(sim, SIX_HOURS + 600.0)
    assert not drifted(sim)
    assert 6 <= sim.cloud.counts["UPGRADE_PROFILE"] <= 8


@simulated()
async def test_the_condition_stays_over_a_restart(sim: Sim) -> None:
    """A successor that does not know the newest image yet does not end the drift."""
    await machine(sim)
    sim.cloud.release_node_image("202608.17.0")
    await passes(sim, SIX_HOURS + 120.0)
    await another(sim)
    removed = []
    sim.store.subscribe(lambda *_: removed.append(1) if not drifted(sim) else None)
    sim.replace_controller()
    await passes(sim, 900.0)
    assert (drifted(sim), removed) == ("ImageDrift", [])


@simulated()
async def test_a_class_that_vanished_is_no_drift(sim: Sim) -> None:
    """Neither is a NodePool that refers to another one which does not exist: no other machine could be created."""
    await machine(sim)
    reference = {"group": "gpu-provisioner.sh", "kind": "AgentPoolNodeClass", "name": "absent"}
    patch_template(sim, {"spec": {"nodeClassRef": reference}})
    await passes(sim, 600.0)
    assert not drifted(sim)
    sim.store.delete(CLASSES, "default")
    await passes(sim, 600.0)
    assert not drifted(sim)
    await sim.apply(node_class("absent"))
    await sim.until(lambda: drifted(sim) == "NodePoolDrifted", 60.0, "the machine has drifted")


@simulated()
async def test_other_claims_are_never_written(sim: Sim) -> None:
    """Of KAITO or of a user, also with the label of a NodePool; what they have stays."""
    await sim.apply(node_class())
    await sim.apply(node_pool(replicas=0, disruption=KEPT))
    await sim.start_controller()
    await sim.apply(node_claim("kaito1"))
    await sim.apply(node_claim_of_class("byhand1"))
    names = ("kaito1", "byhand1")
    await sim.until(lambda: all(is_ready(sim.store.get(CLAIMS, name)) for name in names), 1800.0, "the machines")
    for name in names:
        claim = sim.store.get(CLAIMS, name)
        marked = [*claim["status"]["conditions"], {**condition(claim, "Ready"), "type": "Drifted", "reason": "Mine"}]
        sim.store.patch(CLAIMS, name, {"status": {"conditions": marked}}, subresource="status")
    label(sim, "other")
    image_family(sim, "AzureLinux")
    sim.cloud.release_node_image("202608.17.0")
    sim.cloud.upgrade_control_plane("1.34.1")
    await passes(sim, 900.0)
    assert [condition(sim.store.get(CLAIMS, name), "Drifted")["reason"] for name in names] == ["Mine", "Mine"]
    assert [condition(sim.store.get(CLAIMS, name), "Consolidatable") for name in names] == [{}, {}]
    assert sim.cloud.counts["UPGRADE_PROFILE"] == 0


def node_claim_of_class(name: str) -> Json:
    """As a user writes it: a NodeClaim that refers to the class and names the NodePool in a label."""
    reference = {"group": "gpu-provisioner.sh", "kind": "AgentPoolNodeClass", "name": "default"}
    made = node_claim(name, nodeClassRef=reference)
    return made | {"metadata": {"name": name, "labels": {"karpenter.sh/nodepool": "gpu"}}}


@simulated()
async def test_consolidatable(sim: Sim) -> None:
    """Five minutes after the last pod was bound; the condition is removed by the next pod and by Never."""
    await sim.apply(node_class())
    disruption = {"consolidateAfter": "5m", "budgets": [{"nodes": "0"}]}
    await sim.apply(node_pool(requirements=SIZES, disruption=disruption))
    await sim.start_controller()
    await pending(sim, pod("first"))
    await sim.until(lambda: ready(sim), 1800.0, "the machine")
    began = sim.now
    await sim.until(lambda: found(sim, "Consolidatable"), 600.0, "it is consolidatable")
    assert 290.0 <= sim.now - began <= 310.0
    assert (found(sim, "Consolidatable")["status"], drifted(sim)) == ("True", "")
    sim.store.delete("pods", "first", "default")
    await sim.until(lambda: not found(sim, "Consolidatable"), 60.0, "the condition is removed")
    await sim.until(lambda: found(sim, "Consolidatable"), 600.0, "it is consolidatable again")
    sim.store.patch(POOLS, "gpu", {"spec": {"disruption": {"consolidateAfter": "Never"}}})
    await sim.until(lambda: not found(sim, "Consolidatable"), 10.0, "the condition is removed")


@simulated()
async def test_an_image_that_new_pools_do_not_get(sim: Sim) -> None:
    """AKS names it as the newest one; neither a machine without it nor a restart is a reason for another machine."""
    answer = Answer(200, {"properties": {"latestNodeImageVersion": f"{IMAGE}-202609.01.0"}})
    sim.cloud.faults.append(Fault(verb="UPGRADE_PROFILE", answer=answer, times=1000))
    await machine(sim, replicas=2)
    name = "ctl0"
    for _ in range(3):
        await passes(sim, SIX_HOURS)
        assert not drifted(sim)
        sim.replace_controller(name)
        name += "'"
    await passes(sim, SIX_HOURS)
    assert not drifted(sim)


@pytest.mark.parametrize(("status", "reason"), [(400, "BadRequest"), (403, "Forbidden"), (409, "Conflict")])
@simulated()
async def test_a_status_that_a_webhook_denies(sim: Sim, status: int, reason: str) -> None:
    """With any code: the request is repeated ever later, and succeeds once it is permitted."""
    await machine(sim)
    sent = 0

    def fits(call: Call) -> bool:
        nonlocal sent
        denied = call.verb == "PATCH" and call.target.kind == "nodeclaims" and call.target.subresource == "status"
        sent += denied
        return denied

    permit = refuse(sim, fits, status, reason, 'admission webhook "status.example.com" denied the request')
    patch_template(sim, {"metadata": {"labels": {"team": "other"}}})
    await passes(sim, 3600.0)
    assert 2 <= sent <= 20
    permit()
    await sim.until(lambda: drifted(sim) == "NodePoolDrifted", 600.0, "the condition is written")


@simulated()
async def test_drifted_and_consolidatable_at_the_same_time(sim: Sim) -> None:
    """One condition does not wait for the other, and both are removed by one change."""
    await sim.apply(node_class())
    await sim.apply(node_pool(requirements=SIZES, disruption={"consolidateAfter": "30s", "budgets": [{"nodes": "0"}]}))
    await sim.start_controller()
    await pending(sim, pod("first"))
    await sim.until(lambda: found(sim, "Consolidatable"), 1800.0, "it is consolidatable")
    label(sim, "other")
    await sim.until(lambda: drifted(sim), 10.0, "the machine has drifted")
    assert found(sim, "Consolidatable")["status"] == "True"
    template = node_pool(requirements=SIZES)["spec"]["template"]
    spec = {"template": template, "disruption": {"consolidateAfter": "Never"}}
    sim.store.patch(POOLS, "gpu", {"spec": spec})
    await sim.until(lambda: not drifted(sim) and not found(sim, "Consolidatable"), 10.0, "both are removed")
