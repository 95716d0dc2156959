"""`gpu-provisioner uninstall` beside a running controller, and after its end: what it deletes, waits for and proves."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from controllers.model.policy import Policy
from provisioner.api import labels
from provisioner.simulator.azure import errors
from provisioner.simulator.azure.faults import ALWAYS, Fault
from tests.world.claims import ready
from tests.world.commands import WHO, Ended, command, written
from tests.world.garbagecollection.common import FOREIGN, LEGACY, NO_BOUND, deletes, fleet, one
from tests.world.harness import SIZE, Sim, node_claim, simulated
from tests.world.main_job import NAME
from tests.world.termination.common import guard
from tests.world.transcript import CLAIMS, FAST, MINUTE, deleting, node_name, refuse, run_pod, strip

from .common import CLUSTER, DRAIN, LEASE, LEASES, lease

pytestmark = pytest.mark.matrix(quick=0)


def other_controllers_claim(name: str = "theirs") -> Any:
    claim: Any = node_claim(name)
    claim["metadata"] |= {"labels": {}, "finalizers": [labels.FINALIZER]}
    claim["spec"]["nodeClassRef"] = {"group": "karpenter.azure.com", "kind": "AKSNodeClass", "name": "default"}
    return claim


async def drained(sim: Sim, *words: str, **options: Any) -> Ended:
    return await command(sim, *DRAIN, *words, **options)


@simulated(azure=FAST, **NO_BOUND)
async def test_a_whole_uninstall_ends_with_nothing(sim: Sim) -> None:
    """The first run removes the machines and names helm uninstall; the second one, without a controller, the Lease."""
    names = await fleet(sim, 3)
    await sim.apply(other_controllers_claim())
    first = await drained(sim)
    assert first.code == 3
    *_, cause, remedy = first.err.splitlines()
    assert cause.startswith("gpu-provisioner uninstall: no machine remains, but the controller is running: ctl")
    assert remedy == "    helm uninstall gpu-provisioner -n kube-system; then run this command again."
    assert first.row("Lease").split()[1] == f"kube-system/{LEASE}"
    assert first.out.endswith("0 NodeClaims, 0 Nodes, 0 finalizers, 0 agent pools, 1 Lease\n")
    assert sorted(sim.cloud.pools) == sorted(FOREIGN)
    assert [claim["metadata"]["name"] for claim in sim.store.list(CLAIMS)] == ["theirs"]
    assert written(sim) == [f"DELETE nodeclaims/{name}" for name in names]

    await sim.stop_controller()
    before = sim.now
    second = await drained(sim)
    assert (second.code, lease(sim)) == (0, None)
    assert second.out == "Nothing remains: 0 NodeClaims, 0 Nodes, 0 finalizers, 0 agent pools, 0 Leases\n"
    assert sim.now - before >= MINUTE
    assert written(sim)[len(names) :] == [f"DELETE leases/{LEASE}"]
    third = await drained(sim)
    assert (third.code, third.out, third.err.count("deleted")) == (0, second.out, 0)
    assert sim.claim("theirs") is not None


@simulated(azure=FAST)
async def test_a_dry_run_writes_nothing(sim: Sim) -> None:
    """Each object with the way in which it would be removed; foreign pools and other controllers' claims are absent."""
    await one(sim)
    await sim.apply(other_controllers_claim())
    node = node_name(sim)
    ended = await command(sim, "uninstall", "--drain", "--dry-run")
    assert ended.code == 0
    rows = [[cell.strip() for cell in line.split("   ") if cell.strip()] for line in ended.out.splitlines()]
    assert rows == [
        [f"In {CLUSTER}:"],
        [],
        ["KIND", "NAME", "CLAIM", "OWNER", "ACTION"],
        ["NodeClaim", NAME, "-", "Workspace default/w", "delete"],
        ["Node", node, NAME, "-", "removed with its NodeClaim"],
        ["AgentPool", NAME, NAME, "-", "removed with its NodeClaim"],
        ["Lease", f"kube-system/{LEASE}", "-", "-", "deleted once no controller runs"],
        [],
        ["1 NodeClaim, 1 Node, 2 finalizers, 1 agent pool, 1 Lease, 0 running pods"],
    ]
    assert "Delete the owners first: Workspace default/w" in ended.err
    assert written(sim) == []
    result = json.loads((await command(sim, "uninstall", "--drain", "--dry-run", "-o", "json")).out)
    assert (result["nodeClaims"], result["finalizers"], result["agentPools"]) == (1, 2, 1)
    assert [item["kind"] for item in result["remaining"]] == ["NodeClaim", "Node", "AgentPool", "Lease"]
    assert result["controller"] == "running"


@pytest.mark.parametrize(("answer", "code"), [("yes", 3), ("no", 1), (None, 2)])
@simulated(azure=FAST)
async def test_the_question_comes_before_the_first_write(sim: Sim, answer: str | None, code: int) -> None:
    """With the table above it; without a terminal, `--yes` is required."""
    await one(sim)
    ended = await command(sim, "uninstall", "--drain", answer=answer)
    assert ended.code == code
    assert ended.questions == (
        (f"Delete 1 NodeClaim and their machines with 0 running pods in {CLUSTER}?",) if answer else ()
    )
    assert bool(written(sim)) is (answer == "yes")
    assert "removed with its NodeClaim" in ended.err


@simulated(azure=FAST)
async def test_running_pods_and_what_stays_are_named_before_the_question(sim: Sim) -> None:
    """Pods that must run elsewhere by name; those of DaemonSets by number; NodeOverlays, which stay."""
    await one(sim)
    node = node_name(sim)
    job = sim.store.create("jobs.batch", {"metadata": {"name": "train"}}, "default")["metadata"]["uid"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": job, "controller": True}
    run_pod(sim, "train-1", node, ownerReferences=[owner])
    run_pod(sim, "alone", node)
    run_pod(sim, "agent", node, daemon=True)
    run_pod(sim, "elsewhere", "another-node")
    spec = {"requirements": [{"key": labels.OS, "operator": "Exists"}], "price": "2"}
    sim.store.create("nodeoverlays.karpenter.sh", {"metadata": {"name": "discount"}, "spec": spec})
    ended = await command(sim, "uninstall", "--drain", answer="no")
    assert ended.questions == (f"Delete 1 NodeClaim and their machines with 2 running pods in {CLUSTER}?",)
    shown = [[cell.strip() for cell in line.split("   ") if cell.strip()] for line in ended.err.splitlines()]
    assert shown[shown.index(["POD", "NODE", "OWNER"]) + 1 :][:-4] == [
        ["default/alone", node, "-"],
        ["default/train-1", node, "Job train"],
        [],
        ["1 running pod without an owner: nothing creates such a pod again."],
        ["1 pod of DaemonSets, or static: removed with the Nodes."],
        ["1 NodeOverlay will stay: kubectl delete nodeoverlays discount"],
        ["1 NodeClaim, 1 Node, 2 finalizers, 1 agent pool, 1 Lease, 2 running pods"],
    ]
    result = json.loads((await command(sim, "uninstall", "--drain", "--dry-run", "-o", "json")).out)
    assert (result["cluster"], result["nodeOverlays"]) == (CLUSTER, ["discount"])
    named = [(pod["name"], pod["owner"], pod["daemon"]) for pod in result["pods"]]
    assert named == [("agent", "DaemonSet d", True), ("alone", "", False), ("train-1", "Job train", False)]


@simulated(azure=FAST)
async def test_pods_that_may_not_be_listed_are_unknown(sim: Sim) -> None:
    """The question says so, and the command works."""
    await one(sim)
    refuse(sim, lambda call: call.who == WHO and call.target.kind == "pods", 403, "Forbidden", "no pods")
    ended = await command(sim, "uninstall", "--drain", answer="yes")
    assert ended.code == 3
    (question,) = ended.questions
    assert "with an unknown number of running pods in" in question
    assert "The pods on these machines are not known: 403 Forbidden: list pods: no pods" in ended.err


@simulated(azure=FAST)
async def test_json_is_one_document(sim: Sim) -> None:
    """On stdout, whatever the progress on stderr."""
    await one(sim)
    ended = await drained(sim, "-o", "json")
    result = json.loads(ended.out)
    assert (ended.code, result["controller"]) == (3, "running")
    (item,) = result["remaining"]
    assert (item["kind"], item["blocked"]) == ("Lease", True)


@simulated(azure=FAST, **NO_BOUND)
async def test_what_remains_at_the_timeout_is_listed_with_its_cause(sim: Sim) -> None:
    """A pod that a budget protects: exit code 1, and the table repeats what the claim waits for."""
    await one(sim)
    run_pod(sim, "train", node_name(sim))
    guard(sim, "train")
    ended = await drained(sim, "--timeout", "15m")
    assert ended.code == 1
    assert "waiting for pods on Node" in ended.row("NodeClaim")
    assert "train" in ended.row("NodeClaim")
    assert ended.row("AgentPool").endswith(f"NodeClaim {NAME}")
    *_, cause, remedy = ended.err.splitlines()
    assert cause == (
        "gpu-provisioner uninstall: 1 NodeClaim, 1 Node, 2 finalizers, 1 agent pool, 1 Lease remain after 15m"
    )
    assert remedy.startswith("    Resolve what each object waits for")
    assert sim.now < 40 * MINUTE
    sim.store.delete("poddisruptionbudgets.policy", "guard", "default")
    assert (await drained(sim)).code == 3


async def never_led(sim: Sim) -> None:
    await sim.stop_controller()
    sim.store.delete(LEASES, LEASE, "kube-system")


async def released(sim: Sim) -> None:
    await asyncio.sleep(MINUTE)
    await sim.stop_controller()


async def crashed(sim: Sim) -> None:
    sim.crash()


NO_CONTROLLER = [
    (never_led, f"no namespace has a Lease {LEASE}"),
    (released, f"Lease kube-system/{LEASE} has no holder"),
    (crashed, f"Lease kube-system/{LEASE} is not renewed by ctl0, last at 2026-"),
]


@pytest.mark.parametrize(("end", "cause"), NO_CONTROLLER, ids=[row[0].__name__ for row in NO_CONTROLLER])
@simulated(azure=FAST, **NO_BOUND)
async def test_without_a_controller_nothing_is_deleted(
    sim: Sim, end: Callable[[Sim], Awaitable[None]], cause: str
) -> None:
    """Claims would remain in deletion: exit code 1, the table, and the remedy; a dry run warns."""
    await one(sim)
    await end(sim)
    ended = await drained(sim)
    assert ended.code == 1
    assert f"gpu-provisioner uninstall: no controller is running: {cause}" in ended.err
    assert "Start the controller (helm upgrade --install)" in ended.err
    assert ended.row("NodeClaim").split()[1] == NAME
    dry = await command(sim, "uninstall", "--drain", "--dry-run")
    assert f"warning: no controller is running: {cause}" in dry.err
    assert written(sim) == []


@simulated(azure=FAST, **NO_BOUND)
async def test_a_controller_that_stops_meanwhile_is_reported(sim: Sim) -> None:
    """Its Lease is observed to be without renewals: the command reports it once and waits; the successor continues."""
    await one(sim)
    running = asyncio.ensure_future(drained(sim))
    await sim.until(lambda: deleting(sim.claim(NAME)), MINUTE, "deleted")
    sim.crash()
    await asyncio.sleep(3 * MINUTE)
    await sim.start_controller("ctl1")
    ended = await running
    assert ended.code == 3
    assert ended.err.count("no controller is running: Lease kube-system/") == 1


@simulated(azure=FAST)
async def test_the_lease_of_a_crashed_controller_is_deleted_after_it_expired(sim: Sim) -> None:
    """Nobody releases it; it stays until it was not renewed for its duration, and Azure had its minute."""
    await sim.start_controller()
    await asyncio.sleep(MINUTE)
    sim.crash()
    before = sim.now
    assert (await drained(sim)).code == 0
    assert lease(sim) is None
    assert sim.now - before >= 90


@simulated(azure=FAST)
async def test_a_standby_that_takes_over_keeps_its_lease(sim: Sim) -> None:
    """The first leader stops while another replica stands by: the command reports the second one."""
    await sim.start_controller()
    await sim.start_controller("ctl1")
    await asyncio.sleep(MINUTE)
    running = asyncio.ensure_future(drained(sim))
    await asyncio.sleep(5)
    await sim.stop_controller()
    ended = await running
    assert ended.code == 3
    assert lease(sim) is not None
    assert written(sim) == []


@simulated(azure=FAST)
async def test_a_lease_in_another_namespace_counts(sim: Sim) -> None:
    """A release in another namespace than the settings name: its controller is found."""
    await sim.start_controller(lease_namespace="default")
    await asyncio.sleep(MINUTE)
    ended = await drained(sim)
    assert ended.code == 3
    assert ended.row("Lease").split()[1] == f"default/{LEASE}"
    await sim.stop_controller()
    assert (await drained(sim)).code == 0
    assert sim.store.get(LEASES, LEASE, "default") is None


@simulated(azure=FAST, **NO_BOUND)
async def test_an_owner_that_creates_claims_again_is_named(sim: Sim) -> None:
    """A claim created after the start is not deleted: the command ends once nothing else remains, and names it."""
    await one(sim)
    running = asyncio.ensure_future(drained(sim))
    await sim.until(lambda: sim.claim(NAME) is None, 15 * MINUTE, "the first claim is gone")
    await sim.apply(node_claim("again"))
    await ready(sim, "again")
    ended = await running
    assert ended.code == 1
    assert "the deletion of its owner, which created it at" in ended.row("NodeClaim")
    assert sim.condition("again", "Ready") == "True"


@simulated(azure=FAST)
async def test_orphans_wait_for_garbage_collection(sim: Sim) -> None:
    """A pool without its claim is never deleted by the command; the controller collects it."""
    await one(sim)
    strip(sim, NAME)
    dry = await command(sim, "uninstall", "--drain", "--dry-run")
    assert "   garbage collection: " in dry.row("AgentPool")
    assert dry.row("AgentPool").endswith("delete the agent pool")
    ended = await drained(sim)
    assert ended.code == 3
    assert (deletes(sim), written(sim)) == ([NAME], [])


@simulated(azure=FAST, **NO_BOUND)
async def test_the_circuit_breaker_ends_the_wait(sim: Sim) -> None:
    """Five orphans of five pools: the command ends at once with the remedy, and deletes nothing itself."""
    names = await fleet(sim, 5)
    for name in names:
        strip(sim, name)
    ended = await drained(sim)
    assert ended.code == 1
    assert ended.out.count("the circuit breaker: gpu-provisioner gc --confirm") == 10
    assert (deletes(sim), written(sim)) == ([], [])
    assert (await command(sim, "gc", "--confirm", "--yes")).code == 0
    assert (await drained(sim)).code == 3
    assert sorted(deletes(sim)) == names


@simulated(azure=FAST)
async def test_a_legacy_pool_that_the_settings_keep_is_listed(sim: Sim) -> None:
    """`--legacy-pools=report`: a pool of Azure/gpu-provisioner without a claim remains until a user deletes it."""
    await sim.start_controller(policy=Policy(legacy_pools="report"))
    sim.cloud.seed_pool("legacy", vmSize=SIZE, nodeLabels=LEGACY)
    ended = await drained(sim, policy=Policy(legacy_pools="report"))
    assert ended.code == 1
    assert "--legacy-pools=report keeps it" in ended.row("AgentPool")


@simulated(azure=FAST, **NO_BOUND)
async def test_failed_reads_are_no_proof(sim: Sim) -> None:
    """ARM fails for a while during the wait: reported once, tried again; no failed list counts as an empty one."""
    await one(sim)
    running = asyncio.ensure_future(drained(sim))
    await sim.until(lambda: deleting(sim.claim(NAME)), MINUTE, "deleted")
    sim.cloud.faults.append(Fault(verb="LIST", times=30, answer=errors.html(502)))
    ended = await running
    assert ended.code == 3
    assert ended.err.count("failed to read: ARM") == 1
    assert sorted(sim.cloud.pools) == sorted(FOREIGN)


@simulated(azure=FAST, **NO_BOUND)
async def test_reads_that_fail_until_the_timeout_are_the_cause(sim: Sim) -> None:
    """Exit code 1 with the last error."""
    await one(sim)
    running = asyncio.ensure_future(drained(sim, "--timeout", "20m"))
    await sim.until(lambda: deleting(sim.claim(NAME)), MINUTE, "deleted")
    sim.cloud.faults.append(Fault(verb="LIST", times=ALWAYS, answer=errors.html(502)))
    ended = await running
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.splitlines()[-2].startswith("gpu-provisioner uninstall: ARM: ")
    sim.cloud.faults.clear()


@simulated(azure=FAST)
async def test_missing_permissions_are_reported(sim: Sim) -> None:
    """Of a user without the right to delete NodeClaims: exit code 1, and which request was refused."""
    await one(sim)
    refuse(sim, lambda call: call.who == "admin" and call.verb == "DELETE", 403, "Forbidden")
    ended = await drained(sim)
    assert ended.code == 1
    assert "403 Forbidden: delete NodeClaim" in ended.err
    assert "Request this permission" in ended.err
