"""Faults of the controller's process: its end at any moment, its network, its clock, and a second one beside it."""

import asyncio
import math
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from aiohttp import web

from provisioner.simulator.audit_log import Call
from provisioner.simulator.world import ARM_HOST, KUBE_HOST
from tests.swarm.plan import Event
from tests.world.process import Process

from .base import by_controller, disconnect, hooked, verb

if TYPE_CHECKING:
    from tests.swarm.run import Run

CLAIMS = "nodeclaims.karpenter.sh"
CRASH_LOOP_SECONDS = (5.0, 40.0)
RECOVERY_SECONDS = (2.0, 30.0)


def _living(run: "Run") -> list[Process]:
    return [process for process in run.sim.controllers.values() if not process.dead]


def _kill_all(run: "Run", event: Event) -> None:
    for process in _living(run):
        run.injected(event)
        run.sim.replace_controller(process.name, reset=event.pick < 0.5)


@verb("kill")
async def kill(run: "Run", event: Event) -> None:
    """SIGKILL, with the connections closed by FIN or RST; a successor with empty memory starts."""
    _kill_all(run, event)


@verb("claims-hidden")
async def claims_hidden(run: "Run", event: Event) -> None:
    """A successor's lists of NodeClaims, from a server that is behind, have only those of NodePools."""

    async def partial(call: Call, _: web.Request) -> web.StreamResponse | None:
        if not by_controller(run, call) or (call.verb, call.target.kind) != ("LIST", "nodeclaims"):
            return None
        items = [one for one in run.sim.store.list(CLAIMS) if one["metadata"].get("ownerReferences")]
        meta = {"resourceVersion": str(run.sim.store.revision)}
        return web.json_response(
            {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaimList", "metadata": meta, "items": items}
        )

    with hooked(run, before=partial):
        _kill_all(run, event)
        await run.lasts(event)
    _kill_all(run, event)


@verb("kill-twice")
async def kill_twice(run: "Run", event: Event) -> None:
    """The same, and again while the successor recovers."""
    least, most = RECOVERY_SECONDS
    _kill_all(run, event)
    await asyncio.sleep(least + event.pick * (most - least))
    _kill_all(run, event)


@verb("crash-loop")
async def crash_loop(run: "Run", event: Event) -> None:
    """Each successor is killed within seconds."""
    least, most = CRASH_LOOP_SECONDS
    until = run.sim.now + event.seconds
    while run.sim.now < until:
        _kill_all(run, event)
        await asyncio.sleep(least + event.pick * (most - least))


@verb("terminate")
async def terminate(run: "Run", event: Event) -> None:
    """SIGTERM, as at each rollout; a successor starts when the process has ended."""
    for process in _living(run):
        run.injected(event)
        await _terminate(run, process)


@verb("node-pools-disabled")
async def node_pools_disabled(run: "Run", event: Event) -> None:
    """The controller runs without NodePools for a while: it undoes what it had begun of them."""
    for value in (False, True):
        for process in _living(run):
            run.injected(event)
            await _terminate(run, process, node_pools=value)
        if not value:
            await run.lasts(event)
            assert not (left := run.tainted()), f"without NodePools {', '.join(left)} have the taint of a disruption"


async def _terminate(run: "Run", process: Process, **options: Any) -> None:
    if process.main is not None:
        process.main.cancel()
        await asyncio.wait([process.main])
    # Unless it was killed meanwhile, and has a successor.
    if not process.dead and process.failure is None:
        process.dead = True
        await process.reap()
        await run.sim.start_controller(f"{process.name}-", restart_on=process.restart_on, **process.options | options)


@verb("terminate-in-request")
async def terminate_in_request(run: "Run", event: Event) -> None:
    """SIGTERM while any request is on its way: the tasks are cancelled wherever they wait."""
    skip, found = int(event.pick * 20), asyncio.get_running_loop().create_future()

    async def before(call: Call, _: web.Request) -> None:
        nonlocal skip
        process = run.sim.controllers.get(call.who)
        if process is not None and not process.dead and not found.done():
            skip -= 1
            if skip < 0:
                found.set_result(process)

    with hooked(run, before=before):
        await asyncio.wait([found], timeout=event.seconds)
    if found.done():
        run.injected(event)
        await _terminate(run, found.result())


async def _kill_at(run: "Run", event: Event, fits: Callable[[Call], bool], *, skip: int = 0, after: bool) -> None:
    """Kill a controller at its next request that fits, `skip` of them left out, before or after it took effect."""
    doomed: list[tuple[Call, web.Request]] = []
    seen = 0

    def die(call: Call) -> None:
        process = run.sim.controllers[call.who]
        if not process.dead:
            run.injected(event)
            run.sim.replace_controller(call.who, reset=event.pick < 0.5)

    async def arrives(call: Call, request: web.Request) -> web.StreamResponse | None:
        nonlocal seen
        if doomed or call.who not in run.sim.controllers or call.is_bookkeeping or not fits(call):
            return None
        seen += 1
        if seen <= skip:
            return None
        doomed.append((call, request))
        if after:
            return None
        die(call)
        disconnect(request)
        return web.Response()

    async def leaves(call: Call, _: web.StreamResponse) -> None:
        if after and doomed and call is doomed[0][0]:
            die(call)

    with hooked(run, before=arrives, after=leaves):
        await run.lasts(event)


@verb("kill-before-write")
async def kill_before_write(run: "Run", event: Event) -> None:
    """Killed with a write on its way, which has no effect."""
    await _kill_at(run, event, lambda call: call.is_write, skip=int(event.pick * 4), after=False)


@verb("kill-after-write")
async def kill_after_write(run: "Run", event: Event) -> None:
    """Killed after a write was applied, before its answer."""
    await _kill_at(run, event, lambda call: call.is_write, skip=int(event.pick * 4), after=True)


@verb("kill-after-put")
async def kill_after_put(run: "Run", event: Event) -> None:
    """Killed after Azure accepted a pool, before the status of its NodeClaim."""
    await _kill_at(run, event, lambda call: call.system == "arm" and call.verb == "PUT", after=True)


@verb("kill-between-patches")
async def kill_between_patches(run: "Run", event: Event) -> None:
    """Killed between two writes to one NodeClaim."""
    await _kill_at(run, event, lambda call: call.verb == "PATCH" and call.target.kind == "nodeclaims", after=True)


async def _cut_off(run: "Run", event: Event, *hosts: str) -> None:
    network, names = run.sim.network, [process.name for process in _living(run)]
    for name in names:
        run.injected(event)
        for host in hosts:
            network.partition(host, name)
    await run.lasts(event)
    for name in names:
        for host in hosts:
            network.heal(host, name)


@verb("kube-cut-off")
async def kube_cut_off(run: "Run", event: Event) -> None:
    """A controller does not reach the API server, and reaches ARM."""
    await _cut_off(run, event, KUBE_HOST)


@verb("arm-cut-off")
async def arm_cut_off(run: "Run", event: Event) -> None:
    """A controller does not reach ARM, and reaches the API server."""
    await _cut_off(run, event, ARM_HOST)


@verb("frozen")
async def frozen(run: "Run", event: Event) -> None:
    """As a frozen machine: nothing arrives from it or at it, and what was sent arrives when it continues.

    For less than a Lease lasts: what arrives later cannot be prevented by the one who has sent it.
    """
    await _cut_off(run, event, KUBE_HOST, ARM_HOST)


@verb("second-controller")
async def second_controller(run: "Run", event: Event) -> None:
    """A second replica waits for the Lease, or takes it over, until it is stopped."""
    first = next(iter(_living(run)), None)
    name = f"second{int(event.pick * 1e9)}"
    if first is None or name in run.sim.controllers:
        return
    run.injected(event)
    await run.sim.start_controller(name, restart_on=first.restart_on, **first.options)
    await run.lasts(event)
    for process in _living(run):
        if process.name.startswith(name):
            await run.sim.stop_controller(process.name)


@verb("clock-jumps")
async def clock_jumps(run: "Run", event: Event) -> None:
    """The clock of a controller is wrong: by seconds to a year, forward or back."""
    wrong = timedelta(seconds=10.0 ** (7.5 * (event.pick * 2 % 1)))
    processes = _living(run)
    for process in processes:
        run.injected(event)
        process.clock.offset = wrong if event.pick < 0.5 else -wrong
    if event.pick >= 0.5:
        # An agent pool that is requested now states a time before the CRD of its NodeClaim was installed. Without the
        # NodeClaim it is kept until its removal is confirmed, which is after the faults.
        run.sim.invariants.gc_bound_seconds = math.inf
    await run.lasts(event)
    for process in processes:
        process.clock.offset = timedelta()
