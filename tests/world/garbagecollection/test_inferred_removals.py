"""Disturbances that could cause the removal of healthy machines; none does.

The machines keep running; only the controller's view of them is disturbed. Each test asserts that no DELETE of a pool
was sent and that the claims are the same, and that all is healthy after the disturbance or after a user's confirmation.
All invariants are checked throughout; `NO_BOUND` where pools are kept on purpose.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from aiohttp import web

from controllers.model.confirmation import Confirmation, encode
from provisioner.api import labels
from provisioner.simulator.audit_log import Call
from provisioner.simulator.azure import errors
from provisioner.simulator.azure.faults import ALWAYS, Fault
from provisioner.simulator.nodes.machine import NodeSettings
from provisioner.simulator.world import KUBE_HOST
from tests.world.harness import EPOCH, SHIPPED_LEASE, Json, Sim, crds, node_claim, simulated
from tests.world.main_job import NAME, ready
from tests.world.transcript import (
    CLAIMS,
    FAST,
    MINUTE,
    claim_condition,
    deleting,
    events,
    finalizers,
    node_name,
    node_of,
    pool_calls,
    run_pod,
    strip,
)

from .common import CRD_KEY, FOREIGN, NO_BOUND, adopt, deletes, fleet, heal, restore, uids

pytestmark = pytest.mark.matrix(quick=0)

LEASES = "leases.coordination.k8s.io"


def well(sim: Sim, names: list[str]) -> bool:
    """Whether all these claims are Ready."""
    return all(sim.condition(name, "Ready") == "True" for name in names)


async def unharmed(sim: Sim, names: list[str], before: list[str], within_seconds: float = 15 * MINUTE) -> None:
    """All claims are the same and become Ready; no DELETE and no second PUT of a pool was sent."""
    await sim.until(lambda: well(sim, names), within_seconds, "all are Ready again")
    assert uids(sim, names) == before
    assert not deletes(sim)
    assert len(pool_calls(sim, "PUT", None)) == len(names)
    await sim.settled(quiet_seconds=70)


def drop_nodes(sim: Sim, names: list[str]) -> None:
    """The node manager deletes these pools' Nodes."""
    for name in names:
        sim.store.delete("nodes", node_name(sim, name))


def confirm(sim: Sim, names: list[str], seconds: float = 3600.0) -> None:
    """Confirm these removals, as a user, so that the circuit breaker permits them."""
    until = EPOCH + timedelta(seconds=sim.now + seconds)
    value = encode(Confirmation(until=until, removals=tuple(names)))
    annotate_lease(sim, value)


def annotate_lease(sim: Sim, value: str) -> None:
    note = {"metadata": {"annotations": {labels.CONFIRMED_REMOVALS: value}}}
    sim.store.patch(LEASES, "gpu-provisioner", note, "kube-system")


# a) az aks stop and start


@pytest.mark.matrix(quick=2)
@pytest.mark.parametrize("fate", ["alive", "restarted in between", "cut off from ARM"])
@pytest.mark.parametrize("count", [1, 5])
@simulated(azure=FAST)
async def test_az_aks_stop_and_start(sim: Sim, count: int, fate: str) -> None:
    """The cluster stops, its Nodes become NotReady and are deleted, the cluster starts: the same claims are Ready."""
    names = await fleet(sim, count)
    before = uids(sim, names)
    if fate == "cut off from ARM":
        sim.cloud.faults.append(Fault(times=ALWAYS, answer=errors.html(503)))
    sim.cloud.stop_cluster()
    await asyncio.sleep(MINUTE)
    if fate == "restarted in between":
        sim.crash()
        await asyncio.sleep(MINUTE)
        await sim.start_controller("ctl1")
    await asyncio.sleep(15 * MINUTE)
    assert not any(deleting(claim) for claim in sim.store.list(CLAIMS))
    heal(sim)
    await asyncio.sleep(5 * MINUTE)
    sim.cloud.start_cluster()
    await unharmed(sim, names, before)


# b) the Nodes of a stopped cluster are deleted before the stop is observed


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("pools_lag", [False, True], ids=["pools read as stopped", "pools still read as running"])
@simulated(azure=FAST)
async def test_nodes_go_before_the_stop_is_known(sim: Sim, count: int, pools_lag: bool) -> None:
    """The cluster's state is read before a deleted Node causes a removal, however few Nodes are deleted."""
    names = await fleet(sim, count)
    before = uids(sim, names)
    reads = sim.cloud.counts["CLUSTER"]
    await sim.until(lambda: sim.cloud.counts["CLUSTER"] > reads, 130, "the cluster is read, as it is each minute")
    sim.cloud.stop_cluster()
    if pools_lag:
        for name in names:
            sim.cloud.pool_store.put("updated", replace(sim.cloud.pools[name], power="Running"))
    drop_nodes(sim, names)
    await asyncio.sleep(10 * MINUTE)
    assert not deletes(sim)
    assert uids(sim, names) == before
    for name in names:
        sim.cloud.pool_store.put("updated", replace(sim.cloud.pools[name], power="Stopped"))
    sim.cloud.start_cluster()
    await unharmed(sim, names, before)


# c) a backup is restored, and every claim has a new UID


@pytest.mark.matrix(quick=1)
@pytest.mark.parametrize("restarted", [False, True])
@simulated(azure=FAST, **NO_BOUND)
async def test_a_restored_backup_is_adopted(sim: Sim, restarted: bool) -> None:
    """Each restored claim adopts its machine: none is lost or created, and each claim can then be deleted."""
    names = await fleet(sim, 5)
    old = [restore(sim, name) for name in names]
    await sim.until(lambda: all(deleting(node_of(sim, name)) for name in names), 60, "Kubernetes deletes all Nodes")
    for name in names:
        run_pod(sim, f"work-{name}", node_name(sim, name))
    await asyncio.sleep(15 * MINUTE)
    for name, uid in zip(names, old, strict=True):
        adopt(sim, name, uid)
    if restarted:
        sim.crash()
        await sim.start_controller("ctl1")
    await sim.until(
        lambda: all(claim_condition(sim, "Launched", name)[0] == "True" for name in names),
        2 * MINUTE,
        "all are launched",
    )
    await asyncio.sleep(20 * MINUTE)
    assert not deletes(sim)
    assert len(pool_calls(sim, "PUT", None)) == len(names)
    assert all(finalizers(node_of(sim, name)) == [labels.FINALIZER] for name in names), "their pods work on"
    assert len(sim.store.list("pods", "default")) == len(names)
    assert {claim_condition(sim, "Registered", name)[1] for name in names} == {"NodeDeleting"}
    await sim.delete_claim(names[0])
    await sim.until(lambda: sim.claim(names[0]) is None, 10 * MINUTE, "one is deleted, and goes")
    assert deletes(sim) == names[:1]
    assert not sim.nodes_of(names[0])
    assert sorted(sim.cloud.pools) == sorted([*names[1:], *FOREIGN])


@simulated(azure=FAST)
async def test_a_claim_restored_with_its_annotation_never_loses_its_node(sim: Sim) -> None:
    """If the Node's owner is replaced before Kubernetes checks it, the claim is Ready again."""
    await sim.start_controller()
    old = await ready(sim)
    sim.api.collector.stop()
    restore(sim, NAME, adopt=old)
    await sim.until(lambda: sim.condition(NAME, "Ready") == "True", MINUTE, "it is Ready at once")
    (owner,) = node_of(sim)["metadata"]["ownerReferences"]
    assert owner["uid"] == uids(sim, [NAME])[0] != old
    sim.api.collector.start()
    await asyncio.sleep(10 * MINUTE)
    assert not deleting(node_of(sim))
    assert not deletes(sim)
    assert len(pool_calls(sim, "PUT")) == 1
    sim.crash()
    await sim.start_controller("ctl1")
    await asyncio.sleep(5 * MINUTE)
    assert sim.condition(NAME, "Ready") == "True"
    await sim.delete_claim(NAME)
    await sim.until(lambda: sim.claim(NAME) is None, 10 * MINUTE, "deleted, it goes")
    assert deletes(sim) == [NAME]
    await sim.settled(quiet_seconds=70)


@simulated(azure=FAST)
async def test_a_living_claims_uid_is_not_adopted(sim: Sim) -> None:
    """An adoption of an existing claim's UID is refused, reported on the claim, and creates no machine."""
    await sim.start_controller()
    living = await ready(sim)
    made = node_claim("thief")
    made["metadata"]["annotations"] = {labels.ADOPT: living}
    await sim.apply(made)
    await sim.until(lambda: claim_condition(sim, "Launched", "thief")[1] == "AdoptionRefused", 30, "it is reported")
    assert claim_condition(sim, "Launched", "thief")[2] == (
        f'cannot adopt: claim {NAME} is there and has UID "{living}"; correct or remove the annotation {labels.ADOPT}'
    )
    await asyncio.sleep(10 * MINUTE)
    assert not pool_calls(sim, "PUT", "thief")
    assert sim.condition(NAME, "Ready") == "True"
    sim.store.patch(CLAIMS, "thief", {"metadata": {"annotations": None}})
    await sim.until(lambda: sim.condition("thief", "Ready") == "True", 10 * MINUTE, "without it, it is served")


@simulated(azure=FAST, **NO_BOUND)
async def test_a_pool_that_is_named_after_the_old_uid_is_not_adopted(sim: Sim) -> None:
    """The claim cannot have it under its own pool's name: this is reported, and no second pool is created beside it."""
    name = "workspace-with-a-long-name"
    await sim.start_controller()
    old = await ready(sim, name)
    (pool,) = sim.pools_of(old)
    restore(sim, name, adopt=old)
    await sim.until(lambda: claim_condition(sim, "Launched", name)[1] == "AdoptionRefused", 30, "it is reported")
    assert claim_condition(sim, "Launched", name)[2] == (
        f'cannot adopt: agent pool {pool.name} has UID "{old}", and cannot be renamed to that of this claim;'
        f" correct or remove the annotation {labels.ADOPT}"
    )
    await asyncio.sleep(30)
    assert len(pool_calls(sim, "PUT", None)) == 1
    sim.store.patch(CLAIMS, name, {"metadata": {"annotations": None}})
    await sim.until(lambda: sim.condition(name, "Ready") == "True", 15 * MINUTE, "without it, it gets a machine")
    await sim.until(lambda: pool.name not in sim.cloud.pools, 15 * MINUTE, "the old one is collected")


# d), e) the CRD is deleted, and installed again


def delete_crd(sim: Sim) -> None:
    sim.store.delete(CRD_KEY, CLAIMS)


def install_crd(sim: Sim) -> None:
    (crd,) = [crd for crd in crds() if crd["metadata"]["name"] == CLAIMS]
    sim.store.create(CRD_KEY, crd)


@pytest.mark.matrix(quick=1)
@pytest.mark.parametrize("restarted", [False, True])
@simulated(azure=FAST, **NO_BOUND)
async def test_kubectl_delete_crd(sim: Sim, restarted: bool) -> None:
    """All claims are deleted with their CRD: no machine is removed until users confirm it."""
    names = await fleet(sim, 5)
    delete_crd(sim)
    if restarted:
        sim.crash()
        await sim.start_controller("ctl1")
    await asyncio.sleep(20 * MINUTE)
    assert all(deleting(sim.claim(name)) for name in names)
    assert not deletes(sim)
    assert not any(deleting(node_of(sim, name)) for name in names)
    assert events(sim, "RemovalRestricted")
    confirm(sim, names[:2])
    await sim.until(lambda: sim.claim(names[0]) is None and sim.claim(names[1]) is None, 10 * MINUTE, "two go")
    sim.crash("ctl1" if restarted else "ctl0")
    await sim.start_controller("ctl2")
    await asyncio.sleep(30 * MINUTE)
    assert sorted(deletes(sim)) == names[:2], "and no other, although few are left"


@simulated(azure=FAST, **NO_BOUND)
async def test_a_crd_with_a_lagging_watch_causes_no_removal(sim: Sim) -> None:
    """The deletion of the claims is observed before that of the CRD: the CRD is read before the first removal."""
    names = await fleet(sim, 5)
    lag_crds(sim)
    sim.crash()
    await sim.start_controller("ctl1")
    await asyncio.sleep(90)
    delete_crd(sim)
    await asyncio.sleep(20 * MINUTE)
    assert not deletes(sim)
    assert not any(deleting(node_of(sim, name)) for name in names)


def lag_crds(sim: Sim) -> None:
    """Fail lists and watches of CRDs, like a server short of resources; GETs succeed."""

    async def answer(call: Call, request: web.Request) -> web.StreamResponse | None:
        if call.target.kind != "customresourcedefinitions" or call.verb == "GET":
            return None
        return web.json_response({"kind": "Status", "code": 503, "reason": "ServiceUnavailable"}, status=503)

    sim.world.before.append(answer)


@pytest.mark.matrix(quick=1)
@pytest.mark.parametrize("count", [1, 5])
@simulated(azure=FAST, **NO_BOUND)
async def test_the_crd_is_reinstalled_empty(sim: Sim, count: int) -> None:
    """Claims disappear with their CRD, and the new CRD has none: every pool is kept until users adopt or release it."""
    names = await fleet(sim, count)
    before = uids(sim, names)
    sim.api.collector.stop()  # the Nodes stay, as while the controller manager still looks for the kind
    delete_crd(sim)
    for name in names:
        strip(sim, name)
    sim.api.collector.collect()
    await sim.until(lambda: sim.store.get(CRD_KEY, CLAIMS) is None, MINUTE, "the CRD is gone")
    await asyncio.sleep(10 * MINUTE)
    assert not deletes(sim), "while the kind is not served"
    install_crd(sim)
    await asyncio.sleep(20 * MINUTE)
    assert not deletes(sim), "while there are no claims"
    assert events(sim, "RemovalRestricted")
    for name, uid in zip(names, before, strict=True):
        made = node_claim(name)
        made["metadata"]["annotations"] = {labels.ADOPT: uid}
        await sim.apply(made)
    await sim.until(
        lambda: all(claim_condition(sim, "Launched", n)[0] == "True" for n in names), 2 * MINUTE, "all taken back"
    )
    await asyncio.sleep(5 * MINUTE)
    assert not deletes(sim)
    assert len(pool_calls(sim, "PUT", None)) == count


# f) lists of claims and Nodes that fail or are incomplete

EMPTY: Json = {"items": []}
KUBE_LISTS: list[tuple[str, int, Json | None]] = [
    ("fail", 500, {"kind": "Status", "code": 500, "reason": "InternalError"}),
    ("are not found", 404, None),
    ("come back empty", 200, EMPTY),
]


def mislead(sim: Sim, kind: str, status: int, body: Json | None, who: str) -> Callable[[], None]:
    """Answer this process's lists of that kind so, and its watches with an error, until the returned call."""

    async def answer(call: Call, _: web.Request) -> web.StreamResponse | None:
        if (call.who, call.target.kind) != (who, kind) or call.verb not in ("LIST", "WATCH"):
            return None
        if call.verb == "WATCH" and status == 200:
            return None
        if body is None:
            return web.Response(text="404 page not found\n", status=status)
        kinds = {"nodeclaims": ("karpenter.sh/v1", "NodeClaimList"), "nodes": ("v1", "NodeList")}
        version, name = kinds[kind]
        reported = body
        if status == 200:
            meta = {"resourceVersion": str(sim.store.revision)}
            reported = {**body, "apiVersion": version, "kind": name, "metadata": meta}
        return web.json_response(reported, status=status)

    sim.world.before.append(answer)
    return lambda: sim.world.before.remove(answer)


@pytest.mark.matrix(quick=2)
@pytest.mark.parametrize("kind", ["nodeclaims", "nodes"])
@pytest.mark.parametrize(("case", "status", "body"), KUBE_LISTS, ids=[row[0] for row in KUBE_LISTS])
@simulated(azure=FAST)
async def test_lists_of_the_api_server(sim: Sim, kind: str, case: str, status: int, body: Json | None) -> None:
    """A process whose first lists fail or are empty removes nothing, with few machines or many."""
    names = await fleet(sim, 2)
    before = uids(sim, names)
    await sim.stop_controller()
    stop = mislead(sim, kind, status, body, "ctl1")
    await sim.start_controller("ctl1")
    await asyncio.sleep(20 * MINUTE)
    assert not deletes(sim), case
    assert not any(deleting(claim) for claim in sim.store.list(CLAIMS))
    stop()
    sim.crash("ctl1")
    await sim.start_controller("ctl2")
    await unharmed(sim, names, before)


@simulated(azure=FAST, **NO_BOUND)
async def test_a_kind_that_is_not_served_any_more_is_no_empty_list(sim: Sim) -> None:
    """After claims were observed, every list and watch answers 404: no orphan is collected meanwhile."""
    names = await fleet(sim, 2)
    stop = mislead(sim, "nodeclaims", 404, None, "ctl0")
    for link in sim.network.links("ctl0", KUBE_HOST):
        link.server.abort()
    strip(sim, names[0])
    await asyncio.sleep(15 * MINUTE)
    assert not deletes(sim)
    stop()
    await sim.until(lambda: deletes(sim) == names[:1], 5 * MINUTE, "once it is served, the orphan goes")
    assert sim.condition(names[1], "Ready") == "True"


# g) responses of ARM about pools, group and cluster

ARM_LIES: list[tuple[str, Fault]] = [
    ("LIST fails", Fault(verb="LIST", times=ALWAYS, answer=errors.html(503))),
    ("LIST is a 404 of the cluster", Fault(verb="LIST", times=ALWAYS, answer=errors.cluster_not_found("rg", "aks"))),
    ("LIST is empty", Fault(verb="LIST", times=ALWAYS, answer=errors.Answer(200, {"value": []}))),
    ("everything is a 404 of the cluster", Fault(times=ALWAYS, answer=errors.cluster_not_found("rg", "aks"))),
    ("everything is a 404 of the group", Fault(times=ALWAYS, answer=errors.parent_not_found("read", FAST.cluster_id))),
]


@pytest.mark.parametrize(("case", "fault"), ARM_LIES, ids=[row[0] for row in ARM_LIES])
@simulated(azure=FAST)
async def test_arm_errors_prove_no_absence(sim: Sim, case: str, fault: Fault) -> None:
    """No such response removes a claim, even if its Node is NotReady at that time."""
    names = await fleet(sim, 2)
    before = uids(sim, names)
    sim.cloud.faults.append(replace(fault, seen=0))
    sim.nodes.set_ready(node_name(sim, names[0]), ready=False)
    await asyncio.sleep(8 * MINUTE)
    assert not deletes(sim), case
    assert uids(sim, names) == before
    assert not any(deleting(claim) for claim in sim.store.list(CLAIMS))
    heal(sim)
    sim.nodes.set_ready(node_name(sim, names[0]), ready=True)
    await unharmed(sim, names, before)


@simulated(azure=FAST)
async def test_a_list_that_ends_after_its_first_page(sim: Sim) -> None:
    """A missing nextLink hides pools from the list: a GET finds them, and nothing is removed."""
    names = await fleet(sim, 2)
    before = uids(sim, names)
    sim.cloud.configure(page_size=1)
    forget_next_link(sim)
    sim.nodes.set_ready(node_name(sim, names[1]), ready=False)
    await asyncio.sleep(8 * MINUTE)
    assert not deletes(sim)
    assert uids(sim, names) == before
    sim.world.after.clear()
    sim.cloud.configure(page_size=100)
    sim.nodes.set_ready(node_name(sim, names[1]), ready=True)
    await unharmed(sim, names, before)


def forget_next_link(sim: Sim) -> None:
    """Remove nextLink from pages of pools."""

    async def cut(call: Call, response: web.StreamResponse) -> None:
        if call.system == "arm" and call.verb == "LIST" and isinstance(response, web.Response):
            response.text = (response.text or "").replace('"nextLink"', '"lostLink"')

    sim.world.after.append(cut)


# h) genuine orphans are removed


@simulated(azure=FAST)
async def test_one_stripped_finalizer_is_collected_within_minutes(sim: Sim) -> None:
    """The pool, then the Node of the stripped claim are removed, and no others."""
    names = await fleet(sim, 4)
    strip(sim, names[0])
    await sim.until(lambda: names[0] not in sim.cloud.pools, 5 * MINUTE, "the pool is gone")
    await sim.until(lambda: not sim.nodes_of(names[0]), 5 * MINUTE, "its Node is gone")
    assert deletes(sim) == names[:1]
    assert well(sim, names[1:])
    await sim.settled(quiet_seconds=70)


@simulated(azure=FAST, nodes=NodeSettings(node_manager_seconds=3600.0))
async def test_three_stripped_finalizers_are_collected_whole(sim: Sim) -> None:
    """A machine counts once: its Node, which outlives the pool, does not count as a second removal."""
    names = await fleet(sim, 5)
    for name in names[:3]:
        strip(sim, name)
    await sim.until(lambda: not any(sim.nodes_of(name) for name in names[:3]), 10 * MINUTE, "all three are gone")
    assert sorted(deletes(sim)) == names[:3]
    assert not events(sim, "RemovalRestricted")
    assert well(sim, names[3:])


@simulated(azure=FAST)
async def test_one_node_deleted_by_hand_passes_at_once(sim: Sim) -> None:
    """Claim and pool are removed within a minute, after the drain."""
    names = await fleet(sim, 4)
    await sim.delete_node(node_name(sim, names[0]))
    await sim.until(lambda: deletes(sim) == names[:1], MINUTE, "the DELETE is sent")
    await sim.until(lambda: sim.claim(names[0]) is None, 5 * MINUTE, "its claim is gone")
    assert well(sim, names[1:])


# i) how the circuit breaker closes


@simulated(azure=FAST)
async def test_four_of_ten_pools_deleted_on_the_portal_at_once(sim: Sim) -> None:
    """The circuit breaker keeps all four claims; confirmed by name, these four are removed, and no other."""
    names = await fleet(sim, 10)
    for name in names[:4]:
        sim.cloud.delete_pool_by_hand(name)
    await asyncio.sleep(20 * MINUTE)
    assert len(sim.store.list(CLAIMS)) == 10
    assert not any(deleting(claim) for claim in sim.store.list(CLAIMS))
    assert events(sim, "RemovalRestricted")
    confirm(sim, names[:4])
    await sim.until(lambda: len(sim.store.list(CLAIMS)) == 6, 5 * MINUTE, "the four go")
    assert not deletes(sim)
    assert well(sim, names[4:])
    await sim.settled(quiet_seconds=70)


@simulated(azure=FAST, **NO_BOUND)
async def test_a_confirmation_passes_what_it_names_until_it_ends(sim: Sim) -> None:
    """Of five orphans the two confirmed are removed; a confirmation that is expired or malformed has no effect."""
    names = await fleet(sim, 8)
    for name in names[:6]:
        strip(sim, name)
    annotate_lease(sim, "yes, all of them")
    await asyncio.sleep(5 * MINUTE)
    confirm(sim, names[:6], seconds=-1.0)
    await asyncio.sleep(5 * MINUTE)
    assert not deletes(sim)
    confirm(sim, names[:2])
    await sim.until(lambda: len(deletes(sim)) == 2, 2 * MINUTE, "two go")
    await asyncio.sleep(20 * MINUTE)
    assert sorted(deletes(sim)) == names[:2]
    assert well(sim, names[6:])


@simulated(azure=FAST, **NO_BOUND)
async def test_the_circuit_breaker_is_lifted_by_the_claims_return(sim: Sim) -> None:
    """Four of five claims are restored and adopted: the remaining candidate is below the limit and is removed."""
    names = await fleet(sim, 5)
    old = [restore(sim, name) for name in names[:4]]
    strip(sim, names[4])
    await asyncio.sleep(5 * MINUTE)
    assert not deletes(sim)
    for name, uid in zip(names[:4], old, strict=True):
        adopt(sim, name, uid)
    await sim.until(lambda: deletes(sim) == names[4:], 5 * MINUTE, "only the orphan goes")
    await asyncio.sleep(15 * MINUTE)
    assert deletes(sim) == names[4:]


@pytest.mark.parametrize("end", ["killed", "killed at the DELETE", "stopped"])
@simulated(lease=SHIPPED_LEASE, azure=FAST, **NO_BOUND)
async def test_the_limit_holds_across_changes_of_leader(sim: Sim, end: str) -> None:
    """Of 12 machines, 3 may be removed by inference in ten minutes; each three deleted Nodes meet a new leader."""
    names = await fleet(sim, 12)
    await asyncio.sleep(2 * MINUTE)
    who = "ctl0"
    for first in range(0, 12, 3):
        for name in names[first : first + 3]:
            await sim.delete_node(node_name(sim, name))
        if end == "killed at the DELETE" and not first:
            await sim.until(lambda: any(deleting(sim.claim(n)) for n in names), 60, "a claim is deleted")
        else:
            await asyncio.sleep(45)
        if end == "stopped":
            await sim.stop_controller(who)
            await sim.start_controller(f"{who}'")
        else:
            sim.replace_controller(who)
        who += "'"
        await asyncio.sleep(MINUTE)
    removed = [name for name in names if sim.claim(name) is None or deleting(sim.claim(name))]
    assert len(removed) == 3
    await asyncio.sleep(15 * MINUTE)
    removed = [name for name in names if sim.claim(name) is None or deleting(sim.claim(name))]
    assert len(removed) == 3, "nine candidates at once exceed the limit whenever they were observed"


@simulated(azure=FAST)
async def test_a_restart_lists_all_pools_and_claims_before_it_deletes(sim: Sim) -> None:
    """Six Nodes are deleted while no controller runs: the next process keeps all of them, in any order."""
    names = await fleet(sim, 6)
    sim.crash()
    for name in names:
        await sim.delete_node(node_name(sim, name))
    await sim.start_controller("ctl1")
    await asyncio.sleep(15 * MINUTE)
    assert not deletes(sim)
    assert not any(deleting(claim) for claim in sim.store.list(CLAIMS))
