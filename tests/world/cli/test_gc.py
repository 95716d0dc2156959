"""`gpu-provisioner gc` beside a running controller: what it shows is what the controller then does, or does not do."""

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
from tests.world.garbagecollection.test_garbage import FOREIGN, NO_BOUND, deletes, fleet, one
from tests.world.harness import Sim, node_claim, simulate
from tests.world.nodeclaim.test_main_job import NAME
from tests.world.transcript import CLAIMS, FAST, MINUTE, node_name, refuse, strip

LEASES = "leases.coordination.k8s.io"


def annotation(sim: Sim) -> Confirmation | None:
    """What the Lease says is confirmed."""
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


def test_a_healthy_cluster_has_nothing_to_remove() -> None:
    """One line, whatever else is in the cluster; nothing is written, and ARM is called twice."""

    async def story(sim: Sim) -> None:
        await one(sim)
        for words in ([], ["--dry-run"], ["--confirm", "--yes"]):
            ended = await command(sim, "gc", *words)
            assert (ended.code, ended.err) == (0, "")
            assert ended.out == "nothing to remove: 1 managed agent pool; 2 foreign agent pools\n"
        assert written(sim) == []
        assert [c.target.kind for c in sim.audit_log.calls(who=WHO, system="arm")] == ["cluster", "pools"] * 3

    simulate(story, azure=FAST)


def test_removals_that_were_requested_for_are_no_garbage() -> None:
    """A claim that is being deleted is counted, never listed, while its pool goes."""

    async def story(sim: Sim) -> None:
        await one(sim)
        await sim.delete_claim(NAME)
        await asyncio.sleep(5)
        ended = await command(sim, "gc")
        assert ended.out.startswith("nothing to remove: ")
        assert ended.out.endswith("; 1 NodeClaim with a deletion request\n")

    simulate(story, azure=FAST)


# What it shows


def test_an_orphan_is_shown_before_it_goes() -> None:
    """A pool without its claim: the table says what will happen and what it waits for, and then it happens."""

    async def story(sim: Sim) -> None:
        await one(sim)
        strip(sim, NAME)
        node = node_name(sim)
        ended = await command(sim, "gc")
        head, row, blank, verdict, rest = ended.out.splitlines()
        assert head.split("   ")[0].strip() == "POOL"
        assert [cell.strip() for cell in row.split("   ") if cell.strip()] == [
            NAME, "-", node, "orphan-pool", "delete the agent pool", "observed too recently", "-",
        ]  # fmt: skip
        assert blank == ""
        assert verdict == "1 removal inferred, 3 of 1 agent pool allowed: not restricted"
        assert rest == "not removed: 0 managed agent pools; 2 foreign agent pools"
        assert written(sim) == []
        await sim.until(lambda: deletes(sim) == [NAME], 5 * MINUTE, "the controller deletes it")

    simulate(story, azure=FAST)


def test_what_the_circuit_breaker_holds_is_shown_and_stays() -> None:
    """Five orphans of five: the table lists all, the summary says that the circuit breaker holds them, and why."""

    async def story(sim: Sim) -> None:
        names = await restricted_fleet(sim)
        ended = await command(sim, "gc")
        assert (ended.code, ended.err) == (0, "")
        for name in names:
            assert "too many inferred removals at once" in ended.row(name)
            assert "delete the agent pool" in ended.row(name)
        assert "5 removals inferred, 3 of 5 agent pools allowed: restricted by the circuit breaker\n" in ended.out
        assert written(sim) == []

    simulate(story, azure=FAST, **NO_BOUND)


def test_a_restored_backup_is_recognized() -> None:
    """Pools whose claims came back under new UIDs: each is shown beside its claim, and the way out is named."""

    async def story(sim: Sim) -> None:
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

    simulate(story, azure=FAST, **NO_BOUND)


def test_a_stopped_cluster_is_what_removals_wait_for() -> None:
    """While the managed cluster is stopped nothing is inferred, and the table names that as the cause."""

    async def story(sim: Sim) -> None:
        await one(sim)
        sim.cloud.stop_cluster()
        strip(sim, NAME)
        await asyncio.sleep(2 * MINUTE)
        row = (await command(sim, "gc")).row(NAME)
        assert "the managed cluster is not known to be running" in row
        assert "delete the agent pool" in row

    simulate(story, azure=FAST, **NO_BOUND)


def test_a_pool_that_is_gone_and_nodes_that_go() -> None:
    """Each cause is reported with its own action, and the moment where an object states it."""

    async def story(sim: Sim) -> None:
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

    simulate(story, azure=FAST, **NO_BOUND)


def test_what_the_controller_has_yet_to_tell_hides_no_removal() -> None:
    """Nodes deleted while no controller runs: their claims still say Ready, and the table is right all the same."""

    async def story(sim: Sim) -> None:
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

    simulate(story, azure=FAST, **NO_BOUND)


def test_claims_deleting_with_their_crd() -> None:
    """`kubectl delete crd`: each claim is shown with what would become of it once that passes the circuit breaker."""

    async def story(sim: Sim) -> None:
        names = await fleet(sim, 4)
        await sim.request("DELETE", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/nodeclaims.karpenter.sh")
        await asyncio.sleep(2 * MINUTE)
        found = json.loads((await command(sim, "gc", "-o", "json")).out)
        assert [one["pool"] for one in found["removals"]] == names
        assert {one["cause"] for one in found["removals"]} == {"crd-deleted"}
        assert found["restricted"] is True
        assert {one["action"] for one in found["removals"]} == {"drain the Node, delete agent pool, Node and NodeClaim"}

    simulate(story, azure=FAST, **NO_BOUND)


# What it writes


def test_a_confirmation_names_exactly_the_removals_shown() -> None:
    """`--confirm` shows the table, asks, and writes one annotation on the leader's Lease, for one hour."""

    async def story(sim: Sim) -> None:
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

    simulate(story, azure=FAST, **NO_BOUND)


def test_what_was_confirmed_goes_and_nothing_else() -> None:
    """Five orphans held by the circuit breaker are confirmed: the leader removes them within minutes."""

    async def story(sim: Sim) -> None:
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

    simulate(story, azure=FAST, **NO_BOUND)


@pytest.mark.parametrize("answer", ["no", "", "y", "yes please"])
def test_any_other_answer_confirms_nothing(answer: str) -> None:
    """Only the word itself counts."""

    async def story(sim: Sim) -> None:
        await restricted_fleet(sim)
        ended = await command(sim, "gc", "--confirm", answer=answer)
        assert ended.code == 1
        assert ended.err.startswith("gpu-provisioner gc: not confirmed: nothing was written\n")
        assert written(sim) == []

    simulate(story, azure=FAST, **NO_BOUND)


def test_nobody_is_requested_who_cannot_answer() -> None:
    """In a pipe, `--confirm` needs `--yes`; JSON stays JSON."""

    async def story(sim: Sim) -> None:
        await restricted_fleet(sim)
        ended = await command(sim, "gc", "--confirm")
        assert ended.code == 2
        assert "Add --yes" in ended.err
        assert written(sim) == []
        ended = await command(sim, "gc", "--confirm", "--yes", "-o", "json")
        assert (ended.code, ended.questions) == (0, ())
        assert len(json.loads(ended.out)["removals"]) == 5
        assert "confirmed until" in ended.err

    simulate(story, azure=FAST, **NO_BOUND)


def test_renewals_that_come_between_do_not_lose_a_confirmation() -> None:
    """The Lease changes between reading and writing it: the write is tried again on the new version."""

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
def test_without_a_leader_nothing_is_confirmed(end: Any, cause: str) -> None:
    """Nobody would obey it: exit code 1, before anybody is called, and what to do."""

    async def story(sim: Sim) -> None:
        await restricted_fleet(sim)
        await end(sim)
        ended = await command(sim, "gc", "--confirm", answer="yes")
        assert (ended.code, ended.questions) == (1, ())
        assert cause in ended.err
        assert "Start the controller, and name its Lease" in ended.err
        assert written(sim) == []

    simulate(story, azure=FAST, **NO_BOUND)


# Bad answers

ARM_SAYS = [
    ("CLUSTER", errors.html(503), "nothing to remove"),  # an unknown cluster only makes removals wait
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
def test_what_arm_does_not_tell_is_not_guessed(verb: str, answer: errors.Answer, stated: str) -> None:
    """A LIST that fails is reported with its cause and remedy, exit code 1, and nothing is shown as garbage."""

    async def story(sim: Sim) -> None:
        await one(sim)
        sim.cloud.faults.append(Fault(verb=verb, times=ALWAYS, answer=answer))
        ended = await command(sim, "gc", "--confirm", "--yes")
        assert stated in ended.out + ended.err
        assert ended.code == (0 if verb == "CLUSTER" else 1)
        if verb == "LIST":
            assert ended.out == ""
            assert len(ended.err.splitlines()) == 2
        assert written(sim) == []

    simulate(story, azure=FAST)


def test_an_arm_that_does_not_answer_is_given_up() -> None:
    """After fifteen seconds the command ends, and reports it."""

    async def story(sim: Sim) -> None:
        await one(sim)
        sim.cloud.faults.append(Fault(verb="LIST", times=ALWAYS, slow_seconds=60.0))
        ended = await command(sim, "gc")
        assert (ended.code, ended.out) == (1, "")
        assert ended.err.startswith("gpu-provisioner gc: ARM: Timeout: ")

    simulate(story, azure=FAST)


KUBE_SAYS = [(401, "Unauthorized", "Renew the credentials"), (403, "Forbidden", "Request this permission")]


@pytest.mark.parametrize(("status", "reason", "remedy"), KUBE_SAYS, ids=[row[1] for row in KUBE_SAYS])
@pytest.mark.parametrize("kind", ["nodeclaims", "nodes", "customresourcedefinitions"])
def test_what_the_api_server_refuses_is_reported(kind: str, status: int, reason: str, remedy: str) -> None:
    """A list that is refused is no empty list: the command ends, exit code 1, with the remedy of that refusal."""

    async def story(sim: Sim) -> None:
        await one(sim)
        refuse(sim, lambda call: call.who == WHO and call.target.kind == kind, status, reason)
        ended = await command(sim, "gc")
        assert (ended.code, ended.out) == (1, "")
        assert f"{status} {reason}: list {kind}" in ended.err
        assert remedy in ended.err

    simulate(story, azure=FAST)


def test_a_cluster_without_our_crds() -> None:
    """The kind is not served at all: probably another cluster, and the remedy says how to tell."""

    async def story(sim: Sim) -> None:
        await sim.request("DELETE", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/nodeclaims.karpenter.sh")
        await asyncio.sleep(MINUTE)
        ended = await command(sim, "gc")
        assert (ended.code, ended.out) == (1, "")
        assert "404" in ended.err
        assert "gpu-provisioner-crd" in ended.err

    simulate(story, azure=FAST)


def test_foreign_pools_are_counted_and_never_listed() -> None:
    """Somebody's pools, and a claim of another provisioner's, are no removals, whatever they look like."""

    async def story(sim: Sim) -> None:
        sim.cloud.seed_pool("gpupool", mode="User")
        other: dict[str, Any] = node_claim("theirs")
        other["metadata"]["labels"] = {}
        other["spec"]["nodeClassRef"] = {"group": "karpenter.azure.com", "kind": "AKSNodeClass", "name": "default"}
        await sim.apply(other)
        ended = await command(sim, "gc")
        assert ended.out == "nothing to remove: 0 managed agent pools; 3 foreign agent pools\n"
        assert len(FOREIGN) == 2
        assert sim.store.get(CLAIMS, "theirs") is not None

    simulate(story, azure=FAST)
