"""Incomplete pools: failed, canceled, without a Node or with two, modified or in an operation."""

import asyncio
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from controllers.model.policy import Policy
from provisioner.api import labels as own_labels
from provisioner.simulator.azure import agentpool, errors, faults
from provisioner.simulator.azure.faults import ALWAYS, Failure, Fault
from provisioner.simulator.azure.settings import AzureSettings
from provisioner.simulator.nodes.machine import NodeSettings
from tests.world.claims import (
    Json,
    arm_calls,
    condition,
    created,
    events,
    message,
    puts,
    ready,
    removed,
    versions,
    wait_for_condition,
)
from tests.world.harness import SIZE, Sim, node_claim, simulate, simulated
from tests.world.transcript import run_pod

from .common import choosing

pytestmark = pytest.mark.matrix(quick=0)

NAME = "gpu1"
MINUTE, HOUR_SECONDS = 60.0, 3600.0
BROKEN = faults.error("VMExtensionProvisioningError", "VM has reported a failure when processing extension 'vmssCSE'.")


def silent(times: int = 1) -> Fault:
    """Pools fail, and only their operation has the cause."""
    return Fault(verb="PUT", times=times, failure=Failure(error=BROKEN, silent=True))


def operations(sim: Sim) -> int:
    return sim.cloud.counts["OPERATION"]


# Failed without a cause


@simulated()
async def test_the_cause_of_a_failed_pool_is_requested_once(sim: Sim) -> None:
    """The cause is read from the operation of the PUT in one GET, and is on the claim before the pool is deleted."""
    sim.cloud.faults.append(silent())
    await sim.start_controller(elect=False)
    uid = (await sim.apply(node_claim(NAME)))["metadata"]["uid"]
    reported = await wait_for_condition(
        sim, NAME, "Launched", "False", "VMExtensionProvisioningError", within_seconds=60
    )
    assert reported["message"].startswith("VMExtensionProvisioningError: VM has reported a failure")
    assert "DELETE" not in arm_calls(sim, NAME)
    assert operations(sim) == 1
    assert await ready(sim, NAME) == uid
    first, second = puts(sim, NAME)
    assert second - first >= 300.0
    assert operations(sim) == 1
    await removed(sim, NAME)
    await sim.settled()


@simulated()
async def test_a_restart_loses_the_cause_and_reports_it(sim: Sim) -> None:
    """A restart loses the operation's URL: the claim states an unknown cause, and the pool is created again."""
    sim.cloud.faults.append(silent(times=ALWAYS))
    await sim.start_controller(elect=False)
    await sim.apply(node_claim(NAME))
    await sim.until(lambda: created(sim, NAME), 5, "the PUT is accepted")
    sim.crash()
    await sim.start_controller("ctl1", elect=False)
    reported = await wait_for_condition(sim, NAME, "Launched", "False", "CreateFailed", within_seconds=60)
    assert reported["message"] == (
        "agent pool gpu1 ended in Failed; AKS names no cause on it, and its operation has none (any longer): "
        "see az aks nodepool show --name gpu1 and the activity log"
    )
    assert operations(sim) == 0
    await wait_for_condition(sim, NAME, "Launched", "False", "VMExtensionProvisioningError", within_seconds=600)
    assert (created(sim, NAME), operations(sim)) == (2, 1)


@simulated(azure=AzureSettings(operation_ttl_seconds=10.0))
async def test_an_operation_that_has_expired_is_no_word_about_the_pool(sim: Sim) -> None:
    """A 404 of the operation does not prove absence: the pool is reported as failed, removed and created again."""
    sim.cloud.faults.append(silent(times=2))
    await sim.start_controller(elect=False)
    uid = (await sim.apply(node_claim(NAME)))["metadata"]["uid"]
    await wait_for_condition(sim, NAME, "Launched", "False", "CreateFailed", within_seconds=60)
    assert operations(sim) == 1
    await wait_for_condition(sim, NAME, "Launched", "Unknown", "Creating")
    assert await ready(sim, NAME, within_seconds=1800) == uid
    first, second, third = puts(sim, NAME)
    assert (second - first >= 45 + 60, third - second >= 45 + 120) == (True, True)
    assert operations(sim) == 2
    changes = [change.what for change in sim.audit_log.changes(kind="pool", uid=uid)]
    assert changes.count("Creating") == 3


@pytest.mark.parametrize("answer", ["a page", "throttled", "nothing"])
@simulated()
async def test_an_operation_that_cannot_be_read_is_read_once(sim: Sim, answer: str) -> None:
    """Whatever the result of reading the operation, the pool is reported, removed and created again."""
    faulty = {
        "a page": Fault(verb="OPERATION", answer=errors.html(502)),
        "throttled": faults.throttled(verb="OPERATION", times=1),
        "nothing": Fault(verb="OPERATION", drop="before"),
    }[answer]
    sim.cloud.faults += [silent(), faulty]
    await sim.start_controller(elect=False)
    await sim.apply(node_claim(NAME))
    await wait_for_condition(sim, NAME, "Launched", "False", "CreateFailed", within_seconds=90)
    await ready(sim, NAME)
    assert operations(sim) == 1
    assert created(sim, NAME) == 2


@simulated()
async def test_an_aborted_creation_is_reported_and_repeated(sim: Sim) -> None:
    """After `az aks nodepool operation-abort` the pool is Canceled, which counts as a failed attempt."""
    await sim.start_controller(elect=False)
    uid = (await sim.apply(node_claim(NAME)))["metadata"]["uid"]
    await sim.until(lambda: created(sim, NAME), 5, "the PUT is accepted")
    await asyncio.sleep(20)
    sim.cloud.lifecycle.abort(NAME)
    reported = await wait_for_condition(sim, NAME, "Launched", "False", "OperationCanceled", within_seconds=90)
    assert reported["message"].startswith("OperationCanceled: ")
    assert await ready(sim, NAME, within_seconds=1200) == uid
    assert created(sim, NAME) == 2
    assert [one["reason"] for one in events(sim, NAME)].count("RemovingFailedPool") == 1
    await removed(sim, NAME)
    await sim.settled()


@pytest.mark.parametrize(
    "code",
    [
        "VMExtensionProvisioningError",
        "VMExtensionHandlerNonTransientError",
        "SomethingUnheardOf",
        "InternalOperationError",
        "OperationCanceled",
    ],
)
@simulated()
async def test_attempts_that_fail_get_rarer_and_never_stop(sim: Sim, code: str) -> None:
    """Whatever the code, two hours of failed attempts: 5, 10, 20, 40 min between them, one pool at a time."""
    failure = Failure(error=faults.error(code, "VM has reported a failure"))
    sim.cloud.faults.append(Fault(verb="PUT", times=ALWAYS, failure=failure))
    await sim.start_controller(elect=False)
    uid = (await sim.apply(node_claim(NAME)))["metadata"]["uid"]
    await asyncio.sleep(2 * HOUR_SECONDS)
    waits = [later - sooner for sooner, later in pairwise(puts(sim, NAME))]
    assert len(waits) == 4
    for waited, least in zip(waits, (300.0, 600.0, 1200.0, 2400.0), strict=True):
        assert least <= waited < least + 120.0
    assert condition(sim.claim(NAME), "Launched")["reason"] == code
    sim.cloud.faults.clear()
    assert await ready(sim, NAME, within_seconds=2 * HOUR_SECONDS) == uid


# Failed with a Node


UNREADY = Failure(error=faults.nodes_not_ready(), after_seconds=120.0, machine=True)
NEVER = NodeSettings(ready_seconds=(10 * HOUR_SECONDS, 10 * HOUR_SECONDS))


async def failed_with_a_node(sim: Sim, **fault: Any) -> str:
    """A claim whose pool fails although its machine has a Node that is not Ready; the claim's UID."""
    sim.cloud.faults.append(Fault(**{"verb": "PUT", "failure": UNREADY, **fault}))
    await sim.start_controller(elect=False)
    uid = (await sim.apply(node_claim(NAME)))["metadata"]["uid"]
    await sim.until(lambda: sim.nodes_of(NAME), 120, "the machine has a Node")
    return uid


def node_names(sim: Sim) -> list[str]:
    return [node["metadata"]["name"] for node in sim.nodes_of(NAME)]


@pytest.mark.parametrize("restart", [False, True])
@simulated(nodes=NEVER)
async def test_a_pool_that_fails_with_a_node_is_made_anew_after_both_are_gone(sim: Sim, *, restart: bool) -> None:
    """Pool and Node are deleted before the next PUT: the new machine has the same name, and the claim is kept."""
    uid = await failed_with_a_node(sim)
    (old,) = node_names(sim)
    first = sim.nodes_of(NAME)[0]["metadata"]["uid"]
    await wait_for_condition(sim, NAME, "Registered", "True", "Registered", within_seconds=90)
    reported = await wait_for_condition(sim, NAME, "Launched", "False", "NodesNotReady", within_seconds=120)
    assert reported["message"].startswith("NodesNotReady: Not all nodes reached Ready state")
    for kind in ("Registered", "Initialized"):
        assert condition(sim.claim(NAME), kind)["reason"] == "PoolFailed"
    if restart:
        sim.crash()
        await sim.start_controller("ctl1", elect=False)
    await sim.until(lambda: created(sim, NAME) == 2, 1200, "a second PUT is sent")
    assert sim.audit_log.deletion_order(uid) == ["pool", "node"]
    assert node_names(sim) == []
    await sim.until(lambda: sim.nodes_of(NAME), 600, "the next machine has a Node")
    assert node_names(sim) == [old]
    assert sim.nodes_of(NAME)[0]["metadata"]["uid"] != first
    sim.nodes.set_ready(old, True)
    sim.nodes.set_gpus(old, 1)
    assert await ready(sim, NAME) == uid
    await removed(sim, NAME)
    await sim.settled()


@simulated(nodes=NEVER)
async def test_a_node_that_lingers_holds_the_next_attempt(sim: Sim) -> None:
    """A Node of a failed pool that another finalizer keeps delays the next attempt, and the claim states it."""
    await failed_with_a_node(sim)
    (old,) = node_names(sim)
    sim.store.patch("nodes", old, {"metadata": {"finalizers": ["example.com/keep"]}})
    await wait_for_condition(sim, NAME, "Launched", "False", "NodesNotReady", within_seconds=240)
    await asyncio.sleep(HOUR_SECONDS)
    assert NAME not in sim.cloud.pools
    assert created(sim, NAME) == 1
    assert condition(sim.claim(NAME), "Launched")["reason"] == "NodesNotReady"
    sim.store.patch("nodes", old, {"metadata": {"finalizers": None}})
    await sim.until(lambda: created(sim, NAME) == 2, 60, "a second PUT is sent")


def ready_without_a_machine(sim: Sim) -> list[tuple[float, str]]:
    """When the claim has Ready=True although its pool is being deleted or gone; the list grows by itself."""
    found: list[tuple[float, str]] = []

    def look(_event: str, _kind: str, _obj: object, _before: object) -> None:
        pool = sim.cloud.pools.get(NAME)
        if sim.condition(NAME, "Ready") == "True" and (pool is None or pool.state == "Deleting"):
            found.append((round(sim.now, 1), pool.state if pool else "gone"))

    sim.store.subscribe(look)
    return found


@pytest.mark.parametrize("restart", [False, True])
@simulated(nodes=NEVER)
async def test_a_node_that_turns_ready_while_its_failed_pool_is_deleted_is_no_machine(
    sim: Sim, *, restart: bool
) -> None:
    """The DELETE was sent: Launched stays False, the claim is kept, and the next attempt follows."""
    uid = await failed_with_a_node(sim)
    await wait_for_condition(sim, NAME, "Registered", "True", "Registered", within_seconds=300)
    await sim.until(lambda: sim.cloud.pools[NAME].state == "Deleting", 600, "the DELETE is accepted")
    found = ready_without_a_machine(sim)
    (node,) = node_names(sim)
    await asyncio.sleep(5)
    if restart:
        sim.crash()
    sim.nodes.set_ready(node, True)
    sim.nodes.set_gpus(node, 1)
    if restart:
        await sim.start_controller("ctl1", elect=False)
    await asyncio.sleep(20)
    assert condition(sim.claim(NAME), "Launched")["status"] == "False"
    await sim.until(lambda: created(sim, NAME) == 2, HOUR_SECONDS / 2, "the next attempt")
    assert sim.claim(NAME)["metadata"]["uid"] == uid
    assert found == []


def test_a_machine_that_boots_slower_than_aks_waits_leads_to_a_second_one() -> None:
    """The Node turns Ready shortly after AKS gave up: the claim is Ready with the second machine."""

    async def story(sim: Sim) -> None:
        uid = await failed_with_a_node(sim)
        found = ready_without_a_machine(sim)
        await asyncio.sleep(HOUR_SECONDS / 2)
        assert await ready(sim, NAME) == uid
        assert created(sim, NAME) == 2
        assert found == []

    slow = NodeSettings(ready_seconds=(110.0, 110.0), gpu_seconds=(5.0, 5.0))
    simulate(story, seed=3, nodes=slow, azure=AzureSettings(delete_seconds=(240.0, 300.0)))


LATE = NodeSettings(ready_seconds=(500.0, 500.0))


@pytest.mark.parametrize("restart", [False, True])
@simulated(nodes=LATE)
async def test_the_second_machine_is_shown_with_its_own_zone(sim: Sim, *, restart: bool) -> None:
    """The Node of the failed pool was in zone 1, the machine is in zone 2: so say claim and Node."""
    sim.cloud.faults += [
        Fault(verb="PUT", zone="1", failure=UNREADY),
        faults.capacity("ZonalAllocationFailed", zone="1"),
    ]
    await sim.start_controller(elect=False)
    await sim.apply(choosing(NAME, SIZE, zones=["westeurope-1", "westeurope-2"]))
    await wait_for_condition(sim, NAME, "Registered", "True", "Registered", within_seconds=300)
    assert sim.claim(NAME)["metadata"]["labels"][own_labels.ZONE] == "westeurope-1"
    await sim.until(lambda: created(sim, NAME) >= 3, 3000, "the third attempt")
    assert own_labels.ZONE not in sim.claim(NAME)["metadata"]["labels"]
    if restart:
        sim.crash()
        await sim.until(
            lambda: any(own_labels.ZONE in node["metadata"]["labels"] for node in sim.nodes_of(NAME)), 900, "a zone"
        )
        await sim.start_controller("ctl1", elect=False)
    await ready(sim, NAME, within_seconds=3000)
    (node,) = sim.nodes_of(NAME)
    assert node["metadata"]["labels"][own_labels.ZONE] == "westeurope-2"
    assert sim.claim(NAME)["metadata"]["labels"][own_labels.ZONE] == "westeurope-2"


@simulated(nodes=LATE)
async def test_the_second_machine_is_shown_with_its_own_capacity_type(sim: Sim) -> None:
    """The first machine was a spot one and failed; claim, pool and Node of the second say on-demand.

    A label that the user wrote stays.
    """
    sim.cloud.faults += [
        Fault(verb="PUT", priority="Spot", failure=UNREADY),
        faults.capacity(priority="Spot"),
    ]
    await sim.start_controller(elect=False)
    claim = choosing(NAME, SIZE, terms=["spot", "on-demand"])
    claim["metadata"].setdefault("labels", {})[own_labels.ZONE] = "mine"
    await sim.apply(claim)
    await sim.until(lambda: sim.nodes_of(NAME), 300, "a Node")
    await ready(sim, NAME, within_seconds=6000)
    (node,) = sim.nodes_of(NAME)
    assert sim.cloud.pools[NAME].priority != "Spot"
    assert sim.cloud.pools[NAME].properties["nodeLabels"][own_labels.CAPACITY_TYPE] == "on-demand"
    assert node["metadata"]["labels"][own_labels.CAPACITY_TYPE] == "on-demand"
    assert node["metadata"]["labels"].get(own_labels.ZONE) != "mine"
    shown = sim.claim(NAME)["metadata"]["labels"]
    assert (shown[own_labels.CAPACITY_TYPE], shown[own_labels.ZONE]) == ("on-demand", "mine")


@simulated()
async def test_a_failed_pool_whose_node_is_ready_is_kept(sim: Sim) -> None:
    """A Ready Node of a failed pool is used, and is removed in order with its claim."""
    uid = await failed_with_a_node(sim)
    await sim.until(lambda: sim.cloud.pools[NAME].state == "Failed", 200, "the pool fails")
    assert await ready(sim, NAME) == uid
    await asyncio.sleep(HOUR_SECONDS)
    assert created(sim, NAME) == 1
    await removed(sim, NAME)
    assert sim.audit_log.deletion_order(uid) == ["pool", "node", "claim"]
    await sim.settled()


@pytest.mark.parametrize("restart", [False, True])
@simulated()
async def test_a_failed_pool_whose_node_is_ready_without_gpus_is_a_machine_like_others(
    sim: Sim, *, restart: bool
) -> None:
    """No plugin is installed: the claim states this and why the pool failed, and the machine waits for its GPUs."""
    sim.nodes.plugin_delay_seconds = 10 * HOUR_SECONDS
    uid = await failed_with_a_node(sim)
    await wait_for_condition(sim, NAME, "Initialized", "Unknown", "ResourceNotRegistered", within_seconds=600)
    await sim.until(lambda: "NodesNotReady" in message(sim, NAME, "Initialized"), 200, "the claim names the cause")
    assert "install one" in message(sim, NAME, "Initialized")
    (node,) = node_names(sim)
    run_pod(sim, "cpu-only", node)
    if restart:
        sim.crash()
        await sim.start_controller("ctl1", elect=False)
    await asyncio.sleep(4 * HOUR_SECONDS)
    assert condition(sim.claim(NAME), "Launched")["status"] == "True"
    assert not [c for c in sim.audit_log.calls(verb="POST", kind="pods") if c.target.name == "cpu-only"]
    sim.nodes.start_plugin(node)
    assert await ready(sim, NAME, within_seconds=600) == uid
    assert created(sim, NAME) == 1
    await removed(sim, NAME)
    await sim.settled()


def test_a_claim_with_a_failed_pool_and_its_node_can_be_deleted() -> None:
    """At every stage of the cleanup a deleted claim is removed with everything, in order, once."""

    for seconds in (0.0, 5.0, 60.0, 150.0, 300.0):

        async def story(sim: Sim, seconds: float = seconds) -> None:
            uid = await failed_with_a_node(sim, times=ALWAYS)
            await wait_for_condition(sim, NAME, "Launched", "False", "NodesNotReady", within_seconds=240)
            await asyncio.sleep(seconds)
            await removed(sim, NAME)
            assert sim.audit_log.deletion_order(uid)[:2] == ["pool", "node"]
            await sim.settled()

        simulate(story, nodes=NEVER)


# Changed by hand


def scale(sim: Sim, count: int) -> None:
    """`az aks nodepool scale`."""
    sim.cloud.lifecycle.update(NAME, {**sim.cloud.pools[NAME].properties, "count": count})


def relabel(sim: Sim, *, tags: Json | None = None, labels: Json | None = None) -> None:
    """`az aks nodepool update` with other tags, or other labels, than the pool has."""
    properties = dict(sim.cloud.pools[NAME].properties)
    if tags is not None:
        properties["tags"] = tags
    if labels is not None:
        properties["nodeLabels"] = labels
    sim.cloud.lifecycle.update(NAME, properties)


async def up(sim: Sim) -> str:
    """Start a controller and wait until a claim is Ready; its UID."""
    await sim.start_controller(elect=False)
    await sim.apply(node_claim(NAME))
    return await ready(sim, NAME)


def pool_writes(sim: Sim) -> list[str]:
    return [call.verb for call in sim.audit_log.writes(who="ctl0") if call.system == "arm"]


@simulated()
async def test_a_pool_scaled_to_nothing_waits_to_be_scaled_back(sim: Sim) -> None:
    """A pool scaled to 0: claim and pool are kept, the claim names the command, and is Ready after it."""
    uid = await up(sim)
    scale(sim, 0)
    reported = await wait_for_condition(sim, NAME, "Initialized", "False", "NodeLost", within_seconds=600)
    await sim.until(lambda: not sim.nodes_of(NAME), 600, "the Node is let go")
    await asyncio.sleep(HOUR_SECONDS)
    reported = condition(sim.claim(NAME), "Initialized")
    assert reported["reason"] == "NodeLost"
    assert reported["message"].endswith(
        "is deleted: agent pool gpu1 was scaled to 0: az aks nodepool scale --name gpu1 --node-count 1"
    )
    assert sim.condition(NAME, "Ready") == "False"
    (event,) = events(sim, NAME, "PoolChanged")
    assert "it has no machine" in event["message"]
    scale(sim, 1)
    assert await ready(sim, NAME) == uid
    assert pool_writes(sim) == ["PUT"]
    await removed(sim, NAME)
    assert sim.audit_log.deletion_order(uid)[-3:] == ["pool", "node", "claim"]
    await sim.settled()


@pytest.mark.parametrize("count", [2, 3])
@simulated()
async def test_surplus_machines_are_reported_and_deleted_with_the_claim(sim: Sim, count: int) -> None:
    """A pool that was scaled up is not scaled down: the claim stays Ready, an Event names count and command."""
    uid = await up(sim)
    mine = sim.claim(NAME)["status"]["nodeName"]
    scale(sim, count)
    await sim.until(lambda: len(sim.nodes_of(NAME)) == count, 600, "the other machines have Nodes")
    await asyncio.sleep(HOUR_SECONDS)
    assert sim.condition(NAME, "Ready") == "True"
    assert sim.claim(NAME)["status"]["nodeName"] == mine
    (event,) = events(sim, NAME, "PoolChanged")
    assert f"it has {count} machines instead of 1" in event["message"]
    assert pool_writes(sim) == ["PUT"]
    await removed(sim, NAME)
    assert sim.nodes_of(NAME) == []
    assert sim.audit_log.deletion_order(uid)[-1] == "claim"
    await sim.settled()


@simulated()
async def test_a_count_put_back_leaves_the_claim_as_it_was(sim: Sim) -> None:
    """The Node of a temporary second machine is removed without a change to the claim."""
    await up(sim)
    mine = sim.claim(NAME)["status"]["nodeName"]
    scale(sim, 2)
    await sim.until(lambda: len(sim.nodes_of(NAME)) == 2, 600, "the second machine has a Node")
    await sim.until(lambda: sim.cloud.pools[NAME].state == "Succeeded", 600, "the pool is at rest")
    seen = versions(sim, NAME)
    scale(sim, 1)
    await sim.until(lambda: len(sim.nodes_of(NAME)) == 1, 900, "the second Node is gone")
    await asyncio.sleep(5 * MINUTE)
    assert {condition(one.obj, "Ready").get("status") for one in seen} <= {"True"}
    assert sim.claim(NAME)["status"]["nodeName"] == mine


@simulated()
async def test_the_pods_of_both_machines_are_evicted(sim: Sim) -> None:
    """The second machine of a pool takes pods although its Node is not registered: both Nodes are drained."""
    await up(sim)
    scale(sim, 2)
    await sim.until(lambda: len(sim.nodes_of(NAME)) == 2, 600, "the second machine has a Node")
    await asyncio.sleep(MINUTE)
    for name in node_names(sim):
        run_pod(sim, f"on-{name}", name)
    await removed(sim, NAME)
    assert len(sim.audit_log.calls(who="ctl0", verb="POST", kind="pods")) == 2
    await sim.settled()


@simulated()
async def test_the_other_of_two_machines_is_kept_with_its_pods(sim: Sim) -> None:
    """A pool of two machines loses the first one: the claim goes on with the Node of the other, whose pods run on."""
    uid = await up(sim)
    mine = sim.claim(NAME)["status"]["nodeName"]
    (first,) = sim.cloud.pools[NAME].machines
    scale(sim, 2)
    await sim.until(lambda: len(sim.nodes_of(NAME)) == 2, 600, "the second machine has a Node")
    await sim.until(lambda: sim.cloud.pools[NAME].state == "Succeeded", 600, "the pool is at rest")
    (other,) = set(node_names(sim)) - {mine}
    run_pod(sim, "p", other)
    sim.cloud.lifecycle.delete_machines(NAME, (first,))
    await sim.until(lambda: len(sim.nodes_of(NAME)) == 1, 900, "the first Node is gone")
    await asyncio.sleep(5 * MINUTE)
    assert await ready(sim, NAME) == uid
    assert sim.claim(NAME)["status"]["nodeName"] == other
    assert pool_writes(sim) == ["PUT"]
    await removed(sim, NAME)
    assert node_names(sim) == []
    await sim.settled()


@pytest.mark.parametrize("what", ["tags stripped", "tags of another", "labels stripped", "labels of another"])
@simulated()
async def test_one_mark_is_enough(sim: Sim, what: str) -> None:
    """A pool with changed tags or labels is still owned: reported once, kept, and deleted with its claim."""
    key, other = ("karpenter.azure.com", "x")
    changes: dict[str, dict[str, Any]] = {
        "tags stripped": {"tags": {}},
        "tags of another": {"tags": {own_labels.TAG_CLAIM_UID: "another"}},
        "labels stripped": {"labels": {}},
        "labels of another": {"labels": {own_labels.CLAIM_UID: "another", key: other}},
    }
    changed = changes[what]
    uid = await up(sim)
    relabel(sim, **changed)
    await asyncio.sleep(HOUR_SECONDS)
    assert sim.condition(NAME, "Ready") == "True"
    (event,) = events(sim, NAME, "PoolChanged")
    assert f"its {'tags' if 'tags' in changed else 'node labels'} no longer name this claim" in event["message"]
    sim.crash()
    await sim.start_controller("ctl1", elect=False)
    await asyncio.sleep(10 * MINUTE)
    assert sim.condition(NAME, "Ready") == "True"
    await removed(sim, NAME)
    assert NAME not in sim.cloud.pools
    assert sim.audit_log.deletion_order(uid)[-3:] == ["pool", "node", "claim"]


@simulated()
async def test_a_node_whose_labels_went_with_its_pools_is_still_the_claims(sim: Sim) -> None:
    """AKS replaces a Node's labels with its pool's: the claim stays Ready, and its deletion removes the Node."""
    uid = await up(sim)
    (name,) = node_names(sim)
    relabel(sim, labels={own_labels.NODEPOOL: "kaito"})
    gone = dict.fromkeys((own_labels.CLAIM_UID, own_labels.KAITO_CREATION_TIMESTAMP))
    sim.store.patch("nodes", name, {"metadata": {"labels": gone}})
    await asyncio.sleep(HOUR_SECONDS)
    assert sim.condition(NAME, "Ready") == "True"
    await removed(sim, NAME)
    assert node_names(sim) == []
    assert NAME not in sim.cloud.pools
    assert [what for what in sim.audit_log.deletion_order(uid) if what != "node"] == ["pool", "claim"]
    await sim.settled()


# Worked on by AKS


@simulated()
async def test_an_upgrade_with_a_surge_machine_loses_nothing(sim: Sim) -> None:
    """A surge Node replaces the first one: the claim is kept, is Ready with the new Node, and sends nothing to ARM."""
    uid = await up(sim)
    old = sim.claim(NAME)["status"]["nodeName"]
    upgrading = sim.cloud.lifecycle.start_operation(sim.cloud.pools[NAME], "UpgradingNodeImageVersion", "updated")
    sim.cloud.add_machine(NAME)
    await sim.until(lambda: len(sim.nodes_of(NAME)) == 2, 300, "the surge machine has a Node")
    await asyncio.sleep(3 * MINUTE)
    assert sim.condition(NAME, "Ready") == "True"
    pool = sim.cloud.pools[NAME]
    sim.cloud.pool_store.put("updated", replace(pool, machines=pool.machines[1:]))
    await sim.until(lambda: len(sim.nodes_of(NAME)) == 1, 900, "the old machine's Node is gone")
    sim.cloud.lifecycle.end(upgrading.operation, "Succeeded")
    sim.cloud.pool_store.put("running", agentpool.settled(sim.cloud.pools[NAME], "Succeeded", "after"))
    assert await ready(sim, NAME) == uid
    new = sim.claim(NAME)["status"]["nodeName"]
    assert new != old
    assert pool_writes(sim) == ["PUT"]
    await removed(sim, NAME)
    await sim.settled()


# Pools that differ from the request


@simulated()
async def test_a_pool_without_a_node_is_reported_and_can_be_deleted(sim: Sim) -> None:
    """Without repair, a pool without a Node for an hour causes one Event; it goes with its claim."""
    sim.nodes.never_register(NAME)
    await sim.start_controller(elect=False, policy=Policy(node_repair=False))
    uid = (await sim.apply(node_claim(NAME)))["metadata"]["uid"]
    await wait_for_condition(sim, NAME, "Registered", "Unknown", "NodeNotFound")
    await asyncio.sleep(HOUR_SECONDS)
    reported = condition(sim.claim(NAME), "Registered")["message"]
    assert reported.endswith("; overdue: over 15 min")
    assert sim.condition(NAME, "Launched") == "True"
    assert [one["type"] for one in events(sim, NAME, "NodeNotFound")].count("Warning") == 1
    assert created(sim, NAME) == 1
    await removed(sim, NAME)
    assert sim.audit_log.deletion_order(uid) == ["pool", "claim"]
    await sim.settled()


@pytest.mark.parametrize("end", ["scaled back", "deleted"])
@simulated()
async def test_a_pool_that_comes_with_two_nodes_takes_neither(sim: Sim, end: str) -> None:
    """With two Nodes the claim names both and the command, and registers the one that remains."""
    sim.nodes.two_nodes(NAME)
    await sim.start_controller(elect=False)
    await sim.apply(node_claim(NAME))
    await sim.until(lambda: len(sim.nodes_of(NAME)) == 2, 600, "there are two Nodes")
    both = ", ".join(sorted(node_names(sim)))
    await asyncio.sleep(10 * MINUTE)
    reported = condition(sim.claim(NAME), "Registered")
    assert (reported["status"], reported["reason"]) == ("False", "MultipleNodesFound")
    assert reported["message"] == (
        f"Invariant violated, matched multiple nodes: {both}; az aks nodepool scale --name gpu1 --node-count 1,"
        " or delete this claim"
    )
    assert not sim.claim(NAME)["status"].get("nodeName")
    assert len(sim.nodes_of(NAME)) == 2
    if end == "scaled back":
        scale(sim, 2)
        await asyncio.sleep(2 * MINUTE)
        scale(sim, 1)
        await sim.until(lambda: len(sim.nodes_of(NAME)) == 1, 900, "one of them is gone")
        await ready(sim, NAME)
        assert sim.claim(NAME)["status"]["nodeName"] == node_names(sim)[0]
    await removed(sim, NAME)
    assert node_names(sim) == []
    await sim.settled()
