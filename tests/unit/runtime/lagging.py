"""A Reflector whose watch is behind the writes of its own client."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from provisioner.api.meta import ObjectMeta
from provisioner.api.node import Node
from provisioner.runtime.decoding import ObjectList
from provisioner.runtime.kube_errors import KubeError
from provisioner.runtime.own_writes import GONE_SECONDS
from provisioner.runtime.reflector import Reflector, State
from provisioner.runtime.resources import NODES
from provisioner.runtime.watch import EventType, WatchEvent
from provisioner.runtime.write_through import WriteThrough

from .kube_server import seeded

BACKWARD = ["list a3 @3"] * 4


class Server:
    """The client of an API server that delivers what a test states."""

    def __init__(self) -> None:
        self.caches = WriteThrough()
        self.lists: asyncio.Queue[ObjectList[Node]] = asyncio.Queue()
        self.events: asyncio.Queue[WatchEvent[Node] | None] = asyncio.Queue()

    async def list(self, *_: object, **__: object) -> ObjectList[Node]:
        return await self.lists.get()

    async def watch(self, *_: object, on_open: Callable[[], None], **__: object) -> AsyncIterator[WatchEvent[Node]]:
        on_open()
        while (found := await self.events.get()) is not None:
            yield found
        raise KubeError(410, "Expired", "too old resource version")


def node(text: str) -> Node:
    """`a5`, `a5'`."""
    name, version = text[0], text[1:].rstrip("'")
    return Node(metadata=ObjectMeta(name=name, uid=name + "'" * text.count("'"), resource_version=version))


def shown(one: Node | None) -> str:
    return "" if one is None else one.name + one.metadata.resource_version + "'" * one.metadata.uid.count("'")


class Scene:
    """A cache, what its handlers got, and the moment."""

    def __init__(self) -> None:
        self.server, self.shown_to, self.delivered, self.now = Server(), list[str](), list[str](), 0.0
        made: Any = Reflector(self.server, NODES, rng=seeded(), indexes={}, base_seconds=0.0, cap_seconds=0.0)  # type: ignore[arg-type]
        made.add_event_handler(self._changed, on_delivered=lambda one: self.delivered.append(shown(one)))
        made._now = lambda: self.now
        self.cache: Reflector[Node] = made

    def _changed(self, old: Node | None, new: Node | None) -> None:
        self.shown_to.append(f"{shown(old)}→{shown(new)}")

    async def play(self, what: str) -> None:
        """`answer a5`, `gone a`, `list a5 b1 @7`, `bookmark @7`, `wait`, `reset`, or an event such as `MODIFIED a5`."""
        kind, *about = what.split()
        match kind:
            case "answer":
                self.server.caches.written(NODES, node(about[0]))
            case "gone":
                self.cache.removed(about[0][0], about[0])
            case "wait":
                self.now += GONE_SECONDS
            case "reset":
                self.cache.reset()
                self.shown_to.clear()
            case "list":
                *items, version = about
                self.server.lists.put_nowait(ObjectList(tuple(map(node, items)), version[1:]))
                if self.cache.state is State.WATCHING:
                    self.server.events.put_nowait(None)
            case "bookmark":
                self.server.events.put_nowait(WatchEvent(EventType.BOOKMARK, None, about[0][1:]))
            case _:
                found = node(about[0])
                self.server.events.put_nowait(WatchEvent(EventType(kind), found, found.metadata.resource_version))
        for _ in range(20):
            await asyncio.sleep(0)


@asynccontextmanager
async def scene() -> AsyncIterator[Scene]:
    async with asyncio.TaskGroup() as group:
        made = Scene()
        task = group.create_task(made.cache.run())
        await asyncio.sleep(0)
        yield made
        assert not task.done()
        task.cancel()
