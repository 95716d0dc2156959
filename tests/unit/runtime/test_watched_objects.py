"""Caches of resources that rules name at run time: they take few connections and little memory, whatever is named."""

import asyncio
from typing import Any

import msgspec
import pytest
from aiohttp import web
from kubernetes_asyncio.client import Configuration

from provisioner.api.byte_budget import ByteBudget
from provisioner.runtime.connection import _session, client_over
from provisioner.runtime.kube import Kube
from provisioner.runtime.resources import NODES
from provisioner.runtime.watched_objects import WATCHES_MAX, Watched, WatchedObject, WatchedObjects, reduced

from .kube_server import OVER, kube_server, obj, seeded

RULES = 104
CONDITIONS = frozenset({("spec", "nodeName"), ("status", "conditions")})


@pytest.mark.asyncio
async def test_watches_leave_connections_for_requests() -> None:
    """With the production session: some rules are watched, the others are reported, and a GET is answered."""
    watches: list[str] = []
    selected: list[str] = []

    async def serve(request: web.Request) -> web.StreamResponse:
        if request.query.get("watch"):
            watches.append(request.query["labelSelector"])
            selected.append(request.query.get("fieldSelector", ""))
            response = web.StreamResponse(headers={"Content-Type": "application/json"})
            await response.prepare(request)
            await request[OVER].wait()
            return response
        if request.method == "POST":
            return web.json_response({"kind": "SelfSubjectAccessReview", "status": {"allowed": True}}, status=201)
        if request.path == "/api/v1":
            pods = {"name": "pods", "kind": "Pod", "namespaced": True}
            return web.json_response({"kind": "APIResourceList", "resources": [pods]})
        if request.path == "/api/v1/pods":
            selected.append(request.query.get("fieldSelector", ""))
            return web.json_response({"kind": "PodList", "metadata": {"resourceVersion": "1"}, "items": []})
        return web.json_response(obj("Node", "n"))

    reported: list[Watched] = []
    async with kube_server() as server, _session(True) as session:
        server.otherwise = serve
        kube = Kube(client_over(session, Configuration(host=server.url), version="0"))
        objects = WatchedObjects(kube, rng=seeded(), on_object=lambda *_: None, on_problem=reported.append)
        rules = [Watched(version="v1", resource="pods", label_selector=f"app=rule-{n}") for n in range(RULES)]
        objects.use((one, CONDITIONS) for one in rules)
        assert sorted(map(rules.index, reported)) == [*range(WATCHES_MAX, RULES)]
        assert "readiness rules name more than 32 resources" in objects.problem(rules[-1])
        task = asyncio.create_task(objects.run())
        try:
            async with asyncio.timeout(20):
                while len(watches) < WATCHES_MAX:  # noqa: ASYNC110 - a request has no event of its own
                    await asyncio.sleep(0.01)
                assert (await kube.get(NODES, "n")).name == "n"
            assert sorted(watches) == sorted(one.label_selector for one in rules[:WATCHES_MAX])
            assert {*selected} == {""}
            selected.clear()
            named = Watched(version="v1", resource="pods", label_selector=rules[-1].label_selector, name="one")
            objects.use([(named, CONDITIONS)])
            async with asyncio.timeout(20):
                while named.label_selector not in watches:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            # List and watch select the object that the rule names.
            assert selected == ["metadata.name=one"] * 2
        finally:
            task.cancel()
            server.over.set()
            await asyncio.gather(task, return_exceptions=True)


def decoded(size: int = 4000, **status: Any) -> WatchedObject:
    meta = {"name": "p", "uid": "u", "labels": {"app": "a"}, "annotations": {"long": "x" * size}, "finalizers": ["f"]}
    body = {
        "metadata": meta,
        "spec": {"nodeName": "n", "containers": [{"env": "x" * size}]},
        "status": {"conditions": [{"type": "Ready", "status": "True"}], "podIP": "10.0.0.1", **status},
    }
    return msgspec.json.decode(msgspec.json.encode(body), type=WatchedObject)


def test_only_the_fields_of_rules_are_kept() -> None:
    """Nothing else of a pod of several kilobytes stays in memory."""
    found = reduced(decoded(), CONDITIONS, ByteBudget())
    assert found.document()["spec"] == {"nodeName": "n"}
    assert found.document()["status"] == {"conditions": [{"type": "Ready", "status": "True"}]}
    assert found.metadata.finalizers == ("f",)
    assert len(msgspec.json.encode(found.document())) < 300
    labels = reduced(decoded(), frozenset({("metadata", "labels", "app")}), ByteBudget())
    assert (labels.metadata.labels, dict(labels.metadata.annotations), labels.kept) == ({"app": "a"}, {}, {})


def test_finalizers_count() -> None:
    """The API server bounds neither their number nor, but for the size of an object, their bytes."""
    found = decoded()
    many = tuple(f"example.com/{number:06}" for number in range(20_000))
    kept = reduced(
        msgspec.structs.replace(found, metadata=msgspec.structs.replace(found.metadata, finalizers=many)),
        CONDITIONS,
        ByteBudget(),
    )
    assert len(msgspec.json.encode(kept.document())) < 1000
    assert "at most 65,536 are kept of one object" in kept.metadata.unreadable[0]


def test_what_is_kept_is_bounded_in_bytes() -> None:
    """One object by itself, and large objects together as long as they are kept; small ones always are."""
    large = [{"type": "Ready", "message": "x" * 5000}]
    budget = ByteBudget(each=6000, total=11000)
    kept = [reduced(decoded(conditions=large), CONDITIONS, budget) for _ in range(3)]
    assert [bool(one.metadata.unreadable) for one in kept] == [False, False, True]
    assert kept[-1].kept == {}
    assert not reduced(decoded(), CONDITIONS, budget).metadata.unreadable
    kept.clear()
    assert budget.used == 0
    assert not reduced(decoded(conditions=large), CONDITIONS, budget).metadata.unreadable
    huge = reduced(decoded(conditions=[{"message": "x" * 7000}]), CONDITIONS, budget)
    assert "at most 6,000 are kept of one object" in huge.metadata.unreadable[0]
