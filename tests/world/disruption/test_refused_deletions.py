"""A NodeClaim whose deletion the API server refuses stops neither others of its NodePool nor other NodePools.

Nothing is bought for it: the API server is asked before, by a dry run of the deletion.
"""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from aiohttp import web

from provisioner.simulator.audit_log import Call
from tests.world.demand import T4, claims_of, node_pool
from tests.world.harness import Sim, simulate, simulated
from tests.world.transcript import refuse

from .common import (
    PROTECTED,
    SIZES,
    T4_64,
    allow,
    annotated,
    budget,
    created,
    deletes,
    deletions,
    drift,
    dynamic,
    events,
    live,
    names,
    numbers,
    one_pod_each,
    passes,
    ready,
    refuse_deletion,
    static,
    tainted,
)
from .common import fleet as used

Answer = Callable[[Call], Awaitable[web.StreamResponse]]


@pytest.mark.parametrize(("status", "nodes"), [(403, "100%"), (422, "1"), (400, "1"), (500, "100%")])
def test_other_empty_machines_are_removed(status: int, nodes: str) -> None:
    """Also if the budget allows one at a time; an error of the server keeps only the machine that it is about."""

    async def story(sim: Sim) -> None:
        await one_pod_each(sim, 3, budget={"nodes": nodes})
        refuse_deletion(sim, "gpu-1", status)
        for name in names(3):
            sim.store.delete("pods", name, "default")
        await sim.until(lambda: live(sim) == ["gpu-1"], 3600.0, "the others are deleted")
        if status != 500:
            # The machines are tried in any order.
            stated = lambda: any(PROTECTED in one for one in events(sim, "NodeClaim", "DisruptionBlocked"))  # noqa: E731
            await sim.until(stated, 60.0, "the refusal is stated")
            before = deletions(sim, "gpu-1", dry_run=False)
            await passes(sim, 3600.0)
            assert deletions(sim, "gpu-1", dry_run=False) - before <= 7
            assert not deletions(sim, "gpu-1", dry_run=True)

    simulate(story)


@simulated()
async def test_other_machines_are_replaced(sim: Sim) -> None:
    """A policy appears when the replacement is bought: the machine takes pods again; others are replaced."""
    await static(sim, 2)
    await sim.apply(node_pool("second", replicas=1, requirements=SIZES, disruption=budget("1")))
    second = "second-1"
    await sim.until(lambda: sim.claim(second) and sim.condition(second, "Ready") == "True", 1800.0, "the other machine")
    drift(sim, "gpu-1")
    await sim.until(lambda: "gpu-3" in live(sim), 60.0, "its replacement is bought")
    refuse_deletion(sim, "gpu-1")
    await sim.until(lambda: "gpu-3" in ready(sim), 1800.0, "its replacement is ready")
    drift(sim, second, "gpu-2")
    await sim.until(
        lambda: [one["metadata"]["name"] for one in claims_of(sim, "second")] == ["second-2"], 3600.0, "one"
    )
    await sim.until(lambda: "gpu-2" not in live(sim), 4 * 3600.0, "the other machine of its NodePool")
    assert "gpu-1" in live(sim)
    await sim.until(lambda: not tainted(sim), 3600.0, "no machine is tainted for ever")


@pytest.mark.parametrize("status", [403, 500])
def test_other_machines_of_a_static_nodepool_are_removed(status: int) -> None:
    """An error of the server about one NodeClaim keeps that one only."""

    async def story(sim: Sim) -> None:
        await static(sim, 3)
        refuse_deletion(sim, "gpu-1", status)
        sim.store.patch("nodepools.karpenter.sh", "gpu", {"spec": {"replicas": 0}})
        await sim.until(lambda: live(sim) == ["gpu-1"], 60.0, "the others are deleted")

    simulate(story)


async def drifted_static(sim: Sim) -> None:
    await static(sim, 1)
    drift(sim, "gpu-1")


async def drifted(sim: Sim) -> None:
    await dynamic(sim, "serving")
    drift(sim, "gpu-1")


async def dear(sim: Sim) -> None:
    """A cheaper machine is enough for its pod."""
    await used(sim, T4_64, web=1)
    allow(sim, T4_64, T4)


@pytest.mark.matrix(quick=3)
@pytest.mark.parametrize("status", [403, 422, 400])
@pytest.mark.parametrize("begin", [drifted_static, drifted, dear])
def test_no_replacement_is_bought(begin: Callable[[Sim], Awaitable[None]], status: int) -> None:
    """A policy protects the machine: nothing is marked, an Event names the policy, and attempts are ever rarer."""

    async def story(sim: Sim) -> None:
        allow_again = refuse_deletion(sim, "gpu-1", status)
        marked = list[str]()
        sim.store.subscribe(lambda *_: marked.extend(tainted(sim)))
        await begin(sim)
        before = created(sim)
        await passes(sim, 3 * 3600.0)
        assert created(sim) == before
        assert not marked
        assert 3 <= deletions(sim, "gpu-1", dry_run=True) <= 5
        assert not deletions(sim, "gpu-1", dry_run=False)
        found = events(sim, "NodeClaim", "DisruptionBlocked")
        assert any(message.startswith("failed to delete: ") and PROTECTED in message for message in found)
        allow_again()
        await sim.until(lambda: "gpu-1" not in live(sim), 4 * 3600.0, "it is replaced")
        assert created(sim) == before + 1

    simulate(story)


@simulated()
async def test_a_dry_run_for_each_machine_of_a_command(sim: Sim) -> None:
    """Before anything is marked; none is sent again for the command."""
    await static(sim, 2)
    marked = list[bool]()
    sim.world.before.append(lambda call, _: _look(sim, call, marked))
    drift(sim, "gpu-1", "gpu-2")
    await sim.until(lambda: ready(sim) == ["gpu-3", "gpu-4"], 3600.0, "two others")
    assert [deletions(sim, name, dry_run=True) for name in numbers(1, 2)] == [1, 1]
    assert [deletions(sim, name, dry_run=False) for name in numbers(1, 2)] == [1, 1]
    assert marked == [False, False]


async def _look(sim: Sim, call: Call, marked: list[bool]) -> None:
    if call.dry_run:
        marked.append("disruption-command" in str(sim.claim(call.target.name)))


@simulated()
async def test_a_webhook_that_does_not_support_dry_runs(sim: Sim) -> None:
    """Nothing is known of the deletion then, which may be permitted: the machine is replaced."""
    await static(sim, 1)
    message = 'admission webhook "audit.example.com" does not support dry run'
    refuse(sim, lambda call: deletes(call, "gpu-1") and call.dry_run, 400, "BadRequest", message)
    drift(sim, "gpu-1")
    await sim.until(lambda: ready(sim) == ["gpu-2"] and live(sim) == ["gpu-2"], 3600.0, "it is replaced")


@simulated()
async def test_an_error_of_a_webhook_buys_nothing(sim: Sim) -> None:
    """What is not known permits nothing. The machine is tried again later, and the other one is replaced meanwhile."""
    await static(sim, 2)
    allow_again = refuse_deletion(sim, "gpu-1", 500)
    drift(sim, *numbers(1, 2))
    await sim.until(lambda: ready(sim) == ["gpu-1", "gpu-3"], 1800.0, "the other one is replaced")
    assert created(sim) == 3
    allow_again()
    await sim.until(lambda: ready(sim) == ["gpu-3", "gpu-4"], 3 * 3600.0, "both are")


@pytest.mark.matrix(quick=2)
@pytest.mark.parametrize("status", [404, 405, 409, 429, 503])
def test_a_refusal_with_any_code(status: int) -> None:
    """A webhook chooses it: the other machine of the same command, and the one of another NodePool, are replaced."""

    async def story(sim: Sim) -> None:
        await static(sim, 2)
        await sim.apply(node_pool("second", replicas=1, requirements=SIZES, disruption=budget("1")))
        await sim.until(lambda: sim.condition("second-1", "Ready") == "True", 1800.0, "the other NodePool's")
        refuse_deletion(sim, "gpu-1", status)
        drift(sim, *numbers(1, 2), "second-1")
        await sim.until(lambda: ready(sim) == ["gpu-1", "gpu-3"], 3600.0, "the other one is replaced")
        await sim.until(
            lambda: sim.condition("second-2", "Ready") == "True", 3600.0, "the other NodePool's is replaced"
        )
        assert any(PROTECTED in message for message in events(sim, "NodeClaim", "DisruptionBlocked"))
        assert deletions(sim, "gpu-1", dry_run=True) <= 10

    simulate(story)


async def fails(_: Call) -> web.StreamResponse:
    """The answer of the API server after a webhook has failed."""
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "InternalError", "code": 500}
    return web.json_response(body, status=500)


async def hangs(call: Call) -> web.StreamResponse:
    """The same after its default `timeoutSeconds`, which a client does not wait for that has as many."""
    await asyncio.sleep(11.0)
    return await fails(call)


@pytest.mark.parametrize("answer", [fails, hangs])
@simulated()
async def test_a_machine_that_cannot_be_marked_stops_no_other(sim: Sim, answer: Answer) -> None:
    """A webhook fails for the NodeClaim that is to be replaced first."""
    await dynamic(sim, "web", "api")

    async def marks(call: Call, _: web.Request) -> web.StreamResponse | None:
        marked = call.verb == "PATCH" and call.target.name == "gpu-1" and not call.target.subresource
        return await answer(call) if marked else None

    sim.world.before.append(marks)
    drift(sim, "gpu-1")
    await passes(sim, 60.0)
    drift(sim, "gpu-2")
    await sim.until(lambda: "gpu-2" not in live(sim), 3600.0, "the other machine is replaced")
    assert "gpu-1" in live(sim)


@simulated()
async def test_a_node_that_cannot_be_tainted_stops_no_other(sim: Sim) -> None:
    """The NodeClaim is marked by then, and nothing was bought for it: others of its NodePool do not wait."""
    await dynamic(sim, "web", "api")
    node = (sim.claim("gpu-1") or {})["status"]["nodeName"]
    refuse(sim, lambda call: call.verb == "PATCH" and call.target.name == node, 500, "InternalError")
    drift(sim, "gpu-1")
    await passes(sim, 60.0)
    drift(sim, "gpu-2")
    await sim.until(lambda: annotated(sim.claim("gpu-2") or {}), 120.0, "the other machine is replaced")
    assert not annotated(sim.claim("gpu-1") or {})
    assert not events(sim, "NodeClaim", "ReplacementFailed")


@pytest.mark.parametrize("answer", [fails, hangs])
@simulated()
async def test_a_replacement_that_cannot_be_created_stops_no_other(sim: Sim, answer: Answer) -> None:
    """A webhook fails for the NodeClaims of one NodePool: machines of another one are replaced."""
    await static(sim, 1)
    await sim.apply(node_pool("second", replicas=1, requirements=SIZES, disruption=budget("1")))
    await sim.until(lambda: sim.claim("second-1") and sim.condition("second-1", "Ready") == "True", 1800.0, "another")

    async def creates(call: Call, request: web.Request) -> web.StreamResponse | None:
        created = call.verb == "POST" and call.target.kind == "nodeclaims" and b'"gpu-2"' in await request.read()
        return await answer(call) if created else None

    sim.world.before.append(creates)
    drift(sim, "gpu-1")
    await passes(sim, 60.0)
    drift(sim, "second-1")
    await sim.until(lambda: sim.claim("second-2") is not None, 3600.0, "the replacement of the other one")
    assert live(sim) == ["gpu-1"]
