"""The Lease is renewed late: what could not be written meanwhile is written afterwards."""

import asyncio

from aiohttp import web

from provisioner.simulator.audit_log import Call
from tests.world.harness import SHIPPED_LEASE, Sim, simulated

from .common import CLASSES, POOLS, node_class, node_pool, shown


@simulated(lease=SHIPPED_LEASE)
async def test_objects_that_are_created_while_the_lease_runs_short(sim: Sim) -> None:
    """No event of theirs follows."""
    await sim.start_controller()
    await asyncio.sleep(30)
    tries = list[float]()

    async def late(call: Call, _: web.Request) -> web.StreamResponse | None:
        if call.target.kind == "leases" and call.verb == "PATCH":
            tries.append(call.at)
            if len(tries) <= 3:
                return web.json_response({"kind": "Status", "code": 500}, status=500)
            if len(tries) == 4:
                await sim.apply(node_class())
                await sim.apply(node_pool())
                await asyncio.sleep(3)
        return None

    sim.world.before.append(late)
    await sim.until(lambda: len(tries) == 4, 60, "the last attempt to renew the Lease")
    await asyncio.sleep(60)
    assert sim.ended("ctl0") is None
    for kind, name in ((CLASSES, "default"), (POOLS, "gpu")):
        assert shown(sim, "Ready", kind, name)[0] == "True", kind
