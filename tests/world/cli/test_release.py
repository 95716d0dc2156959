"""`gpu-provisioner release`: removes finalizers when the absence of a pool cannot be proven any more."""

import asyncio
from typing import Any

import pytest
from aiohttp import web

from provisioner.api import labels
from provisioner.simulator.audit_log import Call
from provisioner.simulator.azure import errors
from provisioner.simulator.azure.faults import ALWAYS, Fault
from tests.world.commands import WHO, command, known_as, unknown, written
from tests.world.garbagecollection.common import NO_BOUND, one
from tests.world.harness import Sim, node_claim, simulated
from tests.world.main_job import NAME
from tests.world.transcript import CLAIMS, FAST, MINUTE, events, finalizers, refuse

from .common import CLUSTER_GONE, FLAG, no_claim, own_pool, stuck

GONE_FOR_GOOD = [
    (CLUSTER_GONE, "the managed cluster does not exist"),
    (errors.group_not_found("rg"), "the resource group does not exist"),
    (errors.pool_not_found(NAME), f"agent pool {NAME} not found in cluster"),
]


@pytest.mark.parametrize(("answer", "proof"), GONE_FOR_GOOD, ids=["cluster", "group", "pool"])
@simulated(azure=FAST, **NO_BOUND)
async def test_a_claim_whose_cluster_is_gone_is_released(sim: Sim, answer: errors.Answer, proof: str) -> None:
    """An Event names the user; the finalizers of the Node and then of the claim are removed."""
    known_as(sim, "ada@example.com")
    node = await stuck(sim)
    await sim.stop_controller()
    sim.cloud.faults.insert(0, Fault(verb="GET", times=ALWAYS, answer=answer))
    ended = await command(sim, "release", NAME, FLAG)
    assert (ended.code, ended.err) == (0, "")
    first, *rest = ended.out.splitlines()
    assert proof in first
    assert rest == [f"node/{node} released", f"nodeclaim/{NAME} released"]
    assert sim.claim(NAME) is None
    assert not sim.nodes_of(NAME)
    assert written(sim) == ["POST events", f"PATCH nodes/{node}", f"PATCH nodeclaims/{NAME}"]
    (reported,) = events(sim, "FinalizerRemovedManually")
    assert reported["type"] == "Warning"
    assert reported["involvedObject"]["name"] == NAME
    assert reported["message"].startswith(
        f"ada@example.com removed karpenter.sh/termination from node/{node}, nodeclaim/{NAME}"
    )
    assert proof in reported["message"]


@simulated(azure=FAST, **NO_BOUND)
async def test_without_the_flag_nothing_is_released(sim: Sim) -> None:
    """Exit code 2, with the flag as the remedy, and no write."""
    node = await stuck(sim)
    ended = await command(sim, "release", NAME)
    assert ended.code == 2
    assert ended.out.splitlines()[1:] == [
        f"node/{node} would lose the finalizer karpenter.sh/termination",
        f"nodeclaim/{NAME} would lose the finalizer karpenter.sh/termination",
    ]
    cause, remedy = ended.err.splitlines()
    assert cause == "gpu-provisioner release: nothing was released"
    assert remedy.endswith(f"add {FLAG}.")
    assert written(sim) == []


@simulated(azure=FAST, **NO_BOUND)
async def test_an_api_server_without_self_subject_reviews(sim: Sim) -> None:
    """Before Kubernetes 1.28 the Event names an unknown user, and the release continues."""
    unknown(sim)
    await stuck(sim)
    await sim.stop_controller()
    assert (await command(sim, "release", NAME, FLAG)).code == 0
    (reported,) = events(sim, "FinalizerRemovedManually")
    assert reported["message"].startswith("unknown user removed karpenter.sh/termination from ")


@simulated(azure=FAST, **NO_BOUND)
async def test_finalizers_of_others_are_kept(sim: Sim) -> None:
    """Only ours is removed, also when another one is removed between the read and the write of the list."""
    await stuck(sim, theirs=("example.com/one", "example.com/two"))
    await sim.stop_controller()

    async def race(call: Call, _: web.Request) -> web.StreamResponse | None:
        if call.who == WHO and call.verb == "PATCH" and call.target.kind == "nodeclaims":
            left = [name for name in finalizers(sim.claim(NAME)) if name != "example.com/one"]
            sim.store.patch(CLAIMS, NAME, {"metadata": {"finalizers": left}})
        return None

    sim.world.before.append(race)
    ended = await command(sim, "release", NAME, FLAG)
    assert (ended.code, ended.err) == (0, "")
    assert finalizers(sim.claim(NAME)) == ["example.com/two"]
    assert [c.status for c in sim.audit_log.calls(who=WHO, verb="PATCH", kind="nodeclaims")] == [422, 200]
    again = await command(sim, "release", NAME, FLAG)
    assert again.code == 1
    assert "its metadata.finalizers are example.com/two" in again.err


@simulated(azure=FAST, **NO_BOUND)
async def test_a_claim_deleted_meanwhile_is_no_failure(sim: Sim) -> None:
    """The controller removed its finalizer itself, and the output reports it."""
    await stuck(sim)
    await sim.stop_controller()

    async def vanish(call: Call, _: web.Request) -> web.StreamResponse | None:
        if call.who == WHO and call.verb == "PATCH" and call.target.kind == "nodeclaims":
            sim.store.patch(CLAIMS, NAME, {"metadata": {"finalizers": None}})
        return None

    sim.world.before.append(vanish)
    ended = await command(sim, "release", NAME, FLAG)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.splitlines()[-1] == f"nodeclaim/{NAME} not found"


@simulated(azure=FAST, **NO_BOUND)
async def test_a_foreign_pool_of_that_name(sim: Sim) -> None:
    """It is not the claim's machine: the claim is released, and the pool is not written."""
    await stuck(sim)
    await sim.stop_controller()
    sim.cloud.faults.clear()
    del sim.cloud.pools[NAME]
    sim.cloud.seed_pool(NAME)
    ended = await command(sim, "release", NAME, FLAG)
    assert ended.code == 0
    assert ended.out.startswith(
        f"ARM: agent pool {NAME} exists, but belongs to another NodeClaim than nodeclaim/{NAME}\n"
    )
    assert sim.cloud.pools[NAME].state == "Succeeded"


# Refusals


async def pool_is_there(sim: Sim) -> None:
    await stuck(sim)
    sim.cloud.faults.clear()
    await sim.stop_controller()


async def just_requested(sim: Sim) -> None:
    await one(sim)
    await sim.stop_controller()
    await sim.delete_claim(NAME)


async def other_class(sim: Sim) -> None:
    claim = node_claim(NAME)
    claim["metadata"] |= {"labels": {}, "finalizers": [labels.FINALIZER]}
    claim["spec"]["nodeClassRef"] = {"group": "karpenter.azure.com", "kind": "AKSNodeClass", "name": "default"}
    await sim.apply(claim)
    await sim.delete_claim(NAME)
    await asyncio.sleep(10 * MINUTE)


def answering(answer: errors.Answer, name: str) -> Any:
    async def prepare(sim: Sim) -> None:
        await stuck(sim, answer)

    prepare.__name__ = name
    return prepare


async def settings_of_another_cluster(sim: Sim) -> None:
    await _elsewhere(sim, "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/MC_other")
    sim.cloud.faults.insert(0, Fault(verb="GET", times=ALWAYS, answer=errors.pool_not_found(NAME)))


async def settings_of_another_subscription(sim: Sim) -> None:
    await _elsewhere(sim, "/subscriptions/11111111-0000-0000-0000-000000000000/resourceGroups/MC_rg")


async def _elsewhere(sim: Sim, group: str) -> None:
    """The only Node of the API server is in this resource group."""
    node = await stuck(sim)
    await sim.stop_controller()
    sim.store.patch("nodes", node, {"metadata": {"finalizers": []}})  # it is being deleted
    for name in [found["metadata"]["name"] for found in sim.store.list("nodes")]:
        sim.store.delete("nodes", name)
    machine = "Microsoft.Compute/virtualMachineScaleSets/aks-system-11111111-vmss/virtualMachines/0"
    spec = {"providerID": f"azure://{group}/providers/{machine}"}
    sim.store.create("nodes", {"metadata": {"name": "aks-system-11111111-vmss000000"}, "spec": spec})


async def slow(sim: Sim) -> None:
    await stuck(sim)
    sim.cloud.faults.insert(0, Fault(verb="GET", times=ALWAYS, slow_seconds=60.0))


async def no_events(sim: Sim) -> None:
    await stuck(sim)
    refuse(sim, lambda call: call.who == WHO and call.target.kind == "events", 403, "Forbidden")


async def no_patches(sim: Sim) -> None:
    await stuck(sim)
    refuse(sim, lambda call: call.who == WHO and call.verb == "PATCH", 403, "Forbidden")


TOKEN = errors.unauthenticated("InvalidAuthenticationToken", "The access token is invalid.")
REFUSALS: list[tuple[Any, str, str]] = [
    (no_claim, f"NodeClaim {NAME} not found", "kubectl get nodeclaims"),
    (own_pool, "its metadata.deletionTimestamp is not set", f"kubectl delete nodeclaim {NAME}"),
    (pool_is_there, "its provisioningState is Succeeded", f"kubectl describe nodeclaim {NAME}"),
    (just_requested, "may not be visible yet", "run the command again after 60 s"),
    (other_class, "its spec.nodeClassRef is karpenter.azure.com/AKSNodeClass", "Use the controller of that node class"),
    (answering(TOKEN, "arm_401"), "Check the workload identity", "Nothing was changed"),
    (answering(errors.forbidden("read", FAST.cluster_id), "arm_403"), "AuthorizationFailed", "Nothing was changed"),
    (answering(errors.subscription_not_found("s"), "arm_404_subscription"), "SubscriptionNotFound", "Nothing was"),
    (answering(errors.html(404), "arm_404_of_a_proxy"), "NotFoundWithoutProof", "Nothing was changed"),
    (answering(errors.html(503), "arm_503"), "ARM: ", "Nothing was changed"),
    (settings_of_another_cluster, "no Node is in mc_rg_aks_", "Correct ARM_SUBSCRIPTION_ID, ARM_RESOURCE_GROUP"),
    (
        settings_of_another_subscription,
        "no Node is in subscription 0000",
        "Correct ARM_SUBSCRIPTION_ID: a Node is in 1",
    ),
    (slow, "ARM: Timeout", "Nothing was changed"),
    (no_events, "failed to write the Event that names the user: 403", "Request this permission"),
    (no_patches, "403 Forbidden: patch Node ", "Request this permission"),
]


@pytest.mark.matrix(quick=6)
@pytest.mark.parametrize(("prepare", "cause", "remedy"), REFUSALS, ids=[row[0].__name__ for row in REFUSALS])
@simulated(azure=FAST, **NO_BOUND)
async def test_a_refusal_names_the_value_and_the_remedy(sim: Sim, prepare: Any, cause: str, remedy: str) -> None:
    """Exit code 1, two lines on stderr, and every finalizer is kept."""
    await prepare(sim)
    before = finalizers(sim.claim(NAME))
    ended = await command(sim, "release", NAME, FLAG)
    assert ended.code == 1
    reported_cause, reported_remedy = ended.err.splitlines()
    assert reported_cause.startswith("gpu-provisioner release: ")
    assert cause in reported_cause
    assert remedy in reported_remedy
    assert finalizers(sim.claim(NAME)) == before
    assert not [call for call in written(sim) if call.startswith("PATCH") and prepare is not no_patches]


@pytest.mark.parametrize("name", ["", "..", "a/b"])
@simulated()
async def test_an_invalid_name(sim: Sim, name: str) -> None:
    """It is a usage error, and no request is sent."""
    ended = await command(sim, "release", name, FLAG)
    assert (ended.code, ended.out) == (2, "")
    assert len(ended.err.splitlines()) == 2
    assert not sim.audit_log.calls(who=WHO)
