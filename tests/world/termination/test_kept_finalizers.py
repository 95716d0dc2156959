"""A mutating policy restores our finalizer: its removal is repeated with growing delays until the policy is gone."""

import asyncio

import pytest
from aiohttp import web

from provisioner.simulator.audit_log import Call
from tests.world.claims import ready
from tests.world.harness import Sim, node_claim, simulate
from tests.world.main_job import NAME
from tests.world.transcript import CLAIMS, FAST, MINUTE


@pytest.mark.parametrize(("kind", "resource"), [("nodeclaims", CLAIMS), ("nodes", "nodes")])
def test_a_policy_that_restores_the_finalizer(kind: str, resource: str) -> None:
    """The API server has peace."""

    async def story(sim: Sim) -> None:
        undone = list[Call]()

        async def undo(call: Call, request: web.Request) -> web.StreamResponse | None:
            found = sim.store.get(resource, call.target.name) if call.target.kind == kind else None
            removes = call.verb == "PATCH" and b"/metadata/finalizers" in await request.read()
            if found is None or not removes or "deletionTimestamp" not in found["metadata"] or len(undone) > 100:
                return None
            undone.append(call)
            return web.json_response(found)

        await sim.start_controller()
        await sim.apply(node_claim(NAME))
        await ready(sim, NAME)
        sim.world.before.append(undo)
        await sim.delete_claim(NAME)
        await sim.until(lambda: bool(undone), 10 * MINUTE, "the finalizer is removed")
        await asyncio.sleep(10 * MINUTE)
        assert len(undone) <= 30
        sim.world.before.remove(undo)
        await sim.until(lambda: sim.claim(NAME) is None, 2 * MINUTE, "the claim is gone")

    simulate(story, azure=FAST)
