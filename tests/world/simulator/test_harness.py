"""The harness itself, with a toy controller on both real SDKs: it must see what goes wrong, and repeat it."""

import asyncio
from typing import Any, Literal, Never

import pytest
from azure.core import MatchConditions
from azure.core.credentials import AccessToken
from azure.core.exceptions import HttpResponseError, ResourceNotFoundError
from azure.core.pipeline.transport import AioHttpTransport
from azure.mgmt.containerservice.aio import ContainerServiceClient

from provisioner.api import labels
from provisioner.simulator import loop as sim_loop
from provisioner.simulator.azure.settings import AzureSettings
from provisioner.simulator.invariants import InvariantError
from provisioner.simulator.world import KUBE_HOST
from tests.world.harness import SIZE, CrashPoint, Sim, crash_points, node_claim, simulate, simulated
from tests.world.process import Process
from tests.world.program import kube_client

pytestmark = pytest.mark.matrix(quick=0)

CLAIMS = "/apis/karpenter.sh/v1/nodeclaims"
FAST = AzureSettings(create_seconds=(60.0, 90.0), delete_seconds=(30.0, 60.0))


class Credential:
    async def get_token(self, *_scopes, **_options):
        return AccessToken("token", 4102444800)

    async def close(self) -> None:
        """Nothing to close."""


class Toy:
    """The least controller that is sound: level-triggered, one claim after the other, a poll every few seconds.

    `fault` plants one mistake; `FAULTS` names them and what must be found.
    """

    def __init__(self, process: Process, fault: str = "") -> None:
        self.fault = fault
        self.session = process.session()
        self.kube = kube_client(self.session)
        credential: Any = Credential()
        self.azure = ContainerServiceClient(
            credential,
            AzureSettings().subscription,
            transport=AioHttpTransport(session=self.session, session_owner=False, use_env_settings=False),
            retry_total=0,
        )
        self.pools = self.azure.agent_pools

    async def call(self, method, path, body=None, content_type="application/merge-patch+json"):
        response = await self.kube.call_api(
            path,
            method,
            header_params={"Content-Type": content_type},
            body=body,
            _preload_content=False,
            _request_timeout=20,
        )
        async with response:
            return await response.json()

    async def run(self) -> None:
        try:
            while True:
                await self.round()
                await asyncio.sleep(5)
        finally:
            await self.session.close()

    async def round(self) -> None:
        if self.fault == "foreign":
            await self.delete("theirs", None)
        claims = (await self.call("GET", CLAIMS))["items"]
        pools = {pool.name: pool async for pool in self.pools.list("rg", "aks")}
        for claim in claims:
            name = claim["metadata"]["name"]
            if self.fault == "restless":
                await self.patch_claim(
                    name, {"metadata": {"annotations": {"round": str(asyncio.get_running_loop().time())}}}
                )
            if "deletionTimestamp" in claim["metadata"]:
                await self.remove(claim, pools.get(name))
            elif labels.FINALIZER not in claim["metadata"].get("finalizers", []) and self.fault != "no finalizer":
                await self.patch_claim(name, {"metadata": {"finalizers": [labels.FINALIZER]}})
            elif name not in pools:
                await self.create(claim, name)
                if self.fault == "two pools":
                    await self.create(claim, f"{name}b")
            else:
                await self.register(claim, pools[name])
        if self.fault == "no finalizer":
            return
        known = {claim["metadata"]["uid"] for claim in claims}
        for pool in pools.values():
            uid = (pool.tags or {}).get(labels.TAG_CLAIM_UID)
            if uid and uid not in known:
                await self.delete(pool.name, pool.e_tag)

    async def register(self, claim, pool) -> None:
        for node in await self.nodes(pool.name):
            if labels.FINALIZER not in node["metadata"].get("finalizers", []):
                patch = {"metadata": {"finalizers": [labels.FINALIZER]}}
                await self.call("PATCH", f"/api/v1/nodes/{node['metadata']['name']}", patch)
        if self.fault == "hasty" and pool.provisioning_state == "Succeeded":
            await self.delete(pool.name, pool.e_tag)

    async def remove(self, claim, pool) -> None:
        name = claim["metadata"]["name"]
        nodes = await self.nodes(name)
        if pool is not None and self.fault == "node first":
            await self.release_nodes(nodes)
        if pool is not None and self.fault == "claim first":
            await self.patch_claim(name, {"metadata": {"finalizers": None}})
        for node in nodes:
            if "deletionTimestamp" not in node["metadata"]:
                options = {"preconditions": {"uid": node["metadata"]["uid"]}}
                await self.call("DELETE", f"/api/v1/nodes/{node['metadata']['name']}", options, "application/json")
        if pool is not None:
            if pool.provisioning_state != "Deleting":
                await self.delete(name, pool.e_tag)
            return
        try:
            await self.pools.get("rg", "aks", name)
        except ResourceNotFoundError:
            await self.release_nodes(nodes)
            if not await self.nodes(name):
                await self.patch_claim(name, {"metadata": {"finalizers": None}})

    async def release_nodes(self, nodes) -> None:
        for node in nodes:
            await self.call("PATCH", f"/api/v1/nodes/{node['metadata']['name']}", {"metadata": {"finalizers": None}})

    async def patch_claim(self, name, patch) -> None:
        await self.call("PATCH", f"{CLAIMS}/{name}", patch)

    async def nodes(self, pool):
        return (await self.call("GET", f"/api/v1/nodes?labelSelector=agentpool={pool}"))["items"]

    async def create(self, claim, name) -> None:
        uid = claim["metadata"]["uid"]
        properties = {
            "count": 1,
            "vmSize": SIZE,
            "nodeLabels": {labels.CLAIM_UID: uid},
            "tags": {labels.TAG_CLAIM_UID: uid},
        }
        body: Any = {"properties": properties}
        try:
            await self.pools.begin_create_or_update(
                "rg",
                "aks",
                name,
                body,
                polling=False,
                match_condition=MatchConditions.IfMissing,
                etag="*",
            )
        except HttpResponseError as error:
            if error.status_code not in {409, 412}:
                raise

    async def delete(self, name, etag) -> None:
        match = {"etag": etag, "match_condition": MatchConditions.IfNotModified} if etag else {}
        try:
            await self.pools.begin_delete("rg", "aks", name, polling=False, **match)
        except HttpResponseError as error:
            if error.status_code not in {409, 412}:
                raise


async def toy(process: Process) -> None:
    await Toy(process, **process.options).run()


def run_story(story, **options):
    return simulate(story, launch=toy, azure=FAST, **options)


async def up(sim: Sim, name: str = "gpu1", **options) -> str:
    """A claim gets its machine; its UID."""
    await sim.start_controller(**options)
    claim = await sim.apply(node_claim(name))
    await sim.until(lambda: ready(sim, name), 400, "the Node is ours and Ready")
    return claim["metadata"]["uid"]


def ready(sim: Sim, pool: str) -> bool:
    nodes = sim.nodes_of(pool)
    return any(
        labels.FINALIZER in node["metadata"].get("finalizers", [])
        and any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"]["conditions"])
        for node in nodes
    )


async def life(sim: Sim, **options) -> str:
    """A claim comes and goes."""
    uid = await up(sim, **options)
    await sim.delete_claim("gpu1")
    await sim.until(lambda: sim.claim("gpu1") is None, 400, "the claim is gone")
    await sim.settled()
    return uid


def test_a_sound_controller_passes() -> None:
    """A claim comes and goes over both real SDKs: pool, Node and claim disappear in this order, and nothing is left."""

    async def story(sim) -> None:
        uid = await life(sim)
        assert sim.audit_log.deletion_order(uid) == ["pool", "node", "claim"]
        assert sorted(sim.cloud.pools) == ["system", "theirs"]
        assert len(sim.audit_log.calls(who="ctl0", verb="PUT", kind="pools")) == 1
        assert len(sim.audit_log.calls(who="ctl0", verb="DELETE", kind="pools")) == 1

    assert run_story(story).writes == 7  # three finalizers put on or taken off twice over, PUT, and two DELETEs


@simulated()
async def test_the_real_program_fits_the_harness(sim) -> None:
    """The program itself makes a claim Ready and takes everything away again, under all invariants."""
    await sim.start_controller()
    uid = (await sim.apply(node_claim("gpu1")))["metadata"]["uid"]
    await sim.until(lambda: sim.condition("gpu1", "Ready") == "True", 900, "gpu1 is Ready")
    await sim.delete_claim("gpu1")
    await sim.until(lambda: sim.claim("gpu1") is None, 900, "gpu1 is gone")
    await sim.settled()
    assert sim.audit_log.deletion_order(uid) == ["pool", "node", "claim"]


FAULTS = {
    "node first": "I2 violated.*Node aks-gpu1-.* was released while its pool gpu1",
    "claim first": "I2 violated.*claim gpu1 was released while its pool gpu1",
    "no finalizer": "I29 violated.*created pool gpu1, whose claim has had no finalizer",
    "two pools": "I3 violated.*has 2 pools: gpu1, gpu1b",
    "foreign": "I4 violated.*changed pool theirs, which is not ours",
    "restless": "I5 violated: still writing",
    "hasty": "I7 violated.*deleted pool gpu1 of a healthy claim",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_each_planted_mistake_is_found(fault) -> None:
    """A controller with one mistake fails the story, by the invariant that it violates."""

    async def story(sim) -> None:
        if fault != "restless":
            await life(sim, fault=fault)
        else:
            await up(sim, fault=fault)
            await sim.settled()

    with pytest.raises(InvariantError, match=FAULTS[fault]):
        run_story(story)


def test_a_violation_comes_with_its_story() -> None:
    """The message of a violation shows the calls that led to it, with time, caller, verb, object and status."""

    async def story(sim) -> None:
        await up(sim, fault="foreign")

    with pytest.raises(InvariantError, match=r"#\d+ ctl0 arm DELETE pools/theirs -> \.\.\."):
        run_story(story)


def test_the_same_seed_repeats_the_same_course() -> None:
    """Two runs of one seed agree in every event; another seed takes another course."""
    first = run_story(life, seed=4)
    assert run_story(life, seed=4).digest == first.digest
    assert run_story(life, seed=5).digest != first.digest


@pytest.mark.matrix(quick=0)
def test_every_crash_point_of_a_life_is_survived() -> None:
    """Killed before and after each write, by FIN and by RST, the toy's successor ends its work; it is sound."""
    points = list(crash_points(life, launch=toy, azure=FAST))
    assert len(points) == 7 * 4
    for point in points:
        crashed = list[Any]()

        async def story(sim, crashed=crashed) -> None:
            await life(sim)
            crashed.extend(sim.controllers)
            assert sim.controllers["ctl0"].dead

        run_story(story, crash=point)
        assert crashed == ["ctl0", "ctl0'"], point


def test_a_write_before_whose_effect_it_dies_has_none() -> None:
    """A crash before the PUT leaves no pool behind, a crash after it leaves one, in either way of dying."""
    cases: tuple[tuple[Literal["before", "after"], int], ...] = (("before", 0), ("after", 1))
    for phase, expected in cases:
        for reset in (False, True):
            pools = list[Any]()

            async def story(sim, pools=pools) -> None:
                await sim.start_controller()
                await sim.apply(node_claim("gpu1"))
                await sim.until(lambda: sim.controllers["ctl0"].dead, 60, "the crash")
                pools.append(len(sim.cloud.pools) - 2)

            run_story(story, crash=CrashPoint(2, phase, reset))
            assert pools == [expected], (phase, reset)


def test_the_dead_do_not_call() -> None:
    """What a killed process does in its `finally` reaches no server; what a stopped one does, does."""

    async def last_words(process) -> None:
        session = process.session(f"http://{KUBE_HOST}")
        try:
            await asyncio.Event().wait()
        finally:
            async with session:
                await session.delete("/api/v1/nodes/nobody", json={"preconditions": {"uid": "nobody"}})

    async def story(sim) -> None:
        await sim.start_controller("killed")
        await sim.start_controller("stopped")
        await asyncio.sleep(1)
        sim.crash("killed")
        await sim.stop_controller("stopped")
        assert [call.who for call in sim.audit_log.calls(verb="DELETE")] == ["stopped"]

    simulate(story, launch=last_words)


def test_a_controller_that_ends_by_itself_fails_the_story() -> None:
    """A program must not end before it is called to, with or without an error (I8)."""

    async def brief(process) -> None:
        await asyncio.sleep(1)
        if process.options.get("error"):
            raise ValueError("no way on")

    async def story(sim, **options) -> None:
        await sim.start_controller(**options)
        await sim.until(lambda: False, 60, "nothing")

    with pytest.raises(AssertionError, match="ctl0 ended") as caught:
        simulate(story, launch=brief)
    assert str(caught.value.__cause__) == "ctl0 ended by itself"
    with pytest.raises(AssertionError, match="ctl0 ended") as caught:
        simulate(lambda sim: story(sim, error=True), launch=brief)
    assert isinstance(caught.value.__cause__, ValueError)


def test_a_story_may_expect_an_end() -> None:
    """A story that takes note of a controller's end goes on."""

    async def lost(_process) -> Never:
        raise ConnectionAbortedError("lost the lease")

    async def story(sim) -> None:
        await sim.start_controller()
        await asyncio.sleep(1)
        assert "lost the lease" in str(sim.ended("ctl0"))
        await sim.until(lambda: True, 1, "anything")

    simulate(story, launch=lost)


def test_a_controller_may_be_restarted() -> None:
    """An error that a restart mends brings a successor, alone or in a group; any other fails the story."""

    async def flaky(process) -> Never:
        await asyncio.sleep(1)
        if process.name == "ctl0":
            raise ConnectionAbortedError
        if process.name == "ctl0'":
            raise ExceptionGroup("both", [ConnectionAbortedError(), ConnectionAbortedError()])
        raise ExceptionGroup("not only", [ConnectionAbortedError(), ValueError()])

    async def story(sim) -> None:
        await sim.start_controller(restart_on=(ConnectionAbortedError,))
        await sim.until(lambda: False, 60, "nothing")

    with pytest.raises(AssertionError, match="ctl0'' ended"):
        simulate(story, launch=flaky)


def test_until_reports_what_was_missing() -> None:
    """A wait in vain ends at its virtual second, with what was waited for, the ledger and the claims' conditions."""

    async def story(sim) -> None:
        await sim.apply(node_claim("gpu1"))
        patch = {"status": {"conditions": [condition("Launched", "Unknown", "Creating", "since noon")]}}
        merge = "application/merge-patch+json"
        await sim.request("PATCH", f"{CLAIMS}/gpu1/status", patch, content_type=merge)
        await sim.until(lambda: sim.condition("gpu1", "Ready") == "True", 300, "gpu1 is Ready")

    with pytest.raises(AssertionError) as caught:
        run_story(story)
    text = str(caught.value)
    assert text.startswith("not within 300 s: gpu1 is Ready")
    assert "person kube POST nodeclaims -> 201" in text
    assert "Launched=Unknown Creating: since noon" in text


def condition(kind, status, reason, message):
    when = "2026-03-01T12:00:00Z"
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": when}


def test_the_simulator_itself_may_not_fail() -> None:
    """An error inside a server is no mere 500: it fails the run."""

    async def story(sim) -> None:
        async def broken(_call, _request) -> Never:
            raise ZeroDivisionError

        sim.world.before.append(broken)
        with pytest.raises(AssertionError, match="500"):
            await sim.request("GET", CLAIMS)

    with pytest.raises(ExceptionGroup, match="the simulator failed") as caught:
        run_story(story)
    assert caught.group_contains(ZeroDivisionError)


def test_a_story_that_fails_fails_as_itself() -> None:
    """What a story raises comes out unwrapped."""

    async def story(sim) -> Never:
        await sim.start_controller()
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        run_story(story)


def test_a_silent_task_of_a_controller_is_found() -> None:
    """A task that dies unseen fails the run, though the controller goes on (I8)."""

    async def careless(_process) -> None:
        async def fail() -> Never:
            raise ValueError("unseen")

        task = asyncio.get_running_loop().create_task(fail())
        await asyncio.sleep(10)
        del task
        await asyncio.Event().wait()

    async def story(sim) -> None:
        await sim.start_controller()
        await asyncio.sleep(60)

    with pytest.raises(sim_loop.SilentFailures) as caught:
        simulate(story, launch=careless)
    assert caught.group_contains(ValueError, match="unseen")


def test_a_busy_controller_is_found() -> None:
    """A loop that lets no time pass ends the run (I9)."""

    async def spinning(_process) -> None:
        while True:  # noqa: ASYNC110 - the fault under test
            await asyncio.sleep(0)

    async def story(sim) -> None:
        await sim.start_controller()
        await asyncio.sleep(60)

    with pytest.raises(sim_loop.LivelockError):
        simulate(story, launch=spinning)
