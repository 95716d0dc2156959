"""KAITO at work beside us: a Workspace and a RAGEngine that make claims, wait for them, use their Nodes, and leave.

Everything goes through the API server as raw JSON, in KAITO's name. The Workspace works on a cache that a
watch fills (which may be late), remembers what it has created for five minutes, and wakes on claims' events only. The
RAGEngine blocks: it waits for one claim at a time, and looks again more often than the real one does.

Source: docs/references/kaito.md#what-kaito-reads, docs/references/kaito.md#deletion-of-an-owner.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

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


class WaitedInVain(Exception):
    """A blocking wait has ended without what it waited for; the next reconcile begins anew."""


class EndedInError(Exception):
    """A terminal error: nothing is looked at again before a claim changes."""


class Api:
    """What KAITO asks of the API server. `now` is wall time in nanoseconds; names of claims are made of it."""

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
        """As the owner's finalizer does: a plain DELETE of each that is not going yet, and no look back."""
        for claim in (await self.listed(CLAIMS, owner.pair))["items"]:
            if not kaito_predicates.is_deleting(claim):
                async with self.session.delete(f"{CLAIMS}/{claim['metadata']['name']}") as response:
                    assert response.status in (200, 404)

    async def label(self, node: Json) -> bool:
        """Put the whole Node as it was read, with KAITO's label; False if somebody else wrote it since."""
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
    """`state` is what it waits for, `ready` when it serves; `error` what it shows its user of its claims.

    `lag_seconds` is how far its cache of claims is behind the API server.
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
        """Its process starts anew on a cache that will show its claims late: it has forgotten what it made."""
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
        """One pass; in how many seconds to look again, None: at the next event."""
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
        self.state = await self._plugins(claims) if kaito_predicates.known_gpus(self._owner) else "ready"
        return None if self.state == "ready" else REQUEUE_SECONDS

    async def _plugins(self, claims: list[Json]) -> str:
        for claim in claims:
            name = kaito_predicates.node_name(claim)
            node = await self._api.get(NODES, name) if name else None
            if node is None:
                return f"claim {claim['metadata']['name']} names no Node that is there"
            if not kaito_predicates.is_up(node):
                return f"Node {name} is not ready"
            if not kaito_predicates.is_labelled(node):
                return f"Node {name} is being labelled" if await self._api.label(node) else f"Node {name} changed"
            if not kaito_predicates.has_gpus(node):
                return f"Node {name} has no GPUs"
        return "ready"


class RagEngine:
    """`state` is what it waits for, `ready` when it serves; `failures` counts waits that were in vain.

    `ended` counts its terminal errors; in one its `state` is those words.
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
            except WaitedInVain:
                self.failures += 1
            except EndedInError:
                self.ended += 1
                self.state = kaito_predicates.TERMINAL
                await self._change()
            await asyncio.sleep(REQUEUE_SECONDS)

    async def _change(self) -> None:
        """Wait until one of its claims is not as it was."""
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
        """The Node of a claim that is Ready by now; "" if the claim has gone meanwhile."""
        self.state = f"waits for claim {name}"
        try:
            async with asyncio.timeout(READY_SECONDS):
                while claim := await self._api.get(CLAIMS, name):
                    if kaito_predicates.is_true(claim, "Ready"):
                        return kaito_predicates.node_name(claim)
                    if kaito_predicates.is_hopeless(claim):
                        raise EndedInError(name)
                    await asyncio.sleep(READY_POLL_SECONDS)
        except TimeoutError as error:
            raise WaitedInVain(name) from error
        raise WaitedInVain(name)

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
            raise WaitedInVain(name) from error
        raise WaitedInVain(name)


@contextlib.asynccontextmanager
async def at_work(*actors: Workspace | RagEngine) -> AsyncIterator[None]:
    """They reconcile while the context lasts."""
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(actor.run()) for actor in actors]
        yield
        for task in running:
            task.cancel()
