"""GPUs of the kubelet's own device manager, with a device plugin over gRPC: what the program makes of them.

The stories of `device_stories` run at once in one cluster, each with a machine of its own. They take seven minutes, the
tolerance of missing GPUs in real time, while the scenarios of other modules run.
"""

import asyncio
import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from tests.gotool import MissingError

from . import assets, gpunode
from .controlplane import CONTROLLERS, ControlPlane
from .device_stories import STORIES, Bench, Measured, counts, open_bench
from .gpunode import GpuNode
from .realworld import RealWorld

pytestmark = pytest.mark.cluster


@dataclass
class Results:
    """`missing`: why no device manager runs here, "" if it does."""

    missing: str = ""
    failures: dict[str, Exception] = field(default_factory=dict)
    benches: dict[str, Bench] = field(default_factory=dict)


async def run_all(folder: Callable[[str], Path]) -> Results:
    """Run all stories in one cluster."""
    outcome, workdir = Results(), folder("devices")
    with ExitStack() as machines:
        try:
            program = await asyncio.to_thread(gpunode.build)
            machines.enter_context(GpuNode(program, workdir, workdir, "probe", sync_seconds=1.0))
        except MissingError as error:
            outcome.missing = str(error)
            return outcome
        async with ControlPlane.start(assets.find(), workdir, controller_manager=CONTROLLERS) as cp:
            await cp.install_crds()
            await cp.install_chart_rbac()
            kubeconfig = cp.kubeconfig(workdir / "kubelets.kubeconfig")

            def machine(name: str, node: str, sync_seconds: float) -> GpuNode:
                home = folder(name)
                return machines.enter_context(GpuNode(program, home, kubeconfig, node, sync_seconds=sync_seconds))

            async with RealWorld.open(cp, workdir) as world:
                # No simulated plugin starts.
                world.nodes.plugin_delay_seconds = 1e9
                await world.start_controller()
                async with asyncio.TaskGroup() as tasks:
                    for name in STORIES:
                        tasks.create_task(keep_failure(world, machine, name, outcome))
                await world.stop_controller()
    return outcome


async def keep_failure(
    world: RealWorld, machine: Callable[[str, str, float], GpuNode], name: str, outcome: Results
) -> None:
    """Run one story; a failure is kept for its own test, and the others continue."""
    story, sync_seconds = STORIES[name]
    try:
        bench = outcome.benches[name] = await open_bench(world, machine, name, sync_seconds)
        await story(bench)
        bench.ready_only_with_all_gpus()
    except Exception as failure:  # noqa: BLE001
        outcome.failures[name] = failure


@pytest.fixture(scope="module")
def results(all_results: dict[str, Any]) -> Results:
    """The results of all stories; skips without a device manager, unless REQUIRE_GO is set."""
    found: Results = all_results[__name__]
    if found.missing:
        pytest.fail(found.missing) if os.environ.get("REQUIRE_GO") else pytest.skip(found.missing)
    return found


@pytest.mark.parametrize("name", STORIES)
def test_devices(results: Results, name: str) -> None:
    """The story passes with etcd, kube-apiserver, the device manager and the real process."""
    if name in results.failures:
        raise results.failures[name]


def test_the_measured_table(results: Results, capsys: pytest.CaptureFixture[str]) -> None:
    """Print what the device manager and the Nodes had, and when; the simulator has the same states."""
    assert not results.failures, "a story that failed has measured nothing"
    rows = sorted((row for bench in results.benches.values() for row in bench.table), key=lambda row: row[:3])
    with capsys.disabled():
        print("\nevent                                capacity allocatable   times  device manager  Node, up to")
        for (event, capacity, allocatable), found in groupby(rows, lambda row: row[:3]):
            print(f"{event:36} {capacity:8} {allocatable:11} {_times(list(found))}")
        bench = results.benches["kubelet"]
        seen = [counts(node.obj)[1] for node in bench.node_versions if node.obj]
        print(f"allocatable of the Node over six kubelet restarts: {[number for number, _ in groupby(seen)]}")
    (removed,) = (row for row in rows if row.event == "plugin stays away")
    (stopped,) = (row for row in results.benches["dead"].table if row.event == "plugin stops")
    with capsys.disabled():
        print(f"the devices of a stopped plugin were removed after {removed.at - stopped.at:.1f} s")


def _times(rows: list[Measured]) -> str:
    seconds = median(row.seconds for row in rows)
    shown = [row.node_seconds for row in rows if row.node_seconds is not None]
    return f"{len(rows):7} {seconds:13.3f} s {f'{max(shown):.1f} s' if shown else '-':>11}"
