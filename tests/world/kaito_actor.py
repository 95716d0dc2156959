"""KAITO's controllers: a Workspace and a RAGEngine that create claims, wait for them, use their Nodes, and delete them.

All requests go to the API server as raw JSON, in KAITO's name. The Workspace reads a cache that a watch fills (which
may be late), keeps expectations of its creations for five minutes, and reconciles on events of claims only. The
RAGEngine blocks: it waits for one claim at a time, and polls more often than the real one.

Source: docs/references/kaito.md#what-kaito-reads, docs/references/kaito.md#deletion-of-an-owner.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from typing import Any, Protocol

import aiohttp

from . import kaito_predicates
from .kaito_predicates import Owner

Json = dict[str, Any]

CLAIMS = "/apis/karpenter.sh/v1/nodeclaims"
NODES = "/api/v1/nodes"
EXPECTATION_SECONDS = 300.0
REQUEUE_SECONDS = 2.0
READY_SECONDS, READY_POLL_SECONDS = 240.0, 1.0
PLUGIN_SECONDS = 60.0
NO_LIMIT = aiohttp.ClientTimeout(total=None)


class WaitTimedOut(Exception):
    """A blocking wait timed out; the next reconcile starts again."""


class TerminalError(Exception):
    """A terminal error: KAITO reconciles again only after a claim changes."""


class Api:
    """KAITO's requests to the API server. `now` is wall time in nanoseconds, from which names of claims are made."""

    def __init__(self, session: aiohttp.ClientSession, now: Callable[[], int]) -> None:
        self.session = session
        self._now = now
        self._last = 0

    async def listed(self, path: str, labels: dict[str, str]) -> Json:
        """A list and its version."""
        async with self.session.get(path, params=_selector(labels)) as response:
            response.raise_for_status()
            return await response.json()

    async def get(self, path: str, name: str) -> Json | None:
        async with self.session.get(f"{path}/{name}") as response:
            if response.status == 404:
                return None
            response.raise_for_status()
            return await response.json()

    async def create_claim(self, owner: Owner) -> Json:
        self._last = max(self._last + 1, self._now())
        async with self.session.post(CLAIMS, json=kaito_predicates.claim_of(owner, self._last)) as response:
            response.raise_for_status()
            return await response.json()

    async def delete_claims(self, owner: Owner) -> None:
        """Delete each claim that is not deleting yet, as the owner's finalizer does."""
        for claim in (await self.listed(CLAIMS, owner.pair))["items"]:
            if not kaito_predicates.is_deleting(claim):
                async with self.session.delete(f"{CLAIMS}/{claim['metadata']['name']}") as response:
                    assert response.status in (200, 404)

    async def label(self, node: Json) -> bool:
        """Update the whole Node as it was read, with KAITO's label; False after a conflict."""
        key, value = kaito_predicates.ACCELERATOR
        labelled = {
            **node,
            "metadata": {**node["metadata"], "labels": {**kaito_predicates.labels_of(node), key: value}},
        }
        async with self.session.put(f"{NODES}/{node['metadata']['name']}", json=labelled) as response:
            if response.status == 409:
                return False
            response.raise_for_status()
            return True

    async def plugins(self, claims: list[Json]) -> str:
        """Label the Nodes of the claims and look for their GPUs: what is missing, or `ready`."""
        for claim in claims:
            name = kaito_predicates.node_name(claim)
            node = await self.get(NODES, name) if name else None
            if node is None:
                return f"claim {claim['metadata']['name']} names no Node that is there"
            if not kaito_predicates.is_up(node):
                return f"Node {name} is not ready"
            if not kaito_predicates.is_labelled(node):
                return f"Node {name} is being labelled" if await self.label(node) else f"Node {name} changed"
            if not kaito_predicates.has_gpus(node):
                return f"Node {name} has no GPUs"
        return "ready"

    async def watched(self, path: str, labels: dict[str, str], version: str) -> AsyncIterator[tuple[str, Json]]:
        """Each event from that version on: its type and its object."""
        params = {**_selector(labels), "watch": "1", "resourceVersion": version}
        async with self.session.get(path, params=params, timeout=NO_LIMIT) as response:
            response.raise_for_status()
            async for line in response.content:
                event = json.loads(line)
                yield event["type"], event["object"]


def _selector(labels: dict[str, str]) -> dict[str, str]:
    return {"labelSelector": ",".join(f"{key}={value}" for key, value in labels.items())}


class Workspace:
    """`state` is what it waits for, or `ready`; `error` is what it shows its user about its claims. `lag_seconds` is
    how far its cache of claims is behind the API server.
    """

    def __init__(self, api: Api, owner: Owner) -> None:
        self.state, self.error = "", ""
        self.lag_seconds = 0.0
        self._api = api
        self._owner = owner
        self._known: dict[str, Json] = {}
        self._expected: dict[str, float] = {}
        self._woken = asyncio.Event()

    def restart(self) -> None:
        """Restart the process with a cache that is behind: its expectations are lost."""
        known, self._known = self._known, {}
        asyncio.get_running_loop().call_later(self.lag_seconds, self._relearn, list(known.values()))
        self._expected.clear()
        self._woken.set()

    async def run(self) -> None:
        """Reconcile until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow())
            await self._woken.wait()
            while True:
                self._woken.clear()
                again = await self._reconcile()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(again):
                        await self._woken.wait()

    async def _follow(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            listed = await self._api.listed(CLAIMS, self._owner.pair)
            self._known.clear()
            self._relearn(listed["items"])
            version = listed["metadata"]["resourceVersion"]
            async for kind, claim in self._api.watched(CLAIMS, self._owner.pair, version):
                loop.call_later(self.lag_seconds, self._learn, kind, claim)

    def _relearn(self, claims: list[Json]) -> None:
        for claim in claims:
            self._known.setdefault(claim["metadata"]["name"], claim)
        self._woken.set()

    def _learn(self, kind: str, claim: Json) -> None:
        name = claim["metadata"]["name"]
        self._expected.pop(name, None)
        if kind == "DELETED":
            self._known.pop(name, None)
        else:
            self._known[name] = claim
        self._woken.set()

    async def _reconcile(self) -> float | None:
        """One pass; returns the seconds until the next one, None: at the next event."""
        claims, now = list(self._known.values()), asyncio.get_running_loop().time()
        nodes = (await self._api.listed(NODES, {**self._owner.pair, **self._owner.labels}))["items"]
        self.error = kaito_predicates.error_of(claims)
        waiting = [at + EXPECTATION_SECONDS - now for at in self._expected.values()]
        if any(left > 0 for left in waiting):
            self.state = "expecting claims"
            return max(waiting)
        self._expected.clear()
        for _ in range(kaito_predicates.number_to_create(self._owner, nodes, claims)):
            made = await self._api.create_claim(self._owner)
            self._expected[made["metadata"]["name"]] = now
        if self._expected:
            return EXPECTATION_SECONDS
        if not all(kaito_predicates.is_ready(claim) for claim in claims):
            self.state = "claims are not ready"
            return None
        if sum(kaito_predicates.counts(node, self._owner) for node in nodes) < self._owner.count:
            self.state = "nodes are not ready"
            return REQUEUE_SECONDS
        self.state = await self._api.plugins(claims) if kaito_predicates.known_gpus(self._owner) else "ready"
        return None if self.state == "ready" else REQUEUE_SECONDS


class RagEngine:
    """`state` is what it waits for, or `ready`; `failures` counts waits that timed out. `ended` counts its terminal
    errors; after one, `state` is its message.
    """

    def __init__(self, api: Api, owner: Owner) -> None:
        self.state = ""
        self.failures = self.ended = 0
        self._api = api
        self._owner = owner

    async def run(self) -> None:
        """Reconcile again and again until cancelled."""
        while True:
            try:
                await self._reconcile()
            except WaitTimedOut:
                self.failures += 1
            except TerminalError:
                self.ended += 1
                self.state = kaito_predicates.TERMINAL
                await self._change()
            await asyncio.sleep(REQUEUE_SECONDS)

    async def _change(self) -> None:
        """Wait until one of its claims has changed."""
        listed = await self._api.listed(CLAIMS, self._owner.pair)
        async for _ in self._api.watched(CLAIMS, self._owner.pair, listed["metadata"]["resourceVersion"]):
            return

    async def _reconcile(self) -> None:
        for claim in (await self._api.listed(CLAIMS, self._owner.pair))["items"]:
            if not kaito_predicates.is_true(claim, "Initialized"):
                await self._wait_for_claim(claim["metadata"]["name"])
        nodes = (await self._api.listed(NODES, dict(self._owner.labels)))["items"]
        found = [node["metadata"]["name"] for node in nodes if kaito_predicates.counts(node, self._owner)]
        for _ in range(self._owner.count - len(found)):
            made = await self._api.create_claim(self._owner)
            found.append(await self._wait_for_claim(made["metadata"]["name"]))
        for name in found:
            await self._wait_for_gpus(name)
        self.state = "ready"

    async def _wait_for_claim(self, name: str) -> str:
        """Wait until the claim is Ready; the name of its Node, or "" if the claim was deleted meanwhile."""
        self.state = f"waits for claim {name}"
        try:
            async with asyncio.timeout(READY_SECONDS):
                while claim := await self._api.get(CLAIMS, name):
                    if kaito_predicates.is_true(claim, "Ready"):
                        return kaito_predicates.node_name(claim)
                    if kaito_predicates.is_hopeless(claim):
                        raise TerminalError(name)
                    await asyncio.sleep(READY_POLL_SECONDS)
        except TimeoutError as error:
            raise WaitTimedOut(name) from error
        raise WaitTimedOut(name)

    async def _wait_for_gpus(self, name: str) -> None:
        self.state = f"waits for Node {name}"
        try:
            async with asyncio.timeout(PLUGIN_SECONDS):
                while (node := await self._api.get(NODES, name)) is not None:
                    labelled = kaito_predicates.is_labelled(node) or not kaito_predicates.known_gpus(self._owner)
                    if labelled and (kaito_predicates.has_gpus(node) or not kaito_predicates.known_gpus(self._owner)):
                        return
                    if not labelled:
                        await self._api.label(node)
                    await asyncio.sleep(READY_POLL_SECONDS)
        except TimeoutError as error:
            raise WaitTimedOut(name) from error
        raise WaitTimedOut(name)


class Actor(Protocol):
    async def run(self) -> None: ...


@contextlib.asynccontextmanager
async def at_work(*actors: Actor) -> AsyncIterator[None]:
    """Reconcile the owners while the context lasts."""
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(actor.run()) for actor in actors]
        yield
        for task in running:
            task.cancel()
