"""The run of `try --once`: claims become Ready nodes and are deleted, and the result is verified.

The checks read the API server and ARM over HTTP. Every claim must become Ready with the GPUs of its size, be deleted in
the order instance, Node, NodeClaim, and leave nothing behind. With an injected failure, its reason must appear on the
claims, and they must end as the scenario states. What was not observed is returned as text.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from provisioner.api import labels
from provisioner.operator.azure import CLOUD
from provisioner.simulator.snapshot import allocatable, conditions

from .client import Client, RequestFailed, connected
from .recorder import EventRecorder
from .scenarios import DELETION_ORDER, Scenario
from .session import Session

Json = dict[str, Any]
POLL_SECONDS = 0.1
EXPECTED_CONDITIONS = ("Launched", "Registered", "Initialized", "Ready")

Check = Callable[[], Awaitable[list[str]]]


async def run_once(
    session: Session, recorder: EventRecorder, claims: Sequence[Json], *, timeout_seconds: float
) -> list[str]:
    """Apply, wait until Ready, delete, wait until deleted, verify. Returns what was not observed.

    `timeout_seconds` is for each of the waits.
    """
    names, scenario = [claim["metadata"]["name"] for claim in claims], session.scenario
    async with connected(session.world, session.addresses) as client:
        checks: list[Check] = [lambda: _apply(client, claims)]
        if scenario is not None:
            checks.append(_ReasonCheck(client, names, scenario, session.settings.speed).check)
        if scenario is None or scenario.recovers:
            checks += [lambda: not_ready(client, names), lambda: busy(session, recorder)]
        for check in checks:
            if missing := await until(check, timeout_seconds):
                return missing
        uids = {name: claim["metadata"]["uid"] for name, claim in (await client.claims()).items()}
        recorder.user("deletes the claims")
        for name in names:
            await client.delete(name)
        missing = await until(lambda: remaining(client), timeout_seconds)
        return missing or wrong_order(session, uids)


async def until(check: Check, timeout_seconds: float) -> list[str]:
    """Repeat the check until it finds nothing missing; what is missing at the timeout."""
    missing: list[str] = ["timed out before the first check"]
    try:
        async with asyncio.timeout(timeout_seconds):
            while missing:
                missing = await check()
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        return missing
    except RequestFailed as error:
        return [str(error)]
    return []


async def _apply(client: Client, claims: Sequence[Json]) -> list[str]:
    for claim in claims:
        await client.apply(claim)
    return []


class _ReasonCheck:
    """Checks that the scenario's reason is on the claims for as long as the scenario states."""

    def __init__(self, client: Client, names: Sequence[str], scenario: Scenario, speed: float) -> None:
        self._client = client
        self._names = names
        self._scenario = scenario
        self._min_seconds = scenario.min_seconds / speed
        self._since: dict[str, float] = {}
        self._satisfied: dict[str, None] = {}

    async def check(self) -> list[str]:
        """The claims without the reason."""
        now, expected = asyncio.get_running_loop().time(), self._scenario
        claims = await self._client.claims()
        for name in self._names:
            reasons = {c["type"]: c["reason"] for c in conditions(claims.get(name))}
            if reasons.get(expected.condition) != expected.reason:
                self._since.pop(name, None)
            elif now - self._since.setdefault(name, now) >= self._min_seconds:
                self._satisfied[name] = None
        if self._satisfied and not expected.every_claim:
            return []
        return [
            f"{name}: condition {expected.condition} does not have reason {expected.reason}"
            for name in self._names
            if name not in self._satisfied
        ]


async def busy(session: Session, recorder: EventRecorder) -> list[str]:
    """The pools whose operation has not ended, and whether the controller has listed the pools since.

    A claim is Ready before its create operation ends. Deleted before the controller knows the end, its pool would be
    read once more, which would change the number of ARM requests in the result.
    """
    busy = [name for name, pool in session.world.cloud.pools.items() if pool.state != "Succeeded"]
    if busy:
        return [f"agent pool {name} is not Succeeded" for name in busy]
    return [] if recorder.listed else ["the controller has not listed the agent pools since"]


async def not_ready(client: Client, names: Sequence[str]) -> list[str]:
    """What these claims lack of being Ready with their GPUs."""
    claims, nodes = await client.claims(), await client.nodes()
    missing = []
    for name in names:
        claim = claims.get(name, {})
        statuses = {c["type"]: c["status"] for c in conditions(claim)}
        missing += [f"{name}: {kind} is not True" for kind in EXPECTED_CONDITIONS if statuses.get(kind) != "True"]
        node = nodes.get((claim.get("status") or {}).get("nodeName", ""))
        if node is None:
            missing.append(f"{name}: status.nodeName names no existing Node")
            continue
        if claim["metadata"].get("annotations", {}).get(labels.GPU_READINESS) == "report":
            continue
        expected = CLOUD.gpus_of(node["metadata"]["labels"].get(labels.INSTANCE_TYPE, ""))
        count = allocatable(node, expected.resource)
        if expected.count and count < expected.count:
            missing.append(f"{name}: {count} of {expected.count} GPUs are allocatable")
    return missing


async def remaining(client: Client) -> list[str]:
    """The objects that still exist. ARM is read only when the others are deleted, because it throttles polling."""
    found = {"Nodes": await client.nodes(), "NodeClaims": await client.claims()}
    if not any(found.values()):
        found["agent pools"] = await client.pools()
    return [f"remaining {kind}: {', '.join(names)}" for kind, names in found.items() if names]


def wrong_order(session: Session, uids: dict[str, str], *, replaced: bool = False) -> list[str]:
    """The claims whose objects were deleted in another order than expected.

    `replaced`: no claim that failed is among them, because others were created in their place.
    """
    scenario = session.scenario if not replaced else None
    allowed = [DELETION_ORDER] if scenario is None or not scenario.every_claim else []
    allowed += [scenario.deletion_order] if scenario is not None else []
    orders = {name: tuple(session.world.audit_log.deletion_order(uid)) for name, uid in uids.items()}
    wrong = [
        f"{name}: deleted in the order {', '.join(order)}"
        for name, order in orders.items()
        if order not in allowed and not (session.settings.faults and is_order_with_retries(order))
    ]
    if scenario is not None and scenario.deletion_order not in orders.values():
        wrong.append(f"no claim was deleted in the order {', '.join(scenario.deletion_order)}")
    return wrong


def is_order_with_retries(order: Sequence[str]) -> bool:
    """Whether the pools of failed attempts, each with the Node it may have had, were deleted first, the claim last.

    Under a fault plan any number of attempts may fail, and the claim may never get an instance.
    """
    return re.fullmatch("(pool (node )?)*claim", " ".join(order)) is not None
