"""The main job, played once: claims become Ready nodes and go again, and it is proved that nothing is left.

What is required is asked of the API server and of ARM over the wire, by a client of its own; every claim must
get Ready with the GPUs its size promises, go in the order instance, Node, NodeClaim, and leave nothing behind. Where
something was made to fail, its cause must have stood on the claims as announced, and they must end as announced. What
was not seen is returned, in words.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence

from cloudprovider.azure.instance_types import gpus_of
from provisioner.api import labels

from .changes import conditions, gpus
from .claims import Json
from .failures import IN_ORDER, Failure
from .person import Person, Refused, person
from .session import Trial
from .story import Story

LOOK_SECONDS = 0.1
WANTED = ("Launched", "Registered", "Initialized", "Ready")

Look = Callable[[], Awaitable[list[str]]]


async def play(trial: Trial, story: Story, claims: Sequence[Json], *, patience_seconds: float) -> list[str]:
    """Apply, wait until Ready, delete, wait until gone, prove. Returns what was not seen; empty if all was.

    `patience_seconds` is for each of the waits.
    """
    names, failure = [claim["metadata"]["name"] for claim in claims], trial.failure
    async with person(trial.world, trial.addresses) as somebody:
        steps: list[Look] = [lambda: _apply(somebody, claims)]
        if failure is not None:
            steps.append(_Told(somebody, names, failure, trial.settings.speed).look)
        if failure is None or failure.ends:
            steps += [lambda: _unready(somebody, names), lambda: _settled(trial, story)]
        for look in steps:
            if missing := await _until(look, patience_seconds):
                return missing
        uids = {name: claim["metadata"]["uid"] for name, claim in (await somebody.claims()).items()}
        story.say("all that was to be seen was seen; now the claims are deleted")
        for name in names:
            await somebody.delete(name)
        missing = await _until(lambda: _left(somebody), patience_seconds)
        return missing or _out_of_order(trial, uids)


async def _until(look: Look, patience_seconds: float) -> list[str]:
    """Look until nothing is missing any more, or patience ends; what is missing then."""
    missing: list[str] = ["nothing was looked at"]
    try:
        async with asyncio.timeout(patience_seconds):
            while missing:
                missing = await look()
                await asyncio.sleep(LOOK_SECONDS)
    except TimeoutError:
        return missing
    except Refused as refused:
        return [str(refused)]
    return []


async def _apply(somebody: Person, claims: Sequence[Json]) -> list[str]:
    for claim in claims:
        await somebody.apply(claim)
    return []


class _Told:
    """Looks for the announced cause on the claims, for as long as it was announced to stand there."""

    def __init__(self, somebody: Person, names: Sequence[str], failure: Failure, speed: float) -> None:
        self._somebody = somebody
        self._names = names
        self._failure = failure
        self._lasts_seconds = failure.lasts_seconds / speed
        self._since: dict[str, float] = {}
        self._long_enough: dict[str, None] = {}

    async def look(self) -> list[str]:
        """The claims on which it is missing."""
        now, wanted = asyncio.get_running_loop().time(), self._failure
        claims = await self._somebody.claims()
        for name in self._names:
            said = {c["type"]: c["reason"] for c in conditions(claims.get(name))}
            if said.get(wanted.condition) != wanted.reason:
                self._since.pop(name, None)
            elif now - self._since.setdefault(name, now) >= self._lasts_seconds:
                self._long_enough[name] = None
        if self._long_enough and not wanted.every:
            return []
        return [
            f"{name}: {wanted.condition} does not say {wanted.reason}"
            for name in self._names
            if name not in self._long_enough
        ]


async def _settled(trial: Trial, story: Story) -> list[str]:
    """A claim lives on for a while once it is Ready: until ARM has ended its operation, and the controller knows.

    Deleted in that very moment, its pool would be asked for once more, and the count of calls would be no common one.
    """
    busy = [name for name, pool in trial.world.cloud.pools.items() if pool.state != "Succeeded"]
    if busy:
        return [f"agent pool {name} is not Succeeded" for name in busy]
    return [] if story.listed else ["the controller has not listed the agent pools since"]


async def _unready(somebody: Person, names: Sequence[str]) -> list[str]:
    claims, nodes = await somebody.claims(), await somebody.nodes()
    missing = []
    for name in names:
        claim = claims.get(name, {})
        said = {c["type"]: c["status"] for c in conditions(claim)}
        missing += [f"{name}: {wanted} is not True" for wanted in WANTED if said.get(wanted) != "True"]
        node = nodes.get((claim.get("status") or {}).get("nodeName", ""))
        if node is None:
            missing.append(f"{name}: it names no Node that exists")
            continue
        size = node["metadata"]["labels"].get(labels.INSTANCE_TYPE, "")
        promised = gpus_of(size)
        if promised.count and gpus(node, promised.resource) < promised.count:
            missing.append(f"{name}: {gpus(node, promised.resource)} of {promised.count} GPUs are allocatable")
    return missing


async def _left(somebody: Person) -> list[str]:
    """ARM is asked last, and once the rest is gone: it would throttle whoever looks ten times a second."""
    found = {"Nodes": await somebody.nodes(), "NodeClaims": await somebody.claims()}
    if not any(found.values()):
        found["agent pools"] = await somebody.pools()
    return [f"{kind} left: {', '.join(names)}" for kind, names in found.items() if names]


def _out_of_order(trial: Trial, uids: dict[str, str]) -> list[str]:
    """The order of the disappearances, from the ledger of what became true."""
    failure = trial.failure
    allowed = [IN_ORDER] if failure is None or not failure.every else []
    allowed += [failure.goes] if failure is not None else []
    orders = {name: tuple(trial.world.audit_log.deletion_order(uid)) for name, uid in uids.items()}
    wrong = [
        f"{name}: gone in the order {', '.join(order)}"
        for name, order in orders.items()
        if order not in allowed and not (trial.settings.faults and after_failed_attempts(order))
    ]
    if failure is not None and failure.goes not in orders.values():
        wrong.append(f"no claim went in the order {', '.join(failure.goes)}")
    return wrong


def after_failed_attempts(order: Sequence[str]) -> bool:
    """Whether failed pools went first, each with the Node it may have had, then whatever was there at the end.

    A fault plan may let as many attempts fail as it likes, and the claim never get its machine.
    """
    return re.fullmatch("(pool (node )?)*claim", " ".join(order)) is not None
