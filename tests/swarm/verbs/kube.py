"""Faults of single requests to the API server, of its watches, and of what it shows."""

import asyncio
from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING

from aiohttp import web

from provisioner.simulator.audit_log import Call
from provisioner.simulator.snapshot import condition, conditions
from provisioner.simulator.world import KUBE_HOST
from tests.swarm.plan import Event

from .base import by_controller, disconnect, hooked, one_of, verb

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.swarm.run import Run

Fits = Callable[[Call], bool]
REFUSALS = (
    (409, "Conflict"),
    (429, "TooManyRequests"),
    (500, "InternalError"),
    (503, "ServiceUnavailable"),
    (504, "Timeout"),
)
KINDS = ("nodeclaims", "nodes", "pods", "nodepools")
KEYS = ("nodeclaims.karpenter.sh", "nodes", "pods", "nodepools.karpenter.sh")
HANG_SECONDS = 120.0


def _status(code: int, reason: str) -> web.Response:
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code}
    headers = {"Retry-After": "1"} if code == 429 else {}
    return web.json_response({**body, "message": f"injected: {reason}"}, status=code, headers=headers)


def _writes(call: Call) -> bool:
    return call.is_write and not call.is_bookkeeping


def _serves(call: Call) -> bool:
    """All requests but those of Leases: their failures are a fault of their own."""
    return call.target.kind != "leases"


async def _answered(
    run: "Run", event: Event, fits: Fits, answer: Callable[[], web.StreamResponse], *, every: int = 1
) -> None:
    """While it lasts, each `every`-th request that fits is answered without effect."""
    seen = 0

    async def before(call: Call, _: web.Request) -> web.StreamResponse | None:
        nonlocal seen
        if not by_controller(run, call) or not fits(call):
            return None
        seen += 1
        if seen % every:
            return None
        run.injected(event)
        return answer()

    with hooked(run, before=before):
        await run.lasts(event)


@verb("writes-fail")
async def writes_fail(run: "Run", event: Event) -> None:
    """Each third write is refused with one status."""
    code, reason = one_of(event, REFUSALS)
    await _answered(run, event, _writes, lambda: _status(code, reason), every=3)


@verb("no-write-succeeds")
async def no_write_succeeds(run: "Run", event: Event) -> None:
    """Every write fails."""
    await _answered(run, event, _writes, lambda: _status(500, "InternalError"))


@verb("claim-conflicts")
async def claim_conflicts(run: "Run", event: Event) -> None:
    """Every write to NodeClaims conflicts, that of the finalizer too."""
    await _answered(run, event, lambda call: _writes(call) and call.target.kind == "nodeclaims", _conflict)


@verb("node-conflicts")
async def node_conflicts(run: "Run", event: Event) -> None:
    """Every second write to Nodes conflicts."""
    await _answered(run, event, lambda call: _writes(call) and call.target.kind == "nodes", _conflict, every=2)


def _conflict() -> web.Response:
    return _status(409, "Conflict")


@verb("writes-invalid")
async def writes_invalid(run: "Run", event: Event) -> None:
    """Every third write is refused as invalid, or as too large."""
    code, reason = one_of(event, ((422, "Invalid"), (413, "RequestEntityTooLarge")))
    await _answered(run, event, _writes, lambda: _status(code, reason), every=3)


@verb("forbidden")
async def forbidden(run: "Run", event: Event) -> None:
    """The role lacks one verb of one kind."""
    kind, names = (
        one_of(event, KINDS),
        one_of(Event(at=0, fault="", pick=event.pick * 4 % 1), (("LIST", "WATCH"), ("PATCH",))),
    )

    def fits(call: Call) -> bool:
        return call.verb in names and call.target.kind == kind

    await _answered(run, event, fits, lambda: _status(403, "Forbidden"))


@verb("daemon-sets-forbidden")
async def daemon_sets_forbidden(run: "Run", event: Event) -> None:
    """The role lacks the verbs to read DaemonSets."""
    await _answered(run, event, lambda call: call.target.kind == "daemonsets", lambda: _status(403, "Forbidden"))


@verb("unauthorized")
async def unauthorized(run: "Run", event: Event) -> None:
    """The API server accepts no token, that of the Lease neither."""
    await _answered(run, event, lambda _: True, lambda: _status(401, "Unauthorized"))


@verb("kube-answer-lost")
async def kube_answer_lost(run: "Run", event: Event) -> None:
    """Each third write takes effect, and its answer is lost."""
    requests: dict[int, web.Request] = {}
    seen = 0

    async def before(call: Call, request: web.Request) -> None:
        if by_controller(run, call) and _writes(call):
            requests[call.number] = request

    async def after(call: Call, _: web.StreamResponse) -> None:
        nonlocal seen
        request = requests.pop(call.number, None)
        if request is not None:
            seen += 1
            if seen % 3 == 0:
                run.injected(event)
                disconnect(request)

    with hooked(run, before=before, after=after):
        await run.lasts(event)


@verb("odd-answers")
async def odd_answers(run: "Run", event: Event) -> None:
    """Each second request is answered with what is no answer of an API server."""
    bodies = (
        b"<html><title>Sign in</title></html>",
        b"",
        b'{"kind":"NodeList","metadata":{"na',
        b'{"error":"upstream"}',
    )
    body = one_of(event, bodies)
    await _answered(run, event, _serves, lambda: web.Response(body=body, content_type="application/json"), every=2)


@verb("lease-fails")
async def lease_fails(run: "Run", event: Event) -> None:
    """Requests about the Lease fail, conflict or hang."""
    how = one_of(event, ("fail", "conflict", "hang"))

    async def before(call: Call, _: web.Request) -> web.StreamResponse | None:
        if not by_controller(run, call) or call.target.kind != "leases":
            return None
        run.injected(event)
        if how == "hang":
            await asyncio.sleep(HANG_SECONDS)
        return _conflict() if how == "conflict" and call.is_write else _status(500, "InternalError")

    with hooked(run, before=before):
        await run.lasts(event)


# watches


@contextmanager
def _watches(run: "Run", event: Event, seconds: float) -> "Iterator[None]":
    """Inside the block, watches of controllers end after this time; those that are open end now."""
    loop = asyncio.get_running_loop()

    async def before(call: Call, request: web.Request) -> None:
        if by_controller(run, call) and call.verb == "WATCH":
            run.injected(event)
            loop.call_later(seconds, disconnect, request)

    _cut(run)
    with hooked(run, before=before):
        yield


def _cut(run: "Run") -> bool:
    """The connections of controllers to the API server end, watches with them; whether there was one."""
    links = [link for link in run.sim.network.links(host=KUBE_HOST) if link.who in run.sim.controllers]
    for link in links:
        link.server.close()
    return bool(links)


@verb("watches-end")
async def watches_end(run: "Run", event: Event) -> None:
    """Each watch ends after a few seconds, or at once."""
    with _watches(run, event, 0.0 if event.pick < 0.5 else 10.0 * event.pick):
        await run.lasts(event)


@verb("watches-silent")
async def watches_silent(run: "Run", event: Event) -> None:
    """Connections are half open: nothing arrives on those that exist, and their ends are not closed."""
    links = [link for link in run.sim.network.links(host=KUBE_HOST) if link.who in run.sim.controllers]
    for link in links:
        run.injected(event)
        link.hold(True)
    await run.lasts(event)
    for link in links:
        link.hold(False)


@verb("watches-expire")
async def watches_expire(run: "Run", event: Event) -> None:
    """All watches end, and resuming them fails with 410, as an event or as a status."""
    api = run.sim.api
    api.expired_as_status = event.pick < 0.5
    run.sim.store.compact()
    if _cut(run):
        run.injected(event)
    await run.lasts(event)
    api.expired_as_status = False


@verb("deletion-missed")
async def deletion_missed(run: "Run", event: Event) -> None:
    """No watch of one kind can begin while it lasts; then versions from before have expired."""
    kind = one_of(event, KINDS)
    _cut(run)
    fits: Fits = lambda call: call.verb == "WATCH" and call.target.kind == kind  # noqa: E731 - one of several
    await _answered(run, event, fits, lambda: _status(503, "ServiceUnavailable"))
    run.sim.store.compact()


@verb("event-lost")
async def event_lost(run: "Run", event: Event) -> None:
    """No watch delivers the next write of one kind; a list follows when the fault ends."""
    key, lost, ends = one_of(event, KEYS), list[int](), run.sim.now + event.seconds

    def changed(_: str, resource: str, obj: dict[str, dict[str, str]], __: object) -> None:
        if resource == key and not lost and run.sim.now < ends:
            lost.append(int(obj["metadata"]["resourceVersion"]))
            run.sim.api.lose_event(lost[0])
            run.injected(event)

    run.sim.store.subscribe(changed)
    await run.lasts(event)
    run.sim.store.compact()
    _cut(run)


async def _lagging(run: "Run", event: Event, kinds: tuple[str, ...]) -> None:
    changed = False

    def seen(_: str, resource: str, *__: object) -> None:
        nonlocal changed
        changed = changed or not kinds or resource in kinds

    run.sim.api.freeze_view(run.sim.store.revision, consistent_lists=True, kinds=kinds)
    run.sim.store.subscribe(seen)
    if event.pick * 4 % 1 < 0.5:
        _cut(run)
    await run.lasts(event)
    if changed:
        run.injected(event)
    run.sim.api.thaw()


@verb("cache-lags")
async def cache_lags(run: "Run", event: Event) -> None:
    """Watches and lists from the API server's cache show a state of the past."""
    await _lagging(run, event, ())


@verb("kind-lags")
async def kind_lags(run: "Run", event: Event) -> None:
    """Watches and lists of one kind show a state of the past, those of others do not."""
    await _lagging(run, event, (one_of(event, KEYS),))


@verb("node-classes-unlisted")
async def node_classes_unlisted(run: "Run", event: Event) -> None:
    """A successor with empty memory cannot list node classes: what it cannot know is no fault of a machine."""
    before = {one["metadata"]["uid"] for one in run.claims() if condition(one, "Initialized") == "True"}
    for process in [one for one in run.sim.controllers.values() if not one.dead]:
        run.sim.replace_controller(process.name, reset=event.pick < 0.5)
    fits: Fits = lambda call: call.target.kind == "agentpoolnodeclasses"  # noqa: E731 - one expression
    await _answered(run, event, fits, lambda: _status(500, "InternalError"))
    machines = {one.name for one in run.sim.nodes.machines.values() if one.answers and one.plugin == "running"}
    for one in run.claims():
        works = (one.get("status") or {}).get("nodeName") in machines and one["metadata"]["uid"] in before
        stated = (held for held in conditions(one) if (held["type"], held["status"]) == ("Initialized", "False"))
        # What the Node itself states has another cause.
        lacks = [held for held in stated if held["reason"] != "NodeNotReady"]
        assert not works or not lacks, f"claim {one['metadata']['name']} without its node class: {lacks[0]['reason']}"
