"""Claims one after the other: the latency of each, and the requests of a whole lifecycle.

Three groups run at once, apart in time. `steady` claims live until a LIST has shown their pools in their final state,
as nearly all claims do; `brisk` ones are deleted as soon as their pool has Succeeded, `hasty` ones while ARM still
creates it: the cost of each is reported.
"""

import asyncio
from collections import Counter
from statistics import median

from .figures import Figure
from .moments import CONTROLLER, between
from .stage import AGE_SECONDS, Stage, names, stage

SPACING_SECONDS = 0.3
REMOVAL_SPACING_SECONDS = 1.3
# No more than our own rate limits accept at once: no claim waits for them in this measurement.
STEADY, BRISK, HASTY = names("steady", 12), names("brisk", 2), names("hasty", 2)
MOST_WRITES = 13
LIFE_OF_ARM_CALLS = ["PUT", "DELETE"]
VERBS = (*LIFE_OF_ARM_CALLS, "GET")
CONDITIONS = frozenset(
    {"Launched", "Registered", "Initialized", "Ready", "Drained", "VolumesDetached", "InstanceTerminating"}
)


async def measure() -> list[Figure]:
    """About 110 s."""
    async with stage() as on:
        async with on.controller():
            await on.leading()
            await _live(on)
        return [_created(on), _gone(on), _arm_calls(on), _kube_writes(on), _early(on)]


async def _live(on: Stage) -> None:
    moments = on.moments
    for name in STEADY:
        await on.create([name])
        await asyncio.sleep(SPACING_SECONDS)
    await on.create([*BRISK, *HASTY])
    await on.all_in(moments.first("PUT"), STEADY, 10.0, "every pool is requested")
    await asyncio.sleep(2.0)
    await on.delete(HASTY)
    async with asyncio.TaskGroup() as tasks:
        for name in BRISK:
            tasks.create_task(_delete_once_succeeded(on, name))
        tasks.create_task(on.settled(STEADY))
    await asyncio.sleep(AGE_SECONDS)
    for name in STEADY:
        await on.delete([name])
        await asyncio.sleep(REMOVAL_SPACING_SECONDS)
    await on.all_in(moments.gone, [*STEADY, *BRISK, *HASTY], 90.0, "all are gone")


async def _delete_once_succeeded(on: Stage, name: str) -> None:
    await on.all_in(on.moments.succeeded, [name], 60.0, "ARM's operation has ended")
    await on.delete([name])


def _created(on: Stage) -> Figure:
    took = between(_only(on.moments.created), on.moments.first("PUT"))
    return Figure(
        name="claim created → PUT on the wire, one",
        unit="s",
        labels=("p50",),
        predecessor="0.04",
        target=(0.03,),
        measured=(median(took),),
    )


def _gone(on: Stage) -> Figure:
    took = between(_only(on.moments.pool_gone), on.moments.gone)
    return Figure(
        name="pool gone in ARM → claim gone",
        unit="s",
        labels=("p50", "max"),
        predecessor="25",
        target=(2.5,),
        measured=(median(took), max(took)),
        note=f"one every {REMOVAL_SPACING_SECONDS:g} s",
    )


def _arm_calls(on: Stage) -> Figure:
    lives = {name: _arm_life(on, name) for name in STEADY}
    odd = {name: life for name, life in lives.items() if life != LIFE_OF_ARM_CALLS}
    return Figure(
        name="ARM calls a claim's life, beside the shared LIST",
        unit="calls",
        labels=("most",),
        predecessor="10.2",
        target=(len(LIFE_OF_ARM_CALLS),),
        measured=(max(map(len, lives.values())),),
        asserted=True,
        wrong=f"other lives than {LIFE_OF_ARM_CALLS}: {odd}" if odd else "",
        note=f"{len(lives)} claims, {len(on.lists())} LISTs",
    )


def _kube_writes(on: Stage) -> Figure:
    sent = [call for call in on.world.audit_log.writes(who=CONTROLLER) if call.system == "kube"]
    taken = [call for call in sent if call.status is not None and call.status < 400]
    lives = Counter(_claim_of(call.target.name) for call in taken)
    longest = max(STEADY, key=lambda name: lives[name])
    unsaid = {name: sorted(CONDITIONS - on.moments.conditions[name]) for name in STEADY}
    unsaid = {name: conditions for name, conditions in unsaid.items() if conditions}
    wrong = f"conditions never True: {unsaid}" if unsaid else ""
    if lives[longest] > MOST_WRITES:
        wrong += "\n".join(["", *(str(call) for call in sent if _claim_of(call.target.name) == longest)])
    return Figure(
        name="Kubernetes writes a claim's life, without events",
        unit="writes",
        labels=("most",),
        predecessor="9 to 12",
        target=(MOST_WRITES,),
        measured=(lives[longest],),
        asserted=True,
        wrong=wrong,
        note=f"with {len(CONDITIONS)} conditions; {len(sent) - len(taken)} more were refused, and decided anew",
    )


def _early(on: Stage) -> Figure:
    brisk, hasty = (sum(len(_arm_life(on, name)) for name in group) / len(group) for group in (BRISK, HASTY))
    return Figure(
        name="ARM calls a life that ends early: as soon as the pool Succeeded, while ARM makes it",
        unit="calls",
        labels=("mean", "mean"),
        measured=(brisk, hasty),
        note="the ETag moved unseen; a busy pool refuses",
    )


def _arm_life(on: Stage, name: str) -> list[str]:
    return [call.verb for verb in VERBS for call in on.moments.requests(verb, name)]


def _claim_of(target: str) -> str:
    """The claim's name; a Node is named aks-<pool>-<digits>-vmss<instance>."""
    return target.split("-")[1] if target.startswith("aks-") else target


def _only(moments: dict[str, float]) -> dict[str, float]:
    return {name: at for name, at in moments.items() if name in STEADY}
