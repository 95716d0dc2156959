"""The main job's stories on both stages: in the simulated world under all invariants, and on a real API server.

On the real one they are told at once, around one controller under our chart's service account; the story of crashes
has a cluster of its own beside them. Each story then is a test of its own.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.world.azure_role import AZURE_ACTIONS, used_actions
from tests.world.harness import Sim, simulate
from tests.world.transcript import FAST

from . import assets
from .controlplane import CONTROLLERS, NAMESPACE, SERVICE_ACCOUNT, ControlPlane
from .draining import DRAINS
from .faults import bad_days
from .realworld import RealWorld
from .rights import Used, granted, used
from .stories import STORIES, Scene, Story, crash_and_restart

CRASH = "crash"
ALL = {**STORIES, **DRAINS, CRASH: crash_and_restart}
USER = f"system:serviceaccount:{NAMESPACE}:{SERVICE_ACCOUNT}"
# The node controller taints and untaints by itself here, as on any cluster.
LOOPS = (*CONTROLLERS, "node-lifecycle-controller")


@pytest.mark.parametrize("name", ALL)
def test_in_the_simulated_world(name: str) -> None:
    """The story holds on virtual time, under the invariants."""

    async def story(sim: Sim) -> None:
        if name != CRASH:
            await sim.start_controller()
        await ALL[name](Scene(sim, name, a_while_seconds=600.0))
        await sim.settled(quiet_seconds=70.0)
        assert not [str(call) for call in sim.audit_log.writes() if call.status == 404], (
            "it wrote to what it had released"
        )

    simulate(story, azure=FAST)


@dataclass
class Told:
    """What came of the stories: who failed and how, and what the controllers asked of the API servers."""

    failures: dict[str, Exception] = field(default_factory=dict)
    used: list[Used] = field(default_factory=list)
    azure: set[str] = field(default_factory=set)


async def tell(name: str, story: Awaitable[None], told: Told) -> None:
    """Keep a failure for the story's own test; the others go on."""
    try:
        await story
    except Exception as failure:  # noqa: BLE001
        told.failures[name] = failure


async def in_a_cluster(workdir: Path, told: Told, *names: str) -> None:
    """These stories at once, in a cluster of their own."""
    async with ControlPlane.start(assets.find(), workdir, controller_manager=LOOPS, audit=True) as cp:
        await cp.install_crds()
        await cp.install_chart_rbac()
        async with RealWorld.open(cp, workdir) as world:
            if CRASH not in names:
                await world.start_controller()
            async with asyncio.TaskGroup() as tasks:
                for name in names:
                    story: Story = ALL[name]
                    tasks.create_task(tell(name, story(Scene(world, name, a_while_seconds=5.0)), told))
            if not told.failures:
                await world.settled()
                await world.stop_controller(list(world.controllers)[-1])
        assert cp.audit_log is not None
        told.used += used(cp.audit_log, USER)
        told.azure |= used_actions(world.cloud.request_log)


async def tell_all(folder: Callable[[str], Path]) -> Told:
    """All stories, in two clusters."""
    outcome = Told()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(in_a_cluster(folder("stories"), outcome, *STORIES, *DRAINS))
        tasks.create_task(in_a_cluster(folder("crash"), outcome, CRASH))
    return outcome


@pytest.fixture(scope="module")
def told(all_told: dict[str, Any]) -> Told:
    """What came of them."""
    return all_told[__name__]


@pytest.mark.cluster
@pytest.mark.parametrize("name", ALL)
def test_on_the_real_server(told: Told, name: str) -> None:
    """The same story holds on etcd and kube-apiserver, with the real process under the chart's service account."""
    if name in told.failures:
        raise told.failures[name]


@pytest.mark.cluster
def test_the_chart_grants_what_is_used_and_nothing_else(
    told: Told, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every right that the chart grants was used in a story, on bad days too; nothing asked for was forbidden."""
    assert not told.failures, "a story that fails may leave rights unused"
    asked = [*told.used, *asyncio.run(bad_days(tmp_path, USER))]
    times, rights = Counter(use.right for use in asked), granted(NAMESPACE)
    with capsys.disabled():
        print(f"\nthe chart grants {len(rights)} rights, the stories used {len(times)}:")
        for right in sorted(rights | times.keys()):
            name = f"{right.verb} {right.resource}{'.' + right.group if right.group else ''}"
            known = "granted" if right in rights else "NOT GRANTED"
            print(f"  {name:56}{known}, used {times[right]} times")
    assert not sorted({use.right for use in asked if use.code == 403})
    assert sorted(times) == sorted(rights)


@pytest.mark.cluster
def test_the_role_in_azure_allows_what_is_used_and_nothing_else(told: Told, capsys: pytest.CaptureFixture[str]) -> None:
    """All stories together asked ARM for each action of the chart's role and for no other."""
    assert not told.failures, "a story that fails may leave actions unused"
    with capsys.disabled():
        print(f"\nthe role in Azure grants {sorted(AZURE_ACTIONS)},\n           the stories used {sorted(told.azure)}")
    assert told.azure == AZURE_ACTIONS
