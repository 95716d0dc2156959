"""Migration from Azure/gpu-provisioner: the controller starts in a cluster that the predecessor has managed.

Its machines are adopted as they are: without a second PUT, a lost machine or a Ready claim that becomes not Ready.
Orphans are collected, and interrupted creations and removals are completed.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Literal, get_args

import pytest

from controllers.model.policy import Policy
from provisioner.api import labels
from tests.world import predecessor as old
from tests.world.claims import created, versions
from tests.world.harness import Json, Sim, node_claim, simulated
from tests.world.main_job import NAME, gone
from tests.world.transcript import CLAIMS, FAST, MINUTE, claim_condition, deleting, node_name, pool_calls, refuse

WHOLE = ["pool", "node", "claim"]
FOREIGN = ["system", "theirs"]


def went(sim: Sim, name: str = NAME) -> list[str]:
    """The order in which claim and machine were removed: the pools have no ownership tag for the audit log."""
    mine = (name, f"aks-{name}-")
    return [one.kind for one in sim.audit_log.changes() if one.what == "gone" and one.name.startswith(mine)]


async def is_ready(sim: Sim, name: str = NAME) -> None:
    await sim.until(lambda: sim.condition(name, "Ready") == "True", 15 * MINUTE, f"{name} is Ready")


async def is_gone(sim: Sim, name: str = NAME, order: list[str] = WHOLE) -> None:
    """Wait until claim and machine are removed in that order, and no more writes are sent."""
    await sim.until(
        lambda: not (sim.claim(name) or sim.nodes_of(name) or name in sim.cloud.pools), 20 * MINUTE, f"{name} is gone"
    )
    assert went(sim, name) == order, sim.describe()
    await sim.settled(quiet_seconds=70)


async def by_claim(sim: Sim) -> None:
    await sim.delete_claim(NAME)


async def by_node(sim: Sim) -> None:
    await sim.delete_node(node_name(sim))


async def in_the_portal(sim: Sim) -> None:
    sim.cloud.delete_pool_by_hand(NAME)


@pytest.mark.parametrize("remove", [by_claim, by_node, in_the_portal], ids=lambda remove: remove.__name__)
@simulated(azure=FAST)
async def test_a_ready_claim_is_adopted_and_removed_like_our_own(
    sim: Sim, remove: Callable[[Sim], Awaitable[None]]
) -> None:
    """A Ready claim stays Ready without any PUT or DELETE; any removal then removes all three objects."""
    made = await old.machine(sim, NAME)
    before, seen = made["metadata"]["uid"], versions(sim, NAME)
    status = (sim.claim(NAME) or {})["status"]
    await sim.start_controller()
    await asyncio.sleep(15 * MINUTE)
    claim = sim.claim(NAME)
    assert claim is not None
    assert claim["metadata"]["uid"] == before
    assert {key: claim["status"][key] for key in ("providerID", "nodeName")} == {
        key: status[key] for key in ("providerID", "nodeName")
    }
    assert claim["status"]["imageID"]
    assert all(one.obj is not None and status_of(one.obj, "Ready") == "True" for one in seen)
    assert not pool_calls(sim, "PUT", None)
    assert not pool_calls(sim, "DELETE", None)
    assert len(sim.audit_log.writes(who="ctl0")) == 2, "columns, and an image"
    await remove(sim)
    await is_gone(sim)


def status_of(claim: Json, kind: str) -> str:
    conditions = (claim.get("status") or {}).get("conditions") or ()
    return next((one["status"] for one in conditions if one["type"] == kind), "")


@pytest.mark.parametrize(
    "own",
    [{}, {labels.KAITO_RAGENGINE: "r"}, {labels.KAITO_WORKSPACE: "w", "karpenter.sh/nodepool": "kaito"}],
    ids=["by its class alone", "a RAGEngine's", "with the pool's label"],
)
@simulated(azure=FAST)
async def test_every_managed_claim_is_adopted(sim: Sim, own: dict[str, str]) -> None:
    """A claim that is managed only for its class is adopted too."""
    await old.machine(sim, NAME, own=own)
    await sim.start_controller()
    await asyncio.sleep(5 * MINUTE)
    assert sim.condition(NAME, "Ready") == "True"
    await sim.delete_claim(NAME)
    await is_gone(sim)
    assert not pool_calls(sim, "PUT", None)


# What was half done


async def creating_without_a_node(sim: Sim) -> None:
    """The PUT was accepted, and no status was written."""
    made = old.claim(sim, NAME)
    old.unlaunched(sim, made)
    old.creating(sim, made)


async def running_without_status(sim: Sim) -> None:
    """The Node exists and is not registered; the claim has no providerID."""
    made = old.claim(sim, NAME)
    old.unlaunched(sim, made, refused=True)
    old.pool(sim, made)


async def registered_without_status(sim: Sim) -> None:
    """The Node is registered, and the status write was lost."""
    made = old.claim(sim, NAME)
    old.unlaunched(sim, made)
    old.pool(sim, made)
    await old.register(sim, made, initialized=False)


async def registered_and_reported(sim: Sim) -> None:
    """Registered, and waiting for the Node to be usable."""
    made = old.claim(sim, NAME)
    old.pool(sim, made)
    old.launched(sim, made, node=await old.register(sim, made, initialized=False), initialized=False)


HALF_MADE = [creating_without_a_node, running_without_status, registered_without_status, registered_and_reported]


@pytest.mark.parametrize("state", HALF_MADE, ids=lambda state: state.__name__)
@simulated(azure=FAST)
async def test_an_interrupted_creation_is_completed(sim: Sim, state: Callable[[Sim], Awaitable[None]]) -> None:
    """Whatever its state, the claim becomes Ready with the existing machine, and no PUT is sent."""
    await state(sim)
    await sim.start_controller()
    await is_ready(sim)
    assert not pool_calls(sim, "PUT", None)
    await sim.delete_claim(NAME)
    await is_gone(sim)


@pytest.mark.parametrize("state", HALF_MADE, ids=lambda state: state.__name__)
@simulated(azure=FAST)
async def test_a_creation_whose_claim_was_deleted_meanwhile(sim: Sim, state: Callable[[Sim], Awaitable[None]]) -> None:
    """A deleted claim without a providerID, whose pool the predecessor would leak, is removed with its pool."""
    await state(sim)
    sim.store.delete(CLAIMS, NAME)
    await sim.start_controller()
    await sim.until(lambda: sim.claim(NAME) is None, 20 * MINUTE, "the claim is gone")
    assert went(sim) in (WHOLE, ["pool", "claim"])
    assert sorted(sim.cloud.pools) == FOREIGN
    await sim.settled(quiet_seconds=70)


@simulated(azure=FAST)
async def test_a_claim_whose_put_it_never_sent(sim: Sim) -> None:
    """The claim is served like a new one, and the pool has the ownership tags."""
    made = old.claim(sim, NAME)
    old.unlaunched(sim, made, refused=True)
    await sim.start_controller()
    await is_ready(sim)
    (pool,) = sim.pools_of(made["metadata"]["uid"])
    assert (pool.name, created(sim, NAME)) == (NAME, 1)
    await sim.delete_claim(NAME)
    await gone(sim)
    await sim.settled(quiet_seconds=70)


@simulated(azure=FAST)
async def test_a_failed_pool_that_it_would_put_for_ever(sim: Sim) -> None:
    """The claim states the cause, the pool is removed, and the controller starts its own attempt."""
    made = old.claim(sim, NAME)
    old.unlaunched(sim, made, refused=True)
    seen = versions(sim, NAME)
    cause = {"code": "AllocationFailed", "message": "Allocation failed. We do not have sufficient capacity."}
    old.pool(sim, made, state="Failed", error=cause)
    await sim.start_controller()
    await is_ready(sim)
    reported = [c for one in seen for c in (one.obj or {})["status"]["conditions"] if c["type"] == "Launched"]
    assert any(c["status"] == "False" and "AllocationFailed" in c["message"] for c in reported)
    assert [len(sim.pools_of(made["metadata"]["uid"])), created(sim, NAME)] == [1, 1]


async def drained_and_not_deleted(sim: Sim) -> None:
    """Claim and Node are deleting, the Node is empty, and the pool's DELETE was not sent."""
    await old.machine(sim, NAME)
    sim.store.delete(CLAIMS, NAME)
    old.drained(sim, node_name(sim))


async def pool_deleting(sim: Sim) -> None:
    """The pool's DELETE was accepted."""
    await drained_and_not_deleted(sim)
    sim.cloud.lifecycle.delete(NAME)


async def pool_gone(sim: Sim) -> None:
    """The pool is gone, and the Node has its finalizer."""
    await pool_deleting(sim)
    await sim.until(lambda: NAME not in sim.cloud.pools, 5 * MINUTE, "the pool is gone")


async def node_gone(sim: Sim) -> None:
    """Only the claim is left."""
    await pool_gone(sim)
    sim.store.patch("nodes", node_name(sim), {"metadata": {"finalizers": None}})


async def only_the_node_deleting(sim: Sim) -> None:
    """The Node was deleted during the migration, and the claim was not."""
    await old.machine(sim, NAME)
    await sim.delete_node(node_name(sim))


async def only_the_pool_deleting(sim: Sim) -> None:
    """The pool was deleted in the portal during the migration."""
    await old.machine(sim, NAME)
    sim.cloud.delete_pool_by_hand(NAME)


async def only_the_claim_deleting(sim: Sim) -> None:
    """The claim was deleted while no controller ran."""
    await old.machine(sim, NAME)
    sim.store.delete(CLAIMS, NAME)


HALF_GONE = [
    drained_and_not_deleted,
    pool_deleting,
    pool_gone,
    node_gone,
    only_the_node_deleting,
    only_the_pool_deleting,
    only_the_claim_deleting,
]


@pytest.mark.parametrize("state", HALF_GONE, ids=lambda state: state.__name__)
@simulated(azure=FAST)
async def test_an_interrupted_removal_is_completed(sim: Sim, state: Callable[[Sim], Awaitable[None]]) -> None:
    """Whatever its state, pool, Node and claim are removed in order, without a second DELETE."""
    await state(sim)
    requested = state in (pool_deleting, pool_gone, node_gone, only_the_pool_deleting)
    await sim.start_controller()
    await is_gone(sim)
    assert len([call for call in pool_calls(sim, "DELETE") if call.status == 202]) == (not requested)
    assert not pool_calls(sim, "PUT", None)


# What it left behind


async def node_deleting(sim: Sim) -> None:
    """The claim is gone, and the Node is deleting."""
    await sim.delete_node(node_name(sim))


async def node_released(sim: Sim) -> None:
    """The Node is gone, and its machine runs."""
    name = node_name(sim)
    sim.store.patch("nodes", name, {"metadata": {"finalizers": None}})
    await sim.delete_node(name)


async def nothing_done(_: Sim) -> None:
    """The Node is healthy."""


LegacyPools = Literal["collect", "report"]


@pytest.mark.parametrize("state", [nothing_done, node_deleting, node_released], ids=lambda state: state.__name__)
@pytest.mark.parametrize("what", get_args(LegacyPools))
@simulated(azure=FAST)
async def test_a_pool_of_a_vanished_claim(sim: Sim, what: LegacyPools, state: Callable[[Sim], Awaitable[None]]) -> None:
    """The pool is collected with its Node or kept unchanged, as configured."""
    await old.machine(sim, NAME)
    sim.store.patch(CLAIMS, NAME, {"metadata": {"finalizers": None}})
    await sim.delete_claim(NAME)
    await state(sim)
    await sim.start_controller(policy=Policy(legacy_pools=what))
    if what == "collect":
        await is_gone(sim, order=["claim", "node", "pool"] if state is node_released else ["claim", "pool", "node"])
        return
    await asyncio.sleep(20 * MINUTE)
    assert sim.cloud.pools[NAME].state == "Succeeded"
    assert not pool_calls(sim, "DELETE", None)
    assert not [call for call in sim.audit_log.writes(who="ctl0") if call.target.kind == "nodes"]


@simulated(azure=FAST)
async def test_a_claim_recreated_under_the_name_of_an_orphan(sim: Sim) -> None:
    """The creation time identifies the claim: the new one waits, states why, and gets its own machine."""
    await old.machine(sim, NAME)
    sim.store.patch(CLAIMS, NAME, {"metadata": {"finalizers": None}})
    await sim.delete_claim(NAME)
    uid = (await sim.apply(node_claim(NAME)))["metadata"]["uid"]
    await sim.start_controller()
    await sim.until(
        lambda: claim_condition(sim, "Launched")[1] == "LegacyPoolLeft",
        MINUTE,
        "the claim states what it waits for",
    )
    await is_ready(sim)
    assert [pool.name for pool in sim.pools_of(uid)] == [NAME]
    assert created(sim, NAME) == 1
    await sim.settled(quiet_seconds=70)


# Claims from before the class


@pytest.mark.parametrize("refused", [False, True], ids=["tolerated", "every status write is refused"])
@pytest.mark.parametrize("going", [False, True], ids=["deleted afterwards", "deleting at the change"])
@simulated(azure=FAST)
async def test_a_claim_with_an_empty_class_can_be_deleted(sim: Sim, refused: bool, going: bool) -> None:
    """Older API servers refuse status writes to such a claim: it is adopted and removed in order."""
    await old.machine(sim, NAME, nodeClassRef=old.NO_CLASS)
    if going:
        sim.store.delete(CLAIMS, NAME)
    if refused:
        refuse(sim, lambda call: call.target.subresource == "status", 422, "Invalid")
    await sim.start_controller()
    if not going:
        await asyncio.sleep(15 * MINUTE)
        assert not deleting(sim.claim(NAME))
        await sim.delete_claim(NAME)
    await is_gone(sim)
    assert not pool_calls(sim, "PUT", None)


@simulated(azure=FAST)
async def test_a_claim_of_which_only_the_finalizer_may_be_written(sim: Sim) -> None:
    """Before Kubernetes 1.30 such a claim refuses labels and annotations too: its machine is removed."""
    await old.machine(sim, NAME, nodeClassRef=old.NO_CLASS)

    def every_write_of_a_live_claim(call) -> bool:
        return (call.verb, call.target.kind) == ("PATCH", "nodeclaims") and NAME in sim.cloud.pools

    refuse(sim, every_write_of_a_live_claim, 422, "Invalid")
    await sim.start_controller()
    await asyncio.sleep(15 * MINUTE)
    await sim.delete_claim(NAME)
    await is_gone(sim)


# The change itself


@simulated(azure=FAST)
async def test_leases_of_its_replicas(sim: Sim) -> None:
    """Its leases are not touched, unless the controller uses the same one: then it waits for the expiry."""
    await old.machine(sim, NAME)
    old.leases(sim)
    kept = {name: sim.store.get("leases.coordination.k8s.io", name, "kube-system") for name in old.LEASES}
    await sim.start_controller(lease_name=old.LEASES[1])
    await sim.delete_claim(NAME)
    await asyncio.sleep(14)
    assert not sim.audit_log.writes(who="ctl0")
    await is_gone(sim)
    assert sim.store.get("leases.coordination.k8s.io", old.LEASES[0], "kube-system") == kept[old.LEASES[0]]


@simulated(azure=FAST)
async def test_migration_of_a_whole_cluster(sim: Sim) -> None:
    """One machine in each state at once: living claims become Ready, deleted ones are removed, others are kept."""
    lives = [await old.machine(sim, f"live{number}") for number in range(4)]
    coming, unasked, refused = (old.claim(sim, name) for name in ("coming", "unasked", "refused"))
    for one in (coming, unasked, refused):
        old.unlaunched(sim, one, refused=one is refused)
    old.creating(sim, coming)
    old.pool(sim, refused, state="Failed", error={"code": "SkuNotAvailable", "message": "not available"})
    for name in ("goesa", "goesb"):
        await old.machine(sim, name)
        sim.store.delete(CLAIMS, name)
    old.drained(sim, node_name(sim, "goesb"))
    await old.machine(sim, "empty", nodeClassRef=old.NO_CLASS)
    sim.store.delete(CLAIMS, "empty")
    await old.machine(sim, "left")
    sim.store.patch(CLAIMS, "left", {"metadata": {"finalizers": None}})
    await sim.delete_claim("left")
    old.leases(sim)
    await sim.start_controller()
    stay = sorted([*(one["metadata"]["name"] for one in lives), "coming", "unasked", "refused"])
    await sim.until(lambda: sorted(sim.cloud.pools) == sorted([*stay, *FOREIGN]), 20 * MINUTE, "the right pools")
    for name in stay:
        await is_ready(sim, name)
    await sim.settled(quiet_seconds=3 * MINUTE)
    assert sorted(claim["metadata"]["name"] for claim in sim.store.list(CLAIMS)) == stay
    assert {call.target.name for call in pool_calls(sim, "PUT", None)} == {"unasked", "refused"}
    assert not any(went(sim, name) for name in stay if name != "refused")
