"""KAITO, races and removal: with concurrent writes and any loss, one machine is replaced by exactly one.

K8, K9, K13, K14, K17 and K18 of docs/references/kaito.md#contract, and the replacement of a machine of a Workspace and
of a RAGEngine. The others are in `test_kaito.py`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from controllers.model.policy import Policy
from provisioner.api import labels
from provisioner.simulator.audit_log import CURRENT_CALL
from provisioner.simulator.azure import faults
from provisioner.simulator.azure.faults import Fault
from tests.world import kaito_predicates
from tests.world.claims import arm_calls, condition, node_of, puts, ready, versions, wait_for_condition, word
from tests.world.harness import node_claim, simulate, simulated
from tests.world.kaito_actor import NODES, at_work
from tests.world.kaito_stage import Most, actor_of, api_of, claims_of, serves
from tests.world.nodeclaim.common import STEPS, gaps
from tests.world.transcript import FAST, deleting, run_pod

from .common import OWNERS, WORKSPACE, claim_deleted, pool_deleted

HOUR_SECONDS = 3600.0
LEASES = "leases.coordination.k8s.io"


# Concurrent writes


@pytest.mark.matrix(quick=1)
@pytest.mark.parametrize("rounds", [200, 1000])
def test_k8_races_for_a_node_lose_no_key(rounds: int) -> None:
    """Hundreds of times KAITO updates a Node with its label while the controller patches its own: no key is lost.

    In each round another client removes both labels, so that both sides write; KAITO reads before that write
    and sends its PUT after a random delay. Many 409s show that the writes overlap.
    """
    key, value = kaito_predicates.ACCELERATOR
    refused, lost = [0], list[Any]()

    async def story(sim) -> None:
        await sim.start_controller()
        await sim.apply(node_claim("gpu1"))
        await ready(sim, "gpu1")
        name, api = await node_of(sim, "gpu1"), api_of(sim)

        def note(event, kind, node, before) -> None:
            if kind != "nodes" or event != "MODIFIED" or CURRENT_CALL.get() is None:
                return
            for part in ("labels", "annotations"):
                had, has = before["metadata"].get(part) or {}, node["metadata"].get(part) or {}
                lost.extend(had.keys() - has.keys())
            lost.extend(set(before["metadata"].get("finalizers") or ()) - set(node["metadata"].get("finalizers") or ()))

        def whole():
            meta = sim.store.get("nodes", name)["metadata"]
            ours = labels.INITIALIZED in meta["labels"] and labels.FINALIZER in meta.get("finalizers", [])
            return ours and meta["labels"].get(key) == value

        async def kaito_labels(number) -> None:
            while not kaito_predicates.is_labelled(node := await api.get(NODES, name) or {}):
                await asyncio.sleep(number % 5 * 0.003)
                if not await api.label(node):
                    refused[0] += 1

        sim.store.subscribe(note)
        for number in range(rounds):
            taken: dict[str, Any] = {
                "labels": {key: None, labels.INITIALIZED: None, f"example.com/{number % 20}": str(number)}
            }
            if number % 4 == 0:
                taken["finalizers"] = ["example.com/stranger"]
            sim.store.patch("nodes", name, {"metadata": taken})
            await kaito_labels(number)
            await sim.until(whole, 5, f"round {number}: both have written")
        kept = sim.store.get("nodes", name)["metadata"]["labels"]
        assert [kept[f"example.com/{n}"] for n in range(20)] == [str(rounds - 20 + n) for n in range(20)]
        written = [call.who for call in sim.audit_log.calls(kind="nodes", name=name) if call.is_write]
        assert min(written.count("kaito"), written.count("ctl0")) >= rounds
        assert sim.condition("gpu1", "Ready") == "True"

    simulate(story)
    assert lost == []
    assert refused[0] >= rounds // 10


# Going


@pytest.mark.parametrize("pods", [0, 3])
@simulated(azure=FAST)
async def test_k9_a_deleting_claim_is_not_replaced(sim, pods) -> None:
    """It is gone after its drain, ARM's DELETE and a few seconds; then KAITO creates exactly one."""
    await sim.start_controller()
    workspace = actor_of(sim, WORKSPACE)
    async with at_work(workspace):
        await serves(sim, workspace)
        [claim] = claims_of(sim, WORKSPACE)
        name = claim["metadata"]["name"]
        node = await node_of(sim, name)
        for number in range(pods):
            run_pod(sim, f"pod{number}", node)
        begun = sim.now
        await sim.delete_claim(name)
        await sim.until(lambda: sim.claim(name) is None, 300, "the claim is gone")
        drain, delete, slack = 10.0 if pods else 0.0, FAST.delete_seconds[1], 12.0
        assert sim.now - begun <= drain + delete + slack
        assert claims_of(sim, WORKSPACE) == []
        await sim.until(lambda: claims_of(sim, WORKSPACE), 5, "KAITO makes another")
        await serves(sim, workspace)
        assert len(sim.cloud.put_log) == 2


async def before_the_put(sim, name) -> None:
    """The controller has the claim and has sent no PUT: the cluster is stopped."""
    await wait_for_condition(sim, name, "Launched", "Unknown", "ClusterNotRunning", within_seconds=10)


async def during_the_put(sim, name) -> None:
    await sim.until(lambda: puts(sim, name), 10, "the PUT is on its way")
    assert name not in sim.cloud.pools


async def without_a_node(sim, name) -> None:
    sim.nodes.never_register(name)
    await sim.until(lambda: sim.condition(name, "Launched") == "True", 300, "the pool runs")
    assert not sim.nodes_of(name)


async def registered(sim, name) -> None:
    await sim.until(lambda: sim.condition(name, "Registered") == "True", 300, "the Node is registered")
    assert sim.condition(name, "Ready") != "True"


async def not_ready(sim, name) -> None:
    await ready(sim, name)
    sim.nodes.set_ready(await node_of(sim, name), False)
    await wait_for_condition(sim, name, "Initialized", "False", "NodeNotReady", within_seconds=5)


async def repairing(sim, name) -> None:
    """The Node is dead for long enough to be replaced; a protected pod blocks its drain."""
    await ready(sim, name)
    node = await node_of(sim, name)
    run_pod(sim, "training", node, annotations={labels.DO_NOT_DISRUPT: "true"})
    sim.nodes.set_ready(node, None)
    await sim.until(lambda: deleting(sim.claim(name)), 1800, "the claim is being repaired")
    assert labels.REPAIR_DRAIN_UNTIL in sim.claim(name)["metadata"]["annotations"]
    assert sim.cloud.pools[name].state == "Succeeded"


PHASES: dict[str, Callable[[Any, str], Awaitable[object]]] = {
    "before the PUT": before_the_put,
    "during the PUT": during_the_put,
    "Succeeded without a Node": without_a_node,
    "Registered": registered,
    "Ready": ready,
    "NotReady": not_ready,
    "repairing": repairing,
}


@pytest.mark.matrix(quick=2)
@pytest.mark.parametrize("phase", PHASES)
@OWNERS
@simulated(azure=FAST)
async def test_k14_nothing_is_left_of_a_deleted_owner(sim, owner, phase) -> None:
    """KAITO deletes its claims in any phase: no pool, Node, claim or lease of a Node is left."""
    if phase == "before the PUT":
        sim.cloud.cluster_power = "Stopped"
    if phase == "during the PUT":
        sim.cloud.faults.append(Fault(verb="PUT", slow_seconds=6.0))

    def heartbeat(event, kind, node, _) -> None:
        if (event, kind) == ("ADDED", "nodes"):
            meta = node["metadata"]
            owned = {"apiVersion": "v1", "kind": "Node", "name": meta["name"], "uid": meta["uid"]}
            lease = {"metadata": {"name": meta["name"], "ownerReferences": [owned]}, "spec": {}}
            sim.store.create(LEASES, lease, "kube-node-lease")

    sim.store.subscribe(heartbeat)
    await sim.start_controller()
    async with at_work(actor_of(sim, owner)):
        [claim] = await sim.until(lambda: claims_of(sim, owner), 30, "KAITO has made its claim")
        name = claim["metadata"]["name"]
        await PHASES[phase](sim, name)
    beats = bool(sim.nodes_of(name))
    assert beats == bool([one for one in sim.store.list(LEASES, "kube-node-lease") if name in str(one)])
    await api_of(sim).delete_claims(owner)
    await sim.until(lambda: not claims_of(sim, owner), 900, "the claims are gone")
    await sim.settled(quiet_seconds=70.0)
    assert sorted(sim.cloud.pools) == ["system", "theirs"]
    assert {node["metadata"]["labels"]["agentpool"] for node in sim.store.list("nodes")} <= {"system", "theirs"}
    assert not [one for one in sim.store.list(LEASES, "kube-node-lease") if name in str(one)]


# Losing the Node


@pytest.mark.parametrize("state", [False, None])
@simulated()
async def test_k13_an_unusable_node_changes_readiness_in_one_write(sim, state) -> None:
    """Initialized and Ready become False in one write within 5 s, and True in one, with no write between.

    The number of GPUs of a Node that is Ready again can be that of before a restart: it counts after half a minute.
    """
    await sim.start_controller()
    await sim.apply(node_claim("gpu1"))
    await ready(sim, "gpu1")
    [node] = sim.nodes_of("gpu1")
    await asyncio.sleep(600)
    seen, lost = versions(sim, "gpu1"), sim.now
    sim.nodes.set_ready(node["metadata"]["name"], state)
    await asyncio.sleep(300)
    [down] = seen
    assert down.at - lost <= 5
    assert word(down.obj, "Initialized") == ("False", "NodeNotReady")
    assert word(down.obj, "Ready") == ("False", "UnhealthyDependents")
    cause = "KubeletNotReady" if state is False else "NodeStatusUnknown"
    reported = condition(down.obj, "Initialized")["message"]
    assert reported.startswith(f"Node status is NotReady ({cause}) since 12:")
    back = sim.now
    sim.nodes.set_ready(node["metadata"]["name"], True)
    await asyncio.sleep(300)
    [_, up] = seen
    assert up.at - back <= Policy().gpu_stale_seconds + 5
    assert [word(up.obj, kind)[0] for kind in ("Initialized", "Ready")] == ["True", "True"]


@simulated()
async def test_k13_a_slow_node_controller_causes_no_further_write(sim) -> None:
    """A Node that is Ready while its not-ready taints remain causes no write until they are removed."""
    await sim.start_controller()
    await sim.apply(node_claim("gpu1"))
    await ready(sim, "gpu1")
    [node] = sim.nodes_of("gpu1")
    name = node["metadata"]["name"]
    seen = versions(sim, "gpu1")
    sim.nodes.set_ready(name, None)
    await asyncio.sleep(60)
    tainted = sim.store.get("nodes", name)["spec"]["taints"]
    sim.nodes.set_ready(name, True)
    sim.store.patch("nodes", name, {"spec": {"taints": tainted}})
    await asyncio.sleep(5)
    sim.nodes.set_ready(name, True)
    await asyncio.sleep(60)
    assert [word(one.obj, "Ready")[0] for one in seen] == ["False", "True"]


# One replacement


async def node_not_ready(sim, name) -> None:
    """The Node is NotReady for five minutes."""
    node = await node_of(sim, name)
    sim.nodes.set_ready(node, False)
    await asyncio.sleep(300)
    sim.nodes.set_ready(node, True)


async def node_deleted(sim, name) -> None:
    await sim.delete_node(await node_of(sim, name))


# What happens, how many claims KAITO makes in all, and how many a RAGEngine has at once: it does not wait for one that
# is going and still says Initialized, and so makes its replacement a removal early. That is its own formula.
LOSSES = [
    ("the Node is not Ready for a while", node_not_ready, 1, 1),
    ("the Node is deleted", node_deleted, 2, 1),
    ("the pool is deleted on the portal", pool_deleted, 2, 1),
    ("the claim is deleted", claim_deleted, 2, 2),
]


@pytest.mark.matrix(quick=2)
@pytest.mark.parametrize("restarted", [False, True], ids=["undisturbed", "the controller restarts"])
@pytest.mark.parametrize("loss", LOSSES, ids=[row[0] for row in LOSSES])
@OWNERS
@simulated(azure=FAST)
async def test_one_machine_is_replaced_by_one(sim, owner, loss, restarted) -> None:
    """However its machine is lost, KAITO ends with exactly one, and never has a second that is not deleting."""
    case, lose, made, at_once = loss
    most_at_once = at_once if owner.kind == "ragengine" else 1
    await sim.start_controller(elect=False)
    actor = actor_of(sim, owner)
    async with at_work(actor):
        await serves(sim, actor)
        most = Most(sim)
        [claim] = claims_of(sim, owner)
        await asyncio.sleep(120)
        await lose(sim, claim["metadata"]["name"])
        if restarted:
            sim.crash()
            await sim.start_controller("ctl1", elect=False)
        await asyncio.sleep(1200)
        await serves(sim, actor, within_seconds=1)
        assert len(claims_of(sim, owner)) == 1
        assert len([pool for pool in sim.cloud.pools.values() if pool.tags]) == 1
        assert len(sim.cloud.put_log) == made
        assert (most.staying, most.claims, most.pools) == (1, most_at_once, most_at_once), case


# Failures and surplus claims


@OWNERS
@simulated()
async def test_k17_a_claim_over_quota_is_kept_and_retried_with_backoff(sim, owner) -> None:
    """An hour without quota costs one PUT per backoff step; KAITO shows the cause and creates no other claim."""
    sim.cloud.faults.append(faults.quota_preflight())
    await sim.start_controller(elect=False)
    actor = actor_of(sim, owner)
    async with at_work(actor):
        [claim] = await sim.until(lambda: claims_of(sim, owner), 5, "KAITO has made its claim")
        name = claim["metadata"]["name"]
        reported = await wait_for_condition(sim, name, "Launched", "False", "QuotaExceeded", within_seconds=5)
        assert reported["message"].startswith("ErrCode_InsufficientVCPUQuota: standardNCADSA100v4Family cores quota")
        assert "az vm list-usage -l westeurope" in reported["message"]
        assert kaito_predicates.error_of(claims_of(sim, owner)) == f"QuotaExceeded: {reported['message']}"
        await asyncio.sleep(HOUR_SECONDS)
        assert gaps(puts(sim, name)) == pytest.approx(STEPS, abs=1.0)
        assert set(arm_calls(sim, name)) == {"PUT"}
        assert [one["metadata"]["uid"] for one in claims_of(sim, owner)] == [claim["metadata"]["uid"]]
        assert word(sim.claim(name), "Launched") == ("False", "QuotaExceeded")
        sim.cloud.faults.clear()
        await serves(sim, actor, within_seconds=1000)
        assert {put.pool for put in sim.cloud.put_log} == {name}


async def expectation_expires(sim, workspace) -> None:
    """KAITO's cache shows the first claim more than five minutes late."""
    workspace.lag_seconds = 400.0


async def restarts(sim, workspace) -> None:
    """KAITO restarts with a cache that is a minute behind."""
    await serves(sim, workspace)
    workspace.lag_seconds = 60.0
    workspace.restart()


@pytest.mark.parametrize("cause", [expectation_expires, restarts])
@simulated(azure=FAST)
async def test_k18_a_surplus_claim_is_a_claim_of_its_own(sim, cause) -> None:
    """If KAITO creates a second claim, both get machines with separate names.

    One of them can be deleted without an effect on the other.
    """
    await sim.start_controller(elect=False)
    workspace = actor_of(sim, WORKSPACE)
    async with at_work(workspace):
        await cause(sim, workspace)
        await sim.until(lambda: len(claims_of(sim, WORKSPACE)) == 2, 900, "KAITO makes a surplus claim")
        first, second = (claim["metadata"]["name"] for claim in claims_of(sim, WORKSPACE))
        for name in (first, second):
            await ready(sim, name)
        await serves(sim, workspace)
        await asyncio.sleep(600)
        assert len(claims_of(sim, WORKSPACE)) == 2
        assert sorted(put.pool for put in sim.cloud.put_log) == sorted((first, second))
        kept, seen = sim.claim(second), versions(sim, second)
        await sim.delete_claim(first)
        await sim.until(lambda: sim.claim(first) is None, 600, "the surplus claim is gone")
        await asyncio.sleep(600)
        assert (sim.claim(second), seen) == (kept, [])
        assert len(sim.cloud.put_log) == 2
