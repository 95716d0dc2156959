"""What NodePools cost a cluster that has none: the same lives with NodePools enabled and disabled, in turn.

The kinds of requests are compared. Memory and CPU are means of the rounds, and their differences are reported.
"""

import asyncio
from statistics import mean
from typing import NamedTuple

from tests.cluster.controlplane import ControlPlane

from .apiserver import CONTROLLER, FIXED_KINDS, environment
from .figures import Figure
from .stage import names
from .wholelives import CALLS_MOST, GONE_SECONDS

LIVES, ROUNDS = 25, 2
MEMORY_MIB, CPU_PERCENT = 3.0, 3.0
# The watches that notice the first NodePool.
OF_NODE_POOLS = {(verb, kind) for verb in ("list", "watch") for kind in ("nodepools", "agentpoolnodeclasses")}

Kinds = set[tuple[str, str]]


class Cost(NamedTuple):
    """Of one round: resident memory in MiB, CPU in seconds, Kubernetes calls a life."""

    memory: float
    cpu: float
    calls: float


async def measure(cp: ControlPlane) -> list[Figure]:
    """About two minutes."""
    costs: dict[str, list[Cost]] = {"true": [], "false": []}
    kinds: dict[str, Kinds] = {"true": set(), "false": set()}
    for number in range(ROUNDS):
        for enabled in ("false", "true"):
            cost, seen = await _round(cp, enabled, f"n{number}{enabled[0]}")
            costs[enabled].append(cost)
            kinds[enabled] |= seen
    on, off = _mean(costs["true"]), _mean(costs["false"])
    return [
        Figure(
            name="no NodePool: memory with NodePools enabled, above --node-pools=false",
            unit="MiB",
            labels=("",),
            target=(MEMORY_MIB,),
            measured=(on.memory - off.memory,),
            note=f"{on.memory:.1f} and {off.memory:.1f} after {LIVES} lives",
        ),
        Figure(
            name=f"no NodePool: CPU with NodePools enabled, above --node-pools=false, {LIVES} lives",
            unit="%",
            labels=("",),
            target=(CPU_PERCENT,),
            measured=(100 * (on.cpu / off.cpu - 1),),
            note=f"{on.cpu:.2f} and {off.cpu:.2f} s",
        ),
        _requests(kinds, on.calls, off.calls),
    ]


def _requests(kinds: dict[str, Kinds], enabled: float, disabled: float) -> Figure:
    more = kinds["true"] - kinds["false"]
    return Figure(
        name="no NodePool: kinds of requests besides those of --node-pools=false; Kubernetes calls a life",
        unit="requests",
        labels=("kinds", "calls"),
        target=(len(OF_NODE_POOLS), CALLS_MOST),
        measured=(len(more), enabled),
        asserted=True,
        wrong="" if more == OF_NODE_POOLS else f"{sorted(more)} instead of {sorted(OF_NODE_POOLS)}",
        note=f"{disabled:.2f} calls with --node-pools=false",
    )


async def _round(cp: ControlPlane, enabled: str, prefix: str) -> tuple[Cost, Kinds]:
    wanted = names(prefix, LIVES)
    async with environment(cp) as env:
        async with env.controller(NODE_POOLS=enabled) as controller:
            used = controller.cpu_seconds()
            await env.create(wanted)
            await env.settled(wanted)
            await env.delete(wanted)
            await env.until(lambda: env.gone >= {*wanted}, GONE_SECONDS, "all are gone")
            await asyncio.sleep(1.0)
            used, (memory, _) = controller.cpu_seconds() - used, controller.memory_mib()
        calls = [call for call in env.calls() if call.user == CONTROLLER and call.kind not in FIXED_KINDS]
        return Cost(memory=memory, cpu=used, calls=len(calls) / LIVES), env.kinds()


def _mean(costs: list[Cost]) -> Cost:
    return Cost(*(mean(values) for values in zip(*costs, strict=True)))
