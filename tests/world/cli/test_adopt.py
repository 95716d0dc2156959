"""`gpu-provisioner adopt`: the annotation that it writes, and its refusals."""

import asyncio
import json
from typing import Any

import pytest
import yaml
from aiohttp import web

from provisioner.api import labels
from provisioner.simulator.audit_log import Call
from provisioner.simulator.azure import errors
from provisioner.simulator.azure.faults import ALWAYS, Fault
from tests.world.commands import WHO, command, written
from tests.world.garbagecollection.common import LEGACY, NO_BOUND, fleet, one
from tests.world.harness import SIZE, Json, Sim, node_claim, simulate, simulated
from tests.world.main_job import NAME
from tests.world.transcript import CLAIMS, FAST, MINUTE, deleting, node_of, pool_calls, refuse, strip

from .common import no_claim, own_pool


async def restored(sim: Sim, name: str = NAME, uid: str = "") -> str:
    """A Ready claim whose backup is restored under a new UID while no controller runs; the old UID."""
    uid = uid or await one(sim)
    await sim.stop_controller()
    restore(sim, name)
    return uid


def restore(sim: Sim, name: str) -> None:
    """Delete the claim and create it again under a new UID."""
    old = sim.claim(name)
    assert old is not None
    strip(sim, name)
    sim.store.create(CLAIMS, {**node_claim(name), "metadata": {"name": name, "labels": old["metadata"]["labels"]}})


def requested(sim: Sim, name: str = NAME) -> str:
    """The UID in the claim's annotation."""
    found: Json = sim.claim(name) or {"metadata": {}}
    return (found["metadata"].get("annotations") or {}).get(labels.ADOPT, "")


# Results


@simulated(azure=FAST, **NO_BOUND)
async def test_a_restored_claim_is_annotated(sim: Sim) -> None:
    """The claim is annotated with the UID of the pool's mark; the pool is not written."""
    old = await restored(sim)
    ended = await command(sim, "adopt", NAME)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.splitlines() == [
        f"nodeclaim/{NAME} annotated: gpu-provisioner.sh/adopt={old}",
        f"agent pool {NAME} (Succeeded, {SIZE}) is kept; the controller gives it to the NodeClaim within seconds",
        f"watch: kubectl get nodeclaim {NAME} -w",
    ]
    assert requested(sim) == old
    assert written(sim) == [f"PATCH nodeclaims/{NAME}"]
    again = await command(sim, "adopt", NAME)
    assert (again.code, again.out) == (1, "")
    assert f"agent pool {NAME} belongs to nodeclaim/{NAME} already" in again.err
    assert written(sim) == [f"PATCH nodeclaims/{NAME}"], "who asks twice writes once"


@simulated(azure=FAST, **NO_BOUND)
async def test_all_restored_claims_at_once(sim: Sim) -> None:
    """`--all` lists every claim whose pool has the mark of a deleted claim, prompts, and annotates only those."""
    names = await fleet(sim, 4)
    olds = {name: sim.claim(name)["metadata"]["uid"] for name in names[:3]}
    await sim.stop_controller()
    for name in olds:
        restore(sim, name)
    ended = await command(sim, "adopt", "--all", answer="no")
    assert (ended.code, written(sim)) == (1, [])
    assert all(old in ended.row(name) for name, old in olds.items())
    assert names[3] not in ended.out
    assert ended.questions == ("Give these agent pools to 3 NodeClaims?",)
    ended = await command(sim, "adopt", "--all", "--yes")
    assert (ended.code, ended.err) == (0, "")
    assert {name: requested(sim, name) for name in names} == {**olds, names[3]: ""}


@simulated(azure=FAST, **NO_BOUND)
async def test_the_controller_adopts_the_machines(sim: Sim) -> None:
    """After `--all` every restored claim has its former pool: no PUT, no DELETE, and nothing is left to adopt. The
    garbage collector of Kubernetes has deleted all Nodes by then, because their owners are gone; no machine is deleted.
    """
    names = await fleet(sim, 4)
    for name in names:
        restore(sim, name)
    await sim.until(lambda: all(deleting(node_of(sim, name)) for name in names), 60, "Kubernetes deletes all Nodes")
    puts = len(pool_calls(sim, "PUT", None))
    assert (await command(sim, "adopt", "--all", "--yes")).code == 0
    for name in names:
        await sim.until(lambda name=name: sim.condition(name, "Launched") == "True", 5 * MINUTE, f"{name} has it")  # type: ignore[misc]  # the default binds the value of this round
    await asyncio.sleep(20 * MINUTE)
    assert len(pool_calls(sim, "PUT", None)) == puts
    assert not pool_calls(sim, "DELETE", None)
    ended = await command(sim, "adopt", "--all", "--yes")
    assert ended.out == "nothing to adopt: no agent pool of 4 NodeClaims has a dead UID\n"
    assert (await command(sim, "gc")).out.startswith("nothing to remove: 4 managed agent pools; ")


@pytest.mark.parametrize("output", ["json", "yaml"])
@simulated(azure=FAST, **NO_BOUND)
async def test_results_for_programs(sim: Sim, output: str) -> None:
    """One document on stdout with a result for each NodeClaim, failed ones included; the list to confirm on stderr."""
    names = await fleet(sim, 2)
    olds = [sim.claim(name)["metadata"]["uid"] for name in names]
    await sim.stop_controller()
    for name in names:
        restore(sim, name)

    async def vanish(call: Call, _: web.Request) -> web.StreamResponse | None:
        if call.who == WHO and call.verb == "PATCH" and call.target.name == names[0]:
            sim.store.delete(CLAIMS, names[0])
        return None

    sim.world.before.append(vanish)
    ended = await command(sim, "adopt", "--all", "--yes", "-o", output)
    found = yaml.safe_load(ended.out)
    assert ended.code == 1
    assert [(one["nodeClaim"], one["agentPool"], one["oldUid"]) for one in found] == [
        *zip(names, names, olds, strict=True)
    ]
    assert [one["error"] for one in found] == [f"NodeClaim {names[0]} not found", ""]
    assert found[1] | {"state": "Succeeded", "size": SIZE} == found[1]
    assert names[1] in ended.err


@simulated(azure=FAST, **NO_BOUND)
async def test_one_result_for_programs(sim: Sim) -> None:
    """A list with one result; without anything to adopt, an empty list."""
    old = await restored(sim)
    ended = await command(sim, "adopt", NAME, "-o", "json")
    (one_result,) = json.loads(ended.out)
    assert (ended.code, ended.err) == (0, "")
    assert (one_result["nodeClaim"], one_result["oldUid"], one_result["error"]) == (NAME, old, "")
    assert json.loads((await command(sim, "adopt", "--all", "-o", "json")).out) == []


@simulated(azure=FAST)
async def test_nothing_to_adopt_is_reported_in_one_line(sim: Sim) -> None:
    """In a healthy cluster `--all` exits with 0 and writes nothing."""
    await one(sim)
    ended = await command(sim, "adopt", "--all", "--yes")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == "nothing to adopt: no agent pool of 1 NodeClaim has a dead UID\n"
    assert written(sim) == []


@simulated(azure=FAST, **NO_BOUND)
async def test_a_claim_deleted_meanwhile_does_not_block_the_others(sim: Sim) -> None:
    """A claim that is deleted between the table and the write is reported, exit code 1; the others are annotated."""
    names = await fleet(sim, 2)
    await sim.stop_controller()
    for name in names:
        restore(sim, name)

    async def vanish(call: Call, _: web.Request) -> web.StreamResponse | None:
        if call.who == WHO and call.verb == "PATCH" and call.target.name == names[0]:
            sim.store.delete(CLAIMS, names[0])
        return None

    sim.world.before.append(vanish)
    ended = await command(sim, "adopt", "--all", "--yes")
    assert ended.code == 1
    assert f"nodeclaim/{names[0]}: NodeClaim {names[0]} not found" in ended.err
    assert requested(sim, names[1])


def test_a_conflict_is_retried() -> None:
    """Annotations of others are kept."""

    async def story(sim: Sim) -> None:
        old = await restored(sim)
        races = 2

        async def touch(call: Call, _: web.Request) -> web.StreamResponse | None:
            nonlocal races
            if call.who == WHO and call.verb == "PATCH" and races:
                races -= 1
                sim.store.patch(CLAIMS, NAME, {"metadata": {"annotations": {f"note{races}": "theirs"}}})
            return None

        sim.world.before.append(touch)
        ended = await command(sim, "adopt", NAME)
        assert ended.code == 0
        assert [call.status for call in sim.audit_log.calls(who=WHO, verb="PATCH")] == [409, 409, 200]
        claim = sim.claim(NAME)
        assert claim is not None
        assert claim["metadata"]["annotations"] == {"note0": "theirs", "note1": "theirs", labels.ADOPT: old}

    simulate(story, azure=FAST, **NO_BOUND)


# Refusals


async def no_pool(sim: Sim) -> None:
    await sim.apply(node_claim(NAME))


async def foreign_pool(sim: Sim) -> None:
    sim.cloud.seed_pool(NAME, vmSize=SIZE)
    await sim.apply(node_claim(NAME))


async def legacy_pool(sim: Sim) -> None:
    sim.cloud.seed_pool(NAME, vmSize=SIZE, nodeLabels=LEGACY)
    await sim.apply(node_claim(NAME))


async def living_owner(sim: Sim) -> None:
    await sim.apply(node_claim("alive"))
    uid = sim.claim("alive")["metadata"]["uid"]
    sim.cloud.seed_pool(NAME, vmSize=SIZE, tags={labels.TAG_CLAIM_UID: uid, labels.TAG_CLAIM_NAME: NAME})
    await sim.apply(node_claim(NAME))


async def going_pool(sim: Sim) -> None:
    await restored(sim)
    sim.cloud.delete_pool_by_hand(NAME)


async def going_claim(sim: Sim) -> None:
    await restored(sim)
    sim.store.patch(CLAIMS, NAME, {"metadata": {"finalizers": ["example.com/keep"]}})
    await sim.delete_claim(NAME)


async def other_class(sim: Sim) -> None:
    claim = node_claim(NAME)
    claim["metadata"]["labels"] = {}
    claim["spec"]["nodeClassRef"] = {"group": "karpenter.azure.com", "kind": "AKSNodeClass", "name": "default"}
    await sim.apply(claim)


async def unanswering(sim: Sim) -> None:
    await restored(sim)
    sim.cloud.faults.append(Fault(verb="LIST", times=ALWAYS, answer=errors.html(503)))


async def forbidden(sim: Sim) -> None:
    await restored(sim)
    refuse(sim, lambda call: call.who == WHO and call.verb == "PATCH", 403, "Forbidden")


async def living_owner_by_hand(sim: Sim) -> None:
    await living_owner(sim)
    uid = sim.claim("alive")["metadata"]["uid"]
    sim.store.patch(CLAIMS, NAME, {"metadata": {"annotations": {labels.ADOPT: uid}}})


REFUSALS: list[tuple[Any, str, str]] = [
    (no_claim, f"NodeClaim {NAME} not found", "kubectl get nodeclaims"),
    (no_pool, f"agent pool {NAME} not found", "nothing to adopt"),
    (foreign_pool, f"it has no tag {labels.TAG_CLAIM_UID}, so it is foreign", "NodeClaim of another name"),
    (legacy_pool, f"its label {labels.KAITO_CREATION_TIMESTAMP} is 2026-02-01T08-00-00Z", "--legacy-pools=report"),
    (own_pool, f"agent pool {NAME} belongs to nodeclaim/{NAME} already", "Nothing to do"),
    (living_owner, "is that of nodeclaim/alive, which exists", "kubectl delete nodeclaim alive"),
    (living_owner_by_hand, "is that of nodeclaim/alive, which exists", "kubectl delete nodeclaim alive"),
    (going_pool, "its provisioningState is Deleting", "gets a new machine"),
    (going_claim, "its metadata.deletionTimestamp is set", "restore it again"),
    (other_class, "its spec.nodeClassRef is karpenter.azure.com/AKSNodeClass", "kaito.sh/KaitoNodeClass"),
    (unanswering, "ARM: ", "when ARM responds"),
    (forbidden, f"403 Forbidden: patch NodeClaim {NAME}", "Request this permission"),
]


@pytest.mark.parametrize(("prepare", "cause", "remedy"), REFUSALS, ids=[row[0].__name__ for row in REFUSALS])
@simulated(azure=FAST, **NO_BOUND)
async def test_a_refusal_names_the_value_and_the_remedy(sim: Sim, prepare: Any, cause: str, remedy: str) -> None:
    """Exit code 1, two lines on stderr, and no change."""
    await prepare(sim)
    before = requested(sim)
    ended = await command(sim, "adopt", NAME)
    assert (ended.code, ended.out) == (1, "")
    reported_cause, reported_remedy = ended.err.splitlines()
    assert reported_cause.startswith("gpu-provisioner adopt: ")
    assert cause in reported_cause
    assert remedy in reported_remedy
    assert requested(sim) == before


@pytest.mark.parametrize("words", [(), (NAME, "--all")], ids=["neither", "both"])
@simulated()
async def test_one_name_or_all(sim: Sim, words: tuple[str, ...]) -> None:
    """Anything else is a usage error, and no request is sent."""
    ended = await command(sim, "adopt", *words)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.splitlines()[0] == "gpu-provisioner adopt: name one NodeClaim, or use --all"
    assert not sim.audit_log.calls(who=WHO)


@simulated(azure=FAST, **NO_BOUND)
async def test_a_pool_that_is_named_after_the_old_uid(sim: Sim) -> None:
    """A pool whose name is derived from the UID is found, and the output states why it cannot be adopted."""
    name = "workspace-with-a-long-name"
    await sim.start_controller()
    await sim.apply(node_claim(name))
    await sim.until(lambda: sim.condition(name, "Ready") == "True", 900, "it is Ready")
    (pool,) = sim.pools_of(sim.claim(name)["metadata"]["uid"])
    await sim.stop_controller()
    restore(sim, name)
    await asyncio.sleep(5)
    for words in ([name], ["--all"]):
        ended = await command(sim, "adopt", *words)
        assert f"agent pool {pool.name} of nodeclaim/{name} is named after its old UID" in ended.err
    assert written(sim) == []
