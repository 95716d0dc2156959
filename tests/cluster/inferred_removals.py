"""Cases in which inferred removals could delete healthy machines, on a real API server with its real garbage collector.

In each scenario all machines keep running; each pool is created once, and only those that users remove are deleted.
Each scenario has a cluster of its own, because the circuit breaker counts over all machines. The controller's times are
the real ones: `LOOKS_ON_SECONDS` is longer than any wait before an inference.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from provisioner.api import labels
from provisioner.simulator.azure import errors
from provisioner.simulator.azure.faults import ALWAYS, Fault
from tests.world.claims import events, ready
from tests.world.harness import node_claim
from tests.world.transcript import claim_condition, deleting, finalizers

from .charts import CRDS
from .realworld import CLAIMS, RealWorld
from .stories import WHOLE

Json = dict[str, Any]
Act = Callable[[RealWorld], Awaitable[None]]

LOOKS_ON_SECONDS = 75.0
PATIENCE_SECONDS = 150.0
CRD = f"{CRDS}/{CLAIMS}"
RELEASE_FLAG = "--i-know-the-pool-is-gone"


async def fleet(world: RealWorld, count: int) -> list[str]:
    """Start a controller and create so many Ready claims; returns their names."""
    await world.start_controller()
    names = [f"door{number}" for number in range(count)]
    for name in names:
        await world.apply(node_claim(name))
    for name in names:
        await ready(world, name)
    return names


def uid_of(world: RealWorld, name: str) -> str:
    """The UID of that claim; "" if it does not exist."""
    claim = world.claim(name)
    return claim["metadata"]["uid"] if claim is not None else ""


def node_of(world: RealWorld, name: str) -> Json:
    (node,) = world.nodes_of(name)
    return node


def accepted(world: RealWorld, verb: str) -> list[str]:
    """The pools of accepted requests of this verb."""
    return sorted(call.pool for call in world.cloud.requests if call.method == verb and call.status in (201, 202))


def restricted(world: RealWorld) -> bool:
    """Whether an Event reported that removals are restricted."""
    return any(one["reason"] == "RemovalRestricted" for one in world.store.list("events", "default"))


async def all_kept(world: RealWorld, names: list[str]) -> None:
    """While the controller could act on what it infers, no machine and no Node of it is deleted."""
    await asyncio.sleep(LOOKS_ON_SECONDS)
    world.check()
    assert accepted(world, "PUT") == names, world.describe()
    assert accepted(world, "DELETE") == [], world.describe()
    assert all(finalizers(node_of(world, name)) == [labels.FINALIZER] for name in names), world.describe()


async def taken_back(world: RealWorld, names: list[str]) -> None:
    """`adopt --all` gives every restored claim its machine; nothing is removed, and no pool is created."""
    ended = await world.command("adopt", "--all", "--yes")
    assert (ended.code, ended.err) == (0, ""), ended
    for name in names:
        await world.until(
            # the default binds the name of this round
            lambda name=name: claim_condition(world, "Launched", name)[0] == "True",  # type: ignore[misc]
            60,
            f"{name} has its machine",
        )
    await asyncio.sleep(15)
    ended = await world.command("gc")
    assert ended.out.startswith(f"nothing to remove: {len(names)} managed agent pools; "), ended.out
    assert accepted(world, "PUT") == names
    assert accepted(world, "DELETE") == []


async def goes(world: RealWorld, name: str) -> None:
    """A deleted claim is removed as usual."""
    await world.delete_claim(name)
    await world.until(lambda: world.claim(name) is None and not world.nodes_of(name), PATIENCE_SECONDS, f"{name} goes")
    assert accepted(world, "DELETE") == [name]


async def restored(world: RealWorld) -> None:
    """A backup restores four claims with new UIDs: Kubernetes deletes their Nodes, and no machine is lost."""
    names = await fleet(world, 4)
    for name in names:
        await world.strip(name)
        await world.apply(node_claim(name))
    await world.until(lambda: all(deleting(node_of(world, n)) for n in names), PATIENCE_SECONDS, "Nodes are collected")
    await all_kept(world, names)
    assert restricted(world), world.describe()
    table = await world.command("gc")
    assert "gpu-provisioner adopt --all" in table.out, table.out
    await taken_back(world, names)
    assert {claim_condition(world, "Registered", name)[1] for name in names} == {"NodeDeleting"}
    await goes(world, names[0])


async def crd_deleted(world: RealWorld) -> None:
    """`kubectl delete crd`: no claim was deleted by a user, so none is removed before `gc --confirm` annotates the
    Lease.
    """
    names = await fleet(world, 4)
    was = {name: uid_of(world, name) for name in names}
    await world.request("DELETE", CRD)
    await world.until(lambda: all(deleting(world.claim(name)) for name in names), 60, "the claims are deleting")
    await all_kept(world, names)
    assert restricted(world), world.describe()
    ended = await world.command("gc", "--confirm", "--yes")
    assert (ended.code, ended.err) == (0, ""), ended
    assert ended.out.splitlines()[-1].startswith("lease kube-system/gpu-provisioner-leader-election: the 4 removals")
    gone = world.audit_log.deletion_order
    for name in names:
        await world.until(lambda name=name: len(gone(was[name])) == len(WHOLE), PATIENCE_SECONDS, f"{name} goes")  # type: ignore[misc]  # the default binds the value of this round
        assert gone(was[name]) == WHOLE, world.describe()
    assert accepted(world, "DELETE") == names


async def crd_reinstalled(world: RealWorld) -> None:
    """Claims vanish with their CRD, and a new CRD has none: their machines wait for their owners' decision, however
    few.
    """
    names = await fleet(world, 2)
    await world.request("DELETE", CRD)
    for name in names:
        await world.strip(name)
    await world.unserved()
    await asyncio.sleep(10)
    await world.install_crds()
    await all_kept(world, names)
    assert restricted(world), world.describe()
    for name in names:
        await world.apply(node_claim(name))
    await taken_back(world, names)
    await goes(world, names[0])


async def stopped_then_lost(world: RealWorld) -> None:
    """`az aks stop` removes the Nodes, `start` restores them; then the cluster is deleted, and users release a
    claim.
    """
    names = await fleet(world, 4)
    before = [uid_of(world, name) for name in names]
    world.cloud.stop_cluster()
    await world.until(lambda: not any(world.nodes_of(n) for n in names), PATIENCE_SECONDS, "the Nodes are let go")
    for name in names:
        await world.until(
            # the default binds the name of this round
            lambda name=name: claim_condition(world, "Initialized", name)[1] == "NodeLost",  # type: ignore[misc]
            60,
            "it is reported",
        )
    world.cloud.start_cluster()
    for name in names:
        await ready(world, name)
    assert [uid_of(world, name) for name in names] == before
    assert accepted(world, "PUT") == names
    assert accepted(world, "DELETE") == []
    await _released(world, names[0])


async def _released(world: RealWorld, name: str) -> None:
    azure = world.cloud.settings
    gone = errors.cluster_not_found(azure.resource_group, azure.cluster)
    world.cloud.faults.append(Fault(times=ALWAYS, answer=gone))
    await world.delete_claim(name)
    early = await world.command("release", name, RELEASE_FLAG)
    assert (early.code, early.out) == (1, ""), early
    await asyncio.sleep(LOOKS_ON_SECONDS)
    assert labels.FINALIZER in finalizers(world.claim(name)), "an answer of that kind proves nothing to the controller"
    assert deleting(node_of(world, name))
    assert (await world.command("release", name)).code == 2, "--i-know-the-pool-is-gone is required"
    ended = await world.command("release", name, RELEASE_FLAG)
    assert (ended.code, ended.err) == (0, ""), ended
    assert "the managed cluster does not exist" in ended.out
    await world.until(lambda: world.claim(name) is None and not world.nodes_of(name), 30, "claim and Node are let go")
    (event,) = events(world, name, "FinalizerRemovedManually")
    assert event["message"].startswith("admin removed karpenter.sh/termination from ")
    world.cloud.delete_pool_by_hand(name)
    await world.until(lambda: name not in world.cloud.pools, 60, "its pool went with the cluster")


async def repaired(world: RealWorld) -> None:
    """A Node that has been NotReady for an hour is replaced after a restart too; the others stay unchanged."""
    names = await fleet(world, 4)
    name = names[0]
    uid, node = uid_of(world, name), node_of(world, name)["metadata"]["name"]
    world.nodes.set_ready(node, None)
    await world.until(lambda: claim_condition(world, "Initialized", name)[1] == "NodeNotReady", 60, "it is reported")
    world.crash()
    long_ago = (datetime.now(UTC) - timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    for resource, which in (("nodes", node), (CLAIMS, name)):
        found = world.store.get(resource, which)
        assert found is not None
        stated_of_it = [{**one, "lastTransitionTime": long_ago} for one in found["status"]["conditions"]]
        world.store.patch(resource, which, {"status": {"conditions": stated_of_it}}, subresource="status")
    # Half of the time is observed by the new process; of the default, that is five minutes.
    row = [{"signal": "NotReady", "toleration": "2m", "action": "Replace"}]
    await world.start_controller("ctl1", REPAIR_POLICIES=json.dumps(row))
    gone = world.audit_log.deletion_order
    await world.until(lambda: len(gone(uid)) == len(WHOLE), PATIENCE_SECONDS, "it is removed")
    assert gone(uid) == WHOLE, world.describe()
    assert [one["type"] for one in events(world, name, "NodeRepair")] == ["Warning"]
    assert accepted(world, "DELETE") == [name]
    assert all(world.condition(other, "Ready") == "True" for other in names[1:])


DOORS: dict[str, Act] = {
    "restored": restored,
    "crd-deleted": crd_deleted,
    "crd-reinstalled": crd_reinstalled,
    "stopped-then-lost": stopped_then_lost,
    "repaired": repaired,
}
