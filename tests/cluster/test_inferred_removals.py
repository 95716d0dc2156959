"""Every door on the real API server, each in a cluster of its own, all at once: they mostly look on and wait."""

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


async def told(name: str, workdir: Path, failures: dict[str, Exception]) -> None:
    """One story; a failure is kept for its own test, the others go on."""
    try:
        async with ControlPlane.start(assets.find(), workdir, controller_manager=CONTROLLERS) as cp:
            await cp.install_crds()
            await cp.install_chart_rbac()
            async with RealWorld.open(cp, workdir) as world:
                await DOORS[name](world)
                await world.settled()
    except Exception as failure:  # noqa: BLE001
        failures[name] = failure


async def tell_all(folder: Callable[[str], Path]) -> dict[str, Exception]:
    """All stories; who failed, and how."""
    failures: dict[str, Exception] = {}
    async with asyncio.TaskGroup() as tasks:
        for name in DOORS:
            tasks.create_task(told(name, folder(name), failures))
    return failures


@pytest.fixture(scope="module")
def failed(all_told: dict[str, Any]) -> dict[str, Exception]:
    """Who failed, and how."""
    return all_told[__name__]


@pytest.mark.parametrize("name", DOORS)
def test_no_machine_is_lost_through(failed: dict[str, Exception], name: str) -> None:
    """The story holds on etcd and kube-apiserver, with the real collector and the real process."""
    if name in failed:
        raise failed[name]
