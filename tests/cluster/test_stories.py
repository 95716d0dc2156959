"""The scenarios of `stories` in the simulator with all invariants, and on a real API server.

On the real one they run at once, with one controller and our chart's service account; the crash scenario has a cluster
of its own, and so have those of disruption, with kube-scheduler. Each scenario is then reported as a test.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.world.azure_role import AZURE_ACTIONS, QUOTA_ACTIONS, used_actions
from tests.world.harness import Sim, simulated
from tests.world.transcript import FAST

from . import assets
from .charts import VALUES
from .controlplane import CONTROLLERS, NAMESPACE, SERVICE_ACCOUNT, ControlPlane
from .devices import claimed_devices
from .disruptions import DISRUPTIONS
from .draining import DRAINS
from .faults import bad_days
from .kaito_nodepools import KAITO
from .realworld import NODES, RealWorld
from .rights import Used, granted, used
from .scheduler import kube_scheduler
from .stories import STORIES, Scene, Story, crash_and_restart

CRASH = "crash"
DEVICES: dict[str, Story] = {"devices": claimed_devices}
ALL = {**STORIES, **DEVICES, **DRAINS, **KAITO, **DISRUPTIONS, CRASH: crash_and_restart}
USER = f"system:serviceaccount:{NAMESPACE}:{SERVICE_ACCOUNT}"
# The node controller sets and removes taints here, as on any cluster.
LOOPS = (*CONTROLLERS, "node-lifecycle-controller", "replicaset-controller")


@pytest.mark.parametrize("name", ALL)
@simulated(azure=FAST, nodes=NODES)
async def test_in_the_simulator(sim: Sim, name: str) -> None:
    """The scenario passes on virtual time, with the invariants checked."""
    if name != CRASH:
        await sim.start_controller()
    await ALL[name](Scene(sim, name, a_while_seconds=600.0))
    await sim.settled(quiet_seconds=70.0)
    # A NodePool has no finalizer: the user can delete it while a write of its status is on its way.
    lost = [call for call in sim.audit_log.writes() if call.status == 404 and call.target.kind != "nodepools"]
    assert not [str(call) for call in lost], "it wrote to what it had released"


@dataclass
class Results:
    """The results of the scenarios: failures, and the requests of the controllers to the API servers."""

    failures: dict[str, Exception] = field(default_factory=dict)
    used: list[Used] = field(default_factory=list)
    azure: set[str] = field(default_factory=set)


async def keep_failure(name: str, story: Awaitable[None], results: Results) -> None:
    """Run one scenario; a failure is kept for its own test, and the others continue."""
    try:
        await story
    except Exception as failure:  # noqa: BLE001
        results.failures[name] = failure


async def in_a_cluster(workdir: Path, results: Results, *names: str, scheduler: bool = False) -> None:
    """Run these scenarios at once, in a cluster of their own."""
    async with AsyncExitStack() as life:
        plane = ControlPlane.start(assets.find(), workdir, controller_manager=LOOPS, audit=True)
        cp = await life.enter_async_context(plane)
        await cp.install_crds()
        await cp.install_chart_rbac()
        if scheduler:
            await life.enter_async_context(kube_scheduler(cp))
        async with RealWorld.open(cp, workdir) as world:
            if CRASH not in names:
                await world.start_controller()
            async with asyncio.TaskGroup() as tasks:
                for name in names:
                    story: Story = ALL[name]
                    tasks.create_task(keep_failure(name, story(Scene(world, name, a_while_seconds=5.0)), results))
            if not results.failures.keys() & {*names}:
                await world.settled()
                await world.stop_controller(list(world.controllers)[-1])
        assert cp.audit_log is not None
        results.used += used(cp.audit_log, USER)
        results.azure |= used_actions(world.cloud.request_log)


async def run_all(folder: Callable[[str], Path]) -> Results:
    """Run all scenarios, in three clusters."""
    outcome = Results()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(in_a_cluster(folder("stories"), outcome, *STORIES, *DEVICES, *DRAINS, *KAITO))
        tasks.create_task(in_a_cluster(folder("crash"), outcome, CRASH))
    # Afterwards, because their many machines delay the others, whose order of events depends on their own times.
    await in_a_cluster(folder("disruptions"), outcome, *DISRUPTIONS, scheduler=True)
    return outcome


@pytest.fixture(scope="module")
def results(all_results: dict[str, Any]) -> Results:
    """The results of all scenarios."""
    return all_results[__name__]


@pytest.mark.cluster
@pytest.mark.parametrize("name", ALL)
def test_on_the_real_server(results: Results, name: str) -> None:
    """The scenario passes on etcd and kube-apiserver, with the real process and the chart's service account."""
    if name in results.failures:
        raise results.failures[name]


@pytest.mark.cluster
def test_the_chart_grants_exactly_the_rights_in_use(
    results: Results, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every right that the chart grants is used in a scenario, and no request is forbidden."""
    assert not results.failures, "a scenario that fails may leave rights unused"
    requests = [*results.used, *asyncio.run(bad_days(tmp_path, USER))]
    # `clients/test_metrics_access.py` uses the rights to review tokens.
    values = {"controller": {**VALUES["controller"], "metrics": {"port": 8080, "authentication": False}}}
    times, rights = Counter(use.right for use in requests), granted(NAMESPACE, values)
    with capsys.disabled():
        print(f"\nthe chart grants {len(rights)} rights, used: {len(times)}:")
        for right in sorted(rights | times.keys()):
            name = f"{right.verb} {right.resource}{'.' + right.group if right.group else ''}"
            known = "granted" if right in rights else "NOT GRANTED"
            print(f"  {name:56}{known}, used {times[right]} times")
    assert not sorted({use.right for use in requests if use.code == 403})
    assert sorted(times) == sorted(rights)


@pytest.mark.cluster
def test_the_azure_role_allows_exactly_the_actions_in_use(results: Results, capsys: pytest.CaptureFixture[str]) -> None:
    """The scenarios together use each action of the chart's two Azure roles and no other; the second is optional."""
    assert not results.failures, "a scenario that fails may leave actions unused"
    with capsys.disabled():
        print(f"\ngranted in Azure: {sorted(AZURE_ACTIONS)},\n           used: {sorted(results.azure)}")
    assert results.azure == AZURE_ACTIONS | QUOTA_ACTIONS
