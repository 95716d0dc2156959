"""Leader election on virtual time, with an API server that can be disconnected and wrong wall clocks."""

import asyncio
import itertools
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from kubernetes_asyncio.client import Configuration

from provisioner.runtime.connection import client_over
from provisioner.runtime.kube import Kube, KubeError
from provisioner.runtime.leaderelection import LeaderElector, LeadershipLost
from provisioner.runtime.objects import micro_time
from provisioner.runtime.resourcelock import LeaseLock
from provisioner.simulator.loop import SimLoop, VirtualClock
from provisioner.simulator.network import MemoryConnector, Network
from tests.stories import run_by

from .kube_server import seeded
from .virtual import now, virtually

EPOCH = datetime(2026, 3, 1, tzinfo=UTC)
HOST = "kube.sim"
PATH = "/apis/coordination.k8s.io/v1/namespaces/sys/leases"


class Leases:
    """One Lease with the API server's rules: versions, conflicts, merge patches, MicroTimes of six decimals."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.versions = itertools.count(1)
        self.writes: list[tuple[float, str]] = []
        self.lose_answers = 0

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_get(PATH + "/lock", self.get)
        app.router.add_post(PATH, self.create)
        app.router.add_patch(PATH + "/lock", self.patch)
        return app

    def put(self, holder: str, renewed: str = "2026-01-01T00:00:00.000000Z", seconds: int = 30) -> None:
        spec = {"holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": seconds, "leaseTransitions": 3}
        self.store({"metadata": {"name": "lock", "uid": "u", "labels": {"their": "own"}}, "spec": spec})

    def store(self, lease: dict[str, Any]) -> web.Response:
        lease["metadata"]["resourceVersion"] = str(next(self.versions))
        self.lease = {"kind": "Lease", "apiVersion": "coordination.k8s.io/v1"} | lease
        return web.json_response(self.lease)

    def refuse(self, code: int, reason: str) -> web.Response:
        body = {"kind": "Status", "code": code, "reason": reason, "message": reason, "details": {"name": "lock"}}
        return web.json_response(body, status=code)

    async def get(self, request: web.Request) -> web.Response:
        return web.json_response(self.lease) if self.lease else self.refuse(404, "NotFound")

    async def create(self, request: web.Request) -> web.Response:
        if self.lease:
            return self.refuse(409, "AlreadyExists")
        return self.written(request, await request.json())

    async def patch(self, request: web.Request) -> web.Response:
        body = await request.json()
        if self.lease is None:
            return self.refuse(404, "NotFound")
        if body["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
            return self.refuse(409, "Conflict")
        metadata, notes = self.lease["metadata"], body["metadata"].get("annotations", {})
        if notes:
            metadata = metadata | {"annotations": metadata.get("annotations", {}) | notes}
        return self.written(
            request, self.lease | {"metadata": metadata, "spec": self.lease["spec"] | body.get("spec", {})}
        )

    def written(self, request: web.Request, lease: dict[str, Any]) -> web.Response:
        for key in {"acquireTime", "renewTime"} & lease["spec"].keys():
            datetime.strptime(lease["spec"][key], "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC)
            assert len(lease["spec"][key]) == 27
        self.writes.append((now(), lease["spec"]["holderIdentity"]))
        answer = self.store(lease)
        if self.lose_answers:
            self.lose_answers -= 1
            assert request.transport is not None
            request.transport.close()
        return answer


class World:
    def __init__(self) -> None:
        self.leases = Leases()
        self.network = Network(asyncio.get_running_loop())
        self.sessions: list[aiohttp.ClientSession] = []

    def election(self, who: str, *, offset: timedelta = timedelta(), **options: Any) -> LeaderElector:
        session = aiohttp.ClientSession(connector=MemoryConnector(self.network, who), trust_env=False)
        self.sessions.append(session)
        clock = VirtualClock(asyncio.get_running_loop(), EPOCH)
        clock.offset = offset
        kube = Kube(client_over(session, Configuration(host=f"http://{HOST}"), version="0"))
        lock = LeaseLock(kube, clock, name="lock", namespace="sys", identity=who, **options)
        return LeaderElector(lock, clock, rng=seeded())


@asynccontextmanager
async def world() -> AsyncIterator[World]:
    it = World()
    runner = web.AppRunner(it.leases.app(), access_log=None, shutdown_timeout=1)
    await runner.setup()
    assert runner.server is not None
    it.network.servers[HOST] = runner.server
    try:
        yield it
    finally:
        for session in it.sessions:
            await session.close()
        await runner.cleanup()


def in_a_world(story: Callable[[World], Any]) -> None:
    async def main() -> None:
        async with world() as it:
            await story(it)

    virtually(main)


async def forever() -> None:
    await asyncio.sleep(math.inf)


class Diary:
    """Work of the leader that records when it ran and how much of the Lease was left at its end."""

    def __init__(self, election: LeaderElector) -> None:
        self.election = election
        self.began = self.ended = -1.0
        self.left = -1.0

    async def work(self) -> None:
        self.began = now()
        try:
            await forever()
        finally:
            self.ended, self.left = now(), self.election.remaining()


@run_by(in_a_world)
async def test_a_free_lease_is_taken_renewed_and_released(it: World) -> None:
    """Create, renew every 5 s, and release with an empty holder when the work is done."""
    election = it.election("one")
    assert election.remaining() == 0

    async def work() -> str:
        await asyncio.sleep(12)
        assert 27 <= election.remaining() <= 30
        return "done"

    assert await election.run(work) == "done"
    assert it.leases.writes == [(0, "one"), (5, "one"), (10, "one"), (12, "")]
    assert election.remaining() == 0


@run_by(in_a_world)
async def test_the_term_counts_from_before_the_request(it: World) -> None:
    """A slow API server shortens the remaining time: other replicas may count from when the request was sent."""
    it.network.latency_seconds = (0.0, 0.5)
    election = it.election("one")
    left = []

    async def work() -> None:
        left.append(election.remaining())

    await election.run(work)
    sent = max(at for at, who in it.leases.writes if who == "one")
    assert left[0] < 30 - (now() - sent) / 2
    assert left[0] <= 29.0


@run_by(in_a_world)
async def test_the_second_waits_for_the_first_to_release(it: World) -> None:
    """A release takes at most one retry period of the follower; labels of other clients on the Lease stay."""
    it.leases.put("")
    first, second = it.election("one"), it.election("two")
    diary = Diary(second)
    async with asyncio.TaskGroup() as group:
        leading = group.create_task(first.run(forever))
        await asyncio.sleep(1)
        waiting = group.create_task(second.run(diary.work))
        await asyncio.sleep(100)
        assert diary.began == -1
        assert second.remaining() == 0
        leading.cancel()
        await asyncio.sleep(7)
        assert 101 <= diary.began <= 108
        assert it.leases.lease is not None
        assert it.leases.lease["metadata"]["labels"] == {"their": "own"}
        assert it.leases.lease["spec"]["leaseTransitions"] == 5
        waiting.cancel()


@pytest.mark.parametrize("hours", [-1, 0, 1])
@run_by(in_a_world)
async def test_another_holders_lease_runs_on_our_clock(it: World, hours) -> None:
    """Fault 63: whatever renewTime and our wall clock are, the Lease is respected for its whole duration."""
    it.leases.put("dead", seconds=40)
    election = it.election("two", offset=timedelta(hours=hours))
    diary = Diary(election)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(election.run(diary.work))
        await asyncio.sleep(60)
        assert 40 <= diary.began <= 47
        task.cancel()


@pytest.mark.parametrize(
    ("renewed", "seconds"),
    [
        (micro_time(EPOCH - timedelta(hours=1)), 3600.0),
        (micro_time(EPOCH), 0.0),
        (micro_time(EPOCH + timedelta(hours=1)), 0.0),
        ("", 0.0),
        ("yesterday", 0.0),
        ("2025-01-01T00:00:00", 0.0),
    ],
)
@run_by(in_a_world)
async def test_the_time_without_a_leader_is_estimated(it: World, renewed, seconds) -> None:
    """From the last renewal to ours; an invalid time, or one in the future, counts as 0."""
    it.leases.put("", renewed)
    election = it.election("one")
    diary = Diary(election)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(election.run(diary.work))
        await asyncio.sleep(60)
        assert diary.began >= 0
        assert election.vacant_seconds == pytest.approx(seconds, abs=1.0)
        task.cancel()


@run_by(in_a_world)
async def test_a_leader_that_cannot_renew_stops_before_anyone_else_begins(it: World) -> None:
    """Fault 61: disconnected from the API server, the work ends before the Lease expires and the other one starts."""
    first, second = it.election("one"), it.election("two")
    one, two = Diary(first), Diary(second)
    async with asyncio.TaskGroup() as group:
        leading = group.create_task(swallow(first.run(one.work)))
        await asyncio.sleep(1)
        waiting = group.create_task(second.run(two.work))
        await asyncio.sleep(20)
        it.network.partition(HOST, "one")
        assert isinstance(await leading, LeadershipLost)
        cut_off = max(at for at, who in it.leases.writes if who == "one")
        assert one.ended <= cut_off + 25
        await asyncio.sleep(60)
        assert two.began >= cut_off + 30
        waiting.cancel()


async def swallow(leading: Any) -> BaseException | None:
    try:
        await leading
    except LeadershipLost as error:
        return error
    return None


@pytest.mark.parametrize("hang", [True, False])
@run_by(in_a_world)
async def test_a_renewal_that_fails_now_and_then_costs_nothing(it: World, hang) -> None:
    """Fault 60: rejected or timed out for 15 s, then renewed: still the leader, without a gap."""
    election = it.election("one")
    async with asyncio.TaskGroup() as group:
        task = group.create_task(election.run(forever))
        await asyncio.sleep(11)
        if hang:
            it.network.partition(HOST, "one")
        else:
            it.network.refuse(HOST)
            for link in it.network.links(host=HOST):
                link.client.reset()
        await asyncio.sleep(13)
        assert election.remaining() > 5
        it.network.heal(HOST, "one")
        it.network.refuse(HOST, on=False)
        await asyncio.sleep(60)
        assert not task.done()
        assert election.remaining() > 20
        task.cancel()


@run_by(in_a_world)
async def test_annotations_on_the_lease_are_reported_and_kept(it: World) -> None:
    """An annotation that conflicts with our renewal is reported once and kept by all renewals."""
    heard: list[dict[str, str]] = []
    election = it.election("one", on_annotations=lambda notes: heard.append(dict(notes)))
    async with asyncio.TaskGroup() as group:
        task = group.create_task(election.run(forever))
        await asyncio.sleep(7)
        lease = it.leases.lease
        assert lease is not None
        note = {"their.example/note": "1"}
        it.leases.store(lease | {"metadata": lease["metadata"] | {"annotations": note}})
        await asyncio.sleep(20)
        assert heard == [note]
        assert dict(election.annotations) == note
        assert election.remaining() > 20
        it.leases.lease = None
        await asyncio.sleep(7)
        assert it.leases.lease is not None
        assert it.leases.lease["metadata"]["annotations"] == note
        assert heard == [note]
        task.cancel()


@run_by(in_a_world)
async def test_the_leader_annotates_its_lease(it: World) -> None:
    """Several calls at once, another client's write and a lost response between them lose no annotation."""
    election = it.election("one")

    async def work() -> None:
        async with asyncio.TaskGroup() as group:
            for name in "abc":
                group.create_task(election.annotate(f"example.com/{name}", "1"))
        lease = it.leases.lease
        assert lease is not None
        notes = lease["metadata"]["annotations"] | {"their.example/note": "1"}
        it.leases.store(lease | {"metadata": lease["metadata"] | {"annotations": notes}})
        await election.annotate("example.com/a", "2")
        it.leases.lose_answers = 1
        with pytest.raises(KubeError):
            await election.annotate("example.com/b", "2")
        await election.annotate("example.com/c", "2")

    await election.run(work)
    assert it.leases.lease is not None
    assert it.leases.lease["metadata"]["annotations"] == {
        "example.com/a": "2",
        "example.com/b": "2",
        "example.com/c": "2",
        "their.example/note": "1",
    }
    assert it.leases.writes[-1][1] == ""


@run_by(in_a_world)
async def test_a_lease_of_another_holder_is_not_annotated(it: World) -> None:
    """A process whose Lease was taken writes nothing to it."""
    election = it.election("one")

    async def work() -> None:
        it.leases.put("thief")
        with pytest.raises(KubeError) as caught:
            await election.annotate("example.com/a", "1")
        assert caught.value.conflict
        await forever()

    assert isinstance(await swallow(election.run(work)), LeadershipLost)
    assert it.leases.lease is not None
    assert "annotations" not in it.leases.lease["metadata"]


@pytest.mark.parametrize("restored", [False, True], ids=["deleted", "restored without a holder"])
@run_by(in_a_world)
async def test_a_lease_that_vanishes_is_held_until_the_observed_term_ends(it: World, restored: bool) -> None:
    """A follower that saw the Lease held does not lead at once because another client deleted or replaced it."""
    it.leases.put("dead", seconds=40)
    election = it.election("two")
    diary = Diary(election)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(election.run(diary.work))
        await asyncio.sleep(3)
        it.leases.lease = None
        if restored:
            it.leases.put("")
            assert it.leases.lease is not None
            it.leases.lease["metadata"]["uid"] = "another"
        await asyncio.sleep(60)
        assert 40 <= diary.began <= 47
        task.cancel()


@run_by(in_a_world)
async def test_a_lease_taken_over_keeps_its_annotations(it: World) -> None:
    """A new leader reads the annotations that were written for its predecessor."""
    it.leases.put("")
    lease = it.leases.lease
    assert lease is not None
    note = {"their.example/note": "1"}
    it.leases.store(lease | {"metadata": lease["metadata"] | {"annotations": note}})
    election = it.election("one")
    seen: list[dict[str, str]] = []

    async def work() -> None:
        seen.append(dict(election.annotations))

    await election.run(work)
    assert seen == [note]
    assert it.leases.lease is not None
    assert it.leases.lease["metadata"]["annotations"] == note


@run_by(in_a_world)
async def test_a_lost_response_is_not_a_lost_lease(it: World) -> None:
    """The renewal was applied, its response was lost: the conflict that follows is with our own write."""
    election = it.election("one")
    async with asyncio.TaskGroup() as group:
        it.leases.lose_answers = 1
        task = group.create_task(election.run(forever))
        await asyncio.sleep(12)
        assert election.remaining() > 20
        it.leases.lose_answers = 1
        await asyncio.sleep(20)
        assert election.remaining() > 20
        task.cancel()
    assert it.leases.writes[-1][1] == ""


@run_by(in_a_world)
async def test_a_stolen_lease_ends_the_work_at_the_next_renewal(it: World) -> None:
    """Another holder took the Lease: no release, no second attempt."""
    election = it.election("one")
    diary = Diary(election)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(swallow(election.run(diary.work)))
        await asyncio.sleep(7)
        it.leases.put("thief")
        assert isinstance(await task, LeadershipLost)
    assert (diary.ended, diary.left) == (10, 0)
    assert it.leases.lease is not None
    assert it.leases.lease["spec"]["holderIdentity"] == "thief"


@run_by(in_a_world)
async def test_a_deleted_lease_is_created_again(it: World) -> None:
    """No other replica holds it, so it is created again."""
    election = it.election("one")
    async with asyncio.TaskGroup() as group:
        task = group.create_task(election.run(forever))
        await asyncio.sleep(7)
        it.leases.lease = None
        await asyncio.sleep(10)
        assert it.leases.lease is not None
        assert election.remaining() > 20
        task.cancel()


@run_by(in_a_world)
async def test_an_error_of_the_work_ends_the_election(it: World) -> None:
    """Fault 64: its error is raised unchanged, and the Lease is released."""

    async def work() -> None:
        await asyncio.sleep(3)
        raise LookupError("bug")

    with pytest.raises(LookupError, match="bug"):
        await it.election("one").run(work)
    assert now() == 3
    assert it.leases.writes[-1] == (3, "")


@run_by(in_a_world)
async def test_shutdown_stops_the_work_before_the_lease_is_released(it: World) -> None:
    """SIGTERM: until the work has ended, the process is the leader."""
    election = it.election("one")
    left = []

    async def work() -> None:
        try:
            await forever()
        finally:
            await asyncio.sleep(2)
            left.append(election.remaining())

    async with asyncio.TaskGroup() as group:
        task = group.create_task(election.run(work))
        await asyncio.sleep(6)
        task.cancel()
    assert left == [27]
    assert it.leases.writes[-1] == (8, "")


@run_by(in_a_world)
async def test_a_renewal_in_flight_does_not_prevent_the_release(it: World) -> None:
    """SIGTERM between the effect of a renewal and its response: our version is old, the Lease is still ours."""
    it.network.latency_seconds = (0.0, 0.5)
    election = it.election("one")
    async with asyncio.TaskGroup() as group:
        task = group.create_task(election.run(forever))
        while len(it.leases.writes) < 2:  # noqa: ASYNC110 - virtual time, and no event to wait for
            await asyncio.sleep(0.1)
        task.cancel()
    assert [who for _, who in it.leases.writes] == ["one", "one", ""]


@run_by(in_a_world)
async def test_a_release_without_a_response_does_not_block_the_shutdown(it: World) -> None:
    """The API server is unavailable at shutdown: the process ends after four seconds."""
    election = it.election("one")
    async with asyncio.TaskGroup() as group:
        task = group.create_task(election.run(forever))
        await asyncio.sleep(6)
        it.network.partition(HOST)
        task.cancel()
    assert now() == 10
    it.network.heal(HOST)


@run_by(in_a_world)
async def test_a_suspended_process_is_no_longer_the_leader(it: World) -> None:
    """Fault 8: after 40 s of suspension remaining() is 0 before anything else has run."""
    election = it.election("one")
    diary = Diary(election)
    loop = asyncio.get_running_loop()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(swallow(election.run(diary.work)))
        await asyncio.sleep(7)
        assert isinstance(loop, SimLoop)
        loop._now += 40  # the clock goes on, the program does not
        assert election.remaining() == 0
        assert isinstance(await task, LeadershipLost)
    assert [who for _, who in it.leases.writes] == ["one", "one"]


@run_by(in_a_world)
async def test_a_lease_too_short_for_its_renewals_is_refused(it: World) -> None:
    """Such durations are rejected by the constructor."""
    with pytest.raises(ValueError, match="lease_duration_seconds"):
        it.election("one", lease_duration_seconds=10)
