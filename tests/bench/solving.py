"""Scheduling decisions alone: how long the solver takes, and how long the event loop does not respond meanwhile.

Prices and sizes are those of eastus. The values of Karpenter's scheduler, for pods of 1, 2, 4 and 8 GPUs on 13 sizes,
were measured with the program of `tests/oracle`.
"""

import asyncio
import threading
import time
from typing import Any

import msgspec

from controllers.provisioning.nodepools import with_capacity_type
from controllers.provisioning.solver import model
from controllers.provisioning.solver.solver import solve
from provisioner.cli.commands.schedule_codec import Scenario, snapshot
from provisioner.runtime.compute import ThreadCompute
from tests.unit.controllers.provisioning.observed import TYPES

from .figures import Figure
from .mixes import Mix, mixes
from .workloads import GPU, gpu_pod, node_pool

Json = dict[str, Any]
# GPUs of ten pods in turn: two for each pod on average.
MIXED = (1, 1, 1, 1, 1, 2, 2, 1, 4, 8)
SHAPES = 250
REPEATS = 3
# A decision that takes so long is measured once.
ENOUGH_SECONDS = 4.0
WATCH_SECONDS = 0.002


def measure() -> list[Figure]:
    """About 40 s."""
    drawn = [
        _duration(Mix("1,000 pending pods of 1, 2, 4 or 8 GPUs", 0.5, _mixed(1000)), karpenter="1.8"),
        _duration(Mix("5,000 pending pods of 1, 2, 4 or 8 GPUs", 2.0, _mixed(5000)), karpenter="40"),
        _duration(Mix(f"1,000 pending pods of {SHAPES} shapes", 0.5, _shapes(1000))),
        _duration(Mix(f"5,000 pending pods of {SHAPES} shapes", 2.0, _shapes(5000))),
    ]
    stall = asyncio.run(_stall("5,000 pending pods", _shapes(5000)))
    return [*drawn, *(_duration(mix) for mix in mixes()), stall]


def _duration(mix: Mix, *, karpenter: str = "") -> Figure:
    given = _snapshot(mix.pods, mix)
    took = list[float]()
    while len(took) < REPEATS and sum(took) < ENOUGH_SECONDS:
        began = time.process_time()
        decision = solve(given)
        took.append(time.process_time() - began)
    note = f"{len(decision.machines)} machines, {decision.price:.2f} USD/h, {len(decision.errors)} pods pending"
    note += f"; least of {len(took)} decisions" + (f"; Karpenter {karpenter} s" if karpenter else "")
    name = f"{mix.name}, solver only"
    return Figure(name=name, unit="s of CPU", labels=("",), target=(mix.seconds,), measured=(min(took),), note=note)


async def _stall(name: str, pods: list[Json]) -> Figure:
    """The longest time in which the event loop did not run a callback, as in `tests.bench.watched`."""
    given, loop, ended = _snapshot(pods), asyncio.get_running_loop(), threading.Event()
    stalls: list[float] = []

    def watch() -> None:
        while not ended.is_set():
            sent, answered = time.monotonic(), threading.Event()
            loop.call_soon_threadsafe(answered.set)
            if answered.wait(60.0):
                stalls.append(time.monotonic() - sent)
            time.sleep(WATCH_SECONDS)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    began = loop.time()
    await ThreadCompute()(lambda: solve(given))
    took = loop.time() - began
    ended.set()
    await asyncio.sleep(10 * WATCH_SECONDS)
    return Figure(
        name=f"event loop during a decision for {name}, longest stall",
        unit="s",
        labels=("",),
        measured=(max(stalls),),
        note=f"{len(stalls)} callbacks in a decision of {took:.1f} s",
    )


def _mixed(count: int) -> list[Json]:
    return [gpu_pod(f"mixed-{number:05}", MIXED[number % len(MIXED)]) for number in range(count)]


def _shapes(count: int) -> list[Json]:
    """Pods with 0 to 8 GPUs, and CPU and memory of their own for each shape."""
    pods = []
    for number in range(count):
        shape = number % SHAPES
        pod = gpu_pod(f"shape-{number:05}", (0, 0, 1, 1, 2, 4, 8)[shape % 7])
        requests = pod["spec"]["containers"][0]["resources"]["requests"]
        requests |= {"cpu": f"{100 + shape * 37 % 160 * 100}m", "memory": f"{256 + shape * 53 % 120 * 256}Mi"}
        if requests[GPU] == "0":
            del requests[GPU]
        pods.append(pod)
    return pods


def _snapshot(pods: list[Json], mix: Mix | None = None) -> model.Snapshot:
    pool = node_pool()
    del pool["spec"]["template"]["spec"]["requirements"]
    nodes, pools, most = (mix.nodes, mix.node_pools, mix.max_new) if mix is not None else ([], [], None)
    given = {"nodePools": pools or [pool], "pods": pods, "nodes": nodes, "maxNewNodeClaims": most}
    scenario = msgspec.convert(given, Scenario)
    scenario = msgspec.structs.replace(
        scenario,
        node_pools=tuple(with_capacity_type(one) for one in scenario.node_pools or ()),
    )
    found = snapshot(scenario, TYPES)
    if found.errors:
        raise ValueError(f"pods cannot be read: {found.errors}")
    return found.snapshot
