"""The main job, played once: claims become Ready nodes and go again, and it is proved that nothing is left.

Promise: what is required is asked of the API server and of ARM over the wire, by a client of its own; every claim must
get Ready with the GPUs its size promises, go in the order instance, Node, NodeClaim, and leave nothing behind. What was
not seen is returned, in words.
Left to others: telling it (`story.py`), the exit code (`command.py`).
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from provisioner.api import labels
from provisioner.app import gpus_of
from provisioner.simulator.world import Addresses

from .session import Trial
from .story import Story, gpus

Json = dict[str, Any]
CLAIMS = "/apis/karpenter.sh/v1/nodeclaims"
LOOK_SECONDS = 0.1


def examples() -> Path:
    """Where the example claims are: beside the packages in a checkout, inside them in a wheel."""
    inside = Path(__file__).parents[1] / "examples"
    return inside if inside.is_dir() else Path(__file__).parents[2] / "examples"


def read_claims(paths: list[Path]) -> list[Json]:
    """The NodeClaims of YAML files. Raises OSError and yaml.YAMLError."""
    found = [document for path in paths for document in yaml.safe_load_all(path.read_text(encoding="utf-8"))]
    return [obj for obj in found if obj and obj.get("kind") == "NodeClaim"]


class Person:
    """What a person with kubectl and az does, over the wire."""

    def __init__(self, session: aiohttp.ClientSession, addresses: Addresses, pools_path: str) -> None:
        self._session = session
        self._kube = addresses.kube
        self._pools = f"{addresses.arm}{pools_path}"

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
            answer: Json = await response.json()
            if response.status >= 400:
                raise RuntimeError(f"{method} {url}: {response.status} {answer.get('message', '')}")
            return answer


async def play(trial: Trial, story: Story, claims: list[Json], *, patience_seconds: float) -> list[str]:
    """Apply, wait until Ready, delete, wait until gone, prove. Returns what was not seen; empty if all was."""
    headers = {"Authorization": f"Bearer {trial.world.settings.token}"}
    timeout = aiohttp.ClientTimeout(total=30)
    azure = trial.world.settings.azure
    path = f"{azure.cluster_id}/agentPools?api-version=2026-08-01"
    async with aiohttp.ClientSession(headers=headers, timeout=timeout, trust_env=False) as session:
        person = Person(session, trial.addresses, path)
        names = [claim["metadata"]["name"] for claim in claims]
        for claim in claims:
            await person.apply(claim)
        missing = await _until(lambda: _unready(person, names), patience_seconds)
        if missing:
            return missing
        uids = {name: claim["metadata"]["uid"] for name, claim in (await person.claims()).items()}
        story.say("you", "", "all claims are Ready; now they are deleted", "quiet")
        for name in names:
            await person.delete(name)
        missing = await _until(lambda: _left(person), patience_seconds)
        return missing or _out_of_order(trial, uids)


async def _until(look: Callable[[], Any], patience_seconds: float) -> list[str]:
    """Look until nothing is missing any more, or patience ends; what is missing then."""
    missing: list[str] = ["nothing was looked at"]
    try:
        async with asyncio.timeout(patience_seconds):
            while missing:
                missing = await look()
                await asyncio.sleep(LOOK_SECONDS)
    except TimeoutError:
        return missing
    return []


async def _unready(person: Person, names: list[str]) -> list[str]:
    claims, nodes = await person.claims(), await person.nodes()
    missing = []
    for name in names:
        claim = claims.get(name, {})
        status = claim.get("status") or {}
        said = {c["type"]: c["status"] for c in status.get("conditions") or ()}
        missing += [f"{name}: {c} is not True" for c in _WANTED if said.get(c) != "True"]
        node = nodes.get(status.get("nodeName", ""))
        if node is None:
            missing.append(f"{name}: it names no Node that exists")
            continue
        size = node["metadata"]["labels"].get(labels.INSTANCE_TYPE, "")
        promised = gpus_of(size)
        if promised.count and gpus(node, promised.resource) < promised.count:
            missing.append(f"{name}: {gpus(node, promised.resource)} of {promised.count} GPUs are allocatable")
    return missing


_WANTED = ("Launched", "Registered", "Initialized", "Ready")


async def _left(person: Person) -> list[str]:
    """ARM is asked last, and once the rest is gone: it would throttle whoever looks ten times a second."""
    found = {"Nodes": await person.nodes(), "NodeClaims": await person.claims()}
    if not any(found.values()):
        found["agent pools"] = await person.pools()
    return [f"{kind} left: {', '.join(names)}" for kind, names in found.items() if names]


def _out_of_order(trial: Trial, uids: dict[str, str]) -> list[str]:
    """The order of the three disappearances, from the ledger of what became true."""
    orders = {name: trial.world.ledger.disappearances(uid) for name, uid in uids.items()}
    wanted = ["pool", "node", "claim"]
    return [f"{name}: gone in the order {', '.join(order)}" for name, order in orders.items() if order != wanted]
