"""Lists and watches with objects that are too large: each is known, and hides no other one."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from provisioner.api.pod import Pod
from provisioner.runtime.metrics import Metrics
from provisioner.runtime.named import NamedReflectors
from provisioner.runtime.reflector import Reflector
from provisioner.runtime.resources import CRDS, PODS

from .kube_server import OVER, KubeServer, event, kube_client, kube_server, obj, seeded

pytestmark = pytest.mark.asyncio

KIB = 1024
BYTES_MAX = 64 * KIB


def pod(number: int, size: int, version: str = "") -> dict[str, Any]:
    spec = {"nodeName": "n", "containers": [{"name": "c", "env": [{"name": "A", "value": "x" * size}]}]}
    meta = {"namespace": "tenant", "labels": {"app": "a"}}
    return obj("Pod", f"p{number}", version or str(number + 1), metadata=meta, spec=spec)


class Pods:
    """A collection with the paging of the API server, and a watch with these events."""

    def __init__(self, *sizes: int, events: tuple[dict[str, Any], ...] = ()) -> None:
        self.items = [pod(number, size) for number, size in enumerate(sizes)]
        self.events = events
        self.limits: list[int] = []

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        if request.query.get("watch"):
            return await self._watch(request)
        start, limit = int(request.query.get("continue", "0")), int(request.query["limit"])
        self.limits.append(limit)
        found, end = self.items[start : start + limit], start + limit
        meta = {"resourceVersion": "900", **({"continue": str(end)} if end < len(self.items) else {})}
        if "as=PartialObjectMetadataList" in request.headers["Accept"]:
            kind = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
            bare = [{**kind, "metadata": one["metadata"]} for one in found]
            return web.json_response({"kind": "PartialObjectMetadataList", "metadata": meta, "items": bare})
        return web.json_response({"kind": "PodList", "metadata": meta, "items": found})

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        for one in self.events:
            await response.write(json.dumps(one, separators=(",", ":")).encode() + b"\n")
        await request[OVER].wait()
        return response


@asynccontextmanager
async def cached(pods: Pods, metrics: Metrics | None = None) -> AsyncIterator[tuple[Reflector[Pod], KubeServer]]:
    async with kube_server() as server, kube_client(server, bytes_max=BYTES_MAX) as kube:
        server.otherwise = pods
        own = (metrics or Metrics()).reflector("pods")
        cache = Reflector(kube, PODS, rng=seeded(), indexes={}, metrics=own, base_seconds=0.01)
        task = asyncio.create_task(cache.run())
        try:
            yield cache, server
        finally:
            task.cancel()
            server.over.set()
            await asyncio.gather(task, return_exceptions=True)


async def until(true: Callable[[], object]) -> None:
    async with asyncio.timeout(10):
        while not true():  # noqa: ASYNC110 - what is waited for has no event of its own
            await asyncio.sleep(0.005)


async def test_a_page_that_is_too_large_is_requested_with_fewer_objects() -> None:
    """Nothing is lost, and pages grow again after the large objects."""
    pods = Pods(*[20 * KIB] * 50, *[KIB] * 200)
    async with cached(pods) as (cache, _):
        await until(lambda: cache.synced)
        assert len(cache.items()) == 250
        assert not any(one.metadata.unreadable for one in cache.items())
    assert pods.limits[:9] == [500, 250, 125, 62, 31, 15, 7, 3, 3]
    assert len(pods.limits) < 45


async def test_an_object_that_is_too_large_is_known_by_its_metadata() -> None:
    """All others are whole; the log, the metric and the object itself say which one is not."""
    metrics = Metrics()
    async with cached(Pods(KIB, 100 * KIB, KIB), metrics) as (cache, _):
        await until(lambda: cache.synced)
        assert {one.metadata.name: one.spec.node_name for one in cache.items()} == {"p0": "n", "p1": "", "p2": "n"}
        large = cache.get("tenant/p1")
        assert large is not None
        assert large.metadata.unreadable[0] == "spec: the object is too large to be read; make it smaller"
        assert (large.kind, large.metadata.uid, large.metadata.labels) == ("Pod", "uid-p1", {"app": "a"})
        labels = {"resource": "pods"}
        assert metrics.registry.get_sample_value("gpu_provisioner_cache_unreadable_objects", labels) == 1


async def test_an_event_that_is_too_large_does_not_end_the_watch() -> None:
    """Its object is known by its metadata until it is smaller, and a deletion is a deletion."""
    large = [event(kind, pod(7, 100 * KIB, version)) for kind, version in (("ADDED", "901"), ("MODIFIED", "902"))]
    gone = [event("ADDED", pod(8, 100 * KIB, "904")), event("DELETED", pod(8, 100 * KIB, "905"))]
    events = (*large, event("ADDED", pod(9, KIB, "903")), *gone, event("MODIFIED", pod(7, KIB, "906")))
    pods = Pods(KIB, events=events[:3])
    async with cached(pods) as (cache, _):
        await until(lambda: cache.get("tenant/p9"))
        seen = cache.get("tenant/p7")
        assert seen is not None
        assert (seen.metadata.resource_version, bool(seen.metadata.unreadable)) == ("902", True)
    assert len(pods.limits) == 1
    pods = Pods(KIB, events=events)
    async with cached(pods) as (cache, _):
        await until(lambda: cache.resource_version == "906")
        assert sorted(one.metadata.name for one in cache.items()) == ["p0", "p7", "p9"]
        assert not any(one.metadata.unreadable for one in cache.items())
    assert len(pods.limits) == 1


async def test_definitions_of_others_are_never_read() -> None:
    """Each object of a cache by name has requests of its own, and is current by itself."""
    kind, synced = "CustomResourceDefinition", list[bool]()

    async def serve(request: web.Request) -> web.StreamResponse:
        name = request.query["fieldSelector"].removeprefix("metadata.name=")
        if request.query.get("watch"):
            response = web.StreamResponse(headers={"Content-Type": "application/json"})
            await response.prepare(request)
            await request[OVER].wait()
            return response
        items = [obj(kind, name)] if name == "a.example.com" else []
        return web.json_response({"kind": f"{kind}List", "metadata": {"resourceVersion": "9"}, "items": items})

    async with kube_server() as server, kube_client(server) as kube:
        server.otherwise = serve
        metrics = Metrics()
        found = NamedReflectors(
            kube, CRDS, ("a.example.com", "b.example.com"), rng=seeded(), metrics=metrics.reflector("crds")
        )
        found.add_event_handler(lambda *_: None, on_synced=lambda: synced.append(found.synced))
        task = asyncio.create_task(found.run())
        try:
            await until(lambda: synced)
            assert synced == [True]
            assert (found.get("a.example.com") is None, found.get("b.example.com")) == (False, None)
            assert found.last_error is None
            assert metrics.registry.get_sample_value("gpu_provisioner_cache_objects", {"resource": "crds"}) == 1
        finally:
            task.cancel()
            server.over.set()
            await asyncio.gather(task, return_exceptions=True)
