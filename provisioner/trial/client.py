"""An HTTP client for the simulated API server and ARM, as a user with kubectl and az.

It is independent of the controller, so that it can verify what the controller did. Every request has a timeout.
"""

import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from provisioner.api import labels
from provisioner.simulator.world import Addresses, World

Json = dict[str, Any]
CLAIMS = "/apis/karpenter.sh/v1/nodeclaims"
# The collections of the kinds of the examples, in the namespace `default`.
COLLECTIONS = {
    "NodeClaim": CLAIMS,
    "NodePool": "/apis/karpenter.sh/v1/nodepools",
    "AgentPoolNodeClass": "/apis/gpu-provisioner.sh/v1alpha1/agentpoolnodeclasses",
    "Pod": "/api/v1/namespaces/default/pods",
    "Event": "/api/v1/namespaces/default/events",
}
API_VERSION = "2026-08-01"
TIMEOUT_SECONDS = 30.0
# ARM requires a token; the simulated one accepts any.
HEADERS = {"Authorization": "Bearer user"}


class RequestFailed(Exception):
    """A server rejected a request; the message is the server's."""


class Client:
    """`pools_url` lists the agent pools of the cluster."""

    def __init__(self, session: aiohttp.ClientSession, kube_url: str, pools_url: str) -> None:
        self._session = session
        self._kube = kube_url
        self._pools = pools_url

    async def apply(self, obj: Json) -> None:
        await self._request("POST", self._kube + COLLECTIONS[obj["kind"]], obj)

    async def delete(self, name: str, kind: str = "NodeClaim") -> None:
        await self._request("DELETE", f"{self._kube}{COLLECTIONS[kind]}/{name}")

    async def claims(self) -> dict[str, Json]:
        return await self.all("NodeClaim")

    async def all(self, kind: str) -> dict[str, Json]:
        """The objects of a kind in `COLLECTIONS`, by name."""
        found = (await self._request("GET", self._kube + COLLECTIONS[kind]))["items"]
        return {obj["metadata"]["name"]: obj for obj in found}

    async def nodes(self) -> dict[str, Json]:
        """The Nodes with a claim's label."""
        items = (await self._request("GET", f"{self._kube}/api/v1/nodes"))["items"]
        return {n["metadata"]["name"]: n for n in items if labels.CLAIM_UID in n["metadata"].get("labels", {})}

    async def pools(self) -> dict[str, Json]:
        """The agent pools with a claim's tag."""
        items = (await self._request("GET", self._pools))["value"]
        return {p["name"]: p for p in items if labels.TAG_CLAIM_UID in (p["properties"].get("tags") or {})}

    async def _request(self, method: str, url: str, body: Json | None = None) -> Json:
        async with self._session.request(method, url, json=body) as response:
            if response.status >= 400:
                message = _error_message(await response.read())
                raise RequestFailed(f"{method} {response.url.path}: {response.status} {message}")
            answer: Json = await response.json()
            return answer


def _error_message(body: bytes) -> str:
    """The message of a Kubernetes Status or of an ARM error."""
    with contextlib.suppress(ValueError, AttributeError):
        answer = json.loads(body)
        return str(answer.get("message") or answer.get("error", {}).get("message", ""))
    return ""


@asynccontextmanager
async def connected(world: World, addresses: Addresses) -> AsyncIterator[Client]:
    """A client of the world's servers."""
    timeout = aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)
    pools = f"{addresses.arm}{world.settings.azure.cluster_id}/agentPools?api-version={API_VERSION}"
    async with aiohttp.ClientSession(headers=HEADERS, timeout=timeout, trust_env=False) as session:
        yield Client(session, addresses.kube, pools)
