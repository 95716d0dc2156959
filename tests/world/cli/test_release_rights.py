"""`gpu-provisioner release` with the account of the controller, as in its pod: the chart grants no get of Nodes."""

from aiohttp import web

from provisioner.simulator.audit_log import Call
from tests.world.commands import WHO, command
from tests.world.garbagecollection.common import NO_BOUND
from tests.world.harness import Sim, simulated
from tests.world.main_job import NAME
from tests.world.transcript import FAST, refuse

from .common import CLUSTER_GONE, FLAG, stuck


@simulated(azure=FAST, **NO_BOUND)
async def test_a_node_that_changes_meanwhile(sim: Sim) -> None:
    """Its new version is read by a list, which the controller may send."""
    await stuck(sim, CLUSTER_GONE)
    await sim.stop_controller()

    def gets_node(call: Call) -> bool:
        return (call.who, call.verb, call.target.kind) == (WHO, "GET", "nodes") and bool(call.target.name)

    refuse(sim, gets_node, 403, "Forbidden")
    conflicts = list[Call]()

    async def conflict(call: Call, _: web.Request) -> web.StreamResponse | None:
        if conflicts or (call.who, call.verb, call.target.kind) != (WHO, "PATCH", "nodes"):
            return None
        conflicts.append(call)
        body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Conflict", "code": 409}
        return web.json_response(body, status=409)

    sim.world.before.append(conflict)
    ended = await command(sim, "release", NAME, FLAG)
    assert conflicts
    assert (ended.code, ended.err) == (0, ""), ended.err
    assert sim.claim(NAME) is None
