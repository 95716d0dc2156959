"""The checks of the probes: hanging workers, a cache that does not sync, a missing CRD."""

import asyncio
from typing import Any

import pytest

from controllers.model.crd_deletion import NODECLAIM_CRD
from provisioner.operator import health
from provisioner.runtime.controller import Controller
from provisioner.runtime.kube import Kube
from provisioner.runtime.reflector import Reflector
from provisioner.runtime.resources import CRDS, NODECLAIMS, NODES, Resource
from provisioner.runtime.workqueue import WorkQueue
from tests.unit.runtime.kube_server import kube_client, kube_server, listing, obj, seeded, silent, status
from tests.unit.runtime.virtual import virtually


def progress_while_hanging(*, leads: bool, after_seconds: float) -> str | None:
    """The result of /healthz/progress while one worker hangs and a second key waits."""

    async def main() -> str | None:
        async def hang(_: str) -> None:
            await asyncio.sleep(10_000)

        queue = WorkQueue(seeded())
        controller = Controller("machine", queue, hang, workers=1, reconcile_timeout_seconds=5_000)
        checks = health.live(controller, queue, lambda: leads)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(controller.run())
            queue.add("a")
            queue.add("b")
            await asyncio.sleep(after_seconds)
            result = checks["progress"]()
            assert checks["ping"]() is None
            task.cancel()
        return result

    progress: str | None = virtually(main)
    return progress


def test_a_leader_with_hanging_workers_is_not_live() -> None:
    """Three minutes without a finished reconcile while keys are queued: a restart repairs it."""
    assert progress_while_hanging(leads=True, after_seconds=179) is None
    assert (
        progress_while_hanging(leads=True, after_seconds=200) == "queued keys: 1; no reconcile has finished for 200 s"
    )


def test_a_replica_that_does_not_lead_is_live() -> None:
    """Its keys wait for the Lease, not for a worker."""
    assert progress_while_hanging(leads=False, after_seconds=1_000) is None


def cache(kube: Kube, resource: Resource[Any]) -> Reflector[Any]:
    return Reflector(
        kube, resource, rng=seeded(), indexes={}, on_change=lambda *_: None, base_seconds=0.01, cap_seconds=0.02
    )


@pytest.mark.asyncio
async def test_a_cache_that_does_not_sync_reports_the_error() -> None:
    """No response yet, then the error of the API server, then success."""
    async with kube_server() as server, kube_client(server) as kube, asyncio.TaskGroup() as group:
        server.then(status(403, "Forbidden", "nodes is forbidden"), listing("Node", [obj("Node", "a")], "5"), silent())
        nodes = cache(kube, NODES)
        checks = health.ready(cache(kube, NODECLAIMS), nodes, cache(kube, CRDS), lambda: False, {})
        assert checks["nodes"]() == "not synced: no response yet"
        task = group.create_task(nodes.run())
        reasons = []
        async with asyncio.timeout(5):
            while (reason := checks["nodes"]()) is not None:
                reasons.append(reason)
                await asyncio.sleep(0.002)
        assert "nodes is forbidden" in reasons[-1]
        assert checks["claims"]() == "not synced: no response yet"
        task.cancel()


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("name", "reason"), [(NODECLAIM_CRD, None), ("widgets.example.com", f"{NODECLAIM_CRD} is not")]
)
async def test_the_crd_check_requires_a_synced_cache(name: str, reason: str | None) -> None:
    """Without permission to list CRDs the check passes; the list of claims fails if the CRD is missing."""
    async with kube_server() as server, kube_client(server) as kube, asyncio.TaskGroup() as group:
        kind = "CustomResourceDefinition"
        server.then(status(403, "Forbidden", "no"), listing(kind, [obj(kind, name)], "5"), silent())
        definitions = cache(kube, CRDS)
        check = health.ready(cache(kube, NODECLAIMS), cache(kube, NODES), definitions, lambda: False, {})["crd"]
        task = group.create_task(definitions.run())
        async with asyncio.timeout(5):
            while not definitions.synced:
                assert check() is None
                await asyncio.sleep(0.002)
        found = check()
        assert (found or "").startswith(reason or "")
        assert (found is None) is (reason is None)
        task.cancel()
