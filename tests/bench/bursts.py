"""Many claims at once: the latency of each, and the CPU and memory of their whole lifecycle.

Latencies are measured with AKS's token buckets off, as they were for Azure/gpu-provisioner; our own rate limits are
always on, and delay DELETEs and LISTs of a burst of removals: that time is reported without a target.
"""

import asyncio

from .figures import Figure, latency, percentile
from .moments import between
from .stage import AGE_SECONDS, names, stage

CLAIMS, REMOVED = 90, 50


async def measure() -> list[Figure]:
    """About 150 s, most of it waiting for pools to age and for our own rate limits."""
    return [*await _up(), *await _whole_lives()]


async def _up() -> list[Figure]:
    wanted = names("up", CLAIMS)
    async with stage() as on, on.controller() as controller:
        await on.leading()
        await on.create(wanted)
        await on.settled(wanted)
        moments = on.moments
        took = between(moments.created, moments.first("PUT"))
        ready = between(moments.usable, moments.ready)
        now_mib, most_mib = controller.memory_mib()
    early = sum(moments.usable[name] < moments.succeeded[name] for name in wanted)
    return [
        latency(f"claim created → PUT on the wire, burst of {CLAIMS}", took, predecessor="0.30", target=(0.30,)),
        Figure(
            name="Node Ready and GPUs allocatable → claim Ready",
            unit="s",
            labels=("p50", "p95"),
            predecessor="12 / 26",
            target=(0.1, 0.3),
            measured=(percentile(ready, 0.5), percentile(ready, 0.95)),
            note=f"{early} of {CLAIMS} before ARM's operation ended",
        ),
        Figure(
            name=f"resident memory, {CLAIMS} claims",
            unit="MiB",
            labels=("now", "peak"),
            predecessor="75",
            target=(115,),
            measured=(now_mib, most_mib),
        ),
    ]


async def _whole_lives() -> list[Figure]:
    wanted = names("life", REMOVED)
    async with stage() as on, on.controller() as controller:
        await on.leading()
        used, begun = controller.cpu_seconds(), controller.log_lines()
        await on.create(wanted)
        await on.settled(wanted)
        await asyncio.sleep(AGE_SECONDS)
        await on.delete(wanted)
        await on.all_in(on.moments.gone, wanted, 150.0, "all are gone")
        used = controller.cpu_seconds() - used
        lines = controller.log_lines() - begun
    deleted_to_request = between(on.moments.deleted, on.moments.first("DELETE"))
    gone = between(on.moments.pool_gone, on.moments.gone)
    return [
        latency(
            f"claim deleted → pool DELETE, burst of {REMOVED}",
            deleted_to_request,
            predecessor="0.2 / 1.0",
            target=(0.1, 0.5),
        ),
        Figure(
            name=f"pool gone in ARM → claim gone, burst of {REMOVED}",
            unit="s",
            labels=("p50", "max"),
            measured=(percentile(gone, 0.5), max(gone)),
            note="paced by our own budget: 60 + 1/s for DELETE and LIST",
        ),
        Figure(
            name=f"CPU, {REMOVED} claims' whole lives",
            unit="s",
            labels=("",),
            predecessor="0.8",
            target=(1.6,),
            measured=(used,),
            note=f"{lines / REMOVED:.0f} log lines a life",
        ),
    ]
