"""Faults of single requests to the API server."""

from typing import TYPE_CHECKING

from aiohttp import web

from provisioner.simulator.audit_log import Call
from tests.swarm.plan import Event

from .base import verb

if TYPE_CHECKING:
    from tests.swarm.run import Run

ANSWERS = ((409, "Conflict"), (500, "InternalError"), (503, "ServiceUnavailable"), (429, "TooManyRequests"))
EVERY = 3


@verb("writes-fail")
async def writes_fail(run: "Run", event: Event) -> None:
    """While it lasts, each third write of a controller is refused with one status."""
    status, reason = ANSWERS[int(event.pick * len(ANSWERS))]
    seen = 0

    async def before(call: Call, _: web.Request) -> web.StreamResponse | None:
        nonlocal seen
        if call.system != "kube" or call.who not in run.sim.controllers or not call.is_write or call.is_bookkeeping:
            return None
        seen += 1
        if seen % EVERY:
            return None
        run.struck(event)
        body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": status}
        headers = {"Retry-After": "1"} if status == 429 else {}
        return web.json_response({**body, "message": f"injected: {reason}"}, status=status, headers=headers)

    run.sim.world.before.append(before)
    await run.lasts(event)
    run.sim.world.before.remove(before)
