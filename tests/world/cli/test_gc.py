"""`gpu-provisioner gc` beside a running controller: the controller performs exactly the removals that it lists."""

import asyncio
import json
from typing import Any

import pytest
from aiohttp import web

from controllers.model.confirmation import Confirmation, decode
from provisioner.api import labels
from provisioner.simulator.audit_log import Call
from provisioner.simulator.azure import errors
from provisioner.simulator.azure.faults import ALWAYS, Fault
from tests.world.commands import WHO, command, written
from tests.world.garbagecollection.common import FOREIGN, NO_BOUND, deletes, fleet, one
from tests.world.harness import Sim, node_claim, simulate, simulated
from tests.world.main_job import NAME
from tests.world.transcript import CLAIMS, FAST, MINUTE, events, node_name, refuse, strip

pytestmark = pytest.mark.matrix(quick=0)

LEASES = "leases.coordination.k8s.io"


def annotation(sim: Sim) -> Confirmation | None:
    """The confirmation on the Lease."""
    lease = sim.store.get(LEASES, "gpu-provisioner", "kube-system")
    assert lease is not None
    return decode((lease["metadata"].get("annotations") or {}).get(labels.CONFIRMED_REMOVALS, ""))


async def restricted_fleet(sim: Sim, count: int = 5) -> list[str]:
    """A controller whose circuit breaker holds these orphans."""
    names = await fleet(sim, count)
    for name in names:
        strip(sim, name)
    await asyncio.sleep(3 * MINUTE)
    assert not deletes(sim)
    return names


# Nothing to do


@simulated(azure=FAST)
async def test_a_healthy_cluster_has_nothing_to_remove(sim: Sim) -> None:
    """One line, whatever else is in the cluster; nothing is written, and ARM gets two requests."""
    await one(sim)
    for words in ([], ["--dry-run"], ["--confirm", "--yes"]):
        ended = await command(sim, "gc", *words)
        assert (ended.code, ended.err) == (0, "")
        assert ended.out == "nothing to remove: 1 managed agent pool; 2 foreign agent pools\n"
    assert written(sim) == []
    assert [c.target.kind for c in sim.audit_log.calls(who=WHO, system="arm")] == ["cluster", "pools"] * 3


@simulated(azure=FAST)
async def test_requested_removals_are_not_listed(sim: Sim) -> None:
    """A claim that is being deleted is counted, and not listed, while its pool is deleted."""
    await one(sim)
    await sim.delete_claim(NAME)
    await asyncio.sleep(5)
    ended = await command(sim, "gc")
    assert ended.out.startswith("nothing to remove: ")
    assert ended.out.endswith("; 1 NodeClaim with a deletion request\n")


# Output


@simulated(azure=FAST)
async def test_an_orphan_is_listed_before_its_removal(sim: Sim) -> None:
    """The table has the action and what it waits for, and then it happens."""
    await one(sim)
    strip(sim, NAME)
    node = node_name(sim)
    ended = await command(sim, "gc")
    head, row, blank, verdict, rest = ended.out.splitlines()
    assert head.split("   ")[0].strip() == "POOL"
    assert [cell.strip() for cell in row.split("   ") if cell.strip()] == [
        NAME, "-", node, "orphan-pool", "drain the Node, delete the agent pool", "observed too recently", "-",
    ]  # fmt: skip
    assert blank == ""
    assert verdict == "1 removal inferred among 1 agent pool, 3 allowed in 10 minutes: not restricted"
    assert rest == "not removed: 0 managed agent pools; 2 foreign agent pools"
    assert written(sim) == []
    await sim.until(lambda: deletes(sim) == [NAME], 5 * MINUTE, "the controller deletes it")


@simulated(azure=FAST, **NO_BOUND)
async def test_removals_restricted_by_the_circuit_breaker_are_listed(sim: Sim) -> None:
    """Five orphans of five: the table has all, and the summary states the restriction and its cause."""
    names = await restricted_fleet(sim)
    ended = await command(sim, "gc")
    assert (ended.code, ended.err) == (0, "")
    for name in names:
        assert "too many inferred removals at once" in ended.row(name)
        assert "delete the agent pool" in ended.row(name)
    assert (
        "5 removals inferred among 5 agent pools, 3 allowed in 10 minutes: restricted by the circuit breaker\n"
        in ended.out
    )
    assert written(sim) == []


@simulated(azure=FAST, **NO_BOUND)
async def test_a_restored_backup_is_recognized(sim: Sim) -> None:
    """Pools whose claims were re-created under new UIDs are listed beside their claims, with the remedy."""
    names = await fleet(sim, 4)
    for name in names:
        labelled = sim.claim(name)["metadata"]["labels"]
        strip(sim, name)
        sim.store.create(CLAIMS, {**node_claim(name), "metadata": {"name": name, "labels": labelled}})
    await asyncio.sleep(2 * MINUTE)
    ended = await command(sim, "gc")
    assert [ended.row(name).split()[1] for name in names] == names
    assert ended.out.splitlines()[-1] == (
        "4 agent pools with another UID than the NodeClaim; after a restore: gpu-provisioner adopt --all"
    )


@simulated(azure=FAST, **NO_BOUND)
async def test_removals_wait_for_a_stopped_cluster(sim: Sim) -> None:
    """While the managed cluster is stopped nothing is removed by inference, and the table names the cause."""
    await one(sim)
    sim.cloud.stop_cluster()
    strip(sim, NAME)
    await asyncio.sleep(2 * MINUTE)
    row = (await command(sim, "gc")).row(NAME)
    assert "the managed cluster is not known to be running" in row
    assert "delete the agent pool" in row


@simulated(azure=FAST, **NO_BOUND)
async def test_a_missing_pool_and_deleted_nodes(sim: Sim) -> None:
    """Each cause is listed with its action, and with the time if an object states it."""
    names = await fleet(sim, 3)
    await sim.stop_controller()
    sim.cloud.delete_pool_by_hand(names[0])
    sim.store.patch("nodes", node_name(sim, names[0]), {"metadata": {"finalizers": None}})
    await sim.delete_node(node_name(sim, names[1]))
    await asyncio.sleep(5 * MINUTE)
    ended = await command(sim, "gc", "-o", "json")
    gone, deleted = json.loads(ended.out)["removals"]
    assert (gone["pool"], gone["claim"], gone["cause"]) == (names[0], names[0], "missing-pool")
    assert (gone["action"], gone["since"]) == ("delete the NodeClaim", None)
    assert (deleted["pool"], deleted["cause"], deleted["waitsFor"]) == (names[1], "node-deleted", "")
    assert deleted["action"] == "delete the NodeClaim and its agent pool"
    assert deleted["since"] == sim.nodes_of(names[1])[0]["metadata"]["deletionTimestamp"]


@simulated(azure=FAST, **NO_BOUND)
async def test_pools_that_others_deleted_before_they_ran(sim: Sim) -> None:
    """Their claims are restricted together, as an Event that names this command says; it lists and confirms them."""
    await sim.start_controller()
    names = [f"gpu{number}" for number in range(4)]
    for name in names:
        await sim.apply(node_claim(name))
    await sim.until(lambda: set(names) <= set(sim.cloud.pools), MINUTE, "all are being created")
    for name in names:
        sim.cloud.delete_pool_by_hand(name)
    await asyncio.sleep(5 * MINUTE)
    assert len(events(sim, "RemovalRestricted")) == 4
    ended = await command(sim, "gc", "--confirm", "--yes")
    for name in names:
        assert "missing-pool   delete the NodeClaim   circuit breaker: too many inferred removals" in ended.row(name)
    await sim.until(lambda: not sim.store.list(CLAIMS), 10 * MINUTE, "all claims go")


@simulated(azure=FAST, **NO_BOUND)
async def test_the_table_does_not_depend_on_conditions(sim: Sim) -> None:
    """Nodes are deleted while no controller runs: their claims are still Ready, and the table is correct."""
    names = await fleet(sim, 4)
    await sim.stop_controller()
    for name in names:
        await sim.delete_node(node_name(sim, name))
    await asyncio.sleep(MINUTE)
    ended = await command(sim, "gc")
    for name in names:
        assert sim.condition(name, "Ready") == "True"
        assert (
            "node-deleted   delete the NodeClaim and its agent pool   circuit breaker: too many inferred removals"
            in ended.row(name)
        )


@simulated(azure=FAST, **NO_BOUND)
async def test_claims_deleting_with_their_crd(sim: Sim) -> None:
    """`kubectl delete crd`: each claim is listed with the action after the circuit breaker permits it."""
    names = await fleet(sim, 4)
    await sim.request("DELETE", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/nodeclaims.karpenter.sh")
    await asyncio.sleep(2 * MINUTE)
    found = json.loads((await command(sim, "gc", "-o", "json")).out)
    assert [one["pool"] for one in found["removals"]] == names
    assert {one["cause"] for one in found["removals"]} == {"crd-deleted"}
    assert found["restricted"] is True
    assert {one["action"] for one in found["removals"]} == {"drain the Node, delete agent pool, Node and NodeClaim"}


# Confirmation


@simulated(azure=FAST, **NO_BOUND)
async def test_a_confirmation_names_exactly_the_removals_shown(sim: Sim) -> None:
    """`--confirm` prints the table, prompts, and writes one annotation on the leader's Lease, for one hour."""
    names = await restricted_fleet(sim)
    ended = await command(sim, "gc", "--confirm", answer="yes")
    assert (ended.code, ended.err) == (0, "")
    assert ended.questions == ("Confirm the 5 removals above?",)
    assert all(ended.row(name) for name in names)
    assert written(sim) == ["PATCH leases/gpu-provisioner"]
    confirmed = annotation(sim)
    assert confirmed is not None
    assert confirmed.removals == tuple(names)
    last = ended.out.splitlines()[-1]
    until = f"{confirmed.until:%Y-%m-%dT%H:%M:%SZ}"
    assert last == f"lease kube-system/gpu-provisioner: the 5 removals above confirmed until {until}"
    await asyncio.sleep(MINUTE)
    assert annotation(sim) == confirmed, "the leader's renewals keep it"


@simulated(azure=FAST, **NO_BOUND)
async def test_only_confirmed_removals_are_performed(sim: Sim) -> None:
    """Five restricted orphans are confirmed: the leader removes them within minutes."""
    names = await fleet(sim, 7)
    for name in names[:5]:
        strip(sim, name)
    await asyncio.sleep(3 * MINUTE)
    assert not deletes(sim)
    assert (await command(sim, "gc", "--confirm", "--yes")).code == 0
    again = await command(sim, "gc")
    assert "5 confirmed until 2026-03-01T" in again.out
    assert "too many" not in again.out
    await sim.until(lambda: len(sim.cloud.pools) == 2 + len(FOREIGN), 10 * MINUTE, "all five go")
    assert sorted(deletes(sim)) == names[:5]
    assert all(sim.condition(name, "Ready") == "True" for name in names[5:])


@pytest.mark.parametrize("answer", ["no", "", "y", "yes please"])
@simulated(azure=FAST, **NO_BOUND)
async def test_any_other_answer_confirms_nothing(sim: Sim, answer: str) -> None:
    """Only `yes` confirms."""
    await restricted_fleet(sim)
    ended = await command(sim, "gc", "--confirm", answer=answer)
    assert ended.code == 1
    assert ended.err.startswith("gpu-provisioner gc: not confirmed: nothing was written\n")
    assert written(sim) == []


@simulated(azure=FAST, **NO_BOUND)
async def test_without_a_terminal_there_is_no_prompt(sim: Sim) -> None:
    """In a pipe, `--confirm` needs `--yes`; JSON output stays JSON."""
    await restricted_fleet(sim)
    ended = await command(sim, "gc", "--confirm")
    assert ended.code == 2
    assert "Add --yes" in ended.err
    assert written(sim) == []
    ended = await command(sim, "gc", "--confirm", "--yes", "-o", "json")
    assert (ended.code, ended.questions) == (0, ())
    assert len(json.loads(ended.out)["removals"]) == 5
    assert "confirmed until" in ended.err


def test_a_renewal_meanwhile_does_not_lose_a_confirmation() -> None:
    """The Lease changes between its read and its write: the write is retried on the new version."""

    async def story(sim: Sim) -> None:
        await restricted_fleet(sim)
        races = 2

        async def renew(call: Call, _: web.Request) -> web.StreamResponse | None:
            nonlocal races
            if call.who == WHO and call.verb == "PATCH" and call.target.kind == "leases" and races:
                races -= 1
                sim.store.patch(LEASES, "gpu-provisioner", {"metadata": {"labels": {"n": str(races)}}}, "kube-system")
            return None

        sim.world.before.append(renew)
        ended = await command(sim, "gc", "--confirm", "--yes")
        assert (ended.code, ended.err) == (0, "")
        calls = [c.status for c in sim.audit_log.calls(who=WHO, verb="PATCH")]
        assert calls == [409, 409, 200]
        assert annotation(sim) is not None

    simulate(story, azure=FAST, **NO_BOUND)


async def no_lease(sim: Sim) -> None:
    await sim.stop_controller()
    sim.store.delete(LEASES, "gpu-provisioner", "kube-system")


async def released_lease(sim: Sim) -> None:
    await sim.stop_controller()


async def silent_leader(sim: Sim) -> None:
    sim.crash()
    await asyncio.sleep(30 * MINUTE)


NO_LEADER = [
    (no_lease, "Lease kube-system/gpu-provisioner not found"),
    (released_lease, "Lease kube-system/gpu-provisioner has no holder"),
    (silent_leader, "Lease kube-system/gpu-provisioner was last renewed at 2026-"),
]


@pytest.mark.parametrize(("end", "cause"), NO_LEADER, ids=[row[1] for row in NO_LEADER])
@simulated(azure=FAST, **NO_BOUND)
async def test_without_a_leader_nothing_is_confirmed(sim: Sim, end: Any, cause: str) -> None:
    """No controller would read it: exit code 1 before any prompt, with the remedy."""
    await restricted_fleet(sim)
    await end(sim)
    ended = await command(sim, "gc", "--confirm", answer="yes")
    assert (ended.code, ended.questions) == (1, ())
    assert cause in ended.err
    assert "Start the controller, and name its Lease" in ended.err
    assert written(sim) == []


# Failures

ARM_SAYS = [
    ("CLUSTER", errors.html(503), "ServiceUnavailable"),  # it may be another cluster than that of the API server
    (
        "LIST",
        errors.unauthenticated("InvalidAuthenticationToken", "The access token is invalid."),
        "Check the workload",
    ),
    ("LIST", errors.forbidden("read", FAST.cluster_id), "azure-role.json"),
    ("LIST", errors.cluster_not_found("rg", "aks"), "ClusterNotFound"),
    ("LIST", errors.throttled("get", 20), "Throttled"),
    ("LIST", errors.html(502), "502"),
]


@pytest.mark.parametrize(("verb", "answer", "stated"), ARM_SAYS, ids=[f"{v} {a.status}" for v, a, _ in ARM_SAYS])
@simulated(azure=FAST)
async def test_a_failed_list_of_pools_is_reported(sim: Sim, verb: str, answer: errors.Answer, stated: str) -> None:
    """Its cause and remedy are printed, exit code 1, and nothing is listed for removal."""
    await one(sim)
    sim.cloud.faults.append(Fault(verb=verb, times=ALWAYS, answer=answer))
    ended = await command(sim, "gc", "--confirm", "--yes")
    assert stated in ended.out + ended.err
    assert (ended.code, ended.out) == (1, "")
    assert len(ended.err.splitlines()) == 2
    assert written(sim) == []


@simulated(azure=FAST)
async def test_an_arm_without_a_response_times_out(sim: Sim) -> None:
    """The command ends after fifteen seconds, and reports it."""
    await one(sim)
    sim.cloud.faults.append(Fault(verb="LIST", times=ALWAYS, slow_seconds=60.0))
    ended = await command(sim, "gc")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("gpu-provisioner gc: ARM: Timeout: ")


KUBE_SAYS = [(401, "Unauthorized", "Renew the credentials"), (403, "Forbidden", "Request this permission")]


@pytest.mark.parametrize(("status", "reason", "remedy"), KUBE_SAYS, ids=[row[1] for row in KUBE_SAYS])
@pytest.mark.parametrize("kind", ["nodeclaims", "nodes", "customresourcedefinitions"])
@simulated(azure=FAST)
async def test_a_rejected_list_is_reported(sim: Sim, kind: str, status: int, reason: str, remedy: str) -> None:
    """The command ends with exit code 1 and the remedy of that rejection."""
    await one(sim)
    refuse(sim, lambda call: call.who == WHO and call.target.kind == kind, status, reason)
    ended = await command(sim, "gc")
    assert (ended.code, ended.out) == (1, "")
    assert f"{status} {reason}: list {kind}" in ended.err
    assert remedy in ended.err


@simulated(azure=FAST)
async def test_a_cluster_without_our_crds(sim: Sim) -> None:
    """The kind is not served, so it is probably another cluster; the remedy states how to check this."""
    await sim.request("DELETE", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/nodeclaims.karpenter.sh")
    await asyncio.sleep(MINUTE)
    ended = await command(sim, "gc")
    assert (ended.code, ended.out) == (1, "")
    assert "404" in ended.err
    assert "gpu-provisioner-crd" in ended.err


@simulated(azure=FAST)
async def test_foreign_pools_are_counted_and_never_listed(sim: Sim) -> None:
    """Pools of others, and a claim of another provisioner, are no removals."""
    sim.cloud.seed_pool("gpupool", mode="User")
    other: dict[str, Any] = node_claim("theirs")
    other["metadata"]["labels"] = {}
    other["spec"]["nodeClassRef"] = {"group": "karpenter.azure.com", "kind": "AKSNodeClass", "name": "default"}
    await sim.apply(other)
    ended = await command(sim, "gc")
    assert ended.out == "nothing to remove: 0 managed agent pools; 3 foreign agent pools\n"
    assert len(FOREIGN) == 2
    assert sim.store.get(CLAIMS, "theirs") is not None
