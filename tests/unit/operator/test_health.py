"""What the probes are told: a hang, a cache that cannot be filled, a definition that is not there."""

import asyncio
from typing import Any

import pytest

from controllers.state.indexes import NODECLAIM_CRD
from provisioner.operator import health
from provisioner.runtime.controller import Controller
from provisioner.runtime.kube import Kube
from provisioner.runtime.reflector import Reflector
from provisioner.runtime.resources import CRDS, NODECLAIMS, NODES, Resource
from provisioner.runtime.workqueue import WorkQueue
from tests.unit.runtime.kube_server import kube_client, kube_server, listing, obj, seeded, silent, status
from tests.unit.runtime.test_workqueue import virtually


def told_of_a_hang(*, leads: bool, after_seconds: float) -> str | None:
    """What /healthz is told of one worker that hangs, while a second key waits."""

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
            said = checks["progress"]()
            assert checks["ping"]() is None
            task.cancel()
        return said

    told: str | None = virtually(main)
    return told


def test_a_leader_whose_workers_hang_is_told_so() -> None:
    """Three minutes without the end of a pass while work waits: a restart mends it."""
    assert told_of_a_hang(leads=True, after_seconds=179) is None
    assert told_of_a_hang(leads=True, after_seconds=200) == "1 keys are queued, and no reconcile has finished for 200 s"


def test_who_does_not_lead_has_nothing_to_finish() -> None:
    """Its keys wait for the lease, not for a worker."""
    assert told_of_a_hang(leads=False, after_seconds=1_000) is None


def cache(kube: Kube, resource: Resource[Any]) -> Reflector[Any]:
    return Reflector(
        kube, resource, rng=seeded(), indexes={}, on_change=lambda *_: None, base_seconds=0.01, cap_seconds=0.02
    )


@pytest.mark.asyncio
async def test_a_cache_that_cannot_be_filled_says_why() -> None:
    """Nothing asked yet, then the API server's own words, then nothing is wrong."""
    async with kube_server() as server, kube_client(server) as kube, asyncio.TaskGroup() as group:
        server.then(status(403, "Forbidden", "nodes is forbidden"), listing("Node", [obj("Node", "a")], "5"), silent())
        nodes = cache(kube, NODES)
        checks = health.ready(cache(kube, NODECLAIMS), nodes, cache(kube, CRDS), lambda: False)
        assert checks["nodes"]() == "not synced: no response yet"
        task = group.create_task(nodes.run())
        said = []
        async with asyncio.timeout(5):
            while (wrong := checks["nodes"]()) is not None:
                said.append(wrong)
                await asyncio.sleep(0.002)
        assert "nodes is forbidden" in said[-1]
        assert checks["claims"]() == "not synced: no response yet"
        task.cancel()


@pytest.mark.asyncio
@pytest.mark.parametrize(("name", "said"), [(NODECLAIM_CRD, None), ("widgets.example.com", f"{NODECLAIM_CRD} is not")])
async def test_only_a_list_of_definitions_shows_that_one_is_missing(name: str, said: str | None) -> None:
    """Whoever may not list them is as ready as without that check: the claims' list tells the same."""
    async with kube_server() as server, kube_client(server) as kube, asyncio.TaskGroup() as group:
        kind = "CustomResourceDefinition"
        server.then(status(403, "Forbidden", "no"), listing(kind, [obj(kind, name)], "5"), silent())
        definitions = cache(kube, CRDS)
        check = health.ready(cache(kube, NODECLAIMS), cache(kube, NODES), definitions, lambda: False)["crd"]
        task = group.create_task(definitions.run())
        async with asyncio.timeout(5):
            while not definitions.synced:
                assert check() is None
                await asyncio.sleep(0.002)
        found = check()
        assert (found or "").startswith(said or "")
        assert (found is None) is (said is None)
        task.cancel()
