"""Every case of `inferred_removals` on the real API server, each in a cluster of its own, concurrently."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from . import assets
from .controlplane import CONTROLLERS, ControlPlane
from .inferred_removals import DOORS
from .realworld import RealWorld

pytestmark = pytest.mark.cluster


async def keep_failure(name: str, workdir: Path, failures: dict[str, Exception]) -> None:
    """Run one scenario; a failure is kept for its own test, and the others continue."""
    try:
        async with ControlPlane.start(assets.find(), workdir, controller_manager=CONTROLLERS) as cp:
            await cp.install_crds()
            await cp.install_chart_rbac()
            async with RealWorld.open(cp, workdir) as world:
                await DOORS[name](world)
                await world.settled()
    except Exception as failure:  # noqa: BLE001
        failures[name] = failure


async def run_all(folder: Callable[[str], Path]) -> dict[str, Exception]:
    """Run all scenarios; returns the failures by name."""
    failures: dict[str, Exception] = {}
    async with asyncio.TaskGroup() as tasks:
        for name in DOORS:
            tasks.create_task(keep_failure(name, folder(name), failures))
    return failures


@pytest.fixture(scope="module")
def failed(all_results: dict[str, Any]) -> dict[str, Exception]:
    """The failures by name."""
    return all_results[__name__]


@pytest.mark.parametrize("name", DOORS)
def test_no_machine_is_lost(failed: dict[str, Exception], name: str) -> None:
    """The scenario passes on etcd and kube-apiserver, with the real garbage collector and the real process."""
    if name in failed:
        raise failed[name]
