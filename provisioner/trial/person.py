"""What a person with kubectl and az does, over the wire.

A client that knows nothing of the controller and shares nothing with it; every request has a timeout.
"""

import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp

from provisioner.api import labels
from provisioner.simulator.world import Addresses, World

from .claims import Json

CLAIMS = "/apis/karpenter.sh/v1/nodeclaims"
API_VERSION = "2026-08-01"
TIMEOUT_SECONDS = 30.0
# ARM wants somebody to be named, and the embedded one believes everybody.
HEADERS = {"Authorization": "Bearer person"}


class Refused(Exception):
    """A server would not do it; the text is its own."""


class Person:
    """`pools_url` lists the agent pools of the cluster."""

    def __init__(self, session: aiohttp.ClientSession, kube_url: str, pools_url: str) -> None:
        self._session = session
        self._kube = kube_url
        self._pools = pools_url

    async def apply(self, claim: Json) -> None:
        await self._ask("POST", self._kube + CLAIMS, claim)

    async def delete(self, name: str) -> None:
        await self._ask("DELETE", f"{self._kube}{CLAIMS}/{name}")

    async def claims(self) -> dict[str, Json]:
        return {c["metadata"]["name"]: c for c in (await self._ask("GET", self._kube + CLAIMS))["items"]}

    async def nodes(self) -> dict[str, Json]:
        """The Nodes that bear a claim's mark."""
        items = (await self._ask("GET", f"{self._kube}/api/v1/nodes"))["items"]
        return {n["metadata"]["name"]: n for n in items if labels.CLAIM_UID in n["metadata"].get("labels", {})}

    async def pools(self) -> dict[str, Json]:
        """The agent pools that bear a claim's mark."""
        items = (await self._ask("GET", self._pools))["value"]
        return {p["name"]: p for p in items if labels.TAG_CLAIM_UID in (p["properties"].get("tags") or {})}

    async def _ask(self, method: str, url: str, body: Json | None = None) -> Json:
        async with self._session.request(method, url, json=body) as response:
            if response.status >= 400:
                raise Refused(f"{method} {response.url.path}: {response.status} {_said(await response.read())}")
            answer: Json = await response.json()
            return answer


def _said(body: bytes) -> str:
    """What an error says: Kubernetes' way, or ARM's."""
    with contextlib.suppress(ValueError, AttributeError):
        answer = json.loads(body)
        return str(answer.get("message") or answer.get("error", {}).get("message", ""))
    return ""


@asynccontextmanager
async def person(world: World, addresses: Addresses) -> AsyncIterator[Person]:
    """Somebody at the world's sockets."""
    timeout = aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)
    pools = f"{addresses.arm}{world.settings.azure.cluster_id}/agentPools?api-version={API_VERSION}"
    async with aiohttp.ClientSession(headers=HEADERS, timeout=timeout, trust_env=False) as session:
        yield Person(session, addresses.kube, pools)
