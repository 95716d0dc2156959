"""KAITO in karpenter mode: it creates node classes and a NodePool for each Workspace, and permits drift in turns.

All requests go to the API server as raw JSON, in KAITO's name, and read no cache, as KAITO's provisioner. A Workspace
reconciles on events of its claims; the drift controller on those of the claims and Workspaces of its InferenceSet. A
restart is a new set of actors: they remember nothing.

Source: docs/references/kaito.md#karpenter-mode.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import aiohttp

from . import kaito_nodepools, kaito_predicates
from .kaito_actor import CLAIMS, NODES, REQUEUE_SECONDS, Api
from .kaito_nodepools import NodeClasses, PoolOwner

Json = dict[str, Any]

POOLS = "/apis/karpenter.sh/v1/nodepools"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CLASS_SECONDS, CLASS_POLL_SECONDS = 120.0, 5.0
GONE_SECONDS, GONE_POLL_SECONDS = 300.0, 2.0
DRIFT_SECONDS = 30.0
# controller-runtime's retry after an error; the real one is exponential.
RETRY_SECONDS = 1.0
CONFLICTS_MOST = 5


class NotStarted(Exception):
    """KAITO's process ends: a CRD is missing, or the default node class did not become Ready."""


class PoolApi(Api):
    """KAITO's requests for node classes and NodePools."""

    async def create(self, path: str, obj: Json) -> bool:
        """False if it exists."""
        async with self.session.post(path, json=obj) as response:
            if response.status == 409:
                return False
            response.raise_for_status()
            return True

    async def update(self, path: str, obj: Json) -> bool:
        """The whole object as it was read, but for what is changed; False after a conflict."""
        async with self.session.put(f"{path}/{obj['metadata']['name']}", json=obj) as response:
            if response.status == 409:
                return False
            response.raise_for_status()
            return True

    async def delete(self, path: str, name: str) -> None:
        """Without a propagation policy: the garbage collector deletes the dependents afterwards."""
        async with self.session.delete(f"{path}/{name}") as response:
            if response.status != 404:
                response.raise_for_status()

    async def set_drift_budget(self, pool: str, nodes: str) -> None:
        """Read the NodePool, update it, and repeat that after a conflict."""
        for _ in range(CONFLICTS_MOST):
            found = await self.get(POOLS, pool)
            budget = kaito_nodepools.drift_budget(found) if found is not None else None
            if found is None or budget is None:
                raise AssertionError(f"NodePool {pool} has no budget for drift")
            if budget["nodes"] == nodes:
                return
            budget["nodes"] = nodes
            if await self.update(POOLS, found):
                return
        raise AssertionError(f"NodePool {pool} changed {CONFLICTS_MOST} times during its update")


async def start(api: PoolApi, classes: NodeClasses) -> float:
    """What KAITO does before it reconciles; the seconds until the default node class was Ready.

    Raises NotStarted.
    """
    for crd in classes.crds:
        if await api.get(CRDS, crd) is None:
            raise NotStarted(f'CRD "{crd}" not found')
    for obj in classes.objects():
        await api.create(classes.path, obj)
    loop = asyncio.get_running_loop()
    began = loop.time()
    try:
        async with asyncio.timeout(CLASS_SECONDS):
            while True:
                if _is_ready(await api.get(classes.path, classes.default)):
                    return loop.time() - began
                await asyncio.sleep(CLASS_POLL_SECONDS)
    except TimeoutError as error:
        raise NotStarted(f'default NodeClass "{classes.default}" not ready') from error


class Reconciler:
    """Reconciles when it is woken, and after the time that its last pass returned."""

    def __init__(self) -> None:
        self._woken = asyncio.Event()

    async def run(self) -> None:
        """Reconcile until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow())
            self._woken.set()
            while True:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(await self._reconcile()):
                        await self._woken.wait()
                self._woken.clear()

    async def _follow(self) -> None:
        """Wake it on events."""
        raise NotImplementedError

    async def _reconcile(self) -> float | None:
        """Seconds until the next pass; None: on an event only."""
        raise NotImplementedError


class PoolWorkspace(Reconciler):
    """`state` is what it waits for, or `ready`; `shown` is the cause in its condition NodeClaimReady."""

    def __init__(self, api: PoolApi, owner: PoolOwner, classes: NodeClasses) -> None:
        super().__init__()
        self.state, self.shown = "", ""
        self.owner = owner
        self._api = api
        self._classes = classes
        self._deleted = False
        # One Workspace is reconciled once at a time.
        self._pass_lock = asyncio.Lock()
        self._listeners: list[Callable[[], None]] = []

    def scale(self, count: int) -> None:
        """A user changes the number of machines."""
        self.owner, self.state = replace(self.owner, count=count), "changed"
        self._woken.set()

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call the listener whenever the Workspace changes between ready and not ready."""
        self._listeners.append(listener)

    async def delete(self) -> float:
        """What its finalizer does, and a wait until the NodePool is gone; returns the seconds that took."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        async with self._pass_lock:
            self._deleted = True
            await self._api.delete(POOLS, self.owner.pool)
        async with asyncio.timeout(GONE_SECONDS):
            while True:
                if await self._api.get(POOLS, self.owner.pool) is None:
                    return loop.time() - began
                await asyncio.sleep(GONE_POLL_SECONDS)

    async def _follow(self) -> None:
        while True:
            await followed(self._api, self.owner.marks, self._woken.set)

    async def _reconcile(self) -> float | None:
        before = self.state
        try:
            async with self._pass_lock:
                self.state, again = await self._pass()
        except aiohttp.ClientResponseError as error:
            self.state, again = f"{error.status} {error.message}", RETRY_SECONDS
        if (before == "ready") != (self.state == "ready"):
            for listener in self._listeners:
                listener()
        return again

    async def _pass(self) -> tuple[str, float | None]:
        """What it waits for and the seconds until the next pass, None: at the next event."""
        if self._deleted:
            return "being deleted", None
        name = self.owner.node_class or self._classes.default
        if not _is_ready(await self._api.get(self._classes.path, name)):
            return f"node class {name} is not Ready", RETRY_SECONDS
        found = await self._count()
        wanted = self.owner.count - found.covered
        if wanted > 0 and not await self._provision(wanted):
            return "the NodePool changed", RETRY_SECONDS
        listed = await self._api.listed(CLAIMS, {kaito_predicates.NODEPOOL: self.owner.pool})
        claims, found = listed["items"], await self._count()
        target = max(0, self.owner.count - found.covered)
        self.shown = kaito_nodepools.shown(claims, target)
        ready = [claim for claim in claims if kaito_predicates.is_ready(claim)]
        if len(ready) < target:
            return "claims are not ready", None
        if found.ready < self.owner.count:
            return "nodes are not ready", REQUEUE_SECONDS
        state = await self._api.plugins(ready) if ready and kaito_predicates.known_gpus(self.owner) else "ready"
        return state, None if state == "ready" else REQUEUE_SECONDS

    async def _count(self) -> kaito_nodepools.Count:
        if not self.owner.labels:
            return kaito_nodepools.Count(covered=0, ready=0)
        nodes = (await self._api.listed(NODES, dict(self.owner.labels)))["items"]
        legacy = (await self._api.listed(CLAIMS, self.owner.pair))["items"]
        return kaito_nodepools.count(self.owner, nodes, legacy)

    async def _provision(self, wanted: int) -> bool:
        """Create the NodePool, or raise its replicas; False after a conflict."""
        pool = await self._api.get(POOLS, self.owner.pool)
        if pool is None:
            await self._api.create(POOLS, kaito_nodepools.node_pool(self.owner, self._classes, wanted))
            return True
        if wanted <= pool["spec"].get("replicas", 0):
            return True
        pool["spec"]["replicas"] = wanted
        return await self._api.update(POOLS, pool)


class DriftController(Reconciler):
    """Permits drift to one NodePool of an InferenceSet at a time. `reported`: its Events, as reason and NodePool."""

    def __init__(self, api: PoolApi, workspaces: Iterable[PoolWorkspace]) -> None:
        super().__init__()
        self.reported: list[tuple[str, str]] = []
        self._api = api
        self._workspaces = {one.owner.pool: one for one in workspaces}
        (self._marks,) = {
            tuple(kaito_nodepools.marks_of_set(one.owner.inference_set, one.owner.namespace).items())
            for one in self._workspaces.values()
        }
        for one in self._workspaces.values():
            one.on_change(self._woken.set)

    async def _follow(self) -> None:
        while True:
            await followed(self._api, dict(self._marks), self._woken.set)

    async def _reconcile(self) -> float | None:
        """One pass; returns the seconds until the next one, None: at the next event."""
        pools = (await self._api.listed(POOLS, dict(self._marks)))["items"]
        claims = (await self._api.listed(CLAIMS, dict(self._marks)))["items"]
        drifted = {kaito_nodepools.pool_of(claim) for claim in claims if kaito_nodepools.is_drifted([claim])}
        budgets = {pool["metadata"]["name"]: kaito_nodepools.drift_budget(pool) for pool in pools}
        permitted = next((name for name, budget in budgets.items() if budget and budget["nodes"] == "1"), None)
        if permitted is not None:
            if permitted in drifted or self._workspaces[permitted].state != "ready":
                return None
            await self._api.set_drift_budget(permitted, "0")
            self.reported.append(("DriftComplete", permitted))
            return DRIFT_SECONDS
        following = next((name for name, budget in budgets.items() if budget and name in drifted), None)
        if following is not None:
            await self._api.set_drift_budget(following, "1")
            self.reported.append(("DriftStarted", following))
        return None


async def followed(api: Api, labels: dict[str, str], changed: Callable[[], None]) -> None:
    """Call `changed` for each event of claims with these labels, until the watch ends."""
    listed = await api.listed(CLAIMS, labels)
    changed()
    async for _ in api.watched(CLAIMS, labels, listed["metadata"]["resourceVersion"]):
        changed()


def _is_ready(obj: Json | None) -> bool:
    return obj is not None and kaito_predicates.is_true(obj, "Ready")
