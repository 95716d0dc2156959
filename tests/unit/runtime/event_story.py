"""A recorder of Events against a fake API, on virtual time."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import aiohttp
from aiohttp import web
from kubernetes_asyncio.client import Configuration

from controllers.model.steps import Event
from provisioner.api.meta import ObjectMeta
from provisioner.api.nodeclaim import NodeClaim
from provisioner.runtime.connection import client_over
from provisioner.runtime.events import EventRecorder
from provisioner.runtime.kube import Kube
from provisioner.runtime.metrics import Metrics
from provisioner.simulator.loop import VirtualClock
from provisioner.simulator.network import MemoryConnector, Network

from .virtual import virtually

EPOCH = datetime(2026, 3, 1, tzinfo=UTC)
CLAIM = NodeClaim(metadata=ObjectMeta(name="ws1", uid="u1", resource_version="7"))


def normal(reason: str, message: str, repeat_seconds: float = 0.0, apart_seconds: float = 0.0) -> Event:
    return Event(
        type="Normal", reason=reason, message=message, repeat_seconds=repeat_seconds, apart_seconds=apart_seconds
    )


class EventsApi:
    """Event objects by namespace and name, with 409 for an existing name and 404 for an unknown one."""

    def __init__(self) -> None:
        self.events: dict[str, dict[str, Any]] = {}
        self.calls: list[str] = []
        self.refuse_with: list[tuple[int, dict[str, str]]] = []

    async def handle(self, request: web.Request) -> web.StreamResponse:
        _, _, _, _, namespace, _, *rest = request.path.split("/")
        body = await request.json() if request.method != "GET" else None
        name = rest[0] if rest else body["metadata"]["name"]
        self.calls.append(request.method)
        if self.refuse_with:
            code, headers = self.refuse_with.pop(0)
            return web.json_response({"kind": "Status", "code": code, "reason": "No"}, status=code, headers=headers)
        key = f"{namespace}/{name}"
        if (request.method == "POST") == (key in self.events):
            code, reason = (409, "AlreadyExists") if key in self.events else (404, "NotFound")
            status = {"kind": "Status", "code": code, "reason": reason, "details": {"name": name}}
            return web.json_response(status, status=code)
        if body is not None:
            self.events[key] = self.events.get(key, {}) | body | {"kind": "Event"}
            self.events[key].setdefault("metadata", {})["name"] = name
        return web.json_response(self.events[key])


class Story:
    def __init__(self) -> None:
        self.api = EventsApi()
        self.metrics = Metrics()
        self.kube: Kube

    def recorder(self, **options: Any) -> EventRecorder:
        clock = VirtualClock(asyncio.get_running_loop(), EPOCH)
        return EventRecorder(self.kube, clock, metrics=self.metrics.events(), **options)

    def counted(self, name: str) -> float:
        return self.metrics.registry.get_sample_value(f"gpu_provisioner_events_{name}_total") or 0.0


@asynccontextmanager
async def scene() -> AsyncIterator[tuple[Story, EventRecorder]]:
    story = Story()
    wire = Network(asyncio.get_running_loop())
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", story.api.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
    await runner.setup()
    assert runner.server is not None
    wire.servers["kube.sim"] = runner.server
    async with aiohttp.ClientSession(connector=MemoryConnector(wire, "us"), trust_env=False) as session:
        story.kube = Kube(client_over(session, Configuration(host="http://kube.sim"), version="0"))
        async with asyncio.TaskGroup() as group:
            recorder = story.recorder()
            task = group.create_task(recorder.run())
            yield story, recorder
            task.cancel()
    await runner.cleanup()


def run(story: Callable[[Story, EventRecorder], Any]) -> None:
    async def main() -> None:
        async with scene() as (it, recorder):
            await story(it, recorder)

    virtually(main)
